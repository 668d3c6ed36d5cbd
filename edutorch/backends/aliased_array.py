"""Classes of arrays whose memory is seen outside of any tensor (see `core/numpy_aliasing.py`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import CPU, register_type


class Shared(np.ndarray):
    """The memory of an array that somebody outside may hold; views of it are shared as well."""

    __slots__ = ()
    backend = CPU

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """Return what is computed from it as an ordinary array: that is new memory."""
        if array is self:
            return self
        plain = array.view(np.ndarray)
        return plain[()] if return_scalar else plain


class Exported(Shared):
    """The memory of an ordinary tensor while arrays from `.numpy()` show it."""

    __slots__ = ()


def as_plain_array(array: Any) -> Any:
    """Return a shared array as an ordinary one of the same memory; others as they are."""
    return array.view(np.ndarray) if isinstance(array, Shared) else array


def has_same_layout(array: np.ndarray, other: np.ndarray) -> bool:
    """Return True if two arrays show the same memory in the same way."""
    return (
        array.shape == other.shape
        and array.dtype == other.dtype
        and array.strides == other.strides
        and array.ctypes.data == other.ctypes.data
    )


def mark_shared(array: np.ndarray) -> np.ndarray:
    """Mark the memory of an array from outside."""
    return array if isinstance(array, Shared) else array.view(Shared)


register_type(Shared)
register_type(Exported)
