"""edutorch's own files: safetensors, with checksums in the metadata.

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

import numpy as np

from .. import dtypes
from ..core.tensor import wrap
from ..errors import EdutorchError, MissingExtraError
from .decode import Decoder, MapLocation, move_to_location
from .encode import Encoder, StorageTable, byte_view
from .safe_classes import CheckpointError, NotDataError, damaged_error

try:  # a browser may lack it
    import safetensors
    from safetensors.numpy import save as to_safetensors
except ImportError:
    safetensors = None

FORMAT = "edutorch"
METADATA_KEYS = ("crc32", "format", "structure")

_TYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": dtypes.bfloat16.numpy,
    "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8, "U8": np.uint8,
    "F8_E4M3": dtypes.float8_e4m3fn.numpy, "F8_E5M2": dtypes.float8_e5m2.numpy,
    "F8_E4M3FNUZ": dtypes.float8_e4m3fnuz.numpy, "F8_E5M2FNUZ": dtypes.float8_e5m2fnuz.numpy,
    "U16": np.uint16, "U32": np.uint32, "U64": np.uint64, "BOOL": np.bool_, "C64": np.complex64,
}  # fmt: skip


def encode_file(obj: object, only_data: bool = False) -> bytes:
    """Return the bytes of an object's file; an object that is not data is pickled as a whole.

    Args:
        obj: what to save.
        only_data: refuse objects that would be pickled, since `load` reads only data by default.

    Raises:
        CheckpointError: it cannot be pickled, or is not data.
        MissingExtraError: safetensors is not installed.
    """
    require_safetensors("save")
    packer = Encoder()
    try:
        tree = packer.encode(obj)
    except NotDataError:
        if only_data:
            raise
        from .objects import encode_object

        packer = Encoder()  # a new one: the first has stored what came before the refused value
        tree = encode_object(packer, obj)
    return seal(tree, packer.arrays)


def seal(tree: object, arrays: StorageTable) -> bytes:
    """Return the bytes of a file: a tree, and the arrays that it refers to, with checksums."""
    arrays.finish()
    structure = json.dumps({"tree": tree, "tensors": arrays.table}, separators=(",", ":"))
    metadata = {
        "format": FORMAT,
        "structure": structure,
        "crc32": str(zlib.crc32(structure.encode())),
    }
    return to_safetensors(arrays.arrays, metadata)


def require_safetensors(purpose: str) -> None:
    if safetensors is None:
        raise MissingExtraError(
            purpose, "safetensors is not installed", hint="pip install safetensors"
        )


def read(data: bytes, name: str, where: MapLocation, weights_only: bool = True) -> Any:
    """Return the object in a file, or the tensors of another program's file as a dict.

    Raises: CheckpointError: damaged, cut short, or another kind of file.
        RefusedError: it holds a whole object, and only weights are wanted.
    """
    arrays, metadata = parse_file(data, name)
    if not any(metadata.get(mark) == FORMAT or mark in ("structure", "crc32") for mark in metadata):
        return OrderedDict(
            (key, move_to_location(wrap(arrays[key]), "cpu", where)) for key in arrays
        )
    structure = check_structure(metadata, arrays, name)
    try:
        unpacker = Decoder(structure["tensors"], arrays, where)
        tree = structure["tree"]
        if isinstance(tree, dict) and "pickle" in tree:
            return unpickle_object(unpacker, tree, name, weights_only)
        return unpacker.decode(tree)
    except EdutorchError:
        raise
    except (  # checksums agree, so something other than `save` wrote this
        ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, StopIteration,
        TypeError, ValueError,
    ) as error:  # fmt: skip
        raise damaged_error(name, f"its structure is none that `save` writes ({error})") from error


def unpickle_object(unpacker: Decoder, tree: dict[str, Any], name: str, weights_only: bool) -> Any:
    """Return a whole object: its pickle is run, or, for weights only, read as data.

    Raises: RefusedError: it asks for classes that nobody has allowed.
    """
    from .unpickle import ObjectUnpickler, read_as_data

    tensors = [unpacker.decode(tensor_tree) for tensor_tree in tree["tensors"]]
    data = unpacker.arrays[tree["pickle"]].tobytes()
    if weights_only:
        return read_as_data(data, tensors, name)
    return ObjectUnpickler(data, tensors, name).load()


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict of JSON pairs, and refuse keys that occur twice."""
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("a name occurs twice")
    return result


def parse_file(data: bytes, name: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read the arrays and the metadata of a safetensors file.

    safetensors compares the sizes in its header with the file's before memory is allocated.

    Raises:
        CheckpointError: it is another kind of file, cut short, or damaged.
        MissingExtraError: safetensors is not installed.
    """
    require_safetensors("load")
    try:
        entries = safetensors.deserialize(data)
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length], object_pairs_hook=unique_keys)
    except (safetensors.SafetensorError, ValueError, RecursionError) as error:
        raise damaged_error(name, f"not a whole safetensors file ({error})") from error
    arrays = {}
    for key, entry in entries:
        if entry["dtype"] not in _TYPES:
            raise CheckpointError(
                "load", f"{name}: {key} is of type {entry['dtype']}, unknown here"
            )
        flat = np.frombuffer(entry["data"], _TYPES[entry["dtype"]])
        # What NumPy computes with other bytes is undefined.
        if flat.dtype == np.bool_ and flat.view(np.uint8).max(initial=0) > 1:
            raise damaged_error(name, f"{key} holds bytes that are neither true nor false")
        arrays[key] = flat.reshape(entry["shape"]).copy()
    # safetensors sorts by name; the header has the order in which the tensors were saved.
    order = [key for key in header if key in arrays]
    return {key: arrays[key] for key in order}, header.get("__metadata__") or {}


def check_structure(
    metadata: dict[str, str], arrays: dict[str, np.ndarray], name: str
) -> dict[str, Any]:
    """Return the structure after verifying all checksums.

    Raises: CheckpointError: a checksum or a name does not match.
    """
    if tuple(sorted(metadata)) != METADATA_KEYS or metadata["format"] != FORMAT:
        raise damaged_error(name, "its metadata is incomplete")
    text = metadata["structure"]
    if str(zlib.crc32(text.encode())) != metadata["crc32"]:
        raise damaged_error(name, "the checksum of its structure is wrong")
    try:
        structure = json.loads(text, object_pairs_hook=unique_keys)
        table = structure["tensors"]
        if set(table) != set(arrays):
            raise damaged_error(name, "tensors are missing or have other names")
        for key, known in table.items():
            arrays[key] = check_array(arrays[key], known, f"{name}: {key}")
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise damaged_error(name, f"its structure is none that `save` writes ({error})") from error
    return structure


def check_array(array: np.ndarray, known: dict[str, Any], name: str) -> np.ndarray:
    """Compare an array with its entry in the table, and return it."""
    if zlib.crc32(byte_view(array)) != known["crc32"]:
        raise damaged_error(name, "the checksum is wrong")
    if known["dtype"] == "complex128" and array.dtype == np.float64:
        array = array.view(np.complex128)[..., 0]
    if (array.dtype.name, list(array.shape)) != (known["dtype"], known["shape"]):
        raise damaged_error(name, "type or shape are not those that were saved")
    if not isinstance(known["device"], str):
        raise damaged_error(name, "the device has no name")
    return array
