"""Sums, means, variances and maxima along the last axes, or over everything; sums of columns.

NumPy reduces a row with few elements at a time, on one thread, and allocates an array of all
squared deviations for a variance. Here a row is read once with wide registers, and a long one is
cut into chunks for several threads. The chunks' results are added in float64, in a fixed order:
the result does not depend on the number of threads.

Along the first axes whole rows are added to each other, four at a time, and each thread has columns
of its own. Reductions along other axes are left to NumPy.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from ... import ops
from ...backends import numpy
from ...backends.numpy import Array
from ...dtypes import dtype as DType
from ...ops import sorting, statistics
from .jit import (
    ARRAY_1D,
    ARRAY_2D,
    ARRAY_3D,
    BOOL,
    FLOAT64_2D,
    INT64_2D,
    are_contiguous_floats,
    compile_kernel,
    split_at_axis,
    use_wide_vectors,
)
from .parallel import parallel_for
from .row_reduce import product, row_max, sum_squared_deviations, total
from .work_queue import claim_range

Run = Callable[..., Any]
CHUNK = 65_536
"""The number of elements of a chunk of a row."""

COLUMN_BAND = 16
"""The columns are divided in units of so many: in float32, they fill a cache line."""

EXTREMES_BAND = 128
"""So many columns are compared together."""

SUMS_PER_ELEMENT = 8
"""Adding so many elements of adjacent columns takes as long as one element in other kernels."""


def sum_chunks(start, stop, x, centers, squared, partial):
    """Σ x or Σ (x - center)² of each chunk; `partial` has a row for each row of x."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    count = partial.shape[1]
    for index in range(start, stop):
        r, chunk = np.int64(index) // count, np.int64(index) % count
        chunk_values = x[r, chunk * CHUNK : (chunk + 1) * CHUNK]
        partial[r, chunk] = (
            sum_squared_deviations(chunk_values, centers[r]) if squared else total(chunk_values)
        )


def sum_columns(start, stop, x, y):
    """Σ x of each column; the range counts bands of columns."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    # Signed, as a shape is: of a uint64 and an int64, numba's `min` makes a float64.
    left, right = np.int64(start) * COLUMN_BAND, min(np.int64(stop) * COLUMN_BAND, x.shape[1])
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
    y[left:right] = sums


def multiply_chunks(start, stop, x, partial):
    """Π x of each chunk; `partial` has a row for each row of x."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    count = partial.shape[1]
    for index in range(start, stop):
        r, chunk = np.int64(index) // count, np.int64(index) % count
        partial[r, chunk] = product(x[r, chunk * CHUNK : (chunk + 1) * CHUNK])


def max_rows(start, stop, x, y):
    """The maximum of each row, NaN if there is one."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    for r in range(start, stop):
        y[r] = row_max(x[r])


def find_extremes(start, stop, x, values, indices, largest):
    """The extremes along the middle axis and their indices; the range counts bands of columns."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    n, inner = x.shape[1], x.shape[2]
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
def extremes_kernel() -> Any:
    """Compile `find_extremes`."""
    return compile_kernel(find_extremes, ARRAY_3D, ARRAY_2D, INT64_2D, BOOL)


@functools.cache
def chunks_kernel() -> Any:
    """Compile `sum_chunks`, which sums and variances use."""
    return compile_kernel(sum_chunks, ARRAY_2D, ARRAY_1D, BOOL, FLOAT64_2D)


def sum_by_chunks(table: np.ndarray, centers: np.ndarray | None = None) -> np.ndarray:
    """Return Σ x of each row, or Σ (x - center)², as float64."""
    rows, n = table.shape
    # One column for each chunk: the result does not depend on the number of threads.
    partial = np.empty((rows, -(-n // CHUNK)))
    # Without `squared` the kernel does not read the centers, but its type asks for an array.
    squared, centers = centers is not None, table[:, 0] if centers is None else centers
    # A column of a table has gaps, and the kernel is compiled for arrays without.
    centers = np.ascontiguousarray(centers)
    parallel_for(chunks_kernel(), partial.size, table, centers, squared, partial, work=table.size)
    return partial[:, 0] if partial.shape[1] == 1 else partial.sum(1)


def as_rows(input: Array, dim: int | tuple[int, ...] | None) -> np.ndarray | None:
    """Return an array as rows to be reduced; None unless `dim` is its last axes."""
    dims = tuple(range(input.ndim)) if dim is None else (dim,) if dim.__class__ is int else dim
    kept = input.ndim - len(dims)
    last = tuple(range(kept, input.ndim))
    if (
        not input.size
        or not dims
        or tuple(sorted(dims)) != last
        or not are_contiguous_floats((input,))
    ):
        return None
    # A view: the array is contiguous, and the reduced axes are its last ones.
    return input.reshape(-1, math.prod(input.shape[kept:]))


def as_columns(input: Array, dim: int | tuple[int, ...] | None) -> np.ndarray | None:
    """Return an array as columns to be summed; None unless `dim` is its first axes."""
    dims = dim if dim.__class__ is tuple else (dim,)
    first = len(dims)
    if tuple(sorted(dims)) != tuple(range(first)) or not 0 < first < input.ndim:
        return None
    if not input.size or not are_contiguous_floats((input,)):
        return None
    table = input.reshape(math.prod(input.shape[:first]), -1)
    # From two bands on, there is something to divide among threads.
    return table if table.shape[1] >= 2 * COLUMN_BAND else None


def cast_and_reshape(
    values: np.ndarray, input: Array, dim: int | tuple[int, ...] | None, keepdim: bool
) -> Any:
    """Return a result in the input's dtype, and in the shape of the reduction."""
    dims = range(input.ndim) if dim is None else (dim,) if dim.__class__ is int else dim
    kept = tuple(1 if axis in dims else size for axis, size in enumerate(input.shape))
    if not keepdim:
        kept = tuple(size for axis, size in enumerate(input.shape) if axis not in dims)
    with np.errstate(over="ignore"):  # a float32 sum may overflow
        return values.astype(input.dtype, copy=False).reshape(kept)


@ops.sum.kernel("cpu", min_size=65_536)
def sum() -> Run:
    """Make the forward of `sum`."""
    chunks_kernel()
    by_columns = compile_kernel(sum_columns, ARRAY_2D, ARRAY_1D)

    def run(
        input: Array, dim: int | tuple[int, ...] | None, keepdim: bool, dtype: DType | None
    ) -> np.ndarray | None:
        if dtype is not None:
            return None
        rows = as_rows(input, dim)
        if rows is not None:
            return cast_and_reshape(sum_by_chunks(rows), input, dim, keepdim)
        table = as_columns(input, dim)
        if table is None:
            return None
        y = np.empty(table.shape[1], table.dtype)
        parallel_for(
            by_columns, -(-y.size // COLUMN_BAND), table, y, work=table.size // SUMS_PER_ELEMENT
        )
        return cast_and_reshape(y, input, dim, keepdim)

    return run


@ops.prod.kernel("cpu", min_size=8192)
def prod() -> Run:
    """Make the forward of `prod`."""
    kernel = compile_kernel(multiply_chunks, ARRAY_2D, FLOAT64_2D)

    def run(
        input: Array, dim: int | tuple[int, ...] | None, keepdim: bool, dtype: DType | None
    ) -> np.ndarray | None:
        rows = as_rows(input, dim) if dtype is None else None
        if rows is None:
            return None
        partial = np.empty((len(rows), -(-rows.shape[1] // CHUNK)))
        parallel_for(kernel, partial.size, rows, partial, work=rows.size)
        return cast_and_reshape(partial.prod(1), input, dim, keepdim)

    return run


@ops.mean.kernel("cpu", min_size=65_536)
def mean() -> Run:
    """Make the forward of `mean`."""
    chunks_kernel()

    def run(
        input: Array, dim: int | tuple[int, ...] | None, keepdim: bool, dtype: DType | None
    ) -> np.ndarray | None:
        rows = as_rows(input, dim) if dtype is None else None
        if rows is None:
            return None
        return cast_and_reshape(sum_by_chunks(rows) / rows.shape[1], input, dim, keepdim)

    return run


@statistics.var.kernel("cpu", min_size=16_384)
def var() -> Run:
    """Make the forward of `var`."""
    chunks_kernel()

    def run(
        input: Array, dim: int | tuple[int, ...] | None, keepdim: bool, correction: float
    ) -> np.ndarray | None:
        rows = as_rows(input, dim)
        if rows is None or rows.shape[1] <= correction:
            return None
        n = rows.shape[1]
        # Two passes: squared deviations from the mean do not cancel.
        with np.errstate(over="ignore"):
            centers = (sum_by_chunks(rows) / n).astype(rows.dtype)
        squares = sum_by_chunks(rows, centers) / (n - correction)
        return cast_and_reshape(squares, input, dim, keepdim)

    return run


@statistics.vector_norm.kernel("cpu", min_size=4096)
def vector_norm() -> Run:
    """Make the forward of norms: √Σ x²."""
    chunks_kernel()

    def run(
        input: Array, ord: float, dim: int | tuple[int, ...] | None, keepdim: bool
    ) -> np.ndarray | None:
        rows = as_rows(input, dim) if ord == 2 else None
        if rows is None or rows.shape[1] == 1:
            return None
        squares = sum_by_chunks(rows, np.zeros(len(rows), rows.dtype))
        return cast_and_reshape(np.sqrt(squares), input, dim, keepdim)

    return run


@ops.amax.kernel("cpu", min_size=131_072)
def amax() -> Run:
    """Make the forward of `amax`."""
    kernel = compile_kernel(max_rows, ARRAY_2D, ARRAY_1D)

    def run(input: Array, dim: int | tuple[int, ...] | None, keepdim: bool) -> np.ndarray | None:
        rows = as_rows(input, dim)
        if rows is None:
            return None
        y = np.empty(len(rows), rows.dtype)
        parallel_for(kernel, len(rows), rows, y, work=rows.size)
        return cast_and_reshape(y, input, dim, keepdim)

    return run


def find_along(input: Array, dim: Any, largest: bool) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the extremes along an axis, and their indices. None: not along another than the last.

    (NumPy searches a contiguous row with vectors.)
    """
    if dim.__class__ is not int or not -input.ndim <= dim < input.ndim - 1 or dim == -1:
        return None
    if not input.size or not are_contiguous_floats((input,)):
        return None
    outer, n, inner = split_at_axis(input.shape, dim)
    values, indices = np.empty((outer, inner), input.dtype), np.empty((outer, inner), np.int64)
    units = outer * -(-inner // EXTREMES_BAND)
    parallel_for(
        extremes_kernel(), units, input.reshape(outer, n, inner), values, indices, largest,
        work=input.size,
    )  # fmt: skip
    return values, indices


@sorting.minmax_dim.kernel("cpu", min_size=4096)
def minmax_dim() -> Run:
    """Make the forward of `max` and `min` along an axis."""
    extremes_kernel()

    def run(
        input: Array, dim: int, keepdim: bool, largest: bool
    ) -> tuple[np.ndarray, np.ndarray] | None:
        pair = find_along(input, dim, largest)
        if pair is None:
            return None
        values, indices = (part.reshape(shape_without(input, dim, keepdim)) for part in pair)
        return values, indices

    return run


def shape_without(input: Array, dim: int, keepdim: bool) -> tuple[int, ...]:
    """Return the shape of a reduction along an axis."""
    dim %= input.ndim
    return (*input.shape[:dim], *((1,) if keepdim else ()), *input.shape[dim + 1 :])


@ops.argmax.kernel("cpu", min_size=4096)
@ops.argmin.kernel("cpu", min_size=4096)
def arg_extreme(key: str) -> Run:
    """Make the forward of `argmax` or `argmin`."""
    extremes_kernel()

    def run(input: Array, dim: int | None, keepdim: bool) -> np.ndarray | None:
        pair = find_along(input, dim, key == "argmax")
        return None if pair is None else pair[1].reshape(shape_without(input, int(dim), keepdim))

    return run


REORDERED: dict[str, Any] = {"forceinline": True, "fastmath": {"contract", "reassoc", "nsz"}}


# NaN aside, a minimum is one instruction a vector; the caller looks for NaN on its own.
WITHOUT_NAN: dict[str, Any] = {"forceinline": True, "fastmath": {"nnan", "nsz"}}


@njit(**REORDERED)
def sums_of_row(row: Array) -> Any:
    """Return Σ x and Σ x², in float64."""
    total, squares = 0.0, 0.0
    for i in range(row.size):
        # Before it is squared: in float32, squares overflow from 1.8 · 10¹⁹ on.
        x = np.float64(row[i])
        total += x
        squares += x * x
    return total, squares


@njit(**WITHOUT_NAN)
def extremes(row: Array) -> Any:
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
        if squares != squares:  # a NaN (the sum is one also where infinities cancel)
            low = high = data.dtype.type(np.nan)
        statistics[i, 0], statistics[i, 1], statistics[i, 2], statistics[i, 3] = (
            size,
            total / size,
            low,
            high,
        )
        statistics[i, 4] = np.sqrt(squares)


@numpy.ROW_STATISTICS.kernel("cpu", min_size=512)
def tensor_statistics() -> Callable[..., Any]:
    """Make the statistics of the rows of an array."""
    kernel = compile_kernel(row_statistics, ARRAY_2D, FLOAT64_2D)

    def run(data: Array) -> Any:
        if not are_contiguous_floats((data,)) or not data.size:
            return None
        statistics = np.empty((len(data), 5))
        kernel(0, len(data), data, statistics)
        return statistics

    return run
