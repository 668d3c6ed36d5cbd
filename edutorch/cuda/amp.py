"""Deprecated names of mixed precision on a GPU: use `amp.autocast("cuda")` instead."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import amp, dtypes
from ..amp.deprecated_names import make_deprecated_names, warn_deprecated

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


autocast, GradScaler = make_deprecated_names("cuda", dtypes.float16, __name__)


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, cast_inputs: dtypes.dtype | None = None
) -> Any:
    """The old form of `amp.custom_fwd(..., device_type="cuda")`."""
    warn_deprecated("cuda", "custom_fwd(args...)", "custom_fwd(args..., device_type='cuda')")
    make = functools.partial(amp.custom_fwd, device_type="cuda", cast_inputs=cast_inputs)
    return make if fwd is None else make(fwd)


def custom_bwd(bwd: Callable[..., Any] | None = None) -> Any:
    """The old form of `amp.custom_bwd(..., device_type="cuda")`."""
    warn_deprecated("cuda", "custom_bwd(args...)", "custom_bwd(args..., device_type='cuda')")
    make = functools.partial(amp.custom_bwd, device_type="cuda")
    return make if bwd is None else make(bwd)
