"""Selection by a mask of the array's own shape, and writes at one, on all threads.

NumPy branches at each element, and a random mask makes every second branch a wrong guess. Here each
element is moved, and the position in the selected ones advances by 0 or 1. Elements are moved as
integers of their size, so one kernel serves all dtypes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from ...backends import numpy
from ...backends.kernel_registry import slot_for
from ...backends.numpy import Array
from ...ops import conversion, masking
from .jit import UNSIGNED
from .parallel import parallel_for
from .work_queue import claim_range

Run = Callable[..., Any]
CHUNK = 4096
"""The elements of a unit of work: those that it selects fit into the L1 cache."""

WORDS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
BOOL = np.dtype(bool)
FLOATS = {np.dtype("float32"), np.dtype("float64")}
FIRST = np.zeros(1, np.int64)
"""The position of the only chunk of a small array."""


def count_selected(start, stop, mask, counts):
    """Count the true elements of some chunks."""
    start, stop = claim_range(start, stop)
    for chunk in range(np.int64(start), np.int64(stop)):
        count = 0
        for selected in mask[chunk * CHUNK : (chunk + 1) * CHUNK]:
            count += selected
        counts[chunk + 1] = count


def select_elements(start, stop, mask, positions, x, y):
    """Write the elements of x with a true mask to y, those of a chunk from its position on."""
    start, stop = claim_range(start, stop)
    # What stands behind the last one belongs to another chunk, hence the buffer.
    buffer = np.empty(min(CHUNK, x.size) + 1, x.dtype)
    for chunk in range(np.int64(start), np.int64(stop)):
        elements = x[chunk * CHUNK : (chunk + 1) * CHUNK]
        selected, count = mask[chunk * CHUNK :], np.uint64(0)
        for i in range(np.uint64(elements.size)):
            buffer[count] = elements[i]
            count += selected[i]
        out = y[positions[chunk] : positions[chunk] + np.int64(count)]
        for i in range(np.uint64(out.size)):
            out[i] = buffer[i]


def put_elements(start, stop, mask, positions, x, y):
    """Write the elements of x, or its only one, to those of y with a true mask."""
    start, stop = claim_range(start, stop)
    for chunk in range(np.int64(start), np.int64(stop)):
        out, selected = y[chunk * CHUNK : (chunk + 1) * CHUNK], mask[chunk * CHUNK :]
        if x.size == 1:
            value = x[0]
            for i in range(np.uint64(out.size)):
                out[i] = value if selected[i] else out[i]
            continue
        at, last = np.uint64(positions[chunk]), np.uint64(x.size - 1)
        for i in range(np.uint64(out.size)):
            value = x[min(at, last)]
            out[i] = value if selected[i] else out[i]
            at += selected[i]


@functools.cache
def count_kernel() -> Any:
    """Compile `count_selected`."""
    signature = types.void(UNSIGNED, UNSIGNED, types.uint8[::1], types.int64[::1])
    return njit([signature], cache=True, nogil=True, error_model="numpy")(count_selected)


def compile_for_words(kernel: Callable[..., None]) -> Any:
    """Compile a kernel for elements of 1, 2, 4 and 8 bytes."""
    signatures = [
        types.void(UNSIGNED, UNSIGNED, types.uint8[::1], types.int64[::1], word[::1], word[::1])
        for word in (types.uint8, types.uint16, types.uint32, types.uint64)
    ]
    return njit(signatures, cache=True, nogil=True, error_model="numpy")(kernel)


def is_mask_of(array: Array, index: Any) -> bool:
    """Whether an index is a mask of all elements of an array without gaps, both not read-only."""
    return (
        index.__class__ is np.ndarray
        and index.dtype is BOOL
        and index.shape == array.shape
        and array.itemsize in WORDS
        and array.flags.carray
        and index.flags.carray
    )


def chunk_positions(mask: np.ndarray) -> tuple[int, np.ndarray, int]:
    """Return the number of chunks, what precedes each of them in the result, and its length."""
    size = mask.size
    if size <= CHUNK:
        return 1, FIRST, int(np.count_nonzero(mask))
    chunks = -(-size // CHUNK)
    counts = np.zeros(chunks + 1, np.int64)
    parallel_for(count_kernel(), chunks, mask, counts, work=size // 8)
    positions = np.cumsum(counts)
    return chunks, positions, int(positions[-1])


@numpy.TAKE_MASKED.kernel("cpu", min_size=4096)
def take_masked() -> Run:
    """Make `array[mask]`."""
    count_kernel()
    kernel = compile_for_words(select_elements)

    def run(array: np.ndarray, mask: Any) -> np.ndarray | None:
        if not is_mask_of(array, mask):
            return None
        word, mask = WORDS[array.itemsize], mask.reshape(-1).view(np.uint8)
        chunks, positions, count = chunk_positions(mask)
        y = np.empty(count, array.dtype)
        x = array.reshape(-1).view(word)
        parallel_for(kernel, chunks, mask, positions, x, y.view(word), work=x.size)
        return y

    return run


@numpy.PUT_MASKED.kernel("cpu", min_size=4096)
def put_masked() -> Run:
    """Make `array[mask] = values` for values that share no memory with it; returns the array."""
    count_kernel()
    kernel = compile_for_words(put_elements)

    def run(array: np.ndarray, mask: Any, values: Any) -> np.ndarray | None:
        if not is_mask_of(array, mask) or values.__class__ is not np.ndarray:
            return None
        if values.dtype is not array.dtype or not values.flags.carray or values.ndim > 1:
            return None
        word, mask = WORDS[array.itemsize], mask.reshape(-1).view(np.uint8)
        chunks, positions, count = chunk_positions(mask)
        if values.size != count and values.size != 1:  # NumPy says what is wrong
            return None
        if count:
            x = values.reshape(-1).view(word)
            y = array.reshape(-1).view(word)
            parallel_for(kernel, chunks, mask, positions, x, y, work=y.size)
        return array

    return run


@masking.masked_fill.kernel("cpu", min_size=4096)
def masked_fill_kernel() -> Run:
    """Make the kernel of `masked_fill`: a choice by a mask, whose operands broadcast."""
    choose = slot_for(masking.where.op)
    assert choose is not None

    def run(input: Array, mask: Any, value: Any) -> Any:
        mask = getattr(mask, "_array", mask)
        if mask.__class__ is not np.ndarray or mask.dtype != BOOL or getattr(value, "ndim", 0):
            return None
        if input.dtype not in FLOATS:
            return None
        return choose(mask, conversion.scalar_array(np, "masked_fill", input, value, ""), input)

    return run
