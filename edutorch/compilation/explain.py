"""Explains what compilation did to a graph: which ops became one kernel, and what that saves."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any

from .fusion_groups import Group, Unit
from .memory_planning import peak_bytes
from .values import Program, Value, operands_of

__all__ = ["Explanation", "explain_lowered"]


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
    unfused_steps: list[tuple[str, str]] = field(default_factory=list)
    moved: tuple[int, int] = (0, 0)
    peak: tuple[int, int] = (0, 0)
    written_over: int = 0

    def __str__(self) -> str:
        lines = [f"{len(self.fused)} fused kernels"]
        if self.fused:
            rows = [
                (a, ops, f"{n:,}", format_bytes(b), format_bytes(c), s)
                for a, ops, n, b, c, s in self.fused
            ]
            lines += format_table(
                ("kernel", "ops", "elements", "moved before", "after", "state"), rows
            )
        if self.alone:
            lines += ["", f"{len(self.alone)} steps are not fused"]
            lines += format_table(("step", "because"), self.alone)
        lines += ["", *(f"{what:<16} {format_bytes(a):>10} before {format_bytes(b):>10} after"
                        for what, (a, b) in self.sums().items())]  # fmt: skip
        lines.append(f"results written over an array that is needed no more: {self.written_over}")
        return "\n".join(lines)

    __repr__ = __str__

    def sums(self) -> dict[str, tuple[int, int]]:
        """Return the totals, before and after."""
        return {"bytes moved": self.moved, "bytes at peak": self.peak}

    def _repr_html_(self) -> str:
        def rows(head: tuple[str, ...], rows_: list[Any]) -> str:
            cells = [[str(cell) for cell in row] for row in rows_]
            text = "".join(
                "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
                for row in cells
            )
            return f"<table><tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr>{text}</table>"

        fused = [
            (a, ops, f"{n:,}", format_bytes(b), format_bytes(c), s)
            for a, ops, n, b, c, s in self.fused
        ]
        sums = [(what, format_bytes(a), format_bytes(b)) for what, (a, b) in self.sums().items()]
        return (
            rows(("kernel", "ops", "elements", "moved before", "after", "state"), fused)
            + rows(("not fused", "because"), list(self.alone))
            + rows(("", "before", "after"), sums)
        )


def format_bytes(count: int) -> str:
    """Format a number of bytes with a unit."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024  # type: ignore[assignment]
    return f"{count:.1f} GiB"


def format_table(head: tuple[str, ...], rows: list[Any]) -> list[str]:
    """Format rows as a table with a header."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(row: Any) -> str:
        return "  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()

    return [line(head), line(tuple("-" * width for width in widths)), *map(line, rows)]


def count_traffic(value: Value) -> int:
    """Return how many bytes NumPy reads and writes for a value."""
    if value.kind in ("view", "constant", "number", "part", "input"):
        return 0
    return value.bytes + sum(operand.bytes for operand in operands_of(value))


def explain_lowered(lowered: Any) -> Explanation:
    """Return the explanation of a lowered graph."""
    program, units, plan = lowered.program, lowered.units, lowered.plan
    explanation = Explanation()
    before = after = 0
    states = {fused.group: (fused, lowered._kernels[fused.name]) for fused in lowered.fused}
    for unit in units:
        op_bytes = sum(count_traffic(value) for value in unit.values)
        before += op_bytes
        if not isinstance(unit, Group):
            after += op_bytes
            continue
        fused, kernel = states[unit]
        bases = {value.base: None for value in unit.external_operands()}
        kernel_bytes = sum(value.bytes for value in (*bases, *fused.results))
        after += kernel_bytes
        state = "compiled" if kernel.run else kernel.failed or "being compiled"
        names = dict.fromkeys(node_name(value) for value in unit.values)
        explanation.fused.append(
            (fused.name, shorten(list(names)), fused.text.work, op_bytes, kernel_bytes, state)
        )
    explanation.moved = before, after
    explanation.alone = unfused_steps(program, units, lowered.reasons)
    explanation.peak = peak_memory(program, units, plan)
    overwritten = sum(len(fused) for fused in plan.shared.values())
    explanation.written_over = overwritten + sum(1 for v in plan.written if not is_shared(plan, v))
    return explanation


def is_shared(plan: Any, value: Value) -> bool:
    return any(value in overwritten for overwritten in plan.shared.values())


def node_name(value: Value) -> str:
    return value.node.name if value.node is not None else value.name


def shorten(names: list[str]) -> str:
    """Join the names of ops, without the middle of a long list."""
    if len(names) > 8:
        names = [*names[:4], f"… {len(names) - 7} more …", *names[-3:]]
    return " ".join(names)


def unfused_steps(
    program: Program, units: list[Unit], reasons: dict[Value, str]
) -> list[tuple[str, str]]:
    """Return each step that is not fused, and why."""
    reasons_: dict[str, str] = {}
    for unit in units:
        for value in () if isinstance(unit, Group) else unit.values:
            if value.kind in ("constant", "part", "number"):
                continue
            name = node_name(value)
            reason = program.reasons.get(name) or reasons.get(value)
            if value.kind == "product":
                reason = "a product of matrices is the library's own work"
            if value.kind == "call" and value.node.meta.get("random"):
                reason = "it draws random numbers"
            reasons_.setdefault(name, reason or "nothing is fused without numba")
    return list(reasons_.items())


def peak_memory(program: Program, units: list[Unit], plan: Any) -> tuple[int, int]:
    """Return the peak memory in bytes: one definition after the other, and as planned."""
    one_by_one = [[value] for value in program.values if value.kind not in ("view", "constant")]
    outputs = {output.base for output in operands_of(program.outputs)}
    steps = []
    for unit in units:
        values = unit.results(outputs) if isinstance(unit, Group) else unit.values
        steps.append([
            value for value in values
            if value.kind not in ("constant",) and value not in plan.buffer
            and value not in plan.written and value not in plan.inside
        ])  # fmt: skip
    return peak_bytes(program, one_by_one), plan.bytes + peak_bytes(program, steps)
