"""Values as plain data: what a case and an answer consist of, as JSON and `.npy` bytes.

`encode` takes whatever the student's code returns. `decode` trusts nothing of it: it makes objects
of the types below, and of no other; nothing is unpickled, imported or evaluated. So an object that
lies about its equality, shape or type stays in the jail: out of it come numbers.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from ... import dtypes
from ...core.tensor import Tensor
from .frames import FrameError

MAX_DEPTH, MAX_ITEMS = 16, 10_000
MAX_TEXT = 100_000
MAX_INTEGER_DIGITS = 1_000
MAX_LENGTH = 1 << 28  # of an axis, also of an array without elements

DTYPES = {
    name: np.dtype(name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "complex64", "complex128",
    )
} | {dtype.name: dtype.numpy for dtype in dtypes.ALL}  # fmt: skip
"""The dtypes that cross the wall, by name. A `.npy` file knows no bfloat16: it goes as uint16."""


class Foreign:
    """Stands for an object of a type that does not cross the wall; it is equal to nothing."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return False

    def __repr__(self) -> str:  # without an address, which is another one in each run
        return f"<{type(self).__name__}>"


# To plain data ------------------------------------------------------------------------


class Encoder:
    """Encodes values into JSON; their arrays are collected in `blobs`."""

    def __init__(self) -> None:
        self.blobs: list[bytes] = []
        self.items = 0

    def encode(self, value: Any, depth: int = 0) -> Any:
        """Return a value as JSON. Subclasses are sent as what they derive from."""
        self.items += 1
        if depth > MAX_DEPTH or self.items > MAX_ITEMS:
            raise ValueError("the answer is nested too deeply, or has too many parts")
        if value is None or isinstance(value, bool):
            return value if value is None else bool(value)
        if isinstance(value, np.generic):
            return {"scalar": self.add_array(np.asarray(value)), "dtype": value.dtype.name}
        if isinstance(value, int | float | complex):
            return encode_number(value)
        if isinstance(value, str | bytes):
            return encode_text(value)
        if isinstance(value, Tensor):
            array = np.asarray(value.detach().numpy(force=True))
            return {"tensor": self.add_array(array), "dtype": array.dtype.name,
                    "requires_grad": bool(value.requires_grad)}  # fmt: skip
        if isinstance(value, np.ndarray):
            return {"array": self.add_array(value), "dtype": value.dtype.name}
        if isinstance(value, Mapping):
            pairs = [[self.encode(key, depth + 1), self.encode(item, depth + 1)]
                     for key, item in value.items()]  # fmt: skip
            return {"dict": pairs}
        if isinstance(value, tuple | list):
            name = "tuple" if isinstance(value, tuple) else "list"
            return {name: [self.encode(item, depth + 1) for item in value]}
        return {"foreign": type(value).__name__}

    def add_array(self, value: np.ndarray) -> int:
        """Append an array as `.npy` bytes, and return their number."""
        array = np.array(value, order="C", subok=False)
        if array.dtype.name not in DTYPES:
            raise ValueError(f"an array of dtype {array.dtype} cannot be sent")
        if array.dtype.name == "bfloat16":
            array = array.view(np.uint16)
        stream = io.BytesIO()
        np.lib.format.write_array(stream, array, version=(1, 0), allow_pickle=False)
        self.blobs.append(stream.getvalue())
        return len(self.blobs[-1])


def encode_number(value: complex) -> Any:
    if isinstance(value, int):
        return {"int": format(int(value), "x")}
    if isinstance(value, float):
        return {"float": float(value).hex()}
    return {"complex": [value.real.hex(), value.imag.hex()]}


def encode_text(value: str | bytes) -> Any:
    if isinstance(value, bytes):
        return {"bytes": bytes(value).hex()}
    return {"text": clean_text(str(value), MAX_TEXT)}


# From plain data ----------------------------------------------------------------------


class Decoder:
    """Makes values of a frame from a jail.

    Raises FrameError: at anything that `Encoder` would not have written.
    """

    def __init__(self, body: bytes) -> None:
        self.body, self.start, self.items = body, 0, 0

    def decode(self, data: Any, depth: int = 0) -> Any:
        self.items += 1
        if depth > MAX_DEPTH or self.items > MAX_ITEMS:
            raise FrameError("a value is nested too deeply, or has too many parts")
        if data is None or isinstance(data, bool):
            return data
        if not isinstance(data, dict) or not data:
            raise FrameError("a value is of no known type")
        tag, content = next(iter(data.items()))
        if tag in ("tensor", "array", "scalar"):
            return self.decode_array(tag, content, data)
        if tag in ("tuple", "list", "dict"):
            return self.decode_items(tag, content, depth + 1)
        if not isinstance(content, str | list):
            raise FrameError("a value is of no known type")
        try:
            return decode_scalar(tag, content)
        except (ValueError, TypeError, OverflowError):
            raise FrameError(f"a value is no {tag[:20]}") from None

    def decode_items(self, tag: str, content: Any, depth: int) -> Any:
        if not isinstance(content, list):
            raise FrameError(f"a {tag} has no items")
        if tag != "dict":
            items = [self.decode(item, depth) for item in content]
            return tuple(items) if tag == "tuple" else items
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in content):
            raise FrameError("a dict consists of pairs")
        try:
            return {self.decode(key, depth): self.decode(item, depth) for key, item in content}
        except TypeError:
            raise FrameError("a key cannot be hashed") from None

    def decode_array(self, tag: str, size: Any, data: Mapping[str, Any]) -> Any:
        array = read_npy(self.take(size), DTYPES.get(str(data.get("dtype"))))
        if tag == "scalar":
            if array.ndim:
                raise FrameError("a number has no axes")
            return array[()]
        if tag == "array":
            return array
        tensor = as_tensor(array)
        if data.get("requires_grad") is True and array.dtype.kind in "fcV":
            tensor.requires_grad_()
        return tensor

    def take(self, size: Any) -> bytes:
        """Return the next bytes of the body."""
        if type(size) is not int or not 0 <= size <= len(self.body) - self.start:
            raise FrameError("an array is longer than the frame")
        self.start += size
        return self.body[self.start - size : self.start]


def decode_scalar(tag: str, content: Any) -> Any:
    if tag == "int" and len(content) <= MAX_INTEGER_DIGITS:
        return int(content, 16)
    if tag == "float":
        return float.fromhex(content)
    if tag == "complex" and len(content) == 2:
        return complex(*map(float.fromhex, content))
    if tag == "text":
        return clean_text(content, MAX_TEXT)
    if tag == "bytes":
        return bytes.fromhex(content)
    if tag == "foreign":
        name = "".join(letter for letter in clean_text(content, 60) if letter.isidentifier())
        return type(name or "object", (Foreign,), {})()
    raise ValueError(tag)


def as_tensor(array: np.ndarray) -> Tensor:
    import edutorch

    return edutorch.from_numpy(array)


def read_npy(data: bytes, dtype: np.dtype | None) -> np.ndarray:
    """Return the array of `.npy` bytes, whose header is checked against their length first."""
    if dtype is None:
        raise FrameError("an array is of no known dtype")
    stored = np.dtype(np.uint16) if dtype.name == "bfloat16" else dtype
    stream = io.BytesIO(data)
    try:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise FrameError("an array is not in the .npy format 1.0")
        shape, fortran, claimed = np.lib.format.read_array_header_1_0(stream, max_header_size=500)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise FrameError("an array has no .npy header") from None
    if claimed != stored or fortran or len(shape) > 32:
        raise FrameError("an array is not what its frame says")
    size = stored.itemsize
    for length in shape:  # Python's integers: they do not overflow
        if length < 0:
            raise FrameError("an array has a negative length")
        size *= length
    content = data[stream.tell() :]
    if size != len(content) or max(shape, default=0) > MAX_LENGTH:
        raise FrameError(f"an array of shape {shape} does not have {len(content)} bytes")
    return np.ndarray(shape, dtype, bytearray(content) or None)


def clean_text(text: Any, limit: int) -> str:
    """Return text that can be printed and saved: no control characters, and not too long."""
    if not isinstance(text, str):
        raise FrameError("a text is none")
    text = text[:limit]
    if text.isprintable():  # nearly all are, and a lone surrogate is not
        return text
    text = text.encode("utf-8", "replace").decode()
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for letter in text
    )
