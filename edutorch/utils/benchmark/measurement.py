"""`Measurement`: the times of one statement, their median, and how much they can be trusted.

Other programs on the machine make single runs slower, never faster. So the median is shown rather
than the mean, and beside it the interquartile range (IQR), in which half of the times are.
"""

from __future__ import annotations

import math
import textwrap
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import InvalidValueError

__all__ = ["Measurement", "TaskSpec", "select_unit", "trim_sigfig", "unit_to_english"]

MAX_SIGNIFICANT_FIGURES = 4
MIN_CONFIDENCE_INTERVAL = 25e-9
"""Seconds: what a clock cannot tell apart."""

IQR_WARN_THRESHOLD, IQR_GROSS_WARN_THRESHOLD = 0.1, 0.25
"""Fractions of the median: above them a measurement is called doubtful."""

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
ENGLISH = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}


def select_unit(t: float) -> tuple[str, float]:
    """Return the unit for a time in seconds, "ns" to "s", and its length in seconds.

    >>> from edutorch.utils.benchmark import select_unit
    >>> select_unit(0.0025)
    ('ms', 0.001)
    """
    unit = list(UNITS)[min(max(math.floor(math.log10(t)) // 3 + 3, 0), 3)] if t > 0 else "ns"
    return unit, UNITS[unit]


def unit_to_english(u: str) -> str:
    """Return the name of a unit: "microsecond" for "us"."""
    return ENGLISH[u]


def trim_sigfig(x: float, n: int) -> float:
    """Round to n significant figures.

    >>> from edutorch.utils.benchmark import trim_sigfig
    >>> trim_sigfig(1234.5, 2)
    1200.0
    """
    if x == 0:
        return 0.0
    magnitude = math.ceil(math.log10(abs(x)))
    scale = 10.0 ** (magnitude - n)
    return float(round(x / scale) * scale)


@dataclass(frozen=True)
class TaskSpec:
    """What was measured: the statement, and how it is called in tables.

    Attributes:
        stmt, setup, global_setup: the statement, and what ran before it.
        label: the title of a table; sub_label: a row; description: a column.
        env: the version of the code, for comparisons of versions.
    """

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or else the statement."""
        if self.label is not None:
            return f"{self.label}: {self.sub_label}" if self.sub_label else self.label
        if "\n" not in self.stmt:
            return f"{self.stmt}: {self.sub_label}" if self.sub_label else self.stmt
        sub_label = f" ({self.sub_label})" if self.sub_label else ""
        return f"stmt:{sub_label}\n{textwrap.indent(self.stmt, '  ')}"

    def setup_str(self) -> str:
        """Return the setup as a description has it: empty if there is none."""
        if self.setup == "pass" or not self.setup:
            return ""
        if "\n" in self.setup:
            return f"setup:\n{textwrap.indent(self.setup, '  ')}"
        return f"setup: {self.setup}"


@dataclass(init=True, repr=False)
class Measurement:
    """The times of one statement.

    Args:
        number_per_run: how often the statement ran in each of the times.
        raw_times: the times, in seconds.
        task_spec: what was measured.

    >>> from edutorch.utils.benchmark import Measurement, TaskSpec
    >>> measurement = Measurement(10, [1e-3, 1.1e-3, 1e-3], TaskSpec("x + y", "pass"))
    >>> print(str(measurement).partition("\\n")[2])
    x + y
      Median: 100.00 us
      3 measurements, 10 runs per measurement, 1 thread
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = field(default=None)

    def __getattr__(self, name: str) -> Any:
        if (name != "task_spec" and hasattr(TaskSpec, name)) or name in TaskSpec.__annotations__:
            return getattr(self.task_spec, name)
        raise AttributeError(f"'Measurement' object has no attribute {name!r}", name=name)

    @property
    def times(self) -> list[float]:
        """The times of a single run, in seconds."""
        return [time / self.number_per_run for time in self.raw_times]

    def _sorted(self) -> np.ndarray:
        if not self.raw_times:
            raise InvalidValueError("Measurement", "there are no times")
        return np.sort(np.asarray(self.times))

    @property
    def median(self) -> float:
        """The median."""
        return float(np.median(self._sorted()))

    @property
    def mean(self) -> float:
        """The mean."""
        return float(np.mean(self._sorted()))

    @property
    def iqr(self) -> float:
        """The interquartile range: the distance of the quartiles."""
        low, high = np.quantile(self._sorted(), (0.25, 0.75))
        return float(high - low)

    @property
    def significant_figures(self) -> int:
        """How many figures of the median mean anything, by the spread of the times.

        The median of n times is uncertain by about 1.645 · IQR / (1.35 √n), 90 % of the time.
        """
        spread = self.iqr / (1.349 * math.sqrt(max(len(self.times), 1)))
        interval = max(1.645 * spread, MIN_CONFIDENCE_INTERVAL)
        figures = math.log10(self.median) - math.log10(interval)
        return min(max(math.floor(figures), 1), MAX_SIGNIFICANT_FIGURES)

    @property
    def has_warnings(self) -> bool:
        """Whether the times vary so much that the result is doubtful."""
        return bool(self.warnings())

    def warnings(self) -> list[str]:
        """Return the lines that say so, with the IQR in per cent of the median."""
        if len(self.times) <= 1:
            return []
        relative = self.iqr / self.median
        if relative <= IQR_WARN_THRESHOLD:
            return []
        gross = relative > IQR_GROSS_WARN_THRESHOLD
        return [
            f"WARNING: Interquartile range is {relative * 100:.1f}% of the median measurement.",
            "         This suggests significant environmental influence." if gross
            else "         This could indicate system fluctuation.",
        ]  # fmt: skip

    def meets_confidence(self, threshold: float = IQR_WARN_THRESHOLD) -> bool:
        """Return True if the IQR is below a fraction of the median."""
        return self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        """The label, or else the statement."""
        return self.task_spec.title

    @property
    def env(self) -> str | None:
        """The version of the code that was measured."""
        return self.task_spec.env

    @property
    def as_row_name(self) -> str:
        """How a table calls it."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def __repr__(self) -> str:
        unit, length = select_unit(self.median)
        low, high = np.quantile(self._sorted(), (0.25, 0.75)) / length
        count = len(self.times)
        lines = [super().__repr__(), self.title]
        lines += filter(None, (self.task_spec.description, self.task_spec.setup_str()))
        if "\n" in lines[-1] or "\n" in self.title:  # several lines end with an empty one
            lines.append("")
        if count == 1:
            lines.append(f"  {self.median / length:.2f} {unit}")
        else:
            lines.append(f"  Median: {self.median / length:.2f} {unit}")
        if count >= 4:
            lines.append(f"  IQR:    {(high - low):.2f} {unit} ({low:.2f} to {high:.2f})")
        threads = (
            f"{self.task_spec.num_threads} thread{'s' if self.task_spec.num_threads > 1 else ''}"
        )
        runs = f"{self.number_per_run} runs {'per measurement' if count > 1 else ''}"
        plural = "s" if count > 1 else ""
        lines.append(f"  {count} measurement{plural}, {runs}, {threads}")
        lines += [f"  {line}" for line in self.warnings()]
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Join the measurements of the same statement into one each."""
        groups: defaultdict[TaskSpec, list[Measurement]] = defaultdict(list)
        for measurement in measurements:
            groups[measurement.task_spec].append(measurement)
        return [merge_group(spec, group) for spec, group in groups.items()]


def merge_group(spec: TaskSpec, group: list[Measurement]) -> Measurement:
    """Join measurements of one statement."""
    if len({measurement.number_per_run for measurement in group}) == 1:
        times = [time for measurement in group for time in measurement.raw_times]
        return Measurement(group[0].number_per_run, times, spec)
    return Measurement(1, [time for measurement in group for time in measurement.times], spec)
