"""Encoding of objects as a JSON tree and a table of arrays.

In the tree plain values and lists stand for themselves. Everything else is an object whose first
key is its tag: {"tensor": name}, {"dict": [[key, value], …]}, {"tuple": […]}. Tensors are stored
once all of them are known (`StorageTable`): those that share memory are stored together.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import math
import zlib
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from .. import backends, dtypes
from ..backends.device import Device
from ..core.shapes import Size
from ..core.storage import strided
from ..core.tensor import Tensor, wrap
from ..nn.parameter import Buffer, Parameter
from ..ops.random import Generator
from .safe_classes import unsavable_error

NUMPY_DTYPES = {
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
}  # fmt: skip


class PendingTensor(NamedTuple):
    """A tensor that is still to be stored: its array, and its range of addresses in the storage."""

    array: Any
    path: str
    tree: dict[str, Any]
    start: int
    end: int

    @property
    def layout(self) -> tuple[Any, ...]:
        """Start, dtype, shape and strides: equal for two tensors that are the same view."""
        return self.start, str(self.array.dtype), self.array.shape, self.array.strides


class StorageTable:
    """The arrays to be stored, by name, with a table of their dtypes, shapes and devices."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.table: dict[str, dict[str, Any]] = {}
        self._pending: defaultdict[Any, list[PendingTensor]] = defaultdict(list)

    def add_numpy(self, array: np.ndarray, path: str) -> str:
        """Store a NumPy array, and return its name.

        Raises: CheckpointError: its dtype is not numeric.
        """
        if array.dtype.name not in NUMPY_DTYPES:
            raise unsavable_error(array, path, f"its dtype is {array.dtype}; only numbers are data")
        return self.store(array.astype(array.dtype.newbyteorder("="), copy=False), path, "cpu")

    def add_tensor(self, tensor: Tensor, path: str, tree: dict[str, Any]) -> None:
        """Queue a tensor; `finish` writes the name that it is stored under into `tree`."""
        array = tensor._array
        backend = backends.of(array)
        if not backend.has_elements:
            raise unsavable_error(tensor, path, "a meta tensor has no elements to save")
        # safetensors knows no steps backwards: such a view is stored as a copy of its own.
        if not array.size or min(array.strides, default=0) < 0:
            tree["tensor"] = self.store(backend.to_numpy(array), path, backend.device_name)
            return
        storage_address, _ = backend.storage(array)
        start = backend.address(array) - storage_address
        steps = zip(array.shape, array.strides, strict=True)
        end = start + sum((n - 1) * step for n, step in steps) + array.dtype.itemsize
        self._pending[backend.device_name, storage_address].append(
            PendingTensor(array, path, tree, start, end)
        )

    def finish(self) -> None:
        """Store all queued tensors."""
        for (device, _), pending in self._pending.items():
            group: list[PendingTensor] = []
            end = 0
            for tensor in sorted(pending, key=lambda tensor: tensor.start):
                if group and tensor.start >= end:
                    self.store_together(group, device)
                    group = []
                group.append(tensor)
                end = max(end, tensor.end)
            self.store_together(group, device)
        self._pending.clear()

    def store_together(self, group: list[PendingTensor], device: str) -> None:
        """Store tensors that overlap in memory."""
        backend = backends.of(group[0].array)
        # A stride of 0: one element at many positions.
        stretched = any(0 in tensor.array.strides for tensor in group)
        if len({tensor.layout for tensor in group}) == 1 and not stretched:
            name = self.store(backend.to_numpy(group[0].array), group[0].path, device)
            for tensor in group:
                tensor.tree["tensor"] = name
            return
        start, end = group[0].start, max(tensor.end for tensor in group)
        whole = next((tensor for tensor in group if covers_range(tensor, start, end)), None)
        if whole is not None:
            name = self.store(backend.to_numpy(whole.array), whole.path, device)
        else:
            # No tensor is the whole range: the memory itself is stored, as bytes if they differ.
            memory = backend.to_numpy(backend.memory(group[0].array)[start:end])
            array_dtypes = {tensor.array.dtype for tensor in group}
            dtype = (
                array_dtypes.pop()
                if len(array_dtypes) == 1 and is_aligned(memory, group, start)
                else np.dtype("u1")
            )
            name = self.store(memory.view(dtype), f"{group[0].path}.storage", device)
        for tensor in group:
            tensor.tree["tensor"] = name
            if whole is None or tensor.layout != whole.layout:
                tensor.tree["view"] = [
                    dtypes.of(tensor.array.dtype).name, list(tensor.array.shape),
                    list(tensor.array.strides), tensor.start - start,
                ]  # fmt: skip

    def store(self, array: np.ndarray, path: str, device: str) -> str:
        """Add an array under an unused name, and return the name."""
        array = np.asarray(array).view(np.ndarray)
        array = np.ascontiguousarray(array).reshape(array.shape)
        # A name may hold a lone surrogate, which JSON in UTF-8 cannot.
        start = (path or "tensor").encode("utf-8", "replace").decode()
        name, suffix = start, 1
        while name in self.arrays or name == "__metadata__":
            name, suffix = f"{start}#{suffix}", suffix + 1
        stored = array
        if array.dtype == np.complex128:  # safetensors has no complex128: store (real, imag) pairs
            stored = array.reshape(-1).view(np.float64).reshape(*array.shape, 2)
        self.arrays[name] = stored
        self.table[name] = {
            "dtype": array.dtype.name, "shape": list(array.shape), "device": device,
            "crc32": zlib.crc32(byte_view(stored)),
        }  # fmt: skip
        return name


def covers_range(tensor: PendingTensor, start: int, end: int) -> bool:
    """Return True if a tensor covers a range of memory contiguously."""
    whole = (tensor.start, tensor.end) == (start, end) and tensor.array.nbytes == end - start
    return whole and bool(tensor.array.flags.c_contiguous)


def is_aligned(memory: np.ndarray, group: list[PendingTensor], start: int) -> bool:
    size = group[0].array.dtype.itemsize
    return memory.nbytes % size == 0 and all((tensor.start - start) % size == 0 for tensor in group)


def byte_view(array: np.ndarray) -> Any:
    """Return the bytes of a contiguous array, without copying them."""
    return array.reshape(-1).view(np.uint8)


MAX_DEPTH = 100  # levels of nesting; far below where Python itself gives up
MAX_INT_DIGITS = 4000  # Python refuses to convert longer ints to decimal text
FACTORIES = {cls.__name__: cls for cls in (dict, list, set, tuple, int, float, str, bool)}
FACTORIES |= {"OrderedDict": OrderedDict, "Counter": Counter}


class Encoder:
    """Encodes an object as a tree and arrays."""

    def __init__(self) -> None:
        self.arrays = StorageTable()
        # By id: a tensor that occurs again is a reference.
        self._tensor_indices: dict[int, int] = {}
        self._kept: list[tuple[Tensor, ...]] = []  # parts of sparse tensors: made here
        self._ancestors: list[int] = []  # ids of the containers around the current value

    def encode(self, value: object, path: str = "") -> Any:
        """Return the tree of `value`; `path` is its position in the root object.

        Raises: CheckpointError: it is not data, too deep, or contains itself.
        """
        if value is None or type(value) in (bool, str):
            return value
        if isinstance(value, enum.Enum):
            return {"enum": qualified_name(value), "name": value.name}
        if isinstance(value, Tensor):
            dense = value.layout is strided
            return self.encode_tensor(value, path) if dense else self.encode_sparse(value, path)
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
        if tensor.shape != tensor._array.shape:
            raise unsavable_error(
                tensor, path, "other ranks have the rest of it: use distributed.checkpoint.save, "
                "or save x.full_tensor()",
            )  # fmt: skip
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

    def encode_sparse(self, tensor: Any, path: str) -> dict[str, Any]:
        """Encode a sparse tensor by its coordinates: two tensors, and what it is."""
        parts = wrap(tensor.pattern.indices), tensor.entries.detach()
        self._kept.append(parts)  # so that their ids stay theirs
        return {
            "sparse": tensor.layout.name,
            "indices": self.encode(parts[0], f"{path}.indices"),
            "values": self.encode(parts[1], f"{path}.values"),
            "size": list(tensor.shape),
            "coalesced": tensor.pattern.is_coalesced,
            "requires_grad": tensor.requires_grad,
        }


def qualified_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def is_dataclass_instance(value: object) -> bool:
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


def encode_simple(value: object, path: str) -> Any:
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
        state = bytes(value.get_state().tolist()).hex()
        return {"generator": state, "device": str(value.device)}
    raise unsavable_error(value, path)
