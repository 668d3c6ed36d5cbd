"""What looking at a step costs: how much longer it takes than others, and what comes after it."""

from __future__ import annotations

import math
import time
from bisect import bisect
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from itertools import pairwise

AFTERWARDS = 0.012
"""For so many seconds after a message, steps are slower: other numbers are in the caches, and
another program reads it."""


def upper_median(numbers: Iterable[float]) -> float:
    """Return the median; of an even number of them, the upper one. `statistics` takes longer."""
    ordered = sorted(numbers)
    return ordered[len(ordered) // 2]


class OverheadMeter:
    """Finds what looking at a step really costs: how much longer it takes than the others.

    The recorder's own clock misses what makes an op that is listened to slower than others. But
    steps also differ by themselves: so the answer lies between once and `MOST` times that clock.

    Attributes:
        ended: when the last step ended that was not only counted.
    """

    KEPT = 15
    MOST = 4.0
    SURE, MOST_YET = 3, 0.02
    """Of fewer glances none is taken for so many seconds: something else may have come between."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._plain: deque[float] = deque(maxlen=self.KEPT)
        self._glances = defaultdict[Hashable, deque[float]](partial(deque, maxlen=self.KEPT))
        self._afterwards: deque[float] = deque(maxlen=self.KEPT)
        self._after = 0.0  # seconds
        self._sent = False  # whether a message went out since the last steps that were only counted
        self._began = self.ended = clock()

    def begin(self) -> None:
        """Note that a step begins now."""
        self._began = self._clock()

    def rested(self, ends: Sequence[float]) -> None:
        """Note when steps ended of which nothing else was to be known."""
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

    def sent(self) -> float:
        """Note that a message is sent now; return how much longer the steps after one take."""
        self._sent = True
        return self._after

    def end(self, sampled: bool, own: float, glanced: Hashable = None) -> float:
        """Note that it has ended, and return what looking at it cost.

        Args:
            sampled: whether it was looked at.
            own: seconds by the recorder's own clock.
            glanced: the kind of glance that was taken at it, of which that clock sees only the end.
        """
        self.ended = self._clock()
        took = self.ended - self._began
        if not sampled and not glanced:
            self._plain.append(took)
            return 0.0
        if not self._plain:
            return 2 * own
        longer = took - upper_median(self._plain)
        if sampled:
            return min(max(own, longer), self.MOST * own)
        alike = self._glances[glanced]
        alike.append(longer)
        most = math.inf if len(alike) >= self.SURE else self.MOST_YET
        return max(own, min(upper_median(alike), most))
