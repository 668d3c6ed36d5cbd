"""Stands in for the package `safetensors`, which Pyodide 0.27 has no wheel of; later ones have."""

from __future__ import annotations

import json
import sys
import types
from typing import Any

import numpy as np

TYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL", "complex64": "C64",
}  # fmt: skip


class SafetensorError(Exception):
    """A file that cannot be read."""


def deserialize(data: bytes) -> list[tuple[str, dict[str, Any]]]:
    length = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + length])
        header.pop("__metadata__", None)
        entries = []
        for name, entry in header.items():
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            if end > len(data):
                raise ValueError("it is cut short")
            entries.append((name, entry | {"data": data[begin:end]}))
    except (LookupError, TypeError, ValueError) as error:
        raise SafetensorError(str(error)) from error
    return entries


def save(arrays: dict[str, np.ndarray[Any, Any]], metadata: dict[str, str]) -> bytes:
    header: dict[str, Any] = {"__metadata__": metadata}
    parts = []
    begin = 0
    for name, array in arrays.items():
        parts.append(np.ascontiguousarray(array).tobytes())
        end = begin + len(parts[-1])
        dtype = TYPES[array.dtype.name]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


sys.modules["safetensors.numpy"] = module = types.ModuleType("safetensors.numpy")
module.save = save  # type: ignore[attr-defined]
