"""Streams and events: what runs side by side on a card, and what waits for what."""

from __future__ import annotations

import ctypes
from typing import Any

from ..backends.device import Device, DeviceLike
from ..errors import InvalidValueError
from .devices import card_index, device
from .driver import driver

__all__ = [
    "Event", "ExternalStream", "Stream", "StreamContext", "current_stream", "default_stream",
    "get_stream_from_external", "set_stream", "stream",
]  # fmt: skip


class Stream:
    """A queue of work: what is put into one stream is done in order, beside other streams.

    Args:
        device: the card; None is the current one.
        priority: lower numbers come first: 0, or -1.

    Raises: DeviceError: there is no such card.
    """

    device_type = 1

    def __init__(self, device: DeviceLike = None, priority: int = 0) -> None:
        index = card_index(device)
        self._hold(driver().make_stream(index, priority), index)

    def _hold(self, handle: Any, index: int) -> None:
        self._handle, self.device_index, self._driver = handle, index, driver()

    @classmethod
    def _of(cls, handle: Any, index: int) -> Stream:
        made = object.__new__(Stream)
        made._hold(handle, index)
        return made

    @property
    def device(self) -> Device:
        """The card."""
        return Device("cuda", self.device_index)

    @property
    def cuda_stream(self) -> int:
        """Its address: 0 for the default stream."""
        return self._handle.ptr

    @property
    def stream_id(self) -> int:
        """A number that tells it from the others."""
        return self._handle.ptr

    @property
    def priority(self) -> int:
        """Its priority: lower numbers come first."""
        return self._handle.priority

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.cuda_stream)

    def query(self) -> bool:
        """Return True if all its work is done."""
        return self._handle.done

    def synchronize(self) -> None:
        """Wait until all its work is done."""
        self._handle.synchronize()

    def wait_event(self, event: Event) -> None:
        """Let what comes after this wait for an event; the host does not wait."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Let what comes after this wait for all that is now in another stream."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event (a new one by default) here, and return it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def is_capturing(self) -> bool:
        """Return True while its work is captured as a graph."""
        return self._handle.is_capturing()

    def __enter__(self) -> Stream:
        context = StreamContext(self)
        context.__enter__()
        self.__dict__.setdefault("_contexts", []).append(context)
        return self

    def __exit__(self, *exception: object) -> None:
        self.__dict__["_contexts"].pop().__exit__(*exception)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.cuda_stream, self.device_index) == (
            other.cuda_stream, other.device_index,
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device_index))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream that another library has made, and keeps.

    Args:
        stream_ptr: its address.
        device: its card; None is the current one.
    """

    def __init__(self, stream_ptr: int, device: DeviceLike = None) -> None:
        index = card_index(device)
        self._hold(driver().external_stream(stream_ptr, index), index)


class Event:
    """A point in a stream, to wait for, or to measure the time between two of them.

    Args:
        enable_timing: whether `elapsed_time` may be asked.
        blocking: whether `synchronize` lets other threads run, and does not spin.
        interprocess: whether other processes can use it, which takes `enable_timing=False`.
        external: accepted; in a captured graph events are part of the graph.
    """

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False,
        external: bool = False,
    ) -> None:  # fmt: skip
        if interprocess and enable_timing:
            raise InvalidValueError("Event", "an event for other processes has no timing")
        self._settings = bool(enable_timing), bool(blocking), bool(interprocess)
        self._handle: Any = None
        self._stream: Stream | None = None

    @property
    def cuda_event(self) -> int:
        """Its address: 0 before it is recorded."""
        return getattr(self._handle, "ptr", 0)

    @property
    def device(self) -> Device | None:
        """The card of the stream it was recorded in."""
        return None if self._stream is None else self._stream.device

    def record(self, stream: Stream | None = None) -> None:
        """Record it in a stream: it is done when all work before it is. None: the current one."""
        stream = current_stream() if stream is None else stream
        if self._handle is None:
            with device(stream.device_index):
                self._handle = driver().make_event(*self._settings)
        elif self._stream is not None and self._stream.device_index != stream.device_index:
            raise InvalidValueError(
                "Event.record", "its device does not match the recording stream's",
                {"event": self.device, "stream": stream.device}, "make an event per card",
            )  # fmt: skip
        self._handle.record(stream._handle)
        self._stream = stream

    def wait(self, stream: Stream | None = None) -> None:
        """Let what comes later in a stream wait for it. None: the current stream."""
        if self._handle is not None:
            stream = current_stream() if stream is None else stream
            stream._handle.wait_event(self._handle)

    def query(self) -> bool:
        """Return True if all work before it is done, or it was never recorded."""
        return self._handle is None or self._handle.done

    def synchronize(self) -> None:
        """Wait until all work before it is done."""
        if self._handle is not None:
            self._handle.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds between this event and a later one.

        Raises: ValueError: they were made without `enable_timing`, not recorded, or not done.
        """
        both = (self, end_event)
        if not all(event._settings[0] for event in both):
            raise timing_error("created with argument 'enable_timing=True'")
        if any(event._handle is None for event in both):
            raise timing_error("recorded before calculating elapsed time")
        if not all(event.query() for event in both):
            raise timing_error("completed before calculating elapsed time")
        return driver().elapsed_ms(self._handle, end_event._handle)

    def __repr__(self) -> str:
        if self._handle is None:
            return "<torch.cuda.Event uninitialized>"
        return f"<torch.cuda.Event {self.cuda_event:#x}>"


def timing_error(what: str) -> InvalidValueError:
    """Make the error of `elapsed_time`."""
    hint = "Event(enable_timing=True), record() around the work, then torch.cuda.synchronize()"
    return InvalidValueError("elapsed_time", f"Both events must be {what}.", hint=hint)


def current_stream(device: DeviceLike = None) -> Stream:
    """Return the stream of a card that this thread uses."""
    index = card_index(device)
    return Stream._of(driver().current_stream(index), index)


def default_stream(device: DeviceLike = None) -> Stream:
    """Return the stream that a card uses unless another one is chosen."""
    index = card_index(device)
    return Stream._of(driver().default_stream(index), index)


def get_stream_from_external(data_ptr: int, device: DeviceLike = None) -> Stream:
    """Return the stream at an address, which another library has made."""
    return ExternalStream(data_ptr, device)


def set_stream(stream: Stream | None) -> None:
    """Let this thread use a stream, and its card; None changes nothing.

    `with torch.cuda.stream(s):` does so for a block, and is to be preferred.
    """
    if stream is not None:
        device(stream.device_index).select()
        driver().use_stream(stream._handle)


class StreamContext:
    """Uses a stream, and its card, inside a `with` block; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._before: list[tuple[Stream, Stream]] = []

    def __enter__(self) -> None:
        if self.stream is not None:
            self._before.append((current_stream(), current_stream(self.stream.device_index)))
            set_stream(self.stream)

    def __exit__(self, *exception: object) -> None:
        if self.stream is not None:
            here, there = self._before.pop()
            set_stream(there)
            set_stream(here)


def stream(stream: Stream | None) -> StreamContext:
    """Return a context manager that uses a stream; None changes nothing."""
    return StreamContext(stream)
