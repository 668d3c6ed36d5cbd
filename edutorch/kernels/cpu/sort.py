"""Sorts and selections of rows: what NumPy's vectorized sorts need to return indices as well.

With AVX2 or AVX-512, NumPy sorts and partitions many elements at a time, but not stably and without
their indices. So a float32 and its index become one integer of 64 bits, the float above: all are
different, and their order is that of a stable sort. NaN is the largest, as in the definition.

For one element of each row (`kthvalue`, `median`), a partition finds the value, and one more pass
the index that a stable sort would have given it. For the few largest, the best ones so far are
kept in order while a row is read once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from ...backends.numpy import Array
from ...ops import quantiles, sorting
from ...settings import get_num_threads
from .along_axis import array_at, axis_layout, compile_along_axis
from .jit import (
    ARRAY_1D,
    ARRAY_2D,
    BOOL,
    INT64,
    INT64_1D,
    INT64_2D,
    compile_kernel,
    use_wide_vectors,
)
from .parallel import MIN_PARALLEL, parallel_for
from .scan import is_axis
from .strided_copy import copy_into, copy_kernel
from .vector_math import FloatFormat, vector_function_of_pair
from .work_queue import claim_range

Run = Callable[..., Any]
MOST_KEPT = 64
"""Up to so many of the largest elements are kept in order while a row is read."""

SHORT_ROW, LANES = 64, 32
"""Rows of at most so many elements are sorted together, so many at a time."""

THREAD_WORK = 65_536
"""The elements to be sorted for which a thread is worth its start."""

LOW_BITS, SIGN, MAGNITUDE, INFINITY = 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 0x7F800000
"""Of the bits of a float32: all, the sign, the others, those of ∞."""


def UINT64_2D(dtype: Any) -> Any:
    """A contiguous array of two axes of uint64."""
    return types.uint64[:, ::1]


def on_threads(function: Callable[[np.ndarray], object], rows: np.ndarray) -> None:
    """Apply a function that NumPy runs without the GIL to parts of the rows, one per thread.

    (A thread of Python begins after some 50 µs; the pool of the kernels runs compiled code alone.)
    """
    parts = min(get_num_threads(), len(rows), rows.size // THREAD_WORK)
    if parts < 2:
        function(rows)
        return
    first, *others = np.array_split(rows, parts)
    threads = [threading.Thread(target=function, args=(part,)) for part in others]
    for thread in threads:
        thread.start()
    try:
        function(first)
    finally:
        for thread in threads:
            thread.join()


# Whole rows -------------------------------------------------------------------------------------


def pack_keys(start, stop, x, keys, descending):
    """Make a key of each element: the bits of the float in the order of floats, and the index."""
    start, stop = claim_range(start, stop)
    for r in range(start, stop):
        bits, row = x[r].view(np.uint32), keys[r]
        for i in range(np.uint64(bits.size)):
            word = np.int64(bits[i])  # in int64, as numba computes with smaller integers anyway
            if word & MAGNITUDE > INFINITY:  # NaN
                ordered = LOW_BITS
            elif word == SIGN:  # -0.0 equals 0.0
                ordered = SIGN
            else:
                ordered = LOW_BITS - word if word & SIGN else word + SIGN
            if descending:
                ordered = LOW_BITS - ordered
            row[i] = (np.uint64(ordered) << np.uint64(32)) | i


def unpack_keys(start, stop, x, keys, values, indices):
    """Read the indices from sorted keys, and the elements that they belong to."""
    start, stop = claim_range(start, stop)
    for r in range(start, stop):
        row = x[r]
        for i in range(np.uint64(row.size)):
            at = keys[r, i] & np.uint64(LOW_BITS)
            values[r, i], indices[r, i] = row[at], at


def as_rows(input: Array, dim: int) -> np.ndarray:
    """Return an array with an axis as the last one, contiguous, as rows."""
    is_last = dim in (-1, input.ndim - 1)
    if is_last and input.ndim == 2 and input.flags.c_contiguous:
        return input
    rows = input if is_last else np.moveaxis(input, dim, -1)
    if not rows.flags.c_contiguous:
        rows = copy_into(np.empty(rows.shape, rows.dtype), rows)
    return rows.reshape(-1, rows.shape[-1])


def from_rows(rows: np.ndarray, shape: tuple[int, ...], dim: int) -> np.ndarray:
    """Return rows as a contiguous array whose axis `dim` they are; the inverse of `as_rows`."""
    dim %= len(shape)
    if len(shape) == 2 and dim == 1:
        return rows
    others = (*shape[:dim], *shape[dim + 1 :])
    if dim == len(others):
        return rows.reshape(*others, rows.shape[-1])
    y = np.moveaxis(rows.reshape(*others, rows.shape[-1]), -1, dim)
    return y if y.flags.c_contiguous else copy_into(np.empty(y.shape, y.dtype), y)


@sorting.sort_forward.kernel("cpu", min_size=256)
def sort_forward() -> Run:
    """Make the forward of `sort`, of float32."""
    copy_kernel()
    pack = compile_kernel(pack_keys, lambda _: types.float32[:, ::1], UINT64_2D, BOOL)
    unpack = compile_kernel(unpack_keys, ARRAY_2D, UINT64_2D, ARRAY_2D, INT64_2D)

    def run(
        input: Array, dim: int, descending: bool, stable: bool
    ) -> tuple[np.ndarray, np.ndarray] | None:
        if input.dtype != np.float32 or not is_axis(input, dim) or input.shape[dim] > LOW_BITS:
            return None
        rows = as_rows(input, dim)
        keys = np.empty(rows.shape, np.uint64)
        parallel_for(pack, len(rows), rows, keys, bool(descending), work=rows.size)
        on_threads(lambda part: part.sort(1), keys)
        values, indices = np.empty_like(rows), np.empty(rows.shape, np.int64)
        parallel_for(unpack, len(rows), rows, keys, values, indices, work=rows.size)
        return from_rows(values, input.shape, dim), from_rows(indices, input.shape, dim)

    return run


# One element of each row ------------------------------------------------------------------------


@njit
def exchange(first, second, first_indices, second_indices, lanes):
    """Put the smaller one of two elements first, in all lanes; of equal ones the lower index."""
    for lane in range(np.uint64(lanes)):
        a, b, i, j = first[lane], second[lane], first_indices[lane], second_indices[lane]
        swaps = (a > b) | ((a == b) & (i > j))
        first[lane], second[lane] = b if swaps else a, a if swaps else b
        first_indices[lane], second_indices[lane] = j if swaps else i, i if swaps else j


@njit
def sort_lanes(elements, indices, n, lanes):
    """Sort the first n rows of a matrix, each lane (column) by itself, with the indices.

    By Batcher's merge exchange (Knuth, 5.2.2, algorithm M): which elements are compared does not
    depend on them, so that all lanes are compared together, in vectors.
    """
    top = 1
    while 2 * top < n:
        top *= 2
    p = top
    while p > 0:
        q, r, distance = top, 0, p
        while True:
            for i in range(n - distance):
                if i & p == r:
                    j = i + distance
                    exchange(elements[i], elements[j], indices[i], indices[j], lanes)
            if q == p:
                break
            q, r, distance = q // 2, p, q - p
        p //= 2


def select_in_lanes(start, stop, like, addresses, lengths, k, prefers_nan):
    """Find the k-th smallest element of each short row: `LANES` rows are sorted together.

    Args:
        addresses: of the rows, of the elements and of their indices.
        prefers_nan: whether in a row with NaN the first of these is meant.
    """
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    outer, n, _ = lengths
    x, values = array_at(addresses[0], like, (outer, n)), array_at(addresses[1], like, (outer,))
    result = array_at(addresses[2], np.int64(0), (outer,))
    elements = np.empty((SHORT_ROW, LANES), x.dtype)
    indices, missing = np.empty((SHORT_ROW, LANES), np.int32), np.empty(LANES, np.int64)
    infinite, last, beyond = x.dtype.type(np.inf), np.int64(stop), np.int32(n)
    for first in range(np.int64(start), last, LANES):
        lanes = min(LANES, last - first)
        for lane in range(lanes):
            row, count = x[first + lane], 0
            for i in range(np.uint64(n)):
                value, index = row[i], np.int32(i)
                if value != value:  # it comes after all others, also after ∞
                    value, index, count = infinite, np.int32(index + beyond), count + 1
                elements[i, lane], indices[i, lane] = value, index
            missing[lane] = count
        sort_lanes(elements, indices, n, lanes)
        for lane in range(lanes):
            at = indices[n - missing[lane] if prefers_nan and missing[lane] else k, lane]
            at = at - n if at >= n else at
            values[first + lane], result[first + lane] = x[first + lane, at], at


def find_indices(start, stop, x, values, k, prefers_nan, indices):
    """Find the index of the k-th smallest element of each row, whose value is known.

    Args:
        values: equal ones; they are replaced by those in the rows, which may be -0.0.
        prefers_nan: whether in a row with NaN the first of these is meant.
    """
    start, stop = claim_range(start, stop)
    for r in range(start, stop):
        row, value = x[r], values[r]
        less, missing = 0, 0
        for i in range(np.uint64(row.size)):
            less += row[i] < value
            missing += row[i] != row[i]
        is_nan = value != value or (prefers_nan and missing > 0)
        # The number of equal elements before it, in a stable sort.
        left = 0 if prefers_nan and missing else k - (row.size - missing if is_nan else less)
        for i in range(np.uint64(row.size)):
            is_equal = row[i] != row[i] if is_nan else row[i] == value
            if is_equal:
                if left == 0:
                    values[r], indices[r] = row[i], i
                    break
                left -= 1


@sorting.KTH_SMALLEST.kernel("cpu", min_size=1)
def kth_smallest() -> Run:
    """Make the k-th smallest element along an axis, counted from 0, and its index."""
    copy_kernel()
    kernel = compile_kernel(find_indices, ARRAY_2D, ARRAY_1D, INT64, BOOL, INT64_1D)
    short_rows = compile_along_axis(select_in_lanes, 3, types.int64, types.boolean)

    def run(
        array: Array, k: int, dim: int, keepdim: bool, prefers_nan: bool
    ) -> tuple[np.ndarray, np.ndarray] | None:
        layout = axis_layout(array.shape, dim) if dim.__class__ is int else None
        dtype = array.dtype
        entry = short_rows.get(dtype)
        if layout is None or entry is None or not array.size:
            return None
        outer, n, inner = lengths = layout.lengths
        rows = array
        if inner > 1 or not array.flags.c_contiguous:
            outer, lengths, rows = outer * inner, (outer * inner, n, 1), as_rows(array, dim)
        shape = layout.kept if keepdim else layout.reduced
        values, indices = np.empty(shape, dtype), np.empty(shape, np.int64)
        if n <= SHORT_ROW:
            addresses = id(rows), id(values), id(indices)
            if rows.size < MIN_PARALLEL:
                entry(0, outer, 0.0, addresses, lengths, k, prefers_nan)
            else:
                arguments = 0.0, addresses, lengths, k, prefers_nan
                parallel_for(entry, outer, *arguments, work=rows.size)
            return values, indices
        rows, picked = rows.reshape(outer, n), values.reshape(outer)
        parted = rows.copy()
        on_threads(lambda part: part.partition(k, 1), parted)
        picked[...] = parted[:, k]
        arguments = rows, picked, k, prefers_nan, indices.reshape(outer)
        parallel_for(kernel, outer, *arguments, work=rows.size)
        return values, indices

    return run


# The median of all elements ---------------------------------------------------------------------


@vector_function_of_pair
def kth_in_order(format: FloatFormat) -> Callable[..., Any]:
    """The k-th smallest element of a row without NaN, bit by bit.

    The bits of floats order like integers, once those of negative ones are flipped: see
    `max_or_any`. A bit of the result is 1 if at most k elements are less than the bits so far with
    a 1. A partition of a thousand elements takes five times as long: its branches are random.
    """
    scalar, integer = format.scalar, format.integer
    sign, magnitude = integer(np.iinfo(integer).bits - 1), integer(np.iinfo(integer).max)
    least, one, bits = integer(np.iinfo(integer).min), integer(1), np.iinfo(integer).bits

    def kth_in_order(row, k):
        words, keys = row.view(integer), np.empty(row.size, integer)
        for i in range(keys.size):
            keys[i] = words[i] ^ integer(integer(words[i] >> sign) & magnitude)
        result = least
        for bit in range(bits - 1, -1, -1):
            candidate = integer(0) if bit == sign else integer(result | integer(one << bit))
            count = integer(0)
            for i in range(keys.size):
                count = integer(count + integer(keys[i] < candidate))
            result = candidate if count <= k else result
        return integer(result ^ integer(integer(result >> sign) & magnitude)).view(scalar)

    return kth_in_order


def select_median(start, stop, like, addresses, lengths):
    """The lower median of each row; NaN if there is one.

    Args:
        addresses: of the rows and of the medians.
    """
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    outer, n, _ = lengths
    x, y = array_at(addresses[0], like, (outer, n)), array_at(addresses[1], like, (outer,))
    for r in range(start, stop):
        row, is_valid = x[r], True
        for i in range(row.size):
            is_valid &= row[i] == row[i]
        y[r] = kth_in_order(row, (n - 1) // 2) if is_valid else np.nan


MAX_BISECTED = 4096
"""Of more elements, the median is found by a partition."""


@quantiles.median_forward.kernel("cpu", min_size=32)
def median_forward() -> Run:
    """Make the median of all elements."""
    entries = compile_along_axis(select_median, 2)

    def run(input: Array, skips_nan: bool) -> np.ndarray | None:
        if input.__class__ is not np.ndarray or not input.flags.c_contiguous:
            return None
        dtype, size = input.dtype, input.size
        entry = entries.get(dtype)
        if entry is None or not size:
            return None
        y = np.empty((), dtype)
        if size <= MAX_BISECTED:
            entry(0, 1, 0.0, (id(input), id(y)), (1, size, 1))
            return None if skips_nan and y != y else y
        highest, middle = input.max(), (size - 1) // 2
        if highest != highest:
            return None if skips_nan else np.array(np.nan, dtype)
        elements = input.flatten()
        elements.partition(middle)
        y[...] = elements[middle]
        return y

    return run


# The largest elements of each row ---------------------------------------------------------------


@njit(forceinline=True)
def precedes(value: float, other: float, largest: bool) -> bool:
    """Whether an element comes before another one that has a lower index; NaN is the largest."""
    if largest:
        return value > other or (value != value and other == other)
    return value < other or (other != other and value == value)


def keep_best(start, stop, like, addresses, lengths, largest):
    """Find the largest (or smallest) elements of each row and their indices, in order.

    Args:
        addresses: of the rows, of the elements and of their indices.
        lengths: how many rows there are, how long they are, and how many elements are found.
    """
    start, stop = claim_range(start, stop)
    outer, n, width = lengths
    x, values = (
        array_at(addresses[0], like, (outer, n)),
        array_at(addresses[1], like, (outer, width)),
    )
    indices = array_at(addresses[2], np.int64(0), (outer, width))
    count = np.uint64(width)
    last = count - np.uint64(1)
    for r in range(start, stop):
        row, best, index = x[r], values[r], indices[r]
        for i in range(np.uint64(row.size)):
            value = row[i]
            # At first, whatever comes fills the list.
            if i >= count and not precedes(value, best[last], largest):
                continue
            at = min(i, last)
            while at > 0 and precedes(value, best[at - np.uint64(1)], largest):
                best[at], index[at] = best[at - np.uint64(1)], index[at - np.uint64(1)]
                at -= np.uint64(1)
            best[at], index[at] = value, i


@sorting.TOP_K.kernel("cpu", min_size=1)
def top_k() -> Run:
    """Make the k largest (or smallest) elements along an axis and their indices, in order."""
    copy_kernel()
    entries = compile_along_axis(keep_best, 3, types.boolean)

    def run(array: Array, k: int, dim: int, largest: bool) -> tuple[np.ndarray, np.ndarray] | None:
        layout = axis_layout(array.shape, dim) if dim.__class__ is int else None
        dtype = array.dtype
        entry = entries.get(dtype)
        if layout is None or entry is None or not array.size or not 0 < k <= MOST_KEPT:
            return None
        outer, n, inner = layout.lengths
        is_last = dim in (-1, array.ndim - 1)
        rows, count = array, outer * inner
        if not is_last or not array.flags.c_contiguous:
            rows = as_rows(array, dim)
        shape = (*array.shape[:-1], k) if is_last else (count, k)
        values, indices = np.empty(shape, dtype), np.empty(shape, np.int64)
        addresses, lengths = (id(rows), id(values), id(indices)), (count, n, k)
        if rows.size < MIN_PARALLEL:
            entry(0, count, 0.0, addresses, lengths, bool(largest))
        else:
            parallel_for(entry, count, 0.0, addresses, lengths, bool(largest), work=rows.size)
        if is_last:
            return values, indices
        return from_rows(values, array.shape, dim), from_rows(indices, array.shape, dim)

    return run
