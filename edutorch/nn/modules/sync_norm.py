"""Batch norm over the batches of several processes."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...errors import ShapeError
from ..functional.op_decorators import SettingError
from .module import Module
from .norm import BatchNorm

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(BatchNorm):
    __doc__ = f"""Batch norm whose mean and variance are those of all processes' batches together.

    In a single process, which is all that there is so far, it is batch norm of (n, c, …).

    {BatchNorm.__doc__}
        process_group: whose batches; kept for the distributed wing.

    >>> nn.SyncBatchNorm(3)(randn(5, 3, 4)).shape
    torch.Size([5, 3, 4])
    """

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, process_group: Any = None,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check(self, input: Tensor) -> None:
        shape = tuple(input.shape)
        if len(shape) < 2:
            raise SettingError(
                "SyncBatchNorm", f"expected at least 2D input (got {len(shape)}D input)",
                {"input": shape},
            )  # fmt: skip
        if shape[1] != self.num_features:
            raise ShapeError(
                "SyncBatchNorm",
                f"expected {self.num_features} channels along axis 1, got {shape[1]}",
                {"input": shape},
            )

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Return the module with a SyncBatchNorm in place of each batch norm in it.

        Parameters and running averages are the same objects as before.

        >>> nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm1d(2)))[0].eps
        1e-05
        """
        made = module
        if isinstance(module, BatchNorm):
            made = cls(
                module.num_features, module.eps, module.momentum, module.affine,
                module.track_running_stats, process_group, bias=module.bias is not None,
            )  # fmt: skip
            made._parameters.update(module._parameters)
            made._buffers.update(module._buffers)
            made.training = module.training
        for name, child in list(module.named_children()):
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made
