"""Small functions called by generated kernels: minimum, maximum, sign, extremes of a row.

`edutorch.compile` generates kernels; what is better written by hand, once, is here and in
`row_reduce.py` and `vector_math.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from .vector_math import exp, log1p_small

__all__ = [
    "copysign", "largest", "logaddexp", "maximum", "minimum", "power", "sign", "smallest",
]  # fmt: skip

LANES = 64


@njit(forceinline=True)
def maximum(a: Any, b: Any) -> Any:
    """The larger one; NaN if one is NaN."""
    return a if (a >= b or a != a) else b


@njit(forceinline=True)
def minimum(a: Any, b: Any) -> Any:
    """The smaller one; NaN if one is NaN."""
    return a if (a <= b or a != a) else b


@njit(forceinline=True)
def sign(a: Any) -> Any:
    """-1, 0 or 1; NaN of NaN."""
    one, zero = type(a)(1), type(a)(0)
    return one if a > zero else -one if a < zero else a


@njit(forceinline=True)
def copysign(a: Any, b: Any) -> Any:
    """|a| with the sign of b."""
    return np.copysign(a, b)


@njit(forceinline=True)
def logaddexp(a: Any, b: Any) -> Any:
    """log(eᵃ + eᵇ): the larger one, and a correction for the other."""
    distance = abs(a - b)  # NaN of two equal infinities
    correction = log1p_small(exp(-distance)) if a != b else type(a)(math.log(2))
    return maximum(a, b) + correction if distance != math.inf else maximum(a, b)


@njit(forceinline=True)
def power(a: Any, b: Any) -> Any:
    """a to the power of b."""
    return a**b


@njit(forceinline=True)
def largest(row: Any) -> Any:
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
def smallest(row: Any) -> Any:
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
