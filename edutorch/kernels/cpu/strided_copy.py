"""Copies between arrays of any strides, on all threads: the kernels of ops that only move elements.

A transpose made contiguous, a flip, a roll and a repeat are one thing: for each axis there is a
step in the source and a step in the target, and the source's may be negative, or 0 in a broadcast.
The kernel reads them from the array objects themselves (see `array_blocks.py`): it drops axes of
length 1, joins those that both arrays have side by side, and sorts them by the steps of the target.
What is left is one of three cases:

- adjacent elements go to adjacent ones: whole rows are copied;
- adjacent elements of the source lie along another axis than those of the target, as in a
  transpose: tiles are read row by row into a buffer in the L1 cache, and written row by row;
- anything else is copied element by element, along the longer one of the last two axes.

Elements are moved as integers of their size, so one kernel serves all dtypes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import carray, njit, types

from ... import ops
from ...backends import numpy
from ...backends.numpy import Array
from ...core.storage import make_in_order, memory_format, memory_order, preserve_format
from ...nn.functional import padding
from ...ops import joining, rearrange
from . import parallel
from .array_blocks import DATA, NDIM, SHAPE, STRIDES, layout_is_known, load
from .jit import UNSIGNED, pointer, use_wide_vectors
from .parallel import parallel_for
from .work_queue import claim_range

__all__ = ["SHARES", "copy_into", "copy_kernel"]

Run = Callable[..., Any]
MAX_AXES = 65
"""The axes that NumPy's arrays have at most, and one for the halves of complex numbers."""

TILE = 64
"""The rows and columns of a tile: with fewer, a row ends before the prefetcher knows it."""

CHUNK = 4096
"""Rows are divided among threads in units of so many elements."""

SHORT = 16
"""Rows of fewer elements are copied together, column by column."""

SMALL = 8192
"""NumPy copies fewer elements."""

SHARES = 1 << 12
"""The range of a copy is divided in so many shares: only the kernel knows how many units it has."""

BYTES = {1, 2, 4, 8, 16}

LENGTH, STEP, APART = range(3)
"""Of an axis: its length, its step in the source and in the target, in bytes."""


@njit
def read_axes(target, source, size, axes):
    """Write the axes that are left, those with the longest steps of the target first.

    Returns: their number, at least 1; 0 for arrays without elements.
    """
    ndim = load(target + NDIM) & 0xFFFFFFFF
    lengths, steps, aparts = load(target + SHAPE), load(source + STRIDES), load(target + STRIDES)
    count = 0
    for axis in range(ndim):
        length = load(lengths + 8 * axis)
        if length == 0:
            return 0
        if length > 1:
            at, step, apart = count, load(steps + 8 * axis), load(aparts + 8 * axis)
            while at > 0 and abs(axes[at - 1, APART]) < abs(apart):
                axes[at] = axes[at - 1]
                at -= 1
            axes[at, LENGTH], axes[at, STEP], axes[at, APART] = length, step, apart
            count += 1
    if size == 16 or count == 0:  # a complex number is two of 8 bytes
        axes[count, LENGTH] = 2 if size == 16 else 1
        axes[count, STEP] = axes[count, APART] = min(size, 8)
        count += 1
    last = 0
    for axis in range(1, count):
        length, step, apart = axes[axis, LENGTH], axes[axis, STEP], axes[axis, APART]
        if axes[last, STEP] == step * length and axes[last, APART] == apart * length:
            length *= axes[last, LENGTH]
        else:
            last += 1
        axes[last, LENGTH], axes[last, STEP], axes[last, APART] = length, step, apart
    return last + 1


@njit
def move_axis(axes, axis, to):
    """Move an axis behind others."""
    length, step, apart = axes[axis, LENGTH], axes[axis, STEP], axes[axis, APART]
    for at in range(axis, to):
        axes[at] = axes[at + 1]
    axes[to, LENGTH], axes[to, STEP], axes[to, APART] = length, step, apart


@njit
def offsets_of(index, axes, count):
    """Return the bytes to the element of this number among the first `count` axes, in both."""
    source = target = 0
    for axis in range(count - 1, -1, -1):
        at = index % axes[axis, LENGTH]
        index //= axes[axis, LENGTH]
        source += at * axes[axis, STEP]
        target += at * axes[axis, APART]
    return source, target


@njit(forceinline=True)
def elements_at(address: int, count: int, like: Any) -> Any:
    """Return adjacent elements as an array of the dtype of `like`."""
    return carray(pointer(address, like), (count,))


@njit
def copy_row(n, target, apart, source, step, like):
    """Copy a row of elements; `like` is an array of integers of the elements' size."""
    size = like.itemsize
    if apart != size or not (step == size or step == -size or step == 0):
        for i in range(n):
            pointer(target + i * apart, like)[0] = pointer(source + i * step, like)[0]
        return
    y, x = pointer(target, like), pointer(source, like)  # without a sign: no index is negative
    if step == size:
        for i in range(np.uint64(n)):
            y[i] = x[i]
    elif step == 0:
        value = x[0]
        for i in range(np.uint64(n)):
            y[i] = value
    else:
        for i in range(n):
            y[i] = x[-i]


@njit
def copy_rows(start, stop, source, target, axes, count, like):
    """Copy chunks of rows, or several short rows at a time; the range counts `SHARES`."""
    n, step, apart = axes[count - 1, LENGTH], axes[count - 1, STEP], axes[count - 1, APART]
    height = row_step = row_apart = 1
    outer = max(count - 2, 0)
    if count > 1:
        height, row_step, row_apart = axes[outer, LENGTH], axes[outer, STEP], axes[outer, APART]
    others = 1
    for axis in range(outer):
        others *= axes[axis, LENGTH]
    band = max(CHUNK // n, 1)
    bands, chunks = (height + band - 1) // band, (n + CHUNK - 1) // CHUNK
    units = others * bands * chunks
    for unit in range(units * start // SHARES, units * stop // SHARES):
        rest = unit // chunks
        top, left = rest % bands * band, unit % chunks * CHUNK
        rows, columns = min(band, height - top), min(CHUNK, n - left)
        at, to = offsets_of(rest // bands, axes, outer)
        at += source + top * row_step + left * step
        to += target + top * row_apart + left * apart
        # Short rows are copied column by column.
        by_column = columns < SHORT and rows > columns
        inner_step, inner_apart = (row_step, row_apart) if by_column else (step, apart)
        outer_step, outer_apart = (step, apart) if by_column else (row_step, row_apart)
        n_inner, n_outer = (rows, columns) if by_column else (columns, rows)
        for i in range(n_outer):
            line, out = at + i * outer_step, to + i * outer_apart
            copy_row(n_inner, out, inner_apart, line, inner_step, like)


@njit
def copy_tiles(start, stop, source, target, axes, count, like):
    """Copy tiles of the last two axes: the source is adjacent in the first of them."""
    rows, columns = axes[count - 2, LENGTH], axes[count - 1, LENGTH]
    row_apart, column_step = axes[count - 2, APART], axes[count - 1, STEP]
    tiles_across, tiles_down = (columns + TILE - 1) // TILE, (rows + TILE - 1) // TILE
    units = tiles_across * tiles_down
    for axis in range(count - 2):
        units *= axes[axis, LENGTH]
    buffer = np.empty((TILE, TILE), like.dtype)
    for unit in range(units * start // SHARES, units * stop // SHARES):
        matrix, tile = unit // (tiles_across * tiles_down), unit % (tiles_across * tiles_down)
        top, left = tile // tiles_across * TILE, tile % tiles_across * TILE
        at, to = offsets_of(matrix, axes, count - 2)
        at += source + top * like.itemsize + left * column_step
        to += target + top * row_apart + left * like.itemsize
        height, width = min(TILE, rows - top), min(TILE, columns - left)
        for j in range(width):
            line = elements_at(at + j * column_step, height, like)
            for i in range(height):
                buffer[i, j] = line[i]
        for i in range(height):
            row = elements_at(to + i * row_apart, width, like)
            for j in range(width):
                row[j] = buffer[i, j]


def copy_elements(start, stop, target, source, size):
    """Copy the elements of an array to another one of its shape; the range counts `SHARES`.

    Args:
        target, source: the addresses of the array objects.
        size: the bytes of an element.
    """
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    axes = np.empty((MAX_AXES, 3), np.int64)
    count, start, stop = read_axes(target, source, size, axes), np.int64(start), np.int64(stop)
    if count == 0:
        return
    size, last, adjacent = min(size, 8), count - 1, -1
    # A row that repeats one element (step 0) is filled; a transpose is copied in tiles.
    is_row = axes[last, STEP] == size or axes[last, STEP] == 0
    if not is_row and axes[last, APART] == size and size >= 4:
        for axis in range(last):
            if axes[axis, STEP] == size:
                adjacent = axis
                break
    y, x = load(target + DATA), load(source + DATA)
    if adjacent >= 0:
        move_axis(axes, adjacent, last - 1)
        if size == 4:
            copy_tiles(start, stop, x, y, axes, count, np.empty(0, np.uint32))
        else:
            copy_tiles(start, stop, x, y, axes, count, np.empty(0, np.uint64))
    elif size == 4:
        copy_rows(start, stop, x, y, axes, count, np.empty(0, np.uint32))
    elif size == 8:
        copy_rows(start, stop, x, y, axes, count, np.empty(0, np.uint64))
    elif size == 2:
        copy_rows(start, stop, x, y, axes, count, np.empty(0, np.uint16))
    else:
        copy_rows(start, stop, x, y, axes, count, np.empty(0, np.uint8))


@functools.cache
def copy_kernel() -> Any:
    """Compile `copy_elements`; None where array objects have another layout."""
    if not layout_is_known():
        return None
    signature = types.void(UNSIGNED, UNSIGNED, types.int64, types.int64, types.int64)
    compiled = njit([signature], cache=True, nogil=True, error_model="numpy")(copy_elements)
    return parallel.entry_of(compiled)


def copy_into(target: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Do `target[...] = source`, of one shape and dtype, and return `target`."""
    size, kernel = target.itemsize, copy_kernel()
    if source.size < SMALL or kernel is None or size not in BYTES or source.dtype.hasobject:
        target[...] = source
    else:
        parallel_for(kernel, SHARES, id(target), id(source), size, work=source.size)
    return target


# Ops that only move elements -------------------------------------------------------------------


@ops.clone.kernel("cpu", min_size=16_384)
def clone() -> Run:
    """Make the forward of `clone`."""
    copy_kernel()

    def run(input: Array, format: memory_format | None = None) -> np.ndarray | None:
        if input.__class__ is not np.ndarray:
            return None
        if format is None or format is preserve_format:
            if input.flags.c_contiguous:
                return copy_into(np.empty(input.shape, input.dtype), input)
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


@ops.flip.kernel("cpu", min_size=64)
def flip() -> Run:
    """Make the forward of `flip`."""
    copy_kernel()

    def run(input: Array, dims: Any) -> np.ndarray | None:
        if input.__class__ is not np.ndarray:
            return None
        index, ndim = [ALL] * input.ndim, input.ndim
        for dim in (dims,) if dims.__class__ is int else dims:
            if dim.__class__ is not int or not -ndim <= dim < ndim or index[dim] is BACKWARDS:
                return None
            index[dim] = BACKWARDS
        return copy_into(np.empty(input.shape, input.dtype), input[tuple(index)])

    return run


ALL, BACKWARDS = slice(None), slice(None, None, -1)


@ops.roll.kernel("cpu", min_size=64)
def roll() -> Run:
    """Make the forward of `roll`: in each axis two parts change places."""
    copy_kernel()

    def run(input: Array, shifts: Any, dims: Any) -> np.ndarray | None:
        if input.__class__ is not np.ndarray or not input.size:
            return None
        if shifts.__class__ is int and dims.__class__ is int:
            return roll_axis(input, shifts, dims)
        y: Any = input.reshape(-1) if dims is None else input
        shifts = shifts if isinstance(shifts, tuple | list) else (shifts,)
        dims = (0,) if dims is None else dims if isinstance(dims, tuple | list) else (dims,)
        if not dims or not y.ndim or len(shifts) != len(dims):
            return None
        if len({dim % y.ndim for dim in dims}) < len(dims):
            return None
        for shift, dim in zip(shifts, dims, strict=True):
            y = None if y is None else roll_axis(y, shift, dim)
        return None if y is None else y.reshape(input.shape)

    return run


def roll_axis(x: np.ndarray, shift: int, dim: int) -> np.ndarray | None:
    """Return the elements moved along one axis."""
    ndim = x.ndim
    if not -ndim <= dim < ndim:
        return None
    dim %= ndim
    y, before, size = np.empty(x.shape, x.dtype), (ALL,) * dim, x.shape[dim]
    cut = shift % size  # the last `cut` elements come first
    rest = size - cut
    for source, target in ((slice(rest), slice(cut, None)), (slice(rest, None), slice(cut))):
        if x.size < SMALL:
            y[(*before, target)] = x[(*before, source)]
        else:
            copy_into(y[(*before, target)], x[(*before, source)])
    return y


@rearrange.repeat.kernel("cpu", min_size=4096)
def repeat() -> Run:
    """Make the forward of `repeat`: a broadcast over new axes, made contiguous."""
    copy_kernel()

    def run(input: Array, repeats: Any) -> np.ndarray | None:
        repeats = tuple(repeats)
        if input.__class__ is not np.ndarray:
            return None
        if len(repeats) < input.ndim or min(repeats, default=0) < 0:
            return None
        shape = (1,) * (len(repeats) - input.ndim) + input.shape
        sizes = [size for pair in zip(repeats, shape, strict=True) for size in pair]
        source = input.reshape([size for length in shape for size in (1, length)])
        y = np.empty(sizes, input.dtype)
        copy_into(y, np.broadcast_to(source, sizes))
        return y.reshape([times * size for times, size in zip(repeats, shape, strict=True)])

    return run


@joining.CONCATENATE.kernel("cpu", min_size=8192)
def concatenate() -> Run:
    """Make the concatenation of arrays of one dtype."""
    copy_kernel()

    def run(arrays: Sequence[Array], dim: int) -> np.ndarray | None:
        first = arrays[0]
        shape, dtype, axis = first.shape, first.dtype, dim % first.ndim if first.ndim else 0
        others, lengths = (*shape[:axis], *shape[axis + 1 :]), []
        if dim.__class__ is not int or not -first.ndim <= dim < first.ndim:
            return None
        for array in arrays:
            size = array.shape
            if array.__class__ is not np.ndarray or array.dtype != dtype or len(size) <= axis:
                return None
            if (*size[:axis], *size[axis + 1 :]) != others:
                return None
            lengths.append(size[axis])
        y, start = np.empty((*shape[:axis], sum(lengths), *shape[axis + 1 :]), dtype), 0
        for array, length in zip(arrays, lengths, strict=True):
            copy_into(y[(*[ALL] * axis, slice(start, start + length))], array)
            start += length
        return y

    return run


@padding.constant_pad.kernel("cpu", min_size=64)
def constant_pad() -> Run:
    """Make the forward of `constant_pad`."""
    copy_kernel()

    def run(input: Array, pads: Any, value: Any) -> np.ndarray | None:
        if input.__class__ is not np.ndarray or pads.__class__ is not tuple:
            return None
        for pair in pads:
            if pair.__class__ is not tuple or not pair[0].__class__ is pair[1].__class__ is int:
                return None  # the layout is kept by these, and 1.0 or True is equal to 1
        layout = padded_layout(input.shape, pads, input.size < SMALL)
        if layout is None:
            return None
        shape, source, target, borders = layout
        y = np.empty(shape, input.dtype)
        if borders is None:
            y.fill(value)
        copy_into(y[target], input[source])
        for border in borders or ():
            y[border] = value
        return y

    return run


@functools.lru_cache(256)
def padded_layout(shape: tuple[int, ...], pads: Any, is_small: bool) -> tuple[Any, ...] | None:
    """Return the padded shape, the index of what is kept, where it goes, and those of the borders.

    Args:
        is_small: all is filled at once: many small writes would take longer.
    """
    source, target, padded, borders = [], [], [], []
    for axis, (size, (before, behind)) in enumerate(zip(shape, pads, strict=True)):
        width = size + before + behind
        if width < 0:
            return None
        source.append(slice(max(-before, 0), size - max(-behind, 0)))
        target.append(slice(max(before, 0), width - max(behind, 0)))
        padded.append(width)
        if before > 0:
            borders.append((*[ALL] * axis, slice(before)))
        if behind > 0:
            borders.append((*[ALL] * axis, slice(width - behind, None)))
    lengths = [[len(range(n)[part]) for n, part in zip(sizes, index, strict=True)]
               for sizes, index in ((shape, source), (padded, target))]  # fmt: skip
    if lengths[0] != lengths[1]:
        return None  # what is cropped on one side reaches into the padding of the other
    return tuple(padded), tuple(source), tuple(target), None if is_small else borders


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


@njit
def copy_triangle_rows(start, stop, addresses, shape, diagonal, is_lower, like):
    """Copy the part of each row on one side of the diagonal, and set the rest to 0."""
    rows, columns = shape
    size = like.itemsize
    for unit in range(start, stop):
        source = pointer(addresses[0] + unit * columns * size, like)
        target = pointer(addresses[1] + unit * columns * size, like)
        cut = min(max(unit % rows + diagonal + is_lower, 0), columns)
        first, last = (0, cut) if is_lower else (cut, columns)
        for j in range(np.uint64(first)):
            target[j] = 0
        for j in range(np.uint64(first), np.uint64(last)):
            target[j] = source[j]
        for j in range(np.uint64(last), np.uint64(columns)):
            target[j] = 0


def copy_triangle(start, stop, target, source, diagonal, is_lower, size):
    """Copy the triangles of contiguous matrices, array objects; the range counts rows."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    start, stop = np.int64(start), np.int64(stop)
    addresses = load(source + DATA), load(target + DATA)
    last = load(source + SHAPE) + 8 * (load(source + NDIM) & 0xFFFFFFFF) - 8
    shape = load(last - 8), load(last)
    if size == 4:
        like = np.empty(0, np.uint32)
        copy_triangle_rows(start, stop, addresses, shape, diagonal, is_lower, like)
    else:
        like_64 = np.empty(0, np.uint64)
        copy_triangle_rows(start, stop, addresses, shape, diagonal, is_lower, like_64)


@ops.tril.kernel("cpu", min_size=64)
@ops.triu.kernel("cpu", min_size=64)
@ops.tril.kernel("cpu", "input", min_size=64)
@ops.triu.kernel("cpu", "input", min_size=64)
def triangle(key: str) -> Run:
    """Make the forward of `tril` or `triu`, or its rule, which is the same."""
    signature = types.void(UNSIGNED, UNSIGNED, *[types.int64] * 5)
    compiled = njit([signature], cache=True, nogil=True, error_model="numpy")(copy_triangle)
    kernel, is_lower = compiled if layout_is_known() else None, int(key.startswith("tril"))

    def run(input: Array, diagonal: int) -> np.ndarray | None:
        if input.__class__ is not np.ndarray or not input.flags.c_contiguous or kernel is None:
            return None
        shape, size = input.shape, input.itemsize
        if len(shape) < 2 or not input.size or diagonal.__class__ is not int or size not in (4, 8):
            return None
        if not -LONGEST < diagonal < LONGEST:
            diagonal = LONGEST if diagonal > 0 else -LONGEST
        y = np.empty(shape, input.dtype)
        count = y.size // shape[-1]
        parallel_for(kernel, count, id(y), id(input), diagonal, is_lower, size, work=y.size)
        return y

    return run


LONGEST = 1 << 40
"""Longer than the rows of any array."""
