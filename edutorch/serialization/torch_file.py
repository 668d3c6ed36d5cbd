"""PyTorch's own files, `.pt` and `.pth`: read, but never executed.

Since PyTorch 1.6 a file is a zip archive: `data.pkl` is a pickle, and each storage is a file
of its own beside it. Before that three small pickles, the data's pickle and a list of names
came one after another, then all storages. Zip archives have checksums, the older files have none:
there, a number that has changed goes unnoticed.

Neither PyTorch nor `pickle`'s own machine is needed; see `restricted_unpickler.py`.
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
from . import safe_globals
from .allowed_globals import KNOWN, ListedClass, Refused
from .errors import CheckpointError, RefusedError, damaged
from .restricted_unpickler import Interpreter
from .tensors import QUANTIZED, Storage, StorageKind

MAGIC = 0x1950A86A20F9469CFC6C
LEGACY_PROTOCOL = 1001


def find_data(module: str, name: str) -> Any:
    """Return what stands for a name in a pickle of data."""
    full = f"{module}.{name}"
    found = KNOWN.get(full)
    if found is not None:
        return found
    if module == "torch" and name.startswith("Q") and name.endswith("Storage"):
        QUANTIZED.make()
    if module == "torch" and re.fullmatch(r"(float|u?int|bits|complex|q)\w*", name):
        raise CheckpointError(
            "load", f"the file holds tensors of the type torch.{name}, which edutorch has not",
            hint="in PyTorch: save x.float() or x.to(torch.int64) instead",
        )  # fmt: skip
    listed = safe_globals.find(full)
    return Refused(full) if listed is None else ListedClass(listed)


def find_nothing_listed(module: str, name: str) -> Any:
    """Do what `find_data` does, without the user's classes."""
    found = find_data(module, name)
    return Refused(f"{module}.{name}") if isinstance(found, ListedClass) else found


def find_tensors(module: str, name: str) -> Any:
    """Return what stands for PyTorch's names; nothing that is not PyTorch's is made."""
    full = f"{module}.{name}"
    return KNOWN.get(full, Refused(full)) if module.startswith("torch") else Refused(full)


class Reader:
    """Reads one file.

    Args:
        data: all of its bytes.
        name: the file's, for errors.
        where: `map_location`.
        weights_only: make data only; otherwise also objects of any class that can be imported.
    """

    def __init__(self, data: bytes, name: str, where: Any, weights_only: bool = True) -> None:
        self.data, self.name, self.where = data, name, where
        self.weights_only = weights_only
        self.storages: dict[str, Storage] = {}
        self.swapped = False  # numbers are written in the other order of bytes

    def storage(self, reference: Any) -> Any:
        """Return the storage that a pickle refers to: ("storage", kind, key, location, size)."""
        if type(reference) is not tuple or not reference:
            raise TypeError("a reference to something outside that is not a storage")
        if reference[0] == "module" and len(reference) == 4:  # older files, beside the class's text
            return reference[1]
        if reference[0] != "storage" or len(reference) not in (5, 6):
            raise TypeError("a reference to something outside that is not a storage")
        _, kind, key, location, count = reference[:5]
        if isinstance(kind, Refused):
            return kind
        if not isinstance(kind, StorageKind) or type(key) is not str or type(location) is not str:
            raise TypeError("a reference to a storage without type, name or place")
        if type(count) is not int or not 0 <= count < 2**62:
            raise ValueError("a storage of an impossible size")
        size = count * (1 if kind.kind is None else kind.kind.itemsize)
        found = self.storages.get(key)
        if found is None:
            memory = self.memory(key, size)
            if self.swapped and kind.kind is not None:
                swap_bytes(memory, kind.kind)
            found = self.storages[key] = Storage(memory, kind.kind, location, self.where)
        elif found.memory.nbytes != size or found.kind is not kind.kind:
            raise ValueError(f"storage {key[:80]!r} has two sizes or types")
        if len(reference) == 6 and reference[5] is not None:
            raise ValueError("a view of a storage, as PyTorch 0.1 wrote it")
        return found

    def memory(self, key: str, size: int) -> np.ndarray:
        """Return the bytes of a storage."""
        raise NotImplementedError

    def run(self, program: io.BytesIO) -> Any:
        """Return what a pickle builds.

        Raises: RefusedError: it asks for more than data.
        """
        if self.weights_only:
            return run_as_data(program, find_data, self.storage, self.name)
        from .torch_objects import ObjectInterpreter

        return ObjectInterpreter(self.storage, self.name).run(program)

    def look_for_storages(self, program: io.BytesIO) -> None:
        """Run a pickle without making anything but its storages.

        Raises: RefusedError: it asks for more than data, and only data is wanted.
        """
        if self.weights_only:
            run_as_data(program, find_nothing_listed, self.storage, self.name)
        else:
            Interpreter(find_tensors, self.storage, self.name).run(program)


class ZipReader(Reader):
    """Reads a file of PyTorch 1.6 or newer."""

    def read(self) -> Any:
        self.entries = self.checked_entries()
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
            raise damaged(self.name, "its byteorder is neither little nor big")
        self.swapped = order != sys.byteorder.encode()
        return self.run(io.BytesIO(self.entries[pickles[0]]))

    def checked_entries(self) -> dict[str, bytes]:
        """Return the contents of the archive; all checksums and sizes agree.

        PyTorch never compresses. So the contents together are not larger than the file.
        """
        found: dict[str, bytes] = {}
        left = len(self.data)
        try:
            with zipfile.ZipFile(io.BytesIO(self.data)) as archive:
                for entry in archive.infolist():
                    if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 0x41:
                        raise ValueError(f"{entry.filename} is compressed or encrypted")
                    left -= entry.file_size
                    if entry.file_size != entry.compress_size or left < 0:
                        raise ValueError("its parts are larger than the file")
                    if entry.filename in found:
                        raise ValueError(f"{entry.filename} occurs twice")
                    found[entry.filename] = archive.read(entry)
        except (
            zipfile.BadZipFile, ArithmeticError, EOFError, LookupError, MemoryError,
            NotImplementedError, OSError, RuntimeError, ValueError, struct.error,
        ) as error:  # fmt: skip
            raise damaged(self.name, f"not a whole zip archive ({error})") from error
        return found

    def memory(self, key: str, size: int) -> np.ndarray:
        data = self.entries.get(f"{self.root}data/{key}")
        if data is None or len(data) != size:
            raise ValueError(f"storage {key[:80]!r} is missing, or not of {size} bytes")
        return np.frombuffer(data, np.uint8).copy()


class LegacyReader(Reader):
    """Reads a file of PyTorch before 1.6."""

    def read(self) -> Any:
        """Run the data's pickle twice: to learn how large the storages are, and to use them."""
        program = io.BytesIO(self.data)
        self.left, self.contents = len(self.data), {}
        head = [self.run(program) for _ in range(3)]
        if head[:2] != [MAGIC, LEGACY_PROTOCOL] or type(head[2]) is not dict:
            raise damaged(self.name, "its beginning is not one of PyTorch's")
        start, where = program.tell(), self.where
        self.where = "cpu"
        self.look_for_storages(program)
        sizes = dict(self.storages)
        self.swapped = head[2].get("little_endian", True) is not (sys.byteorder == "little")
        keys = self.run(program)
        if type(keys) is not list or not all(type(key) is str for key in keys):
            raise damaged(self.name, "its list of storages is none")
        if sorted(keys) != sorted(sizes):
            raise damaged(self.name, "its list of storages is not complete")
        for key in keys:
            self.contents[key] = self.numbers(sizes[key], program)
        if program.read(1):
            raise damaged(self.name, "something follows the last storage")
        self.where, self.storages = where, {}
        program.seek(start)
        return self.run(program)

    def numbers(self, storage: Storage, program: io.BytesIO) -> bytes:
        """Read the numbers of a storage: a count, and then the bytes."""
        size = 1 if storage.kind is None else storage.kind.itemsize
        big = self.swapped is (sys.byteorder == "little")
        count = int.from_bytes(program.read(8), "big" if big else "little")
        if count * size != storage.memory.nbytes:
            raise damaged(self.name, "a storage has another size than its tensors say")
        data = program.read(storage.memory.nbytes)
        if len(data) != storage.memory.nbytes:
            raise damaged(self.name, "it ends inside a storage")
        return data

    def memory(self, key: str, size: int) -> np.ndarray:
        """Return the bytes of a storage: zeros until they have been read."""
        if key in self.contents:
            return np.frombuffer(self.contents[key], np.uint8).copy()
        self.left -= size
        if self.left < 0:
            raise ValueError("its storages are larger than the file")
        return np.zeros(size, np.uint8)


def swap_bytes(memory: np.ndarray, kind: dtypes.dtype) -> None:
    """Turn the bytes of each number around, in place."""
    size = kind.itemsize // 2 if kind.is_complex else kind.itemsize
    rows = memory.reshape(-1, size)
    rows[:] = rows[:, ::-1].copy()


def run_as_data(
    program: io.BytesIO, find: Callable[[str, str], Any], persistent: Callable[[Any], Any],
    name: str,
) -> Any:  # fmt: skip
    """Return what a pickle builds, if that is data.

    Raises: RefusedError: it asks for more.
    """
    machine = Interpreter(find, persistent, name)
    result = machine.run(program)
    refused = [each for each in machine.refused if safe_globals.find(each) is None]
    if refused:
        raise refusal(name, refused)
    return result


def refusal(name: str, refused: list[str]) -> RefusedError:
    """Say which names a file asks for, and what to do."""
    if any(MODULE.match(each) for each in refused):
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
    shown = ", ".join(each[:100] for each in refused[:10]) + (", …" if len(refused) > 10 else "")
    return RefusedError("load", f"{name} was not loaded: {what}", {"refused": shown}, hint)


MODULE = re.compile(r"(edu)?torch\.nn\.modules\.")


def read(data: bytes, name: str, where: Any, weights_only: bool = True) -> Any:
    """Return what is in a file of PyTorch's.

    Raises: CheckpointError: damaged, or holding what edutorch has not.
        RefusedError: it names classes or functions that are not data, and only those are wanted.
    """
    reader = ZipReader if data[:2] == b"PK" else LegacyReader
    return reader(data, name, where, weights_only).read()
