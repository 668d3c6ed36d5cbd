"""`torch.accelerator`: the GPU, whatever its maker. Here it can only be NVIDIA's."""

from __future__ import annotations

from typing import Any

from edutorch import cuda
from edutorch.backends.device import device

__all__ = [
    "current_accelerator", "current_device_index", "device_count", "empty_cache", "is_available",
    "memory_allocated", "memory_reserved", "set_device_index", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Say whether there is a GPU that can be used.

    >>> edutorch.accelerator.is_available() == cuda.is_available()
    True
    """
    return cuda.is_available()


def device_count() -> int:
    """Return how many there are."""
    return cuda.device_count()


def current_accelerator(check_available: bool = False) -> device | None:
    """Return the device to send tensors to, None where there is no GPU."""
    return device("cuda") if cuda.is_available() else None


def current_device_index() -> int:
    """Return the number of the GPU in use."""
    return cuda.current_device()


def set_device_index(device: Any, /) -> None:
    """Choose the GPU that is used from now on."""
    cuda.set_device(device)


def synchronize(device: Any = None, /) -> None:
    """Wait until the GPU has done what it was told."""
    cuda.synchronize(device)


def empty_cache() -> None:
    """Give memory that is kept for later tensors back to the GPU; nothing where there is none."""
    cuda.empty_cache()


def memory_allocated(device: Any = None, /) -> int:
    """Return how many bytes tensors use on the GPU."""
    return cuda.memory_allocated(device)


def memory_reserved(device: Any = None, /) -> int:
    """Return how many bytes are used by tensors or kept for later ones."""
    return cuda.memory_reserved(device)
