"""What sampling a step costs: how much longer it takes than others, and the steps after it."""

from __future__ import annotations

import math
import time
from bisect import bisect
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from itertools import pairwise

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
    """With fewer fast samples than this, none counts more seconds: other work may interfere."""

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
            sampler_type: the type of fast sample, of which that clock sees only the end.
        """
        self.ended = self._clock()
        duration = self.ended - self._began
        if not sampled and not sampler_type:
            self._plain.append(duration)
            return 0.0
        if not self._plain:
            return 2 * own
        longer = duration - upper_median(self._plain)
        if sampled:
            return min(max(own, longer), self.MOST * own)
        of_same_type = self._fast_samples[sampler_type]
        of_same_type.append(longer)
        most = math.inf if len(of_same_type) >= self.SURE else self.MOST_YET
        return max(own, min(upper_median(of_same_type), most))
