"""Says what compiling did to a graph: which ops became one kernel, and what that saves."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any

from .fusion_groups import Group, Unit
from .memory_planning import peak_of
from .values import Program, Value, operands_of

__all__ = ["Explanation", "explained"]


@dataclass
class Explanation:
    """What was fused, what was not and why, and the memory before and after.

    `print` shows it as text; a notebook shows tables.

    Attributes:
        fused: by kernel its name, the ops in it, how many numbers it goes along, bytes moved by
            its ops one by one and by the kernel, and whether it is compiled.
        alone: the ops that run by themselves, and why.
        moved: bytes read and written by all steps, before and after.
        peak: bytes in use at the most, before and after.
        written_over: how many results are written over an array that is needed no more.
    """

    fused: list[tuple[str, str, int, int, int, str]] = field(default_factory=list)
    alone: list[tuple[str, str]] = field(default_factory=list)
    moved: tuple[int, int] = (0, 0)
    peak: tuple[int, int] = (0, 0)
    written_over: int = 0

    def __str__(self) -> str:
        lines = [f"{len(self.fused)} fused kernels"]
        if self.fused:
            rows = [(a, ops, f"{n:,}", size(b), size(c), s) for a, ops, n, b, c, s in self.fused]
            lines += table(("kernel", "ops", "numbers", "moved before", "after", "state"), rows)
        if self.alone:
            lines += ["", f"{len(self.alone)} steps are not fused"]
            lines += table(("step", "because"), self.alone)
        lines += ["", *(f"{what:<16} {size(a):>10} before {size(b):>10} after"
                        for what, (a, b) in self.sums().items())]  # fmt: skip
        lines.append(f"results written over an array that is needed no more: {self.written_over}")
        return "\n".join(lines)

    __repr__ = __str__

    def sums(self) -> dict[str, tuple[int, int]]:
        """The figures of the whole, before and after."""
        return {"bytes moved": self.moved, "bytes at peak": self.peak}

    def _repr_html_(self) -> str:
        def rows(head: tuple[str, ...], found: list[Any]) -> str:
            cells = [[str(each) for each in row] for row in found]
            text = "".join(
                "<tr>" + "".join(f"<td>{html.escape(each)}</td>" for each in row) + "</tr>"
                for row in cells
            )
            return f"<table><tr>{''.join(f'<th>{each}</th>' for each in head)}</tr>{text}</table>"

        fused = [(a, ops, f"{n:,}", size(b), size(c), s) for a, ops, n, b, c, s in self.fused]
        sums = [(what, size(a), size(b)) for what, (a, b) in self.sums().items()]
        return (
            rows(("kernel", "ops", "numbers", "moved before", "after", "state"), fused)
            + rows(("not fused", "because"), list(self.alone))
            + rows(("", "before", "after"), sums)
        )


def size(count: int) -> str:
    """Write a number of bytes for people."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024  # type: ignore[assignment]
    return f"{count:.1f} GiB"


def table(head: tuple[str, ...], rows: list[Any]) -> list[str]:
    """Lay out rows under a head."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(row: Any) -> str:
        return "  " + "  ".join(each.ljust(w) for each, w in zip(row, widths, strict=True)).rstrip()

    return [line(head), line(tuple("-" * width for width in widths)), *map(line, rows)]


def traffic(value: Value) -> int:
    """How many bytes NumPy reads and writes for a value."""
    if value.kind in ("view", "constant", "number", "part", "input"):
        return 0
    return value.bytes + sum(each.bytes for each in operands_of(value))


def explained(lowered: Any) -> Explanation:
    """Put together what is known of a lowered graph."""
    program, units, plan = lowered.program, lowered.units, lowered.plan
    found = Explanation()
    before = after = 0
    states = {each.group: (each, lowered._kernels[each.name]) for each in lowered.fused}
    for unit in units:
        single = sum(traffic(value) for value in unit.values)
        before += single
        if not isinstance(unit, Group):
            after += single
            continue
        each, kernel = states[unit]
        bases = {value.base: None for value in unit.outside()}
        whole = sum(value.bytes for value in (*bases, *each.results))
        after += whole
        state = "compiled" if kernel.run else kernel.failed or "being compiled"
        names = dict.fromkeys(node_name(value) for value in unit.values)
        found.fused.append((each.name, short(list(names)), each.text.work, single, whole, state))
    found.moved = before, after
    found.alone = alone(program, units, lowered.reasons)
    found.peak = peaks(program, units, plan)
    over = sum(len(each) for each in plan.shared.values())
    found.written_over = over + sum(1 for v in plan.written if not shared(plan, v))
    return found


def shared(plan: Any, value: Value) -> bool:
    return any(value in each for each in plan.shared.values())


def node_name(value: Value) -> str:
    return value.node.name if value.node is not None else value.name


def short(names: list[str]) -> str:
    """Write a list of ops, the middle of a long one left out."""
    if len(names) > 8:
        names = [*names[:4], f"… {len(names) - 7} more …", *names[-3:]]
    return " ".join(names)


def alone(program: Program, units: list[Unit], reasons: dict[Value, str]) -> list[tuple[str, str]]:
    """Say of each step that runs by itself why it does."""
    found: dict[str, str] = {}
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
            found.setdefault(name, reason or "nothing is fused without numba")
    return list(found.items())


def peaks(program: Program, units: list[Unit], plan: Any) -> tuple[int, int]:
    """Return the bytes in use at most: one definition after the other, and as planned."""
    single = [[value] for value in program.values if value.kind not in ("view", "constant")]
    outputs = {each.base for each in operands_of(program.outputs)}
    steps = []
    for unit in units:
        values = unit.results(outputs) if isinstance(unit, Group) else unit.values
        steps.append([
            value for value in values
            if value.kind not in ("constant",) and value not in plan.place
            and value not in plan.written and value not in plan.inside
        ])  # fmt: skip
    return peak_of(program, single), plan.bytes + peak_of(program, steps)
