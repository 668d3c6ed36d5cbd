"""What compilation did to a graph: which ops became one kernel, what that saves, and the time.

`print(compiled.explain())` shows an `Explanation`, `print(compiled.timed(x, y))` a `Timing`: each
line of the generated code is timed while it runs.
"""

from __future__ import annotations

import html
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

from .fusion_groups import Group, Unit
from .kernel_cache import Kernel
from .memory_planning import Plan, peak_bytes
from .program_codegen import Fused
from .values import Program, Value, operands_of

__all__ = ["Explanation", "Timing", "Steps", "explain_steps", "instrument"]


Table = tuple[tuple[str, ...], Sequence[Sequence[str]]]
"""The titles of the columns, and the rows."""


@dataclass
class Explanation:
    """What was fused, what was not and why, and the memory before and after.

    `print` shows it as text; a notebook shows tables.

    Attributes:
        fused: for each kernel its name, its ops, the number of elements, the bytes moved by its
            ops one by one and by the kernel, and whether it is compiled.
        alone: the ops that are not fused, and why.
        moved: bytes read and written by all steps, before and after.
        peak: peak memory in bytes, before and after.
        written_over: the number of results written over an array that is no longer needed.
    """

    fused: list[tuple[str, str, int, int, int, str]] = field(default_factory=list)
    alone: list[tuple[str, str]] = field(default_factory=list)
    moved: tuple[int, int] = (0, 0)
    peak: tuple[int, int] = (0, 0)
    written_over: int = 0

    def __str__(self) -> str:
        kernels, unfused, sums = self.tables()
        lines = [f"{len(self.fused)} fused kernels"]
        if self.fused:
            lines += format_table(*kernels)
        if self.alone:
            lines += ["", f"{len(self.alone)} steps are not fused", *format_table(*unfused)]
        lines += ["", *(f"{what:<16} {before:>10} before {after:>10} after"
                        for what, before, after in sums[1])]  # fmt: skip
        lines.append(f"results written over an array that is needed no more: {self.written_over}")
        return "\n".join(lines)

    __repr__ = __str__

    def tables(self) -> list[Table]:
        """Return the kernels, the steps that are not fused, and the totals, as tables."""
        kernels = [
            (name, ops, f"{count:,}", format_bytes(before), format_bytes(after), state)
            for name, ops, count, before, after, state in self.fused
        ]
        sums = [
            (what, format_bytes(before), format_bytes(after))
            for what, (before, after) in (
                ("bytes moved", self.moved),
                ("bytes at peak", self.peak),
            )
        ]
        return [
            (("kernel", "ops", "elements", "moved before", "after", "state"), kernels),
            (("step", "because"), self.alone),
            (("", "before", "after"), sums),
        ]

    def _repr_html_(self) -> str:
        def row(cells: Sequence[str], tag: str) -> str:
            texts = (f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
            return f"<tr>{''.join(texts)}</tr>"

        return "".join(
            f"<table>{row(head, 'th')}{''.join(row(cells, 'td') for cells in rows)}</table>"
            for head, rows in self.tables()
        )


def format_bytes(count: int) -> str:
    """Format a number of bytes with a unit."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024  # type: ignore[assignment]
    return f"{count:.1f} GiB"


def format_table(head: tuple[str, ...], rows: Sequence[Sequence[str]]) -> list[str]:
    """Format rows as a table with a header."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        return "  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()

    return [line(head), line(tuple("-" * width for width in widths)), *map(line, rows)]


def count_traffic(value: Value) -> int:
    """Return how many bytes NumPy reads and writes for a value."""
    if value.kind in ("view", "constant", "number", "part", "input"):
        return 0
    # One NumPy call reads its operands from memory, and writes its result.
    return value.bytes + sum(operand.bytes for operand in operands_of(value))


class Steps(NamedTuple):
    """What a graph was compiled to: see `pipeline.py`."""

    program: Program
    units: list[Unit]
    plan: Plan
    fused: list[Fused]
    kernels: dict[str, Kernel]
    reasons: dict[Value, str]


def explain_steps(steps: Steps) -> Explanation:
    """Return the explanation of a compiled graph."""
    explanation = Explanation()
    before = after = 0
    fused_of = {fused.group: fused for fused in steps.fused}
    for unit in steps.units:
        op_bytes = sum(count_traffic(value) for value in unit.values)  # as if each op were a call
        before += op_bytes
        if not isinstance(unit, Group):
            after += op_bytes
            continue
        fused, kernel = fused_of[unit], steps.kernels[fused_of[unit].name]
        # A kernel reads each array once, however many of its ops need it, and writes results only.
        bases = {value.base: None for value in unit.external_operands()}
        kernel_bytes = sum(value.bytes for value in (*bases, *fused.results))
        after += kernel_bytes
        state = "compiled" if kernel.run else kernel.failed or "being compiled"
        names = dict.fromkeys(node_name(value) for value in unit.values)
        explanation.fused.append(
            (fused.name, shorten(list(names)), fused.text.work, op_bytes, kernel_bytes, state)
        )
    explanation.moved = before, after
    explanation.alone = unfused_steps(steps)
    explanation.peak = peak_memory(steps.program, steps.units, steps.plan)
    over_operands = [value for shared in steps.plan.shared.values() for value in shared]
    explanation.written_over = len({*over_operands, *steps.plan.written})
    return explanation


def node_name(value: Value) -> str:
    return value.node.name if value.node is not None else value.name


def shorten(names: list[str]) -> str:
    """Join the names of ops, without the middle of a long list."""
    if len(names) > 8:
        names = [*names[:4], f"… {len(names) - 7} more …", *names[-3:]]
    return " ".join(names)


def unfused_steps(steps: Steps) -> list[tuple[str, str]]:
    """Return each step that is not fused, and why."""
    reasons: dict[str, str] = {}
    for unit in steps.units:
        for value in () if isinstance(unit, Group) else unit.values:
            if value.kind in ("constant", "part", "number"):
                continue
            name = node_name(value)
            # The reason of the lowering, or else that of the fusion.
            reason = steps.program.reasons.get(name) or steps.reasons.get(value)
            if value.kind == "product":
                reason = "a product of matrices is the library's own work"
            if value.kind == "call" and value.node.meta.get("random"):
                reason = "it draws random numbers"
            reasons.setdefault(name, reason or "nothing is fused without numba")
    return list(reasons.items())


def peak_memory(program: Program, units: list[Unit], plan: Plan) -> tuple[int, int]:
    """Return the peak memory in bytes: one definition after the other, and as planned."""
    one_by_one = [[value] for value in program.values if value.kind not in ("view", "constant")]
    outputs = {output.base for output in operands_of(program.outputs)}
    steps = []
    for unit in units:
        values = unit.results(outputs) if isinstance(unit, Group) else unit.values
        steps.append([
            value for value in values  # planned memory is counted once, in `plan.bytes`
            if value.kind not in ("constant",) and value not in plan.buffer
            and value not in plan.written and value not in plan.inside
        ])  # fmt: skip
    return peak_bytes(program, one_by_one), plan.bytes + peak_bytes(program, steps)


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
            (f"{seconds * 1e3:.3f}", f"{seconds / whole:.0%}", shorten_line(line))
            for line, seconds in list(medians.items())[: self.shown]
        ]
        return "\n".join([*lines, *format_table(("ms", "share", "step"), rows)])

    __repr__ = __str__


def shorten_line(line: str, width: int = 100) -> str:
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
    # The program is straight-line code: a clock between any two lines.
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
    notes = [step.append for step in timing.steps.values()]  # bound methods: a note is one call
    names = {**scope, "_clock": time.perf_counter, "_notes": notes}
    exec(compile("\n".join(text), "<edutorch.compile, timed>", "exec"), names)
    return names["run"], timing
