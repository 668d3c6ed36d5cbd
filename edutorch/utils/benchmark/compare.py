"""`Compare`: measurements as a table: a row for each sub_label, a column for each description."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .measurement import Measurement, select_unit, trim_sigfig, unit_to_english

__all__ = ["Colorize", "Compare"]

BOLD, GREEN, RED, YELLOW, BLUE = "\033[1m", "\033[92m", "\033[31m", "\033[33m", "\033[34m"
BEST, GOOD, BAD, VERY_BAD = BOLD + GREEN, GREEN, YELLOW, BOLD + RED
RESET = "\033[0m"


class Colorize(enum.Enum):
    """Within what times are colored by how fast they are."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class RowKey(NamedTuple):
    """What the measurements of one row have in common."""

    num_threads: int
    env: str
    name: str


class Compare:
    """A table of measurements for each label.

    Args:
        results: the measurements; those of the same statement are joined.

    >>> from edutorch.utils.benchmark import Compare, Measurement, TaskSpec
    >>> specs = (TaskSpec("f", "", label="sums", sub_label="n=8", description=d) for d in "ab")
    >>> table = Compare([Measurement(1, [1e-3 * (i + 1)], s) for i, s in enumerate(specs)])
    >>> print("\\n".join(str(table).splitlines()[2:4]))
    1 threads: --------------
          n=8  |  1.0  |  2.0
    """

    def __init__(self, results: Sequence[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trim, self._highlight, self._colorize = False, False, Colorize.NONE

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements.

        Raises: ValueError: one of them is something else.
        """
        results = list(results)
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(
                    "Expected an instance of `Measurement`, got "
                    f"{type(result).__name__} instead; hint: Timer(...).timeit() returns one"
                )
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Show only the figures that mean anything, by the spread of the times."""
        self._trim = True

    def highlight_warnings(self) -> None:
        """Mark the times that vary much."""
        self._highlight = True

    def colorize(self, rowwise: bool = False) -> None:
        """Color the times of each column (or row): green is fast, red is slow."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def print(self) -> None:
        """Print the tables."""
        print(str(self))

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = dict.fromkeys(result.task_spec.label for result in merged)
        parts = []
        for label in labels:
            group = [result for result in merged if result.task_spec.label == label]
            parts.append("\n".join(self.render(group)))
        return "\n".join(parts)

    def render(self, results: list[Measurement]) -> list[str]:
        """Return the lines of one table."""
        unit, length = select_unit(min(result.median for result in results))
        descriptions = list(dict.fromkeys(result.task_spec.description for result in results))
        columns = [Column(self, results, description, length) for description in descriptions]
        rows = sorted(
            dict.fromkeys(map(row_key, results)),
            key=lambda key: (key.num_threads, key.env),
        )
        has_envs = len({key.env for key in rows}) > 1
        names = [f"({key.env})  {key.name}" if has_envs else key.name for key in rows]
        indent = 6
        width = max(len(name) + indent for name in names)
        header = "  |  ".join([" " * width, *(column.title() for column in columns)])
        label = results[0].task_spec.label
        title = f" {label} " if label is not None else ""
        lines = ["[" + title.center(len(header) - 2, "-") + "]", header]
        threads = None
        for key, name in zip(rows, names, strict=True):
            if key.num_threads != threads:
                threads = key.num_threads
                lines.append(f"{threads} threads: ".ljust(len(header), "-"))
            cells = [column.cell(key, self.row_times(key, results)) for column in columns]
            lines.append("  |  ".join([(" " * indent + name).ljust(width), *cells]))
        lines += ["", f"Times are in {unit_to_english(unit)}s ({unit})."]
        if self._highlight and any(result.has_warnings for result in results):
            lines.append(
                "(! XX%) Measurement has high variance, where XX is the IQR / median * 100."
            )
        return [*lines, ""]

    def row_times(self, key: RowKey, results: list[Measurement]) -> list[float]:
        """Return the medians of a row."""
        return [result.median for result in results if row_key(result) == key]


def row_key(result: Measurement) -> RowKey:
    """Return the row of a measurement."""
    spec = result.task_spec
    return RowKey(spec.num_threads, spec.env or "", result.as_row_name)


class Column:
    """The measurements of one description."""

    def __init__(
        self, table: Compare, results: list[Measurement], description: str | None, length: float
    ) -> None:
        self.table, self.description, self.length = table, description or "", length
        self.results = {
            row_key(result): result for result in results
            if result.task_spec.description == description
        }  # fmt: skip
        times = [self.shown_time(result) for result in self.results.values()]
        # One digit behind the point, or as many as mean anything in all of the column's times.
        digits = [self.decimals_of(result) for result in self.results.values()]
        self.decimals = min(digits) if table._trim else 1
        self.width = max(len(f"{time:.{self.decimals}f}") for time in times)
        self.warning_width = (
            max(len(self.warning(result)) for result in self.results.values())
            if table._highlight else 0
        )  # fmt: skip

    def shown_time(self, result: Measurement) -> float:
        """Return the median in the unit of the table, with the figures that mean anything."""
        time = result.median / self.length
        return trim_sigfig(time, result.significant_figures) if self.table._trim else time

    def decimals_of(self, result: Measurement) -> int:
        """Return how many digits behind the point mean anything."""
        digits_before = math.ceil(math.log10(max(result.median / self.length, 1e-9)))
        return max(result.significant_figures - digits_before, 0)

    def warning(self, result: Measurement) -> str:
        """Return the mark of a time that varies much."""
        if not result.has_warnings:
            return ""
        return f" (! {result.iqr / result.median * 100:.0f}%)"

    def full_width(self) -> int:
        """Return the width of the column."""
        return max(self.width + self.warning_width, len(self.description))

    def title(self) -> str:
        """Return the description, in the middle."""
        return self.description.center(self.full_width())

    def cell(self, key: RowKey, row_times: list[float]) -> str:
        """Return the time of a row."""
        result = self.results.get(key)
        if result is None:
            return " " * self.full_width()
        time = f"{self.shown_time(result):.{self.decimals}f}".rjust(self.width)
        text = time + (self.warning(result) if self.table._highlight else "").ljust(
            self.warning_width
        )
        text = text.center(self.full_width())
        if self.table._colorize is Colorize.NONE:
            return text
        times = row_times
        if self.table._colorize is Colorize.COLUMNWISE:
            same = [row for row in self.results if row.num_threads == key.num_threads]
            times = [self.results[row].median for row in same]
        return color(text, result.median, min(times))


def color(text: str, time: float, best: float) -> str:
    """Color a time by how it compares with the best."""
    if time <= best * 1.0001:
        return f"{GREEN}{BOLD}{text}{RESET}{RESET}"
    if time > best * 5:
        return f"{RED}{BOLD}{text}{RESET}{RESET}"
    if time <= best * 1.1:
        return f"{GREEN}{text}{RESET}"
    return text if time <= best * 2 else f"{YELLOW}{text}{RESET}"
