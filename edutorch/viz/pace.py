"""How often a running loop is looked at, and how it is held."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

SHORTEST = 1 / 30
"""Seconds between two messages at least: a page cannot show more, a server drops them."""

SHARE = 0.05
"""Watching may take this part of the time."""

EARLY = 1.0
"""For so many seconds every step is sampled, so that a short loop loses nothing."""

SHORT_WAIT = 0.05
"""Seconds of one wait: after each, interrupts and commands are looked at."""

ANSWER_LIMIT = 5.0
"""Seconds that a pause asked for by the program waits for a page that can end it."""


class Throttle:
    """Says which steps are worth looking at.

    After something has cost `c` seconds, the next one comes no sooner than
    c / SHARE later.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._start = self._next = clock()

    def due(self) -> bool:
        """Say whether a message may be sent now."""
        return self._clock() >= self._next

    def sample(self) -> bool:
        """Say whether the step that begins now shall be sampled."""
        return self.due() or self._clock() < self._start + EARLY

    def spent(self, seconds: float) -> None:
        """Note that a message was sent and what it cost."""
        self._next = self._clock() + max(SHORTEST, seconds / SHARE)


class Gate:
    """Where a loop waits while it is paused, or when it is faster than wanted.

    The page's commands arrive on another thread. They only set flags here; the
    loop looks at them at the end of each step.
    """

    def __init__(self, steps_per_second: float | None = None) -> None:
        self.steps_per_second = steps_per_second
        self._last = time.monotonic()
        self._wake = threading.Event()
        self._steps = 0
        self._alone = False
        self.paused = False
        self.answered = False

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

    def command(self, kind: str) -> None:
        """Do what the page asks for."""
        self.answered = True
        actions = {"pause": self.pause, "resume": self.resume, "step": self.step_once}
        actions.get(kind, lambda: None)()

    def wait(
        self, limit: float = ANSWER_LIMIT, meanwhile: Callable[[], None] = lambda: None
    ) -> bool:
        """Wait until the loop may go on. False: no page ever answered, so it was let go.

        Args:
            meanwhile: called again and again.

        Having waited in vain once, it does not wait again for a page to appear.
        The waits are short so that an interrupt gets through on every system.
        """
        end = time.monotonic() + limit
        while self.paused:
            self._wake.clear()
            if self._steps:
                self._steps -= 1
                return True
            if not self.answered and (self._alone or time.monotonic() > end):
                self._alone, self.paused = True, False
                return False
            self._wake.wait(SHORT_WAIT)
            meanwhile()
        self._steps = 0
        return True

    def keep_pace(self) -> None:
        """Wait until the next step is due. A pause ends this wait."""
        now = time.monotonic()
        if self.steps_per_second is not None:
            end = self._last + 1 / self.steps_per_second
            while not self.paused and (now := time.monotonic()) < end:
                time.sleep(min(end - now, SHORT_WAIT))
        self._last = now
