"""The index of a checkpoint: which part of which tensor is in which file.

It is a JSON file named `.metadata`, written last: a checkpoint without it is none.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ... import dtypes
from ...core.shapes import Size
from ...serialization.safe_classes import CheckpointError, damaged_error
from .chunks import Chunk

__all__ = [
    "BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "TensorProperties",
    "TensorStorageMetadata",
]  # fmt: skip

FORMAT = "edutorch.distributed.checkpoint"
VERSION = "1"
INDEX_NAME = ".metadata"


@dataclass(frozen=True)
class ChunkStorageMetadata:
    """A part of a tensor: where it begins, and how large it is."""

    offsets: Size
    sizes: Size


@dataclass(frozen=True)
class TensorProperties:
    """What a tensor is besides its shape."""

    dtype: dtypes.dtype


@dataclass(frozen=True)
class TensorStorageMetadata:
    """A tensor: its dtype, its whole shape, its parts."""

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass(frozen=True)
class BytesStorageMetadata:
    """A value that is no tensor."""


@dataclass
class Metadata:
    """What a checkpoint holds.

    Attributes:
        state_dict_metadata: by key, what it is.
        planner_data: by key, its path in the nested dicts.
        storage_data: the index as it is in the file.
    """

    state_dict_metadata: dict[str, TensorStorageMetadata | BytesStorageMetadata]
    planner_data: Any = None
    storage_data: Any = field(default=None, repr=False)
    version: str | None = VERSION


def to_metadata(index: Mapping[str, Any]) -> Metadata:
    """Return an index as PyTorch's class."""
    described: dict[str, TensorStorageMetadata | BytesStorageMetadata] = {}
    for key, entry in index["entries"].items():
        if "value" in entry:
            described[key] = BytesStorageMetadata()
            continue
        chunks = [
            ChunkStorageMetadata(Size(part["offsets"]), Size(part["sizes"]))
            for part in entry["chunks"]
        ]
        properties = TensorProperties(getattr(dtypes, entry["dtype"]))
        described[key] = TensorStorageMetadata(properties, Size(entry["shape"]), chunks)
    paths = {key: restore_path(entry["path"]) for key, entry in index["entries"].items()}
    return Metadata(described, paths, index)


def restore_path(path: list[Any]) -> tuple[Any, ...]:
    """Return a path as `unflatten` takes it."""
    return tuple(tuple(step) if isinstance(step, list) else step for step in path)


def chunk_of(part: Mapping[str, Any]) -> Chunk:
    """Return the box of a part in the index."""
    return Chunk(tuple(part["offsets"]), tuple(part["sizes"]))


def encode_index(index: Mapping[str, Any]) -> bytes:
    """Return the file of an index."""
    text = json.dumps(index, separators=(",", ":"))
    sealed = {"format": FORMAT, "version": VERSION, "crc32": zlib.crc32(text.encode())}
    return json.dumps(sealed | {"index": text}).encode()


def decode_index(data: bytes, name: str) -> dict[str, Any]:
    """Return the index in a file.

    Raises: CheckpointError: it is damaged, or PyTorch has written it.
    """
    if data[:1] == b"\x80":
        raise CheckpointError(
            "load", f"{name} is a pickle, as PyTorch writes it; reading it could run any code",
            hint="convert the checkpoint in PyTorch: "
            "torch.distributed.checkpoint.format_utils.dcp_to_torch_save(folder, file)",
        )  # fmt: skip
    try:
        sealed = json.loads(data)
        text = sealed["index"]
        if sealed["format"] != FORMAT or zlib.crc32(text.encode()) != sealed["crc32"]:
            raise ValueError("the checksum is wrong")
        return json.loads(text)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise damaged_error(name, f"its index cannot be read ({error})") from error
