"""Generates the part of a kernel that runs row by row, with a loop for each stage.

A stage is what can be computed of a row before its next reduction: softmax has three.
"""

from __future__ import annotations

from typing import Any

from .fusion_groups import indent, merge_axes, steps_along
from .scalar_functions import REDUCTIONS
from .values import Value, operands_of

__all__ = ["row_lines"]


def row_lines(writer: Any) -> list[str]:
    """Return the loops of a kernel over its rows, chunks, or blocks of rows."""
    return RowWriter(writer).write()


class RowWriter:
    """Generates the code for one row, and the loop around it."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer
        self.group, self.inside = writer.group, writer.inside
        self.level, self.stage = writer.group.level, writer.stage
        self.before_loop: list[str] = []  # before all rows
        self.row_prologue: list[str] = []  # at the start of each row
        self.row_body: list[str] = []
        self.row_scalars: dict[Value, str] = {}  # values with one element for each row, or for all
        self.rows: dict[Value, str] = {}  # external rows
        self.scratch = set(writer.scratch())
        self.stored = self.scratch | set(writer.results)

    def write(self) -> list[str]:
        """Generate all lines."""
        writer = self.writer
        for value in writer.results:
            if self.level[value] == "last":
                continue
            writer.kernel.outputs.append(value)
            if self.level[value] == "full":
                self.row_prologue.append(
                    f"{writer.row_name(value)} = {self.row_slice(writer.array_name(value))}"
                )
        last = max(self.stage.values(), default=0)
        for stage in range(last + 1):
            self.write_stage(stage)
        for value in writer.lasts:
            shape = self.count_parts()
            shape = (shape, writer.columns) if not writer.is_full_sum(value) else (shape,)
            writer.kernel.partial[value] = shape
        return self.wrap_loop([*dict.fromkeys(self.row_prologue), *self.row_body])

    def count_parts(self) -> int:
        """Return the number of rows, chunks or blocks of rows."""
        from .kernel_codegen import CHUNK, ROWS

        writer = self.writer
        if writer.mode == "chunks":
            return -(-writer.rows * writer.columns // CHUNK)
        return writer.rows if writer.mode == "rows" else -(-writer.rows // ROWS)

    def wrap_loop(self, row: list[str]) -> list[str]:
        """Wrap the lines of one row in the outer loop."""
        from .kernel_codegen import CHUNK, ROWS

        writer = self.writer
        writer.kernel.count = self.count_parts()
        before_loop = list(dict.fromkeys(self.before_loop))
        if writer.mode == "chunks":
            head = [f"first = r * {CHUNK}", f"columns = min({CHUNK}, size - first)"]
            return [*before_loop, "for r in range(start, stop):", *indent([*head, *row])]
        if writer.mode == "rows":
            return [*before_loop, "for r in range(start, stop):", *indent(row)]
        initialization = []
        for value in writer.lasts:
            if writer.is_full_sum(value):
                initialization.append(f"{value.name}[c] = 0")
            else:
                initialization += [
                    f"{value.name}_row = {value.name}[c]",
                    f"{value.name}_row[:] = 0",
                ]
        inner = [f"for r in range(c * {ROWS}, min(rows, (c + 1) * {ROWS})):", *indent(row)]
        return [*before_loop, "for c in range(start, stop):", *indent([*initialization, *inner])]

    def row_slice(self, array: str) -> str:
        """Return the slice of an array with the domain's layout that belongs to a row."""
        if self.writer.mode == "chunks":
            return f"{array}[first:first + columns]"
        return f"{array}[r * columns:(r + 1) * columns]"

    # One stage ------------------------------------------------------------------------------

    def write_stage(self, stage: int) -> None:
        """Generate the row's scalars of the stage before, then the loop, then its reductions."""
        for value in self.group.values:
            if self.level[value] == "row" and self.stage[value] == stage:
                self.write_row_scalar(value)
        loop = ElementLoop(self, stage)
        for value in self.group.values:
            if self.stage[value] != stage:
                continue
            if self.level[value] == "full":
                loop.compute(value)
            elif self.level[value] == "last" and not self.writer.is_full_sum(value):
                loop.add_to_columns(value)
        for value in self.group.values:
            reduces = value.kind == "reduce" and self.reduction_stage(value) == stage
            is_external = reduces and value.operands[0].base not in self.inside
            if is_external and value.operands[0] in self.scratch and value not in loop.done:
                loop.copy(value.operands[0])
        self.row_body += loop.write()
        for value in self.writer.lasts:
            if self.stage[value] == stage and self.writer.is_full_sum(value):
                plus = "+=" if self.writer.mode == "blocks" else "="
                place = "c" if self.writer.mode == "blocks" else "r"
                self.row_body.append(f"{value.name}[{place}] {plus} {self.reduction(value)}")

    def reduction_stage(self, value: Value) -> int:
        return self.stage[value] - (self.level[value] == "row")

    def write_row_scalar(self, value: Value) -> None:
        """Generate a scalar of the row."""
        name = f"{value.name}_r"
        if value.kind == "reduce":
            text = self.reduction(value)
            if value.function == "sum":
                self.writer.kernel.needs.add(str(value.dtype))
                text = f"{value.dtype}({text})"
            self.row_body.append(f"{name} = {text}")
        else:
            at = {operand: self.scalar_operand(operand, value) for operand in operands_of(value)}
            self.row_body.append(f"{name} = {self.writer.expression(value, at)}")
        self.row_scalars[value] = name
        if value in self.writer.results:
            place = "r" if value.shape else "()"
            self.row_body.append(f"{self.writer.array_name(value)}[{place}] = {name}")

    def reduction(self, value: Value) -> str:
        function = REDUCTIONS[value.function]
        self.writer.kernel.needs.add(function)
        (operand,) = value.operands
        if operand.base in self.inside:
            row = self.row_buffer(operand.base)
        elif operand in self.scratch:
            row = f"{operand.name}_row"
        else:
            row = self.external_row(operand)
        cut = "[:columns]" if self.writer.mode == "chunks" and self.is_scratch(operand) else ""
        return f"{function}({row}{cut})"

    def is_scratch(self, operand: Value) -> bool:
        return operand in self.scratch or operand.base in self.scratch

    def row_buffer(self, value: Value) -> str:
        return f"{value.name}_row" if value in self.scratch else self.writer.row_name(value)

    # Operands --------------------------------------------------------------------------------

    def scalar_operand(self, operand: Value, user: Value) -> str:
        """Return the code of an operand of a row's scalar."""
        if operand.base in self.inside:
            return self.row_scalars[operand.base]
        if operand.dtype is None:
            return self.writer.add_parameter(operand)
        return self.read_row_scalar(operand, user.shape)

    def read_row_scalar(self, operand: Value, shape: tuple[int, ...]) -> str:
        """Return the code that reads one element for the row from an external array."""
        name = self.writer.add_parameter(operand)
        split = self.writer.split
        offset, steps = operand.layout[0], steps_along(operand, shape) or ()
        offset_text = self.row_offset(offset, steps[:split])
        if not operand.base.shape:
            offset_text = "()"
        text = f"{name}[{offset_text}]"
        if "r" not in offset_text:
            self.before_loop.append(f"{name}_at{offset} = {text}")
            return f"{name}_at{offset}"
        return text

    def row_offset(self, offset: int, steps: tuple[int, ...]) -> str:
        """Return the code of the offset of row r in an external array."""

        writer = self.writer
        rows = writer.domain[: writer.split]
        parts, below = [], 1
        for size, step in reversed(merge_axes(rows, steps)):
            count = "r" if below == 1 else f"r // {below}"
            above = writer.rows // below
            count = count if size == above else f"{count} % {size}"
            if step:
                count = f"({count})" if " " in count else count
                parts.append(count if step == 1 else f"{count} * {self.size_text(step)}")
            below *= size
        if offset or not parts:
            parts.append(str(offset))
        return " + ".join(parts)

    def size_text(self, step: int) -> str:
        return "columns" if step == self.writer.columns and step > 1 else str(step)

    def external_row(self, value: Value) -> str:
        """Generate the slice of an external array for the row; return its name."""
        if value in self.rows:
            return self.rows[value]

        writer = self.writer
        operand, value = value, writer.readable_operand(value)
        name = writer.add_parameter(value)
        offset, steps = writer.full_steps(value)
        split = writer.split
        step = merge_axes(writer.domain[split:], steps[split:])[0][1]
        tag = value.name
        if writer.mode == "chunks":
            plus = f"{offset} + " if offset else ""
            begin, end = f"{plus}first * {step}", f"{plus}(first + columns - 1) * {step} + 1"
            if step == 1:
                begin, end = f"{plus}first", f"{plus}first + columns"
        else:
            begin = self.row_offset(offset, steps[:split])
            length = "columns" if step == 1 else f"(columns - 1) * {step} + 1"
            end = f"{begin} + {length}"
            if begin == "r * columns":
                end = "(r + 1) * columns"
            begin, end = ("", "columns") if begin == "0" and step == 1 else (begin, end)
        cut = f"{begin}:{end}" + (f":{step}" if step != 1 else "")
        destination = self.row_prologue if "r" in cut or "first" in cut else self.before_loop
        destination.append(f"{tag}_row = {name}[{cut}]")
        self.rows[operand] = f"{tag}_row"
        return self.rows[operand]


class ElementLoop:
    """One loop over the elements of a row."""

    def __init__(self, rows: RowWriter, stage: int) -> None:
        self.rows, self.stage = rows, stage
        self.at: dict[Value, str] = {}
        self.text: list[str] = []
        self.done: set[Value] = set()

    def write(self) -> list[str]:

        return ["for j in range(columns):", *indent(self.text)] if self.text else []

    def operand(self, value: Value) -> str:
        """Return the code of an operand at a position of the row."""
        rows, writer = self.rows, self.rows.writer
        if value in self.at:
            return self.at[value]
        base = value.base
        if base in rows.inside:
            if rows.level[base] == "row":
                return rows.row_scalars[base]
            if base not in self.at:
                self.at[base] = f"{base.name}_j"
                self.text.append(f"{base.name}_j = {rows.row_buffer(base)}[j]")
            return self.at[base]
        if value.dtype is None:
            return writer.add_parameter(value)
        if writer.row_level(value) != "row":
            return rows.read_row_scalar(value, writer.domain)
        row = rows.external_row(value)
        self.at[value] = f"{row.removesuffix('_row')}_j"
        self.text.append(f"{self.at[value]} = {row}[j]")
        return self.at[value]

    def compute(self, value: Value) -> None:
        """Generate a value at a position, and store it if it is needed later."""
        rows, writer = self.rows, self.rows.writer
        at = {operand: self.operand(operand) for operand in operands_of(value)}
        self.text.append(f"{value.name}_j = {writer.expression(value, at)}")
        self.at[value] = f"{value.name}_j"
        if value in rows.stored:
            self.text.append(f"{rows.row_buffer(value)}[j] = {value.name}_j")

    def add_to_columns(self, value: Value) -> None:
        """Generate the addition of a row to the sums of the columns."""
        self.text.append(f"{value.name}_row[j] += {self.operand(value.operands[0])}")

    def copy(self, value: Value) -> None:
        """Generate a row buffer of an external array that is constant along the row."""
        self.text.append(f"{value.name}_row[j] = {self.operand(value)}")
        self.done.add(value)
