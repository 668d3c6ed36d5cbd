"""Data parallelism: `torch.nn.parallel`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from .common_types import DeviceLike
from .modules.module import Module

__all__ = [
    "DataParallel",
    "DistributedDataParallel",  # noqa: F822  (loaded by __getattr__)
]


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


def __getattr__(name: str) -> Any:
    """Load `DistributedDataParallel`, which is built on layers above this one."""
    if name == "DistributedDataParallel":
        return getattr(import_module("edutorch.distributed.data_parallel"), name)
    raise AttributeError(f"module 'edutorch.nn.parallel' has no attribute {name!r}", name=name)
