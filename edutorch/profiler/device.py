"""Timing on a GPU: events are recorded in its stream, and read when all work is done.

The host can only measure how long launching kernels takes. The time between two events in the
stream is how long the GPU worked.
"""

from __future__ import annotations

from typing import Any

from .. import backends, cuda


class CudaClock:
    """Records events in CuPy's current stream, and measures the time between them."""

    def __init__(self) -> None:
        self._cuda = backends.get(backends.ACCELERATOR).xp.cuda

    def record_event(self) -> Any:
        """Record an event in the stream: it completes when all work before it is done."""
        event = self._cuda.Event()
        event.record()
        return event

    def elapsed_ns(self, start: Any, end: Any) -> int:
        """Wait for two events, and return the nanoseconds between them."""
        end.synchronize()
        return round(self._cuda.get_elapsed_time(start, end) * 1e6)


def device_clock() -> CudaClock | None:
    """Return the GPU's clock, or None if there is no GPU."""
    return CudaClock() if cuda.is_available() else None
