"""Sums, means, variances and extremes along adjacent axes, or over everything.

NumPy reduces a row with few elements at a time, on one thread, and allocates an array of all
squared deviations for a variance. Here a row is read once with wide registers, and a long one is
cut into chunks for several threads. The chunks' results are combined in float64, in a fixed order:
the result does not depend on the number of threads.

Along other axes than the last ones whole rows are added to each other, four at a time, and each
thread has columns of its own.
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
    FLOAT64,
    FLOAT64_2D,
    INT64,
    INT64_2D,
    TUPLE,
    compile_kernel,
    is_contiguous_float,
    split_at_axis,
    use_wide_vectors,
)
from .parallel import parallel_for
from .row_reduce import (
    add_compensated,
    compensated_total,
    product,
    row_max,
    row_min,
    sum_squared_deviations,
    total,
)
from .work_queue import claim_range

Run = Callable[..., Any]
Dims = int | tuple[int, ...] | None
CHUNK = 65_536
"""The number of elements of a chunk of a row."""

COLUMN_BAND = 16
"""The columns are divided in units of so many: in float32, they fill a cache line."""

MAX_BANDS = 256
"""So many bands are added up together: their sums stay in the L1 cache."""

EXTREMES_BAND = 128
"""So many columns are compared together."""

SUMS_PER_ELEMENT = 8
"""Adding so many elements of adjacent columns takes as long as one element in other kernels."""

SUM, SQUARES, PRODUCT, MAXIMUM, MINIMUM = range(5)
"""What elements are reduced to: Σ x, Σ (x - center)², Π x or an extreme."""


def reduce_chunks(start, stop, x, centers, settings, partial, y):
    """Reduce chunks of rows: to `y` where a row is one chunk, else to a row of `partial`.

    Args:
        settings: what a chunk is reduced to, whether the result is its square root, and by what it
            is divided before.
    """
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    operation, takes_root, divisor = settings
    count, number = partial.shape[1], y.dtype.type
    for index in range(start, stop):
        r, chunk = np.int64(index) // count, np.int64(index) % count
        elements = x[r, chunk * CHUNK : (chunk + 1) * CHUNK]
        if operation == SUM:
            value = total(elements)
        elif operation == SQUARES:
            value = sum_squared_deviations(elements, centers[r])
        else:
            value = product(elements)
        if count > 1:
            partial[r, chunk] = value
        else:
            y[r] = number(math.sqrt(value / divisor) if takes_root else value / divisor)


def combine_chunks(start, stop, partial, settings, y):
    """Reduce the results of the chunks of each row."""
    operation, takes_root, divisor = settings
    number = y.dtype.type
    for r in range(start, stop):
        value, lost = partial[r, 0], 0.0
        for chunk in range(1, partial.shape[1]):
            if operation == PRODUCT:
                value *= partial[r, chunk]
            else:
                value, lost = add_compensated(value, lost, partial[r, chunk])
        value = compensated_total(value, lost) / divisor
        y[r] = number(math.sqrt(value) if takes_root else value)


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
def larger(a, b):
    """The maximum of two numbers; NaN if one of them is NaN."""
    return a if a > b or a != a else b


@njit(forceinline=True)
def smaller(a, b):
    """The minimum of two numbers; NaN if one of them is NaN."""
    return a if a < b or a != a else b


@njit(forceinline=True)
def compare_columns(choose, x, left, right, y):
    """Write the extremes of some columns of a matrix."""
    best, first = y[left:right], (x.shape[0] - 1) % 4 + 1
    for j in range(best.size):
        best[j] = x[0, left + j]
    for r in range(1, first):
        row = x[r, left:right]
        for j in range(best.size):
            best[j] = choose(row[j], best[j])
    for r in range(first, x.shape[0], 4):
        a, b = x[r, left:right], x[r + 1, left:right]
        c, d = x[r + 2, left:right], x[r + 3, left:right]
        for j in range(best.size):
            best[j] = choose(choose(choose(a[j], b[j]), choose(c[j], d[j])), best[j])


def reduce_columns(start, stop, x, operation, divisor, y):
    """Reduce along the middle axis: Σ x / divisor, or an extreme; the range: bands of columns."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    inner = x.shape[2]
    bands = (inner + COLUMN_BAND - 1) // COLUMN_BAND
    # Signed, as a shape is: of a uint64 and an int64, numba's `min` makes a float64.
    unit, last = np.int64(start), np.int64(stop)
    while unit < last:
        block, band = unit // bands, unit % bands
        count = min(bands - band, last - unit, MAX_BANDS)
        left, right = band * COLUMN_BAND, min((band + count) * COLUMN_BAND, inner)
        if operation == SUM:
            add_columns(x[block], left, right, divisor, y[block])
        elif operation == MAXIMUM:
            compare_columns(larger, x[block], left, right, y[block])
        else:
            compare_columns(smaller, x[block], left, right, y[block])
        unit += count


def find_row_extremes(start, stop, x, largest, y):
    """The maximum or the minimum of each row, NaN if there is one."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    for r in range(start, stop):
        y[r] = row_max(x[r]) if largest else row_min(x[r])


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


# The makers --------------------------------------------------------------------------------


@functools.cache
def chunks_kernel() -> Any:
    """Compile `reduce_chunks`, which sums, variances, norms and products use."""
    settings = TUPLE(INT64, BOOL, FLOAT64)
    return compile_kernel(reduce_chunks, ARRAY_2D, ARRAY_1D, settings, FLOAT64_2D, ARRAY_1D)


@functools.cache
def combine_kernel() -> Any:
    """Compile `combine_chunks`."""
    return compile_kernel(combine_chunks, FLOAT64_2D, TUPLE(INT64, BOOL, FLOAT64), ARRAY_1D)


@functools.cache
def columns_kernel() -> Any:
    """Compile `reduce_columns`."""
    return compile_kernel(reduce_columns, ARRAY_3D, INT64, FLOAT64, ARRAY_2D)


def reduce_table(table: np.ndarray, operation: int, divisor: float = 1.0) -> np.ndarray:
    """Reduce an array (before, n, after) along n."""
    outer, _, inner = table.shape
    y, units = np.empty((outer, inner), table.dtype), outer * -(-inner // COLUMN_BAND)
    work = table.size // SUMS_PER_ELEMENT
    parallel_for(columns_kernel(), units, table, operation, divisor, y, work=work)
    return y


UNDIVIDED = np.empty((0, 1))
"""In place of the results of chunks, where each row is one."""


def reduce_rows(
    rows: np.ndarray, operation: int, *, divisor: float = 1.0, takes_root: bool = False,
    centers: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """Return one result for each row."""
    count, n = rows.shape
    y, settings = np.empty(count, rows.dtype), (operation, takes_root, divisor)
    # Only Σ (x - center)² reads the centers, but the kernel's type asks for an array.
    centers = y if centers is None else centers
    if n <= CHUNK:
        parallel_for(chunks_kernel(), count, rows, centers, settings, UNDIVIDED, y, work=rows.size)
        return y
    # One column for each chunk: the result does not depend on the number of threads.
    partial = np.empty((count, -(-n // CHUNK)))
    parallel_for(chunks_kernel(), partial.size, rows, centers, settings, partial, y, work=rows.size)
    combine_kernel()(0, count, partial, settings, y)
    return y


def as_table(input: Array, dim: Dims) -> np.ndarray | None:
    """View an array as (before, n, after), to be reduced along n; None: it cannot be."""
    if not is_contiguous_float(input) or not input.size:
        return None
    shape = input.shape
    if dim is None:
        return input.reshape(1, -1, 1)
    if dim.__class__ is int:
        first, last = dim, dim + 1
    else:
        axes = sorted(dim)
        if not axes or axes != list(range(axes[0], axes[-1] + 1)):
            return None
        first, last = axes[0], axes[-1] + 1
    if first < 0 or last > len(shape):
        return None
    if last == len(shape):
        return input.reshape(math.prod(shape[:first]), -1, 1)
    return input.reshape(math.prod(shape[:first]), math.prod(shape[first:last]), -1)


def as_rows(input: Array, dim: Dims) -> np.ndarray | None:
    """View an array as rows to be reduced; None unless `dim` is its last axes."""
    if dim == 1 and input.ndim == 2:  # the usual case, in half the time
        return input if is_contiguous_float(input) and input.size else None
    table = as_table(input, dim)
    return None if table is None or table.shape[2] > 1 else table.reshape(table.shape[:2])


def reduced_shape(shape: tuple[int, ...], dim: Dims, keepdim: bool) -> tuple[int, ...]:
    """Return the shape of a reduction."""
    if dim is None:
        return (1,) * len(shape) if keepdim else ()
    if dim.__class__ is int:
        return (*shape[:dim], *((1,) if keepdim else ()), *shape[dim + 1 :])
    if keepdim:
        return tuple(1 if axis in dim else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in dim)


def add_along(input: Array, dim: Dims, keepdim: bool, divides: bool) -> np.ndarray | None:
    """Return Σ x, or its quotient by the number of elements; None: the case is another."""
    rows = as_rows(input, dim)
    if rows is not None:
        y = reduce_rows(rows, SUM, divisor=float(rows.shape[1]) if divides else 1.0)
        return y.reshape(reduced_shape(input.shape, dim, keepdim))
    table = as_table(input, dim)
    if table is None or table.shape[2] < 2 * COLUMN_BAND:
        return None  # too few columns for the threads, and for the vectors
    y = reduce_table(table, SUM, float(table.shape[1]) if divides else 1.0)
    return y.reshape(reduced_shape(input.shape, dim, keepdim))


@ops.sum.kernel("cpu", min_size=16_384)
@ops.mean.kernel("cpu", min_size=16_384)
def sum_or_mean(key: str) -> Run:
    """Make the forward of `sum` or `mean`."""
    chunks_kernel(), combine_kernel(), columns_kernel()
    divides = key == "mean"

    def run(input: Array, dim: Dims, keepdim: bool, dtype: DType | None) -> np.ndarray | None:
        return add_along(input, dim, keepdim, divides) if dtype is None else None

    return run


@ops.prod.kernel("cpu", min_size=2048)
def prod() -> Run:
    """Make the forward of `prod`."""
    chunks_kernel(), combine_kernel()

    def run(input: Array, dim: Dims, keepdim: bool, dtype: DType | None) -> np.ndarray | None:
        rows = as_rows(input, dim) if dtype is None else None
        if rows is None:
            return None
        return reduce_rows(rows, PRODUCT).reshape(reduced_shape(input.shape, dim, keepdim))

    return run


@statistics.var.kernel("cpu", min_size=1024)
def var() -> Run:
    """Make the forward of `var`."""
    chunks_kernel(), combine_kernel()

    def run(input: Array, dim: Dims, keepdim: bool, correction: float) -> np.ndarray | None:
        rows = as_rows(input, dim)
        if rows is None or rows.shape[1] <= correction:
            return None
        n = rows.shape[1]
        # Two passes: squared deviations from the mean do not cancel.
        centers = reduce_rows(rows, SUM, divisor=float(n))
        squares = reduce_rows(rows, SQUARES, divisor=float(n - correction), centers=centers)
        return squares.reshape(reduced_shape(input.shape, dim, keepdim))

    return run


@statistics.vector_norm.kernel("cpu", min_size=1024)
def vector_norm() -> Run:
    """Make the forward of norms: √Σ x²."""
    chunks_kernel(), combine_kernel()

    def run(input: Array, ord: float, dim: Dims, keepdim: bool) -> np.ndarray | None:
        rows = as_rows(input, dim) if ord == 2 else None
        if rows is None or rows.shape[1] == 1:
            return None
        centers = np.zeros(len(rows), rows.dtype)
        lengths = reduce_rows(rows, SQUARES, takes_root=True, centers=centers)
        return lengths.reshape(reduced_shape(input.shape, dim, keepdim))

    return run


@ops.amax.kernel("cpu", min_size=8192)
@ops.amin.kernel("cpu", min_size=8192)
def extreme(key: str) -> Run:
    """Make the forward of `amax` or `amin`."""
    kernel, largest = compile_kernel(find_row_extremes, ARRAY_2D, BOOL, ARRAY_1D), key == "amax"
    columns_kernel()

    def along_rows(rows: np.ndarray) -> np.ndarray:
        y = np.empty(len(rows), rows.dtype)
        parallel_for(kernel, len(rows), rows, largest, y, work=rows.size)
        return y

    def run(input: Array, dim: Dims, keepdim: bool) -> np.ndarray | None:
        if dim is None and input.size < 4 * CHUNK:
            return None  # one row, which NumPy compares as fast
        table = as_table(input, dim)
        if table is None:
            return None
        outer, n, inner = table.shape
        if inner > 1:
            y = reduce_table(table, MAXIMUM if largest else MINIMUM)
        elif outer == 1 and n > CHUNK:  # chunks, for all threads; then their extremes and the rest
            row, cut = table.reshape(-1), n // CHUNK * CHUNK
            chunks = along_rows(row[:cut].reshape(-1, CHUNK))
            y = along_rows(np.concatenate((chunks, row[cut:])).reshape(1, -1))
        else:
            y = along_rows(table.reshape(outer, n))
        return y.reshape(reduced_shape(input.shape, dim, keepdim))

    return run


def find_along(input: Array, dim: Any, largest: bool) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the extremes along an axis, and their indices. None: not along another than the last.

    (NumPy searches a contiguous row with vectors.)
    """
    if dim.__class__ is not int or not -input.ndim <= dim < input.ndim - 1 or dim == -1:
        return None
    if not input.size or not is_contiguous_float(input):
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
        values, indices = (
            part.reshape(reduced_shape(input.shape, dim % input.ndim, keepdim)) for part in pair
        )
        return values, indices

    return run


@ops.argmax.kernel("cpu", min_size=4096)
@ops.argmin.kernel("cpu", min_size=4096)
def arg_extreme(key: str) -> Run:
    """Make the forward of `argmax` or `argmin`."""
    extremes_kernel()

    def run(input: Array, dim: int | None, keepdim: bool) -> np.ndarray | None:
        pair = find_along(input, dim, key == "argmax")
        if pair is None or dim is None:
            return None
        return pair[1].reshape(reduced_shape(input.shape, dim % input.ndim, keepdim))

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
        if not is_contiguous_float(data) or not data.size:
            return None
        statistics = np.empty((len(data), 5))
        kernel(0, len(data), data, statistics)
        return statistics

    return run
