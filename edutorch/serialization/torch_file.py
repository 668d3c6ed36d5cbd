"""PyTorch's own files, `.pt` and `.pth`: read, but never executed.

Since PyTorch 1.6 a file is a zip archive: `data.pkl` is a pickle, and each storage is a file
of its own beside it. Before that three small pickles, the data's pickle and a list of names
came one after another, then all storages. Zip archives have checksums, the older files have none:
there, a corrupted element goes unnoticed.

Neither PyTorch nor `pickle`'s own unpickler is needed; see `restricted_unpickler.py`.
"""

from __future__ import annotations

import io
import re
import struct
import sys
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes
from . import safe_classes
from .allowed_globals import ALLOWED_GLOBALS, RefusedGlobal, SafeGlobal
from .decode import MapLocation
from .restricted_unpickler import RestrictedUnpickler
from .safe_classes import CheckpointError, RefusedError, damaged_error
from .tensors import QUANTIZED, Storage, StorageClass

MAGIC = 0x1950A86A20F9469CFC6C
LEGACY_PROTOCOL = 1001


def find_global(module: str, name: str) -> Any:
    """Return what stands for a global in a pickle of data."""
    full = f"{module}.{name}"
    known = ALLOWED_GLOBALS.get(full)
    if known is not None:
        return known
    if module == "torch" and name.startswith("Q") and name.endswith("Storage"):
        QUANTIZED.make()
    if module == "torch" and re.fullmatch(r"(float|u?int|bits|complex|q)\w*", name):
        raise CheckpointError(
            "load", f"the file holds tensors of the type torch.{name}, which edutorch has not",
            hint="in PyTorch: save x.float() or x.to(torch.int64) instead",
        )  # fmt: skip
    listed = safe_classes.find_safe_global(full)
    return RefusedGlobal(full) if listed is None else SafeGlobal(listed)


def find_allowed_global(module: str, name: str) -> Any:
    """Return what stands for a global, without the user's classes."""
    value = find_global(module, name)
    return RefusedGlobal(f"{module}.{name}") if isinstance(value, SafeGlobal) else value


def find_torch_global(module: str, name: str) -> Any:
    """Return what stands for a global of PyTorch; everything else is refused."""
    full = f"{module}.{name}"
    return (
        ALLOWED_GLOBALS.get(full, RefusedGlobal(full))
        if module.startswith("torch")
        else RefusedGlobal(full)
    )


class Reader:
    """Reads one file.

    Args:
        data: all of its bytes.
        name: the file name, for errors.
        where: `map_location`.
        weights_only: build data only; otherwise also objects of any class that can be imported.
    """

    def __init__(
        self, data: bytes, name: str, where: MapLocation, weights_only: bool = True
    ) -> None:
        self.data, self.name, self.where = data, name, where
        self.weights_only = weights_only
        self.storages: dict[str, Storage] = {}
        self.swapped = False  # the file has the other byte order

    def resolve_storage(self, reference: object) -> Any:
        """Return the storage that a pickle refers to: ("storage", kind, key, location, size)."""
        if type(reference) is not tuple or not reference:
            raise TypeError("a reference to something outside that is not a storage")
        if reference[0] == "module" and len(reference) == 4:  # older files, beside the class's text
            return reference[1]
        if reference[0] != "storage" or len(reference) not in (5, 6):
            raise TypeError("a reference to something outside that is not a storage")
        _, storage_class, key, location, count = reference[:5]
        if isinstance(storage_class, RefusedGlobal):
            return storage_class
        if (
            not isinstance(storage_class, StorageClass)
            or type(key) is not str
            or type(location) is not str
        ):
            raise TypeError("a reference to a storage without type, name or place")
        if type(count) is not int or not 0 <= count < 2**62:
            raise ValueError("a storage of an impossible size")
        size = count * (1 if storage_class.dtype is None else storage_class.dtype.itemsize)
        stored = self.storages.get(key)
        if stored is None:
            memory = self.read_storage_bytes(key, size)
            if self.swapped and storage_class.dtype is not None:
                swap_bytes(memory, storage_class.dtype)
            stored = self.storages[key] = Storage(memory, storage_class.dtype, location, self.where)
        elif stored.memory.nbytes != size or stored.dtype is not storage_class.dtype:
            raise ValueError(f"storage {key[:80]!r} has two sizes or types")
        if len(reference) == 6 and reference[5] is not None:
            raise ValueError("a view of a storage, as PyTorch 0.1 wrote it")
        return stored

    def read_storage_bytes(self, key: str, size: int) -> np.ndarray:
        """Return the bytes of a storage."""
        raise NotImplementedError

    def run(self, program: io.BytesIO) -> Any:
        """Return what a pickle builds.

        Raises: RefusedError: it asks for more than data.
        """
        if self.weights_only:
            return run_as_data(program, find_global, self.resolve_storage, self.name)
        from .unpickle import TorchObjectUnpickler

        return TorchObjectUnpickler(self.resolve_storage, self.name).run(program)

    def collect_storages(self, program: io.BytesIO) -> None:
        """Run a pickle only to learn its storages.

        Raises: RefusedError: it asks for more than data, and only data is wanted.
        """
        if self.weights_only:
            run_as_data(program, find_allowed_global, self.resolve_storage, self.name)
        else:
            RestrictedUnpickler(find_torch_global, self.resolve_storage, self.name).run(program)


class ZipReader(Reader):
    """Reads a file of PyTorch 1.6 or newer."""

    def read(self) -> Any:
        self.entries = self.read_entries()
        pickles = [
            entry for entry in self.entries if entry.endswith("/data.pkl") or entry == "data.pkl"
        ]
        if any(entry.endswith("/constants.pkl") for entry in self.entries):
            raise CheckpointError(
                "load", f"{self.name} is a TorchScript program, not a checkpoint",
                hint="in PyTorch: torch.save(torch.jit.load(path).state_dict(), 'weights.pt')",
            )  # fmt: skip
        if len(pickles) != 1:
            raise CheckpointError(
                "load", f"{self.name} is a zip archive, but not one that PyTorch has written",
                {"holds": ", ".join(sorted(self.entries)[:5])},
                "NumPy's .npz files are read by numpy.load",
            )  # fmt: skip
        self.root = pickles[0].removesuffix("data.pkl")
        order = self.entries.get(f"{self.root}byteorder", sys.byteorder.encode())
        if order not in (b"little", b"big"):
            raise damaged_error(self.name, "its byteorder is neither little nor big")
        self.swapped = order != sys.byteorder.encode()
        return self.run(io.BytesIO(self.entries[pickles[0]]))

    def read_entries(self) -> dict[str, bytes]:
        """Return the contents of the archive, after verifying checksums and sizes.

        PyTorch never compresses, so the contents cannot be larger than the file (no zip bombs).
        """
        contents: dict[str, bytes] = {}
        left = len(self.data)
        try:
            with zipfile.ZipFile(io.BytesIO(self.data)) as archive:
                for entry in archive.infolist():
                    if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 0x41:
                        raise ValueError(f"{entry.filename} is compressed or encrypted")
                    left -= entry.file_size
                    if entry.file_size != entry.compress_size or left < 0:
                        raise ValueError("its parts are larger than the file")
                    if entry.filename in contents:
                        raise ValueError(f"{entry.filename} occurs twice")
                    contents[entry.filename] = archive.read(entry)
        except (
            zipfile.BadZipFile, ArithmeticError, EOFError, LookupError, MemoryError,
            NotImplementedError, OSError, RuntimeError, ValueError, struct.error,
        ) as error:  # fmt: skip
            raise damaged_error(self.name, f"not a whole zip archive ({error})") from error
        return contents

    def read_storage_bytes(self, key: str, size: int) -> np.ndarray:
        data = self.entries.get(f"{self.root}data/{key}")
        if data is None or len(data) != size:
            raise ValueError(f"storage {key[:80]!r} is missing, or not of {size} bytes")
        return np.frombuffer(data, np.uint8).copy()


class LegacyReader(Reader):
    """Reads a file of PyTorch before 1.6."""

    def read(self) -> Any:
        """Run the data's pickle twice: to learn the sizes of the storages, and to use them."""
        program = io.BytesIO(self.data)
        self.left, self.contents = len(self.data), {}
        head = [self.run(program) for _ in range(3)]
        if head[:2] != [MAGIC, LEGACY_PROTOCOL] or type(head[2]) is not dict:
            raise damaged_error(self.name, "its beginning is not one of PyTorch's")
        # The first run only learns the sizes: on the CPU, and what it builds is thrown away.
        start, where = program.tell(), self.where
        self.where = "cpu"
        self.collect_storages(program)
        sizes = dict(self.storages)
        self.swapped = head[2].get("little_endian", True) is not (sys.byteorder == "little")
        keys = self.run(program)
        if type(keys) is not list or not all(type(key) is str for key in keys):
            raise damaged_error(self.name, "its list of storages is none")
        if sorted(keys) != sorted(sizes):
            raise damaged_error(self.name, "its list of storages is not complete")
        for key in keys:
            self.contents[key] = self.read_storage(sizes[key], program)
        if program.read(1):
            raise damaged_error(self.name, "something follows the last storage")
        self.where, self.storages = where, {}
        program.seek(start)
        return self.run(program)

    def read_storage(self, storage: Storage, program: io.BytesIO) -> bytes:
        """Read a storage: a count of elements, and then the bytes."""
        size = 1 if storage.dtype is None else storage.dtype.itemsize
        big = self.swapped is (sys.byteorder == "little")
        count = int.from_bytes(program.read(8), "big" if big else "little")
        if count * size != storage.memory.nbytes:
            raise damaged_error(self.name, "a storage has another size than its tensors say")
        data = program.read(storage.memory.nbytes)
        if len(data) != storage.memory.nbytes:
            raise damaged_error(self.name, "it ends inside a storage")
        return data

    def read_storage_bytes(self, key: str, size: int) -> np.ndarray:
        """Return the bytes of a storage: zeros until they have been read."""
        if key in self.contents:
            return np.frombuffer(self.contents[key], np.uint8).copy()
        self.left -= size
        if self.left < 0:
            raise ValueError("its storages are larger than the file")
        return np.zeros(size, np.uint8)


def swap_bytes(memory: np.ndarray, dtype: dtypes.dtype) -> None:
    """Reverse the bytes of each element, in place."""
    size = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    rows = memory.reshape(-1, size)
    rows[:] = rows[:, ::-1].copy()


def run_as_data(
    program: io.BytesIO, find: Callable[[str, str], Any], persistent: Callable[[Any], Any],
    name: str,
) -> Any:  # fmt: skip
    """Return what a pickle builds, if that is data.

    Raises: RefusedError: it refers to classes or functions that are not allowed.
    """
    machine = RestrictedUnpickler(find, persistent, name)
    result = machine.run(program)
    refused = [
        global_name
        for global_name in machine.refused
        if safe_classes.find_safe_global(global_name) is None
    ]
    if refused:
        raise refusal_error(name, refused)
    return result


def refusal_error(name: str, refused: list[str]) -> RefusedError:
    """Return the error that lists the globals a file refers to, and what to do."""
    if any(MODULE.match(global_name) for global_name in refused):
        what = "a whole module was saved, which only its own code can make again"
        hint = (
            "save model.state_dict(), and load it into a new model with load_state_dict(); or "
            "load(path, weights_only=False), which can run any code in the file, if you trust it"
        )
    else:
        what = "it asks for classes or functions that may do anything"
        hint = (
            "save plain data; or, for a class of yours that may be trusted: "
            "edutorch.serialization.add_safe_globals([TheClass]); or load(path, "
            "weights_only=False), which can run any code in the file, if you trust it"
        )
    shown = ", ".join(global_name[:100] for global_name in refused[:10]) + (
        ", …" if len(refused) > 10 else ""
    )
    return RefusedError("load", f"{name} was not loaded: {what}", {"refused": shown}, hint)


MODULE = re.compile(r"(edu)?torch\.nn\.modules\.")


def read(data: bytes, name: str, where: MapLocation, weights_only: bool = True) -> Any:
    """Return the contents of a PyTorch file.

    Raises: CheckpointError: damaged, or holding what edutorch does not support.
        RefusedError: it names classes or functions that are not data, and only those are wanted.
    """
    reader = ZipReader if data[:2] == b"PK" else LegacyReader
    return reader(data, name, where, weights_only).read()
