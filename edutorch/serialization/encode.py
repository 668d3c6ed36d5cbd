"""Encoding of objects as a JSON tree and a table of arrays.

In the tree plain values and lists stand for themselves. Everything else is an object whose first
key is its tag: {"tensor": name}, {"dict": [[key, value], …]}, {"tuple": […]}. Tensors are stored
once all of them are known (`storage_table.py`): those that share memory are stored together.
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
from .errors import unsavable_error
from .storage_table import StorageTable

MAX_DEPTH = 100  # levels of nesting; far below where Python itself gives up
MAX_INT_DIGITS = 4000  # Python refuses to convert longer ints to decimal text
FACTORIES = {cls.__name__: cls for cls in (dict, list, set, tuple, int, float, str, bool)}
FACTORIES |= {"OrderedDict": OrderedDict, "Counter": Counter}


class Encoder:
    """Encodes an object as a tree and arrays."""

    def __init__(self) -> None:
        self.arrays = StorageTable()
        self._tensor_indices: dict[
            int, int
        ] = {}  # by id: a tensor that occurs again is a reference
        self._ancestors: list[int] = []  # ids of the containers around the current value

    def encode(self, value: Any, path: str = "") -> Any:
        """Return the tree of `value`; `path` is its position in the root object.

        Raises: CheckpointError: it is not data, too deep, or contains itself.
        """
        if value is None or type(value) in (bool, str):
            return value
        if isinstance(value, enum.Enum):
            return {"enum": qualified_name(value), "name": value.name}
        if isinstance(value, Tensor):
            return self.encode_tensor(value, path)
        if isinstance(value, np.ndarray):
            return {"numpy": self.arrays.add_numpy(value, path)}
        if isinstance(value, np.generic):
            return encode_scalar(value, path)
        if isinstance(
            value, Mapping | list | tuple | set | frozenset | deque
        ) or is_dataclass_instance(value):
            return self.encode_container(value, path)
        return encode_simple(value, path)

    def encode_container(self, value: Any, path: str) -> Any:
        """Encode a container."""
        if id(value) in self._ancestors:
            raise unsavable_error(value, path, "it contains itself: take the inner one out")
        if len(self._ancestors) >= MAX_DEPTH:
            raise unsavable_error(
                value, path[:80], f"it is nested more than {MAX_DEPTH} levels deep"
            )
        self._ancestors.append(id(value))
        try:
            if isinstance(value, Mapping):
                return self.encode_mapping(value, path)
            if dataclasses.is_dataclass(value):
                fields = {
                    field.name: getattr(value, field.name) for field in dataclasses.fields(value)
                }
                return {"dataclass": qualified_name(value), "fields": self.encode(fields, path)}
            return self.encode_sequence(value, path)
        finally:
            self._ancestors.pop()

    def encode_mapping(self, value: Mapping[Any, Any], path: str) -> dict[str, Any]:
        items = []
        for key, member in value.items():
            inside = f"{path}.{key}" if path else str(key)
            items.append([self.encode(key, inside), self.encode(member, inside)])
        if isinstance(value, Counter):
            return {"counter": items}
        if isinstance(value, defaultdict):
            factory = value.default_factory
            name = None if factory is None else getattr(factory, "__name__", "")
            if name is not None and FACTORIES.get(name) is not factory:
                raise unsavable_error(
                    value, path, "its default_factory is a function: save dict(it)"
                )
            return {"default": items, "factory": name}
        if not isinstance(value, OrderedDict):
            return {"dict": items}
        tree: dict[str, Any] = {"ordered": items}
        if "_metadata" in vars(value):  # versions of modules, beside a state_dict
            tree["metadata"] = self.encode(vars(value)["_metadata"], f"{path}._metadata")
        return tree

    def encode_sequence(self, value: Any, path: str) -> Any:
        if isinstance(value, Size):
            return {"size": [int(size) for size in value]}
        packed = [
            self.encode(member, f"{path}.{i}" if path else str(i)) for i, member in enumerate(value)
        ]
        if isinstance(value, list):
            return packed
        if isinstance(value, deque):
            return {"deque": packed, "maxlen": value.maxlen}
        if hasattr(value, "_fields"):
            return {"record": qualified_name(value), "values": packed}
        containers = {tuple: "tuple", set: "set", frozenset: "frozenset"}
        return {
            next(
                name for container, name in containers.items() if isinstance(value, container)
            ): packed
        }

    def encode_tensor(self, tensor: Tensor, path: str) -> dict[str, Any]:
        index = self._tensor_indices.get(id(tensor))
        if index is not None:
            return {"again": index}
        self._tensor_indices[id(tensor)] = len(self._tensor_indices)
        tree: dict[str, Any] = {"tensor": ""}
        if isinstance(tensor, Parameter):
            tree["parameter"] = tensor.requires_grad
        elif isinstance(tensor, Buffer):
            tree["buffer"] = tensor.persistent
        elif tensor.requires_grad:
            tree["requires_grad"] = True
        self.arrays.add_tensor(tensor, path, tree)
        return tree


def qualified_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def is_dataclass_instance(value: Any) -> bool:
    """Return True for an instance of a dataclass that is not a module."""
    plain = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return plain and not hasattr(value, "state_dict")


def encode_scalar(value: np.generic, path: str) -> Any:
    """Encode a NumPy scalar."""
    if isinstance(value, np.str_ | np.bytes_):
        return encode_simple(value.item(), path)
    name = value.dtype.name
    if (value.dtype.kind not in "biufc" and name != "bfloat16") or value.dtype.itemsize > 16:
        raise unsavable_error(value, path)
    return {"scalar": name, "hex": value.tobytes().hex()}


def encode_simple(value: Any, path: str) -> Any:
    """Encode a value that contains no other values."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool | int):
        value = int(value)
        short = value.bit_length() < MAX_INT_DIGITS * 3
        return value if short else {"integer": hex(value)}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, complex):
        return {"complex": [repr(value.real), repr(value.imag)]}
    if isinstance(value, bytes | bytearray):
        tag = "bytes" if isinstance(value, bytes) else "bytearray"
        return {tag: base64.b64encode(value).decode()}
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
    raise unsavable_error(value, path)
