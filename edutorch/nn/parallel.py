"""Modules on several devices, where PyTorch keeps them: `torch.nn.parallel`."""

from __future__ import annotations

from typing import Any

from ..errors import EdutorchError
from .modules.module import Module
from .modules.old_names import DataParallel

__all__ = ["DataParallel", "DistributedDataParallel"]


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
