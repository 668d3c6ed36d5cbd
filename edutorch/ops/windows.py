"""Window functions, such as `torch.hann_window`.

`symmetric` windows end as they begin. `periodic` ones omit the last sample, which is the first
of the next period: that is right for spectra, so it is the default here. The same
and more windows, symmetric by default, are in `edutorch.signal.windows`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import dtypes
from ..backends.numpy import Array, Namespace
from ..dtypes import DTypeLike
from ..errors import ArgumentError, DTypeError, ShapeError
from .creation import creation

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]


def sample_points(xp: Namespace, n: int, symmetric: bool) -> Array:
    """Return `n` sample points from 0 to 1; without the 1, unless `symmetric`."""
    return xp.arange(n) / max(n - 1 if symmetric else n, 1)


def sum_of_cosines(xp: Namespace, count: int, symmetric: bool, weights: Sequence[float]) -> Array:
    """Return w(t) = a₀ - a₁ cos(2πt) + a₂ cos(4πt) - …; a single sample is 1."""
    if count == 1:
        return xp.ones(1)
    t = sample_points(xp, count, symmetric)
    y = xp.zeros(count)
    for i, weight in enumerate(weights):
        y = y + (-1) ** i * weight * xp.cos(2 * math.pi * i * t)
    return y


def triangle(xp: Namespace, count: int, symmetric: bool) -> Array:
    """Return w(t) = 1 - |2t - 1|; a single sample is 1."""
    return xp.ones(1) if count == 1 else 1 - abs(2 * sample_points(xp, count, symmetric) - 1)


def kaiser_values(xp: Namespace, count: int, symmetric: bool, beta: float) -> Array:
    """Return w(t) = I₀(β √(1 - (2t - 1)²)) / I₀(β); a single sample is 1."""
    if count <= 1:
        return xp.ones(count)
    from_middle = 2 * sample_points(xp, count, symmetric) - 1
    inside = xp.maximum(1 - from_middle * from_middle, 0.0)
    return xp.i0(beta * xp.sqrt(inside)) / xp.i0(xp.full(1, float(beta)))


def window_dtype(name: str, count: int, dtype: DTypeLike) -> Any:
    """Return the dtype of a window of `count` samples.

    Raises: ShapeError: a negative count. DTypeError: not floating-point. TypeError: no integer.
    """
    result_dtype = dtypes.get_default_dtype() if dtype is None else dtypes.of(dtype)
    if not result_dtype.is_floating_point:
        raise DTypeError(name, f"expects floating point dtypes, got: {result_dtype}")
    if not hasattr(count, "__index__"):
        raise ArgumentError(name, f"window_length must be an integer, got {count!r}")
    if count < 0:
        raise ShapeError(name, f"requires non-negative window_length, got window_length={count}")
    return result_dtype.numpy


@creation
def hann_window(
    xp: Namespace, window_length: int, periodic: bool = True, *, dtype: DTypeLike = None
) -> Array:
    """The Hann window: w(t) = ½ - ½ cos(2πt).

    >>> hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    array_dtype = window_dtype("hann_window", window_length, dtype)
    return sum_of_cosines(xp, window_length, not periodic, (0.5, 0.5)).astype(array_dtype)


@creation
def hamming_window(
    xp: Namespace, window_length: int, periodic: bool = True, alpha: float = 0.54,
    beta: float = 0.46, *, dtype: DTypeLike = None,
) -> Array:  # fmt: skip
    """The Hamming window: w(t) = alpha - beta · cos(2πt).

    >>> hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    array_dtype = window_dtype("hamming_window", window_length, dtype)
    return sum_of_cosines(xp, window_length, not periodic, (alpha, beta)).astype(array_dtype)


@creation
def blackman_window(
    xp: Namespace, window_length: int, periodic: bool = True, *, dtype: DTypeLike = None
) -> Array:
    """The Blackman window: w(t) = 0.42 - 0.5 cos(2πt) + 0.08 cos(4πt).

    >>> blackman_window(4).abs().round(decimals=4)
    tensor([0.0000, 0.3400, 1.0000, 0.3400])
    """
    array_dtype = window_dtype("blackman_window", window_length, dtype)
    return sum_of_cosines(xp, window_length, not periodic, (0.42, 0.5, 0.08)).astype(array_dtype)


@creation
def bartlett_window(
    xp: Namespace, window_length: int, periodic: bool = True, *, dtype: DTypeLike = None
) -> Array:
    """The Bartlett window: w(t) = 1 - |2t - 1|.

    >>> bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    array_dtype = window_dtype("bartlett_window", window_length, dtype)
    return triangle(xp, window_length, not periodic).astype(array_dtype)


@creation
def kaiser_window(
    xp: Namespace, window_length: int, periodic: bool = True, beta: float = 12.0, *,
    dtype: DTypeLike = None,
) -> Array:  # fmt: skip
    """The Kaiser window: w(t) = I₀(β √(1 - (2t - 1)²)) / I₀(β).

    I₀ is a Bessel function; the larger β, the narrower the window, and β = 0 gives ones.

    >>> kaiser_window(4, beta=2.0)
    tensor([0.4387, 0.8348, 1.0000, 0.8348])
    """
    array_dtype = window_dtype("kaiser_window", window_length, dtype)
    return kaiser_values(xp, window_length, not periodic, beta).astype(array_dtype)
