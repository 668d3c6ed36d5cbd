"""The arrays of a checkpoint: what shares memory is stored once, and shares it again.

Each tensor lies somewhere in a storage. Those that lie apart are stored each by itself.
Where several overlap (a tensor and its transpose, a table and one row of it), the one
that shows all of the common memory in its order is stored, or, if none does, the memory
itself; the others are noted as views: type, shape, steps and start, in bytes.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np

from .. import backends, dtypes
from ..core.tensor import Tensor
from .errors import cannot_save

NUMPY_KINDS = {
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
}  # fmt: skip


class Seen(NamedTuple):
    """A tensor that waits to be stored: its array, and where it begins and ends in memory."""

    array: Any
    path: str
    tree: dict[str, Any]
    start: int
    end: int

    @property
    def layout(self) -> tuple[Any, ...]:
        """What makes it the same view as another."""
        return self.start, str(self.array.dtype), self.array.shape, self.array.strides


class Arrays:
    """The arrays to be stored, by name, and a table of what each is."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.table: dict[str, dict[str, Any]] = {}
        self._waiting: defaultdict[Any, list[Seen]] = defaultdict(list)

    def add_numpy(self, array: np.ndarray, path: str) -> str:
        """Store an array of NumPy's, and return its name.

        Raises: CheckpointError: it holds something other than numbers.
        """
        if array.dtype.name not in NUMPY_KINDS:
            raise cannot_save(array, path, f"its dtype is {array.dtype}; only numbers are data")
        return self.store(array.astype(array.dtype.newbyteorder("="), copy=False), path, "cpu")

    def add_tensor(self, tensor: Tensor, path: str, tree: dict[str, Any]) -> None:
        """Note a tensor; `finish` writes the name it is stored under into `tree`."""
        array = tensor._array
        backend = backends.of(array)
        if not array.size or min(array.strides, default=0) < 0:
            tree["tensor"] = self.store(backend.to_numpy(array), path, backend.device_name)
            return
        place, _ = backend.storage(array)
        start = backend.address(array) - place
        steps = zip(array.shape, array.strides, strict=True)
        end = start + sum((n - 1) * step for n, step in steps) + array.dtype.itemsize
        self._waiting[backend.device_name, place].append(Seen(array, path, tree, start, end))

    def finish(self) -> None:
        """Store all tensors that wait."""
        for (device, _), seen in self._waiting.items():
            together: list[Seen] = []
            end = 0
            for each in sorted(seen, key=lambda each: each.start):
                if together and each.start >= end:
                    self.store_together(together, device)
                    together = []
                together.append(each)
                end = max(end, each.end)
            self.store_together(together, device)
        self._waiting.clear()

    def store_together(self, seen: list[Seen], device: str) -> None:
        """Store tensors that overlap in memory."""
        backend = backends.of(seen[0].array)
        stretched = any(0 in each.array.strides for each in seen)  # one number, many places
        if len({each.layout for each in seen}) == 1 and not stretched:
            name = self.store(backend.to_numpy(seen[0].array), seen[0].path, device)
            for each in seen:
                each.tree["tensor"] = name
            return
        start, end = seen[0].start, max(each.end for each in seen)
        whole = next((each for each in seen if shows_all(each, start, end)), None)
        if whole is not None:
            name = self.store(backend.to_numpy(whole.array), whole.path, device)
        else:
            memory = backend.to_numpy(backend.memory(seen[0].array)[start:end])
            kinds = {each.array.dtype for each in seen}
            kind = kinds.pop() if len(kinds) == 1 and fits(memory, seen, start) else np.dtype("u1")
            name = self.store(memory.view(kind), f"{seen[0].path}.storage", device)
        for each in seen:
            each.tree["tensor"] = name
            if whole is None or each.layout != whole.layout:
                each.tree["view"] = [
                    dtypes.of(each.array.dtype).name, list(each.array.shape),
                    list(each.array.strides), each.start - start,
                ]  # fmt: skip

    def store(self, array: np.ndarray, path: str, device: str) -> str:
        """Add an array under a name that is still free, and return the name."""
        array = np.asarray(array).view(np.ndarray)
        array = np.ascontiguousarray(array).reshape(array.shape)
        start = (path or "tensor").encode("utf-8", "replace").decode()
        name, number = start, 1
        while name in self.arrays or name == "__metadata__":
            name, number = f"{start}#{number}", number + 1
        stored = array
        if array.dtype == np.complex128:  # unknown to safetensors: pairs of numbers
            stored = array.reshape(-1).view(np.float64).reshape(*array.shape, 2)
        self.arrays[name] = stored
        self.table[name] = {
            "dtype": array.dtype.name, "shape": list(array.shape), "device": device,
            "crc32": zlib.crc32(memory_of(stored)),
        }  # fmt: skip
        return name


def shows_all(seen: Seen, start: int, end: int) -> bool:
    """Say whether a tensor shows a stretch of memory in its order."""
    whole = (seen.start, seen.end) == (start, end) and seen.array.nbytes == end - start
    return whole and bool(seen.array.flags.c_contiguous)


def fits(memory: np.ndarray, seen: list[Seen], start: int) -> bool:
    size = seen[0].array.dtype.itemsize
    return memory.nbytes % size == 0 and all((each.start - start) % size == 0 for each in seen)


def memory_of(array: np.ndarray) -> Any:
    """Return the bytes of an array without gaps, without copying them."""
    return array.reshape(-1).view(np.uint8)
