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

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..errors import CodeLocation, EdutorchError, read_line, user_location
from .numpy import Array, Backend

__all__ = ["MakeError", "PendingChecks", "check_later", "clamped", "raise_pending", "read_now"]

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
        location: of the call in the user's code.
    """

    lowest: int
    highest: int
    error: MakeError
    location: CodeLocation


class PendingChecks:
    """The checks of one device, which are read where the host waits for it."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.is_pending = False
        self.rows: dict[Any, int] = {}
        self.checks: list[Check] = []
        self.table = self.new_table()

    def new_table(self) -> Array:
        """Return a table of which no row has seen an index."""
        return self.backend.from_numpy(np.tile(np.array(NOTHING_CAME_BY), (ROWS, 1)))

    def add(self, name: str, index: Array, lowest: int, highest: int, error: MakeError) -> None:
        """Note the lowest and the highest of the elements of an index, by device operations."""
        location = user_location()
        key = (name, location, lowest, highest)
        number = self.rows.get(key)
        if number is None:
            if len(self.checks) == ROWS:  # the one case in which a check waits
                self.read()
                self.rows, self.checks = {}, []
            number = self.rows[key] = len(self.checks)
            self.checks.append(Check(lowest, highest, error, location))
        xp = self.backend.xp
        for column, pick, keep in ((0, index.min(), xp.minimum), (1, index.max(), xp.maximum)):
            kept = self.table[number, column]
            keep(kept, pick.astype(np.int64, copy=False), out=kept)
        self.is_pending = True

    def read(self) -> None:
        """Wait for the device, and raise the error of the first call that was wrong.

        Raises: DimError, or the class that the call itself would have raised.
        """
        self.is_pending = False
        seen = self.table.get()
        for (lowest, highest), check in zip(seen.tolist(), self.checks, strict=False):
            if (lowest, highest) == NOTHING_CAME_BY:
                continue
            if lowest < check.lowest or highest > check.highest:
                wrong = lowest if lowest < check.lowest else highest
                self.table = self.new_table()
                raise found_later(check.error(wrong), check.location)


def found_later(error: EdutorchError, location: CodeLocation) -> EdutorchError:
    """Return an error that says where the call was, and why it is raised elsewhere."""
    rows = {**error.arguments, "call": str(read_line(location))}
    hint = f"{error.hint}; {LATER}" if error.hint else LATER
    return type(error)(error.op, error.message, rows, hint)


_pending: dict[Backend, PendingChecks] = {}


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
        return clamped(backend, index, lowest, highest)
    if backend not in _pending:
        _pending[backend] = PendingChecks(backend)
    _pending[backend].add(name, index, lowest, highest, error)
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
