"""Measuring two or more rivals fairly on a machine that is never quite still.

* They run in turns, many rounds, and each round in another order: a slow spell of
  the machine hits all of them. A rival may sit in a process of its own (`apart.py`).
* A figure is the median over the rounds. A ratio is the median of the ratios
  *within* rounds, so that slow rounds cancel out.
* The garbage collector stays on, as in real use. Each sample starts with nothing
  left over from a rival, and what the imports left behind is not searched again.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

Work = Callable[[], object]


@dataclass(frozen=True)
class Result:
    """The samples of one contest, in seconds per run: one per rival and round."""

    samples: dict[str, list[float]]

    def median(self, rival: str) -> float:
        return statistics.median(self.samples[rival])

    def ratio(self, rival: str, against: str) -> float:
        pairs = zip(self.samples[rival], self.samples[against], strict=True)
        return statistics.median(one / other for one, other in pairs)


def runs_per_sample(work: Work, seconds: float) -> int:
    """Say how often `work` must run to fill a sample of about `seconds`."""
    work()
    number = 1
    while True:
        took = sample(work, number)
        if took >= seconds / 4:
            return max(1, round(number * seconds / took))
        number *= 4


def sample(work: Work, number: int) -> float:
    """Run `work` that often and return the seconds it took."""
    if hasattr(work, "sample"):  # in another process
        return work.sample(number)  # type: ignore[attr-defined]
    gc.collect()
    work()  # caches, branch predictors and thread pools were the rival's
    start = perf_counter()
    for _ in range(number):
        work()
    return perf_counter() - start


def contest(
    rivals: dict[str, Work], rounds: int, seconds: float, budget: float = float("inf")
) -> Result:
    """Let the rivals run in turns, `rounds` samples of about `seconds` each.

    Once `budget` seconds are over no new round begins, but there are at least three.
    """
    start = perf_counter()
    gc.freeze()
    run_counts = {name: runs_per_sample(work, seconds) for name, work in rivals.items()}
    samples: dict[str, list[float]] = {name: [] for name in rivals}
    order = list(rivals)
    for turn in range(rounds):
        if turn >= 3 and perf_counter() - start > budget:
            break
        for name in order:
            samples[name].append(sample(rivals[name], run_counts[name]) / run_counts[name])
        order.reverse()
    return Result(samples)


def geometric_mean(values: list[float]) -> float:
    return statistics.geometric_mean(values)
