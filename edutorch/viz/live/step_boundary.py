"""Where a step of a loop with several updates ends: pure logic on positions in the user's code.

A step ends where the innermost loop turns that contains every `optimizer.step()` of a round: of a
GAN, the loop over batches around both updates; with five updates of a critic in a loop of their
own, the loop around that one. Which loops there are is read from the bytecode of the functions that
were running when an update came.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Iterable
from types import CodeType, FrameType
from typing import NamedTuple

Path = tuple[tuple[CodeType, int], ...]
"""The running functions, outermost first, and the byte offset of the instruction in each."""

INTERNAL_MODULES = "edutorch.", "contextlib", "functools"
"""Modules whose functions are called between an update and the loop that asked for it."""

TRAINER = "edutorch.train."


@functools.lru_cache(1000)
def is_user_module(module: str) -> bool:
    """Return True if the functions of a module, by its name, may hold the watched loop."""
    return not module.startswith(INTERNAL_MODULES) or module.startswith(TRAINER)


@functools.lru_cache(1000)
def loop_ranges(code: CodeType) -> tuple[tuple[int, int], ...]:
    """Return the first and the last byte offset of each loop in a function, outer ones first."""
    ends: dict[int, int] = {}
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name == "PUSH_EXC_INFO":
            break  # exception handlers come last, and jump back
        target = instruction.argval
        # A loop is a jump backwards: `while`, `for` and comprehensions all end in one.
        jumps = "JUMP" in name and not name.endswith("NO_INTERRUPT")  # those are of `await`
        if jumps and isinstance(target, int) and target <= instruction.offset:
            ends[target] = max(ends.get(target, 0), instruction.offset)
    return tuple(sorted(ends.items(), key=lambda ends: (ends[0], -ends[1])))


def functions_around(frame: FrameType | None) -> frozenset[CodeType]:
    """Return the functions that called the one in `frame`, where watching begins.

    No loop of theirs turns meanwhile.
    """
    while frame is not None and frame.f_globals.get("__name__", "").startswith(INTERNAL_MODULES):
        frame = frame.f_back
    callers = set()
    while frame is not None and (frame := frame.f_back) is not None:
        callers.add(frame.f_code)
    return frozenset(callers)


def path_to(
    frame: FrameType | None,
    outermost: FrameType | None = None,
    around: frozenset[CodeType] = frozenset(),
) -> Path:
    """Return where the user's functions are that run now, as far as `outermost` or `around`."""
    path = []
    while frame is not None and (frame is outermost or frame.f_code not in around):
        if is_user_module(frame.f_globals.get("__name__", "")):
            path.append((frame.f_code, frame.f_lasti))
        if frame is outermost:
            break
        frame = frame.f_back
    return tuple(reversed(path))


class Loop(NamedTuple):
    """A loop: the calls that led to its function, and its first and last byte offset there."""

    outside: Path
    code: CodeType
    start: int
    end: int

    def contains(self, path: Path) -> bool:
        """Return True if a position lies in this loop, or in what is called from it."""
        depth = len(self.outside)
        if len(path) <= depth or path[:depth] != self.outside:
            return False
        code, offset = path[depth]
        return code is self.code and self.start <= offset <= self.end

    def position(self, path: Path) -> tuple[tuple[int, ...], bool]:
        """Return how far round the loop a position is, to be compared with others.

        Returns: the offsets from this loop inwards, and whether the position is in a further loop:
            then only where that one begins counts, for it may turn many times.
        """
        offsets: list[int] = []
        for depth, (code, offset) in enumerate(path[len(self.outside) :]):
            for start, end in loop_ranges(code):
                inside = depth > 0 or (start, -end) > (self.start, -self.end)
                if inside and start <= offset <= end:
                    return (*offsets, start), True
            offsets.append(offset)
        return tuple(offsets), False


def innermost_loop(path: Path) -> Loop | None:
    """Return the innermost loop around a position."""
    for depth in range(len(path) - 1, -1, -1):
        code, offset = path[depth]
        around = [
            loop_range
            for loop_range in loop_ranges(code)
            if loop_range[0] <= offset <= loop_range[1]
        ]
        if around:
            return Loop(path[:depth], code, *around[-1])
    return None


def has_turned(loop: Loop | None, before: Path, now: Path, updates: bool = False) -> bool:
    """Return True if a loop has begun anew, or is over, since it was at `before`.

    Args:
        updates: there is an update at both positions. If it is the same one, the loop has turned.
    """
    # Outside of its loop, the step is over in any case.
    if loop is None or not loop.contains(now):
        return True
    (last, inner), (position, _) = loop.position(before), loop.position(now)
    return position < last or (position == last and updates and not inner)


class Verdict(NamedTuple):
    """What an update says about steps.

    `late`: the step before was over already, when the loop turned. `over`: one is over now.
    `recount`: how many steps had ended before this round, where later ones were parts of it; None:
    the count is right.
    """

    late: bool
    over: bool
    recount: int | None = None


SAME_END = Verdict(late=False, over=True)
"""The update that ended the last step has ended this one: nothing was learnt."""


class StepBoundary:
    """Learns where the updates of a round are, and decides when a step is over.

    Attributes:
        open: where the last update came that has not ended a step yet.
    """

    def __init__(self) -> None:
        self.open: Path | None = None
        self._sites: dict[Path, int] = {}  # how many steps had ended when each first came
        self._optimizers: dict[Path, set[int]] = {}
        self._ended: tuple[Path, int] | None = None  # where the last step ended, by which optimizer
        self._ends_late = False
        # For the sites known so far: finding them takes a hundredth of a small step.
        self._loops: dict[Path, Loop | None] = {}
        self._last: dict[Path, bool] = {}

    def update(self, path: Path, optimizer: int, counted: int, worked: bool = True) -> Verdict:
        """Handle one update: where it came, of which optimizer, and how many steps were counted.

        Args:
            worked: a backward has run since the last update. `for optimizer in optimizers:
                optimizer.step()` is one update.
        """
        # The common case first: an ordinary loop has one update, always at the same position.
        if worked and self.open is None and self._ended == (path, optimizer):
            return SAME_END
        recount = None
        together = self._ended is not None and self._ended[1] != optimizer and not worked
        if path not in self._sites:
            recount = self._merged_step_count(path, counted)
        self._optimizers.setdefault(path, set()).add(optimizer)
        if together and recount is None and self.open is None and self._ended[0] == path:
            return Verdict(False, False)
        late = self.has_turned(path, updates=True)
        self._ends_late |= late
        over = self._is_last(path)
        self.open = None if over else path
        if over:
            self._ended = path, optimizer
        return Verdict(late, over, recount)

    def has_turned(self, now: Path, updates: bool = False) -> bool:
        """Return True if the step is over because its loop has turned since the last update."""
        last = self.open
        return last is not None and has_turned(self._loop(last), last, now, updates)

    def record_late_end(self) -> None:
        """Record that a step was over when its loop turned."""
        self._ended, self.open, self._ends_late = None, None, True

    @property
    def is_over_at_end(self) -> bool:
        """Whether the updates since the last step are a step, when the loop is over."""
        return self.open is not None and (self._ends_late or self._ended is None)

    def always_ends(self, optimizer: int) -> bool:
        """Return True if each known update of an optimizer ends a step."""
        return all(
            self._is_last(path) and users == {optimizer}
            for path, users in self._optimizers.items()
            if optimizer in users
        )

    def _merged_step_count(self, path: Path, counted: int) -> int | None:
        """Return how many steps had ended before this round, if what was counted is a part of it.

        Called when an update comes from a new position.
        """
        sites = list(self._sites)
        self._sites[path] = counted
        # A new site may lie outside the loop that was thought to be that of the round.
        self._loops.clear()
        self._last.clear()
        loop = self._loop(path)
        others = [site for site in sites if loop is not None and loop.contains(site)]
        if loop is None or not others or self._ended is None:
            return None
        if has_turned(loop, self._ended[0], path):
            return None
        # Updates of an inner loop were counted one by one: go back to where its first turn began.
        direct = any(innermost_loop(site) == loop for site in others)
        return counted - 1 if direct else min(self._sites[site] for site in others)

    def _loop(self, path: Path) -> Loop | None:
        """Return the loop of a round: the outermost around this update that holds one directly."""
        if path not in self._loops:
            own = (innermost_loop(site) for site in (path, *self._sites))
            around = [loop for loop in own if loop is not None and loop.contains(path)]
            self._loops[path] = min(around, key=nesting_key, default=None)
        return self._loops[path]

    def _is_last(self, path: Path) -> bool:
        """Return True if an update is the last one of its round, in the order of the code."""
        if path not in self._last:
            self._last[path] = self._find_last(path)
        return self._last[path]

    def _find_last(self, path: Path) -> bool:
        loop = self._loop(path)
        if loop is None:
            return True
        position, inner = loop.position(path)
        sites: Iterable[Path] = (site for site in self._sites if loop.contains(site))
        return not inner and all(loop.position(site)[0] <= position for site in sites)


def nesting_key(loop: Loop) -> tuple[int, int]:
    """Return a sort key for loops that contain one position, the outermost first."""
    return len(loop.outside), loop.start - loop.end
