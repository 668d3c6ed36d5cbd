"""Fills of new memory, with one value or with integers that count up, on all threads."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from ...backends import numpy as numpy_backend
from ...backends.numpy import Array
from .parallel import parallel_for
from .work_queue import claim_range

ELEMENTS_PER_WORK = 4
"""So many elements are filled in the time that a simple kernel takes for one."""


def fill_bits(start, stop, y, bits):
    """Store the same bits in y[start:stop]."""
    start, stop = claim_range(start, stop)
    for i in range(start, stop):
        y[i] = bits


NUMBER_TYPES = {bool, int, float}
WORDS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
"""Integers without a sign, by their size in bytes."""


def bits_of(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return the bits of a value of a dtype, which numba need not know: bfloat16."""
    return np.full((), value, dtype).view(WORDS[dtype.itemsize])[()]


kept_bits = functools.lru_cache(256)(bits_of)


@numpy_backend.FILL.kernel("cpu", min_size=32_768)
def fill() -> Callable[..., Any]:
    """Make `run(array, value)`, which fills an array of any dtype without gaps."""
    words = (types.uint8, types.uint16, types.uint32, types.uint64)
    signatures = [types.void(types.uint64, types.uint64, word[::1], word) for word in words]
    kernel = njit(signatures, cache=True, nogil=True, error_model="numpy")(fill_bits)

    def run(array: Array, value: Any) -> Any:
        size = array.itemsize
        if size > 8 or not array.flags.c_contiguous:
            return None
        # 0.0 is not kept: it is equal to -0.0.
        find = kept_bits if value.__class__ in NUMBER_TYPES and value else bits_of
        words, count = array.reshape(-1).view(WORDS[size]), array.size
        bits = find(value, array.dtype)
        parallel_for(kernel, count, words, bits, work=count // ELEMENTS_PER_WORK)
        return array

    return run


def fill_counts(start, stop, y):
    """Store its index in each element of y[start:stop]."""
    start, stop = claim_range(start, stop)
    for i in range(start, stop):
        y[i] = i


@numpy_backend.COUNT_UP.kernel("cpu", min_size=65_536)
def count_up() -> Callable[..., Any]:
    """Make `run(count)`, which returns the integers below `count`."""
    signature = types.void(types.uint64, types.uint64, types.int64[::1])
    kernel = njit([signature], cache=True, nogil=True, error_model="numpy")(fill_counts)

    def run(count: int) -> np.ndarray:
        y = np.empty(count, np.int64)
        parallel_for(kernel, count, y, work=count // ELEMENTS_PER_WORK)
        return y

    return run
