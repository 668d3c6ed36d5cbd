"""One loop for arrays of any shape: an elementwise function gets its operands in blocks.

An elementwise kernel consists of two parts, like a ufunc of NumPy's. Its `loop` computes with
contiguous arrays of one dtype; there is one for each formula and dtype (`element_loops.py`).
`run_blocks` here is compiled once for all of them. It walks through the result, and calls the loop
with the addresses of the operands: all at once where they are contiguous, row by row where their
rows are, else block by block. What has gaps or another dtype is copied into a buffer first, a block
of `BLOCK` elements that stays in the L1 cache: so the memory is passed through once. What fills the
buffer is a loop as well, given by its address, so this file knows no dtype.

Arrays come as the addresses of their `PyArrayObject`, whose fields are part of NumPy's C interface:
in Python, asking an array for its address takes a microsecond.
"""

from __future__ import annotations

import numpy as np
from numba import carray, njit, types

from .memory_access import (
    call_loop,
    call_ufunc,
    load,
    load_scalar,
    pointer,
    stack,
    store,
    store_scalar,
)
from .row_reduce import block_total
from .work_queue import claim_range

__all__ = [
    "BLOCK", "MAX_DIMS", "MAX_INPUTS", "MAX_SCALARS", "PLAN_WORDS", "STEPS", "layout_is_known",
    "run_blocks",
]  # fmt: skip

BLOCK = 1024
"""The elements of a buffer: 4 or 8 kB, of which four fit into an L1 cache."""

MIN_ROW, MIN_SHORT_ROW = 192, 16
"""With shorter rows, a block goes across several of them. The second is for loops of few
operations, where the end of a row, less than a vector, costs less than a copy of it would."""

MIN_ALIGNED = 4096
"""With fewer elements, a loop takes no notice of where cache lines begin."""

MAX_INPUTS, MAX_SCALARS, MAX_DIMS = 4, 4, 12
"""The operands that an elementwise function may have, and its axes."""

OPERANDS = MAX_INPUTS + 1

# The fields of a PyArrayObject, in words: data, nd, dimensions, strides.
DATA, NDIM, SHAPE, STRIDES = 16, 24, 32, 40


def layout_is_known() -> bool:
    """Whether arrays have their fields where this file reads them (not in PyPy)."""
    import ctypes

    array = np.empty((3, 5), np.int16)
    try:
        fields = (ctypes.c_int64 * 6).from_address(id(array))
        shape = (ctypes.c_int64 * 2).from_address(fields[SHAPE // 8])
        strides = (ctypes.c_int64 * 2).from_address(fields[STRIDES // 8])
    except (ValueError, TypeError):
        return False
    ndim = fields[NDIM // 8] & 0xFFFFFFFF
    return (fields[DATA // 8], ndim, (*shape,), (*strides,)) == (
        array.ctypes.data, 2, (3, 5), (10, 2),
    )  # fmt: skip


# The walk ------------------------------------------------------------------------------------

LOOP, ITEMSIZE, INPUTS, IS_UFUNC, UFUNC_DATA, CONSTANTS, IS_SUM, CASTS = range(8)
"""The words of a plan: the address of the loop, the size of the elements that it computes with, the
number of inputs, whether the loop is one of NumPy's, the data that it gets then, which inputs may
be one element throughout a block (see `chosen_constants`; others are copied), and whether the
results are added up: then the first input stands for the result, whose elements are not kept, and
the range counts blocks, whose sums go to an array of float64 after the inputs. From `CASTS` on come
two words for each operand, the result first: the size of its elements in memory, and the address of
the loop that converts them, or 0."""

PLAN_WORDS = CASTS + 2 * OPERANDS

# The words that describe operand k: its data, then its stride along each collapsed axis.
WIDTH = MAX_DIMS + 1


@njit
def axis_stride(array, axis, ndim):
    """Return the stride of an array along an axis of the result; 0 where it is broadcast."""
    own = axis - ndim + (load(array + NDIM) & 0xFFFFFFFF)
    if own < 0 or load(load(array + SHAPE) + 8 * own) == 1:
        return 0
    return load(load(array + STRIDES) + 8 * own)


@njit
def next_axis(out, ndim, done):
    """Return the axis of the result with the largest stride among those not done, or -1."""
    best, best_stride = -1, -1
    for axis in range(ndim):
        if (done >> axis) & 1 == 0 and load(load(out + SHAPE) + 8 * axis) != 1:
            stride = load(load(out + STRIDES) + 8 * axis)
            if stride > best_stride:
                best, best_stride = axis, stride
    return best


@njit
def describe(arrays, count, shape, words):
    """Set the shape and the operands' strides with as few axes as possible; return their number.

    Args:
        arrays: the addresses of the operands, the result first.
        shape, words: the addresses of the results; axes come from the outermost in memory on.
    """
    out, dims, done = load(arrays), 0, 0
    ndim = load(out + NDIM) & 0xFFFFFFFF
    for k in range(count):
        store(words + 8 * k * WIDTH, load(load(arrays + 8 * k) + DATA))
    while True:
        axis = next_axis(out, ndim, done)
        if axis < 0:
            break
        done |= 1 << axis
        size = load(load(out + SHAPE) + 8 * axis)
        merges = dims > 0  # the axis before is this one continued
        for k in range(count):
            stride = axis_stride(load(arrays + 8 * k), axis, ndim)
            merges &= dims > 0 and load(words + 8 * (k * WIDTH + dims)) == stride * size
        if merges:
            size *= load(shape + 8 * (dims - 1))
            dims -= 1
        for k in range(count):
            stride = axis_stride(load(arrays + 8 * k), axis, ndim)
            store(words + 8 * (k * WIDTH + dims + 1), stride)
        store(shape + 8 * dims, size)
        dims += 1
    if dims == 0:  # one element
        store(shape, 1)
        for k in range(count):
            store(words + 8 * (k * WIDTH + 1), 0)
        dims = 1
    return dims


@njit
def row_address(operand, shape, dims, row):
    """Return the address of the first element of an operand's row; rows go along the last axis."""
    address = load(operand)
    for axis in range(dims - 2, 0, -1):
        size = load(shape + 8 * axis)
        address += row % size * load(operand + 8 * (axis + 1))
        row //= size
    return address + (row * load(operand + 8) if dims > 1 else 0)


@njit
def gather(target, source, step, count, itemsize, cast):
    """Copy elements with a step between them into a buffer, and convert them."""
    if cast != 0:
        words = stack(3)
        store(words, source)
        store(words + 8, step)
        store(words + 16, target)
        call_loop(cast, count, words)
    elif itemsize == 4:
        gather_as(target, source, step, count, np.uint32)
    elif itemsize == 8:
        gather_as(target, source, step, count, np.uint64)
    elif itemsize == 1:
        gather_as(target, source, step, count, np.uint8)
    else:
        gather_as(target, source, step, count, np.uint16)


@njit
def gather_as(target, source, step, count, dtype):
    """Copy elements of one size."""
    results = carray(pointer(target, dtype), (count,))
    if step == 0:
        value = carray(pointer(source, dtype), (1,))[0]
        for i in range(count):
            results[i] = value
    else:
        for i in range(count):
            results[i] = carray(pointer(source + np.int64(i) * step, dtype), (1,))[0]


@njit
def fill_block(buffer, operand, shape, dims, position, count, size, buffer_step, cast):
    """Copy a block of an operand, which may go across several rows, into a buffer."""
    inner, step = load(shape + 8 * (dims - 1)), load(operand + 8 * dims)
    row, column = position // inner, position % inner
    while count > 0:
        n = min(inner - column, count)
        source = row_address(operand, shape, dims, row) + column * step
        gather(buffer, source, step, n, size, cast)
        buffer += n * buffer_step
        count -= n
        row += 1
        column = 0


@njit
def is_constant(operand, dims):
    """Whether an operand is one element, broadcast along all axes."""
    strides = 0
    for axis in range(dims):
        strides |= load(operand + 8 * (axis + 1))
    return strides == 0


@njit
def size_of(shape, dims):
    """Return the number of elements."""
    size = 1
    for axis in range(dims):
        size *= load(shape + 8 * axis)
    return size


@njit
def buffer_total(buffer, count, itemsize):
    """Return the sum of a buffer as a float64."""
    if itemsize == 4:
        return np.float64(block_total(carray(pointer(buffer, np.float32), (count,))))
    return np.float64(block_total(carray(pointer(buffer, np.float64), (count,))))


@njit
def is_dense(operand, shape, dims, itemsize):
    """Whether an operand's elements follow each other in the order of the result."""
    size = itemsize
    for axis in range(dims - 1, -1, -1):
        if load(operand + 8 * (axis + 1)) != size and load(shape + 8 * axis) != 1:
            return False
        size *= load(shape + 8 * axis)
    return True


# The words of a walk: what `run_blocks` keeps on the stack, by the index of each part. The loop
# gets the address of ADDRESS_PART, and finds the steps of its operands behind it: see `STEPS`.
SHAPE_PART, OPERAND_PART, ADDRESS_PART, STEP_PART, LENGTH_PART = 0, 12, 77, 87, 92
DIMS_PART, BY_ROWS_PART, BLOCK_PART, INNER_PART, MODE_PART, ROW_PART, INDEX_PART = (
    93, 94, 95, 96, 97, 102, 107,
)  # fmt: skip

STEPS = STEP_PART - ADDRESS_PART
"""Where a loop finds the bytes from one element to the next, behind the addresses: 0 for an operand
that is one element throughout the block."""

DENSE, IN_ROW, BUFFERED, CONSTANT, FILLED = range(5)
"""How a block of an operand gets to the loop, the words from `MODE_PART` on: from its array; from
its row of it, where the walk goes by rows; by a buffer; by a buffer that is filled once, as it is
one element; and that buffer once it is filled."""


@njit
def operand_mode(plan, walk, k, dims, by_rows, free):
    """Return how blocks of an operand get to the loop.

    Args:
        free: whether the loop would take it as one element.
    """
    size, cast = load(plan + 8 * (CASTS + 2 * k)), load(plan + 8 * (CASTS + 2 * k + 1))
    operand, shape = walk + 8 * (OPERAND_PART + k * WIDTH), walk + 8 * SHAPE_PART
    if k == 0 and load(plan + 8 * IS_SUM) != 0:
        return FILLED
    if cast == 0 and is_dense(operand, shape, dims, size):
        return DENSE
    if k == 0:
        return FILLED
    if cast == 0 and by_rows and (free or load(operand + 8 * dims) == size):
        return IN_ROW
    if is_constant(operand, dims):
        return IN_ROW if free else CONSTANT
    return BUFFERED


@njit
def chosen_constants(plan, walk, count, dims, by_rows):
    """Return the operands, as bits, that the loop gets as one element throughout a block.

    The plan says by its bit m that the loop has a form for the operands that are the bits of m. Of
    operands for which it has none, one is taken.
    """
    forms, candidates, single = load(plan + 8 * CONSTANTS), 0, 0
    for k in range(count - 1, 0, -1):
        operand = walk + 8 * (OPERAND_PART + k * WIDTH)
        is_one = is_constant(operand, dims) or (by_rows and load(operand + 8 * dims) == 0)
        if is_one and load(plan + 8 * (CASTS + 2 * k + 1)) == 0:
            candidates |= 1 << k
            single = 1 << k if (forms >> (1 << k)) & 1 else single
    return candidates if (forms >> candidates) & 1 else single


@njit
def plan_walk(plan, walk, arrays, count):
    """Set how a walk goes: with as few axes as possible, by rows or across them."""
    shape, itemsize = walk + 8 * SHAPE_PART, load(plan + 8 * ITEMSIZE)
    dims = describe(arrays, count, shape, walk + 8 * OPERAND_PART)
    inner, all_dense, has_cast = load(shape + 8 * (dims - 1)), True, False
    for k in range(count):
        operand = walk + 8 * (OPERAND_PART + k * WIDTH)
        size, cast = load(plan + 8 * (CASTS + 2 * k)), load(plan + 8 * (CASTS + 2 * k + 1))
        is_direct = cast == 0 and is_dense(operand, shape, dims, size)
        has_cast |= cast != 0
        all_dense &= is_direct or (k > 0 and is_constant(operand, dims))
    is_short = load(plan + 8 * CONSTANTS) != 0 and load(plan + 8 * IS_UFUNC) == 0 and not has_cast
    by_rows, buffers = not all_dense and inner >= (MIN_SHORT_ROW if is_short else MIN_ROW), False
    constants = chosen_constants(plan, walk, count, dims, by_rows)
    for k in range(count):
        operand = walk + 8 * (OPERAND_PART + k * WIDTH)
        size, cast = load(plan + 8 * (CASTS + 2 * k)), load(plan + 8 * (CASTS + 2 * k + 1))
        free = (constants >> k) & 1 != 0
        mode = operand_mode(plan, walk, k, dims, by_rows, free)
        buffers |= mode >= BUFFERED
        store(walk + 8 * (MODE_PART + k), mode)
        step = 0 if free else size if cast == 0 else itemsize
        store(walk + 8 * (STEP_PART + (k + count - 1) % count), step)
        store(walk + 8 * (ROW_PART + k), load(operand))
    store(walk + 8 * DIMS_PART, dims)
    store(walk + 8 * INNER_PART, inner)
    store(walk + 8 * BY_ROWS_PART, by_rows)
    store(walk + 8 * BLOCK_PART, BLOCK if buffers else 1 << 62)


@njit
def start_rows(walk, count, row):
    """Set the walk by rows to a row: its index along each axis, and the operands' addresses."""
    shape, dims = walk + 8 * SHAPE_PART, load(walk + 8 * DIMS_PART)
    for k in range(count):
        operand = walk + 8 * (OPERAND_PART + k * WIDTH)
        store(walk + 8 * (ROW_PART + k), row_address(operand, shape, dims, row))
    for axis in range(dims - 2, -1, -1):
        size = load(shape + 8 * axis)
        store(walk + 8 * (INDEX_PART + axis), row % size)
        row //= size


@njit
def next_row(walk, count):
    """Go on to the next row."""
    for axis in range(load(walk + 8 * DIMS_PART) - 2, -1, -1):
        size, index = load(walk + 8 * (SHAPE_PART + axis)), load(walk + 8 * (INDEX_PART + axis)) + 1
        jump = 0 if index < size else size  # over the axis: back to its beginning
        for k in range(count):
            place = walk + 8 * (ROW_PART + k)
            stride = load(walk + 8 * (OPERAND_PART + k * WIDTH + axis + 1))
            store(place, load(place) + stride * (1 - jump))
        store(walk + 8 * (INDEX_PART + axis), index - jump)
        if jump == 0:
            return


@njit
def operand_address(plan, walk, k, buffer, first, column, n):
    """Return where the loop finds a block of an operand: in its array, or in the buffer."""
    mode = load(walk + 8 * (MODE_PART + k))
    size = load(plan + 8 * (CASTS + 2 * k))
    operand = walk + 8 * (OPERAND_PART + k * WIDTH)
    if mode == DENSE:
        return load(operand) + first * size
    if mode == IN_ROW:
        is_one = load(walk + 8 * (STEP_PART + k - 1)) == 0
        return load(walk + 8 * (ROW_PART + k)) + (0 if is_one else column * size)
    if mode == FILLED:
        return buffer
    cast = load(plan + 8 * (CASTS + 2 * k + 1))
    if mode == CONSTANT:
        gather(buffer, load(operand), 0, BLOCK, size, cast)
        store(walk + 8 * (MODE_PART + k), FILLED)
    elif load(walk + 8 * BY_ROWS_PART) != 0:
        step = load(operand + 8 * load(walk + 8 * DIMS_PART))
        address = load(walk + 8 * (ROW_PART + k)) + column * step
        gather(buffer, address, step, n, size, cast)
    else:
        shape, dims = walk + 8 * SHAPE_PART, load(walk + 8 * DIMS_PART)
        buffer_step = size if cast == 0 else load(plan + 8 * ITEMSIZE)
        fill_block(buffer, operand, shape, dims, first, n, size, buffer_step, cast)
    return buffer


@njit
def run_loop(plan, walk, n):
    """Compute a block of the result by the loop of a plan."""
    addresses = walk + 8 * ADDRESS_PART
    if load(plan + 8 * IS_UFUNC) != 0:
        length = walk + 8 * LENGTH_PART
        store(length, n)
        data = load(plan + 8 * UFUNC_DATA)
        call_ufunc(load(plan + 8 * LOOP), addresses, length, walk + 8 * STEP_PART, data)
    else:
        call_loop(load(plan + 8 * LOOP), n, addresses)


@njit
def walk_rows(plan, walk, count, first, last):
    """Compute rows whose operands all go to the loop from their arrays, from the row set on."""
    inner, dims = load(walk + 8 * INNER_PART), load(walk + 8 * DIMS_PART)
    addresses, strides, axis = walk + 8 * ADDRESS_PART, stack(5), dims - 2
    column = first % inner
    while first < last:
        for k in range(count):
            place, operand = (k + count - 1) % count, walk + 8 * (OPERAND_PART + k * WIDTH)
            address = load(walk + 8 * (ROW_PART + k)) + column * load(operand + 8 * dims)
            store(addresses + 8 * place, address)
            store(strides + 8 * place, load(operand + 8 * (axis + 1)))
        if column > 0 or last - first < inner:
            n = min(inner - column, last - first)
            run_loop(plan, walk, n)
            first, column = first + n, 0
            next_row(walk, count)
            continue
        # All rows that follow along the same axis.
        index, size = load(walk + 8 * (INDEX_PART + axis)), load(walk + 8 * (SHAPE_PART + axis))
        rows = min((last - first) // inner, size - index)
        for _ in range(rows):
            run_loop(plan, walk, inner)
            for k in range(count):
                store(addresses + 8 * k, load(addresses + 8 * k) + load(strides + 8 * k))
        first += rows * inner
        store(walk + 8 * (INDEX_PART + axis), index + rows - 1)
        for k in range(count):
            operand, row = walk + 8 * (OPERAND_PART + k * WIDTH), walk + 8 * (ROW_PART + k)
            store(row, load(row) + (rows - 1) * load(operand + 8 * (axis + 1)))
        next_row(walk, count)


@njit
def convert_range(plan, walk, first, last):
    """Convert a range of elements from the only input into the result."""
    itemsize = load(plan + 8 * ITEMSIZE)
    fill_block(
        load(walk + 8 * OPERAND_PART) + first * itemsize, walk + 8 * (OPERAND_PART + WIDTH),
        walk + 8 * SHAPE_PART, load(walk + 8 * DIMS_PART), first, last - first,
        load(plan + 8 * (CASTS + 2)), itemsize, load(plan + 8 * (CASTS + 3)),
    )  # fmt: skip


@njit
def store_block(plan, walk, buffer, sums, first, n):
    """Add a block of results to its sum, or convert it into the result, where that is due."""
    itemsize, cast = load(plan + 8 * ITEMSIZE), load(plan + 8 * (CASTS + 1))
    if load(plan + 8 * IS_SUM) != 0:
        total = sums + 8 * (first // BLOCK)
        store_scalar(total, load_scalar(total) + buffer_total(buffer, n, itemsize))
    elif cast != 0:
        size = load(plan + 8 * CASTS)
        result = load(walk + 8 * OPERAND_PART) + first * size
        gather(result, buffer, itemsize, n, size, cast)


@njit
def unaligned_head(plan, walk, first, last):
    """Return how many elements come before the first one that begins a cache line.

    malloc's memory is aligned to 16 bytes alone; a vector across two lines is two accesses. (Where
    the operands begin alike, which they do in arrays of their own, this aligns all of them.)
    """
    itemsize = load(plan + 8 * ITEMSIZE)
    k = 0 if load(plan + 8 * CASTS) == itemsize else 1
    in_blocks = load(walk + 8 * BY_ROWS_PART) != 0 or load(walk + 8 * BLOCK_PART) == BLOCK
    if in_blocks or load(plan + 8 * IS_UFUNC) != 0 or last - first < MIN_ALIGNED:
        return 0
    return (-(load(walk + 8 * (OPERAND_PART + k * WIDTH)) + first * itemsize) & 63) // itemsize


@njit(
    [
        types.void(
            types.uint64, types.uint64, types.int64, types.int64,
            types.UniTuple(types.int64, MAX_INPUTS), types.UniTuple(types.float64, MAX_SCALARS),
        )
    ],
    cache=True, nogil=True, error_model="numpy",
)  # fmt: skip
def run_blocks(start, stop, plan, out, inputs, scalars):
    """Compute the elements of a range of the result.

    Args:
        plan: the address of a plan, see `LOOP`.
        out, inputs: the addresses of array objects; the result is dense, in any order of axes.
        scalars: the numbers that the loop has besides.
    """
    start, stop = claim_range(start, stop)
    first, last = np.int64(start), np.int64(stop)
    arrays, walk, buffers = stack(5), stack(120), stack(5120)
    count = load(plan + 8 * INPUTS) + 1
    store(arrays, out)
    for k in range(4):
        store(arrays + 8 * (k + 1), inputs[k])
        store_scalar(walk + 8 * (ADDRESS_PART + count + k), scalars[k])
    plan_walk(plan, walk, arrays, count)
    if load(plan + 8 * LOOP) == 0:
        convert_range(plan, walk, first, last)
        return
    is_sum, by_rows = load(plan + 8 * IS_SUM) != 0, load(walk + 8 * BY_ROWS_PART) != 0
    block, inner, sums = load(walk + 8 * BLOCK_PART), load(walk + 8 * INNER_PART), 0
    if is_sum:
        sums = load(inputs[count - 1] + DATA)
        size = size_of(walk + 8 * SHAPE_PART, load(walk + 8 * DIMS_PART))
        first, last = first * BLOCK, min(last * BLOCK, size)
    column, head = 0, unaligned_head(plan, walk, first, last)
    if by_rows:
        column = first % inner
        start_rows(walk, count, first // inner)
        if block > BLOCK:
            walk_rows(plan, walk, count, first, last)
            return
    while first < last:
        n = head if head > 0 else min(block, last - first)
        if by_rows:
            n = min(n, inner - column)
        if is_sum:
            n = min(n, BLOCK - first % BLOCK)
        for k in range(count):
            address = operand_address(plan, walk, k, buffers + 8 * BLOCK * k, first, column, n)
            store(walk + 8 * (ADDRESS_PART + (k + count - 1) % count), address)
        run_loop(plan, walk, n)
        store_block(plan, walk, buffers, sums, first, n)
        first, column, head = first + n, column + n, 0
        if column == inner and by_rows:
            next_row(walk, count)
            column = 0
