"""Frames on a channel, such as a socket: a JSON header and bytes, with bounds and a deadline.

    4 bytes  length of the header        (big-endian)
    4 bytes  length of the body
    header   JSON, UTF-8
    body     the arrays, one after the other

A frame from a jail may be forged. So its lengths are checked before any memory is taken, and a
reader never waits beyond its deadline, however slowly the bytes come.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterable
from typing import Any, Protocol

LENGTHS = struct.Struct(">II")
CHUNK = 1 << 16


class Channel(Protocol):
    """What frames need of a socket."""

    def settimeout(self, seconds: float | None, /) -> None: ...

    def send(self, data: bytes | memoryview, /) -> int: ...

    def recv(self, size: int, /) -> bytes: ...


class FrameError(Exception):
    """What came is no frame, or a larger one than allowed."""


class Ended(FrameError):
    """The other side has closed the socket."""


def send_frame(
    channel: Channel, header: Any, blobs: Iterable[bytes] = (), deadline: float | None = None
) -> None:
    """Send a frame.

    Args:
        deadline: in seconds of `time.monotonic`. Raises TimeoutError when it has passed.
    """
    text, body = json.dumps(header).encode(), b"".join(blobs)
    rest = memoryview(LENGTHS.pack(len(text), len(body)) + text + body)
    while rest:
        set_timeout(channel, deadline)
        try:
            rest = rest[channel.send(rest) :]
        except (BrokenPipeError, ConnectionResetError):
            raise Ended("the other side has closed the socket") from None


def receive_frame(
    channel: Channel, header_limit: int, body_limit: int, deadline: float | None = None
) -> tuple[Any, bytes]:
    """Return the header and the body of the next frame.

    Raises: FrameError: it is too large, or no JSON; Ended: there is none; TimeoutError.
    """
    sizes = LENGTHS.unpack(receive_bytes(channel, LENGTHS.size, deadline))
    for size, limit, name in zip(
        sizes, (header_limit, body_limit), ("header", "body"), strict=True
    ):
        if size > limit:
            raise FrameError(f"the {name} of a frame has {size} bytes, at most {limit} are allowed")
    text = receive_bytes(channel, sizes[0], deadline)
    body = receive_bytes(channel, sizes[1], deadline)
    try:
        return json.loads(text), body
    except (ValueError, RecursionError):  # also what is not UTF-8
        raise FrameError("the header of a frame is not JSON") from None


def receive_bytes(channel: Channel, size: int, deadline: float | None) -> bytes:
    """Return exactly `size` bytes; memory is taken as they come."""
    received = bytearray()
    while len(received) < size:
        set_timeout(channel, deadline)
        try:
            piece = channel.recv(min(CHUNK, size - len(received)))
        except ConnectionResetError:
            piece = b""
        if not piece:
            raise Ended("the other side has closed the socket")
        received += piece
    return bytes(received)


def set_timeout(channel: Channel, deadline: float | None) -> None:
    if deadline is None:
        channel.settimeout(None)
        return
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the deadline has passed")
    channel.settimeout(left)
