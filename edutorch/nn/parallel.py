"""Data parallelism: `torch.nn.parallel`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import EdutorchError
from .common_types import DeviceLike
from .modules.module import Module

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
]


class NoProcessesError(EdutorchError, RuntimeError):
    """There is no process group."""


class DistributedDataParallel(Module):
    """Training by several processes, which is not supported in this version.

    The class exists for single-process scripts that import it for `isinstance` checks.

    Raises: RuntimeError: always.

    >>> isinstance(nn.Linear(2, 1), nn.parallel.DistributedDataParallel)
    False
    """

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        raise NoProcessesError(
            "DistributedDataParallel", "there is only one process: there is no process group yet",
            hint="train the module itself; start the script without torchrun",
        )  # fmt: skip


class DataParallel(Module):
    """Call a module on a single device.

    PyTorch splits the batch over several GPUs; without a GPU its `DataParallel` does the same as
    this one. The keys of the `state_dict` begin with "module.", as in PyTorch.

    >>> nn.DataParallel(nn.Identity())(tensor([1.0]))
    tensor([1.])
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None,
        output_device: DeviceLike = None, dim: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.module, self.dim = module, dim
        self.device_ids = list(device_ids or [])
        self.output_device = output_device

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self.module(*inputs, **kwargs)
