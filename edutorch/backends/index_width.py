"""NumPy where an index has 32 bits, as in WebAssembly: here it has 64, as on every other machine.

There NumPy counts and numbers in int32, and refuses int64 where it expects positions. Tensors of
indices are int64 everywhere, so these functions convert what they take and what they give.
"""

from __future__ import annotations

import functools
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

TAKES = {"bincount": 0, "choose": 0, "put": 1, "repeat": 1, "take": 1}
"""Functions with an argument of positions or counts, and where it stands."""

GIVES = (
    "arange", "argmax", "argmin", "argpartition", "argsort", "argwhere", "bincount",
    "count_nonzero", "digitize", "flatnonzero", "lexsort", "nonzero", "searchsorted",
    "tril_indices", "triu_indices",
)  # fmt: skip
"""Functions that return positions or counts."""


def numpy_with_64_bit_indices() -> ModuleType | Namespace:
    """Return NumPy, or where its indices have 32 bits, a namespace with its functions."""
    return np if np.intp().itemsize == 8 else convert_indices()


class Namespace(SimpleNamespace):
    """Functions, and NumPy's where there is none of a name: it imports `fft` at the first use."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def convert_indices() -> Namespace:
    """Return NumPy's functions, with indices of 64 bits."""
    changed = {name: taking(getattr(np, name), place) for name, place in TAKES.items()}
    for name in GIVES:
        changed[name] = giving(changed.get(name) or getattr(np, name))
    return Namespace(**vars(np) | changed)


def taking(function: Any, place: int) -> Any:
    """Return a function whose positions may have any type of integers."""

    @functools.wraps(function)
    def convert(*arguments: Any, **settings: Any) -> Any:
        positions = np.asarray(arguments[place])
        if positions.dtype.kind in "iu":
            positions = positions.astype(np.intp, copy=False)
        return function(*arguments[:place], positions, *arguments[place + 1 :], **settings)

    return convert


def giving(function: Any) -> Any:
    """Return a function that gives its positions as int64."""

    @functools.wraps(function)
    def convert(*arguments: Any, **settings: Any) -> Any:
        result = function(*arguments, **settings)
        if isinstance(result, tuple):
            return tuple(part.astype(np.int64) for part in result)
        if isinstance(result, int):
            return np.int64(result)
        is_index = isinstance(result, np.ndarray | np.integer) and result.dtype == np.intp
        return result.astype(np.int64) if is_index and "dtype" not in settings else result

    return convert
