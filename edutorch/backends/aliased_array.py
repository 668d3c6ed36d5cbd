"""Classes of arrays whose memory other code shares (see `core/numpy_aliasing.py`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import CPU, register_type


class Shared(np.ndarray):
    """An array from outside, which other code may hold; views of it are shared as well."""

    __slots__ = ()
    backend = CPU

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """Return a result computed from it as an ordinary array: it has new memory."""
        if array is self:
            return self
        plain = array.view(np.ndarray)
        return plain[()] if return_scalar else plain


class Exported(Shared):
    """The memory of an ordinary tensor while arrays from `.numpy()` share it."""

    __slots__ = ()


def as_plain_array(array: Any) -> Any:
    """Return a shared array as an ordinary one of the same memory; others unchanged."""
    return array.view(np.ndarray) if isinstance(array, Shared) else array


def has_same_layout(array: np.ndarray, other: np.ndarray) -> bool:
    """Return True if two arrays have the same address, shape, strides and dtype."""
    return (
        array.shape == other.shape
        and array.dtype == other.dtype
        and array.strides == other.strides
        and array.ctypes.data == other.ctypes.data
    )


def mark_shared(array: np.ndarray) -> np.ndarray:
    """Return an array from outside as `Shared`."""
    return array if isinstance(array, Shared) else array.view(Shared)


register_type(Shared)
register_type(Exported)
