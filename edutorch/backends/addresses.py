"""The address of an array, in a tenth of the time that NumPy takes to say it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .platform import IS_WASM

__all__ = ["address_of"]


def describe_address(array: np.ndarray) -> int:
    """Return the address of an array's first element, in NumPy's own way."""
    return array.ctypes.data


def make_reader() -> Any:
    """Return a faster function, or NumPy's own way where the interpreter is another.

    The address is the first field of an array, in the binary interface that NumPy keeps stable for
    extensions. Reading it takes 0.1 µs; `array.ctypes` and `__array_interface__` take 1 µs, because
    they describe all of the array.
    """
    if sys.implementation.name != "cpython" or IS_WASM:
        return describe_address
    import ctypes

    word_at, header_bytes = ctypes.c_size_t.from_address, object.__basicsize__

    def read_address(array: np.ndarray) -> int:
        """Return the address of an array's first element."""
        return word_at(id(array) + header_bytes).value

    sample = np.arange(3)[1:]
    return read_address if read_address(sample) == describe_address(sample) else describe_address


address_of = make_reader()
