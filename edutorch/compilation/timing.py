"""Timing of a compiled function: each line of its code is timed while it runs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from .explain import format_table

__all__ = ["Timing", "instrument"]


@dataclass
class Timing:
    """How long each step of a compiled function takes. `print` shows it as a table.

    Attributes:
        title: what was timed.
        steps: by line of `compiled.code`, its time in each call, in seconds.
        shown: the number of lines that are printed, the slowest first.
    """

    title: str
    steps: dict[str, list[float]] = field(default_factory=dict)
    shown: int = 20

    @property
    def medians(self) -> dict[str, float]:
        """The median of each step in seconds, the slowest first."""
        medians_ = {line: median(step) for line, step in self.steps.items() if step}
        return dict(sorted(medians_.items(), key=lambda pair: -pair[1]))

    def __str__(self) -> str:
        medians = self.medians
        whole = sum(medians.values())
        calls = max(map(len, self.steps.values()), default=0)
        lines = [f"{self.title}: {whole * 1e3:.3f} ms in {len(medians)} steps (median of {calls})"]
        rows = [
            (f"{seconds * 1e3:.3f}", f"{seconds / whole:.0%}", shorten(line))
            for line, seconds in list(medians.items())[: self.shown]
        ]
        return "\n".join([*lines, *format_table(("ms", "share", "step"), rows)])

    __repr__ = __str__


def shorten(line: str, width: int = 100) -> str:
    """Shorten a long line; of a kernel's call, show what it computes."""
    call, _, computes = line.partition("  # ")
    if computes:
        line = f"{call.partition('(')[0]}: {computes}"
    return line if len(line) <= width else f"{line[: width - 2]} …"


def instrument(
    source: str, scope: dict[str, Any], title: str
) -> tuple[Callable[[Sequence[Any]], list[Any]], Timing]:  # fmt: skip
    """Return a version of a program that measures the time of each line, and its `Timing`.

    >>> text = "def run(inputs):\\n    y = inputs[0] + 1\\n    return y"
    >>> run, timing = instrument(text, {}, "one")
    >>> run([1]), list(timing.steps)
    (2, ['y = inputs[0] + 1'])
    """
    timing = Timing(title)
    head, *lines = source.splitlines()
    text = [head, "    _before = _clock()"]
    for line in lines:
        text.append(line)
        if re.match(r"    return\b", line):
            continue
        step = line.strip()
        while step in timing.steps:
            step += " "  # the same line once more
        text += [f"    _notes[{len(timing.steps)}](_clock() - _before)", "    _before = _clock()"]
        timing.steps[step] = []
    notes = [step.append for step in timing.steps.values()]
    names = {**scope, "_clock": time.perf_counter, "_notes": notes}
    exec(compile("\n".join(text), "<edutorch.compile, timed>", "exec"), names)
    return names["run"], timing
