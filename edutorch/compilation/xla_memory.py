"""Memory that XLA and NumPy share: large results of a program are not copied.

JAX lends the memory of its arrays to NumPy for reading only, and slowly. `XlaMemory` shows it as
what it is: nothing else refers to the result of a call, so it may be written as any other memory.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.autograd.versions import VersionCounter
from ..core.tensor import Tensor
from ..fx import Node

__all__ = [
    "Reader", "XlaMemory", "is_alike", "is_true", "may_move", "memory_of", "value_of", "version_of",
]  # fmt: skip

LARGE = 2**14
"""Results of fewer bytes are copied: that is as fast."""


class XlaMemory:
    """The memory of an array of JAX, for as long as any array of NumPy shows it.

    Attributes:
        home: where the array of JAX goes afterwards, so that a next call writes into its memory.
    """

    __slots__ = ("__array_interface__", "home", "value")

    def __init__(self, value: Any, home: list[Any] | None) -> None:
        self.value, self.home = value, home
        self.__array_interface__ = {
            "version": 3,
            "shape": value.shape,
            "typestr": value.dtype.str,
            "data": (value.unsafe_buffer_pointer(), False),
        }

    def __del__(self) -> None:
        if self.home is not None and not self.home:
            self.home.append(self.value)


class Reader:
    """Reads the value of one output of a program: an array of JAX that has been computed.

    Attributes:
        is_large: its memory is shared instead of copied.
    """

    def __init__(self, node: Node, is_parallel: bool) -> None:
        shape, dtype = node.meta.get("shape"), node.meta.get("dtype")
        self.bytes: Any = None  # the type of its memory; None: JAX copies it
        self.is_large = False
        # NumPy has no bfloat16, and the parts of what is split are on several devices.
        if shape is None or dtype is None or dtype.kind not in "biufc" or is_parallel:
            return
        self.shape, self.dtype = tuple(shape), dtype
        count = math.prod(shape) * dtype.itemsize
        self.is_large = count >= LARGE
        self.bytes = ctypes.c_char * count if count else None

    def read(self, value: Any) -> np.ndarray:
        """Return the elements, as long as the array of JAX exists."""
        if self.bytes is None:
            return np.array(value)
        memory = self.bytes.from_address(value.unsafe_buffer_pointer())
        return np.ndarray(self.shape, self.dtype, memory)


def is_true(value: Any) -> bool:
    """Return a bool that has been computed."""
    return ctypes.c_bool.from_address(value.unsafe_buffer_pointer()).value


def is_alike(one: Node, other: Node) -> bool:
    """Whether the values of two nodes have the same shape and dtype."""
    return all(one.meta.get(key) == other.meta.get(key) for key in ("shape", "dtype"))


def memory_of(value: Any, home: list[Any] | None = None) -> np.ndarray:
    """Return the memory of an array of JAX that has been computed, as an array of NumPy."""
    return np.asarray(XlaMemory(value, home))


def value_of(array: np.ndarray) -> Any:
    """Return the array of JAX whose memory this is, all of it and in its order; None: no such."""
    owner = array.base
    if owner.__class__ is not XlaMemory:
        return None
    value = owner.value  # type: ignore[union-attr]
    is_whole = array.shape == value.shape and array.dtype == value.dtype
    return value if is_whole and array.flags.c_contiguous else None


def version_of(tensor: Tensor) -> int | None:
    """Return how often a tensor's memory was written; None: nobody counts that."""
    writes = tensor._writes
    if tensor._array.__class__ is not np.ndarray:  # NumPy may write into it, too
        return None
    if writes is None:
        return 0
    return writes.count if writes.__class__ is VersionCounter else None


OWN_REFERENCES = 3
"""The tensor's to its array, that of the list of inputs, and the argument of `getrefcount`."""


def may_move(tensor: Tensor | None, inputs: Sequence[Any], number: int) -> bool:
    """Whether an input may get other memory: no view, and nobody else, refers to its array."""
    if tensor is None or tensor._array is not inputs[number] or version_of(tensor) is None:
        return False
    owner = inputs[number].base
    is_own = owner is None or owner.__class__ is XlaMemory
    if not (is_own and is_plain(inputs[number])):
        return False
    return sys.getrefcount(inputs[number]) == OWN_REFERENCES


def is_plain(array: np.ndarray) -> bool:
    """Whether an array may be written, and its elements follow each other."""
    return array.flags.c_contiguous and array.flags.writeable
