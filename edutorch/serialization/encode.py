"""From objects to data: a tree of JSON and a table of arrays.

In the tree a plain value stands for itself, a list for a list, and an object whose first
key says what it is for all else: {"tensor": name}, {"dict": [[key, value], …]},
{"tuple": […]}. Tensors are stored once all of them are known (`storage_table.py`): those that
share memory are stored together.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np

from .. import dtypes
from ..backends.device import Device
from ..core.shapes import Size
from ..core.tensor import Tensor
from ..nn.parameter import Buffer, Parameter
from ..ops.random import Generator
from .errors import cannot_save
from .storage_table import Arrays

DEEPEST = 100  # levels of nesting; far below where Python itself gives up
LARGEST_TEXT = 4000  # digits of a number that Python still turns into text
FACTORIES = {kind.__name__: kind for kind in (dict, list, set, tuple, int, float, str, bool)}
FACTORIES |= {"OrderedDict": OrderedDict, "Counter": Counter}


class Packer:
    """Turns an object into a tree and arrays."""

    def __init__(self) -> None:
        self.arrays = Arrays()
        self._numbers: dict[int, int] = {}  # a tensor that occurs again is only mentioned
        self._open: list[int] = []  # the containers around the present value

    def pack(self, value: Any, path: str = "") -> Any:
        """Return the tree of `value`; `path` says where in the whole it is.

        Raises: CheckpointError: it is not data, too deep, or contains itself.
        """
        if value is None or type(value) in (bool, str):
            return value
        if isinstance(value, enum.Enum):
            return {"enum": full_name(value), "name": value.name}
        if isinstance(value, Tensor):
            return self.pack_tensor(value, path)
        if isinstance(value, np.ndarray):
            return {"numpy": self.arrays.add_numpy(value, path)}
        if isinstance(value, np.generic):
            return pack_scalar(value, path)
        if isinstance(value, Mapping | list | tuple | set | frozenset | deque) or is_record(value):
            return self.pack_inside(value, path)
        return pack_simple(value, path)

    def pack_inside(self, value: Any, path: str) -> Any:
        """Pack what contains other values."""
        if id(value) in self._open:
            raise cannot_save(value, path, "it contains itself: take the inner one out")
        if len(self._open) >= DEEPEST:
            raise cannot_save(value, path[:80], f"it is nested more than {DEEPEST} levels deep")
        self._open.append(id(value))
        try:
            if isinstance(value, Mapping):
                return self.pack_mapping(value, path)
            if dataclasses.is_dataclass(value):
                fields = {
                    field.name: getattr(value, field.name) for field in dataclasses.fields(value)
                }
                return {"dataclass": full_name(value), "fields": self.pack(fields, path)}
            return self.pack_sequence(value, path)
        finally:
            self._open.pop()

    def pack_mapping(self, value: Mapping[Any, Any], path: str) -> dict[str, Any]:
        items = []
        for key, each in value.items():
            inside = f"{path}.{key}" if path else str(key)
            items.append([self.pack(key, inside), self.pack(each, inside)])
        if isinstance(value, Counter):
            return {"counter": items}
        if isinstance(value, defaultdict):
            factory = value.default_factory
            name = None if factory is None else getattr(factory, "__name__", "")
            if name is not None and FACTORIES.get(name) is not factory:
                raise cannot_save(value, path, "its default_factory is a function: save dict(it)")
            return {"default": items, "factory": name}
        if not isinstance(value, OrderedDict):
            return {"dict": items}
        tree: dict[str, Any] = {"ordered": items}
        if "_metadata" in vars(value):  # versions of modules, beside a state_dict
            tree["metadata"] = self.pack(vars(value)["_metadata"], f"{path}._metadata")
        return tree

    def pack_sequence(self, value: Any, path: str) -> Any:
        if isinstance(value, Size):
            return {"size": [int(each) for each in value]}
        packed = [
            self.pack(each, f"{path}.{i}" if path else str(i)) for i, each in enumerate(value)
        ]
        if isinstance(value, list):
            return packed
        if isinstance(value, deque):
            return {"deque": packed, "maxlen": value.maxlen}
        if hasattr(value, "_fields"):
            return {"record": full_name(value), "values": packed}
        kinds = {tuple: "tuple", set: "set", frozenset: "frozenset"}
        return {next(name for kind, name in kinds.items() if isinstance(value, kind)): packed}

    def pack_tensor(self, tensor: Tensor, path: str) -> dict[str, Any]:
        number = self._numbers.get(id(tensor))
        if number is not None:
            return {"again": number}
        self._numbers[id(tensor)] = len(self._numbers)
        tree: dict[str, Any] = {"tensor": ""}
        if isinstance(tensor, Parameter):
            tree["parameter"] = tensor.requires_grad
        elif isinstance(tensor, Buffer):
            tree["buffer"] = tensor.persistent
        elif tensor.requires_grad:
            tree["requires_grad"] = True
        self.arrays.add_tensor(tensor, path, tree)
        return tree


def full_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def is_record(value: Any) -> bool:
    """Say whether it is an object of a dataclass (and not a module or the class itself)."""
    plain = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return plain and not hasattr(value, "state_dict")


def pack_scalar(value: np.generic, path: str) -> Any:
    """Pack a number of NumPy's."""
    if isinstance(value, np.str_ | np.bytes_):
        return pack_simple(value.item(), path)
    name = value.dtype.name
    if (value.dtype.kind not in "biufc" and name != "bfloat16") or value.dtype.itemsize > 16:
        raise cannot_save(value, path)
    return {"scalar": name, "hex": value.tobytes().hex()}


def pack_simple(value: Any, path: str) -> Any:
    """Pack what stands for itself."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool | int):
        value = int(value)
        short = value.bit_length() < LARGEST_TEXT * 3
        return value if short else {"integer": hex(value)}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, complex):
        return {"complex": [repr(value.real), repr(value.imag)]}
    if isinstance(value, bytes | bytearray):
        kind = "bytes" if isinstance(value, bytes) else "bytearray"
        return {kind: base64.b64encode(value).decode()}
    if isinstance(value, dtypes.dtype):
        return {"dtype": value.name}
    if isinstance(value, Device):
        return {"device": str(value)}
    if isinstance(value, PurePath):
        return {"path": str(value)}
    if isinstance(value, range | slice):
        return {type(value).__name__: [value.start, value.stop, value.step]}
    if isinstance(value, Generator):
        state = bytes(value.get_state().tolist()).decode()
        return {"generator": state, "device": str(value.device)}
    raise cannot_save(value, path)
