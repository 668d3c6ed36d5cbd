"""`torch.cpu`: the CPU, with the functions that PyTorch has for every device type."""

from __future__ import annotations

from edutorch import dtypes
from edutorch.amp.deprecated_names import make_deprecated_names
from edutorch.small_modules import add_module

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


def set_device(device: object) -> None:
    """Do nothing: there is only one CPU device."""


def synchronize(device: object = None) -> None:
    """Do nothing: work on the CPU is synchronous."""


# `cpu.amp`, deprecated in favour of `amp.autocast("cpu")` -----------------------------------------


autocast, GradScaler = make_deprecated_names("cpu", dtypes.bfloat16, f"{__name__}.amp")

# A path, though empty, makes a package of this file: `import torch.cpu.amp` asks for one.
__path__: list[str] = []
amp = add_module(
    "cpu.amp", "Deprecated names of mixed precision on a CPU.", autocast, GradScaler
)  # fmt: skip
