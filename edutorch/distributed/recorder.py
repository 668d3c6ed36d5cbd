"""The flight recorder: the last collectives of a process, in a file that others can read.

Each process writes what it calls into a small file in memory (`mmap`), which takes a microsecond or
two. Whoever watches the job reads the files of all its processes (`monitor.py`), also of one that
hangs, is stopped or was killed: a file outlives its process.

The file is a header and a ring of `CAPACITY` entries of fixed size, see `HEADER` and `ENTRY`.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Call", "Recorder", "read_calls", "read_state"]

CAPACITY = 256
HEADER = struct.Struct("<8s I I I I Q d 64s")  # magic, rank, world, pid, state, calls, time, host
ENTRY = struct.Struct("<Q I I Q d d 24s 16s 88s")  # number, group, flags, elements, times, texts
COMPLETE, ASYNC = 1, 2  # the flags
MAGIC = b"edurec03"
RUNNING, LEFT, FAILED = 0, 1, 2
"""The states of a process: at work; after `destroy_process_group` or its end; after an error."""

FOLDER_VARIABLE = "EDUTORCH_RECORDS"


@dataclass(frozen=True, slots=True)
class Call:
    """One collective that a process has called.

    Attributes:
        number: counts the collectives of this group in this process, from 0.
        group: the number of the group; 0 has all ranks.
        is_complete: whether it has returned.
        is_async: whether it is one of MPI's that return at once, which meet only their like.
        name, dtype, elements: what it was called with.
        time, end: when it began and when its result was there, in seconds since 1970; 0: not yet.
        line: file and line of the caller.
    """

    number: int
    group: int
    is_complete: bool
    is_async: bool
    elements: int
    time: float
    end: float
    name: str
    dtype: str
    line: str

    def __str__(self) -> str:
        what = f"{self.name} of {self.elements} {self.dtype}" if self.dtype else self.name
        what += " with async_op=True" if self.is_async else ""
        return f"{what} (call {self.number} of group {self.group}, {self.line})"


class Recorder:
    """Writes the record of this process.

    Args:
        rank, world_size: this process.
        folder: where the files of the job are; by default a new folder of this process.
    """

    def __init__(self, rank: int, world_size: int, folder: str | None = None) -> None:
        folder = folder or os.environ.get(FOLDER_VARIABLE) or tempfile.mkdtemp(prefix="edutorch-")
        self.path = Path(folder) / f"rank{rank}.record"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        size = HEADER.size + CAPACITY * ENTRY.size
        with open(self.path, "wb+") as file:
            file.truncate(size)
            self._memory = mmap.mmap(file.fileno(), size)
        self._calls = 0
        self._rank, self._world_size = rank, world_size
        self._host = os.uname().nodename.encode()[:64] if hasattr(os, "uname") else b""
        self.set_state(RUNNING)

    def set_state(self, state: int) -> None:
        """Record that the process is at work, has left, or has failed."""
        HEADER.pack_into(
            self._memory, 0, MAGIC, self._rank, self._world_size, os.getpid(), state, self._calls,
            time.time(), self._host,
        )  # fmt: skip
        self.state = state

    def begin(
        self,
        name: str,
        group: int,
        number: int,
        dtype: str,
        elements: int,
        is_async: bool = False,
    ) -> int:
        """Record that a collective begins. Returns its place, for `end`."""
        place = HEADER.size + self._calls % CAPACITY * ENTRY.size
        self._calls += 1
        ENTRY.pack_into(
            self._memory, place, number, group, ASYNC * is_async, elements, time.time(), 0.0,
            name.encode(), dtype.encode(), caller().encode()[-88:],
        )  # fmt: skip
        struct.pack_into("<Q", self._memory, COUNT_OFFSET, self._calls)
        return place

    def end(self, place: int) -> None:
        """Record that the collective of this place is complete."""
        struct.pack_into("<d", self._memory, place + END_OFFSET, time.time())
        self._memory[place + FLAGS_OFFSET] |= COMPLETE


COUNT_OFFSET = struct.calcsize("<8s I I I I")
FLAGS_OFFSET, END_OFFSET = struct.calcsize("<Q I"), struct.calcsize("<Q I I Q d")


def caller() -> str:
    """Return file and line of the first caller outside of this library."""
    frame: Any = sys._getframe(1)
    while frame.f_globals.get("__name__", "").startswith("edutorch.") and frame.f_back is not None:
        frame = frame.f_back
    return f"{frame.f_code.co_filename.rpartition(os.sep)[2]}:{frame.f_lineno}"


@dataclass(frozen=True, slots=True)
class State:
    """What the header of a record says of its process."""

    rank: int
    world_size: int
    pid: int
    state: int
    calls: int
    time: float
    host: str


def read_state(path: Path) -> State | None:
    """Read the header of a record; None: it is not written yet."""
    data = path.read_bytes()[: HEADER.size]
    if len(data) < HEADER.size or not data.startswith(MAGIC):
        return None
    _, rank, world_size, pid, state, calls, seconds, host = HEADER.unpack(data)
    return State(rank, world_size, pid, state, calls, seconds, text(host))


def read_calls(path: Path) -> list[Call]:
    """Read the calls of a record, the oldest first: at most `CAPACITY` of them."""
    data = path.read_bytes()
    state = read_state(path)
    if state is None:
        return []
    first = max(0, state.calls - CAPACITY)
    return list(_entries(data, range(first, state.calls)))


def _entries(data: bytes, positions: range) -> Iterator[Call]:
    for position in positions:
        place = HEADER.size + position % CAPACITY * ENTRY.size
        number, group, flags, elements, *rest = ENTRY.unpack_from(data, place)
        states = bool(flags & COMPLETE), bool(flags & ASYNC)
        name, dtype, line = map(text, rest[2:])
        yield Call(number, group, *states, elements, rest[0], rest[1], name, dtype, line)


def text(data: bytes) -> str:
    """Return the text in a field of fixed size."""
    return data.rstrip(b"\0").decode(errors="replace")
