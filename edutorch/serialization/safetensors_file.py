"""Our own files: safetensors, with checksums in the metadata.

Other programs read the tensors by name (`safetensors.torch.load_file` in PyTorch). The
metadata holds `format`, which is "edutorch", `structure`, the JSON of everything that is not
a tensor, and `crc32`, its checksum. The structure has `tree` (see `encode.py`) and, for
each tensor, its dtype, shape, device and checksum. What is not data, such as a whole module,
is a pickle, stored as an array of bytes (see `objects.py`).
"""

from __future__ import annotations

import json
import zlib
from collections import OrderedDict
from typing import Any

import ml_dtypes
import numpy as np
import safetensors
from safetensors.numpy import save as to_safetensors

from ..core.tensor import wrap
from ..errors import EdutorchError
from .decode import Unpacker
from .encode import Packer
from .errors import CheckpointError, NotDataError, damaged
from .map_location import placed
from .storage_table import memory_of

FORMAT = "edutorch"
MARKS = ("crc32", "format", "structure")

_TYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16,
    "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "U8": np.uint8,
    "U16": np.uint16, "U32": np.uint32, "U64": np.uint64, "BOOL": np.bool_, "C64": np.complex64,
}  # fmt: skip


def written(obj: Any, only_data: bool = False) -> bytes:
    """Return the file of an object; one that is not data is pickled as a whole.

    Args:
        obj: what to save.
        only_data: refuse what would be pickled: `load` reads data only, unless it is told.

    Raises: CheckpointError: it cannot be pickled, or is not data.
    """
    packer = Packer()
    try:
        tree = packer.pack(obj)
    except NotDataError:
        if only_data:
            raise
        from .objects import pack_object

        packer = Packer()
        tree = pack_object(packer, obj)
    packer.arrays.finish()
    structure = json.dumps({"tree": tree, "tensors": packer.arrays.table}, separators=(",", ":"))
    metadata = {
        "format": FORMAT,
        "structure": structure,
        "crc32": str(zlib.crc32(structure.encode())),
    }
    return to_safetensors(packer.arrays.arrays, metadata)


def read(data: bytes, name: str, where: Any, weights_only: bool = True) -> Any:
    """Return the object of a file, or the tensors of another program's file as a dict.

    Raises: CheckpointError: damaged, cut short, or another kind of file.
        RefusedError: it holds a whole object, and only weights are wanted.
    """
    arrays, metadata = parsed(data, name)
    if not any(metadata.get(mark) == FORMAT or mark in ("structure", "crc32") for mark in metadata):
        for key, array in arrays.items():
            if array.dtype.kind == "u" and array.dtype.itemsize > 1:
                raise CheckpointError("load", f"{name}: {key} is {array.dtype}, unknown to tensors")
        return OrderedDict((key, placed(wrap(arrays[key]), "cpu", where)) for key in arrays)
    structure = checked_structure(metadata, arrays, name)
    try:
        unpacker = Unpacker(structure["tensors"], arrays, where)
        tree = structure["tree"]
        if isinstance(tree, dict) and "pickle" in tree:
            return unpickled(unpacker, tree, name, weights_only)
        return unpacker.unpack(tree)
    except EdutorchError:
        raise
    except (  # checksums agree: whoever wrote this is not `save`
        ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, StopIteration,
        TypeError, ValueError,
    ) as error:  # fmt: skip
        raise damaged(name, f"its structure is none that `save` writes ({error})") from error


def unpickled(unpacker: Unpacker, tree: dict[str, Any], name: str, weights_only: bool) -> Any:
    """Return a whole object: made by running its pickle, or, of weights only, by reading it.

    Raises: RefusedError: it asks for classes that nobody has allowed.
    """
    from .unpickle import ObjectUnpickler, read_as_data

    tensors = [unpacker.unpack(each) for each in tree["tensors"]]
    data = unpacker.arrays[tree["pickle"]].tobytes()
    if weights_only:
        return read_as_data(data, tensors, name)
    return ObjectUnpickler(data, tensors, name).load()


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict of JSON's pairs, each key of which may occur once only."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name occurs twice")
    return made


def parsed(data: bytes, name: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read the arrays and the metadata of a safetensors file.

    Its sizes are compared with the file's by safetensors, before memory is taken.

    Raises: CheckpointError: it is another kind of file, cut short, or damaged.
    """
    try:
        found = safetensors.deserialize(data)
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length], object_pairs_hook=once)
    except (safetensors.SafetensorError, ValueError, RecursionError) as error:
        raise damaged(name, f"not a whole safetensors file ({error})") from error
    arrays = {}
    for key, each in found:
        if each["dtype"] not in _TYPES:
            raise CheckpointError("load", f"{name}: {key} is of type {each['dtype']}, unknown here")
        flat = np.frombuffer(each["data"], _TYPES[each["dtype"]])
        if flat.dtype == np.bool_ and flat.view(np.uint8).max(initial=0) > 1:
            raise damaged(name, f"{key} holds bytes that are neither true nor false")
        arrays[key] = flat.reshape(each["shape"]).copy()
    order = [key for key in header if key in arrays]
    return {key: arrays[key] for key in order}, header.get("__metadata__") or {}


def checked_structure(
    metadata: dict[str, str], arrays: dict[str, np.ndarray], name: str
) -> dict[str, Any]:
    """Return the structure after comparing everything with its checksum.

    Raises: CheckpointError: something does not agree.
    """
    if tuple(sorted(metadata)) != MARKS or metadata["format"] != FORMAT:
        raise damaged(name, "its metadata is incomplete")
    text = metadata["structure"]
    if str(zlib.crc32(text.encode())) != metadata["crc32"]:
        raise damaged(name, "the checksum of its structure is wrong")
    try:
        structure = json.loads(text, object_pairs_hook=once)
        table = structure["tensors"]
        if set(table) != set(arrays):
            raise damaged(name, "tensors are missing or have other names")
        for key, known in table.items():
            arrays[key] = checked_array(arrays[key], known, f"{name}: {key}")
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise damaged(name, f"its structure is none that `save` writes ({error})") from error
    return structure


def checked_array(array: np.ndarray, known: dict[str, Any], name: str) -> np.ndarray:
    """Compare an array with what is noted about it."""
    if zlib.crc32(memory_of(array)) != known["crc32"]:
        raise damaged(name, "the checksum is wrong")
    if known["dtype"] == "complex128" and array.dtype == np.float64:
        array = array.view(np.complex128)[..., 0]
    if (array.dtype.name, list(array.shape)) != (known["dtype"], known["shape"]):
        raise damaged(name, "type or shape are not those that were saved")
    if not isinstance(known["device"], str):
        raise damaged(name, "the device has no name")
    return array
