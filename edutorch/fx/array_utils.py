"""Conversions between traced arrays and the arrays that they hold, and memory layout of views."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.tensor import Tensor
from .traced_array import TracedArray, TracedNumber

__all__ = [
    "as_array",
    "to_held",
    "covers_whole",
    "flatten_arrays",
    "memory_layout",
    "same_view",
    "base_array",
]


def to_held(value: Any) -> Any:
    """Replace traced arrays by the NumPy arrays that they hold, at any depth."""
    if isinstance(value, Tensor):
        value = value._array
    if isinstance(value, TracedArray):
        return value.held
    if isinstance(value, TracedNumber):
        return value.value
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(map(to_held, value))
    if isinstance(value, list):
        return [to_held(item) for item in value]
    if isinstance(value, dict):
        return {key: to_held(item) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*map(to_held, (value.start, value.stop, value.step)))
    return value


def flatten_arrays(value: Any) -> list[Any]:
    """Flatten nested containers into a list, with arrays in place of tensors."""
    if isinstance(value, Tensor):
        return [value._array]
    if isinstance(value, tuple | list):
        return [part for item in value for part in flatten_arrays(item)]
    if isinstance(value, dict):
        return flatten_arrays(list(value.values()))
    if isinstance(value, slice):
        return flatten_arrays([value.start, value.stop, value.step])
    return [value]


def as_array(value: Any) -> Any:
    """Convert a NumPy scalar to a 0-d array; arrays are returned as they are."""
    return np.asarray(value) if isinstance(value, np.generic) else value


def base_array(array: Any) -> Any:
    """Return the array at the end of the chain of views."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def same_view(first: Any, second: Any) -> bool:
    """Return True if two arrays have the same memory, dtype, shape and strides."""
    return (
        first.shape == second.shape
        and first.dtype == second.dtype
        and first.strides == second.strides
        and first.ctypes.data == second.ctypes.data
    )


def memory_layout(whole: Any, part: Any) -> tuple[tuple[int, ...], int | None, Any]:
    """Return the memory order of the axes of `whole`, the byte offset of `part` in it, and `whole`.

    The offset is None if `whole` is not dense, or if `part` reaches outside of it.
    """
    order = tuple(sorted(range(whole.ndim), key=lambda axis: -whole.strides[axis]))
    offset = part.ctypes.data - whole.ctypes.data
    least = offset + sum(min(0, (n - 1) * s) for n, s in zip(part.shape, part.strides, strict=True))
    most = offset + part.itemsize
    most += sum(max(0, (n - 1) * s) for n, s in zip(part.shape, part.strides, strict=True))
    if not whole.transpose(order).flags.c_contiguous or least < 0 or most > whole.nbytes:
        return order, None, whole
    return order, offset, whole


def covers_whole(whole: Any, part: Any, offset: int) -> bool:
    """Return True if both cover all of the same memory contiguously."""
    return (
        offset == 0
        and part.size == whole.size
        and part.dtype == whole.dtype
        and part.flags.c_contiguous
        and whole.flags.c_contiguous
    )
