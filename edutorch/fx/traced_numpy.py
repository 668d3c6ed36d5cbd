"""The NumPy namespace for traced arrays: the `xp` of generic code during a capture."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from .array_utils import flatten_arrays
from .traced_array import TracedArray, TracedNumber

if TYPE_CHECKING:
    from .traced_backend import TracedBackend

__all__ = ["TracedModule"]


class TracedModule:
    """The namespace `numpy`, or one of its submodules, on traced arrays."""

    def __init__(self, backend: TracedBackend, prefix: str = "") -> None:
        self._backend, self._prefix = backend, prefix
        if not prefix:
            self.linalg = TracedModule(backend, "linalg.")
            self.fft = TracedModule(backend, "fft.")

    def __getattr__(self, name: str) -> Any:
        member = operator.attrgetter(self._prefix + name)(np)
        if callable(member) and not isinstance(member, type):
            member = TracedFunction(self._backend, member)
        setattr(self, name, member)
        return member


class TracedFunction:
    """A NumPy function on traced arrays, with the methods of a ufunc."""

    def __init__(self, backend: TracedBackend, function: Any) -> None:
        self._backend, self._function = backend, function
        self.__name__ = getattr(function, "__name__", "function")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        backend, name = self._backend, self.__name__
        if name in ("asarray", "array", "ascontiguousarray", "asanyarray"):
            value, dtype = args[0], kwargs.get("dtype", args[1] if len(args) > 1 else None)
            if isinstance(value, TracedArray) and name != "ascontiguousarray":
                copied = value.copy() if name == "array" and kwargs.get("copy", True) else value
                return copied if dtype is None else copied.astype(dtype, copy=False)
            if not isinstance(value, TracedArray):
                if any(
                    isinstance(leaf, TracedArray | TracedNumber) for leaf in flatten_arrays(value)
                ):
                    return backend.call(self._function, args, kwargs)
                return backend.lift_result(self._function(value, *args[1:], **kwargs))
        return backend.call(self._function, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return TracedFunction(self._backend, getattr(self._function, name))
