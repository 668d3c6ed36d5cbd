"""The product of one row and a large matrix, as when a language model writes one word.

Each element of the matrix is used once, so that the product takes as long as it takes to read the
matrix: the threads read different parts of it at the same time.

    y[j] = Σₖ x[k] · b[k, j]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from ...backends.numpy import Array
from ...ops.linalg import ROW_PRODUCT
from .jit import ARRAY_1D, ARRAY_2D, are_contiguous_floats, compile_kernel, use_wide_vectors
from .parallel import count_parts, parallel_for
from .work_queue import claim_range


def add_scaled_rows(start, stop, x, b, sums):
    """Add the rows of b, scaled by the elements of x; each part has a row of `sums` of its own."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    for part in range(np.int64(start), np.int64(stop)):
        y = sums[part]
        y[:] = 0
        first, last = x.size * part // len(sums), x.size * (part + 1) // len(sums)
        whole = first + (last - first) // 4 * 4
        # Four rows at a time: y is read and written once for four rows that are read.
        for k in range(first, whole, 4):
            x0, x1, x2, x3 = x[k], x[k + 1], x[k + 2], x[k + 3]
            row0, row1, row2, row3 = b[k], b[k + 1], b[k + 2], b[k + 3]
            for j in range(np.uint64(y.size)):
                y[j] += (x0 * row0[j] + x1 * row1[j]) + (x2 * row2[j] + x3 * row3[j])
        for k in range(whole, last):
            row = b[k]
            for j in range(np.uint64(y.size)):
                y[j] += x[k] * row[j]


REORDERED: dict[str, Any] = {"fastmath": {"contract", "reassoc", "nsz"}}
"""Terms may be added in any order: a partial sum for each lane of a vector."""


@njit(**REORDERED)
def dot(x, row):
    """Σₖ x[k] · row[k]."""
    use_wide_vectors()
    sum = x.dtype.type(0)
    for k in range(np.uint64(x.size)):
        sum += x[k] * row[k]
    return sum


@njit(**REORDERED)
def dot_four(x, row0, row1, row2, row3):
    """The products of x and four rows, which are read at the same time."""
    use_wide_vectors()
    sum0 = sum1 = sum2 = sum3 = x.dtype.type(0)
    for k in range(np.uint64(x.size)):
        sum0 += x[k] * row0[k]
        sum1 += x[k] * row1[k]
        sum2 += x[k] * row2[k]
        sum3 += x[k] * row3[k]
    return sum0, sum1, sum2, sum3


def dot_rows(start, stop, x, transposed, y):
    """Compute some columns of y = x b, four at a time; b's columns lie in memory as rows."""
    start, stop = claim_range(start, stop)
    for group in range(np.int64(start), np.int64(stop)):
        j = 4 * group
        if j + 4 <= len(transposed):
            y[j], y[j + 1], y[j + 2], y[j + 3] = dot_four(
                x, transposed[j], transposed[j + 1], transposed[j + 2], transposed[j + 3]
            )
        else:
            for i in range(j, len(transposed)):
                y[i] = dot(x, transposed[i])


@ROW_PRODUCT.kernel("cpu")
def row_product() -> Callable[..., Any]:
    """Make the product of one row and a matrix; None for what is left to NumPy."""
    by_rows = compile_kernel(add_scaled_rows, ARRAY_1D, ARRAY_2D, ARRAY_2D)
    by_columns = compile_kernel(dot_rows, ARRAY_1D, ARRAY_2D, ARRAY_1D)

    def run(row: Array, b: Array) -> Any:
        k, columns = b.shape
        parts = count_parts(k, b.size)
        if row.shape[1] != k or parts == 1:
            return None
        if are_contiguous_floats((row, b)):
            # Each thread reads rows next to each other: parts of all rows would take twice as long.
            sums = np.empty((parts, columns), b.dtype)
            parallel_for(by_rows, parts, row[0], b, sums, work=b.size)
            y = sums[:1]
            for part in sums[1:]:
                y += part
            return y
        if are_contiguous_floats((row, b.T)):
            y = np.empty((1, columns), b.dtype)
            parallel_for(by_columns, -(-columns // 4), row[0], b.T, y[0], work=b.size)
            return y
        return None

    return run
