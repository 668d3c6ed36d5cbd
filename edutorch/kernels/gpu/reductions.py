"""sum, mean, var and amax of rows, and sums of columns, on a GPU (`reductions.cu`).

A row of more than 8,192 elements is cut into chunks, each summed by a block of its own; a second,
small kernel adds the chunks up in their order: no atomics, so the result is always the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import backends, ops
from ...backends.numpy import Array
from ...dtypes import dtype as DType
from ...ops import statistics
from .module import blocks_for, launch
from .row_launch import MAX_ROWS, as_table, is_supported, module_for, row_threads, wide_type

Run = Callable[..., Any]
Dims = int | tuple[int, ...] | None
CHUNK = 8192
"""The elements of a row that one block reduces, if the row has no more than MAX_CHUNKS of them."""

MAX_CHUNKS = 1024
MAX_GROUPS = 64
COLUMN_THREADS = 256
"""A block of `sum_columns`: 32 columns, 8 rows at a time."""


def reduced_axes(input: Array, dim: Dims) -> tuple[int, ...]:
    """Return the axes that are reduced, in order."""
    dims = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    return tuple(sorted(axis % max(1, input.ndim) for axis in dims))


def reduced_shape(input: Array, axes: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    """Return the shape of the result."""
    shape = [(1 if axis in axes else size) for axis, size in enumerate(input.shape)]
    return tuple(size for axis, size in enumerate(shape) if keepdim or axis not in axes)


def as_rows(input: Array, axes: tuple[int, ...]) -> Array | None:
    """Return an array as rows to be reduced; None unless its last axes are."""
    kept = input.ndim - len(axes)
    if not is_supported(input) or not axes or axes != tuple(range(kept, input.ndim)):
        return None
    table = as_table(input, math.prod(input.shape[kept:]))
    return table if table.shape[0] <= MAX_ROWS else None


def chunk_size(n: int) -> int:
    """Return the size of a row's chunks."""
    return max(CHUNK, -(-n // MAX_CHUNKS))


def sum_rows(table: Array, divisor: float, centers: Array | None = None, wide: bool = False) -> Any:
    """Return Σ x / divisor of each row, or Σ (x - center)² / divisor.

    Args:
        wide: return it in the type of the arithmetic.
    """
    rows, n = table.shape
    xp, number, chunk = backends.of(table).xp, wide_type(table.dtype), chunk_size(n)
    chunks = -(-n // chunk)
    module = module_for("reductions", table.dtype.name)
    partial = xp.empty((rows, chunks), number)
    centers_or_any = partial if centers is None else centers
    sizes = np.int64(n), np.int32(chunk), np.int32(centers is not None)
    threads = row_threads(min(n, chunk))
    launch(module, "sum_chunks", (rows, chunks), threads, (table, centers_or_any, partial, *sizes))
    y = xp.empty(rows, number if wide else table.dtype)
    narrow_y, wide_y = (table, y) if wide else (y, partial)
    arguments = partial, narrow_y, wide_y, np.int32(rows), np.int32(chunks), number(divisor)
    launch(module, "finish_sums", blocks_for(rows, 128), 128, (*arguments, np.int32(wide)))
    return y


def sum_columns(table: Array, divisor: float = 1, dtype: Any = None) -> Any:
    """Return Σ x / divisor of each column."""
    rows, n = table.shape
    xp, number = backends.of(table).xp, wide_type(table.dtype)
    groups = column_groups(rows)
    partial = xp.empty((len(groups), n), number)
    sizes = np.int32(rows), np.int32(n), np.int32(groups.step)
    grid = (blocks_for(n, 32), len(groups))
    module = module_for("reductions", table.dtype.name)
    launch(module, "sum_columns", grid, COLUMN_THREADS, (table, partial, *sizes))
    return finish_columns(partial, dtype or table.dtype, divisor)


def column_groups(rows: int) -> range:
    """Return the first rows of the groups whose sums are computed on their own."""
    return range(0, rows, max(64, -(-rows // MAX_GROUPS)))


def finish_columns(partial: Array, dtype: Any, divisor: float = 1) -> Any:
    """Return the sums of the columns of a small table, in a dtype."""
    groups, n = partial.shape
    y = backends.of(partial).xp.empty(n, dtype)
    module = module_for("reductions", y.dtype.name)
    arguments = partial, y, np.int32(groups), np.int32(n), wide_type(y.dtype)(divisor)
    launch(module, "finish_columns", blocks_for(n, 128), 128, arguments)
    return y


def max_rows(table: Array) -> Any:
    """Return the maximum of each row, NaN if there is one."""
    while True:
        rows, n = table.shape
        chunk = chunk_size(n)
        partial = backends.of(table).xp.empty((rows, -(-n // chunk)), table.dtype)
        module = module_for("reductions", table.dtype.name)
        arguments = table, partial, np.int64(n), np.int32(chunk)
        launch(module, "max_chunks", partial.shape, row_threads(min(n, chunk)), arguments)
        if partial.shape[1] == 1:
            return partial
        table = partial


def sum_or_mean(is_mean: bool) -> Run:
    """Make the forward of `sum` or of `mean`."""

    def run(input: Array, dim: Dims, keepdim: bool, dtype: DType | None) -> Any:
        axes = reduced_axes(input, dim)
        if dtype is not None or not axes or not is_supported(input):
            return None
        n = math.prod(input.shape[axis] for axis in axes)
        divisor = n if is_mean else 1
        rows = as_rows(input, axes)
        if rows is not None:
            return sum_rows(rows, divisor).reshape(reduced_shape(input, axes, keepdim))
        if axes != tuple(range(len(axes))):
            return None
        table = as_table(input, input.size // n)
        return sum_columns(table, divisor).reshape(reduced_shape(input, axes, keepdim))

    return run


@ops.sum.kernel("cuda", min_size=0)
def sum() -> Run:
    """Make the forward of `sum`."""
    return sum_or_mean(is_mean=False)


@ops.mean.kernel("cuda", min_size=0)
def mean() -> Run:
    """Make the forward of `mean`."""
    return sum_or_mean(is_mean=True)


@statistics.var.kernel("cuda", min_size=0)
def var() -> Run:
    """Make the forward of `var`: the mean first, then the squared distances from it."""

    def run(input: Array, dim: Dims, keepdim: bool, correction: float) -> Any:
        axes = reduced_axes(input, dim)
        rows = as_rows(input, axes)
        if rows is None or rows.shape[1] <= correction:
            return None
        n = rows.shape[1]
        centers = sum_rows(rows, n, wide=True)
        y = sum_rows(rows, n - correction, centers)
        return y.reshape(reduced_shape(input, axes, keepdim))

    return run


@ops.amax.kernel("cuda", min_size=0)
def amax() -> Run:
    """Make the forward of `amax`."""

    def run(input: Array, dim: Dims, keepdim: bool) -> Any:
        axes = reduced_axes(input, None if dim == () else dim)
        rows = as_rows(input, axes)
        return None if rows is None else max_rows(rows).reshape(reduced_shape(input, axes, keepdim))

    return run
