"""`torch.accelerator`: the GPU, independent of its vendor. Only NVIDIA's are supported."""

from __future__ import annotations

from typing import Any

from edutorch import cuda
from edutorch.backends.device import device

__all__ = [
    "current_accelerator", "current_device_index", "device_count", "empty_cache", "is_available",
    "memory_allocated", "memory_reserved", "set_device_index", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Return True if a GPU can be used.

    >>> edutorch.accelerator.is_available() == cuda.is_available()
    True
    """
    return cuda.is_available()


def device_count() -> int:
    """Return the number of GPUs."""
    return cuda.device_count()


def current_accelerator(check_available: bool = False) -> device | None:
    """Return the GPU device, or None if there is no GPU."""
    return device("cuda") if cuda.is_available() else None


def current_device_index() -> int:
    """Return the index of the current GPU."""
    return cuda.current_device()


def set_device_index(device: Any, /) -> None:
    """Set the current GPU."""
    cuda.set_device(device)


def synchronize(device: Any = None, /) -> None:
    """Wait until all work on the GPU is done."""
    cuda.synchronize(device)


def empty_cache() -> None:
    """Release cached memory that is not in use; does nothing without a GPU."""
    cuda.empty_cache()


def memory_allocated(device: Any = None, /) -> int:
    """Return the bytes that tensors use on the GPU."""
    return cuda.memory_allocated(device)


def memory_reserved(device: Any = None, /) -> int:
    """Return the bytes that are in use or cached on the GPU."""
    return cuda.memory_reserved(device)
