"""The peak, the sum and the product of rows, for use inside kernels.

A sum in the order of the numbers would wait for each addition before the next one begins. So up
to 64 sums are kept side by side, which LLVM may do where it is allowed to reorder; and as each
of them stays short, fewer digits are lost than in order. Blocks of numbers are added up this way,
and then the blocks, in float64 and with what each addition rounded off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from .vector_math import FloatFormat, vector_function

__all__ = ["dot", "dot_centered", "row_max", "max_or_any", "sum_squared_deviations", "total"]

BLOCK = 1024
REORDERED: dict[str, Any] = {"forceinline": True, "fastmath": {"contract", "reassoc", "nsz"}}
"""Not among them: that there is no NaN, and no infinite number."""


@vector_function
def max_or_any(format: FloatFormat) -> Callable[..., Any]:
    """The largest number of a row. With a NaN in it, any number: what follows is NaN anyway.

    LLVM compares integers several at a time, but not numbers that may be NaN. Apart from the sign,
    the bits of larger numbers are larger integers; of negative ones, they have to be turned round.
    """
    scalar, integer = format.scalar, format.integer
    sign, magnitude = integer(np.iinfo(integer).bits - 1), integer(np.iinfo(integer).max)
    least = integer(np.iinfo(integer).min)

    def max_or_any(row):
        bits = row.view(integer)
        most = least
        for i in range(bits.size):
            ordered = integer(bits[i] ^ integer(integer(bits[i] >> sign) & magnitude))
            most = ordered if ordered > most else most
        return integer(most ^ integer(integer(most >> sign) & magnitude)).view(scalar)

    return max_or_any


@vector_function
def row_max(format: FloatFormat) -> Callable[..., Any]:
    """The largest number of a row, and NaN if there is one in it: found in the same way."""
    scalar, integer = format.scalar, format.integer
    sign, magnitude = integer(np.iinfo(integer).bits - 1), integer(np.iinfo(integer).max)
    least, infinite = integer(np.iinfo(integer).min), scalar(np.inf).view(integer)

    def row_max(row):
        bits = row.view(integer)
        most = least
        for i in range(bits.size):
            ordered = integer(bits[i] ^ integer(integer(bits[i] >> sign) & magnitude))
            ordered = magnitude if integer(bits[i] & magnitude) > infinite else ordered
            most = ordered if ordered > most else most
        return integer(most ^ integer(integer(most >> sign) & magnitude)).view(scalar)

    return row_max


@njit(**REORDERED)
def block_total(row: Any) -> Any:
    """Σ x of a short row."""
    sum = row.dtype.type(0)
    for i in range(row.size):
        sum += row[i]
    return sum


@njit(**REORDERED)
def block_dot(a: Any, b: Any) -> Any:
    """Σ a·b of short rows."""
    sum = a.dtype.type(0)
    for i in range(a.size):
        sum += a[i] * b[i]
    return sum


@njit(**REORDERED)
def block_squared_deviations(row: Any, centre: Any) -> Any:
    """Σ (x - centre)² of a short row."""
    sum = row.dtype.type(0)
    for i in range(row.size):
        sum += (row[i] - centre) * (row[i] - centre)
    return sum


@njit(**REORDERED)
def block_dot_centered(a: Any, b: Any, centre: Any) -> Any:
    """Σ a·(b - centre) of short rows."""
    sum = a.dtype.type(0)
    for i in range(a.size):
        sum += a[i] * (b[i] - centre)
    return sum


@njit(forceinline=True)
def add_compensated(whole: float, lost: float, part: float) -> tuple[float, float]:
    """Return whole + part, and what was lost so far with what this addition rounds off."""
    more = whole + part
    kept = more - whole
    return more, lost + ((whole - (more - kept)) + (part - kept))


@njit(forceinline=True)
def compensated_total(whole: float, lost: float) -> float:
    """Return a sum with what was lost; of infinite numbers, that is NaN."""
    return whole + lost if lost == lost else whole


@njit(forceinline=True)
def total(row: Any) -> float:
    """Σ x as a number of float64."""
    whole = lost = 0.0
    for at in range(0, row.size, BLOCK):
        whole, lost = add_compensated(whole, lost, block_total(row[at : at + BLOCK]))
    return compensated_total(whole, lost)


@njit(forceinline=True)
def dot(a: Any, b: Any) -> float:
    """Σ a·b as a number of float64."""
    whole = lost = 0.0
    for at in range(0, a.size, BLOCK):
        whole, lost = add_compensated(
            whole, lost, block_dot(a[at : at + BLOCK], b[at : at + BLOCK])
        )
    return compensated_total(whole, lost)


@njit(forceinline=True)
def sum_squared_deviations(row: Any, centre: Any) -> float:
    """Σ (x - centre)² as a number of float64."""
    whole = lost = 0.0
    for at in range(0, row.size, BLOCK):
        whole, lost = add_compensated(
            whole, lost, block_squared_deviations(row[at : at + BLOCK], centre)
        )
    return compensated_total(whole, lost)


@njit(forceinline=True)
def dot_centered(a: Any, b: Any, centre: Any) -> float:
    """Σ a·(b - centre) as a number of float64."""
    whole = lost = 0.0
    for at in range(0, a.size, BLOCK):
        part = block_dot_centered(a[at : at + BLOCK], b[at : at + BLOCK], centre)
        whole, lost = add_compensated(whole, lost, part)
    return compensated_total(whole, lost)
