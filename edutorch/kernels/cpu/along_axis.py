"""Kernels along an axis of contiguous arrays, which come by their addresses.

An array is (outer, n, inner) there: the axes before that one, the axis itself, those after it. For
a matrix of 32 x 32 most of the time of a call goes to Python and to numba: to reshape an array
takes 0.2 µs, and to look for the types of a kernel's arguments 0.3 µs and more. So a kernel gets
the addresses of the array objects (see `array_blocks.py`) and the three lengths, which are kept by
the shape and the axis, and it is called by its entry.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import carray, njit, types

from .array_blocks import DATA, layout_is_known, load
from .jit import UNSIGNED, pointer
from .parallel import entry_of

__all__ = ["AxisLayout", "array_at", "axis_layout", "compile_along_axis"]

Lengths = tuple[int, int, int]


class AxisLayout(NamedTuple):
    """Where an axis, or adjacent ones, are in a contiguous array.

    Attributes:
        lengths: outer, n and inner.
        reduced, kept: the shape of a reduction without the axis, and with a length of 1 for it.
    """

    lengths: Lengths
    reduced: tuple[int, ...]
    kept: tuple[int, ...]


@functools.lru_cache(1024)
def axis_layout(shape: tuple[int, ...], dim: int | tuple[int, ...] | None) -> AxisLayout | None:
    """Return the layout of an axis, of adjacent ones or of all (None); None: there is none.

    Args:
        dim: integers only; True would be taken for 1.
    """
    ndim = len(shape)
    if dim is None:
        return AxisLayout((1, math.prod(shape), 1), (), (1,) * ndim)
    axes = sorted(axis % ndim for axis in ((dim,) if isinstance(dim, int) else dim) if ndim)
    is_within = all(-ndim <= axis < ndim for axis in ((dim,) if isinstance(dim, int) else dim))
    if not axes or not is_within or axes != list(range(axes[0], axes[-1] + 1)):
        return None
    first, last = axes[0], axes[-1] + 1
    before, after = shape[:first], shape[last:]
    lengths = math.prod(before), math.prod(shape[first:last]), math.prod(after)
    return AxisLayout(lengths, before + after, before + (1,) * len(axes) + after)


def compile_along_axis(
    kernel: Callable[..., None], count: int, *further: Any
) -> dict[np.dtype[Any], Any]:
    """Compile `kernel(start, stop, like, addresses, lengths, …)`; return its entry for each dtype.

    There is none where the fields of arrays are elsewhere than expected.

    Args:
        kernel: gets as `like` a number of the dtype, by which it finds the type of the elements.
        count: the number of addresses.
        further: numba's types of its other arguments.
    """
    if not layout_is_known():
        return {}
    options: dict[str, Any] = {"fastmath": {"contract"}, "error_model": "numpy"}
    addresses, lengths = types.UniTuple(types.int64, count), types.UniTuple(types.int64, 3)
    entries = {}
    for dtype in (types.float32, types.float64):
        signature = types.void(UNSIGNED, UNSIGNED, dtype, addresses, lengths, *further)
        compiled = njit([signature], cache=True, nogil=True, **options)(kernel)
        entries[np.dtype(dtype.name)] = entry_of(compiled)
    return entries


@njit(forceinline=True)
def array_at(address, like, shape):
    """The memory of a contiguous array object, as an array of this shape."""
    return carray(pointer(load(address + DATA), like), shape)
