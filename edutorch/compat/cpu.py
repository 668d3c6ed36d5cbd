"""`torch.cpu`: the CPU, with the functions that PyTorch has for every device type."""

from __future__ import annotations

import warnings

from edutorch import amp as mixed_precision
from edutorch import dtypes
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


class autocast(mixed_precision.autocast):
    """The old form of `amp.autocast("cpu", ...)`."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: dtypes.dtype = dtypes.bfloat16,
        cache_enabled: bool = True,
    ) -> None:
        warn_deprecated("autocast")
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(mixed_precision.GradScaler):
    """The old form of `amp.GradScaler("cpu", ...)`."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warn_deprecated("GradScaler")
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def warn_deprecated(name: str) -> None:
    text = (
        f"`cpu.amp.{name}(args...)` is deprecated. Please use `amp.{name}('cpu', args...)` instead."
    )
    warnings.warn(text, FutureWarning, 3)


# A path, though empty, makes a package of this file: `import torch.cpu.amp` asks for one.
__path__: list[str] = []
amp = add_module(
    "cpu.amp", "Deprecated names of mixed precision on a CPU.", autocast, GradScaler
)  # fmt: skip
for _name in ("autocast", "GradScaler"):
    vars(amp)[_name].__module__ = amp.__name__  # where pickle looks for them
