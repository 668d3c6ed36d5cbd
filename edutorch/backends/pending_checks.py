"""Checks whose answer is read later: the host does not wait for a device only to check an index.

A device reads the elements of an index long after Python has gone on. To raise at once for one that
is out of range, the host would have to wait; so would a captured step, which may not. Here each
check is a row of a table in the device's memory, which keeps the lowest and the highest index that
came by. Device operations alone update it. The table is read where the host waits anyway, for a
number that the program asks for, and the error is raised there:

    index_select: index 7 is out of bounds for a dimension of size 5
      call  = train.py:12  y = embedding(words)
      hint: valid indices are 0 to 4; it was found here, where the program waited for the device

Until then indices are clamped, so that nothing beyond an array is read or written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from ..errors import CodeLocation, EdutorchError, read_line, user_location
from .numpy import Array, Backend

__all__ = [
    "CapturedChecks", "MakeError", "PendingChecks", "called_at", "check_later", "checks_of",
    "clamped", "raise_pending", "read_now",
]  # fmt: skip

ROWS = 256
"""How many different calls are remembered until the host waits."""

NOTHING_CAME_BY = (np.iinfo(np.int64).max, np.iinfo(np.int64).min)
LATER = "it was found later, where the program waited for the device"

MakeError = Callable[[int], EdutorchError]
"""Makes the error for an index that is out of range."""


class Check(NamedTuple):
    """A row of the table.

    Attributes:
        lowest, highest: the valid indices.
        error: makes the error for another one.
        call: the location of the call in the user's code, or its line as text.
    """

    lowest: int
    highest: int
    error: MakeError
    call: CodeLocation | str


class CheckTable:
    """A table on a device, and the calls that its rows are for.

    Its memory stays where it is: a CUDA graph writes there in each replay.
    """

    def __init__(self, backend: Backend) -> None:
        self.rows: dict[Any, int] = {}
        self.checks: list[Check] = []
        self.array = backend.from_numpy(np.tile(np.array(NOTHING_CAME_BY), (ROWS, 1)))

    def row_of(self, key: Any, check: Check) -> int:
        """Return the row of a call, the next free one for a new call."""
        if key not in self.rows:
            self.rows[key] = len(self.checks)
            self.checks.append(check)
        return self.rows[key]

    def clear(self) -> None:
        """Forget what came by, in place."""
        for column, value in enumerate(NOTHING_CAME_BY):
            self.array[:, column] = value

    def read(self) -> None:
        """Wait for the device, and raise the error of the first call that was wrong."""
        seen = self.array.get()
        for (lowest, highest), check in zip(seen.tolist(), self.checks, strict=False):
            if (lowest, highest) == NOTHING_CAME_BY:
                continue
            if lowest < check.lowest or highest > check.highest:
                wrong = lowest if lowest < check.lowest else highest
                self.clear()
                raise found_later(check.error(wrong), check.call)


class PendingChecks:
    """The checks of one device, which are read where the host waits for it.

    Attributes:
        to_read: the tables that have got something since they were read.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.to_read: list[CheckTable] = []
        self.table = CheckTable(backend)

    @property
    def is_pending(self) -> bool:
        """Whether there is something to read."""
        return bool(self.to_read)

    def add(self, name: str, index: Array, lowest: int, highest: int, error: MakeError) -> None:
        """Note the lowest and the highest of the elements of an index, by device operations."""
        call = _call.get() or user_location()
        key = (name, call, lowest, highest)
        if len(self.table.checks) == ROWS and key not in self.table.rows:
            self.read()  # the one case in which a check waits
            self.table = CheckTable(self.backend)  # a graph may still write into the other one
        row = self.table.row_of(key, Check(lowest, highest, error, call))
        xp = self.backend.xp
        for column, pick, keep in ((0, index.min(), xp.minimum), (1, index.max(), xp.maximum)):
            kept = self.table.array[row, column]
            keep(kept, pick.astype(np.int64, copy=False), out=kept)
        self.expect(self.table)

    def expect(self, table: CheckTable) -> None:
        """Note that a table has to be read at the next wait."""
        if table not in self.to_read:
            self.to_read.append(table)

    def read(self) -> None:
        """Wait for the device, and raise the error of the first call that was wrong.

        Raises: DimError, or the class that the call itself would have raised.
        """
        while self.to_read:
            self.to_read.pop(0).read()


class CapturedChecks:
    """The checks that the kernels of a graph make at each replay.

    Args:
        pending: the checks of its device.
    """

    def __init__(self, pending: PendingChecks) -> None:
        self.pending = pending
        self.tables: list[CheckTable] = []

    @contextmanager
    def captured(self) -> Iterator[None]:
        """Find the checks of a capture, which the block makes: nothing comes by there."""
        before, self.pending.to_read = self.pending.to_read, []
        try:
            yield
        finally:
            self.tables, self.pending.to_read = self.pending.to_read, before

    def replayed(self) -> None:
        """Note that the graph was launched: its tables are read at the next wait."""
        for table in self.tables:
            self.pending.expect(table)


@contextmanager
def called_at(line: str) -> Iterator[None]:
    """Let errors name this line of the user's code: a compiled step runs the call elsewhere."""
    token = _call.set(line)
    try:
        yield
    finally:
        _call.reset(token)


_call: ContextVar[str] = ContextVar("line of the user's code", default="")


def found_later(error: EdutorchError, call: CodeLocation | str) -> EdutorchError:
    """Return an error that says where the call was, and why it is raised elsewhere."""
    line = call if isinstance(call, str) else str(read_line(call))
    rows = {**error.arguments, "call": line}
    hint = f"{error.hint}; {LATER}" if error.hint else LATER
    return type(error)(error.op, error.message, rows, hint)


_pending: dict[Backend, PendingChecks] = {}


def checks_of(backend: Backend) -> PendingChecks:
    """Return the checks of a device."""
    if backend not in _pending:
        _pending[backend] = PendingChecks(backend)
    return _pending[backend]


def check_later(
    backend: Backend, name: str, index: Array, lowest: int, highest: int, error: MakeError
) -> Array:
    """Check on the device that indices are within `lowest` and `highest`; return them clamped.

    While a program is traced for XLA, the check becomes one of the program's own.

    Args:
        name: the op.
        index: an array of the device, not empty.
        error: makes the error for an index that is out of range.
    """
    if backend.defers_checks:
        backend.defer_check((index < lowest) | (index > highest))
    else:
        checks_of(backend).add(name, index, lowest, highest, error)
    return clamped(backend, index, lowest, highest)


def clamped(backend: Backend, index: Array, lowest: int, highest: int) -> Array:
    """Return indices within the bounds, in the same dtype."""
    limits = np.iinfo(index.dtype)
    return backend.xp.clip(index, max(lowest, limits.min), min(highest, limits.max))


def raise_pending(backend: Backend) -> None:
    """Raise the error of a call that gave a device an index out of range; the host waits anyway.

    Raises: DimError: there was one since the last wait.
    """
    pending = _pending.get(backend)
    if pending is not None and pending.is_pending:
        pending.read()


def read_now() -> None:
    """Read the checks of all devices: what `synchronize` does."""
    for backend in tuple(_pending):
        raise_pending(backend)
