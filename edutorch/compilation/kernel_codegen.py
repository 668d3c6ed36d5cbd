"""Generates the kernel of a group: plain Python, which numba compiles.

    for r in range(start, stop):                       one row after the other
        x_row = x[r * columns:(r + 1) * columns]
        peak_r = largest(x_row)
        for j in range(columns):                       all elements of the row
            exp_j = exp(x_row[j] - peak_r)
            ...

What a reduction or a later loop needs is kept in a row buffer, which fits in the L1 cache. Apart
from that, only the results are written.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .fusion_groups import Group, compute_stages, indent, merge_axes, steps_along
from .scalar_functions import FUNCTIONS, POWERS
from .values import Value, contiguous_steps, operands_of

__all__ = ["CHUNK", "ROWS", "KernelText", "kernel_text"]

CHUNK = 4096
"""The number of elements that are summed at a time in a sum over everything."""
VECTOR_FUNCTIONS = {
    "exp", "log", "tanh", "erf", "logaddexp", "gelu", "gelu_slope", "gelu_tanh", "gelu_tanh_slope",
}  # fmt: skip
"""Functions for which the widest registers pay."""
ROWS = 64
"""The number of rows in a block: rows are summed in blocks, and then the blocks."""


@dataclass(slots=True)
class KernelText:
    """A kernel's code and how it is called: `name(start, stop, sizes…, scalars…, arrays…)`.

    Attributes:
        anonymous_body: the same code with canonical names, equal for all such kernels.
        count: the number of rows (or elements, or chunks) to divide among threads.
        sizes: sizes that are arguments, so that one kernel serves many shapes.
        scalars: Python numbers, computed in each call.
        inputs: the arrays it reads, which are contiguous; views among them are copied first.
        outputs: the arrays it writes.
        partial: by sum over rows or everything, the shape of its partial sums.
        work: the number of elements it touches.
    """

    name: str = ""
    body: str = ""
    anonymous_body: str = ""
    signature: str = ""
    needs: set[str] = field(default_factory=set)
    count: int = 1
    sizes: list[int] = field(default_factory=list)
    scalars: list[Value] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    partial: dict[Value, tuple[int, ...]] = field(default_factory=dict)
    work: int = 0


class Writer:
    """Generates one kernel."""

    def __init__(self, group: Group, results: list[Value], shared: dict[Value, Value]) -> None:
        self.group, self.results, self.shared = group, results, shared
        self.domain = group.domain
        self.inside = set(group.values)
        self.kernel = KernelText(work=math.prod(group.domain))
        self.copy_chain: dict[Value, Value] = {}
        self.split = group.split
        self.lasts = [value for value in group.values if group.level[value] == "last"]
        self.stage = compute_stages(group)
        self.choose_rows()

    # The plan ----------------------------------------------------------------------------

    def choose_rows(self) -> None:
        """Choose the axes that enumerate rows: as few as give each operand one stride in a row."""
        operands = self.full_operands()
        rank = len(self.domain)
        if self.split is None:
            self.split = next(
                (
                    b
                    for b in range(rank)
                    if all(self.has_even_steps(operand, b) for operand in operands)
                ),
                rank - 1,
            )
        if rank:
            self.copy_chain = {
                operand: self.copy_to_domain(operand)
                for operand in operands
                if not self.has_even_steps(operand, self.split)
            }
        self.rows = math.prod(self.domain[: self.split]) if rank else 1
        self.columns = math.prod(self.domain[self.split :]) if rank else 1
        has_no_row_level = all(self.group.level[value] != "row" for value in self.group.values)
        by_column = any(not self.is_full_sum(last) for last in self.lasts)
        if not rank:
            self.mode = "single"
        elif has_no_row_level and self.split == 0 and not by_column:
            self.mode = "chunks" if self.lasts else "flat"
        else:
            self.mode = "blocks" if by_column else "rows"

    def is_full_sum(self, value: Value) -> bool:
        """Whether a sum that ends the kernel is over everything."""
        return len(value.settings["axes"]) == len(self.domain)

    def full_operands(self) -> list[Value]:
        """Return the external arrays that are read at each position."""
        operands = []
        for value in self.group.values:
            if self.group.level[value] == "full" or value.kind == "reduce":
                operands += [
                    operand
                    for operand in operands_of(value)
                    if operand.base not in self.inside and operand.dtype is not None
                ]
        return list(dict.fromkeys(operands))

    def copy_to_domain(self, value: Value) -> Value:
        """Return a full-size copy, made beforehand, of an operand without one stride in a row."""
        text = f"np.broadcast_to({{}}, {self.domain})"
        copy = Value("view", text, (value,), self.domain, value.dtype, node=value.node)
        copy.settings = {
            "text": text,
            "offset": 0,
            "steps": contiguous_steps(self.domain),
            "base": copy,
        }
        copy.name = f"{value.name}_whole"
        return copy

    def readable_operand(self, value: Value) -> Value:
        """Return the array that is read for an operand: itself, or its copy."""
        return self.copy_chain.get(value, value)

    def full_steps(self, value: Value) -> tuple[int, tuple[int, ...]]:
        """Return a full operand's offset, and its strides along the domain."""
        steps = steps_along(value, self.domain)
        assert steps is not None
        return value.layout[0], steps

    def has_even_steps(self, value: Value, split: int) -> bool:
        """Whether the elements of a row have one stride in memory."""
        return len(merge_axes(self.domain[split:], self.full_steps(value)[1][split:])) <= 1

    # The text ----------------------------------------------------------------------------

    def write(self) -> KernelText:
        lines = {"single": self.write_single, "flat": self.write_flat}.get(
            self.mode, self.write_rows
        )()
        kernel = self.kernel
        kernel.outputs = [output for output in kernel.outputs if output not in self.shared]
        arrays = [*kernel.inputs, *kernel.outputs, *kernel.partial]
        prologue = [
            f"{name} = {name}.reshape({name}.size)"
            for name in (self.array_name(array) for array in arrays if self.needs_reshape(array))
        ]
        names = [
            *self.size_names(),
            *(number.name for number in kernel.scalars),
            *map(self.array_name, arrays),
        ]
        head = f"def kernel({', '.join(['start', 'stop', *names])}):"
        if kernel.needs & VECTOR_FUNCTIONS and self.mode != "single":
            kernel.needs.add("use_wide_vectors")
            prologue = ["use_wide_vectors()", *prologue]
        if kernel.count > 1:
            kernel.needs.add("claim_range")
            prologue = ["start, stop = claim_range(start, stop)", *prologue]
        body = [*prologue, *self.scratch_lines(), *lines]
        kernel.body = head + "\n" + textwrap.indent("\n".join(body), "    ") + "\n"
        argument_types = [
            "int64",
            "int64",
            *["int64"] * len(kernel.sizes),
            *["float64"] * len(kernel.scalars),
        ]
        argument_types += [self.array_type(array) for array in arrays]
        kernel.signature = f"void({', '.join(argument_types)})"
        return kernel

    def array_name(self, value: Value) -> str:
        """Return the name of the array that holds a value: another one's if they share it."""
        return self.shared.get(value, value).name

    def needs_reshape(self, value: Value) -> bool:
        if value in self.kernel.partial:
            return False
        return len(value.base.shape) > 1

    def array_type(self, value: Value) -> str:
        if value in self.kernel.partial:
            return "float64[:, ::1]" if not self.is_full_sum(value) else "float64[::1]"
        value = value.base
        rank = len(value.shape)
        axes = ", ".join([":"] * (rank - 1) + ["::1"]) if rank else ""
        dtype_name = "boolean" if value.dtype == bool else str(value.dtype)
        return f"{dtype_name}[{axes}]" if rank else f"Array({dtype_name}, 0, 'C')"

    def size_names(self) -> list[str]:
        names = {"chunks": ["size"], "rows": ["columns"], "blocks": ["rows", "columns"]}
        names_ = names.get(self.mode, [])
        sizes = {"size": self.rows * self.columns, "rows": self.rows, "columns": self.columns}
        self.kernel.sizes = [sizes[name] for name in names_]
        return names_

    def scratch_lines(self) -> list[str]:
        length = "columns" if self.mode in ("rows", "blocks") else str(CHUNK)
        return [
            f"{value.name}_row = np.empty({length}, np.{value.dtype})" for value in self.scratch()
        ]

    def scratch(self) -> list[Value]:
        """Return the values that need a row buffer because they are not results."""
        if self.mode in ("single", "flat"):
            return []
        values: dict[Value, None] = {}
        for value in self.group.values:
            for operand in operands_of(value):
                if value.kind == "reduce" and operand.base not in self.inside:
                    if self.mode == "chunks" or self.row_level(operand) != "row":
                        values[operand] = None  # it is constant along the row
                    continue
                if operand.base not in self.inside or self.group.level[operand.base] != "full":
                    continue
                by_column = value in self.lasts and not self.is_full_sum(value)
                is_needed_later = self.stage[value] > self.stage[operand.base]
                if (value.kind == "reduce" or is_needed_later) and not by_column:
                    values[operand.base] = None
        return [
            operand
            for operand in values
            if operand not in self.results and not self.is_read_directly(operand)
        ]

    def is_read_directly(self, value: Value) -> bool:
        """Whether a reduction can read an external array directly."""
        return value.base not in self.inside and self.row_level(value) == "row"

    def row_level(self, value: Value) -> str:
        """Return how an external array is read: a "row", one element for "each" row, or "once"."""
        _, steps = self.full_steps(self.readable_operand(value))
        moves = [s != 0 and n > 1 for s, n in zip(steps, self.domain, strict=True)]
        if any(moves[self.split :]):
            return "row"
        return "each" if any(moves) else "once"

    # One operand --------------------------------------------------------------------------

    def add_parameter(self, value: Value) -> str:
        """Make an external operand a parameter, and return its name."""
        if value.dtype is None:
            if value not in self.kernel.scalars:
                self.kernel.scalars.append(value)
            return value.name
        array = value.base
        if array not in self.kernel.inputs:
            self.kernel.inputs.append(array)
        return array.name

    def literal(self, x: Any, dtype: np.dtype[Any] | None) -> str:
        """Return the source code of a number in one of the kernel's dtypes."""
        dtype = np.dtype(dtype if dtype is not None else x.dtype)
        if dtype.kind == "b":
            return str(bool(x))
        number = x.item() if isinstance(x, np.generic) else x
        if isinstance(number, float) and not math.isfinite(number):
            self.kernel.needs.add("nan" if math.isnan(number) else "inf")
        if dtype == np.float64 and isinstance(number, float) and math.isfinite(number):
            return repr(number)
        self.kernel.needs.add(str(dtype))
        return f"{dtype}({number!r})"

    def expression(self, value: Value, at: dict[Any, str]) -> str:
        """Return the source code of an elementwise function; `at` has the code of its operands."""
        function, operands = FUNCTIONS[value.function], list(value.operands)
        dtypes = [
            operand.dtype for operand in operands if getattr(operand, "dtype", None) is not None
        ]
        dtype = value.dtype if value.dtype != bool or not dtypes else dtypes[0]
        texts = []
        for operand in operands:
            if isinstance(operand, Value):
                text = at[operand]
                if operand.dtype is None:
                    text = f"{dtype}({text})"
                    self.kernel.needs.add(str(dtype))
                texts.append(text)
            else:
                texts.append(self.literal(operand, getattr(operand, "dtype", dtype)))
        text = function.kernel
        if value.function == "power" and not isinstance(operands[1], Value):
            text = POWERS.get(float(operands[1]), text)
        if value.function == "cast":
            if value.dtype == bool:
                return f"{texts[0]} != 0"
            self.kernel.needs.add(str(value.dtype))
            return f"{value.dtype}({texts[0]})"
        if function.needs and text == function.kernel and function.needs != "one":
            self.kernel.needs.add(function.needs)
        if "one" in text.split():
            text = text.replace("one", self.literal(1.0, value.dtype))
        return text.format(*texts)

    # Kernels of scalars, and of flat arrays ---------------------------------------------------

    def write_single(self) -> list[str]:
        """Generate a kernel of scalars."""
        lines, at = [], {}
        for value in self.group.values:
            for operand in operands_of(value):
                if operand in at or operand.base in self.inside:
                    at.setdefault(operand, at.get(operand.base, ""))
                    continue
                name = self.add_parameter(operand)
                at[operand] = name
                if operand.dtype is not None:
                    place = "[()]" if not operand.base.shape else f"[{operand.layout[0]}]"
                    lines.append(f"{name}_0 = {name}{place}")
                    at[operand] = f"{name}_0"
            lines.append(f"{value.name}_0 = {self.expression(value, at)}")
            at[value] = f"{value.name}_0"
        for value in self.results:
            self.kernel.outputs.append(value)
            place = "[()]" if not value.shape else "[0]"
            lines.append(f"{self.array_name(value)}{place} = {value.name}_0")
        return lines

    def write_flat(self) -> list[str]:
        """Generate one loop over all elements in memory order."""
        self.kernel.count = self.rows * self.columns
        before, loop = self.loop_lines(self.group.values, "start", "stop")
        return [*before, "for j in range(stop - start):", *indent(loop)]

    def loop_lines(self, values: list[Value], first: str, last: str) -> tuple[list[str], list[str]]:
        """Return the lines before and inside a loop over consecutive elements."""
        before, loop, at = [], [], {}
        for value in values:
            for operand in operands_of(value):
                if operand in at or operand.base in at:
                    at.setdefault(operand, at.get(operand.base, ""))
                    continue
                self.load_operand(operand, first, last, at, before, loop)
            if value.kind == "element":
                loop.append(f"{value.name}_j = {self.expression(value, at)}")
                at[value] = f"{value.name}_j"
            if value in self.results:
                self.kernel.outputs.append(value)
                row = self.row_name(value)
                before.append(f"{row} = {self.array_name(value)}[{first}:{last}]")
                loop.append(f"{row}[j] = {value.name}_j")
        return list(dict.fromkeys(before)), loop

    def row_name(self, value: Value) -> str:
        return f"{self.array_name(value)}_row"

    def load_operand(
        self, value: Value, first: str, last: str, at: dict[Any, str],
        before: list[str], loop: list[str],
    ) -> None:  # fmt: skip
        """Load an external operand in a loop over consecutive elements."""
        operand, value = value, self.readable_operand(value)
        name = self.add_parameter(value)
        at[operand] = name
        if value.dtype is None:
            return
        offset, steps = self.full_steps(value)
        pairs = merge_axes(self.domain, steps)
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

    def write_rows(self) -> list[str]:
        from .row_codegen import row_lines

        return row_lines(self)


def kernel_text(group: Group, results: list[Value], shared: dict[Value, Value]) -> KernelText:
    """Generate the kernel of a group, and once more with canonical names.

    Kernels that differ only in names are compiled once: a network of equal layers needs few.

    Args:
        results: the values that are read outside.
        shared: results that are written over an array that the kernel reads.
    """
    kernel = Writer(group, results, shared).write()
    values = dict.fromkeys(
        array
        for value in group.values
        for operand in (*operands_of(value), value)
        for array in (operand.base, operand)
    )
    names = {value: value.name for value in values}
    try:
        for index, value in enumerate(values):
            value.name = f"x{index}"
        kernel.anonymous_body = Writer(group, results, shared).write().body
    finally:
        for value, name in names.items():
            value.name = name
    return kernel
