"""Copies between arrays of any strides, on all threads: the kernels of ops that only move elements.

A transpose made contiguous, a flip, a roll and a repeat are one thing: for each axis there is a
step in the source and a step in the target, and the source's may be negative, or 0 in a broadcast.
`copy_into` drops axes of length 1, joins those that both arrays have side by side, and sorts them
by the steps of the target. What is left is one of three cases:

- adjacent elements go to adjacent ones: whole rows are copied;
- adjacent elements of the source lie along another axis than those of the target, as in a
  transpose: tiles are read row by row into a buffer in the L1 cache, and written row by row;
- anything else is copied element by element, along the target's rows.

Elements are moved as integers of their size, so one kernel serves all dtypes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from numba import carray, njit, types

from ... import ops
from ...backends import numpy
from ...backends.numpy import Array
from ...core.storage import make_in_order, memory_format, memory_order, preserve_format
from ...ops import rearrange
from .jit import ARRAY_3D, BOOL, INT64, UNSIGNED, compile_kernel, pointer, use_wide_vectors
from .parallel import parallel_for
from .work_queue import claim_range

__all__ = ["as_floats", "copy_into", "copy_kernel"]

Run = Callable[..., Any]
AXES = 5
"""The axes of a copy, after those have been joined that can be; more are left to NumPy."""

TILE = 64
"""The rows and columns of a tile: with fewer, a row ends before the prefetcher knows it."""

CHUNK = 4096
"""Rows are divided among threads in units of so many elements."""

SMALL = 4096
"""NumPy copies fewer elements before a plan is made."""

BYTES = {1, 2, 4, 8}


@njit(forceinline=True)
def steps_to(row: int, shape: Any, source_steps: Any, target_steps: Any) -> Any:
    """Return the bytes from the first row to the one of this number; the last axis is a row."""
    source = target = 0
    for axis in range(AXES - 2, -1, -1):
        index = row % shape[axis]
        row //= shape[axis]
        source += index * source_steps[axis]
        target += index * target_steps[axis]
    return source, target


@njit(forceinline=True)
def elements_at(address: int, count: int, like: Any) -> Any:
    """Return adjacent elements as an array of the dtype of `like`."""
    return carray(pointer(address, like), (count,))


@njit
def copy_rows(start, stop, addresses, plan, like):
    """Copy chunks of rows; `like` is an array of integers of the elements' size."""
    shape, source_steps, target_steps = plan
    count, step = shape[AXES - 1], source_steps[AXES - 1]
    apart, size = target_steps[AXES - 1], like.itemsize
    chunks = (count + CHUNK - 1) // CHUNK
    for unit in range(np.int64(start), np.int64(stop)):
        source, target = steps_to(unit // chunks, shape, source_steps, target_steps)
        first = unit % chunks * CHUNK
        n = min(CHUNK, count - first)
        at, to = addresses[0] + source + first * step, addresses[1] + target + first * apart
        y = elements_at(to, n, like)
        if apart != size:  # a target with gaps
            for i in range(n):
                elements_at(to + i * apart, 1, like)[0] = elements_at(at + i * step, 1, like)[0]
        elif step == size:
            x = elements_at(at, n, like)
            for i in range(n):
                y[i] = x[i]
        elif step == 0:
            value = elements_at(at, 1, like)[0]
            for i in range(n):
                y[i] = value
        elif step == -size:
            x = elements_at(at + (n - 1) * step, n, like)
            for i in range(n):  # unsigned: an index below 0 would count from the end
                y[i] = x[np.uint64(n - 1 - i)]
        else:
            for i in range(n):
                y[i] = elements_at(at + i * step, 1, like)[0]


@njit
def copy_tiles(start, stop, addresses, plan, like):
    """Copy tiles of the last two axes: the source is adjacent in the first of them."""
    shape, source_steps, target_steps = plan
    rows, columns = shape[AXES - 2], shape[AXES - 1]
    tiles_across, tiles_down = (columns + TILE - 1) // TILE, (rows + TILE - 1) // TILE
    buffer = np.empty((TILE, TILE), like.dtype)
    for unit in range(np.int64(start), np.int64(stop)):
        matrix, tile = unit // (tiles_across * tiles_down), unit % (tiles_across * tiles_down)
        top, left = tile // tiles_across * TILE, tile % tiles_across * TILE
        source, target = steps_to(matrix * rows, shape, source_steps, target_steps)
        source += addresses[0] + top * source_steps[AXES - 2] + left * source_steps[AXES - 1]
        target += addresses[1] + top * target_steps[AXES - 2] + left * target_steps[AXES - 1]
        height, width = min(TILE, rows - top), min(TILE, columns - left)
        for j in range(width):
            line = elements_at(source + j * source_steps[AXES - 1], height, like)
            for i in range(height):
                buffer[i, j] = line[i]
        for i in range(height):
            row = elements_at(target + i * target_steps[AXES - 2], width, like)
            for j in range(width):
                row[j] = buffer[i, j]


def copy_elements(start, stop, addresses, plan, size, in_tiles):
    """Copy the elements of an array to another one; the range counts chunks of rows, or tiles.

    Args:
        addresses: of the first element of the source and of the target.
        plan: the lengths of the axes, and their steps in the source and in the target, in bytes.
        size: the bytes of an element.
    """
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    if in_tiles:
        if size == 4:
            copy_tiles(start, stop, addresses, plan, np.empty(0, np.uint32))
        else:
            copy_tiles(start, stop, addresses, plan, np.empty(0, np.uint64))
    elif size == 4:
        copy_rows(start, stop, addresses, plan, np.empty(0, np.uint32))
    elif size == 8:
        copy_rows(start, stop, addresses, plan, np.empty(0, np.uint64))
    elif size == 2:
        copy_rows(start, stop, addresses, plan, np.empty(0, np.uint16))
    else:
        copy_rows(start, stop, addresses, plan, np.empty(0, np.uint8))


@functools.cache
def copy_kernel() -> Any:
    """Compile `copy_elements`."""
    axes = types.UniTuple(types.int64, AXES)
    signature = types.void(
        UNSIGNED, UNSIGNED, types.UniTuple(types.int64, 2), types.UniTuple(axes, 3),
        types.int64, types.boolean,
    )  # fmt: skip
    return njit([signature], cache=True, nogil=True, error_model="numpy")(copy_elements)


def copy_into(target: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Do `target[...] = source`, of one shape and dtype, and return `target`."""
    if source.size < SMALL:
        target[...] = source
        return target
    axes, size = joined_axes(source, target), target.itemsize
    if len(axes) > AXES or size not in BYTES or source.dtype.hasobject:
        target[...] = source
        return target
    last = axes[-1]
    adjacent = next((axis for axis in axes[:-1] if axis[1] == size and axis[0] > 1), None)
    in_tiles = adjacent is not None and last[1] != size and last[2] == size and size >= 4
    if in_tiles:
        axes = [*(axis for axis in axes[:-1] if axis is not adjacent), adjacent, last]
    plan = tuple(zip(*[(1, 0, 0)] * (AXES - len(axes)), *axes, strict=True))
    rows, width = source.size // last[0], last[0]
    if in_tiles:
        units = rows // adjacent[0] * -(-adjacent[0] // TILE) * -(-width // TILE)
    else:
        units = rows * -(-width // CHUNK)
    addresses = source.ctypes.data, target.ctypes.data
    parallel_for(copy_kernel(), units, addresses, plan, size, in_tiles, work=source.size)
    return target


def joined_axes(source: np.ndarray, target: np.ndarray) -> list[tuple[int, int, int]]:
    """Return (length, step in the source, step in the target) of each axis that is left."""
    axes = [
        axis for axis in zip(source.shape, source.strides, target.strides, strict=True)
        if axis[0] != 1
    ]  # fmt: skip
    axes.sort(key=lambda axis: -abs(axis[2]))
    joined: list[tuple[int, int, int]] = []
    for length, step, apart in axes:
        if joined and joined[-1][1] == step * length and joined[-1][2] == apart * length:
            length *= joined.pop()[0]
        joined.append((length, step, apart))
    return joined


def is_plain(*arrays: Array) -> bool:
    """Whether these are NumPy arrays, none of a subclass."""
    return all(array.__class__ is np.ndarray for array in arrays)


FLOATS = {4: np.dtype("float32"), 8: np.dtype("float64")}


def as_floats(array: Array) -> Any:
    """View an array of any dtype as floats of the same size, to be moved; None: it cannot be."""
    if array.__class__ is not np.ndarray or not array.flags.carray or array.dtype.hasobject:
        return None
    dtype = FLOATS.get(array.itemsize)
    return None if dtype is None else array if array.dtype is dtype else array.view(dtype)


# Ops that only move elements -------------------------------------------------------------------


@ops.clone.kernel("cpu", min_size=16_384)
def clone() -> Run:
    """Make the forward of `clone`."""
    copy_kernel()

    def run(input: Array, format: memory_format | None = None) -> np.ndarray | None:
        if not is_plain(input):
            return None
        if format is None or format is preserve_format:
            order = memory_order(input)
        else:
            order = format.order_of("clone", input.ndim)
        y = make_in_order(lambda shape: np.empty(shape, input.dtype), input.shape, order)
        return copy_into(y, input)

    return run


@numpy.COPY_INTO.kernel("cpu", min_size=65_536)
def copy_onto() -> Run:
    """Make the copy into an array of the same shape and dtype, which shares no memory with it."""
    copy_kernel()
    return copy_into


@numpy.COPY.kernel("cpu", min_size=65_536)
def copy() -> Run:
    """Make the row-major copy of an array."""
    copy_kernel()
    return lambda array: copy_into(np.empty(array.shape, array.dtype), array)


@ops.flip.kernel("cpu", min_size=16_384)
def flip() -> Run:
    """Make the forward of `flip`."""
    copy_kernel()

    def run(input: Array, dims: Any) -> np.ndarray | None:
        if not is_plain(input) or not input.ndim:
            return None
        dims = (dims,) if isinstance(dims, int) else tuple(dims)
        return copy_into(np.empty(input.shape, input.dtype), np.flip(input, dims))

    return run


@ops.roll.kernel("cpu", min_size=16_384)
def roll() -> Run:
    """Make the forward of `roll`: in each axis two parts change places."""
    copy_kernel()

    def run(input: Array, shifts: Any, dims: Any) -> np.ndarray | None:
        if not is_plain(input):
            return None
        x = input.reshape(-1) if dims is None else input
        shifts = shifts if isinstance(shifts, tuple | list) else (shifts,)
        dims = (0,) if dims is None else dims if isinstance(dims, tuple | list) else (dims,)
        if any(not -x.ndim <= dim < x.ndim for dim in dims):
            return None
        if len(shifts) != len(dims) or len({dim % x.ndim for dim in dims}) < len(dims):
            return None
        cuts = [shift % x.shape[dim] for shift, dim in zip(shifts, dims, strict=True)]
        y = np.empty(x.shape, x.dtype)
        for is_moved in product((False, True), repeat=len(dims)):
            source, target = [slice(None)] * x.ndim, [slice(None)] * x.ndim
            for dim, cut, moved in zip(dims, cuts, is_moved, strict=True):
                kept = x.shape[dim] - cut  # the last `cut` elements come first
                source[dim] = slice(kept, None) if moved else slice(kept)
                target[dim] = slice(cut) if moved else slice(cut, None)
            copy_into(y[tuple(target)], x[tuple(source)])
        return y.reshape(input.shape)

    return run


@rearrange.repeat.kernel("cpu", min_size=4096)
def repeat() -> Run:
    """Make the forward of `repeat`: a broadcast over new axes, made contiguous."""
    copy_kernel()

    def run(input: Array, repeats: Any) -> np.ndarray | None:
        repeats = tuple(repeats)
        if not is_plain(input) or len(repeats) < input.ndim or min(repeats, default=0) < 0:
            return None
        shape = (1,) * (len(repeats) - input.ndim) + input.shape
        sizes = [size for pair in zip(repeats, shape, strict=True) for size in pair]
        source = input.reshape([size for length in shape for size in (1, length)])
        y = np.empty(sizes, input.dtype)
        copy_into(y, np.broadcast_to(source, sizes))
        return y.reshape([times * size for times, size in zip(repeats, shape, strict=True)])

    return run


@ops.reshape.kernel("cpu", min_size=65_536)
def reshape() -> Run:
    """Make the forward of `reshape` where it has to copy."""
    copy_kernel()

    def run(input: Array, shape: Any) -> np.ndarray | None:
        if input.__class__ is not np.ndarray or input.flags.c_contiguous:
            return None
        try:
            return input.reshape(shape, copy=False)
        except ValueError:
            return copy_into(np.empty(input.shape, input.dtype), input).reshape(shape)
        except TypeError:  # an older NumPy
            return None

    return run


def copy_triangle(start, stop, x, y, diagonal, is_lower):
    """Copy the part of matrices on one side of a diagonal, and 0 elsewhere; the range: rows."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    rows, columns = x.shape[1], x.shape[2]
    for unit in range(np.int64(start), np.int64(stop)):
        matrix, r = unit // rows, unit % rows
        row, out = x[matrix, r], y[matrix, r]
        cut = min(max(r + diagonal + is_lower, 0), columns)
        first, last = (0, cut) if is_lower else (cut, columns)
        kept, target = row[first:last], out[first:last]
        for j in range(kept.size):
            target[j] = kept[j]
        empty = out[last:] if is_lower else out[:first]
        for j in range(empty.size):
            empty[j] = 0


@ops.tril.kernel("cpu", min_size=4096)
@ops.triu.kernel("cpu", min_size=4096)
@ops.tril.kernel("cpu", "input", min_size=4096)
@ops.triu.kernel("cpu", "input", min_size=4096)
def triangle(key: str) -> Run:
    """Make the forward of `tril` or `triu`, or its rule, which is the same."""
    kernel = compile_kernel(copy_triangle, ARRAY_3D, ARRAY_3D, INT64, BOOL)
    is_lower = key.startswith("tril")

    def run(input: Array, diagonal: int) -> np.ndarray | None:
        x = as_floats(input)
        if x is None or x.ndim < 2 or not x.size or diagonal.__class__ is not int:
            return None
        y, shape = np.empty_like(x), (-1, *x.shape[-2:])
        diagonal = max(min(diagonal, 1 << 40), -(1 << 40))
        matrices = x.reshape(shape)
        parallel_for(
            kernel, matrices.shape[0] * x.shape[-2], matrices, y.reshape(shape), diagonal,
            is_lower, work=x.size,
        )  # fmt: skip
        return y.view(input.dtype)

    return run
