"""Modules on several devices, where PyTorch keeps them: `torch.nn.parallel`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import EdutorchError
from .modules.module import Module

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
]


class NoProcessesError(EdutorchError, RuntimeError):
    """There are no other processes to train with."""


class DistributedDataParallel(Module):
    """A module that is trained by several processes at once: not in this version.

    Scripts that train in a single process import it, and ask whether a model is one.

    Raises: RuntimeError: always, when one is made.

    >>> isinstance(nn.Linear(2, 1), nn.parallel.DistributedDataParallel)
    False
    """

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        raise NoProcessesError(
            "DistributedDataParallel", "there is only one process: there is no process group yet",
            hint="train the module itself; start the script without torchrun",
        )  # fmt: skip


class DataParallel(Module):
    """Calls a module: on one device there is nothing to share out.

    PyTorch cuts the batch over several GPUs of one process here, and so it advises against
    it; without a GPU its `DataParallel` does what this one does. The keys of the
    `state_dict` begin with "module.", as there.

    >>> nn.DataParallel(nn.Identity())(tensor([1.0]))
    tensor([1.])
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None,
        dim: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.module, self.dim = module, dim
        self.device_ids = list(device_ids or [])
        self.output_device = output_device

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self.module(*inputs, **kwargs)
