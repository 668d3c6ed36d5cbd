"""`cpu.amp` and `cuda.amp`: the old forms of autocast and GradScaler, for one device."""

from __future__ import annotations

import warnings

from .. import dtypes
from .autocast_mode import autocast
from .grad_scaler import GradScaler


def warn_deprecated(device: str, old: str, new: str) -> None:
    """Warn at the caller of the deprecated function."""
    text = f"`{device}.amp.{old}` is deprecated. Please use `amp.{new}` instead."
    warnings.warn(text, FutureWarning, 3)


def make_deprecated_names(
    device: str, half: dtypes.dtype, module: str
) -> tuple[type[autocast], type[GradScaler]]:
    """Make the classes of one device.

    Args:
        device: the type of the device.
        half: the default dtype of its autocast.
        module: the name of the module that holds them, where pickle looks for them.
    """

    class DeprecatedAutocast(autocast):
        def __init__(
            self, enabled: bool = True, dtype: dtypes.dtype = half, cache_enabled: bool = True
        ) -> None:
            warn_deprecated(device, "autocast(args...)", f"autocast('{device}', args...)")
            super().__init__(device, dtype, enabled, cache_enabled)

    class DeprecatedGradScaler(GradScaler):
        def __init__(
            self,
            init_scale: float = 2.0**16,
            growth_factor: float = 2.0,
            backoff_factor: float = 0.5,
            growth_interval: int = 2000,
            enabled: bool = True,
        ) -> None:
            warn_deprecated(device, "GradScaler(args...)", f"GradScaler('{device}', args...)")
            super().__init__(
                device, init_scale, growth_factor, backoff_factor, growth_interval, enabled
            )

    for name, cls in (("autocast", DeprecatedAutocast), ("GradScaler", DeprecatedGradScaler)):
        cls.__name__ = cls.__qualname__ = name
        cls.__module__ = module
        cls.__doc__ = f'The old form of `amp.{name}("{device}", ...)`.'
    return DeprecatedAutocast, DeprecatedGradScaler
