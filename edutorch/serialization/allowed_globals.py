"""The globals that a pickle may refer to, and the functions that are called in their place.

Each function here builds data from untrusted arguments, or raises an error. None of them can be
made to call anything that the file chooses.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .. import dtypes
from ..backends.device import Device
from ..core.shapes import Size
from ..core.tensor import Tensor
from . import safe_classes
from .decode import SCALARS
from .safe_classes import CheckpointError


class RefusedGlobal:
    """Stands for an unknown class or function, and for every object that it would have made."""

    def __init__(self, name: str) -> None:
        self.name = name


class AllowedGlobal:
    """Stands for a class or function of PyTorch, NumPy or Python.

    Args:
        make: the function to call in its place.
        type: the type itself, where it may occur as a value (a defaultdict's factory).
    """

    def __init__(self, make: Callable[..., Any], type: type[Any] | None = None) -> None:
        self.make, self.type = make, type


class SafeGlobal:
    """A class or function that the user has added to the safe globals: called as in PyTorch."""

    def __init__(self, value: object) -> None:
        self.value: Any = value


def set_state(target: Any, state: object) -> None:
    """Set the state of an object of an allowed class."""
    own = getattr(type(target), "__setstate__", None)
    if own is not None:
        own(target, state)
        return
    parts = state if type(state) is tuple and len(state) == 2 else (state,)
    for part in parts:
        if not isinstance(part, dict | None):
            raise TypeError(f"the state of a {type(target).__name__} is not a dict")
        for name, value in (part or {}).items():
            object.__setattr__(target, name, value)


# Keys of dicts and members of sets ------------------------------------------------------------

HASHABLE_TYPES = (
    str, bytes, int, float, complex, bool, type(None), dtypes.dtype, Device, Tensor, RefusedGlobal,
)  # fmt: skip
MAX_KEY_PARTS = 1000


def check_key(key: object) -> Any:
    """Return a key of a dict or a member of a set, if it is certain to hash quickly.

    Shared nested tuples can be tiny in the file and yet take exponential time to hash.
    """
    waiting, count = [key], 0
    while waiting:
        value = waiting.pop()
        count += 1
        if isinstance(value, tuple | frozenset) and count < MAX_KEY_PARTS:
            waiting += value
        elif not isinstance(value, (*HASHABLE_TYPES, np.generic)) and not safe_classes.has_class(
            type(value)
        ):
            raise TypeError(f"a {type(value).__name__} is a key of a dict, or lies in a set")
    return key


# Python's containers ------------------------------------------------------------------------


def check_container(values: object = ()) -> Any:
    """Return `values` if a container may be filled from them."""
    if not isinstance(values, list | tuple | set | frozenset | deque):
        raise TypeError(f"a {type(values).__name__} is to fill a container")
    return values


def check_keys(values: object = ()) -> list[Any]:
    return [check_key(value) for value in check_container(values)]


def check_pairs(values: object) -> Iterable[tuple[Any, Any]]:
    """Return the items of a dict, or of a list of pairs."""
    if isinstance(values, dict):
        return values.items()
    items = [tuple(check_container(pair)) for pair in check_container(values)]
    return [(check_key(key), value) for key, value in items]


def make_default(factory: object = None, values: object = ()) -> Any:
    if factory is not None and (not isinstance(factory, AllowedGlobal) or factory.type is None):
        raise TypeError("the default of a defaultdict is not a type of data")
    result: Any = defaultdict(None if factory is None else factory.type)
    result.update(check_pairs(values))
    return result


def make_deque(values: object = (), maxlen: int | None = None) -> deque[Any]:
    return deque(check_container(values), maxlen)


def encode(text: object, encoding: object = "latin1") -> bytes:
    """Encode a string: protocol 2 has no other way to write bytes."""
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise TypeError("only texts are encoded, as latin1")
    return text.encode("latin1")


def make_bytes(*args: Any) -> bytes:
    """Make bytes from bytes, from a string and its encoding, or from nothing."""
    if args and type(args[0]) is str:
        return encode(*args)
    if len(args) > 1 or not all(isinstance(argument, bytes | bytearray) for argument in args):
        raise TypeError("bytes are not made of bytes")
    return bytes(*args)


def number_factory(number_type: type) -> Callable[..., Any]:
    """Return a function that makes this type from numbers only."""

    def make(*parts: Any) -> Any:
        if not all(type(part) in (bool, int, float, type(None)) for part in parts):
            raise TypeError(f"{number_type.__name__}: a number is not made of numbers")
        return number_type(*parts)

    return make


# Sizes and devices of PyTorch -----------------------------------------------------------------


def check_size(value: object, name: str) -> int:
    """Return a size, which must be a non-negative int.

    Raises: ValueError: it is something else.
    """
    if type(value) is not int or not 0 <= value < 2**62:
        raise ValueError(f"{name} is {value if type(value) is int else type(value).__name__}")
    return value


def make_size(sizes: object = ()) -> Size:
    return Size([check_size(size, "a size") for size in check_container(sizes)])


def make_device(device_type: object, index: object = None) -> Device:
    if type(device_type) is not str or not (index is None or type(index) is int):
        raise TypeError("a device is not a name and a number")
    return Device(device_type, index)


# NumPy ----------------------------------------------------------------------------------------

CODES = {dtype.str[1:]: dtype for dtype in SCALARS.values() if dtype.kind != "V"} | {
    "b1": np.dtype("?"), "?": np.dtype("?")
}  # fmt: skip


def make_dtype(code: object, align: object = False, copy: object = True) -> np.dtype:
    """Return the NumPy dtype of a code such as "f8". It is a new object: its state may be set."""
    if type(code) is not str or code.lstrip("<>=|") not in CODES:
        raise CheckpointError(
            "load", f"the file holds NumPy data of type {code[:20] if type(code) is str else '?'}",
            hint="only numbers are data: save texts as a list, and objects not at all",
        )  # fmt: skip
    return np.dtype(CODES[code.lstrip("<>=|")].str, copy=True)


def set_dtype_state(dtype: np.dtype, state: object) -> None:
    """Set the byte order: the only state that a numeric dtype has."""
    if type(state) is not tuple or len(state) < 2 or state[1] not in ("<", ">", "|", "="):
        raise ValueError("the state of a NumPy dtype")
    if any(field is not None for field in state[2:5]) or dtype.kind not in "biufc":
        raise ValueError("a NumPy dtype with fields")
    dtype.__setstate__((3, state[1], None, None, None, -1, -1, 0))  # type: ignore[attr-defined]


def make_scalar(dtype: object, data: object) -> Any:
    if not isinstance(dtype, np.dtype) or type(data) is not bytes or len(data) != dtype.itemsize:
        raise ValueError("a NumPy number whose bytes do not fit its type")
    return np.frombuffer(data, dtype)[0]


def make_array(array_type: object, shape: object = (0,), code: object = b"b") -> np.ndarray:
    """Return an empty array, whose state is set next."""
    if (
        shape != (0,)
        or not isinstance(array_type, AllowedGlobal)
        or array_type.type is not np.ndarray
    ):
        raise TypeError("an array that does not begin empty")
    return np.empty((0,), np.int8)


def set_array_state(array: np.ndarray, state: Any) -> None:
    """Set an array's dtype, shape and data, after checking that their sizes agree."""
    _, shape, dtype, fortran, data = state
    if type(data) is str:  # so Python 2 wrote bytes
        data = data.encode("latin1")
    check_array_data(shape, dtype, data)
    array.__setstate__((1, shape, dtype, bool(fortran), bytes(data)))  # type: ignore[arg-type]


def check_array_data(shape: object, dtype: object, data: object) -> None:
    sizes = [check_size(size, "an axis of an array") for size in check_container(shape)]
    if not isinstance(dtype, np.dtype) or not isinstance(data, bytes | bytearray):
        raise TypeError("an array of something other than numbers")
    if len(sizes) > 64 or math.prod(sizes) * dtype.itemsize != len(data):
        raise ValueError(f"{len(data)} bytes do not make an array {tuple(sizes)} of {dtype}")


def from_buffer(data: Any, dtype: Any, shape: Any, order: object = "C") -> np.ndarray:
    check_array_data(shape, dtype, data)
    return np.frombuffer(bytearray(data), dtype).reshape(shape, order="F" if order == "F" else "C")


# The table ----------------------------------------------------------------------------------


def refuse_call(*args: Any) -> Any:
    raise TypeError("a type is called that only stands for itself")


BUILTINS = {
    "set": AllowedGlobal(lambda values=(): set(check_keys(values)), set),
    "frozenset": AllowedGlobal(lambda values=(): frozenset(check_keys(values)), frozenset),
    "list": AllowedGlobal(lambda values=(): list(check_container(values)), list),
    "tuple": AllowedGlobal(lambda values=(): tuple(check_container(values)), tuple),
    "dict": AllowedGlobal(lambda values=(): dict(check_pairs(values)), dict),
    "bytearray": AllowedGlobal(lambda *args: bytearray(make_bytes(*args))),
    "bytes": AllowedGlobal(make_bytes),
    "complex": AllowedGlobal(number_factory(complex)),
    "int": AllowedGlobal(number_factory(int), int),
    "float": AllowedGlobal(number_factory(float), float),
    "bool": AllowedGlobal(number_factory(bool), bool),
    "str": AllowedGlobal(refuse_call, str),
    "slice": AllowedGlobal(number_factory(slice)),
    "range": AllowedGlobal(number_factory(range)),
}
BUILTINS |= {"xrange": BUILTINS["range"], "long": BUILTINS["int"], "unicode": BUILTINS["str"]}
ALLOWED_GLOBALS: dict[str, Any] = {
    **{f"builtins.{name}": builtin for name, builtin in BUILTINS.items()},
    **{f"__builtin__.{name}": builtin for name, builtin in BUILTINS.items()},
    "collections.OrderedDict": AllowedGlobal(
        lambda values=(): OrderedDict(check_pairs(values)), OrderedDict
    ),
    "collections.Counter": AllowedGlobal(
        lambda values=(): Counter(dict(check_pairs(values))), Counter
    ),
    "collections.defaultdict": AllowedGlobal(make_default),
    "collections.deque": AllowedGlobal(make_deque),
    "_codecs.encode": AllowedGlobal(encode),
    "torch.Size": AllowedGlobal(make_size),
    "torch.device": AllowedGlobal(make_device),
    "numpy.dtype": AllowedGlobal(make_dtype),
    "numpy.ndarray": AllowedGlobal(refuse_call, np.ndarray),
}
for _home in ("numpy.core", "numpy._core"):
    ALLOWED_GLOBALS[f"{_home}.multiarray.scalar"] = AllowedGlobal(make_scalar)
    ALLOWED_GLOBALS[f"{_home}.multiarray._reconstruct"] = AllowedGlobal(make_array)
    ALLOWED_GLOBALS[f"{_home}.numeric._frombuffer"] = AllowedGlobal(from_buffer)
for _dtype in (*dtypes.ALL, *dtypes.STORAGE):
    ALLOWED_GLOBALS[f"torch.{_dtype.name}"] = _dtype
