"""How often a running loop is looked at, and how it is held."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from ...errors import EdutorchError

SHORTEST = 1 / 30
"""Seconds between two messages at least: a page cannot show more, a server drops them."""

SHARE = 0.0435
"""Looks and messages may take this part of the time. Steps that are only counted take half a
percent more (see `idle_steps.py`), and full looks at a settled loop a tenth: with them, it is 5 %."""

EARLY = 1.0
"""For so many seconds every step is sampled, so that a short loop loses nothing…"""

EARLY_COST = 0.2
"""…unless that has cost so many seconds."""

MOST_SAVED = 0.25
"""So many seconds may be saved for later messages that need a longer wait."""

FIRST, FIRST_SHARE = 3, 0.25
"""The first messages, for which everything is done for the first time, may come sooner."""

UNSEEN_SHARE = 0.002
"""The part of the time where nothing is displayed."""

SHORT_WAIT = 0.05
"""Seconds of one wait: after each, interrupts and commands are looked at."""

ANSWER_LIMIT = 5.0
"""Seconds that a pause asked for by the program waits for a page that can end it, or a pace for one
that shows it."""


class PaceError(EdutorchError, ValueError):
    """A pace was asked for at which no step would ever end."""


def is_pace(value: Any) -> bool:
    """Say whether `value` can be a number of steps per second."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def check_pace(steps_per_second: float | None) -> float | None:
    """Return a pace as it was given; None: as fast as it can.

    Raises: PaceError: it is not a positive number.
    """
    if steps_per_second is not None and not is_pace(steps_per_second):
        raise PaceError(
            "viz.live",
            f"steps_per_second must be positive, got {steps_per_second}",
            hint="use 0.5 for one step every two seconds; None runs at full speed",
        )
    return steps_per_second


class Throttle:
    """Says which steps are worth looking at.

    After something has cost `c` seconds, the next one is due c / share after this one was. Each
    comes late, by the step that is looked at and some more; and what one costs less than it might
    is there for the next one that costs more. So it is the average that counts.
    """

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, share: float = SHARE
    ) -> None:
        self._clock = clock
        self._start = self._next = clock()
        self._early = EARLY_COST
        self._messages = 0
        self._saved = 0.0  # seconds by which cheap messages have waited longer than they had to
        self._owed = 0.0  # seconds that the message after the next one waits longer
        self._apart = False  # whether steps passed since the last look
        self._phase = self._delay = 0
        self.share = share

    @property
    def early(self) -> bool:
        """Whether every step is looked at."""
        return self._early > 0 and self._clock() < self._start + EARLY

    @property
    def next(self) -> float:
        """When the next message is due; 0 while every step is looked at."""
        return 0.0 if self.early else self._next

    def due(self) -> bool:
        """Say whether a message may be sent now."""
        return self._clock() >= self._next

    def sample(self) -> bool:
        """Say whether the step that begins now shall be sampled; asked once in each step.

        Where several networks take turns, none must be missed for ever: between looks that are
        far apart one or two steps more are let pass, now and then.
        """
        if self.early:
            return True
        if not self.due():
            self._apart = True
            return False
        if self._apart and self._delay:
            self._delay -= 1
            return False
        self._apart = False
        self._phase = (self._phase + 1) % 3
        self._delay = self._phase
        return True

    def let_pass(self) -> int:
        """Return how many steps `sample` would let pass when it is due; it is not to do so then."""
        steps, self._delay = self._delay, 0
        return steps

    def looked(self, seconds: float) -> None:
        """Note what a step cost that was sampled, sent or not."""
        self._early -= seconds

    def rest(self) -> None:
        """Note that a message was sent beside the loop: its own next one comes no sooner."""
        self._next = max(self._next, self._clock() + SHORTEST)

    def rest_later(self) -> None:
        """Note the same of the first picture: its numbers follow at once, the next ones wait."""
        self._owed = SHORTEST

    def spent(self, seconds: float) -> None:
        """Note that a message was sent and what it cost, with the step that it tells of."""
        self._messages += 1
        first = self._messages <= FIRST and self.share == SHARE
        share = FIRST_SHARE if first else self.share
        # From when it was due, not from when it came: else each step's length would be lost,
        # and the next one comes late just as well.
        now, needed = self._clock(), seconds / share - self._saved
        wait = max(SHORTEST, needed)
        self._saved = min(wait - needed, MOST_SAVED)
        late = max(0.0, now - self._next) if self._messages > 1 else 0.0
        self._next = now + wait - min(late, wait - SHORTEST / 2) + self._owed
        self._owed = 0.0


class Gate:
    """Where a loop waits while it is paused, or when it is faster than wanted.

    The page's commands arrive on another thread. They only set flags here; the
    loop looks at them at the end of each step.
    """

    def __init__(self, steps_per_second: float | None = None) -> None:
        self.steps_per_second = steps_per_second
        self._last = time.monotonic()
        self._begun = 0.0  # when the first step was to wait
        self._wake = threading.Event()
        self._steps = 0
        self._alone = False
        self.paused = False
        self.answered = False
        self.let_go = False
        self.fetch: Callable[[], bool] | None = None  # see `comm_queue.py`

    @property
    def held(self) -> bool:
        """Whether the loop has to be held at the end of some step, or kept to a pace."""
        return self.paused or self.steps_per_second is not None

    def pause(self) -> None:
        """Hold the loop at the end of a step."""
        self.paused = True

    def resume(self) -> None:
        """Let the loop run."""
        self.paused = False
        self._wake.set()

    def step_once(self) -> None:
        """Let one step through, and hold the loop again."""
        self.paused = True
        self._steps += 1
        self._wake.set()

    def command(self, content: dict[str, Any]) -> None:
        """Do what the page asks for. A speed that makes no sense changes nothing."""
        self.answered = True
        actions = {"pause": self.pause, "resume": self.resume, "step": self.step_once}
        kind, value = content.get("type"), content.get("value")
        if kind == "speed" and (value is None or is_pace(value)):
            self.steps_per_second = value
        actions.get(str(kind), lambda: None)()

    def holds(self, limit: float = ANSWER_LIMIT) -> Iterator[float]:
        """Yield the seconds of each short wait until the loop may go on.

        If no page ever answers, it is let go in the end (`let_go`), and does not wait again for
        one to appear. The waits are short so that an interrupt gets through on every system.
        """
        end = time.monotonic() + limit
        self.let_go = False
        while self.paused:
            self._wake.clear()
            if self._steps:
                self._steps -= 1
                return
            if not self.answered and (self._alone or time.monotonic() > end):
                self._alone, self.let_go, self.paused = True, True, False
                return
            yield SHORT_WAIT
        self._steps = 0

    def wait(
        self, limit: float = ANSWER_LIMIT, meanwhile: Callable[[], None] = lambda: None
    ) -> bool:
        """Wait until the loop may go on. False: no page ever answered, so it was let go.

        Args:
            meanwhile: called again and again.
        """
        for seconds in self.holds(limit):
            if not self._heard():
                self._wake.wait(seconds)
            meanwhile()
        return not self.let_go

    async def wait_async(
        self, limit: float = ANSWER_LIMIT, meanwhile: Callable[[], None] = lambda: None
    ) -> bool:
        """Wait as `wait` does, while other tasks of the event loop run."""
        for seconds in self.holds(limit):
            if not self._heard():
                await asyncio.sleep(seconds)
            meanwhile()
        return not self.let_go

    def delays(self) -> Iterator[float]:
        """Yield the seconds of each short wait until the next step is due. A pause ends it.

        Where no page has answered for long there is nobody to be slow for.
        """
        now = time.monotonic()
        self._begun = self._begun or now
        if not self.answered and now > self._begun + ANSWER_LIMIT:
            return
        while self.steps_per_second is not None and not self.paused:
            left = self._last + 1 / self.steps_per_second - (now := time.monotonic())
            if left <= 0:
                break
            yield min(left, SHORT_WAIT)
        self._last = now

    def keep_pace(self) -> None:
        """Wait until the next step is due."""
        self._heard()
        for seconds in self.delays():
            time.sleep(seconds)
            self._heard()

    async def keep_pace_async(self) -> None:
        """Wait as `keep_pace` does, while other tasks of the event loop run."""
        self._heard()
        for seconds in self.delays():
            await asyncio.sleep(seconds)
            self._heard()

    def _heard(self) -> bool:
        """Fetch the page's commands where they do not come by themselves; say if one came."""
        return self.fetch is not None and self.fetch()
