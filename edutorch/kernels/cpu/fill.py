"""Fills of new memory: one value, integers that count up, evenly spaced values, one-hot rows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from ...backends import numpy as numpy_backend
from ...backends.numpy import Array
from ...nn.functional.embedding import ONE_HOT
from .jit import FLOATS
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
        is_kept = value.__class__ is int or (value.__class__ in NUMBER_TYPES and value)
        find = kept_bits if is_kept else bits_of
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


def fill_evenly(start, step, end, y):
    """Store start + i · step in y[i], and the end in the last element."""
    count = np.uint64(y.size)
    for i in range(count):
        value = np.float64(np.int64(i)) * step
        if start != 0:
            value += start
        y[i] = value
    y[count - np.uint64(1)] = end


@numpy_backend.LINSPACE.kernel("cpu", min_size=16)
def linspace() -> Callable[..., Any]:
    """Make `run(start, step, end, count, dtype)`: evenly spaced values, as `numpy.linspace`."""
    double = types.float64
    signatures = [
        types.void(double, double, double, real[::1]) for real in (types.float32, types.float64)
    ]
    kernel = njit(signatures, cache=True, nogil=True, error_model="numpy")(fill_evenly)

    def run(start: float, step: float, end: float, count: int, dtype: np.dtype[Any]) -> Any:
        if dtype not in FLOATS:
            return None
        y = np.empty(count, dtype)
        kernel(start, step, end, y)
        return y

    return run


def one_hot_rows(start, stop, classes, y, errors):
    """Write one-hot rows of y, and a 1 to `errors` if a class does not exist."""
    start, stop = claim_range(start, stop)
    for r in range(start, stop):
        row, at = y[r], classes[r]
        for i in range(row.size):
            row[i] = 0
        if 0 <= at < row.size:
            row[np.uint64(at)] = 1
        else:
            errors[0] = 1


@ONE_HOT.kernel("cpu", min_size=1)
def one_hot() -> Callable[..., Any]:
    """Make one-hot vectors along a new last axis."""
    vector, table = types.int64[::1], types.int64[:, ::1]
    signature = types.void(types.uint64, types.uint64, vector, table, vector)
    kernel = njit([signature], cache=True, nogil=True, error_model="numpy")(one_hot_rows)

    def run(classes: Array, num_classes: int) -> np.ndarray | None:
        if not classes.flags.carray:
            return None
        shape, count = classes.shape, classes.size
        y, errors = np.empty((count, num_classes), np.int64), np.zeros(1, np.int64)
        flat = classes if len(shape) == 1 else classes.reshape(-1)
        parallel_for(kernel, count, flat, y, errors, work=y.size)
        if errors[0]:
            return None
        return y if len(shape) == 1 else y.reshape(*shape, num_classes)

    return run
