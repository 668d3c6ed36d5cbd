"""Reads TorchScript archives, ours and PyTorch's, without running anything in them.

An archive is a zip file:

    model/code/__torch__/….py     the program: parsed by `ast`, checked by `resolution.py`
    model/data.pkl                the module: its attributes and submodules
    model/constants.pkl           tensors that the code calls CONSTANTS.c0, …
    model/data/0, constants/0     the elements of each tensor
    model/version, byteorder
    model/extra/…                 files that `save` was given as `_extra_files`

Pickles are run by the restricted unpickler of `serialization`, whose globals are the classes of the
program, and functions that build data.
"""

from __future__ import annotations

import io
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..errors import EdutorchError
from ..serialization import CheckpointError, RefusedError
from ..serialization.allowed_globals import AllowedGlobal, RefusedGlobal
from ..serialization.decode import MapLocation
from ..serialization.restricted_unpickler import RestrictedUnpickler
from ..serialization.tensors import Storage
from ..serialization.torch_file import ZipReader, find_allowed_global, refusal_error
from .errors import ArchiveError, Error
from .objects import ScriptObject, make_object, script_class_of
from .program import Program, ScriptClass, add_file
from .resolution import resolve_program
from .script_module import RecursiveScriptModule, make_module

MAX_CODE = 32 * 2**20
"""The largest size of all compressed files together: code is text, and is compressed."""

MAX_ENTRIES = 100_000


class ProgramUnpickler(RestrictedUnpickler):
    """Runs a pickle whose globals are also the classes of a program."""

    def build(self, arg: object) -> None:
        """Set the attributes of a module or an object of the program."""
        target = self.stack[-2]
        cls = script_class_of(target)
        if cls is None:
            super().build(arg)
            return
        state = self.stack.pop()
        if type(state) is not dict or not all(type(name) is str for name in state):
            raise TypeError(f"the state of a {cls.name} is not a dict of names")
        for name, value in state.items():
            if name not in cls.attributes:
                raise ValueError(f"{cls.name} declares no attribute {name[:80]!r}")
            set_attribute(target, cls, name, value)


def set_attribute(target: Any, cls: ScriptClass, name: str, value: Any) -> None:
    """Set an attribute of a module (parameter, buffer, submodule or value), or of an object."""
    if isinstance(target, RecursiveScriptModule):
        target.set_loaded(name, value)
    else:
        target.__dict__[name] = value


def checked_list(values: object, *others: object) -> list[Any]:
    """Return a list, as the pickle's `build_intlist` and its kin do."""
    if not isinstance(values, list):
        raise TypeError("a typed list is not made of a list")
    return values


BUILDERS = {
    f"torch.jit._pickle.{name}": AllowedGlobal(checked_list)
    for name in ("build_intlist", "build_tensorlist", "build_doublelist", "build_boollist")
} | {"torch.jit._pickle.restore_type_tag": AllowedGlobal(lambda value, tag: value)}


def class_global(cls: ScriptClass) -> AllowedGlobal:
    """Return what stands for a class of the program in a pickle."""
    if cls.base == "Module":
        return AllowedGlobal(lambda: make_module(cls))
    if cls.base == "NamedTuple":
        return AllowedGlobal(lambda *values: make_object(cls, values))
    return AllowedGlobal(lambda: ScriptObject(cls))


class ArchiveReader(ZipReader):
    """Reads one archive."""

    def __init__(self, data: bytes, name: str, where: MapLocation) -> None:
        super().__init__(data, name, where)
        self.program = Program()
        self.folder = "data"

    def read(self) -> Any:
        """Return the module of the archive."""
        self.entries = self.read_entries()
        roots = [name.removesuffix("data.pkl") for name in self.entries if is_data(name)]
        if len(roots) != 1 or f"{roots[0]}constants.pkl" not in self.entries:
            raise ArchiveError(
                "jit.load", f"{self.name} is no TorchScript archive",
                {"holds": ", ".join(sorted(self.entries)[:5])},
                "a checkpoint is read by torch.load, an ONNX file by edutorch.onnx.load",
            )  # fmt: skip
        self.root = roots[0]
        order = self.entries.get(f"{self.root}byteorder", sys.byteorder.encode()).strip()
        if order not in (b"little", b"big"):
            raise ValueError("its byteorder is neither little nor big")
        self.swapped = order != sys.byteorder.encode()
        self.read_code()
        resolve_program(self.program)
        self.folder = "data"
        self.storages = {}
        module = self.unpickle("data.pkl")
        if not isinstance(module, RecursiveScriptModule):
            raise ValueError(f"its data is a {type(module).__name__}, not a module")
        return module

    def read_code(self) -> None:
        """Parse the files of code, after the constants that they refer to."""
        prefix = f"{self.root}code/"
        for entry, content in sorted(self.entries.items()):
            if entry.startswith(prefix) and entry.endswith(".py"):
                add_file(self.program, entry.removeprefix(prefix), content.decode("utf-8"))
        self.folder = "constants"
        constants = self.unpickle("constants.pkl")
        if not isinstance(constants, tuple | list):
            raise ValueError("its constants are not a tuple")
        self.program.constants = tuple(constants)

    def unpickle(self, file: str) -> Any:
        """Return what one of the two pickles builds.

        Raises: RefusedError: it asks for something other than data and the program's classes.
        """
        program = io.BytesIO(self.entries[f"{self.root}{file}"])
        machine = ProgramUnpickler(self.find_global, self.resolve_storage, self.name)
        result = machine.run(program)
        if machine.refused:
            raise refusal_error(self.name, list(machine.refused))
        return result

    def find_global(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        if full in BUILDERS:
            return BUILDERS[full]
        if module == "__torch__" or module.startswith("__torch__."):
            cls = self.program.classes.get(full)
            return RefusedGlobal(full) if cls is None else class_global(cls)
        return find_allowed_global(module, name)

    def read_storage_bytes(self, key: str, size: int) -> np.ndarray:
        data = self.entries.get(f"{self.root}{self.folder}/{key}")
        if data is None:  # older archives keep all of them in one folder
            data = self.entries.get(f"{self.root}data/{key}")
        if data is None or len(data) != size:
            raise ValueError(f"storage {key[:80]!r} is missing, or not of {size} bytes")
        return np.frombuffer(data, np.uint8).copy()

    def read_entries(self) -> dict[str, bytes]:
        """Return the contents of all members, after verifying names, sizes and checksums."""
        contents: dict[str, bytes] = {}
        stored, compressed = len(self.data), MAX_CODE
        with zipfile.ZipFile(io.BytesIO(self.data)) as archive:
            entries = archive.infolist()
            if len(entries) > MAX_ENTRIES:
                raise ValueError(f"{len(entries)} members")
            for entry in entries:
                check_name(entry.filename)
                if entry.filename in contents:
                    raise ValueError(f"{entry.filename} occurs twice")
                if entry.compress_type == zipfile.ZIP_STORED:
                    stored -= entry.file_size
                else:
                    compressed -= entry.file_size
                if stored < 0 or compressed < 0 or entry.flag_bits & 0x41:
                    raise ValueError(f"{entry.filename} is encrypted, or larger than it may be")
                contents[entry.filename] = read_bounded(archive, entry)
        return contents


def is_data(name: str) -> bool:
    return name == "data.pkl" or (name.endswith("/data.pkl") and name.count("/") == 1)


def check_name(name: str) -> None:
    """Raise ValueError for a member outside of the archive's folder. Nothing is unpacked."""
    parts = name.replace("\\", "/").split("/")
    if ".." in parts or name.startswith("/") or "\\" in name or ":" in name:
        raise ValueError(f"the member {name[:80]!r} leaves its folder")


def read_bounded(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Return a member's content: as many bytes as its header says, and no more."""
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{entry.filename} has an unknown compression")
    with archive.open(entry) as file:
        content = file.read(entry.file_size + 1)
    if len(content) != entry.file_size:
        raise ValueError(f"{entry.filename} has another size than its header says")
    return content


def read_archive(data: bytes, name: str, where: MapLocation) -> ArchiveReader:
    """Return the reader of an archive, with its module as `reader.module`.

    Raises: ArchiveError: the archive is damaged, or more than ops on its own data.
    """
    reader = ArchiveReader(data, name, where)
    try:
        reader.module = reader.read()
    except ArchiveError:
        raise
    except RefusedError as error:
        raise ArchiveError("jit.load", error.message, error.arguments, TRUST_HINT) from error
    except (
        zipfile.BadZipFile, zlib.error, ArithmeticError, EOFError, LookupError, MemoryError,
        NotImplementedError, OSError, RuntimeError, ValueError, TypeError, struct.error,
        EdutorchError,
    ) as error:  # fmt: skip
        if isinstance(error, EdutorchError) and not isinstance(error, CheckpointError | Error):
            raise
        what = getattr(error, "message", None) or str(error)
        raise ArchiveError(
            "jit.load", f"{name} is damaged, or no TorchScript archive: {what}", hint=TRUST_HINT
        ) from error
    return reader


TRUST_HINT = "nothing in the file was executed; ask its author for a file that torch.jit.save wrote"
Unpickle = Callable[[str], Any]
Loaded = Tensor | Storage
