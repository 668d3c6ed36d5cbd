"""Deprecated names of mixed precision on a CPU: use `amp.autocast("cpu")` instead."""

from __future__ import annotations

import warnings

from edutorch import amp, dtypes

__all__ = ["GradScaler", "autocast"]


class autocast(amp.autocast):
    """The old form of `amp.autocast("cpu", ...)`."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: dtypes.dtype = dtypes.bfloat16,
        cache_enabled: bool = True,
    ) -> None:
        deprecated("autocast")
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """The old form of `amp.GradScaler("cpu", ...)`."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        deprecated("GradScaler")
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def deprecated(name: str) -> None:
    text = (
        f"`cpu.amp.{name}(args...)` is deprecated. Please use `amp.{name}('cpu', args...)` instead."
    )
    warnings.warn(text, FutureWarning, 3)
