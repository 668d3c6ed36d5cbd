"""Statistics of many small arrays of one size, in one pass over their elements.

NumPy would read the elements six times, and transpose the result once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from .jit import ARRAY_2D, FLOAT64_2D, are_contiguous_floats, compile_kernel

REORDERED: dict[str, Any] = {"forceinline": True, "fastmath": {"contract", "reassoc", "nsz"}}
WITHOUT_NAN: dict[str, Any] = {"forceinline": True, "fastmath": {"nnan", "nsz"}}


@njit(**REORDERED)
def sums_of_row(row: Any) -> Any:
    """Return Σ x and Σ x², in float64."""
    total, squares = 0.0, 0.0
    for i in range(row.size):
        x = np.float64(row[i])
        total += x
        squares += x * x
    return total, squares


@njit(**WITHOUT_NAN)
def extremes(row: Any) -> Any:
    """Return the minimum and the maximum; any values, if there is a NaN."""
    low = high = row[0]
    for i in range(row.size):
        low = min(low, row[i])
        high = max(high, row[i])
    return low, high


def row_statistics(start, stop, data, statistics):
    """Write [size, mean, min, max, norm] of each row; of a row with a NaN, NaN."""
    size = data.shape[1]
    for i in range(start, stop):
        total, squares = sums_of_row(data[i])
        low, high = extremes(data[i])
        if squares != squares:  # a NaN; the sum is one also where infinities cancel
            low = high = data.dtype.type(np.nan)
        statistics[i, 0], statistics[i, 1], statistics[i, 2], statistics[i, 3] = (
            size,
            total / size,
            low,
            high,
        )
        statistics[i, 4] = np.sqrt(squares)


def row_statistics_kernel() -> Callable[..., Any]:
    """Make the statistics of the rows of an array."""
    kernel = compile_kernel(row_statistics, ARRAY_2D, FLOAT64_2D)

    def run(data: Any) -> Any:
        if not are_contiguous_floats((data,)) or not data.size:
            return None
        statistics = np.empty((len(data), 5))
        kernel(0, len(data), data, statistics)
        return statistics

    return run
