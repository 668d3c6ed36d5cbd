"""What travels between a `TCPStore` and its clients: lists of bytes, each with its length."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import BinaryIO

from ..errors import DistNetworkError

__all__ = ["read_frame", "write_frame"]

NUMBER = struct.Struct("!I")
MOST_PARTS = 100_000
MOST_BYTES = 256 * 1024 * 1024
"""What is longer than any message of a store is not read: it would fill the memory."""


def write_frame(file: BinaryIO, parts: Sequence[bytes]) -> None:
    """Write a list of bytes: their number, the length of each, then all of them.

    Raises: DistNetworkError: they are too long.
    """
    if len(parts) > MOST_PARTS or sum(map(len, parts)) > MOST_BYTES:
        raise DistNetworkError(
            "TCPStore", f"a message has at most {MOST_BYTES >> 20} MiB",
            hint="a store is for small values; send tensors by the collectives",
        )  # fmt: skip
    lengths = b"".join(NUMBER.pack(len(part)) for part in parts)
    file.write(NUMBER.pack(len(parts)) + lengths + b"".join(parts))
    file.flush()


def read_frame(file: BinaryIO) -> list[bytes] | None:
    """Read a list of bytes; None: the other side has closed the connection.

    Raises: DistNetworkError: it is no such list, or longer than any.
    """
    head = file.read(NUMBER.size)
    if not head:
        return None
    count = NUMBER.unpack(complete(head, NUMBER.size))[0]
    if count > MOST_PARTS:
        raise broken()
    table = complete(file.read(count * NUMBER.size), count * NUMBER.size)
    lengths = [length for (length,) in NUMBER.iter_unpack(table)]
    if sum(lengths) > MOST_BYTES:
        raise broken()
    return [complete(file.read(length), length) for length in lengths]


def complete(data: bytes, size: int) -> bytes:
    """Return the bytes, if there are as many as were announced."""
    if len(data) < size:
        raise broken()
    return data


def broken() -> DistNetworkError:
    """Return the error for what is no message of a store."""
    return DistNetworkError("TCPStore", "the other side is no store, or has ended")
