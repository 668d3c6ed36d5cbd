"""Scatter along an axis, and scatter-add: values added at indices that may repeat.

Along an axis, an array is (outer, n, inner): the axes before that of the index, the axis itself,
those after it. It comes as the address of its object, from which the kernel reads the shape (see
`array_blocks.py`). The threads divide the lines along the axis, which cannot meet: so the order of
a sum is fixed. An index out of range is met on the way; then the definition raises the error.

The gradient of indexing has several index arrays. NumPy's `add.at` resolves them for each element.
Here the indices of whole rows are resolved first, and then rows are added to rows. The threads
divide the columns, not the rows. If the index starts with full slices, each thread has some of the
blocks that these select.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from ...backends import numpy
from ...backends.kernel_registry import as_ndarray
from ...backends.numpy import Array
from ...ops import cumulative, gather_scatter, sorting
from . import parallel
from .array_blocks import DATA, NDIM, SHAPE, STRIDES, layout_is_known, load, store
from .jit import (
    ARRAY_1D,
    INT64,
    INT64_1D,
    UNSIGNED,
    are_contiguous_floats,
    compile_kernel,
    pointer,
)
from .parallel import MIN_WORK_PER_THREAD, parallel_for
from .strided_copy import SHARES, copy_into, copy_kernel
from .work_queue import claim_range

__all__ = ["add_at", "scatter_along"]

Run = Callable[..., Any]
ASSIGN, ADD = range(2)
"""What `scatter_elements` does with an element: replace it, or add to it."""

SLICE_WORK = 16
"""So many times more elements are worth a thread where slices are added to slices."""

INT64_DTYPE = np.dtype(np.int64)
SIZES = {1, 2, 4, 8}
LONG = 1 << 53
COLUMN_BAND = 16
"""The columns are divided in units of so many."""


@njit
def split_axes(array, dim, size):
    """Return the elements before an axis, along it and after it; -1: it is not contiguous."""
    shape, strides = load(array + SHAPE), load(array + STRIDES)
    outer = n = inner = 1
    step = size
    for axis in range((load(array + NDIM) & 0xFFFFFFFF) - 1, -1, -1):
        length = load(shape + 8 * axis)
        if length != 1 and load(strides + 8 * axis) != step:
            return -1, -1, -1
        step *= length
        if axis == dim:
            n = length
        elif axis > dim:
            inner *= length
        else:
            outer *= length
    return outer, n, inner


@njit
def fits(array, index, dim):
    """Whether an index has the axes of an array, all but one of the same length."""
    ndim = load(array + NDIM) & 0xFFFFFFFF
    if load(index + NDIM) & 0xFFFFFFFF != ndim:
        return False
    shape, other = load(array + SHAPE), load(index + SHAPE)
    for axis in range(ndim):
        if axis != dim and load(shape + 8 * axis) != load(other + 8 * axis):
            return False
    return True


@njit
def scatter_slice(block, at, n, values, width, adds):
    """Put adjacent elements into a slice; return whether its index is in range."""
    if at >= np.uint64(n):
        return False
    if adds:
        for column in range(width):
            block[column] += values[column]
    else:
        for column in range(width):
            block[column] = values[column]
    return True


@njit
def scatter_column(block, chosen, count, n, values, is_one, adds):
    """Put elements into a line of adjacent ones; return whether all indices are in range."""
    is_valid = True
    for k in range(np.uint64(count)):
        at, value = chosen[k], values[np.uint64(0) if is_one else k]
        if at >= np.uint64(n):
            is_valid = False
        elif adds:
            block[at] += value
        else:
            block[at] = value
    return is_valid


@njit
def copy_lines(y, x, n, inner, width, like):
    """Copy some adjacent lines along an axis."""
    rows, step = (1, 0) if inner == 1 else (n, inner * like.itemsize)
    count = np.uint64(n if inner == 1 else width)
    for row in range(rows):
        target, source = pointer(y + row * step, like), pointer(x + row * step, like)
        for at in range(count):
            target[at] = source[at]


@njit
def scatter_lines(start, stop, addresses, lengths, steps, adds, like):
    """Put source[i, k, j] at y[i, index[i, k, j], j]; return whether all indices are in range.

    Args:
        addresses: of y, the index, the source, and of what is copied to y before, or 0.
        lengths: outer, n, m and inner, for m elements of the index along the axis.
        steps: of the index and of the source for the next i, k and j, in bytes.
    """
    y, index, source, before = addresses
    outer, n, m, inner = lengths
    index_steps, source_steps = steps
    size, lines, is_valid, words = like.itemsize, outer * inner, True, np.empty(0, np.uint64)
    is_slices = index_steps[2] == 0 and source_steps[2] == size
    line, last = lines * start // SHARES, lines * stop // SHARES
    while line < last:
        i, j = (line, 0) if inner == 1 else (line // inner, line % inner)
        width = min(inner - j, last - line)
        offset = (i * n * inner + j) * size
        block = y + offset
        if before:
            copy_lines(block, before + offset, n, inner, width, like)
        chosen = index + i * index_steps[0] + j * index_steps[2]
        values = source + i * source_steps[0] + j * source_steps[2]
        if inner == 1:
            row, column = pointer(block, like), pointer(values, like)
            is_one, line = source_steps[1] == 0, line + 1
            is_valid &= scatter_column(row, pointer(chosen, words), m, n, column, is_one, adds)
            continue
        for _ in range(m):
            if is_slices:
                at = pointer(chosen, words)[0]
                target = pointer(block + np.int64(at) * inner * size, like)
                is_valid &= scatter_slice(target, at, n, pointer(values, like), width, adds)
            else:
                for column in range(width):
                    at = pointer(chosen + column * index_steps[2], words)[0]
                    target = pointer(block + (np.int64(at) * inner + column) * size, like)
                    value = pointer(values + column * source_steps[2], like)
                    if at >= np.uint64(n):
                        is_valid = False
                    elif adds:
                        target[0] += value[0]
                    else:
                        target[0] = value[0]
            chosen += index_steps[1]
            values += source_steps[1]
        line += width
    return is_valid


def scatter_elements(start, stop, y, index, source, errors, axis):
    """Scatter along an axis, in place; the range counts `SHARES`.

    Args:
        index: of the shape of the source; a vector stands for whole slices.
        source: an array, or one element for all.
        axis: its number, the bytes of an element, what is done (`ASSIGN`, `ADD`), whether the
            index is one of slices, and the array that is copied to y before, or 0.
    """
    start, stop = claim_range(start, stop)
    dim, size, mode, is_slices, before = axis
    outer, n, inner = split_axes(y, dim, size)
    m = split_axes(index, 0 if is_slices else dim, 8)[1]
    start, stop, is_valid = np.int64(start), np.int64(stop), False
    same = n >= 0 and m >= 0 and (is_slices or fits(y, index, dim))
    source_steps = (m * inner * size, inner * size, size)
    if load(source + NDIM) & 0xFFFFFFFF == 0:
        source_steps = (0, 0, 0)
    else:
        same = same and fits(y, source, dim) and split_axes(source, dim, size)[1] == m
    if before != 0:  # each thread copies what it writes to afterwards: it stays in its cache
        same = same and split_axes(before, dim, size)[1] == n
        before = load(before + DATA)
    if same:
        steps = ((0, 8, 0) if is_slices else (m * inner * 8, inner * 8, 8), source_steps)
        addresses = load(y + DATA), load(index + DATA), load(source + DATA), before
        lengths = outer, n, m, inner
        if mode == ADD and size == 4:
            like = np.empty(0, np.float32)
            is_valid = scatter_lines(start, stop, addresses, lengths, steps, True, like)
        elif mode == ADD:
            like_64 = np.empty(0, np.float64)
            is_valid = scatter_lines(start, stop, addresses, lengths, steps, True, like_64)
        elif size == 4:
            bits = np.empty(0, np.uint32)
            is_valid = scatter_lines(start, stop, addresses, lengths, steps, False, bits)
        else:
            bits_64 = np.empty(0, np.uint64)
            is_valid = scatter_lines(start, stop, addresses, lengths, steps, False, bits_64)
    if not is_valid:
        store(load(errors + DATA), 1)


def compile_for_objects(kernel: Callable[..., None], *further: Any) -> Any:
    """Compile a kernel of array objects, four of them; None where they have another layout."""
    if not layout_is_known():
        return None
    signature = types.void(UNSIGNED, UNSIGNED, *[types.int64] * 4, *further)
    compiled = njit([signature], cache=True, nogil=True, error_model="numpy")(kernel)
    return parallel.entry_of(compiled)


@functools.cache
def scatter_kernel() -> Any:
    """Compile `scatter_elements`."""
    copy_kernel()
    return compile_for_objects(scatter_elements, types.UniTuple(types.int64, 5))


def index_array(index: Any) -> Any:
    """Return an index, a tensor or an array, as a contiguous array of int64; None: it is none."""
    index = getattr(index, "_array", index)
    if index.__class__ is not np.ndarray:
        index = as_ndarray(index)
        if index.__class__ is not np.ndarray:
            return None
    if index.dtype is INT64_DTYPE and index.flags.c_contiguous:
        return index if index.size else None
    if not index.size:
        return None
    return np.ascontiguousarray(index, np.int64) if index.dtype.kind in "iu" else None


def axis_and_index(array: Any, dim: Any, index: Any) -> tuple[int, Any]:
    """Return the number of an axis of a plain array whose elements can be moved, and the index.

    An axis of -1: one of them is another case.
    """
    index = getattr(index, "_array", index)
    is_usual = index.__class__ is np.ndarray and index.dtype is INT64_DTYPE
    if not is_usual or not index.flags.c_contiguous or not index.size:
        index = index_array(index)
    if array.__class__ is np.ndarray and dim.__class__ is int and array.itemsize in SIZES:
        ndim = array.ndim
        if -ndim <= dim < ndim and index is not None:
            return dim if dim >= 0 else dim + ndim, index
    return -1, None


def run_checked(
    kernel: Callable[..., None], work: int, first: Array, second: Array, third: Array, *further: Any
) -> bool:
    """Run a kernel of array objects that reports a wrong index; return whether all are right.

    Args:
        work: the number of elements that it moves.
        further: the arguments behind the array of errors.
    """
    # A kept one takes half the time of a new one; another thread takes another.
    errors = KEPT_ERRORS.pop() if KEPT_ERRORS else np.zeros(1, INT64_DTYPE)
    if work < 2 * MIN_WORK_PER_THREAD:
        kernel(0, SHARES, id(first), id(second), id(third), id(errors), *further)
    else:
        addresses = id(first), id(second), id(third), id(errors)
        parallel_for(kernel, SHARES, *addresses, *further, work=work)
    if errors[0]:
        return False
    KEPT_ERRORS.append(errors)
    return True


KEPT_ERRORS: list[np.ndarray] = []
"""Arrays of one element, which is 0."""


def scatter_along(
    y: np.ndarray, dim: int, index: Any, source: Any, mode: int, is_slices: bool = False,
    before: Array = None,
) -> np.ndarray | None:  # fmt: skip
    """Put the elements of `source` at `index` along `dim` of y, in place; see `gather_along`.

    Args:
        source: an array of the dtype of y, or one without axes for all elements.
        is_slices: whether the index is a vector of slices.
        before: an array that is copied to y before.
    """
    kernel = scatter_kernel()
    dim, index = axis_and_index(y, dim, index)
    if dim < 0 or kernel is None or source.__class__ is not np.ndarray:
        return None
    size = y.itemsize
    if source.dtype != y.dtype or size < 4 or (mode == ADD and y.dtype.kind != "f"):
        return None
    if not source.flags.c_contiguous:
        source = copy_into(np.empty(source.shape, source.dtype), source)
    axis = dim, size, mode, int(is_slices), 0 if before is None else id(before)
    # Threads divide slices by columns: parts of rows that move between caches until they are large.
    work = source.size // SLICE_WORK if is_slices else index.size
    return y if run_checked(kernel, work, y, index, source, axis) else None


def scatter_into_copy(
    input: Array, dim: int, index: Any, source: Any, mode: int, is_slices: bool = False
) -> np.ndarray | None:
    """Do the same to a copy."""
    y = np.empty(input.shape, input.dtype)
    before = input if input.flags.c_contiguous else np.ascontiguousarray(input)
    return scatter_along(y, dim, index, source, mode, is_slices, before)


@gather_scatter.gather.kernel("cpu", "input", min_size=64)
@cumulative.cum_minmax.kernel("cpu", "input", min_size=64)
@sorting.sort_forward.kernel("cpu", "input", min_size=64)
def add_back(key: str) -> Run:
    """Make a rule that adds each gradient where its element was picked."""
    scatter_kernel()

    def run(g: Array, shape: tuple[int, ...], dim: int, index: Any) -> np.ndarray | None:
        return scatter_along(np.zeros(shape, g.dtype), dim, index, g, ADD)

    return run


@gather_scatter.index_select.kernel("cpu", "input", min_size=64)
def index_select_input() -> Run:
    """Make the rule of `index_select`: each slice of the gradient added where it was picked."""
    scatter_kernel()

    def run(g: Array, shape: tuple[int, ...], dim: int, index: Any) -> np.ndarray | None:
        if g.ndim != len(shape):
            return None
        return scatter_along(np.zeros(shape, g.dtype), dim, index, g, ADD, True)

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


@gather_scatter.scatter.kernel("cpu", min_size=64)
def scatter() -> Run:
    """Make the forward of `scatter`."""
    scatter_kernel()

    def run(input: Array, dim: int, index: Any, src: Any, value: Any) -> np.ndarray | None:
        if input.__class__ is not np.ndarray:
            return None
        src = value if src is None else src
        is_number = src.__class__ is float or (src.__class__ is int and abs(src) < LONG)
        if is_number and input.dtype.kind == "f":
            src = np.array(src, input.dtype)
        if src.__class__ is not np.ndarray:
            return None
        return scatter_into_copy(input, dim, index, src, ASSIGN)

    return run


@gather_scatter.scatter_add.kernel("cpu", min_size=64)
def scatter_add() -> Run:
    """Make the forward of `scatter_add`."""
    scatter_kernel()

    def run(input: Array, dim: int, index: Any, src: Array) -> np.ndarray | None:
        if input.__class__ is not np.ndarray or not src.ndim:
            return None
        return scatter_into_copy(input, dim, index, src, ADD)

    return run


@gather_scatter.index_add.kernel("cpu", min_size=64)
def index_add() -> Run:
    """Make the forward of `index_add`."""
    scatter_kernel()

    def run(input: Array, dim: int, index: Any, source: Array, alpha: float) -> np.ndarray | None:
        if input.__class__ is not np.ndarray or source.ndim != input.ndim or alpha != 1:
            return None
        if index.ndim != 1 or not input.ndim:
            return None
        return scatter_into_copy(input, dim, index, source, ADD, True)

    return run


@gather_scatter.scatter.kernel("cpu", "input", min_size=64)
def scatter_input() -> Run:
    """Make the rule of `scatter` for its input: 0 where another value was put."""
    scatter_kernel()

    def run(g: Array, dim: int, index: Any) -> np.ndarray | None:
        return scatter_into_copy(g, dim, index, np.zeros((), g.dtype), ASSIGN)

    return run


# Several index arrays ----------------------------------------------------------------------------


def add_rows(start, stop, target, indices, values, inner):
    """target[indices[i]] += values[i], in some of the columns of rows of `inner` elements."""
    start, stop = claim_range(start, stop)
    # Signed, as `inner` is: of a uint64 and an int64, numba's `min` makes a float64.
    left, right = np.int64(start) * COLUMN_BAND, min(np.int64(stop) * COLUMN_BAND, inner)
    for i in range(indices.size):
        at = indices[i] * inner
        row, more = target[at + left : at + right], values[i * inner + left : i * inner + right]
        for j in range(row.size):
            row[j] += more[j]


def add_elements(start, stop, target, indices, values):
    """The same for rows of one element."""
    start, stop = claim_range(start, stop)
    for i in range(start, stop):
        target[indices[i]] += values[i]


def add_in_blocks(start, stop, target, indices, values, length, inner):
    """The same in each of some blocks of `length` rows."""
    start, stop = claim_range(start, stop)
    for block in range(np.int64(start), np.int64(stop)):
        here = target[block * length * inner : (block + 1) * length * inner]
        those = values[block * indices.size * inner : (block + 1) * indices.size * inner]
        # For one element, slices and a loop would take longer than the addition.
        if inner == 1:
            for i in range(indices.size):
                here[indices[i]] += those[i]
            continue
        for i in range(indices.size):
            at = indices[i] * inner
            row, more = here[at : at + inner], those[i * inner : (i + 1) * inner]
            for j in range(row.size):
                row[j] += more[j]


@numpy.ADD_AT.kernel("cpu", min_size=4096)
def add_at() -> Callable[..., Any]:
    """Make the in-place `target[index] += values`, which returns `target`.

    The index has integer arrays for some consecutive axes, and full slices for the others.
    """
    rows = compile_kernel(add_rows, ARRAY_1D, INT64_1D, ARRAY_1D, INT64)
    elements = compile_kernel(add_elements, ARRAY_1D, INT64_1D, ARRAY_1D)
    blocks = compile_kernel(add_in_blocks, ARRAY_1D, INT64_1D, ARRAY_1D, INT64, INT64)

    def run(target: Array, index: object, values: Array) -> Any:
        target, values = as_ndarray(target), as_ndarray(values)
        if not are_contiguous_floats((target,)) or values.dtype != target.dtype:
            return None
        leading = count_leading_slices(index)
        outer, shape = target.shape[:leading], target.shape[leading:]
        row_indices = flat_row_indices(index[leading:] if leading else index, shape)
        if row_indices is None:
            return None
        indices, row_shape = row_indices
        values_shape = (*outer, *indices.shape, *row_shape)
        if values.shape != values_shape:
            values = np.broadcast_to(values, values_shape)
        inner, flat = math.prod(row_shape), target.reshape(-1)
        indices, values = indices.reshape(-1), np.ascontiguousarray(values).reshape(-1)
        if leading:
            # An axis of length 0 makes `inner` 0.
            length = math.prod(shape) // max(inner, 1)
            parallel_for(
                blocks, math.prod(outer), flat, indices, values, length, inner, work=values.size
            )
        elif inner == 1:  # one thread: two might add to the same element at the same time
            elements(0, indices.size, flat, indices, values)
        else:
            parallel_for(
                rows, -(-inner // COLUMN_BAND), flat, indices, values, inner, work=values.size
            )
        return target

    return run


def count_leading_slices(index: object) -> int:
    """Return the number of full slices at the start of an index."""
    parts = index if isinstance(index, tuple) else ()
    return next((at for at, part in enumerate(parts) if not is_full_slice(part)), 0)


def flat_row_indices(index: object, shape: tuple[int, ...]) -> tuple[Any, tuple[int, ...]] | None:
    """Return the flat indices of the rows that an index selects, and the shape of a row."""
    parts = index if isinstance(index, tuple) else (index,)
    # A full slice at the end selects whole rows, as leaving it away does.
    while parts and (parts[-1] is Ellipsis or is_full_slice(parts[-1])):
        parts = parts[:-1]
    if not parts or len(parts) > len(shape):
        return None
    indices: Any = 0
    for part, size in zip(map(as_ndarray, parts), shape, strict=False):
        if part.__class__ is not np.ndarray or part.dtype.kind not in "iu" or not part.size:
            return None
        lowest = part.min()  # compiled code does not check bounds: an index outside is memory lost
        if lowest < -size or part.max() >= size:
            return None  # NumPy says what is wrong
        part = part.astype(np.int64, copy=False)
        # Horner's scheme gives the flat index, and the index arrays broadcast on the way.
        indices = indices * size + (part if lowest >= 0 else np.where(part < 0, part + size, part))
    return np.ascontiguousarray(indices), shape[len(parts) :]


def is_full_slice(part: object) -> bool:
    """Whether a part of an index is `:`."""
    return isinstance(part, slice) and part == slice(None)
