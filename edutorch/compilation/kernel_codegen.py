"""Writes the kernel of a group: ordinary Python, which numba compiles.

    for r in range(start, stop):                       one row after the other
        x_row = x[r * columns:(r + 1) * columns]
        peak_r = largest(x_row)
        for j in range(columns):                       every number of the row is at hand
            exp_j = exp(x_row[j] - peak_r)
            ...

What a reduction needs, and what a later loop needs again, stays in a row of its own: that is
small enough for the processor's first cache. Nothing else is written but the results.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .fusion_groups import Group, indented, joined, stages, steps_in
from .scalar_functions import FUNCTIONS, POWERS
from .values import Value, operands_of, steps_of

__all__ = ["CHUNK", "ROWS", "KernelText", "kernel_text"]

CHUNK = 4096
"""So many numbers are added up in one go where a sum is over everything."""
VECTORS = {
    "exp", "log", "tanh", "erf", "logaddexp", "gelu", "gelu_slope", "gelu_tanh", "gelu_tanh_slope",
}  # fmt: skip
"""Functions that are worth the widest registers."""
ROWS = 64
"""So many rows are added to each other before the sums of several threads are."""


@dataclass(slots=True)
class KernelText:
    """A kernel's text and how it is called: `name(start, stop, sizes…, numbers…, arrays…)`.

    Attributes:
        nameless: the same text with names that are the same for all such kernels.
        count: how many rows (or numbers, or chunks) there are to share among threads.
        sizes: sizes that are arguments, so that one kernel serves many shapes.
        numbers: Python numbers, computed in each call.
        inputs: the arrays it reads, each in order in memory; views among them are copied first.
        outputs: the arrays it writes.
        partial: by sum over rows or everything, the shape of its sums of parts.
        work: how many numbers it touches.
    """

    name: str = ""
    body: str = ""
    nameless: str = ""
    signature: str = ""
    needs: set[str] = field(default_factory=set)
    count: int = 1
    sizes: list[int] = field(default_factory=list)
    numbers: list[Value] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    partial: dict[Value, tuple[int, ...]] = field(default_factory=dict)
    work: int = 0


class Writer:
    """Writes one kernel."""

    def __init__(self, group: Group, results: list[Value], shared: dict[Value, Value]) -> None:
        self.group, self.results, self.shared = group, results, shared
        self.domain = group.domain
        self.inside = set(group.values)
        self.made = KernelText(work=math.prod(group.domain))
        self.copied: dict[Value, Value] = {}
        self.split = group.split
        self.lasts = [value for value in group.values if group.level[value] == "last"]
        self.stage = stages(group)
        self.choose_rows()

    # The plan ----------------------------------------------------------------------------

    def choose_rows(self) -> None:
        """Find the axes that count rows: as few as let each operand go on in even steps."""
        operands = self.outside_full()
        rank = len(self.domain)
        if self.split is None:
            self.split = next(
                (b for b in range(rank) if all(self.even(operand, b) for operand in operands)),
                rank - 1,
            )
        if rank:
            self.copied = {
                operand: self.written_out(operand)
                for operand in operands
                if not self.even(operand, self.split)
            }
        self.rows = math.prod(self.domain[: self.split]) if rank else 1
        self.columns = math.prod(self.domain[self.split :]) if rank else 1
        alone = all(self.group.level[value] != "row" for value in self.group.values)
        by_column = any(not self.whole(last) for last in self.lasts)
        if not rank:
            self.mode = "single"
        elif alone and self.split == 0 and not by_column:
            self.mode = "chunks" if self.lasts else "flat"
        else:
            self.mode = "blocks" if by_column else "rows"

    def whole(self, value: Value) -> bool:
        """Say whether a sum that ends the kernel is over everything."""
        return len(value.settings["axes"]) == len(self.domain)

    def outside_full(self) -> list[Value]:
        """The arrays from outside that are read at each place."""
        found = []
        for value in self.group.values:
            if self.group.level[value] == "full" or value.kind == "reduce":
                found += [each for each in operands_of(value)
                          if each.base not in self.inside and each.dtype is not None]  # fmt: skip
        return list(dict.fromkeys(found))

    def written_out(self, value: Value) -> Value:
        """An operand whose places are at no even steps is copied as large as the domain, before."""
        text = f"np.broadcast_to({{}}, {self.domain})"
        copy = Value("view", text, (value,), self.domain, value.dtype, node=value.node)
        copy.settings = {"text": text, "offset": 0, "steps": steps_of(self.domain), "base": copy}
        copy.name = f"{value.name}_whole"
        return copy

    def real(self, value: Value) -> Value:
        """Return what is read for an operand: itself, or its copy."""
        return self.copied.get(value, value)

    def steps(self, value: Value) -> tuple[int, tuple[int, ...]]:
        """Return where a full operand's numbers are: the first, and the steps along the domain."""
        steps = steps_in(value, self.domain)
        assert steps is not None
        return value.where[0], steps

    def even(self, value: Value, split: int) -> bool:
        """Say whether the places of a row are at even steps in memory."""
        return len(joined(self.domain[split:], self.steps(value)[1][split:])) <= 1

    # The text ----------------------------------------------------------------------------

    def write(self) -> KernelText:
        lines = {"single": self.single, "flat": self.flat}.get(self.mode, self.by_rows)()
        made = self.made
        made.outputs = [output for output in made.outputs if output not in self.shared]
        arrays = [*made.inputs, *made.outputs, *made.partial]
        heads = [f"{self.array(array)} = {self.array(array)}.reshape({self.array(array)}.size)"
                 for array in arrays if self.reshaped(array)]  # fmt: skip
        names = [
            *self.size_names(),
            *(number.name for number in made.numbers),
            *map(self.array, arrays),
        ]
        head = f"def kernel({', '.join(['start', 'stop', *names])}):"
        if made.needs & VECTORS and self.mode != "single":
            made.needs.add("wide")
            heads = ["wide()", *heads]
        if made.count > 1:
            made.needs.add("claim_range")
            heads = ["start, stop = claim_range(start, stop)", *heads]
        body = [*heads, *self.scratch_lines(), *lines]
        made.body = head + "\n" + textwrap.indent("\n".join(body), "    ") + "\n"
        kinds = ["int64", "int64", *["int64"] * len(made.sizes), *["float64"] * len(made.numbers)]
        kinds += [self.array_type(array) for array in arrays]
        made.signature = f"void({', '.join(kinds)})"
        return made

    def array(self, value: Value) -> str:
        """The name of the array in which a value is: another one's where they share it."""
        return self.shared.get(value, value).name

    def reshaped(self, value: Value) -> bool:
        if value in self.made.partial:
            return False
        return len(value.base.shape) > 1

    def array_type(self, value: Value) -> str:
        if value in self.made.partial:
            return "float64[:, ::1]" if not self.whole(value) else "float64[::1]"
        value = value.base
        rank = len(value.shape)
        inside = ", ".join([":"] * (rank - 1) + ["::1"]) if rank else ""
        kind = "boolean" if value.dtype == bool else str(value.dtype)
        return f"{kind}[{inside}]" if rank else f"Array({kind}, 0, 'C')"

    def size_names(self) -> list[str]:
        names = {"chunks": ["size"], "rows": ["columns"], "blocks": ["rows", "columns"]}
        found = names.get(self.mode, [])
        known = {"size": self.rows * self.columns, "rows": self.rows, "columns": self.columns}
        self.made.sizes = [known[each] for each in found]
        return found

    def scratch_lines(self) -> list[str]:
        length = "columns" if self.mode in ("rows", "blocks") else str(CHUNK)
        return [f"{each.name}_row = np.empty({length}, np.{each.dtype})" for each in self.scratch()]

    def scratch(self) -> list[Value]:
        """Values that are no results but needed in a row of their own."""
        if self.mode in ("single", "flat"):
            return []
        found: dict[Value, None] = {}
        for value in self.group.values:
            for each in operands_of(value):
                if value.kind == "reduce" and each.base not in self.inside:
                    if self.mode == "chunks" or self.row_level(each) != "row":
                        found[each] = None  # it stands still along the row
                    continue
                if each.base not in self.inside or self.group.level[each.base] != "full":
                    continue
                by_column = value in self.lasts and not self.whole(value)
                later = self.stage[value] > self.stage[each.base]
                if (value.kind == "reduce" or later) and not by_column:
                    found[each.base] = None
        return [each for each in found if each not in self.results and not self.direct(each)]

    def direct(self, value: Value) -> bool:
        """Say whether a reduction can read an array from outside as it lies in memory."""
        return value.base not in self.inside and self.row_level(value) == "row"

    def row_level(self, value: Value) -> str:
        """How an array from outside is read: a "row", one number for "each" row, or "once"."""
        _, steps = self.steps(self.real(value))
        moves = [s != 0 and n > 1 for s, n in zip(steps, self.domain, strict=True)]
        if any(moves[self.split :]):
            return "row"
        return "each" if any(moves) else "once"

    # One operand --------------------------------------------------------------------------

    def parameter(self, value: Value) -> str:
        """Make an operand from outside an argument, and return its name."""
        if value.dtype is None:
            if value not in self.made.numbers:
                self.made.numbers.append(value)
            return value.name
        array = value.base
        if array not in self.made.inputs:
            self.made.inputs.append(array)
        return array.name

    def literal(self, x: Any, kind: np.dtype[Any] | None) -> str:
        """Write a number as one of the kernel's types."""
        kind = np.dtype(kind if kind is not None else x.dtype)
        if kind.kind == "b":
            return str(bool(x))
        number = x.item() if isinstance(x, np.generic) else x
        if isinstance(number, float) and not math.isfinite(number):
            self.made.needs.add("nan" if math.isnan(number) else "inf")
        if kind == np.float64 and isinstance(number, float) and math.isfinite(number):
            return repr(number)
        self.made.needs.add(str(kind))
        return f"{kind}({number!r})"

    def expression(self, value: Value, at: dict[Any, str]) -> str:
        """Write an element function of operands whose texts are in `at`."""
        function, operands = FUNCTIONS[value.function], list(value.operands)
        kinds = [
            operand.dtype for operand in operands if getattr(operand, "dtype", None) is not None
        ]
        kind = value.dtype if value.dtype != bool or not kinds else kinds[0]
        texts = []
        for operand in operands:
            if isinstance(operand, Value):
                text = at[operand]
                if operand.dtype is None:
                    text = f"{kind}({text})"
                    self.made.needs.add(str(kind))
                texts.append(text)
            else:
                texts.append(self.literal(operand, getattr(operand, "dtype", kind)))
        text = function.kernel
        if value.function == "power" and not isinstance(operands[1], Value):
            text = POWERS.get(float(operands[1]), text)
        if value.function == "cast":
            if value.dtype == bool:
                return f"{texts[0]} != 0"
            self.made.needs.add(str(value.dtype))
            return f"{value.dtype}({texts[0]})"
        if function.needs and text == function.kernel and function.needs != "one":
            self.made.needs.add(function.needs)
        if "one" in text.split():
            text = text.replace("one", self.literal(1.0, value.dtype))
        return text.format(*texts)

    # Kernels of single numbers, and of all numbers in a row ----------------------------------

    def single(self) -> list[str]:
        """One number of each."""
        lines, at = [], {}
        for value in self.group.values:
            for each in operands_of(value):
                if each in at or each.base in self.inside:
                    at.setdefault(each, at.get(each.base, ""))
                    continue
                name = self.parameter(each)
                at[each] = name
                if each.dtype is not None:
                    place = "[()]" if not each.base.shape else f"[{each.where[0]}]"
                    lines.append(f"{name}_0 = {name}{place}")
                    at[each] = f"{name}_0"
            lines.append(f"{value.name}_0 = {self.expression(value, at)}")
            at[value] = f"{value.name}_0"
        for value in self.results:
            self.made.outputs.append(value)
            place = "[()]" if not value.shape else "[0]"
            lines.append(f"{self.array(value)}{place} = {value.name}_0")
        return lines

    def flat(self) -> list[str]:
        """All numbers of all arrays in the order of memory."""
        self.made.count = self.rows * self.columns
        before, loop = self.loop_lines(self.group.values, "start", "stop")
        return [*before, "for j in range(stop - start):", *indented(loop)]

    def loop_lines(self, values: list[Value], first: str, last: str) -> tuple[list[str], list[str]]:
        """Return what comes before a loop over consecutive numbers, and what is in it."""
        before, loop, at = [], [], {}
        for value in values:
            for each in operands_of(value):
                if each in at or each.base in at:
                    at.setdefault(each, at.get(each.base, ""))
                    continue
                self.take(each, first, last, at, before, loop)
            if value.kind == "element":
                loop.append(f"{value.name}_j = {self.expression(value, at)}")
                at[value] = f"{value.name}_j"
            if value in self.results:
                self.made.outputs.append(value)
                row = self.row_name(value)
                before.append(f"{row} = {self.array(value)}[{first}:{last}]")
                loop.append(f"{row}[j] = {value.name}_j")
        return list(dict.fromkeys(before)), loop

    def row_name(self, value: Value) -> str:
        return f"{self.array(value)}_row"

    def take(
        self, value: Value, first: str, last: str, at: dict[Any, str],
        before: list[str], loop: list[str],
    ) -> None:  # fmt: skip
        """Bring an operand from outside into a loop over consecutive numbers."""
        operand, value = value, self.real(value)
        name = self.parameter(value)
        at[operand] = name
        if value.dtype is None:
            return
        offset, steps = self.steps(value)
        pairs = joined(self.domain, steps)
        step = pairs[0][1] if pairs else 0
        tag = f"{name}_{offset}_{step}" if value.base is not value else name
        if not step:
            before.append(f"{tag}_0 = {name}{f'[{offset}]' if value.base.shape else '[()]'}")
            at[operand] = f"{tag}_0"
            return
        plus = f"{offset} + " if offset else ""
        if step == 1:
            before.append(f"{tag}_row = {name}[{plus}{first}:{plus}{last}]")
        else:
            end = f"{plus}({last} - 1) * {step} + 1"
            before.append(f"{tag}_row = {name}[{plus}{first} * {step}:{end}:{step}]")
        loop.append(f"{tag}_j = {tag}_row[j]")
        at[operand] = f"{tag}_j"

    def by_rows(self) -> list[str]:
        from .row_codegen import row_lines

        return row_lines(self)


def kernel_text(group: Group, results: list[Value], shared: dict[Value, Value]) -> KernelText:
    """Write the kernel of a group, and once more with names that say nothing.

    Two kernels that differ in names only are one: a network of equal layers needs few.

    Args:
        results: the values that others read.
        shared: results that are written in the place of an array that the kernel reads.
    """
    made = Writer(group, results, shared).write()
    values = dict.fromkeys(
        each
        for value in group.values
        for operand in (*operands_of(value), value)
        for each in (operand.base, operand)
    )
    names = {value: value.name for value in values}
    try:
        for number, value in enumerate(values):
            value.name = f"x{number}"
        made.nameless = Writer(group, results, shared).write().body
    finally:
        for value, name in names.items():
            value.name = name
    return made
