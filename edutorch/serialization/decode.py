"""From data to objects: the tree and the arrays of our own files."""

from __future__ import annotations

import base64
import dataclasses
import enum
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from operator import index
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from .. import dtypes
from ..backends.device import Device
from ..core import return_types
from ..core.shapes import Size
from ..core.tensor import Tensor, wrap
from ..errors import ShapeError
from ..nn.parameter import Buffer, Parameter
from ..ops import as_strided
from ..ops.random import Generator
from . import safe_globals
from .encode import FACTORIES
from .errors import CheckpointError, RefusedError
from .map_location import placed

SCALARS = {
    name: np.dtype(name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "complex64", "complex128",
    )
}  # fmt: skip
SCALARS["bfloat16"] = np.dtype(ml_dtypes.bfloat16)


class Unpacker:
    """Turns a tree and its arrays back into the object."""

    def __init__(self, table: dict[str, Any], arrays: dict[str, np.ndarray], where: Any) -> None:
        self.table, self.arrays, self.where = table, arrays, where
        self._stored: dict[str, Tensor] = {}
        self._made: list[Tensor] = []
        self.readers: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
            "tensor": self.tensor,
            "again": lambda number, tree: self._made[number],
            "dict": lambda items, tree: dict(self.pairs(items)),
            "ordered": self.ordered,
            "counter": lambda items, tree: Counter(dict(self.pairs(items))),
            "default": self.with_default,
            "tuple": lambda items, tree: tuple(map(self.unpack, items)),
            "set": lambda items, tree: set(map(self.unpack, items)),
            "frozenset": lambda items, tree: frozenset(map(self.unpack, items)),
            "deque": lambda items, tree: deque(map(self.unpack, items), tree["maxlen"]),
            "numpy": lambda name, tree: self.arrays[name].copy(),
            "enum": lambda name, tree: found_class(name, enum.Enum)[tree["name"]],
            "record": lambda name, tree: self.record(name, tree),
            "dataclass": lambda name, tree: self.dataclass(name, tree),
            **PLAIN,
        }

    def unpack(self, tree: Any) -> Any:
        """Return the object of `tree`."""
        if isinstance(tree, list):
            return [self.unpack(each) for each in tree]
        if not isinstance(tree, dict):
            return tree
        kind, content = next(iter(tree.items()))
        reader = self.readers.get(kind)
        if reader is None:
            raise CheckpointError(
                "load", f"unknown kind of value {kind[:80]!r}",
                hint="it was written by a newer edutorch: pip install --upgrade edutorch",
            )  # fmt: skip
        return reader(content, tree)

    def pairs(self, items: list[Any]) -> list[tuple[Any, Any]]:
        return [(self.unpack(key), self.unpack(value)) for key, value in items]

    def ordered(self, items: list[Any], tree: dict[str, Any]) -> Any:
        made = OrderedDict(self.pairs(items))
        if "metadata" in tree:
            made._metadata = self.unpack(tree["metadata"])  # type: ignore[attr-defined]
        return made

    def with_default(self, items: list[Any], tree: dict[str, Any]) -> Any:
        factory = tree["factory"]
        made: Any = defaultdict(None if factory is None else FACTORIES[factory])
        made.update(self.pairs(items))
        return made

    def record(self, name: str, tree: dict[str, Any]) -> Any:
        return found_class(name, tuple)._make(map(self.unpack, tree["values"]))

    def dataclass(self, name: str, tree: dict[str, Any]) -> Any:
        """Make an object of a class the user has listed: its fields are filled, no code runs."""
        kind = found_class(name, object)
        fields = self.unpack(tree["fields"])
        known = {field.name for field in dataclasses.fields(kind)}
        if set(fields) != known:
            raise CheckpointError("load", f"{name} has other fields than when it was saved")
        made = object.__new__(kind)
        for field, value in fields.items():
            object.__setattr__(made, field, value)
        return made

    def tensor(self, name: str, tree: dict[str, Any]) -> Tensor:
        """Make a tensor; those of one name share its memory."""
        stored = self._stored.get(name)
        if stored is None:
            array = self.arrays[name]
            stored = placed(wrap(array), self.table[name]["device"], self.where)
            self._stored[name] = stored
        made = view_of(stored, *tree["view"]) if "view" in tree else stored.detach()
        if "parameter" in tree:
            made = Parameter(made, bool(tree["parameter"]))
        elif "buffer" in tree:
            made = Buffer(made, persistent=bool(tree["buffer"]))
        elif tree.get("requires_grad"):
            made.requires_grad_()
        self._made.append(made)
        return made


def view_of(stored: Tensor, name: str, shape: list[int], strides: list[int], start: int) -> Tensor:
    """Return a view of a stored tensor's memory; `as_strided` checks that it stays inside."""
    kind = named_type(name)
    size = kind.itemsize
    numbers = [*shape, *strides, start]
    if any(type(number) is not int or not 0 <= number < 2**62 for number in numbers) or any(
        each % size for each in (*strides, start)
    ):
        raise ValueError(f"a view of {shape} with steps of {strides} bytes from {start}")
    flat = stored.detach().reshape(-1)
    if flat.dtype is not kind:
        flat = flat.view(kind)
    try:
        return as_strided(flat, shape, [step // size for step in strides], start // size).detach()
    except ShapeError as error:
        raise ValueError(error.message) from error


def found_class(name: str, base: type) -> Any:
    """Return the class of this name that the user has listed.

    Raises: RefusedError: there is none.
    """
    module, _, short = name.rpartition(".")
    found = getattr(return_types, short, None) if module == return_types.PUBLIC_MODULE else None
    found = found or safe_globals.find(name)
    if isinstance(found, type) and issubclass(found, base):
        return found
    raise RefusedError(
        "load", f"the file holds an object of the class {name[:200]}, which nobody has allowed",
        hint="if it is yours: edutorch.serialization.add_safe_globals([TheClass]) before loading",
    )  # fmt: skip


def named_type(name: str) -> dtypes.dtype:
    found = {kind.name: kind for kind in dtypes.ALL}.get(name)
    if found is None:
        raise ValueError(f"there is no dtype {name!r}")
    return found


def scalar(name: str, tree: dict[str, Any]) -> Any:
    data = bytes.fromhex(tree["hex"])
    kind = SCALARS[name]
    if len(data) != kind.itemsize:
        raise ValueError(f"{len(data)} bytes are not one {name}")
    return np.frombuffer(data, kind)[0]


def generator(state: str, tree: dict[str, Any]) -> Generator:
    made = Generator(tree["device"])
    return made.set_state(wrap(np.frombuffer(state.encode(), np.uint8).copy()))


def whole_number(text: str) -> int:
    return int(text, 16)


PLAIN: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "float": lambda text, tree: float(text),
    "integer": lambda text, tree: whole_number(text),
    "complex": lambda parts, tree: complex(float(parts[0]), float(parts[1])),
    "bytes": lambda text, tree: base64.b64decode(text, validate=True),
    "bytearray": lambda text, tree: bytearray(base64.b64decode(text, validate=True)),
    "size": lambda sizes, tree: Size(map(index, sizes)),
    "dtype": lambda name, tree: named_type(name),
    "device": lambda name, tree: Device(name),
    "path": lambda text, tree: Path(text),
    "range": lambda ends, tree: range(*ends),
    "slice": lambda ends, tree: slice(*ends),
    "scalar": scalar,
    "generator": generator,
}
