"""Functions of one element that generated kernels call, and the extremes of a row."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from ...backends.numpy import Array
from .vector_math import FloatFormat, erfcx, exp, exp_nonpositive, log1p_small, vector_function

__all__ = [
    "copysign", "largest", "logaddexp", "maximum", "minimum", "normal_cdf", "power", "sign",
    "smallest",
]  # fmt: skip


@vector_function
def normal_cdf(format: FloatFormat) -> Callable[..., Any]:
    """Φ(x), the normal distribution function: ½ · exp(-x²/2) · erfcx(-x/√2) for x ≤ 0."""
    half, one, root, zero = format.constants((0.5, 1, 0.5**0.5, 0))

    def normal_cdf(x):
        # The exponential is written as in the density, so that a kernel with both computes one.
        tail = half * exp_nonpositive(-half * (x * x)) * erfcx(root * abs(x))
        # Left of 0, Φ itself is small: as a difference from 1 it would cancel.
        return one - tail if x > zero else tail

    return normal_cdf


# Four registers of 16 float32: while one comparison is waited for, others run.
LANES = 64


@njit(forceinline=True)
def maximum(a: float, b: float) -> Any:
    """The larger one; NaN if one is NaN."""
    # A NaN in a differs from itself; one in b fails a >= b, and is returned as b.
    return a if (a >= b or a != a) else b


@njit(forceinline=True)
def minimum(a: float, b: float) -> Any:
    """The smaller one; NaN if one is NaN."""
    return a if (a <= b or a != a) else b


@njit(forceinline=True)
def sign(a: float) -> Any:
    """-1, 0 or 1; NaN of NaN."""
    # In the type of a: with a literal, the branches would be widened to float64.
    one, zero = type(a)(1), type(a)(0)
    return one if a > zero else -one if a < zero else a


@njit(forceinline=True)
def copysign(a: float, b: float) -> Any:
    """|a| with the sign of b."""
    return np.copysign(a, b)


@njit(forceinline=True)
def logaddexp(a: float, b: float) -> Any:
    """log(eᵃ + eᵇ): the larger one, and a correction for the other."""
    distance = abs(a - b)  # NaN of two equal infinities: hence the comparisons with a, b, ∞ below
    correction = log1p_small(exp(-distance)) if a != b else type(a)(math.log(2))
    return maximum(a, b) + correction if distance != math.inf else maximum(a, b)


@njit(forceinline=True)
def power(a: float, b: float) -> Any:
    """a to the power of b."""
    return a**b


@njit(forceinline=True)
def largest(row: Array) -> Any:
    """The maximum of a row; NaN if one element is NaN.

    A single chain of comparisons would be bound by latency: so 64 run side by side.
    """
    blocks = row.size // LANES
    result = row[0]
    if blocks > 1:
        lanes = row[:LANES].copy()
        for j in range(1, blocks):
            here = row[j * LANES : (j + 1) * LANES]
            for lane in range(LANES):
                lanes[lane] = maximum(lanes[lane], here[lane])
        for lane in range(LANES):
            result = maximum(result, lanes[lane])
    for j in range(blocks * LANES if blocks > 1 else 0, row.size):
        result = maximum(result, row[j])
    return result


@njit(forceinline=True)
def smallest(row: Array) -> Any:
    """The minimum of a row; NaN if one element is NaN."""
    blocks = row.size // LANES
    result = row[0]
    if blocks > 1:
        lanes = row[:LANES].copy()
        for j in range(1, blocks):
            here = row[j * LANES : (j + 1) * LANES]
            for lane in range(LANES):
                lanes[lane] = minimum(lanes[lane], here[lane])
        for lane in range(LANES):
            result = minimum(result, lanes[lane])
    for j in range(blocks * LANES if blocks > 1 else 0, row.size):
        result = minimum(result, row[j])
    return result
