"""Decoding of the JSON tree and the arrays of our own files into objects, on the wanted device."""

from __future__ import annotations

import base64
import dataclasses
import enum
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from operator import index
from pathlib import Path
from typing import Any

import numpy as np

from .. import dtypes
from ..backends.device import Device
from ..core import return_types
from ..core.shapes import Size
from ..core.tensor import Tensor, wrap
from ..errors import ArgumentError, DeviceError, InvalidValueError, ShapeError
from ..nn.parameter import Buffer, Parameter
from ..ops import as_strided
from ..ops.random import Generator
from . import safe_classes
from .encode import FACTORIES
from .safe_classes import CheckpointError, RefusedError

MapLocation = (
    str
    | Device
    | Mapping[str, str | Device]
    | Callable[[Tensor, str], Tensor | Device | str | None]
) | None
"""The devices that tensors are loaded to: see `target_device`."""

SCALARS = {
    name: np.dtype(name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "complex64", "complex128",
    )
}  # fmt: skip
SCALARS["bfloat16"] = dtypes.bfloat16.numpy


class Decoder:
    """Decodes a tree and its arrays into the object."""

    def __init__(
        self, table: dict[str, Any], arrays: dict[str, np.ndarray], where: MapLocation
    ) -> None:
        self.table, self.arrays, self.where = table, arrays, where
        self._stored: dict[str, Tensor] = {}
        self._tensors: list[Tensor] = []
        self.readers: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
            "tensor": self.tensor,
            "sparse": self.sparse,
            "again": lambda number, tree: self._tensors[number],
            "dict": lambda items, tree: dict(self.decode_pairs(items)),
            "ordered": self.make_ordered_dict,
            "counter": lambda items, tree: Counter(dict(self.decode_pairs(items))),
            "default": self.make_defaultdict,
            "tuple": lambda items, tree: tuple(map(self.decode, items)),
            "set": lambda items, tree: set(map(self.decode, items)),
            "frozenset": lambda items, tree: frozenset(map(self.decode, items)),
            "deque": lambda items, tree: deque(map(self.decode, items), tree["maxlen"]),
            "numpy": lambda name, tree: self.arrays[name].copy(),
            "enum": lambda name, tree: find_class(name, enum.Enum)[tree["name"]],
            "record": lambda name, tree: self.record(name, tree),
            "dataclass": lambda name, tree: self.dataclass(name, tree),
            **SIMPLE_READERS,
        }

    def decode(self, tree: object) -> Any:
        """Return the object of `tree`."""
        if isinstance(tree, list):
            return [self.decode(item) for item in tree]
        if not isinstance(tree, dict):
            return tree
        tag, content = next(iter(tree.items()))
        reader = self.readers.get(tag)
        if reader is None:
            raise CheckpointError(
                "load", f"unknown kind of value {tag[:80]!r}",
                hint="it was written by a newer edutorch: pip install --upgrade edutorch",
            )  # fmt: skip
        return reader(content, tree)

    def decode_pairs(self, items: list[Any]) -> list[tuple[Any, Any]]:
        return [(self.decode(key), self.decode(value)) for key, value in items]

    def make_ordered_dict(self, items: list[Any], tree: dict[str, Any]) -> Any:
        result = OrderedDict(self.decode_pairs(items))
        if "metadata" in tree:
            result._metadata = self.decode(tree["metadata"])  # type: ignore[attr-defined]
        return result

    def make_defaultdict(self, items: list[Any], tree: dict[str, Any]) -> Any:
        factory = tree["factory"]
        result: Any = defaultdict(None if factory is None else FACTORIES[factory])
        result.update(self.decode_pairs(items))
        return result

    def record(self, name: str, tree: dict[str, Any]) -> Any:
        return find_class(name, tuple)._make(map(self.decode, tree["values"]))

    def dataclass(self, name: str, tree: dict[str, Any]) -> Any:
        """Make an instance of an allowed class: its fields are set, and no code of it runs."""
        cls = find_class(name, object)
        fields = self.decode(tree["fields"])
        known = {field.name for field in dataclasses.fields(cls)}
        if set(fields) != known:
            raise CheckpointError("load", f"{name} has other fields than when it was saved")
        instance = object.__new__(cls)
        for field, value in fields.items():
            object.__setattr__(instance, field, value)
        return instance

    def sparse(self, layout: str, tree: dict[str, Any]) -> Tensor:
        """Return a sparse tensor from its coordinates."""
        from ..ops.sparse.public import from_coordinates

        indices, values = self.decode(tree["indices"]), self.decode(tree["values"])
        size, is_coalesced = tree["size"], bool(tree["coalesced"])
        result = from_coordinates(indices, values, size, is_coalesced, layout)
        return result.requires_grad_(bool(tree["requires_grad"]))

    def tensor(self, name: str, tree: dict[str, Any]) -> Tensor:
        """Make a tensor; tensors of the same name share memory."""
        stored = self._stored.get(name)
        if stored is None:
            # Moved once, however many tensors lie in it: they share the memory on the device too.
            array = self.arrays[name]
            stored = move_to_location(wrap(array), self.table[name]["device"], self.where)
            self._stored[name] = stored
        result = make_view(stored, *tree["view"]) if "view" in tree else stored.detach()
        if "parameter" in tree:
            result = Parameter(result, bool(tree["parameter"]))
        elif "buffer" in tree:
            result = Buffer(result, persistent=bool(tree["buffer"]))
        elif tree.get("requires_grad"):
            result.requires_grad_()
        self._tensors.append(result)
        return result


# Devices ------------------------------------------------------------------------------------------


def target_device(tensor: Tensor, saved_from: str, where: MapLocation) -> Any:
    """Return the device that a tensor saved from `saved_from` goes to (or another tensor).

    Args:
        tensor: the loaded tensor, on the CPU.
        saved_from: the name of the device it was saved from.
        where: None, a device, a dict from names to devices, or a function of both.
    """
    if where is None:
        return saved_from
    if isinstance(where, Mapping):
        # Keys may be devices. "cuda" stands for every GPU that is not named by its index.
        names = {str(key): value for key, value in where.items()}
        return names.get(saved_from, names.get(saved_from.partition(":")[0], saved_from))
    if isinstance(where, str | Device):
        return where
    if callable(where):
        device = where(tensor, saved_from)
        return saved_from if device is None else device
    raise ArgumentError(
        "load", f"argument `map_location` cannot be a {type(where).__name__}",
        hint='use "cpu", a device, a dict such as {"cuda:0": "cpu"}, or a function',
    )  # fmt: skip


def move_to_location(tensor: Tensor, saved_from: str, where: MapLocation) -> Tensor:
    """Move a loaded tensor to its target device.

    Raises: DeviceError: the device is not available.
    """
    destination = target_device(tensor, saved_from, where)
    if isinstance(destination, Tensor):
        return destination
    try:
        return tensor.to(destination)
    except (RuntimeError, TypeError, ValueError) as error:
        raise DeviceError(
            "load",
            f"tensors of this checkpoint go to {str(destination)!r}, which cannot be used here",
            {"saved from": saved_from, "map_location": where},
            'load(path, map_location="cpu")',
        ) from error


# Values by their tags -----------------------------------------------------------------------------


def make_view(
    stored: Tensor, name: str, shape: list[int], strides: list[int], start: int
) -> Tensor:
    """Return a view of a stored tensor's memory; `as_strided` checks that it stays inside."""
    dtype = dtype_by_name(name)
    size = dtype.itemsize
    layout = [*shape, *strides, start]
    if any(type(number) is not int or not 0 <= number < 2**62 for number in layout) or any(
        count % size for count in (*strides, start)
    ):
        raise ValueError(f"a view of {shape} with steps of {strides} bytes from {start}")
    flat = stored.detach().reshape(-1)
    if flat.dtype is not dtype:
        flat = flat.view(dtype)
    try:
        return as_strided(flat, shape, [step // size for step in strides], start // size).detach()
    except ShapeError as error:
        raise ValueError(error.message) from error


def find_class(name: str, base: type) -> Any:
    """Return the class of this name that the user has allowed.

    Raises: RefusedError: there is none.
    """
    module, _, short = name.rpartition(".")
    cls = getattr(return_types, short, None) if module == return_types.PUBLIC_MODULE else None
    cls = cls or safe_classes.find_safe_global(name)
    if isinstance(cls, type) and issubclass(cls, base):
        return cls
    raise RefusedError(
        "load", f"the file holds an object of the class {name[:200]}, which nobody has allowed",
        hint="if it is yours: edutorch.serialization.add_safe_globals([TheClass]) before loading",
    )  # fmt: skip


def dtype_by_name(name: str) -> dtypes.dtype:
    dtype = {candidate.name: candidate for candidate in (*dtypes.ALL, *dtypes.STORAGE)}.get(name)
    if dtype is None:
        raise ValueError(f"there is no dtype {name!r}")
    return dtype


def decode_scalar(name: str, tree: dict[str, Any]) -> Any:
    data = bytes.fromhex(tree["hex"])
    dtype = SCALARS[name]
    if len(data) != dtype.itemsize:
        raise ValueError(f"{len(data)} bytes are not one {name}")
    return np.frombuffer(data, dtype)[0]


def decode_generator(state: str, tree: dict[str, Any]) -> Generator:
    # Before a state had 16 bytes, it was a text, and stands here as it was.
    data = state.encode() if state.startswith("{") else bytes.fromhex(state)
    try:
        return Generator(tree["device"]).set_state(wrap(np.frombuffer(data, np.uint8).copy()))
    except InvalidValueError as error:
        raise CheckpointError("load", f"the state of a generator is damaged: {error}") from error


def parse_hex_integer(text: str) -> int:
    return int(text, 16)


SIMPLE_READERS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "float": lambda text, tree: float(text),
    "integer": lambda text, tree: parse_hex_integer(text),
    "complex": lambda parts, tree: complex(float(parts[0]), float(parts[1])),
    "bytes": lambda text, tree: base64.b64decode(text, validate=True),
    "bytearray": lambda text, tree: bytearray(base64.b64decode(text, validate=True)),
    "size": lambda sizes, tree: Size(map(index, sizes)),
    "dtype": lambda name, tree: dtype_by_name(name),
    "device": lambda name, tree: Device(name),
    "path": lambda text, tree: Path(text),
    "range": lambda ends, tree: range(*ends),
    "slice": lambda ends, tree: slice(*ends),
    "scalar": decode_scalar,
    "generator": decode_generator,
}
