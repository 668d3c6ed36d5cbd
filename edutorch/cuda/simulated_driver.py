"""The driver of simulated cards: what is put into a stream is done at once, on the CPU."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

from ..backends.memory_counts import MemoryCounts
from ..backends.simulated_capture import CaptureError, Recorder
from .driver import CardProperties, Driver

__all__ = ["SimulatedDriver", "SimulatedEvent", "SimulatedGraph", "SimulatedStream"]


class SimulatedEvent:
    """A point in a stream: the time when it was reached."""

    def __init__(self) -> None:
        self.time_ns = 0

    @property
    def done(self) -> bool:
        """True: what is put into a stream is done at once."""
        return True

    def record(self, stream: Any = None) -> None:
        """Remember the time."""
        self.time_ns = time.perf_counter_ns()

    def synchronize(self) -> None:
        """Nothing runs in the background here."""


class SimulatedStream:
    """A queue that is always empty, because its work is done at once."""

    _addresses = itertools.count(0x10, 0x10)

    def __init__(self, device_id: int, priority: int = 0, ptr: int | None = None) -> None:
        self.ptr = next(self._addresses) if ptr is None else ptr
        self.device_id, self.priority = device_id, priority
        self.recorder: Recorder | None = None

    @property
    def done(self) -> bool:
        """True: what is put into a stream is done at once."""
        return True

    def synchronize(self) -> None:
        """Nothing runs in the background here."""

    def wait_event(self, event: SimulatedEvent) -> None:
        """What comes before an event is done already."""

    def is_capturing(self) -> bool:
        """Return True while a graph is captured."""
        return self.recorder is not None


class SimulatedGraph:
    """Captured work. Args: recorder: that has recorded it."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def launch(self, stream: Any = None) -> None:
        """Do the work again, on the memory that it was captured with."""
        self._recorder.replay()


class SimulatedDriver(Driver):
    """Cards that the CPU computes for.

    Args:
        cards: all of them.
    """

    is_simulated = True

    def __init__(self, cards: Any) -> None:
        self._cards = cards
        self._default = [SimulatedStream(index, ptr=0) for index in range(cards.count)]
        self._thread = threading.local()

    # Cards ----------------------------------------------------------------------------------------

    def properties(self, index: int) -> CardProperties:
        import os

        total = self._memory(index).total
        return CardProperties("Simulated card (the CPU)", 8, 0, total, os.cpu_count() or 1)

    def can_access_peer(self, index: int, peer: int) -> bool:
        return True

    def synchronize(self, index: int) -> None:
        if self.current_stream(index).is_capturing():
            raise CaptureError(
                "synchronize", "operation not permitted when stream is capturing",
                hint="wait after the capture",
            )  # fmt: skip

    # Streams and events ---------------------------------------------------------------------------

    def make_stream(self, index: int, priority: int) -> SimulatedStream:
        return SimulatedStream(index, priority)

    def external_stream(self, address: int, index: int) -> SimulatedStream:
        return SimulatedStream(index, ptr=address)

    def default_stream(self, index: int) -> SimulatedStream:
        return self._default[index]

    def current_stream(self, index: int) -> SimulatedStream:
        return getattr(self._thread, "streams", {}).get(index, self._default[index])

    def use_stream(self, stream: SimulatedStream) -> None:
        if not hasattr(self._thread, "streams"):
            self._thread.streams = {}
        self._thread.streams[stream.device_id] = stream

    def make_event(self, has_timing: bool, blocking: bool, interprocess: bool) -> SimulatedEvent:
        return SimulatedEvent()

    def elapsed_ms(self, start: SimulatedEvent, end: SimulatedEvent) -> float:
        return (end.time_ns - start.time_ns) / 1e6

    # Graphs ---------------------------------------------------------------------------------------

    def begin_capture(self, stream: SimulatedStream, pool: Any) -> None:
        backend = self._cards.get(stream.device_id)
        if stream.ptr == 0:
            raise CaptureError(
                "CUDAGraph", "the default stream cannot be captured",
                hint="with torch.cuda.graph(g): takes another one",
            )  # fmt: skip
        stream.recorder = backend.recorder = Recorder()

    def end_capture(self, stream: SimulatedStream) -> SimulatedGraph:
        recorder = stream.recorder
        assert recorder is not None
        stream.recorder = self._cards.get(stream.device_id).recorder = None
        recorder.end()
        return SimulatedGraph(recorder)

    def drop_pool(self, pool: Any) -> None:
        """A graph keeps its arrays itself."""

    # Memory ---------------------------------------------------------------------------------------

    def _memory(self, index: int) -> Any:
        return self._cards.get(index).card_memory

    def memory_info(self, index: int) -> tuple[int, int]:
        memory = self._memory(index)
        return memory.total - memory.counts.reserved.current, memory.total

    def memory_counts(self, index: int) -> MemoryCounts:
        return self._memory(index).counts

    def release_cached(self, index: int) -> None:
        self._memory(index).release_cached()

    def set_memory_fraction(self, index: int, fraction: float) -> None:
        memory = self._memory(index)
        memory.limit = int(memory.total * fraction)

    def memory_limit(self, index: int) -> int:
        return self._memory(index).limit

    def record_stream(self, array: Any, stream: Any) -> None:
        """What a stream does with an array is done already."""

    # Marks for profilers --------------------------------------------------------------------------

    def range_push(self, message: str) -> None:
        """No profiler looks at a simulated card."""

    def range_pop(self) -> None:
        """No profiler looks at a simulated card."""

    def mark(self, message: str) -> None:
        """No profiler looks at a simulated card."""
