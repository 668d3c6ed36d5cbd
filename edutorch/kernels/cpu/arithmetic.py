"""Sums, differences, products and quotients of large arrays, by all threads.

NumPy computes them as fast as one core can; but the memory and the caches have more to give than
one core can take. Each thread has the same part of all arrays, so what it has just written is
still near when the next operation reads it. The results are NumPy's, to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import register_jitable

from .jit import FLOATS, NUMBER, ROW, alike, compiled, wide
from .parallel import in_parts
from .work_queue import share_out

Run = Callable[..., Any]

# `register_jitable` leaves them functions that every process knows by their name: with a compiled
# one in it, a kernel would be another in each process, and what is on the disk would not be found.


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
def over(a: Any, b: Any) -> Any:
    return a / b


def of_two(operation: Callable[..., Any], *usual: Any) -> Run:
    """Make z = x ∘ y, of arrays of one shape, or of an array and a number.

    Args:
        usual: what the op's settings are where that is all it does.
    """

    def pairs(start, stop, x, y, z):
        start, stop = share_out(start, stop)
        wide()
        for i in range(start, stop):
            z[i] = operation(x[i], y[i])

    def with_number(start, stop, x, number, z):
        start, stop = share_out(start, stop)
        wide()
        for i in range(start, stop):
            z[i] = operation(x[i], number)

    both, one = compiled(pairs, ROW, ROW, ROW), compiled(with_number, ROW, NUMBER, ROW)

    def run(x: Any, y: Any, *settings: Any) -> np.ndarray | None:
        if settings != usual or y.__class__ is not np.ndarray or x.dtype not in FLOATS:
            return None
        if x.shape == y.shape:
            if not alike((x, y)):
                return None
            z = np.empty_like(x)
            in_parts(both, z.size, x.reshape(-1), y.reshape(-1), z.reshape(-1))
            return z
        if y.ndim or y.dtype != x.dtype or not alike((x,)):
            return None
        z = np.empty_like(x)
        in_parts(one, z.size, x.reshape(-1), y[()], z.reshape(-1))
        return z

    return run


def add() -> Run:
    """Make the forward of `add`."""
    return of_two(plus, 1)


def add_onto() -> Run:
    """Make x += y."""

    def onto(start, stop, x, y):
        start, stop = share_out(start, stop)
        wide()
        for i in range(start, stop):
            x[i] += y[i]

    kernel = compiled(onto, ROW, ROW)

    def run(x: Any, y: Any) -> np.ndarray | None:
        if x.shape != y.shape or not alike((x, y)):
            return None
        in_parts(kernel, x.size, x.reshape(-1), y.reshape(-1))
        return x

    return run


def sub() -> Run:
    """Make the forward of `sub`."""
    return of_two(minus, 1)


def mul() -> Run:
    """Make the forward of `mul`."""
    return of_two(times)


def mul_input() -> Run:
    """Make g · b."""
    return of_two(times)


def mul_other() -> Run:
    """Make g · a."""
    return of_two(times)


def div() -> Run:
    """Make the forward of `div`."""
    return of_two(over, None)


def div_input() -> Run:
    """Make g / b."""
    return of_two(over, None)
