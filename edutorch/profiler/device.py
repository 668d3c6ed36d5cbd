"""Clocks on a GPU: an event is put between its work, and read when all is done.

What the host measures on a GPU is how long it took to ask. The time between two
events in the stream is how long the GPU worked.
"""

from __future__ import annotations

from typing import Any

from .. import backends, cuda


class CudaClock:
    """Puts events into the current stream of CuPy, and measures between them."""

    def __init__(self) -> None:
        self._cuda = backends.get("cuda").xp.cuda

    def record_event(self) -> Any:
        """Put an event into the stream: it happens when all work before it is done."""
        event = self._cuda.Event()
        event.record()
        return event

    def elapsed_ns(self, start: Any, end: Any) -> int:
        """Wait for two events, and return the nanoseconds between them."""
        end.synchronize()
        return round(self._cuda.get_elapsed_time(start, end) * 1e6)


def device_clock() -> CudaClock | None:
    """Return the GPU's clock, None where there is no GPU."""
    return CudaClock() if cuda.is_available() else None
