"""A whole step of an optimizer in one pass over the numbers.

The definitions in `optim/` go through the memory once for each operation. Here all of them
are done to a number while it is at hand, in the same order and with the same roundings:
nothing is contracted or reordered, so the result is the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from .parts import in_parts

FLOATS = (types.float32, types.float64)


def compiled(function: Callable[..., None], arrays: int, numbers: int) -> Any:
    """Compile `function(start, stop, arrays…, numbers…)` for both kinds of numbers."""
    signatures = [
        types.void(types.int64, types.int64, *[each[::1]] * arrays, *[each] * numbers)
        for each in FLOATS
    ]
    return njit(signatures, cache=True, nogil=True, error_model="numpy")(function)


def flat(*arrays: np.ndarray) -> list[np.ndarray] | None:
    """Return arrays as rows of numbers that the kernel may change; None if they are not alike."""
    kind = arrays[0].dtype
    if kind not in (np.float32, np.float64):
        return None
    if any(each.dtype != kind or not each.flags.c_contiguous for each in arrays):
        return None
    return [each.reshape(-1) for each in arrays]


def adam() -> Callable[..., bool]:
    """Make the step of `optim.Adam` without `amsgrad`."""

    def step(start, stop, param, grad, m, v, decay, pull, one, beta2, other, eps, rate):  # noqa: ANN001
        for i in range(start, stop):
            p = param[i] * decay
            g = grad[i] + pull * p if pull != 0 else grad[i]
            m[i] += (g - m[i]) * one
            v[i] = v[i] * beta2 + g * g * other
            param[i] = p - m[i] / (np.sqrt(v[i]) + eps) * rate

    kernel = compiled(step, 4, 7)

    def run(param: Any, grad: Any, m: Any, v: Any, *numbers: float) -> bool:
        rows = flat(param, grad, m, v)
        if rows is None:
            return False
        in_parts(kernel, param.size, *rows, *map(param.dtype.type, numbers))
        return True

    return run


def sgd() -> Callable[..., bool]:
    """Make the step of `optim.SGD` from its second one on, when there is a momentum."""

    def step(start, stop, param, grad, held, pull, momentum, fresh, ahead, rate):  # noqa: ANN001
        for i in range(start, stop):
            g = grad[i] + pull * param[i] if pull != 0 else grad[i]
            held[i] = held[i] * momentum + g * fresh
            g = g + momentum * held[i] if ahead != 0 else held[i]
            param[i] = param[i] - g * rate

    kernel = compiled(step, 3, 5)

    def run(param: Any, grad: Any, held: Any, *numbers: float) -> bool:
        rows = flat(param, grad, held)
        if rows is None:
            return False
        in_parts(kernel, param.size, *rows, *map(param.dtype.type, numbers))
        return True

    return run
