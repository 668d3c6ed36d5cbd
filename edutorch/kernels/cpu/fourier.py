"""Fourier transforms of many rows by SciPy, which transforms several of them at once.

NumPy's transforms take one row after the other; SciPy's fill a vector register with a sample of
each of four or eight rows. Where SciPy is not installed the definition stays in use.

SciPy's own threads are not used. It ends them when the process forks, and begins them anew; if a
second fork comes soon after, as with the workers of a DataLoader, it can wait for one for ever.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends.kernel_registry import as_ndarray
from ...ops import fft

__all__ = ["from_half_spectrum", "half_spectrum"]


def keep_definition(*arguments: Any) -> None:
    """Handle no case."""


@fft.half_spectrum.kernel("cpu", min_size=4096)
def half_spectrum() -> Callable[..., Any]:
    """Make the transform of real rows."""
    if importlib.util.find_spec("scipy") is None:
        return keep_definition
    from scipy.fft import rfft

    def run(input: np.ndarray, dim: int, norm: str) -> Any:
        if not input.size or input.dtype.char not in "fd":
            return None
        return rfft(as_ndarray(input), axis=dim, norm=norm)

    return run


@fft.from_half_spectrum.kernel("cpu", min_size=4096)
def from_half_spectrum() -> Callable[..., Any]:
    """Make the inverse of the transform of real rows."""
    if importlib.util.find_spec("scipy") is None:
        return keep_definition
    from scipy.fft import irfft

    def run(input: np.ndarray, n: int, dim: int, norm: str) -> Any:
        if not input.size or input.dtype.char not in "FD" or n < 1:
            return None
        return irfft(as_ndarray(input), n, dim, norm)

    return run
