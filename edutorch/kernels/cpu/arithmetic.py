"""Addition, subtraction, multiplication and division of large arrays, on all threads.

NumPy computes them as fast as one core can, but memory and caches have more bandwidth than one
core can use. Each thread has the same part of all arrays, so what it has written is still in its
cache when the next operation reads it. The results equal NumPy's, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import register_jitable

from .jit import ARRAY_1D, FLOATS, SCALAR, are_contiguous_floats, compile_kernel, use_wide_vectors
from .parallel import parallel_for
from .work_queue import claim_range

Run = Callable[..., Any]

# `register_jitable` leaves these as plain functions: a kernel's cache key contains the functions
# that it closes over, and a compiled one would have another key in each process.


@register_jitable
def plus(a: Any, b: Any) -> Any:
    return a + b


@register_jitable
def minus(a: Any, b: Any) -> Any:
    return a - b


@register_jitable
def times(a: Any, b: Any) -> Any:
    return a * b


@register_jitable
def divide(a: Any, b: Any) -> Any:
    return a / b


def binary_kernel(operation: Callable[..., Any], *default_settings: Any) -> Run:
    """Make z = x ∘ y, of two arrays of one shape, or of an array and a scalar.

    Args:
        default_settings: the op's settings under which it is just this operation.
    """

    def array_array(start, stop, x, y, z):
        start, stop = claim_range(start, stop)
        use_wide_vectors()
        for i in range(start, stop):
            z[i] = operation(x[i], y[i])

    def array_scalar(start, stop, x, scalar, z):
        start, stop = claim_range(start, stop)
        use_wide_vectors()
        for i in range(start, stop):
            z[i] = operation(x[i], scalar)

    array_kernel, scalar_kernel = (
        compile_kernel(array_array, ARRAY_1D, ARRAY_1D, ARRAY_1D),
        compile_kernel(array_scalar, ARRAY_1D, SCALAR, ARRAY_1D),
    )

    def run(x: Any, y: Any, *settings: Any) -> np.ndarray | None:
        if settings != default_settings or y.__class__ is not np.ndarray or x.dtype not in FLOATS:
            return None
        if x.shape == y.shape:
            if not are_contiguous_floats((x, y)):
                return None
            z = np.empty_like(x)
            parallel_for(array_kernel, z.size, x.reshape(-1), y.reshape(-1), z.reshape(-1))
            return z
        if y.ndim or y.dtype != x.dtype or not are_contiguous_floats((x,)):
            return None
        z = np.empty_like(x)
        parallel_for(scalar_kernel, z.size, x.reshape(-1), y[()], z.reshape(-1))
        return z

    return run


def add() -> Run:
    """Make the forward of `add`."""
    return binary_kernel(plus, 1)


def add_onto() -> Run:
    """Make x += y."""

    def add_in_place(start, stop, x, y):
        start, stop = claim_range(start, stop)
        use_wide_vectors()
        for i in range(start, stop):
            x[i] += y[i]

    kernel = compile_kernel(add_in_place, ARRAY_1D, ARRAY_1D)

    def run(x: Any, y: Any) -> np.ndarray | None:
        if x.shape != y.shape or not are_contiguous_floats((x, y)):
            return None
        parallel_for(kernel, x.size, x.reshape(-1), y.reshape(-1))
        return x

    return run


def sub() -> Run:
    """Make the forward of `sub`."""
    return binary_kernel(minus, 1)


def mul() -> Run:
    """Make the forward of `mul`."""
    return binary_kernel(times)


def mul_input() -> Run:
    """Make g · b."""
    return binary_kernel(times)


def mul_other() -> Run:
    """Make g · a."""
    return binary_kernel(times)


def div() -> Run:
    """Make the forward of `div`."""
    return binary_kernel(divide, None)


def div_input() -> Run:
    """Make g / b."""
    return binary_kernel(divide, None)
