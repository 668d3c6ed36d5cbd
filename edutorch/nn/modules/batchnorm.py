"""Batch normalization layers: each channel gets mean 0 and variance 1 over the batch."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, ClassVar

from ...core.tensor import Tensor
from ...dtypes import int64
from ...errors import ShapeError, ShapeValueError
from ...ops import ones, tensor, zeros
from .. import functional as F
from ..common_types import DeviceLike, DTypeLike
from ..functional.op_decorators import SettingError
from ..parameter import UninitializedBuffer, UninitializedParameter
from .lazy import LazyModuleMixin, materialize_lazy
from .module import Module
from .normalization import AffineNorm
from .state_dict import own_state

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d",
    "LazyBatchNorm3d", "SyncBatchNorm",
]  # fmt: skip


class _NormBase(AffineNorm):
    """Base of batch norm and instance norm: weight, bias and running statistics."""

    _version: ClassVar[int] = 2
    axes: tuple[int, ...] = ()
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, device: DeviceLike = None,
        dtype: DTypeLike = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.register_affine((num_features,), affine, affine and bias, device, dtype)
        is_tracked = track_running_stats
        for name, make in (("running_mean", zeros), ("running_var", ones)):
            statistic = make(num_features, device=device, dtype=dtype) if is_tracked else None
            self.register_buffer(name, statistic)
        counter = tensor(0, dtype=int64, device=device) if is_tracked else None
        self.register_buffer("num_batches_tracked", counter)

    def reset_parameters(self) -> None:
        """Reset the running statistics; weight becomes 1 and bias 0."""
        self.reset_running_stats()
        super().reset_parameters()

    def reset_running_stats(self) -> None:
        """Reset the running mean to 0 and the running variance to 1."""
        if self.track_running_stats:
            self.running_mean.zero_()  # type: ignore[union-attr]
            self.running_var.fill_(1)  # type: ignore[union-attr]
            self.num_batches_tracked.zero_()  # type: ignore[union-attr]

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *others: Any
    ) -> None:
        """Load files of version 1 too, which lack `num_batches_tracked`."""
        key = f"{prefix}num_batches_tracked"
        counter = self.num_batches_tracked
        if local_metadata.get("version", 1) < 2 and counter is not None:
            state_dict.setdefault(key, counter)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)

    def _check(self, input: Tensor) -> None:
        shape = tuple(input.shape)
        name = type(self).__name__
        if len(shape) not in self.axes:
            expected = " or ".join(f"{axis}D" for axis in self.axes)
            hint = "a batch of one is x.unsqueeze(0)" if len(shape) + 1 in self.axes else None
            if len(shape) == 2:
                hint = "features without an image, (n, c), are for BatchNorm1d"
            raise ShapeValueError(
                name, f"expected {expected} input (got {len(shape)}D input)", {"input": shape}, hint
            )
        if shape[1] != self.num_features and not self._only_warns(shape[1]):
            hint = None
            if shape[-1] == self.num_features:
                order = "x.permute(0, 3, 1, 2)" if len(shape) == 4 else "x.movedim(-1, 1)"
                hint = f"channels come along axis 1: {order}"
            raise ShapeError(
                name, f"expected {self.num_features} channels along axis 1, got {shape[1]}",
                {"input": shape}, hint,
            )  # fmt: skip

    def _only_warns(self, channels: int) -> bool:
        """Whether another number of channels than `num_features` is only worth a warning."""
        return False

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_NormBase):
    """Base of the batch norm layers.

    In training, each channel is normalized by the mean and variance of the batch, and running
    averages of these are kept; in evaluation the averages are used. The result is scaled by
    `weight` and shifted by `bias`.

    Args:
        num_features: the number of channels.
        eps: added to the variance, for a finite division.
        momentum: the weight of the new batch in the running averages; None: a cumulative average.
        affine: whether the layer has a `weight` and, unless `bias=False`, a `bias`.
        track_running_stats: whether to keep running averages; without them the statistics of the
            batch are used in evaluation, too.

    Paper: Ioffe and Szegedy, Batch normalization, 2015.
    """

    def forward(self, input: Tensor) -> Tensor:
        self._check(input)
        momentum = self._count_batch()
        uses_batch_stats = self.training or self.running_mean is None
        running_stats = (
            (self.running_mean, self.running_var)
            if not uses_batch_stats or self.training
            else (None, None)
        )
        return F.batch_norm(
            input, *running_stats, self.weight, self.bias, uses_batch_stats, momentum, self.eps
        )

    def _count_batch(self) -> float:
        """Count a batch, in training, and return its weight in the running averages."""
        # 0 where it is not used: in evaluation, or without running averages.
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            # The weight 1/n of the n-th batch makes the average one of all batches.
            if self.momentum is None:
                momentum = 1 / self.num_batches_tracked.item()
        return momentum


class BatchNorm1d(_BatchNorm):
    __doc__ = f"""Batch norm of features (n, c) or sequences (n, c, l).

    {_BatchNorm.__doc__}
    >>> nn.BatchNorm1d(3)(randn(5, 3)).shape
    torch.Size([5, 3])
    """

    axes = (2, 3)


class BatchNorm2d(_BatchNorm):
    __doc__ = f"""Batch norm of images (n, c, h, w).

    {_BatchNorm.__doc__}
    >>> nn.BatchNorm2d(3)(randn(5, 3, 4, 4)).shape
    torch.Size([5, 3, 4, 4])
    """

    axes = (4,)


class BatchNorm3d(_BatchNorm):
    __doc__ = f"""Batch norm of volumes (n, c, d, h, w).

    {_BatchNorm.__doc__}
    >>> nn.BatchNorm3d(3)(randn(5, 3, 4, 4, 2)).shape
    torch.Size([5, 3, 4, 4, 2])
    """

    axes = (5,)


class SyncBatchNorm(_BatchNorm):
    __doc__ = f"""Batch norm over the batches of all processes together.

    In training, mean and variance are those of all ranks' batches, which may differ in size; the
    gradients, too. Without a process group, it is batch norm of (n, c, …).

    {_BatchNorm.__doc__}
        process_group: the processes whose batches are combined; None: all.

    >>> nn.SyncBatchNorm(3)(randn(5, 3, 4)).shape
    torch.Size([5, 3, 4])
    """

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, process_group: object | None = None,
        device: DeviceLike = None, dtype: DTypeLike = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def forward(self, input: Tensor) -> Tensor:
        distributed = sys.modules.get("edutorch.distributed")  # a layer above this one
        if not self.training or distributed is None or not distributed.is_initialized():
            return super().forward(input)
        group = distributed.group.WORLD if self.process_group is None else self.process_group
        if distributed.get_world_size(group) <= 1:
            return super().forward(input)
        self._check(input)
        return import_module("edutorch.distributed.nn.sync_batch_norm").sync_batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias,
            self._count_batch(), self.eps, group,
        )  # fmt: skip

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
    def convert_sync_batchnorm(cls, module: Module, process_group: object | None = None) -> Module:
        """Return the module with each batch norm replaced by a SyncBatchNorm.

        Parameters and buffers stay the same objects.

        >>> nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm1d(2)))[0].eps
        1e-05
        """
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(
                module.num_features, module.eps, module.momentum, module.affine,
                module.track_running_stats, process_group, bias=module.bias is not None,
            )  # fmt: skip
            # The same tensors, so that an optimizer made before still trains them.
            converted._parameters.update(module._parameters)
            converted._buffers.update(module._buffers)
            converted.training = module.training
        for name, child in list(module.named_children()):
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted


class _LazyNormBase(LazyModuleMixin):
    """Base of lazy batch and instance norms, which infer `num_features` from the first input.

    Unlike `InstanceNorm2d` and its relatives, the lazy ones have weight, bias and running
    averages by default, as in PyTorch.
    """

    num_features: int

    def __init__(
        self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: DeviceLike = None, dtype: DTypeLike = None, *,
        bias: bool = True,
    ) -> None:  # fmt: skip
        # Without parameters: their sizes are not known yet.
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine, self.track_running_stats = affine, track_running_stats
        factory_kwargs = {"device": device, "dtype": dtype}
        if affine:
            self.weight = UninitializedParameter(**factory_kwargs)
            if bias:
                self.bias = UninitializedParameter(**factory_kwargs)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**factory_kwargs)
            self.running_var = UninitializedBuffer(**factory_kwargs)
            self.num_batches_tracked = tensor(0, device=device)

    def reset_parameters(self) -> None:
        """Reinitialize the parameters, if they are materialized."""
        if not self.has_uninitialized_params() and self.num_features:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor) -> None:
        """Materialize parameters and buffers, one element per channel."""
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            for _, tensor in own_state(self):
                materialize_lazy(tensor, (self.num_features,))
            self.reset_parameters()
        elif not self.num_features:
            sizes = [tensor.shape[0] for _, tensor in own_state(self) if tensor.ndim]
            self.num_features = sizes[0] if sizes else input.shape[1]


class LazyBatchNorm1d(_LazyNormBase, BatchNorm1d):
    """A `BatchNorm1d` that infers `num_features` from its first input.

    >>> nn.LazyBatchNorm1d()(zeros(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNormBase, BatchNorm2d):
    """A `BatchNorm2d` that infers `num_features` from its first input.

    >>> nn.LazyBatchNorm2d()(zeros(2, 3, 4, 4)).shape
    torch.Size([2, 3, 4, 4])
    """

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNormBase, BatchNorm3d):
    """A `BatchNorm3d` that infers `num_features` from its first input.

    >>> nn.LazyBatchNorm3d()(zeros(2, 3, 4, 4, 4)).shape
    torch.Size([2, 3, 4, 4, 4])
    """

    cls_to_become = BatchNorm3d
