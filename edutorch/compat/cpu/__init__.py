"""`torch.cpu`: the CPU, with the functions that PyTorch has for every device type."""

from __future__ import annotations

from typing import Any

from edutorch.cpu import amp

__all__ = [
    "amp", "current_device", "device_count", "is_available", "is_initialized", "set_device",
    "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Return True: there is always a CPU.

    >>> cpu.is_available()
    True
    """
    return True


def is_initialized() -> bool:
    """Return True: the CPU needs no initialization."""
    return True


def device_count() -> int:
    """Return 1: all cores are one device.

    >>> cpu.device_count()
    1
    """
    return 1


def current_device() -> str:
    """Return the name of the CPU.

    >>> cpu.current_device()
    'cpu'
    """
    return "cpu"


def set_device(device: Any) -> None:
    """Do nothing: there is only one CPU device."""


def synchronize(device: Any = None) -> None:
    """Do nothing: work on the CPU is synchronous."""
