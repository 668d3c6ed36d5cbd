"""The arrays of a checkpoint: shared memory is stored once, and is shared again after loading.

Each tensor covers a range of a storage. Tensors that do not overlap are stored separately. Where
several overlap (a tensor and its transpose, a matrix and one of its rows), the one that covers
the whole range contiguously is stored, or, if none does, the range itself; the others are stored
as views: dtype, shape, strides and offset, in bytes.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np

from .. import backends, dtypes
from ..core.tensor import Tensor
from .errors import unsavable_error

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
