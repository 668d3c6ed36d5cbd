"""The maximum, the sum and the dot product of rows, for use inside kernels.

A sum in order would be bound by the latency of each addition. So up to 64 partial sums are kept
side by side, which LLVM may do where it is allowed to reorder; and as each of them is short, less
precision is lost than in order. Blocks of elements are summed this way, and then the blocks, in
float64 by compensated summation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from ...backends.numpy import Array
from .vector_math import FloatFormat, vector_function

__all__ = [
    "add_compensated", "compensated_total", "dot", "dot_centered", "max_or_any", "product",
    "row_max", "row_min", "sum_squared_deviations", "total",
]  # fmt: skip

# Of 64 sums side by side, each adds 16 elements: too few for float32 to lose much.
BLOCK = 1024
REORDERED: dict[str, Any] = {"forceinline": True, "fastmath": {"contract", "reassoc", "nsz"}}
"""Without `nnan` and `ninf`: NaN and infinities are kept."""


@vector_function
def max_or_any(format: FloatFormat) -> Callable[..., Any]:
    """The maximum of a row; with a NaN in it, any value: what follows is NaN anyway.

    LLVM vectorizes comparisons of integers, but not of floats that may be NaN. The bits of floats,
    read as sign and magnitude, order like integers; those of negative ones have to be flipped.
    """
    scalar, integer = format.scalar, format.integer
    sign, magnitude = integer(np.iinfo(integer).bits - 1), integer(np.iinfo(integer).max)
    least = integer(np.iinfo(integer).min)

    def max_or_any(row):
        # The same memory, read as integers: nothing is converted.
        bits = row.view(integer)
        most = least
        for i in range(bits.size):
            # Shifted, the sign fills the word: XOR flips all other bits of a negative number.
            # numba computes in int64: only cast back at each step, int32 fills all lanes.
            ordered = integer(bits[i] ^ integer(integer(bits[i] >> sign) & magnitude))
            most = ordered if ordered > most else most
        return integer(most ^ integer(integer(most >> sign) & magnitude)).view(scalar)

    return max_or_any


@vector_function
def row_max(format: FloatFormat) -> Callable[..., Any]:
    """The maximum of a row, and NaN if there is one in it, by integer comparisons as above."""
    return row_extreme(format, 0)


@vector_function
def row_min(format: FloatFormat) -> Callable[..., Any]:
    """The minimum of a row, and NaN if there is one in it."""
    return row_extreme(format, -1)


def row_extreme(format: FloatFormat, flip: int) -> Callable[..., Any]:
    """The maximum of a row, or its minimum, where `flip` has all bits: the order is reversed."""
    scalar, integer = format.scalar, format.integer
    sign, magnitude = integer(np.iinfo(integer).bits - 1), integer(np.iinfo(integer).max)
    least, infinite = integer(np.iinfo(integer).min), scalar(np.inf).view(integer)
    flip = integer(flip)

    def row_extreme(row):
        bits = row.view(integer)
        most = least
        for i in range(bits.size):
            ordered = integer(bits[i] ^ integer(integer(bits[i] >> sign) & magnitude))
            # A NaN counts as the largest integer, whose bits, flipped or not, are a NaN's again.
            is_nan = integer(bits[i] & magnitude) > infinite
            ordered = magnitude if is_nan else integer(ordered ^ flip)
            most = ordered if ordered > most else most
        most = integer(most ^ flip)
        return integer(most ^ integer(integer(most >> sign) & magnitude)).view(scalar)

    return row_extreme


@njit(**REORDERED)
def block_total(row: Array) -> Any:
    """Σ x of a short row."""
    # Not 0.0, which is a float64: half as many sums would fit into a register.
    sum = row.dtype.type(0)
    for i in range(row.size):
        sum += row[i]
    return sum


@njit(**REORDERED)
def block_dot(a: Array, b: Array) -> Any:
    """Σ a·b of short rows."""
    sum = a.dtype.type(0)
    for i in range(a.size):  # `reassoc` lets LLVM keep 64 of these sums side by side
        sum += a[i] * b[i]
    return sum


@njit(**REORDERED)
def block_squared_deviations(row: Array, center: float) -> Any:
    """Σ (x - center)² of a short row."""
    sum = row.dtype.type(0)
    for i in range(row.size):
        sum += (row[i] - center) * (row[i] - center)
    return sum


@njit(**REORDERED)
def block_dot_centered(a: Array, b: Array, center: float) -> Any:
    """Σ a·(b - center) of short rows."""
    sum = a.dtype.type(0)
    for i in range(a.size):
        sum += a[i] * (b[i] - center)
    return sum


@njit(**REORDERED)
def product(row: Array) -> Any:
    """Π x, in float64."""
    product = 1.0
    for i in range(row.size):
        product *= row[i]
    return product


@njit(forceinline=True)
def add_compensated(whole: float, lost: float, part: float) -> tuple[float, float]:
    """Return whole + part, and the accumulated rounding errors (Kahan-Babuška)."""
    more = whole + part
    kept = more - whole  # what of `part` has arrived; fastmath is off here, or this would be `part`
    return more, lost + ((whole - (more - kept)) + (part - kept))


@njit(forceinline=True)
def compensated_total(whole: float, lost: float) -> float:
    """Return a sum with its rounding errors added, which are NaN for infinite terms."""
    return whole + lost if lost == lost else whole


@njit(forceinline=True)
def total(row: Array) -> float:
    """Σ x, as float64."""
    whole = lost = 0.0
    for at in range(0, row.size, BLOCK):
        whole, lost = add_compensated(whole, lost, block_total(row[at : at + BLOCK]))
    return compensated_total(whole, lost)


@njit(forceinline=True)
def dot(a: Array, b: Array) -> float:
    """Σ a·b, as float64."""
    whole = lost = 0.0
    for at in range(0, a.size, BLOCK):
        whole, lost = add_compensated(
            whole, lost, block_dot(a[at : at + BLOCK], b[at : at + BLOCK])
        )
    return compensated_total(whole, lost)


@njit(forceinline=True)
def sum_squared_deviations(row: Array, center: float) -> float:
    """Σ (x - center)², as float64."""
    whole = lost = 0.0
    for at in range(0, row.size, BLOCK):
        whole, lost = add_compensated(
            whole, lost, block_squared_deviations(row[at : at + BLOCK], center)
        )
    return compensated_total(whole, lost)


@njit(forceinline=True)
def dot_centered(a: Array, b: Array, center: float) -> float:
    """Σ a·(b - center), as float64."""
    whole = lost = 0.0
    for at in range(0, a.size, BLOCK):
        part = block_dot_centered(a[at : at + BLOCK], b[at : at + BLOCK], center)
        whole, lost = add_compensated(whole, lost, part)
    return compensated_total(whole, lost)
