"""The records of ranks as boxes in lanes: which collective ran when, on which rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...distributed.recorder import FAILED, LEFT, Call, read_calls, read_state

__all__ = ["Box", "Lane", "make_lanes", "read_lanes"]

MOST = 16
"""So many collectives of each rank are drawn, the newest ones: a step or a few."""

STATES = {LEFT: "has left", FAILED: "has failed"}


@dataclass(frozen=True, slots=True)
class Box:
    """One collective of one rank.

    Attributes:
        call: what was called.
        start, stop: when, in seconds since the left end of the picture.
        row: 0, or more where several run at the same time.
    """

    call: Call
    start: float
    stop: float
    row: int


@dataclass(frozen=True, slots=True)
class Lane:
    """What is drawn of one rank.

    Attributes:
        rank: its number.
        note: "" or what has become of it: "has left", "has failed".
        boxes: its newest collectives, the oldest first.
    """

    rank: int
    note: str
    boxes: Sequence[Box]

    @property
    def rows(self) -> int:
        """How many boxes run at the same time, at least 1."""
        return 1 + max((box.row for box in self.boxes), default=0)


def read_lanes(folder: Path) -> list[Lane]:
    """Read the records of all ranks in a folder, ordered by rank.

    Args:
        folder: where the ranks write (`rank0.record`, …).
    """
    ranks = []
    for path in folder.glob("rank*.record"):
        state = read_state(path)
        if state is not None:
            ranks.append((state.rank, STATES.get(state.state, ""), read_calls(path)))
    return make_lanes(sorted(ranks, key=lambda rank: rank[0]))


def make_lanes(ranks: Iterable[tuple[int, str, Sequence[Call]]]) -> list[Lane]:
    """Place the newest collectives of each rank.

    Args:
        ranks: the number of each rank, its note, and its calls, the oldest first.
    """
    newest = [(rank, note, calls[-MOST:]) for rank, note, calls in ranks]
    every = [call for *_, calls in newest for call in calls]
    if not every:
        return [Lane(rank, note, []) for rank, note, _ in newest]
    # All ranks from one moment on: the clocks of one computer agree.
    left = min(call.time for call in every)
    right = max(max(call.time, call.end) for call in every)
    return [Lane(rank, note, place(calls, left, right)) for rank, note, calls in newest]


def place(calls: Sequence[Call], left: float, right: float) -> list[Box]:
    """Return the boxes of one rank; those that overlap get rows of their own."""
    boxes: list[Box] = []
    ends: list[float] = []  # of the last box in each row
    for call in calls:
        start, stop = call.time - left, (call.end if call.is_complete else right) - left
        row = next((row for row, end in enumerate(ends) if end <= start), len(ends))
        ends[row : row + 1] = [stop]
        boxes.append(Box(call, start, max(start, stop), row))
    return boxes
