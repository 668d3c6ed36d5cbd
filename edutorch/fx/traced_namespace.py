"""The functions of NumPy on traced arrays: the `xp` of a capture, and what is known of each."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends.array_surface import NamespaceSurface
from .traced_array import TracedArray, TracedNumber, flatten_arrays

if TYPE_CHECKING:
    from .traced_backend import TracedBackend

__all__ = [
    "CREATION_FUNCTIONS", "DATA_DEPENDENT_SIZE", "NUMPY_TO_OP", "QUERY_FUNCTIONS",
    "WRITING_FUNCTIONS", "Function", "TracedFunction", "TracedNamespace",
]  # fmt: skip

Function = Callable[..., Any]
"""A function of NumPy, or one like it."""

NUMPY_TO_OP = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "negative": "neg",
    "sqrt": "sqrt", "exp": "exp", "log": "log", "tanh": "tanh", "absolute": "abs",
    "maximum": "maximum", "minimum": "minimum", "where": "where", "less": "lt",
    "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne",
}  # fmt: skip
"""NumPy functions, and the op whose forward is that function."""

QUERY_FUNCTIONS = {
    "shape", "ndim", "size", "result_type", "can_cast", "iscomplexobj", "isrealobj", "isscalar",
    "may_share_memory", "shares_memory", "promote_types", "dtype", "finfo", "iinfo", "errstate",
}  # fmt: skip
"""Functions whose result does not depend on values."""

CREATION_FUNCTIONS = {
    "empty", "zeros", "ones", "full", "arange", "eye", "identity", "linspace", "tri",
    "empty_like", "zeros_like", "ones_like", "indices", "tril_indices", "triu_indices",
}  # fmt: skip
"""Functions that create arrays from sizes and Python numbers."""

DATA_DEPENDENT_SIZE = {
    "nonzero", "argwhere", "flatnonzero", "unique", "unique_consecutive", "masked_select",
    "bincount", "repeat_interleave", "extract", "compress", "union1d", "intersect1d", "setdiff1d",
    "unique_values", "unique_counts", "histogram_bin_edges",
}  # fmt: skip
"""Ops and functions whose result has a shape that depends on values."""

WRITING_FUNCTIONS = {"copyto", "put", "place", "putmask", "put_along_axis", "fill_diagonal"}
"""Functions that write into their first argument."""


class TracedNamespace(NamespaceSurface):
    """The namespace `numpy`, or one of its submodules, on traced arrays."""

    def _member(self, name: str) -> Any:
        member = operator.attrgetter(name)(np)
        if callable(member) and not isinstance(member, type):
            return TracedFunction(self._owner, member)
        return member


class TracedFunction:
    """A NumPy function on traced arrays, with the methods of a ufunc."""

    def __init__(self, backend: TracedBackend, function: Function) -> None:
        self._backend, self._function = backend, function
        self.__name__ = getattr(function, "__name__", "function")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        backend, name = self._backend, self.__name__
        if name in ("asarray", "array", "ascontiguousarray", "asanyarray"):
            value, dtype = args[0], kwargs.get("dtype", args[1] if len(args) > 1 else None)
            if isinstance(value, TracedArray) and name != "ascontiguousarray":
                copied = value.copy() if name == "array" and kwargs.get("copy", True) else value
                return copied if dtype is None else copied.astype(dtype, copy=False)
            leaves = flatten_arrays(value)
            if not any(isinstance(leaf, TracedArray | TracedNumber) for leaf in leaves):
                made = backend.function(self._function)(value, *args[1:], **kwargs)
                return backend.lift_result(made)
        return backend.call(self._function, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return TracedFunction(self._backend, getattr(self._function, name))
