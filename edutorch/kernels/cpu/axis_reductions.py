"""The kernels that reduce rows or columns: sums, products, norms, variances and extremes.

They get arrays by their addresses (`along_axis.py`). A row is read with wide registers; rows that
lie in each other's columns are added to each other, four at a time. Which one a case needs, and
when a row is too long for one thread, is chosen in `reductions.py`.

Small sums are added in NumPy's order, to the last bit: a training step of a small network does not
depend on when its kernels become ready.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numba import njit, types

from .along_axis import array_at, compile_along_axis
from .jit import use_wide_vectors
from .row_reduce import product, row_max, row_min, sum_squared_deviations, total
from .work_queue import claim_range

__all__ = [
    "COLUMN_BAND", "EXTREMES_BAND", "IN_ORDER", "MAXIMUM", "MINIMUM", "PRODUCT", "SQUARES", "SUM",
    "VARIANCE", "column_entries", "extreme_entries", "row_entries",
]  # fmt: skip

COLUMN_BAND = 16
"""The columns are divided in units of so many: in float32, they fill a cache line."""

MAX_BANDS = 256
"""So many bands are added up together: their sums stay in the L1 cache."""

EXTREMES_BAND = 128
"""So many columns are compared together."""

PAIRWISE_BLOCK = 128
"""NumPy adds so many elements with eight running sums, and halves what is longer."""

SUM, SQUARES, PRODUCT, MAXIMUM, MINIMUM, VARIANCE, IN_ORDER = range(7)
"""What elements are reduced to: Σ x, Σ x², Π x, an extreme, Σ (x - mean)², and Σ x in the order in
which NumPy adds."""


# Rows --------------------------------------------------------------------------------------------


@njit
def block_in_order(row):
    """Σ x of at most 128 elements, as NumPy adds them."""
    n = np.uint64(row.size)
    if n < np.uint64(8):
        sum = -row.dtype.type(0)
        for i in range(n):
            sum += row[i]
        return sum
    a, b, c, d, e, f, g, h = row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7]
    eights = n // np.uint64(8)
    for eight in range(np.uint64(1), eights):
        i = eight * np.uint64(8)
        a += row[i]
        b += row[i + np.uint64(1)]
        c += row[i + np.uint64(2)]
        d += row[i + np.uint64(3)]
        e += row[i + np.uint64(4)]
        f += row[i + np.uint64(5)]
        g += row[i + np.uint64(6)]
        h += row[i + np.uint64(7)]
    sum = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for i in range(eights * np.uint64(8), n):
        sum += row[i]
    return sum


@njit
def sum_in_order(row):
    """Σ x, as NumPy adds: halves whose first one is a multiple of eight."""
    if row.size <= PAIRWISE_BLOCK:
        return block_in_order(row)
    middle = row.size // 2 // 8 * 8
    return sum_in_order(row[:middle]) + sum_in_order(row[middle:])


def reduce_rows(start, stop, like, addresses, lengths, operation, divisor, takes_root):
    """Reduce each row, divide the result and take its square root, where that is due.

    Args:
        addresses: of the rows and of the results.
    """
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    outer, n, _ = lengths
    x, y = array_at(addresses[0], like, (outer, n)), array_at(addresses[1], like, (outer,))
    number = y.dtype.type
    for r in range(start, stop):
        row = x[r]
        if operation == MAXIMUM:
            y[r] = row_max(row)
        elif operation == MINIMUM:
            y[r] = row_min(row)
        elif operation == IN_ORDER:
            y[r] = (number(0) + sum_in_order(row)) / number(divisor)  # it begins with 0, not -0
        else:
            if operation == SUM:
                value = total(row)
            elif operation == SQUARES:
                value = sum_squared_deviations(row, number(0))
            elif (
                operation == VARIANCE
            ):  # two passes: squared deviations from the mean do not cancel
                value = sum_squared_deviations(row, number(total(row) / n))
            else:
                value = product(row)
            y[r] = number(math.sqrt(value / divisor) if takes_root else value / divisor)


@functools.cache
def row_entries() -> dict[np.dtype[Any], Any]:
    """Compile `reduce_rows`."""
    return compile_along_axis(reduce_rows, 2, types.int64, types.float64, types.boolean)


# Columns -----------------------------------------------------------------------------------------


@njit(forceinline=True)
def add_columns(x, left, right, divisor, y):
    """Write Σ x / divisor of some columns of a matrix."""
    sums, full_rows = np.zeros(right - left), x.shape[0] // 4 * 4
    for r in range(0, full_rows, 4):  # the sums, in float64, are read and written once for four
        a, b = x[r, left:right], x[r + 1, left:right]
        c, d = x[r + 2, left:right], x[r + 3, left:right]
        for j in range(sums.size):
            # In pairs: the second sum does not wait for the first, as it would in a chain of four.
            sums[j] += (a[j] + b[j]) + (c[j] + d[j])
    for r in range(full_rows, x.shape[0]):
        row = x[r, left:right]
        for j in range(sums.size):
            sums[j] += row[j]
    for j in range(sums.size):
        y[left + j] = sums[j] / divisor


@njit(forceinline=True)
def add_squares_of_columns(x, left, right, divisor, takes_root, y):
    """Write Σ x² / divisor of some columns of a matrix, or its square root."""
    sums = np.zeros(right - left)
    for r in range(x.shape[0]):
        row = x[r, left:right]
        for j in range(sums.size):
            sums[j] += np.float64(row[j]) * np.float64(row[j])
    for j in range(sums.size):
        y[left + j] = math.sqrt(sums[j] / divisor) if takes_root else sums[j] / divisor


@njit(forceinline=True)
def add_columns_in_order(x, left, right, divisor, y):
    """The same row by row, as NumPy adds."""
    sums, number = y[left:right], y.dtype.type
    for j in range(sums.size):
        sums[j] = number(0) + x[0, left + j]
    for r in range(1, x.shape[0]):
        row = x[r, left:right]
        for j in range(sums.size):
            sums[j] += row[j]
    for j in range(sums.size):
        sums[j] /= number(divisor)


@njit(forceinline=True)
def larger(a, b):
    """The maximum of two numbers that are not NaN."""
    return a if a > b else b


@njit(forceinline=True)
def smaller(a, b):
    """The minimum of two numbers that are not NaN."""
    return a if a < b else b


@njit(forceinline=True)
def mark_nan(x, left, right, y):
    """Write NaN for the columns that have one."""
    for r in range(x.shape[0]):
        row, out = x[r, left:right], y[left:right]
        for j in range(out.size):
            out[j] = row[j] if row[j] != row[j] else out[j]


@njit(forceinline=True)
def compare_columns(choose, x, left, right, y):
    """Write the extremes of some columns of a matrix."""
    best, first, has_nan = y[left:right], (x.shape[0] - 1) % 4 + 1, False
    for j in range(best.size):
        best[j] = x[0, left + j]
        has_nan |= best[j] != best[j]
    for r in range(1, first):
        row = x[r, left:right]
        for j in range(best.size):
            best[j] = choose(row[j], best[j])
            has_nan |= row[j] != row[j]
    for r in range(first, x.shape[0], 4):
        a, b = x[r, left:right], x[r + 1, left:right]
        c, d = x[r + 2, left:right], x[r + 3, left:right]
        for j in range(best.size):
            best[j] = choose(choose(choose(a[j], b[j]), choose(c[j], d[j])), best[j])
            has_nan |= (a[j] != a[j]) | (b[j] != b[j]) | (c[j] != c[j]) | (d[j] != d[j])
    if has_nan:  # rare: to keep one through all comparisons takes twice the time
        mark_nan(x, left, right, y)


def reduce_columns(start, stop, like, addresses, lengths, operation, divisor, takes_root):
    """Reduce along the middle axis: a sum, a norm or an extreme; the range: bands of columns."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    outer, _, inner = lengths
    x, y = array_at(addresses[0], like, lengths), array_at(addresses[1], like, (outer, inner))
    bands = (inner + COLUMN_BAND - 1) // COLUMN_BAND
    # Signed, as a shape is: of a uint64 and an int64, numba's `min` makes a float64.
    unit, last = np.int64(start), np.int64(stop)
    while unit < last:
        block, band = unit // bands, unit % bands
        count = min(bands - band, last - unit, MAX_BANDS)
        left, right = band * COLUMN_BAND, min((band + count) * COLUMN_BAND, inner)
        if operation == SUM:
            add_columns(x[block], left, right, divisor, y[block])
        elif operation == IN_ORDER:
            add_columns_in_order(x[block], left, right, divisor, y[block])
        elif operation == SQUARES:
            add_squares_of_columns(x[block], left, right, divisor, takes_root, y[block])
        elif operation == MAXIMUM:
            compare_columns(larger, x[block], left, right, y[block])
        else:
            compare_columns(smaller, x[block], left, right, y[block])
        unit += count


@functools.cache
def column_entries() -> dict[np.dtype[Any], Any]:
    """Compile `reduce_columns`."""
    return compile_along_axis(reduce_columns, 2, types.int64, types.float64, types.boolean)


# Extremes and their indices ----------------------------------------------------------------------


@njit(forceinline=True)
def index_of(row, value):
    """The first index of an element that is equal to a value, or NaN as it is."""
    for i in range(np.uint64(row.size)):
        if row[i] == value or (value != value and row[i] != row[i]):
            return i
    return np.uint64(0)


def find_extremes(start, stop, like, addresses, lengths, largest):
    """The extremes along the middle axis and their indices.

    The range counts bands of columns; rows, where there is one column.

    Args:
        addresses: of the array, of the extremes and of their indices.
    """
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    outer, n, inner = lengths
    x, values = array_at(addresses[0], like, lengths), array_at(addresses[1], like, (outer, inner))
    indices = array_at(addresses[2], np.int64(0), (outer, inner))
    if inner == 1:
        rows = array_at(addresses[0], like, (outer, n))
        for r in range(start, stop):
            index = index_of(rows[r], row_max(rows[r]) if largest else row_min(rows[r]))
            values[r, 0], indices[r, 0] = rows[r, index], index
        return
    bands, best = (inner + EXTREMES_BAND - 1) // EXTREMES_BAND, np.empty(EXTREMES_BAND, x.dtype)
    index = np.empty(EXTREMES_BAND, np.int64)
    for unit in range(np.int64(start), np.int64(stop)):
        block, left = unit // bands, unit % bands * EXTREMES_BAND
        width = min(EXTREMES_BAND, inner - left)
        for j in range(width):
            best[j], index[j] = x[block, 0, left + j], 0
        for k in range(1, n):
            row = x[block, k, left : left + width]
            for j in range(width):
                value, old = row[j], best[j]
                is_better = value > old if largest else value < old
                replaces = is_better or (value != value and old == old)  # the first NaN stays
                best[j] = value if replaces else old
                index[j] = k if replaces else index[j]
        for j in range(width):
            values[block, left + j], indices[block, left + j] = best[j], index[j]


@functools.cache
def extreme_entries() -> dict[np.dtype[Any], Any]:
    """Compile `find_extremes`."""
    return compile_along_axis(find_extremes, 3, types.boolean)
