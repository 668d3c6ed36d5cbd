"""Finds what is wrong with a job, from the records of its ranks and the state of its processes.

It names a fault only if it is one for certain: a slow rank, or one that computes alone for a while,
is none. What is certain: a rank has failed or was killed, is stopped for long, has left while
others wait for it, or two ranks have called different collectives at the same place.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..recorder import LEFT, Call, State, read_calls, read_state

__all__ = ["Fault", "Monitor"]

STOPPED_LIMIT = 8.0
"""Seconds after which a stopped process is a fault: a pause of some seconds is none."""

LEFT_LIMIT = 3.0
"""Seconds that others may wait for a rank that has left: their last messages may be on the way."""

# All ranks call these with the same number of elements.
SAME_SIZE = {
    "all_reduce", "reduce", "broadcast", "all_gather", "all_gather_into_tensor", "gather",
    "scatter", "reduce_scatter", "reduce_scatter_tensor",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a job cannot go on.

    Attributes:
        rank: who is to blame; None: it cannot be said.
        cause: a sentence without the rank: "was killed by signal 9".
        details: lines that belong to it, such as a traceback.
        waiting: what the other ranks were doing, a line each.
        host: the computer of the rank; "" where it is not known.
    """

    rank: int | None
    cause: str
    details: Sequence[str] = ()
    waiting: Sequence[str] = ()
    host: str = ""


@dataclass(slots=True)
class Rank:
    """What is known of one rank at this moment."""

    number: int
    pid: int
    state: State | None
    calls: list[Call]

    def open_call(self) -> Call | None:
        """Return the oldest collective that has not returned: what the rank waits in."""
        return next((call for call in self.calls if not call.is_complete), None)


@dataclass(slots=True)
class Monitor:
    """Watches the ranks of one computer.

    Args:
        folder: their records.
        world_size: how many there are.
    """

    folder: Path
    world_size: int
    first_seen: dict[tuple[str, int], float] = field(default_factory=dict)

    def ranks(self) -> list[Rank]:
        """Read the records of all ranks that have begun."""
        ranks = []
        for number in range(self.world_size):
            pid_file = self.folder / f"rank{number}.pid"
            if not pid_file.exists():
                continue
            record = self.folder / f"rank{number}.record"
            state = read_state(record) if record.exists() else None
            calls = read_calls(record) if state else []
            text = pid_file.read_text()
            ranks.append(Rank(number, int(text or 0), state, calls))
        return ranks

    def look(self) -> Fault | None:
        """Return a fault that is certain, or None."""
        ranks = self.ranks()
        # A failure of MPI is what follows from a difference, so that is looked for first.
        for rule in (self.different, self.failed, self.stopped, self.left):
            fault = rule(ranks)
            if fault is not None:
                return with_host(fault, ranks)
        return None

    def lasts(self, what: str, rank: int, is_so: bool, limit: float) -> bool:
        """Return True if something has been so at each look for longer than `limit` seconds."""
        key = (what, rank)
        if not is_so:
            self.first_seen.pop(key, None)
            return False
        return time.monotonic() - self.first_seen.setdefault(key, time.monotonic()) > limit

    def state_of(self, rank: Rank) -> str:
        """Return the state of a rank's process, of one on another computer as its node says."""
        told = self.folder / f"rank{rank.number}.state"
        return told.read_text() if told.exists() else process_state(rank.pid)

    # The rules ----------------------------------------------------------------------------------

    def failed(self, ranks: Sequence[Rank]) -> Fault | None:
        """Return the fault of the first rank that has raised."""
        failures = []
        for rank in ranks:
            path = self.folder / f"rank{rank.number}.error"
            if path.exists():
                failures.append((json.loads(path.read_text()), rank.number))
        if not failures:
            return None
        failure, number = min(failures, key=lambda pair: pair[0]["time"])
        lines = failure["traceback"].rstrip().splitlines()
        return Fault(
            number, f"has failed: {failure['message']}", shorten(lines, 20),
            waiting_lines(ranks, {number}),
        )  # fmt: skip

    def different(self, ranks: Sequence[Rank]) -> Fault | None:
        """Return a fault if two ranks have called different collectives at the same place."""
        calls: dict[tuple[int, int], tuple[int, Call]] = {}
        for rank in ranks:
            for call in rank.calls:
                if call.name not in SAME_SIZE and call.name != "barrier":
                    continue
                other_rank, other = calls.setdefault((call.group, call.number), (rank.number, call))
                if facts_of(call) == facts_of(other):
                    continue
                odd = odd_one([r.calls for r in ranks], [r.number for r in ranks], call)
                cause = "called another collective than the others, at the same place"
                return Fault(
                    odd, "has two ranks that do not call the same" if odd is None else cause,
                    [f"rank {other_rank} called {other}", f"rank {rank.number} called {call}"],
                    waiting_lines(ranks, set()),
                )  # fmt: skip
        return None

    def stopped(self, ranks: Sequence[Rank]) -> Fault | None:
        """Return a fault if a process has been stopped for long."""
        for rank in ranks:
            if self.lasts("stopped", rank.number, self.state_of(rank) == "T", STOPPED_LIMIT):
                return Fault(
                    rank.number, f"has been stopped (SIGSTOP) for {STOPPED_LIMIT:g} s",
                    [f"continue it with: kill -CONT {rank.pid}"],
                    waiting_lines(ranks, {rank.number}),
                )  # fmt: skip
        return None

    def left(self, ranks: Sequence[Rank]) -> Fault | None:
        """Return a fault if a rank has left, and others wait for it."""
        waiting = [rank for rank in ranks if (call := rank.open_call()) and call.group == 0]
        for rank in ranks:
            has_left = rank.state is not None and rank.state.state == LEFT
            if self.lasts("left", rank.number, has_left and bool(waiting), LEFT_LIMIT):
                made = rank.state.calls if rank.state else 0
                return Fault(
                    rank.number, f"left after {made} collectives, and the others wait for it",
                    [f"its last one: {rank.calls[-1]}"] if rank.calls else [],
                    waiting_lines(ranks, {rank.number}),
                )  # fmt: skip
        return None


def with_host(fault: Fault, ranks: Sequence[Rank]) -> Fault:
    """Return the fault with the computer that its rank is on."""
    hosts = [rank.state.host for rank in ranks if rank.number == fault.rank and rank.state]
    return replace(fault, host=hosts[0] if hosts else "")


def facts_of(call: Call) -> tuple[object, ...]:
    """Return what has to be the same in the calls of all ranks."""
    elements = call.elements if call.name in SAME_SIZE else None
    return call.name, call.dtype, call.is_async, elements


def odd_one(calls: Sequence[Sequence[Call]], members: Sequence[int], call: Call) -> int | None:
    """Return the rank whose call differs from those of all others; None if there are several."""
    same_place = {
        number: next((facts_of(c) for c in made
                      if (c.group, c.number) == (call.group, call.number)), None)
        for number, made in zip(members, calls, strict=True)
    }  # fmt: skip
    there = [facts for facts in same_place.values() if facts is not None]
    alone = [number for number, facts in same_place.items() if facts and there.count(facts) == 1]
    return alone[0] if len(alone) == 1 and len(there) > 2 else None


def waiting_lines(ranks: Sequence[Rank], without: set[int]) -> list[str]:
    """Say what each rank is doing, a line each."""
    lines = []
    for rank in ranks:
        if rank.number in without:
            continue
        call = rank.open_call()
        if call is not None:
            seconds = max(0.0, time.time() - call.time)
            lines.append(f"rank {rank.number} waits in {call} for {seconds:.1f} s")
        elif rank.calls:
            lines.append(f"rank {rank.number} is behind {rank.calls[-1]}")
        else:
            lines.append(f"rank {rank.number} has not called a collective")
    return lines


def process_state(pid: int) -> str:
    """Return the state of a process as Linux writes it: R, S, D, T, Z; "" if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[0]


def shorten(lines: Sequence[str], most: int) -> list[str]:
    """Return the lines, with those in the middle left out if there are many."""
    if len(lines) <= most:
        return list(lines)
    half = most // 2
    return [*lines[:half], f"… {len(lines) - 2 * half} lines …", *lines[-half:]]
