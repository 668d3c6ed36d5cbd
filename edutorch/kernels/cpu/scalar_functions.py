"""Functions of one element that generated kernels call, and the extremes of a row."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from ...backends.numpy import Array
from .vector_math import (
    FloatFormat,
    erfcx,
    exp,
    exp_nonpositive,
    log1p_small,
    vector_function,
    vector_function_of_pair,
)

__all__ = [
    "copysign", "exact_fmod", "exact_remainder", "fmod", "hypot", "largest", "logaddexp", "maximum",
    "minimum", "normal_cdf", "power", "quotient_is_long", "remainder", "sign", "smallest",
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


@vector_function_of_pair
def hypot(format: FloatFormat) -> Callable[..., Any]:
    """√(a² + b²) without overflow; ∞ if one is infinite, even beside NaN."""
    zero, one, infinity = format.constants((0, 1, math.inf))

    def hypot(a, b):
        x, y = abs(a), abs(b)
        larger, smaller = (x, y) if x >= y else (y, x)
        ratio = smaller / (larger if larger > zero else one)
        length = larger * np.sqrt(one + ratio * ratio) if larger != zero else smaller
        return infinity if (x == infinity or y == infinity) else length

    def hypot_by_float64(a, b):
        x, y = np.float64(a), np.float64(b)
        length = np.float32(np.sqrt(x * x + y * y))
        return infinity if (abs(a) == infinity or abs(b) == infinity) else length

    return hypot_by_float64 if format.scalar is np.float32 else hypot


LONG_QUOTIENT = 2.0**29
"""From here on the product of the quotient and a float32 is not exact in float64."""


@vector_function_of_pair
def fmod(format: FloatFormat) -> Callable[..., Any]:
    """a - b · trunc(a / b); of float32 exact unless `quotient_is_long`."""

    def fmod(a, b):
        x, y = np.float64(a), np.float64(b)
        rest = x - np.trunc(x / y) * y
        # The quotient may have been rounded up to an integer.
        rest = rest + (abs(y) if x > 0 else -abs(y)) if rest * x < 0 else rest
        rest = x if abs(x) < abs(y) else rest  # also a / ∞
        return np.copysign(np.float32(rest), a)

    def fmod_by_library(a, b):
        return np.fmod(a, b)

    return fmod if format.scalar is np.float32 else fmod_by_library


@njit(forceinline=True)
def quotient_is_long(a: float, b: float) -> Any:
    """Whether `fmod` may be inexact, so that `exact_fmod` has to be used."""
    return abs(np.float64(a)) >= LONG_QUOTIENT * abs(np.float64(b)) and a == a and b != 0


@vector_function_of_pair
def exact_fmod(format: FloatFormat) -> Callable[..., Any]:
    """a - b · trunc(a / b) by the C library."""
    scalar = format.scalar

    def exact_fmod(a, b):
        return scalar(np.fmod(a, b))

    return exact_fmod


@njit(forceinline=True)
def with_sign_of_divisor(rest: float, b: float) -> Any:
    """The remainder of a floored division from that of a truncated one."""
    zero = type(b)(0)
    moved = rest + b if (b < zero) != (rest < zero) else rest
    return moved if rest != zero else type(b)(np.copysign(zero, b))


@njit(forceinline=True)
def remainder(a: float, b: float) -> Any:
    """a - b · ⌊a / b⌋; of float32 exact unless `quotient_is_long`."""
    return with_sign_of_divisor(fmod(a, b), b)


@njit(forceinline=True)
def exact_remainder(a: float, b: float) -> Any:
    """a - b · ⌊a / b⌋ by the C library."""
    return with_sign_of_divisor(exact_fmod(a, b), b)


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
