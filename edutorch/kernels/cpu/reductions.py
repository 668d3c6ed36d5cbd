"""Sums, means, variances and extremes along adjacent axes, or over everything.

NumPy reduces a row with few elements at a time, on one thread, and allocates an array of all
squared deviations for a variance. Here a row is read once with wide registers
(`axis_reductions.py`), and a long one is cut into chunks for several threads. The chunks' results
are combined in float64, in a fixed order: the result does not depend on the number of threads.

Along other axes than the last ones whole rows are added to each other, and each thread has columns
of its own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from ... import ops
from ...backends import numpy
from ...backends.numpy import Array
from ...core.precision import LONG
from ...dtypes import dtype as DType
from ...ops import sorting, statistics
from .along_axis import AxisLayout, axis_layout
from .axis_reductions import (
    COLUMN_BAND,
    EXTREMES_BAND,
    IN_ORDER,
    MAXIMUM,
    MINIMUM,
    PRODUCT,
    SQUARES,
    SUM,
    VARIANCE,
    column_entries,
    extreme_entries,
    row_entries,
)
from .jit import (
    ARRAY_1D,
    ARRAY_2D,
    BOOL,
    FLOAT64,
    FLOAT64_2D,
    INT64,
    TUPLE,
    compile_kernel,
    is_contiguous_float,
    use_wide_vectors,
)
from .parallel import MIN_PARALLEL, parallel_for
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

MIN_REORDERED = 16_384
"""From so many elements on the order of a sum is another one than NumPy's."""

SUMS_PER_ELEMENT = 8
"""Adding so many elements of adjacent columns takes as long as one element in other kernels."""


def reduce_chunks(start, stop, x, centers, settings, partial):
    """Reduce chunks of long rows; the range counts chunks.

    Args:
        settings: what a chunk is reduced to, and the number of elements of a row.
    """
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    operation, _, _ = settings
    count = partial.shape[1]
    for index in range(start, stop):
        r, chunk = np.int64(index) // count, np.int64(index) % count
        elements = x[r, chunk * CHUNK : (chunk + 1) * CHUNK]
        if operation == SUM:
            value = total(elements)
        elif operation == MAXIMUM:
            value = np.float64(row_max(elements))
        elif operation == MINIMUM:
            value = np.float64(row_min(elements))
        elif operation == PRODUCT:
            value = product(elements)
        else:
            value = sum_squared_deviations(elements, centers[r])
        partial[r, chunk] = value


def combine_chunks(start, stop, partial, settings, y):
    """Reduce the results of the chunks of each row."""
    operation, takes_root, divisor = settings
    number = y.dtype.type
    for r in range(start, stop):
        value, lost = partial[r, 0], 0.0
        for chunk in range(1, partial.shape[1]):
            if operation == PRODUCT:
                value *= partial[r, chunk]
            elif operation in (MAXIMUM, MINIMUM):
                other = partial[r, chunk]
                is_first = value > other if operation == MAXIMUM else value < other
                value = value if is_first or value != value else other
            else:
                value, lost = add_compensated(value, lost, partial[r, chunk])
        value = compensated_total(value, lost) / divisor
        y[r] = number(math.sqrt(value) if takes_root else value)


# The makers --------------------------------------------------------------------------------


@functools.cache
def chunks_kernel() -> Any:
    """Compile `reduce_chunks`."""
    settings = TUPLE(INT64, BOOL, FLOAT64)
    return compile_kernel(reduce_chunks, ARRAY_2D, ARRAY_1D, settings, FLOAT64_2D)


@functools.cache
def combine_kernel() -> Any:
    """Compile `combine_chunks`."""
    return compile_kernel(combine_chunks, FLOAT64_2D, TUPLE(INT64, BOOL, FLOAT64), ARRAY_1D)


def reduce_long_rows(
    rows: np.ndarray, operation: int, divisor: float, takes_root: bool, y: np.ndarray
) -> None:
    """Reduce rows of several chunks."""
    count, n = rows.shape
    centers = np.zeros(count, rows.dtype)
    if operation == VARIANCE:
        reduce_long_rows(rows, SUM, float(n), False, centers)
    # One column for each chunk: the result does not depend on the number of threads.
    partial, settings = np.empty((count, -(-n // CHUNK))), (operation, takes_root, divisor)
    parallel_for(chunks_kernel(), partial.size, rows, centers, settings, partial, work=rows.size)
    combine_kernel()(0, count, partial, settings, y)


class Reduction(NamedTuple):
    """How arrays of one shape and dtype are reduced: what follows from both, worked out once.

    Attributes:
        shape: of the result.
        entry, count: a kernel, and its range; without one, rows are reduced chunk by chunk.
        lengths, operation, divisor, takes_root: its arguments after the addresses.
        work: see `parallel_for`.
    """

    shape: tuple[int, ...]
    entry: Any
    count: int
    lengths: tuple[int, int, int]
    operation: int
    divisor: float
    takes_root: bool
    work: int


def plan_reduction(
    layout: AxisLayout, keepdim: bool, dtype: np.dtype[Any], operation: int, *,
    divisor: float = 1.0, takes_root: bool = False,
) -> Reduction | None:  # fmt: skip
    """Return how a contiguous array is reduced along axes; None: the dtype has no kernel."""
    outer, n, inner = layout.lengths
    entry = (row_entries() if inner == 1 else column_entries()).get(dtype)
    if entry is None or not outer * n * inner:
        return None
    count, work = outer, outer * n * inner
    if inner > 1:
        count, work = outer * -(-inner // COLUMN_BAND), work // SUMS_PER_ELEMENT
    elif n > CHUNK:
        entry = None
    shape = layout.kept if keepdim else layout.reduced
    return Reduction(shape, entry, count, layout.lengths, operation, divisor, takes_root, work)


def reduction_run(plan: Callable[..., Reduction | None]) -> Run:
    """Make the forward of a reduction.

    Args:
        plan: a function of the shape, the dtype and the op's settings, of which there are up to
            three.
    """
    row_entries(), column_entries(), chunks_kernel(), combine_kernel()
    find_plan = functools.lru_cache(1024)(plan)

    def run(input: Array, *settings: Any) -> np.ndarray | None:
        if input.__class__ is not np.ndarray or not input.flags.c_contiguous:
            return None
        dtype = input.dtype
        steps = find_plan(input.shape, dtype, *settings)
        if steps is None:
            return None
        shape, entry, count, lengths, operation, divisor, takes_root, work = steps
        y = np.empty(shape, dtype)
        arrays = id(input), id(y)
        if entry is None:
            rows = input.reshape(lengths[:2])
            reduce_long_rows(rows, operation, divisor, takes_root, y.reshape(count))
        elif work < MIN_PARALLEL:
            entry(0, count, 0.0, arrays, lengths, operation, divisor, takes_root)
        else:
            parallel_for(
                entry, count, 0.0, arrays, lengths, operation, divisor, takes_root, work=work
            )
        return y

    return run


@ops.sum.kernel("cpu", min_size=512)
@ops.mean.kernel("cpu", min_size=512)
def sum_or_mean(key: str) -> Run:
    """Make the forward of `sum` or `mean`."""

    def plan(
        shape: tuple[int, ...], dtype: np.dtype[Any], dim: Dims, keepdim: bool, result: DType | None
    ) -> Reduction | None:
        layout = axis_layout(shape, dim) if result is None else None
        if layout is None:
            return None
        _, n, inner = layout.lengths
        is_small = math.prod(shape) < MIN_REORDERED
        # The definition adds a long axis in groups; few columns suffice for no vectors.
        is_whole = n == math.prod(shape) and dim.__class__ is not int
        if (n > LONG and not is_whole) if is_small else 1 < inner < 2 * COLUMN_BAND:
            return None
        operation, divisor = IN_ORDER if is_small else SUM, float(n) if key == "mean" else 1.0
        return plan_reduction(layout, keepdim, dtype, operation, divisor=divisor)

    return reduction_run(plan)


@ops.prod.kernel("cpu", min_size=256)
def prod() -> Run:
    """Make the forward of `prod`."""

    def plan(
        shape: tuple[int, ...], dtype: np.dtype[Any], dim: Dims, keepdim: bool, result: DType | None
    ) -> Reduction | None:
        layout = axis_layout(shape, dim) if result is None else None
        if layout is None or layout.lengths[2] > 1:
            return None
        return plan_reduction(layout, keepdim, dtype, PRODUCT)

    return reduction_run(plan)


@statistics.var.kernel("cpu", min_size=1024)
def var() -> Run:
    """Make the forward of `var`."""

    def plan(
        shape: tuple[int, ...], dtype: np.dtype[Any], dim: Dims, keepdim: bool, correction: float
    ) -> Reduction | None:
        layout = axis_layout(shape, dim)
        if layout is None or layout.lengths[2] > 1 or layout.lengths[1] <= correction:
            return None
        divisor = float(layout.lengths[1] - correction)
        return plan_reduction(layout, keepdim, dtype, VARIANCE, divisor=divisor)

    return reduction_run(plan)


@statistics.vector_norm.kernel("cpu", min_size=1024)
def vector_norm() -> Run:
    """Make the forward of norms: √Σ x²."""

    def plan(
        shape: tuple[int, ...], dtype: np.dtype[Any], ord: float, dim: Dims, keepdim: bool
    ) -> Reduction | None:
        layout = axis_layout(shape, dim) if ord == 2 else None
        if layout is None or layout.lengths[1] == 1 or 1 < layout.lengths[2] < COLUMN_BAND:
            return None
        return plan_reduction(layout, keepdim, dtype, SQUARES, takes_root=True)

    return reduction_run(plan)


@ops.amax.kernel("cpu", min_size=256)
@ops.amin.kernel("cpu", min_size=256)
def extreme(key: str) -> Run:
    """Make the forward of `amax` or `amin`."""
    operation = MAXIMUM if key == "amax" else MINIMUM

    def plan(
        shape: tuple[int, ...], dtype: np.dtype[Any], dim: Dims, keepdim: bool
    ) -> Reduction | None:
        layout = axis_layout(shape, dim)
        return layout and plan_reduction(layout, keepdim, dtype, operation)

    return reduction_run(plan)


MAX_SEARCHED = 4096
"""In an array of more elements NumPy finds the extremes of rows as fast."""


def find_along(
    input: Array, dim: Any, keepdim: bool, largest: bool
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the extremes along an axis, and their indices. None: the case is another."""
    if dim.__class__ is not int or input.__class__ is not np.ndarray:
        return None
    layout, entry = axis_layout(input.shape, dim), extreme_entries().get(input.dtype)
    if layout is None or entry is None or not input.size or not input.flags.c_contiguous:
        return None
    outer, _, inner = lengths = layout.lengths
    size, shape = input.size, layout.kept if keepdim else layout.reduced
    if inner == 1 and size > MAX_SEARCHED:
        return None
    values, indices = np.empty(shape, input.dtype), np.empty(shape, np.int64)
    count = outer if inner == 1 else outer * -(-inner // EXTREMES_BAND)
    addresses = id(input), id(values), id(indices)
    if size < MIN_PARALLEL:
        entry(0, count, 0.0, addresses, lengths, largest)
    else:
        parallel_for(entry, count, 0.0, addresses, lengths, largest, work=size)
    return values, indices


@sorting.minmax_dim.kernel("cpu", min_size=32)
def minmax_dim() -> Run:
    """Make the forward of `max` and `min` along an axis."""
    extreme_entries()
    return find_along


@ops.argmax.kernel("cpu", min_size=1024)
@ops.argmin.kernel("cpu", min_size=1024)
def arg_extreme(key: str) -> Run:
    """Make the forward of `argmax` or `argmin`."""
    extreme_entries()
    largest = key == "argmax"

    def run(input: Array, dim: int | None, keepdim: bool) -> np.ndarray | None:
        pair = None if dim is None else find_along(input, dim, keepdim, largest)
        return pair and pair[1]

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
