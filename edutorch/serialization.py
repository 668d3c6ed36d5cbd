"""Checkpoints: tensors and what surrounds them, in one safetensors file.

The file is ordinary safetensors: other programs read its tensors by name. Whatever
is not a tensor (an optimizer's settings, a step count, the nesting) is JSON in the
file's metadata, and there is a checksum for every tensor and for the JSON: a file in
which a single bit has changed does not load. Nothing in it is ever executed.

Layout of the metadata: `format` is "edutorch", `structure` the JSON, `crc32` its
checksum. The structure holds `tree` (see `Packer`) and, for each tensor, its dtype,
shape, device and checksum.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import safetensors
from safetensors.numpy import save as to_safetensors

from . import backends, dtypes
from .core.shapes import Size
from .core.tensor import Tensor, wrap
from .device import Device
from .errors import EdutorchError
from .nn.parameter import Parameter
from .utils.files import read_whole, write_atomically

__all__ = ["CheckpointError", "load", "save"]

FORMAT = "edutorch"
MARKS = ("format", "structure", "crc32")


class CheckpointError(EdutorchError, RuntimeError):
    """A file is damaged, or not a checkpoint; or an object cannot be saved in one."""


def save(obj: Any, f: Any, **ignored: Any) -> None:
    """Save a state_dict, or anything made of tensors, numbers, texts, lists and dicts.

    The file appears whole or not at all: an interrupt, a crash or a full disk leaves
    the old one as it was.

    Args:
        obj: what to save. For a model, its `state_dict()`.
        f: a path, or a file opened for writing bytes.
        ignored: PyTorch's pickle settings, which mean nothing here.

    Raises: CheckpointError: the object holds something else, such as a function or a module.

    >>> import io; file = io.BytesIO()
    >>> save({"w": tensor([1.0, 2.0]), "epoch": 3}, file)
    >>> load(io.BytesIO(file.getvalue()))
    {'w': tensor([1., 2.]), 'epoch': 3}
    """
    packer = Packer()
    structure = json.dumps(
        {"tree": packer.pack(obj, ""), "tensors": packer.table}, separators=(",", ":")
    )
    metadata = {
        "format": FORMAT,
        "structure": structure,
        "crc32": str(checksum(structure.encode())),
    }
    write_atomically(f, to_safetensors(packer.arrays, metadata))


def load(
    f: Any,
    map_location: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **ignored: Any,
) -> Any:
    """Load what `save` has written, or the tensors of any other safetensors file as a dict.

    Args:
        f: a path, or a file opened for reading bytes.
        map_location: the device for the tensors instead of the one they were saved from: a
            name, a dict of names, or a function of (tensor, name).
        weights_only, mmap, ignored: accepted; nothing but data is ever loaded.

    Raises: CheckpointError: damaged, cut short, or another kind of file.
        DeviceError: the device that the tensors were saved from is not here.
    """
    data = read_whole(f)
    name = str(getattr(f, "name", f))
    arrays, metadata = parsed(data, name)
    if not any(metadata.get(mark) == FORMAT or mark in ("structure", "crc32") for mark in metadata):
        return OrderedDict((key, placed(wrap(arrays[key]), "cpu", map_location)) for key in arrays)
    structure = checked_structure(metadata, arrays, name)
    return Unpacker(structure["tensors"], arrays, map_location).unpack(structure["tree"])


def checksum(data: Any) -> int:
    return zlib.crc32(data)


# Objects to data -----------------------------------------------------------------------------


class Packer:
    """Turns an object into a tree of JSON and a table of arrays.

    In the tree a plain value stands for itself, a list for a list, and an object
    with one key for all else: {"tensor": name}, {"dict": [[key, value], …]}, {"tuple": …}.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.table: dict[str, dict[str, Any]] = {}
        self._names: dict[Any, str] = {}  # tensors of the same memory are stored once
        self._kept: list[Any] = []  # keeps addresses from being used again meanwhile

    def pack(self, value: Any, path: str) -> Any:
        """Return the tree of `value`; `path` says where in the whole it is."""
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int) and type(value) is int:
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": repr(float(value))}
        if isinstance(value, Tensor):
            return self.pack_tensor(value, path)
        if isinstance(value, np.ndarray | np.generic):
            return {"numpy": self.store(np.asarray(value), path, "cpu")}
        if isinstance(value, Mapping):
            kind = "ordered" if isinstance(value, OrderedDict) else "dict"
            return {kind: [self.pack_item(key, each, path) for key, each in value.items()]}
        if isinstance(value, Size):
            return {"size": list(value)}
        if isinstance(value, list | tuple | set | frozenset):
            packed = [self.pack(each, f"{path}.{i}") for i, each in enumerate(value)]
            return packed if type(value) is list else {kind_of(value): packed}
        if isinstance(value, complex):
            return {"complex": [repr(value.real), repr(value.imag)]}
        if isinstance(value, bytes):
            return {"bytes": base64.b64encode(value).decode()}
        if isinstance(value, dtypes.dtype):
            return {"dtype": value.name}
        if isinstance(value, Device):
            return {"device": str(value)}
        raise cannot_save(value, path)

    def pack_item(self, key: Any, value: Any, path: str) -> list[Any]:
        inside = f"{path}.{key}" if path else str(key)
        return [self.pack(key, inside), self.pack(value, inside)]

    def pack_tensor(self, tensor: Tensor, path: str) -> dict[str, Any]:
        array = tensor._array
        backend = backends.of(array)
        key = (backend.address(array), array.shape, array.strides, str(array.dtype))
        name = self._names.get(key) if array.size else None
        if name is None:
            host = np.ascontiguousarray(backend.to_numpy(array)).reshape(array.shape)
            name = self._names[key] = self.store(host, path, backend.name)
            self._kept.append(array)
        tree: dict[str, Any] = {"tensor": name}
        if isinstance(tensor, Parameter):
            tree["parameter"] = tensor.requires_grad
        elif tensor.requires_grad and tensor.is_leaf:
            tree["requires_grad"] = True
        return tree

    def store(self, array: np.ndarray, path: str, device: str) -> str:
        """Add an array under a name that is still free, and return the name."""
        kind = dtypes.of(array.dtype).name
        array = np.ascontiguousarray(array).reshape(array.shape)
        name, number = path or "tensor", 1
        while name in self.arrays or name == "__metadata__":
            name, number = f"{path}#{number}", number + 1
        stored = array
        if kind == "complex128":  # unknown to safetensors: pairs of numbers
            stored = array.reshape(-1).view(np.float64).reshape(*array.shape, 2)
        self.arrays[name] = stored
        self.table[name] = {
            "dtype": kind, "shape": list(array.shape), "device": device,
            "crc32": checksum(stored.tobytes()),
        }  # fmt: skip
        return name


def kind_of(value: Any) -> str:
    return "tuple" if isinstance(value, tuple) else "set"


def cannot_save(value: Any, path: str) -> CheckpointError:
    kind = type(value).__name__
    hint = "a checkpoint holds data: tensors, numbers, texts, and lists and dicts of these"
    if hasattr(value, "state_dict"):
        hint = f"save its state_dict(), and load it into a new {kind} with load_state_dict()"
    return CheckpointError(
        "save", f"cannot save a {kind}" + (f" (at {path!r})" if path else ""), hint=hint
    )


# Data to objects -----------------------------------------------------------------------------


class Unpacker:
    """Turns a tree and its arrays back into the object."""

    def __init__(self, table: dict[str, Any], arrays: dict[str, np.ndarray], where: Any) -> None:
        self.table, self.arrays, self.where = table, arrays, where
        self._made: dict[str, Tensor] = {}

    def unpack(self, tree: Any) -> Any:
        """Return the object of `tree`."""
        if isinstance(tree, list):
            return [self.unpack(each) for each in tree]
        if not isinstance(tree, dict):
            return tree
        kind, content = next(iter(tree.items()))
        if kind == "tensor":
            return self.tensor(content, tree)
        if kind in ("dict", "ordered"):
            pairs = ((self.unpack(key), self.unpack(value)) for key, value in content)
            return dict(pairs) if kind == "dict" else OrderedDict(pairs)
        return self.simple(kind, content)

    def simple(self, kind: str, content: Any) -> Any:
        readers: dict[str, Callable[[Any], Any]] = {
            "float": float,
            "numpy": lambda name: self.arrays[name].copy(),
            "tuple": lambda items: tuple(self.unpack(items)),
            "set": lambda items: set(self.unpack(items)),
            "size": Size,
            "complex": lambda parts: complex(float(parts[0]), float(parts[1])),
            "bytes": base64.b64decode,
            "dtype": lambda name: getattr(dtypes, name),
            "device": Device,
        }
        if kind not in readers:
            raise CheckpointError(
                "load", f"unknown kind of value {kind!r}",
                hint="it was written by a newer edutorch: pip install --upgrade edutorch",
            )  # fmt: skip
        return readers[kind](content)

    def tensor(self, name: str, tree: dict[str, Any]) -> Tensor:
        made = self._made.get(name)
        if made is None:
            made = placed(wrap(self.arrays[name]), self.table[name]["device"], self.where)
            if "parameter" in tree:
                made = Parameter(made, tree["parameter"])
            elif tree.get("requires_grad"):
                made.requires_grad_()
            self._made[name] = made
        return made


def placed(tensor: Tensor, saved_from: str, where: Any) -> Tensor:
    """Move a tensor to where it is wanted."""
    if callable(where) and not isinstance(where, Device):
        found = where(tensor, saved_from)
        return found if isinstance(found, Tensor) else tensor
    target = where.get(saved_from, saved_from) if isinstance(where, Mapping) else where
    return tensor.to(saved_from if target is None else target)


# The file ------------------------------------------------------------------------------------

_TYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16,
    "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "U8": np.uint8,
    "BOOL": np.bool_, "C64": np.complex64,
}  # fmt: skip


def parsed(data: bytes, name: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read the arrays and the metadata of a safetensors file.

    Raises: CheckpointError: it is another kind of file, cut short, or damaged.
    """
    if data[:4] == b"PK\x03\x04" or data[:2] in (b"\x80\x02", b"\x80\x04", b"\x80\x05"):
        raise CheckpointError(
            "load", f"{name} is a pickle, as PyTorch writes them; reading it could run any code",
            hint="in PyTorch: safetensors.torch.save_file(model.state_dict(), 'model.safetensors')",
        )  # fmt: skip
    try:
        found = safetensors.deserialize(data)
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
    except (safetensors.SafetensorError, ValueError) as error:
        raise damaged(name, f"not a whole safetensors file ({error})") from error
    arrays = {}
    for key, each in found:
        if each["dtype"] not in _TYPES:
            raise CheckpointError("load", f"{name}: {key} is of type {each['dtype']}, unknown here")
        flat = np.frombuffer(each["data"], _TYPES[each["dtype"]])
        arrays[key] = flat.reshape(each["shape"]).copy()
    order = [key for key in header if key in arrays]
    return {key: arrays[key] for key in order}, header.get("__metadata__") or {}


def checked_structure(
    metadata: dict[str, str], arrays: dict[str, np.ndarray], name: str
) -> dict[str, Any]:
    """Return the structure after comparing everything with its checksum.

    Raises: CheckpointError: something does not agree.
    """
    if sorted(metadata) != sorted(MARKS) or metadata["format"] != FORMAT:
        raise damaged(name, "its metadata is incomplete")
    text = metadata["structure"]
    if str(checksum(text.encode())) != metadata["crc32"]:
        raise damaged(name, "the checksum of its structure is wrong")
    structure = json.loads(text)
    table = structure["tensors"]
    if set(table) != set(arrays):
        raise damaged(name, "tensors are missing or have other names")
    for key, known in table.items():
        if checksum(arrays[key].tobytes()) != known["crc32"]:
            raise damaged(name, f"the checksum of {key} is wrong")
        if known["dtype"] == "complex128" and arrays[key].dtype == np.float64:
            arrays[key] = arrays[key].view(np.complex128)[..., 0]
        kind, shape = dtypes.of(arrays[key].dtype).name, list(arrays[key].shape)
        if (kind, shape) != (known["dtype"], known["shape"]):
            raise damaged(name, f"{key} has another type or shape than was saved")
    return structure


def damaged(name: str, what: str) -> CheckpointError:
    return CheckpointError(
        "load", f"{name} is damaged: {what}",
        hint="it was cut short or changed after saving; use an earlier checkpoint",
    )  # fmt: skip
