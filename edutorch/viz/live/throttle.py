"""How often a running loop is sampled, and how it is paused or slowed down."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from bisect import bisect
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from ...errors import EdutorchError

SHORTEST = 1 / 30
"""Minimum seconds between two messages: a page cannot show more, a server drops them."""

SHARE = 0.0435
"""Samples and messages may take this share of the time. Steps that are only counted take half a
percent more (see `idle_steps.py`), full samples of an unchanged loop a tenth: together, 5 %."""

EARLY = 1.0
"""For this many seconds every step is sampled, so that a short loop loses nothing…"""

EARLY_COST = 0.2
"""…unless that has cost this many seconds."""

MOST_SAVED = 0.25
"""This many seconds may be saved for later messages that need a longer wait."""

FIRST, FIRST_SHARE = 3, 0.25
"""The first messages, for which everything is done for the first time, may come sooner."""

UNSEEN_SHARE = 0.002
"""The share of the time where nothing is displayed."""

SHORT_WAIT = 0.05
"""Seconds of one wait: after each, interrupts and commands are checked."""

ANSWER_LIMIT = 5.0
"""Seconds that a pause requested by the program waits for a page that can end it, or a pace for one
that shows it."""


class PaceError(EdutorchError, ValueError):
    """The requested pace would never end a step."""


def is_pace(value: object) -> bool:
    """Return True if `value` can be a number of steps per second."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def check_pace(steps_per_second: float | None) -> float | None:
    """Return a pace unchanged; None: as fast as it can.

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
    """Decides which steps are worth sampling.

    After something has cost `c` seconds, the next one is due c / share after this one was. Each
    comes late, by the sampled step and some more; and what one costs less than it might
    is left for the next one that costs more. So it is the average that counts.
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
        self._apart = False  # whether steps passed since the last sample
        self._phase = self._delay = 0
        self.share = share

    @property
    def is_early(self) -> bool:
        """Whether every step is sampled."""
        return self._early > 0 and self._clock() < self._start + EARLY

    @property
    def next(self) -> float:
        """When the next message is due; 0 while every step is sampled."""
        return 0.0 if self.is_early else self._next

    def is_due(self) -> bool:
        """Return True if a message may be sent now."""
        return self._clock() >= self._next

    def should_sample(self) -> bool:
        """Return True if the step that begins now shall be sampled; called once in each step.

        Where several networks take turns, none must be missed for ever: between samples that are
        far apart one or two more steps are skipped, now and then.
        """
        if self.is_early:
            return True
        if not self.is_due():
            self._apart = True
            return False
        # 0, 1, 2, 0, … steps: with a fixed stride, two networks in turns would show only one.
        if self._apart and self._delay:
            self._delay -= 1
            return False
        self._apart = False
        self._phase = (self._phase + 1) % 3
        self._delay = self._phase
        return True

    def skip(self) -> int:
        """Return how many steps `should_sample` would skip when it is due; then it does not."""
        steps, self._delay = self._delay, 0
        return steps

    def record_look(self, seconds: float) -> None:
        """Record the cost of a step that was sampled, sent or not."""
        self._early -= seconds

    def delay_next(self) -> None:
        """Record a message that was sent beside the loop, which delays the loop's next one."""
        self._next = max(self._next, self._clock() + SHORTEST)

    def delay_after_next(self) -> None:
        """Record the first picture: its values follow at once, the next ones wait."""
        self._owed = SHORTEST

    def record_message(self, seconds: float) -> None:
        """Record that a message was sent and what it cost, including the step it is about."""
        self._messages += 1
        # A student who starts a cell waits for the first picture; imports and caches make it dear.
        first = self._messages <= FIRST and self.share == SHARE
        share = FIRST_SHARE if first else self.share
        # From when it was due, not from when it came: else each step's length would be lost,
        # and the next one comes late just as well.
        now, needed = self._clock(), seconds / share - self._saved
        wait = max(SHORTEST, needed)
        # Limited: after a quiet minute, a burst of messages would slow the loop down.
        self._saved = min(wait - needed, MOST_SAVED)
        late = max(0.0, now - self._next) if self._messages > 1 else 0.0
        self._next = now + wait - min(late, wait - SHORTEST / 2) + self._owed
        self._owed = 0.0


class Gate:
    """Holds a loop while it is paused, or when it is faster than wanted.

    The page's commands arrive on another thread. They only set flags here; the
    loop checks them at the end of each step.
    """

    def __init__(self, steps_per_second: float | None = None) -> None:
        self.steps_per_second = steps_per_second
        self._last = time.monotonic()
        self._begun = 0.0  # when the first step had to wait
        self._wake = threading.Event()
        self._steps = 0
        self._alone = False
        self.paused = False
        self.answered = False
        self.released = False
        self.stopped = False
        self.fetch: Callable[[], bool] | None = None  # see `comm_queue.py`
        self.rest: Callable[[float], object] = self._wake.wait
        self.sleep: Callable[[float], object] = time.sleep

    @property
    def is_held(self) -> bool:
        """Whether the loop has to be held at the end of some step, or limited to a pace."""
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

    def stop(self) -> None:
        """End the loop after this step, as Ctrl-C does."""
        self.stopped = True
        self.resume()

    def check_stop(self) -> None:
        """Raise KeyboardInterrupt if the page has asked for it."""
        if self.stopped:
            self.stopped = False
            raise KeyboardInterrupt

    def command(self, content: dict[str, Any]) -> None:
        """Do what the page requests. An invalid speed changes nothing."""
        self.answered = True
        actions = {
            "pause": self.pause, "resume": self.resume, "step": self.step_once, "stop": self.stop
        }  # fmt: skip
        message_type, value = content.get("type"), content.get("value")
        if message_type == "speed" and (value is None or is_pace(value)):
            self.steps_per_second = value
        actions.get(str(message_type), lambda: None)()

    def wait_times(self, limit: float = ANSWER_LIMIT) -> Iterator[float]:
        """Yield the seconds of each short wait until the loop may go on.

        If no page ever answers, it is released in the end (`released`), and does not wait again for
        one to appear. The waits are short so that an interrupt gets through on every system.
        """
        end = time.monotonic() + limit
        self.released = False
        while self.paused:
            # Cleared before the flags are read: a click in between wakes the next wait at once.
            self._wake.clear()
            if self._steps:
                self._steps -= 1
                return
            if not self.answered and (self._alone or time.monotonic() > end):
                self._alone, self.released, self.paused = True, True, False
                return
            yield SHORT_WAIT
        self._steps = 0

    def wait(
        self, limit: float = ANSWER_LIMIT, meanwhile: Callable[[], None] = lambda: None
    ) -> bool:
        """Wait until the loop may go on. False: no page ever answered, so it was released.

        Args:
            meanwhile: called again and again.
        """
        for seconds in self.wait_times(limit):
            if not self._fetch_commands():
                self.rest(seconds)
            meanwhile()
        return not self.released

    async def wait_async(
        self, limit: float = ANSWER_LIMIT, meanwhile: Callable[[], None] = lambda: None
    ) -> bool:
        """Wait as `wait` does, while other tasks of the event loop run."""
        for seconds in self.wait_times(limit):
            if not self._fetch_commands():
                await asyncio.sleep(seconds)
            meanwhile()
        return not self.released

    def delay_times(self) -> Iterator[float]:
        """Yield the seconds of each short wait until the next step is due. A pause ends it.

        Where no page has answered for long there is nobody to be slow for.
        """
        now = time.monotonic()
        # From the first step that had to wait: a page takes seconds to open.
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
        self._fetch_commands()
        for seconds in self.delay_times():
            self.sleep(seconds)
            self._fetch_commands()

    async def keep_pace_async(self) -> None:
        """Wait as `keep_pace` does, while other tasks of the event loop run."""
        self._fetch_commands()
        for seconds in self.delay_times():
            await asyncio.sleep(seconds)
            self._fetch_commands()

    def _fetch_commands(self) -> bool:
        """Poll the page's commands where they do not arrive by themselves; True: one came."""
        return self.fetch is not None and self.fetch()


AFTERWARDS = 0.012
"""For this many seconds after a message, steps are slower: the caches hold other data, and
another program reads the message."""


def upper_median(values: Iterable[float]) -> float:
    """Return the median; of an even number of values, the upper one. `statistics` takes longer."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


class OverheadMeter:
    """Measures the real cost of sampling a step: how much longer it takes than the others.

    The recorder's own clock misses what makes an op with a listener slower than others. But
    steps also differ by themselves: so the result is limited to between once and `MOST` times that
    clock.

    Attributes:
        ended: when the last step ended that was not only counted.
    """

    KEPT = 15
    MOST = 4.0
    SURE, MOST_YET = 3, 0.02
    """With fewer light samples than this, none counts more seconds: other work may interfere."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._plain: deque[float] = deque(maxlen=self.KEPT)
        self._fast_samples = defaultdict[Hashable, deque[float]](partial(deque, maxlen=self.KEPT))
        self._afterwards: deque[float] = deque(maxlen=self.KEPT)
        self._after = 0.0  # seconds
        self._sent = False  # whether a message was sent since the last steps that were only counted
        self._began = self.ended = clock()

    def begin(self) -> None:
        """Record that a step begins now."""
        self._began = self._clock()

    def record_idle(self, ends: Sequence[float]) -> None:
        """Record when steps ended that were only counted."""
        # Only after a message are the first steps slower; else all of them are alike.
        right_after = max(1, bisect(ends, self._began + AFTERWARDS)) if self._sent else len(ends)
        if right_after < len(ends):
            self._compare(ends[right_after - 1] - self._began, right_after, ends)
        else:
            latest = (self._began, *ends)[-self.KEPT - 1 :]
            self._plain.extend(after - before for before, after in pairwise(latest))
        self._sent = False
        self._began = ends[-1]

    def _compare(self, seconds: float, count: int, ends: Sequence[float]) -> None:
        """Compare the `count` steps right after a message, and their time, with later ones."""
        usual = (ends[-1] - ends[count - 1]) / (len(ends) - count)
        self._plain.append(usual)
        self._afterwards.append(seconds - count * usual)
        known = len(self._afterwards) >= self.SURE
        self._after = max(0.0, upper_median(self._afterwards)) if known else 0.0

    def record_message(self) -> float:
        """Record that a message is sent now; return how much longer the steps after one take."""
        self._sent = True
        return self._after

    def end(self, sampled: bool, own: float, sampler_type: Hashable = None) -> float:
        """Record that the step has ended, and return what sampling it cost.

        Args:
            sampled: whether it was sampled in full.
            own: seconds by the recorder's own clock.
            sampler_type: the type of light sample, of which that clock sees only the end.
        """
        self.ended = self._clock()
        duration = self.ended - self._began
        if not sampled and not sampler_type:
            self._plain.append(duration)
            return 0.0
        # No step to compare with yet: half of the cost is usually outside the recorder's clock.
        if not self._plain:
            return 2 * own
        # The median, since a garbage collection or another program makes single steps far longer.
        longer = duration - upper_median(self._plain)
        if sampled:
            return min(max(own, longer), self.MOST * own)
        of_same_type = self._fast_samples[sampler_type]
        of_same_type.append(longer)
        most = math.inf if len(of_same_type) >= self.SURE else self.MOST_YET
        return max(own, min(upper_median(of_same_type), most))
