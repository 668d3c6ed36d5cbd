"""Gather and scatter along an axis, and the selection of whole slices, on all threads.

NumPy resolves an index array for each axis of the array. Here an element's index along the one axis
is all that is read, and it is checked on the way: a kernel that meets an index out of range reports
it, and the definition raises the error.

An array is (outer, n, inner): the axes before that of the index, the axis itself, those after it.
Threads divide what cannot meet: rows, or columns of rows. So the order of a sum is fixed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from ...backends import numpy
from ...backends.kernel_registry import as_ndarray
from ...backends.numpy import Array
from ...ops import cumulative, gather_scatter, sorting
from .jit import (
    ARRAY_3D,
    INT64,
    INT64_1D,
    INT64_3D,
    compile_kernel,
    split_at_axis,
    use_wide_vectors,
)
from .parallel import parallel_for
from .scan import is_axis
from .scatter import count_leading_slices, is_full_slice
from .strided_copy import as_floats
from .work_queue import claim_range

__all__ = ["gather_along", "scatter_along"]

Run = Callable[..., Any]
COLUMN_BAND = 64
"""The columns are divided in units of so many."""

CHUNK = 4096
"""Indices are divided in units of so many elements."""

ASSIGN, ADD, CLEAR = range(3)
"""What `scatter_elements` does with an element: replace it, add to it, set it to 0."""


def gather_elements(start, stop, x, index, y, errors):
    """y[i, k, j] = x[i, index[i, k, j], j]; the range counts chunks of all indices of each i."""
    start, stop = claim_range(start, stop)
    n, inner = np.uint64(x.shape[1]), np.uint64(x.shape[2])
    count = index.shape[1] * index.shape[2]
    chunks = (count + CHUNK - 1) // CHUNK
    for unit in range(np.int64(start), np.int64(stop)):
        i, first = unit // chunks, unit % chunks * CHUNK
        size = min(CHUNK, count - first)
        block, out = x[i].reshape(-1), y[i].reshape(-1)[first : first + size]
        chosen = index[i].reshape(-1)[first : first + size]
        j = np.uint64(first) % inner
        for k in range(size):
            at = np.uint64(chosen[k])  # a negative one becomes a very large one
            if at >= n:
                errors[0] = 1
            else:
                out[k] = block[at * inner + j]
            j += np.uint64(1)
            j = np.uint64(0) if j == inner else j


def scatter_elements(start, stop, y, index, source, errors, mode):
    """Put source[i, k, j] at y[i, index[i, k, j], j]; the range counts i and bands of columns."""
    start, stop = claim_range(start, stop)
    n, m, inner = np.uint64(y.shape[1]), np.uint64(index.shape[1]), y.shape[2]
    if inner == 1:
        for i in range(start, stop):
            row, values, chosen = y[i].reshape(-1), source[i].reshape(-1), index[i].reshape(-1)
            for k in range(m):
                at = np.uint64(chosen[k])
                if at >= n:
                    errors[0] = 1
                elif mode == ADD:
                    row[at] += values[k]
                elif mode == ASSIGN:
                    row[at] = values[k]
                else:
                    row[at] = 0
        return
    bands = (inner + COLUMN_BAND - 1) // COLUMN_BAND
    for unit in range(np.int64(start), np.int64(stop)):
        i, left = unit // bands, unit % bands * COLUMN_BAND
        first, last = np.uint64(left), np.uint64(min(left + COLUMN_BAND, inner))
        for k in range(m):
            for j in range(first, last):
                at = np.uint64(index[i, k, j])
                if at >= n:
                    errors[0] = 1
                elif mode == ADD:
                    y[i, at, j] += source[i, k, j]
                elif mode == ASSIGN:
                    y[i, at, j] = source[i, k, j]
                else:
                    y[i, at, j] = 0


def select_slices(start, stop, x, index, y, errors):
    """y[i, k] = x[i, index[k]]; the range counts chunks of the index for each i."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    n, inner, chunk = np.uint64(x.shape[1]), x.shape[2], chunk_of(x.shape[2])
    chunks = (index.size + chunk - 1) // chunk
    for unit in range(np.int64(start), np.int64(stop)):
        i, first = unit // chunks, unit % chunks * chunk
        size = min(chunk, index.size - first)
        block, out = x[i].reshape(-1), y[i].reshape(-1)[first * inner : (first + size) * inner]
        chosen = index[first : first + size]
        for k in range(size):
            at = np.uint64(chosen[k])
            if at >= n:
                errors[0] = 1
            elif inner == 1:
                out[k] = block[at]
            else:
                row = block[np.int64(at) * inner : (np.int64(at) + 1) * inner]
                target = out[k * inner : (k + 1) * inner]
                for j in range(inner):
                    target[j] = row[j]


@njit
def chunk_of(inner):
    """Return how many slices of so many elements are copied at a time."""
    return max(CHUNK // inner, 1) if inner else 1


@functools.cache
def gather_kernel() -> Any:
    """Compile `gather_elements`."""
    return compile_kernel(gather_elements, ARRAY_3D, INT64_3D, ARRAY_3D, INT64_1D)


@functools.cache
def scatter_kernel() -> Any:
    """Compile `scatter_elements`."""
    return compile_kernel(scatter_elements, ARRAY_3D, INT64_3D, ARRAY_3D, INT64_1D, INT64)


@functools.cache
def select_kernel() -> Any:
    """Compile `select_slices`."""
    return compile_kernel(select_slices, ARRAY_3D, INT64_1D, ARRAY_3D, INT64_1D)


def index_array(index: Any) -> Any:
    """Return an index, a tensor or an array, as a plain array."""
    return as_ndarray(getattr(index, "_array", index))


def index_of(index: Any, shape: tuple[int, ...], dim: int) -> Any:
    """Return an index as a contiguous array of int64; None unless it fits all of the other axes."""
    index = index_array(index)
    if index.__class__ is not np.ndarray or index.dtype.kind not in "iu" or not index.size:
        return None
    others = list(index.shape)
    if len(others) != len(shape) or not -len(shape) <= dim < len(shape):
        return None
    others[dim] = shape[dim]
    if tuple(others) != tuple(shape):
        return None
    index = np.ascontiguousarray(index, np.int64)
    return index if index.flags.writeable else index.copy()


def gather_along(input: Array, dim: int, index: Any) -> np.ndarray | None:
    """Return the elements at `index` along `dim`. None: another case, or an index out of range."""
    x = as_floats(input)
    index = None if x is None or not x.size else index_of(index, x.shape, dim)
    if index is None:
        return None
    shape = split_at_axis(index.shape, dim)
    y, errors = np.empty(shape, x.dtype), np.zeros(1, np.int64)
    rows = x.reshape(split_at_axis(x.shape, dim))
    units = shape[0] * -(-shape[1] * shape[2] // CHUNK)
    parallel_for(gather_kernel(), units, rows, index.reshape(shape), y, errors, work=index.size)
    return None if errors[0] else y.view(input.dtype).reshape(index.shape)


def scatter_along(
    y: np.ndarray, dim: int, index: Any, source: Array | None, mode: int
) -> np.ndarray | None:
    """Put the elements of `source` at `index` along `dim` of y, in place; see `gather_along`."""
    index = index_of(index, y.shape, dim) if y.size and is_axis(y, dim) else None
    if index is None:
        return None
    shape, full = split_at_axis(index.shape, dim), split_at_axis(y.shape, dim)
    if mode == CLEAR:
        values = y.reshape(full)
    elif source.__class__ is np.ndarray and source.shape == index.shape and source.dtype == y.dtype:
        values = np.array(source, order="C", copy=None).reshape(shape)
        values = values if values.flags.writeable else values.copy()
    else:
        return None
    errors = np.zeros(1, np.int64)
    parallel_for(
        scatter_kernel(), full[0] * -(-full[2] // COLUMN_BAND), y.reshape(full),
        index.reshape(shape), values, errors, mode, work=index.size,
    )  # fmt: skip
    return None if errors[0] else y


# Makers ------------------------------------------------------------------------------------------


@gather_scatter.gather.kernel("cpu", min_size=256)
def gather() -> Run:
    """Make the forward of `gather`."""
    gather_kernel()

    def run(input: Array, dim: int, index: Any, sparse_grad: bool) -> np.ndarray | None:
        return gather_along(input, dim, index)

    return run


@gather_scatter.gather.kernel("cpu", "input", min_size=1)
@cumulative.cum_minmax.kernel("cpu", "input", min_size=256)
@sorting.sort_forward.kernel("cpu", "input", min_size=256)
def add_back(key: str) -> Run:
    """Make a rule that adds each gradient where its element was picked."""
    scatter_kernel()

    def run(g: Array, shape: tuple[int, ...], dim: int, index: Any) -> np.ndarray | None:
        if g.size < 256:
            return None
        return scatter_along(np.zeros(shape, g.dtype), dim, index, g, ADD)

    return run


@sorting.minmax_dim.kernel("cpu", "input", min_size=32)
def minmax_input() -> Run:
    """Make the rule of `max` and `min` along an axis."""
    scatter_kernel()

    def run(
        g: Array, shape: tuple[int, ...], dim: int, keepdim: bool, index: Any
    ) -> np.ndarray | None:
        if not keepdim:
            axis = dim % len(shape)
            g, index = np.expand_dims(g, axis), np.expand_dims(index, axis)
        return scatter_along(np.zeros(shape, g.dtype), dim, index, g, ASSIGN)

    return run


@gather_scatter.scatter.kernel("cpu", min_size=256)
def scatter() -> Run:
    """Make the forward of `scatter`."""
    scatter_kernel()

    def run(input: Array, dim: int, index: Any, src: Any, value: Any) -> np.ndarray | None:
        if src is None or input.__class__ is not np.ndarray:
            return None
        return scatter_along(input.copy(), dim, index, src, ASSIGN)

    return run


@gather_scatter.scatter_add.kernel("cpu", min_size=256)
def scatter_add() -> Run:
    """Make the forward of `scatter_add`."""
    scatter_kernel()

    def run(input: Array, dim: int, index: Any, src: Array) -> np.ndarray | None:
        if input.__class__ is not np.ndarray:
            return None
        return scatter_along(input.copy(), dim, index, src, ADD)

    return run


@gather_scatter.scatter.kernel("cpu", "input", min_size=256)
def scatter_input() -> Run:
    """Make the rule of `scatter` for its input: 0 where another value was put."""
    scatter_kernel()

    def run(g: Array, dim: int, index: Any) -> np.ndarray | None:
        return scatter_along(np.array(g), dim, index, None, CLEAR)

    return run


@gather_scatter.scatter.kernel("cpu", "src", min_size=256)
@gather_scatter.scatter_add.kernel("cpu", "src", min_size=256)
def gather_source(key: str) -> Run:
    """Make the rule of a scatter for its source: the gradient at the index."""
    gather_kernel()

    def run(g: Array, src_shape: tuple[int, ...], dim: int, index: Any) -> np.ndarray | None:
        index = index_array(index)
        return gather_along(g, dim, index) if index.shape == tuple(src_shape) else None

    return run


def select_along(input: Array, dim: int, index: Array) -> np.ndarray | None:
    """Return the slices at `index`, a vector of int64. None: another case, or out of range."""
    x = as_floats(input)
    if x is None or not x.size or not x.ndim or not -x.ndim <= dim < x.ndim:
        return None
    outer, n, inner = split_at_axis(x.shape, dim)
    y, errors = np.empty((outer, index.size, inner), x.dtype), np.zeros(1, np.int64)
    units = outer * -(-index.size // max(CHUNK // inner, 1))
    rows = x.reshape(outer, n, inner)
    parallel_for(select_kernel(), units, rows, index, y, errors, work=y.size)
    if errors[0]:
        return None
    dim %= x.ndim
    return y.view(input.dtype).reshape(*x.shape[:dim], index.size, *x.shape[dim + 1 :])


@gather_scatter.index_select.kernel("cpu", min_size=256)
def index_select() -> Run:
    """Make the forward of `index_select`."""
    select_kernel()

    def run(input: Array, dim: int, index: Any) -> np.ndarray | None:
        index = index_array(index)
        if index.__class__ is not np.ndarray or index.ndim != 1 or index.dtype != np.int64:
            return None
        index = np.ascontiguousarray(index)
        return select_along(input, dim, index if index.flags.writeable else index.copy())

    return run


@numpy.TAKE_AT.kernel("cpu", min_size=4096)
def take_at() -> Run:
    """Make `array[index]` for an index array after full slices: x[index], x[:, index]."""
    select_kernel()

    def run(array: Array, index: Any) -> np.ndarray | None:
        parts = index if index.__class__ is tuple else (index,)
        dim = count_leading_slices(parts)
        while len(parts) > dim + 1 and (parts[-1] is Ellipsis or is_full_slice(parts[-1])):
            parts = parts[:-1]
        if len(parts) != dim + 1:
            return None
        rows = as_ndarray(parts[dim])
        if rows.__class__ is not np.ndarray or rows.dtype != np.int64 or not rows.ndim:
            return None
        flat = np.where(rows < 0, rows + array.shape[dim], rows).reshape(-1)
        y = select_along(array, dim, flat)
        if y is None:
            return None
        return y.reshape(*array.shape[:dim], *rows.shape, *array.shape[dim + 1 :])

    return run
