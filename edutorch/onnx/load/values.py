"""What entries of the table may ask about a value, be it a proxy or a tensor.

`torch` and `F` are the packages themselves, but their functions accept proxies, which become nodes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ...core.tensor import Tensor
from ...dtypes import STORAGE, dtype
from ...errors import NotHereError
from ...fx import Proxy
from ...fx.graph import PACKAGE
from ...fx.node import map_aggregate
from ...fx.proxy import TracerBase
from ...nn import functional

Value = Any
"""A tensor, or the proxy of one; a list of them for a sequence."""

Outputs = tuple[Any, ...]
"""What an entry returns that returns several values whatever is wanted."""

Ints = Any
Floats = Any
"""Inputs that are lists of numbers where the model has them as constants, else tensors."""


class Facts(NamedTuple):
    """What is known about a value before the model runs: None where it is not known."""

    dtype: dtype | None = None
    shape: tuple[int | str, ...] | None = None
    constant: np.ndarray | None = None


class NotKnownError(Exception):
    """An entry asked for something that is known only when the model runs."""


active_tracer: ContextVar[TracerBase | None] = ContextVar("active_tracer", default=None)
"""Records the calls of the entry that runs while a model is loaded; None when a model runs."""


class Recorder:
    """A package whose functions become nodes when they are called with proxies."""

    def __init__(self, find: Callable[[str], Any]) -> None:
        self._find = find

    def __getattr__(self, name: str) -> Any:
        value = self._find(name)
        if not callable(value) or isinstance(value, type | Recorder):
            return value
        return recording(value)


@cache
def recording(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that becomes a node when it is called with a proxy."""

    def call(*args: Any, **kwargs: Any) -> Any:
        proxies: list[Proxy] = []
        map_aggregate((args, kwargs), lambda x: proxies.append(x) if isinstance(x, Proxy) else None)
        tracer = proxies[0].tracer if proxies else active_tracer.get()
        if tracer is None:
            return function(*args, **kwargs)
        return tracer.create_proxy("call_function", function, args, kwargs)

    return call


F: Any = Recorder(lambda name: getattr(functional, name))
torch: Any = Recorder(lambda name: getattr(sys.modules[PACKAGE], name))


def facts(value: Value) -> Facts:
    """Return what is known about a value."""
    if isinstance(value, Proxy):
        return value.node.meta.get("onnx", Facts())
    if isinstance(value, Tensor):
        return Facts(value.dtype, tuple(value.shape))
    return Facts()


def dtype_of(value: Value) -> dtype:
    """Return the dtype of a value. Raises: NotKnownError."""
    known = facts(value).dtype
    if known is None:
        raise NotKnownError
    return known


def rank_of(value: Value) -> int:
    """Return the number of dimensions. Raises: NotKnownError."""
    shape = facts(value).shape
    if shape is None:
        raise NotKnownError
    return len(shape)


def sizes_of(value: Value) -> list[int]:
    """Return the sizes of a value, if none of them can vary. Raises: NotKnownError."""
    shape = facts(value).shape
    if shape is None or any(not isinstance(size, int) for size in shape):
        raise NotKnownError
    return [size for size in shape if isinstance(size, int)]


def is_float(value: Value) -> bool:
    """Return True for floating-point and complex dtypes. Raises: NotKnownError."""
    return dtype_of(value).category >= 2


def is_unsigned_storage(value: Value) -> bool:
    """Return True for uint16, uint32 and uint64, in which nothing is computed here."""
    known = dtype_of(value)
    return known in STORAGE and not known.is_floating_point


def ints(value: Ints) -> list[int]:
    """Return the integers in a list or a tensor. Raises: NotKnownError: for a proxy."""
    if isinstance(value, Proxy):
        raise NotKnownError
    if isinstance(value, Tensor):
        return [int(element) for element in value.flatten().tolist()]
    return [int(element) for element in value]


def floats(value: Floats) -> list[float]:
    """Return the floats in a list or a tensor. Raises: NotKnownError: for a proxy."""
    if isinstance(value, Proxy):
        raise NotKnownError
    return [
        float(element)
        for element in (value.flatten().tolist() if isinstance(value, Tensor) else value)
    ]


def number(value: Value) -> Any:
    """Return the only element of a value, as a Python number. Raises: NotKnownError."""
    if isinstance(value, Proxy):
        constant = facts(value).constant
        if constant is None or constant.size != 1:
            raise NotKnownError
        return constant.reshape(-1)[0].item()
    if isinstance(value, Tensor):
        return value.flatten()[0].item()
    return value[0] if isinstance(value, list) else value


def literal(value: Value) -> Any:
    """Return a Python number for a 0-d constant, which reads better; else the value itself."""
    constant = facts(value).constant
    is_number = constant is not None and constant.ndim == 0 and constant.dtype.kind in "fiub"
    if constant is None or not is_number:
        return value
    # The shortest decimal of a float32, 0.1, is a longer one as a Python number.
    return float(str(constant[()])) if constant.dtype == np.float32 else constant.item()


def refuse(message: str) -> NoReturn:
    """Raise NotHereError: the op has a setting without a counterpart here."""
    raise NotHereError(None, message)


def positive(axis: int, rank: int) -> int:
    """Return an axis counted from the front."""
    return axis + rank if axis < 0 else axis
