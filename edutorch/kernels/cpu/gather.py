"""Gather along an axis, and the selection of whole slices, on all threads.

NumPy resolves an index array for each axis of the array. Here an element's index along the one axis
is all that is read, and it is checked on the way: a kernel that meets an index out of range reports
it, and the definition raises the error. Elements are moved as integers of their size, so one kernel
serves all dtypes. (What an array is here: see `scatter.py`.)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from ...backends import numpy
from ...backends.kernel_registry import as_ndarray
from ...backends.numpy import Array
from ...ops import gather_scatter
from .array_blocks import DATA, load, store
from .jit import pointer, use_wide_vectors
from .scatter import (
    INT64_DTYPE,
    axis_and_index,
    compile_for_objects,
    count_leading_slices,
    fits,
    is_full_slice,
    run_checked,
    split_axes,
)
from .strided_copy import SHARES
from .work_queue import claim_range

__all__ = ["gather_along"]

Run = Callable[..., Any]
LONG = 1024
"""From so many elements on, a second pass over an index takes longer than a test of each."""

CHUNK = 4096
"""Indices are divided in units of so many elements."""


@njit
def is_in_range(chosen, count, n):
    """Whether all of these indices, read as unsigned, are below n: a negative one is huge."""
    highest = np.uint64(0)
    for k in range(np.uint64(count)):
        highest = max(highest, chosen[k])
    return count == 0 or highest < np.uint64(n)


@njit
def gather_units(start, stop, addresses, lengths, like):
    """y[i, k, j] = x[i, index[i, k, j], j]; return whether all indices are in range."""
    x, index, y = addresses
    outer, n, m, inner = lengths
    count, size, is_valid = m * inner, like.itemsize, True
    chunks = (count + CHUNK - 1) // CHUNK
    units = outer * chunks
    for unit in range(units * start // SHARES, units * stop // SHARES):
        i, first = unit, 0
        if chunks > 1:
            i, first = unit // chunks, unit % chunks * CHUNK
        length = np.uint64(min(CHUNK, count - first))
        block = pointer(x + i * n * inner * size, like)
        out = pointer(y + (i * count + first) * size, like)
        chosen = pointer(index + (i * count + first) * 8, np.empty(0, np.uint64))
        if inner == 1 and length > LONG:  # the index is read once
            for k in range(length):
                at = chosen[k]
                if at >= np.uint64(n):
                    return False
                out[k] = block[at]
        elif not is_in_range(chosen, length, n):
            is_valid = False
        elif inner == 1:
            for k in range(length):
                out[k] = block[chosen[k]]
        else:
            width, k, j = np.uint64(inner), np.uint64(0), np.uint64(first % inner)
            while k < length:  # a part of one row at a time
                last = min(length, k + width - j)
                for at in range(k, last):
                    out[at] = block[chosen[at] * width + (at - k + j)]
                k, j = last, np.uint64(0)
    return is_valid


def gather_elements(start, stop, x, index, y, errors, dim, size):
    """Gather along an axis; the range counts `SHARES`."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    outer, n, inner = split_axes(x, dim, size)
    m = split_axes(index, dim, 8)[1]
    start, stop, is_valid = np.int64(start), np.int64(stop), False
    if n >= 0 and m >= 0 and fits(x, index, dim):
        addresses, lengths = (
            (load(x + DATA), load(index + DATA), load(y + DATA)),
            (outer, n, m, inner),
        )
        if size == 4:
            is_valid = gather_units(start, stop, addresses, lengths, np.empty(0, np.uint32))
        elif size == 8:
            is_valid = gather_units(start, stop, addresses, lengths, np.empty(0, np.uint64))
        elif size == 2:
            is_valid = gather_units(start, stop, addresses, lengths, np.empty(0, np.uint16))
        else:
            is_valid = gather_units(start, stop, addresses, lengths, np.empty(0, np.uint8))
    if not is_valid:
        store(load(errors + DATA), 1)


@njit
def select_units(start, stop, addresses, lengths, like):
    """y[i, k] = x[i, index[k]]; return whether all indices are in range."""
    x, index, y = addresses
    outer, n, m, inner = lengths
    count, size = m * inner, like.itemsize
    chosen = pointer(index, np.empty(0, np.uint64))
    if not is_in_range(chosen, m, n):
        return False
    chunks = (count + CHUNK - 1) // CHUNK
    units = outer * chunks
    for unit in range(units * start // SHARES, units * stop // SHARES):
        i, first = unit // chunks, unit % chunks * CHUNK
        length = min(CHUNK, count - first)
        block, to = x + i * n * inner * size, y + (i * count + first) * size
        if inner == 1:
            source, out = pointer(block, like), pointer(to, like)
            for k in range(np.uint64(length)):
                out[k] = source[chosen[np.uint64(first) + k]]
            continue
        k, j, done = first // inner, first % inner, 0
        while done < length:  # a part of one slice at a time
            width = min(length - done, inner - j)
            at = np.int64(chosen[k]) * inner + j
            source, out = pointer(block + at * size, like), pointer(to + done * size, like)
            for element in range(np.uint64(width)):
                out[element] = source[element]
            k, j, done = k + 1, 0, done + width
    return True


def select_slices(start, stop, x, index, y, errors, dim, size):
    """Select slices of an axis; the range counts `SHARES`."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    outer, n, inner = split_axes(x, dim, size)
    m = split_axes(index, 0, 8)[1]
    start, stop, is_valid = np.int64(start), np.int64(stop), False
    if n >= 0 and m >= 0:
        addresses, lengths = (
            (load(x + DATA), load(index + DATA), load(y + DATA)),
            (outer, n, m, inner),
        )
        if size == 4:
            is_valid = select_units(start, stop, addresses, lengths, np.empty(0, np.uint32))
        elif size == 8:
            is_valid = select_units(start, stop, addresses, lengths, np.empty(0, np.uint64))
        elif size == 2:
            is_valid = select_units(start, stop, addresses, lengths, np.empty(0, np.uint16))
        else:
            is_valid = select_units(start, stop, addresses, lengths, np.empty(0, np.uint8))
    if not is_valid:
        store(load(errors + DATA), 1)


@functools.cache
def gather_kernel() -> Any:
    """Compile `gather_elements`."""
    return compile_for_objects(gather_elements, types.int64, types.int64)


@functools.cache
def select_kernel() -> Any:
    """Compile `select_slices`."""
    return compile_for_objects(select_slices, types.int64, types.int64)


def gather_along(
    input: Array, dim: int, index: Any, sparse_grad: bool = False
) -> np.ndarray | None:
    """Return the elements at `index` along `dim`. None: another case, or an index out of range."""
    kernel = gather_kernel()
    dim, index = axis_and_index(input, dim, index)
    if dim < 0 or kernel is None:
        return None
    y = np.empty(index.shape, input.dtype)
    return y if run_checked(kernel, y.size, input, index, y, dim, y.itemsize) else None


# Makers ------------------------------------------------------------------------------------------


@gather_scatter.gather.kernel("cpu", min_size=64)
def gather() -> Run:
    """Make the forward of `gather`."""
    gather_kernel()
    return gather_along


@gather_scatter.scatter.kernel("cpu", "src", min_size=64)
@gather_scatter.scatter_add.kernel("cpu", "src", min_size=64)
def gather_source(key: str) -> Run:
    """Make the rule of a scatter for its source: the gradient at the index."""
    gather_kernel()

    def run(g: Array, src_shape: tuple[int, ...], dim: int, index: Any) -> np.ndarray | None:
        return gather_along(g, dim, index) if tuple(index.shape) == tuple(src_shape) else None

    return run


def select_along(input: Array, dim: int, index: Any) -> np.ndarray | None:
    """Return the slices at `index`, a vector. None: another case, or out of range."""
    kernel = select_kernel()
    dim, index = axis_and_index(input, dim, index)
    if dim < 0 or index.ndim != 1 or kernel is None:
        return None
    shape = list(input.shape)
    shape[dim] = index.size
    y = np.empty(shape, input.dtype)
    if not y.size:
        return None
    return y if run_checked(kernel, y.size, input, index, y, dim, y.itemsize) else None


@gather_scatter.index_select.kernel("cpu", min_size=64)
def index_select() -> Run:
    """Make the forward of `index_select`."""
    select_kernel()
    return select_along


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
        if rows.__class__ is not np.ndarray or rows.dtype is not INT64_DTYPE or not rows.ndim:
            return None
        flat = np.where(rows < 0, rows + array.shape[dim], rows).reshape(-1)
        y = select_along(array, dim, flat)
        if y is None:
            return None
        return y.reshape(*array.shape[:dim], *rows.shape, *array.shape[dim + 1 :])

    return run
