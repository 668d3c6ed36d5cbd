"""Where a step of a loop ends: at the turn of the innermost loop around all its optimizers' steps.

A round of a GAN steps two optimizers, a critic five times before its generator once. One such round
is one step of the picture. Which loop that is can be read off Python's frames: each `step()` leaves
a trail of calls, the trails of one round meet in one frame, and the bytecode of that frame says
which loops lie around both places.
"""

from __future__ import annotations

import dis
import functools
import sys
import weakref
from types import CodeType, FrameType
from typing import Any, NamedTuple

MOST_RECOUNTED = 64
"""If a second optimizer shows up after more steps than this, they were steps of their own."""


class Place(NamedTuple):
    """Where a frame is: its identity, its code and the offset of its instruction."""

    frame: int
    code: CodeType
    offset: int


class Loop(NamedTuple):
    """A loop in a frame: the range of its instructions."""

    frame: int
    code: CodeType
    start: int
    end: int

    def holds(self, place: Place) -> bool:
        """Return True if a place lies in the loop."""
        same = place.frame == self.frame and place.code is self.code
        return same and self.start <= place.offset <= self.end


@functools.lru_cache(maxsize=256)
def loops_of(code: CodeType) -> tuple[tuple[int, int], ...]:
    """Return the (start, end) of each loop in compiled code, the innermost first."""
    loops = []
    for instruction in dis.get_instructions(code):
        if "JUMP_BACKWARD" in instruction.opname and isinstance(instruction.argval, int):
            loops.append((instruction.argval, instruction.offset))
    widest: dict[int, int] = {}  # a `continue` jumps back to the same start
    for start, end in loops:
        widest[start] = max(end, widest.get(start, end))
    return tuple(sorted(widest.items(), key=lambda loop: loop[1] - loop[0]))


def trail(frame: FrameType | None) -> tuple[Place, ...]:
    """Return the places of a frame and of all that called it, the innermost first."""
    places = []
    while frame is not None:
        places.append(Place(id(frame), frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(places)


def common_loop(trails: list[tuple[Place, ...]]) -> Loop | None:
    """Return the innermost loop that holds all trails; None if there is none."""
    first, *others = trails
    for place in first:
        met = [
            next((each for each in other if each[:2] == place[:2]), None) for other in others
        ]
        if None in met:
            continue
        offsets = [place.offset, *(each.offset for each in met if each is not None)]
        for start, end in loops_of(place.code):
            if all(start <= offset <= end for offset in offsets):
                return Loop(place.frame, place.code, start, end)
    return None


def innermost_loop(places: tuple[Place, ...]) -> Loop | None:
    """Return the innermost loop around one trail."""
    return common_loop([places])


class StepBoundary:
    """Told of each `optimizer.step()`, says whether a step of the loop has ended with it.

    Attributes:
        pending: optimizers have stepped in a round that is not known to be over.
    """

    def __init__(self) -> None:
        self.pending = False
        self._optimizers: dict[int, tuple[weakref.ref[Any], tuple[Place, ...]]] = {}
        self._loop: Loop | None = None
        self._round: list[int] = []
        self._rounds: tuple[tuple[int, ...], tuple[int, ...]] = (), ()  # the last two
        self._offset = -1  # of the last step, in the loop's frame

    @property
    def several(self) -> bool:
        """Whether a round has several optimizers."""
        return len(self._optimizers) > 1

    def knows(self, optimizer: Any) -> bool:
        """Return True if an optimizer has stepped before."""
        known = self._optimizers.get(id(optimizer))
        return known is not None and known[0]() is optimizer

    def ends_with(self, optimizer: Any) -> bool:
        """Note that an optimizer has stepped; return True if that ends the step of the loop."""
        if not self.several and self.knows(optimizer):
            return True
        places = trail(sys._getframe(1))
        is_new = not self.knows(optimizer)
        self._optimizers[id(optimizer)] = weakref.ref(optimizer), places
        if not self.several:
            return True
        if is_new:
            self._find_loop()
        if self._loop is None:
            return True
        self._round.append(id(optimizer))
        here = next((place for place in places if self._loop.holds(place)), None)
        if here is None:  # it steps somewhere else: a loop of its own
            self._over()
            return True
        self._offset = here.offset
        if self._is_last(here, places) or tuple(self._round) == self._expected():
            self._over()
            return True
        self.pending = True
        return False

    def has_turned(self) -> bool:
        """Return True, once, if the loop has turned since the last step of a round."""
        if not self.pending or self._loop is None:
            return False
        places = trail(sys._getframe(1))
        here = next((place for place in places if place[:2] == self._loop[:2]), None)
        turned = here is None or not self._loop.holds(here) or here.offset < self._offset
        if here is not None and here.offset == self._offset:  # again, or once more in a loop inside
            turned = innermost_loop(places) == self._loop
        if turned:
            self._over()
        return turned

    def _expected(self) -> tuple[int, ...] | None:
        """Return the order of optimizers in a round, if the last two had the same, and all."""
        before, last = self._rounds
        return last if before == last and set(last) == self._optimizers.keys() else None

    def _over(self) -> None:
        self._rounds = self._rounds[1], tuple(self._round)
        self._round, self.pending, self._offset = [], False, -1

    def _find_loop(self) -> None:
        """Find the loop around the last steps of all optimizers that live."""
        living = {key: known for key, known in self._optimizers.items() if known[0]() is not None}
        self._optimizers = living
        self._loop = common_loop([places for _, places in living.values()])
        self._rounds = (), ()

    def _is_last(self, here: Place, places: tuple[Place, ...]) -> bool:
        """Return True if no other optimizer steps behind this place, nor this one again."""
        assert self._loop is not None
        if innermost_loop(places) != self._loop:
            return False  # in a loop inside: it may step again
        for _, others in self._optimizers.values():
            other = next((place for place in others if self._loop.holds(place)), None)
            if other is not None and other.offset > here.offset:
                return False
        return True
