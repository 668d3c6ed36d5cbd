"""`Timer`: measures a statement, as the standard library's `timeit` does, with its spread."""

from __future__ import annotations

import enum
import functools
import textwrap
import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...cuda import is_available, synchronize
from ...errors import InvalidValueError, NotHereError
from ...settings import get_num_threads, set_num_threads
from .measurement import Measurement, TaskSpec

__all__ = ["Language", "Timer", "timer"]

TARGET_OVERHEAD = 1e-4
"""A block of runs is so long that reading the clock takes at most this fraction of it."""


class Language(enum.Enum):
    """The language of a statement: Python here, C++ in PyTorch only."""

    PYTHON = 0
    CPP = 1


has_gpu = functools.cache(is_available)


def timer() -> float:
    """Return the time in seconds; a GPU finishes its work first."""
    if has_gpu():
        synchronize()
    return timeit.default_timer()


class Timer:
    """Measures how long a statement takes.

    Unlike `timeit`, it states the number of threads, waits for a GPU, and returns all times.

    Args:
        stmt: the statement, as text.
        setup: what runs before it; global_setup is for C++.
        timer: the clock.
        globals: the names that the statement uses.
        label, sub_label, description, env: what the result is called in a table: see `TaskSpec`.
        num_threads: of an op.

    Raises: NotHereError: a statement in C++.

    >>> from edutorch.utils.benchmark import Timer
    >>> result = Timer("x + 1", globals={"x": 1}).timeit(100)
    >>> result.number_per_run, len(result.times)
    (100, 1)
    """

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "",
        timer: Callable[[], float] = timer, globals: dict[str, Any] | None = None,
        label: str | None = None, sub_label: str | None = None, description: str | None = None,
        env: str | None = None, num_threads: int = 1, language: Any = Language.PYTHON,
    ) -> None:  # fmt: skip
        if language not in (Language.PYTHON, "py", "python"):
            raise NotHereError(
                "benchmark.Timer", f"only statements in Python are measured, not {language}",
                hint="put the C++ code in a library, and call it by ctypes",
            )  # fmt: skip
        if global_setup:
            raise InvalidValueError(
                "benchmark.Timer", "global_setup is used for C++ only",
                {"global_setup": global_setup}, "use setup",
            )  # fmt: skip
        stmt, setup = textwrap.dedent(stmt).strip(), textwrap.dedent(setup).strip()
        self._globals = dict(globals or {})
        self._timer = timeit.Timer(stmt, setup or "pass", timer, self._globals)
        self._task_spec = TaskSpec(
            stmt, setup, "", label, sub_label, description, env, num_threads
        )  # fmt: skip

    @contextmanager
    def _threads(self) -> Iterator[None]:
        before = get_num_threads()
        set_num_threads(self._task_spec.num_threads)
        try:
            yield
        finally:
            set_num_threads(before)

    def _time(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number: int = 1000000) -> Measurement:
        """Return the time of `number` runs, after a hundredth of them as a warm-up."""
        with self._threads():
            self._time(max(number // 100, 2))
            return Measurement(number, [self._time(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Raise an error: `blocked_autorange` repeats.

        Raises: NotHereError: always. (PyTorch raises NotImplementedError too.)
        """
        raise NotHereError(
            "benchmark.Timer.repeat", "see `Timer.blocked_autorange`, which repeats by itself"
        )

    def autorange(self, callback: Any = None) -> None:
        """Raise an error: `blocked_autorange` chooses the number of runs.

        Raises: NotHereError: always. (PyTorch raises NotImplementedError too.)
        """
        raise NotHereError(
            "benchmark.Timer.autorange", "see `Timer.blocked_autorange`, which chooses the number"
        )

    def _block_size(self, min_run_time: float) -> int:
        """Return how many runs make a block that is long beside the clock's own time."""
        overhead = min(self._clock_overhead() for _ in range(5))
        number = 1
        while True:
            time = self._time(number)
            relative = overhead / time
            if time >= min_run_time or (
                relative <= TARGET_OVERHEAD and time >= min_run_time / 1000
            ):
                return number
            number *= 10

    def _clock_overhead(self) -> float:
        return timeit.Timer("pass", timer=self._timer.timer).timeit(0)

    def blocked_autorange(
        self, callback: Callable[[int, float], None] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Return the times of blocks of runs, as many as fit into `min_run_time` seconds.

        The number of runs in a block is chosen so that reading the clock hardly matters.

        Args:
            callback: is called after each block with the number of runs and the time.
        """
        with self._threads():
            number = self._block_size(min_run_time)
            times: list[float] = []
            while sum(times) < min_run_time or not times:
                times.append(self._time(number))
                if callback is not None:
                    callback(number, times[-1])
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Callable[[int, float], None] | None = None,
    ) -> Measurement:  # fmt: skip
        """Return times until their IQR is below `threshold` of the median, or time is up.

        Args:
            min_run_time, max_run_time: in seconds.
        """
        with self._threads():
            number = self._block_size(0.05 * min_run_time)
            times: list[float] = []
            while True:
                times.append(self._time(number))
                if callback is not None:
                    callback(number, times[-1])
                total, result = sum(times), Measurement(number, times, self._task_spec)
                is_enough = total >= min_run_time and len(times) >= 3
                if total >= max_run_time or (is_enough and result.meets_confidence(threshold)):
                    return result

    def collect_callgrind(self, *args: Any, **kwargs: Any) -> None:
        """Raise an error: instructions are not counted.

        Raises: NotHereError: always.
        """
        raise NotHereError(
            "benchmark.Timer.collect_callgrind", "instructions are not counted",
            hint="torch.profiler shows the ops and their times",
        )  # fmt: skip
