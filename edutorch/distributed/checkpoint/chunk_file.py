"""The file of one rank: our own format, with a checksum for every few megabytes.

`edutorch.load` and other readers of safetensors read such a file as a whole. A rank that needs some
rows of a tensor reads only the blocks that hold them, and verifies these.
"""

from __future__ import annotations

import functools
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...serialization.encode import Encoder, byte_view
from ...serialization.safe_classes import damaged_error
from ...serialization.safetensors_file import require_safetensors, seal, unique_keys
from .folder import Folder

__all__ = ["ChunkFile", "seal_chunks"]

BLOCK = 1 << 22
"""Bytes that share a checksum."""

LIKELY_HEADER = 1 << 16


def seal_chunks(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the file of some arrays.

    >>> import io
    >>> from edutorch.distributed.checkpoint.chunk_file import seal_chunks
    >>> load(io.BytesIO(seal_chunks({"w": np.ones(2)})))["chunks"]
    {'w': tensor([1., 1.], dtype=torch.float64)}
    """
    require_safetensors("save")
    encoder = Encoder()
    trees, sums = [], {}
    for name, array in arrays.items():
        stored = encoder.arrays.store(array, name, "cpu")
        trees.append([name, {"tensor": stored}])
        data = byte_view(encoder.arrays.arrays[stored])
        sums[name] = [zlib.crc32(data[at : at + BLOCK]) for at in range(0, data.size, BLOCK)]
    tree = {"dict": [["chunks", {"dict": trees}], ["blocks", encoder.encode(sums)]]}
    return seal(tree, encoder.arrays)


class ChunkFile:
    """Reads arrays, or parts of them, of one file.

    Args:
        folder: where it is.
        name: the file.
    """

    def __init__(self, folder: Folder, name: str) -> None:
        self.folder, self.file = folder, name
        self.name = folder.join(name)

    @functools.cached_property
    def header(self) -> dict[str, Any]:
        """The places of the arrays in the file, and the checksums of their blocks.

        Raises: CheckpointError: it is damaged.
        """
        try:
            start = self.folder.read(self.file, 0, LIKELY_HEADER)
        except FileNotFoundError:
            raise damaged_error(self.name, "the index names it, and it is not there") from None
        length = int.from_bytes(start[:8], "little")
        if length > 1 << 31 or len(start) < 8:
            raise damaged_error(self.name, "not a safetensors file")
        if len(start) < 8 + length:
            start += self.folder.read(self.file, len(start), 8 + length)
        try:
            header = json.loads(start[8 : 8 + length], object_pairs_hook=unique_keys)
            metadata = header.pop("__metadata__")
            text = metadata["structure"]
            if str(zlib.crc32(text.encode())) != metadata["crc32"]:
                raise ValueError("the checksum of its structure is wrong")
            (_, chunks), (_, blocks) = json.loads(text)["tree"]["dict"]
            return {
                "start": 8 + length,
                "places": {
                    name: header[stored["tensor"]]["data_offsets"]
                    for name, stored in chunks["dict"]
                },
                "sums": dict(blocks["dict"]),
            }
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise damaged_error(self.name, f"its header cannot be read ({error})") from error

    def read(self, name: str, start: int, stop: int) -> bytes:
        """Return some bytes of an array, after verifying the blocks that hold them.

        Raises: CheckpointError: a checksum does not match, or the array is not there.
        """
        header = self.header
        if name not in header["places"]:
            raise damaged_error(self.name, f"{name} is not in it")
        begin, end = header["places"][name]
        first = start // BLOCK * BLOCK
        last = min(-(-stop // BLOCK) * BLOCK, end - begin)
        origin = header["start"] + begin
        data = self.folder.read(self.file, origin + first, origin + last) if last > first else b""
        if len(data) != last - first or stop > end - begin:
            raise damaged_error(self.name, f"{name} is cut short")
        view = memoryview(data)
        for at in range(first, last, BLOCK):
            piece = view[at - first : min(at - first + BLOCK, len(data))]
            if zlib.crc32(piece) != header["sums"][name][at // BLOCK]:
                raise damaged_error(self.name, f"the checksum of {name} is wrong")
        return bytes(view[start - first : stop - first])
