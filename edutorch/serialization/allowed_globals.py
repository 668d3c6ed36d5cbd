"""What a name in a pickle may stand for, and the functions that are called for it.

Each function here takes what a file says and makes data of it, or raises an error. None
of them can be made to call anything that the file chooses.
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
from . import safe_globals
from .decode import SCALARS
from .errors import CheckpointError


class Refused:
    """Stands for a class or function that is not known, and for all that it would have made."""

    def __init__(self, name: str) -> None:
        self.name = name


class Known:
    """Stands for a class or function of PyTorch's, NumPy's or Python's.

    Args:
        make: what is called in its place.
        kind: the type itself where it occurs as a value (a defaultdict's factory).
    """

    def __init__(self, make: Callable[..., Any], kind: Any = None) -> None:
        self.make, self.kind = make, kind


class ListedClass:
    """A class or function that the user has listed as safe: called as PyTorch would."""

    def __init__(self, value: Any) -> None:
        self.value = value


def set_state(target: Any, state: Any) -> None:
    """Give an object of a listed class its state."""
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


# Values that may be keys --------------------------------------------------------------------

SIMPLE = (
    str, bytes, int, float, complex, bool, type(None), dtypes.dtype, Device, Tensor, Refused,
)  # fmt: skip
MOST_IN_A_KEY = 1000


def checked_key(key: Any) -> Any:
    """Return a key of a dict or a member of a set, if hashing it is sure to be quick.

    A tuple of tuples that contain each other can be tiny and yet take forever to hash.
    """
    waiting, count = [key], 0
    while waiting:
        value = waiting.pop()
        count += 1
        if isinstance(value, tuple | frozenset) and count < MOST_IN_A_KEY:
            waiting += value
        elif not isinstance(value, (*SIMPLE, np.generic)) and not safe_globals.has_class(
            type(value)
        ):
            raise TypeError(f"a {type(value).__name__} is a key of a dict, or lies in a set")
    return key


# Python's containers ------------------------------------------------------------------------


def listed(values: Any = ()) -> Any:
    """Return values that may fill a container: a list or a tuple, or the keys of a dict."""
    if not isinstance(values, list | tuple | set | frozenset | deque):
        raise TypeError(f"a {type(values).__name__} is to fill a container")
    return values


def keys(values: Any = ()) -> list[Any]:
    return [checked_key(each) for each in listed(values)]


def pairs(values: Any) -> Iterable[tuple[Any, Any]]:
    """Return the items of a dict, or of a list of pairs."""
    if isinstance(values, dict):
        return values.items()
    found = [tuple(listed(each)) for each in listed(values)]
    return [(checked_key(key), value) for key, value in found]


def make_default(factory: Any = None, values: Any = ()) -> Any:
    if factory is not None and (not isinstance(factory, Known) or factory.kind is None):
        raise TypeError("the default of a defaultdict is not a type of data")
    made: Any = defaultdict(None if factory is None else factory.kind)
    made.update(pairs(values))
    return made


def make_deque(values: Any = (), maxlen: int | None = None) -> deque[Any]:
    return deque(listed(values), maxlen)


def encode(text: Any, encoding: Any = "latin1") -> bytes:
    """Make bytes of a text: protocol 2 has no other way to write them."""
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise TypeError("only texts are encoded, as latin1")
    return text.encode("latin1")


def make_bytes(*args: Any) -> bytes:
    """Make bytes of bytes, of a text and its encoding, or of nothing."""
    if args and type(args[0]) is str:
        return encode(*args)
    if len(args) > 1 or not all(isinstance(argument, bytes | bytearray) for argument in args):
        raise TypeError("bytes are not made of bytes")
    return bytes(*args)


def number(kind: type) -> Callable[..., Any]:
    """Return what makes a number of this type from numbers, and from nothing else."""

    def make(*parts: Any) -> Any:
        if not all(type(part) in (bool, int, float, type(None)) for part in parts):
            raise TypeError(f"{kind.__name__}: a number is not made of numbers")
        return kind(*parts)

    return make


# PyTorch's small values -----------------------------------------------------------------------


def whole(value: Any, name: str) -> int:
    """Return a size, which must be a number and not negative.

    Raises: ValueError: it is something else.
    """
    if type(value) is not int or not 0 <= value < 2**62:
        raise ValueError(f"{name} is {value if type(value) is int else type(value).__name__}")
    return value


def make_size(sizes: Any = ()) -> Size:
    return Size([whole(each, "a size") for each in listed(sizes)])


def make_device(kind: Any, index: Any = None) -> Device:
    if type(kind) is not str or not (index is None or type(index) is int):
        raise TypeError("a device is not a name and a number")
    return Device(kind, index)


# NumPy's ------------------------------------------------------------------------------------

CODES = {kind.str[1:]: kind for kind in SCALARS.values() if kind.kind != "V"} | {
    "b1": np.dtype("?"), "?": np.dtype("?")
}  # fmt: skip


def make_type(code: Any, align: Any = False, copy: Any = True) -> np.dtype:
    """Return NumPy's type of a code such as "f8". It is a new object: its state may be set."""
    if type(code) is not str or code.lstrip("<>=|") not in CODES:
        raise CheckpointError(
            "load", f"the file holds NumPy data of type {code[:20] if type(code) is str else '?'}",
            hint="only numbers are data: save texts as a list, and objects not at all",
        )  # fmt: skip
    return np.dtype(CODES[code.lstrip("<>=|")].str, copy=True)


def set_type(kind: np.dtype, state: Any) -> None:
    """Set the order of bytes: all that the state of a number's type can say."""
    if type(state) is not tuple or len(state) < 2 or state[1] not in ("<", ">", "|", "="):
        raise ValueError("the state of a NumPy dtype")
    if any(each is not None for each in state[2:5]) or kind.kind not in "biufc":
        raise ValueError("a NumPy dtype with fields")
    kind.__setstate__((3, state[1], None, None, None, -1, -1, 0))  # type: ignore[attr-defined]


def make_scalar(kind: Any, data: Any) -> Any:
    if not isinstance(kind, np.dtype) or type(data) is not bytes or len(data) != kind.itemsize:
        raise ValueError("a NumPy number whose bytes do not fit its type")
    return np.frombuffer(data, kind)[0]


def make_array(kind: Any, shape: Any = (0,), code: Any = b"b") -> np.ndarray:
    """Return an empty array, whose state is set next."""
    if shape != (0,) or not isinstance(kind, Known) or kind.kind is not np.ndarray:
        raise TypeError("an array that does not begin empty")
    return np.empty((0,), np.int8)


def set_array(array: np.ndarray, state: Any) -> None:
    """Give an array its type, shape and numbers, after comparing sizes."""
    _, shape, kind, fortran, data = state
    check_numbers(shape, kind, data)
    array.__setstate__((1, shape, kind, bool(fortran), bytes(data)))  # type: ignore[arg-type]


def check_numbers(shape: Any, kind: Any, data: Any) -> None:
    sizes = [whole(each, "an axis of an array") for each in listed(shape)]
    if not isinstance(kind, np.dtype) or not isinstance(data, bytes | bytearray):
        raise TypeError("an array of something other than numbers")
    if len(sizes) > 64 or math.prod(sizes) * kind.itemsize != len(data):
        raise ValueError(f"{len(data)} bytes do not make an array {tuple(sizes)} of {kind}")


def from_buffer(data: Any, kind: Any, shape: Any, order: Any = "C") -> np.ndarray:
    check_numbers(shape, kind, data)
    return np.frombuffer(bytearray(data), kind).reshape(shape, order="F" if order == "F" else "C")


# The table ----------------------------------------------------------------------------------


def refuse_call(*args: Any) -> Any:
    raise TypeError("a type is called that only stands for itself")


BUILTINS = {
    "set": Known(lambda values=(): set(keys(values)), set),
    "frozenset": Known(lambda values=(): frozenset(keys(values)), frozenset),
    "list": Known(lambda values=(): list(listed(values)), list),
    "tuple": Known(lambda values=(): tuple(listed(values)), tuple),
    "dict": Known(lambda values=(): dict(pairs(values)), dict),
    "bytearray": Known(lambda *args: bytearray(make_bytes(*args))), "bytes": Known(make_bytes),
    "complex": Known(number(complex)), "int": Known(number(int), int),
    "float": Known(number(float), float), "bool": Known(number(bool), bool),
    "str": Known(refuse_call, str),
    "slice": Known(number(slice)), "range": Known(number(range)),
}  # fmt: skip
BUILTINS |= {"xrange": BUILTINS["range"], "long": BUILTINS["int"], "unicode": BUILTINS["str"]}
KNOWN: dict[str, Any] = {
    **{f"builtins.{name}": builtin for name, builtin in BUILTINS.items()},
    **{f"__builtin__.{name}": builtin for name, builtin in BUILTINS.items()},
    "collections.OrderedDict": Known(lambda values=(): OrderedDict(pairs(values)), OrderedDict),
    "collections.Counter": Known(lambda values=(): Counter(dict(pairs(values))), Counter),
    "collections.defaultdict": Known(make_default),
    "collections.deque": Known(make_deque),
    "_codecs.encode": Known(encode),
    "torch.Size": Known(make_size), "torch.device": Known(make_device),
    "numpy.dtype": Known(make_type), "numpy.ndarray": Known(refuse_call, np.ndarray),
}  # fmt: skip
for _home in ("numpy.core", "numpy._core"):
    KNOWN[f"{_home}.multiarray.scalar"] = Known(make_scalar)
    KNOWN[f"{_home}.multiarray._reconstruct"] = Known(make_array)
    KNOWN[f"{_home}.numeric._frombuffer"] = Known(from_buffer)
for _kind in dtypes.ALL:
    KNOWN[f"torch.{_kind.name}"] = _kind
