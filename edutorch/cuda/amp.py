"""Deprecated names of mixed precision on a GPU: use `amp.autocast("cuda")` instead."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from .. import amp, dtypes

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(amp.autocast):
    """The old form of `amp.autocast("cuda", ...)`."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: dtypes.dtype = dtypes.float16,
        cache_enabled: bool = True,
    ) -> None:
        deprecated("autocast(args...)", "autocast('cuda', args...)")
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """The old form of `amp.GradScaler("cuda", ...)`."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        deprecated("GradScaler(args...)", "GradScaler('cuda', args...)")
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, cast_inputs: dtypes.dtype | None = None
) -> Any:
    """The old form of `amp.custom_fwd(..., device_type="cuda")`."""
    deprecated("custom_fwd(args...)", "custom_fwd(args..., device_type='cuda')")
    make = functools.partial(amp.custom_fwd, device_type="cuda", cast_inputs=cast_inputs)
    return make if fwd is None else make(fwd)


def custom_bwd(bwd: Callable[..., Any] | None = None) -> Any:
    """The old form of `amp.custom_bwd(..., device_type="cuda")`."""
    deprecated("custom_bwd(args...)", "custom_bwd(args..., device_type='cuda')")
    make = functools.partial(amp.custom_bwd, device_type="cuda")
    return make if bwd is None else make(bwd)


def deprecated(old: str, new: str) -> None:
    text = f"`cuda.amp.{old}` is deprecated. Please use `amp.{new}` instead."
    warnings.warn(text, FutureWarning, 3)
