"""What the makers of kernels share: how a kernel is compiled, and which arrays it takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

__all__ = [
    "BLOCKS", "DOUBLES", "FLAG", "NUMBER", "ROW", "TABLE", "WHOLE", "alike", "compiled", "filled",
    "joined", "outside_in", "wide",
]  # fmt: skip

COUNT = types.uint64  # numba lets an index without a sign through as it is: see `compiled`


def ROW(number: Any) -> Any:
    """An array as one row of numbers."""
    return number[::1]


def NUMBER(number: Any) -> Any:
    """One number of the arrays' type."""
    return number


def TABLE(number: Any) -> Any:
    """An array as rows."""
    return number[:, ::1]


def BLOCKS(number: Any) -> Any:
    """An array as tables: what is outside an axis, the axis, and what is inside it."""
    return number[:, :, ::1]


def DOUBLES(number: Any) -> Any:
    """A table of float64, whatever the others are."""
    return types.float64[:, ::1]


def WHOLE(number: Any) -> Any:
    """A whole number, such as the length of a row."""
    return types.int64


def FLAG(number: Any) -> Any:
    """Yes or no."""
    return types.boolean


def compiled(kernel: Callable[..., None], *kinds: Callable[[Any], Any]) -> Any:
    """Compile `kernel(start, stop, …)` for float32 and for float64.

    `start` and `stop` have no sign, because Python's x[-1] costs a question for each x[i], and
    then no loop is computed several numbers at a time.

    Args:
        kinds: what each further argument is: ROW, TABLE, BLOCKS, DOUBLES, NUMBER, WHOLE, FLAG.
    """
    signatures = [
        types.void(COUNT, COUNT, *(kind(number) for kind in kinds))
        for number in (types.float32, types.float64)
    ]
    options: dict[str, Any] = {"fastmath": {"contract"}, "error_model": "numpy"}
    return njit(signatures, cache=True, nogil=True, **options)(kernel)


def widest(typing: Any) -> Any:
    """`wide()`, said at the head of a kernel: use the widest registers there are.

    LLVM avoids those of 512 bits, because the first processors that had them became slower by
    it. Polynomials gain a third from them.
    """

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        # llvmlite knows no attributes with a value; its set of them is an ordinary set below.
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), lower


wide: Any = intrinsic(widest)


FLOATS = {np.dtype("float32"), np.dtype("float64")}


def alike(arrays: Iterable[Any], kind: Any = None) -> bool:
    """Say whether all are NumPy's arrays of one type, float32 or float64, without gaps."""
    for array in arrays:
        if array.__class__ is not np.ndarray or not array.flags.c_contiguous:
            return False
        if kind is None:
            kind = array.dtype
        elif array.dtype != kind:
            return False
    return kind in FLOATS


def filled(g: Any, like: Any) -> Any:
    """Return a gradient in an array without gaps: that of a sum is one number for all."""
    if g.__class__ is np.ndarray and like.__class__ is np.ndarray and g.shape == like.shape:
        return np.ascontiguousarray(g)
    return None


def joined(x: Any) -> Any:
    """Return an array whose rows have gaps between them (a part of a wider one) without gaps."""
    if x.__class__ is not np.ndarray or x.flags.c_contiguous or x.ndim < 2:
        return x
    steps = x.strides
    in_order = steps[-1] == x.itemsize and all(a >= b for a, b in pairwise(steps))
    return np.ascontiguousarray(x) if in_order else x


def outside_in(shape: tuple[int, ...], dim: int) -> tuple[int, int, int]:
    """Return how many numbers there are outside an axis, along it and inside it."""
    dim %= len(shape)
    return math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
