"""The CPU, with the functions that PyTorch has for every kind of device."""

from __future__ import annotations

from typing import Any

from edutorch.cpu import amp

__all__ = [
    "amp", "current_device", "device_count", "is_available", "is_initialized", "set_device",
    "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Say whether there is a CPU.

    >>> cpu.is_available()
    True
    """
    return True


def is_initialized() -> bool:
    """Say whether the CPU can be used already: always."""
    return True


def device_count() -> int:
    """Return how many CPUs there are for tensors: one, whatever its cores.

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
    """Do nothing: there is only one CPU."""


def synchronize(device: Any = None) -> None:
    """Do nothing: a CPU has done what it was asked for."""
