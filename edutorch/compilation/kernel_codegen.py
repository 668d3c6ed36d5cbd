"""Generates the kernel of a group: plain Python, which numba compiles.

    for r in range(start, stop):                       one row after the other
        x_row = x[r * columns:(r + 1) * columns]
        peak_r = row_max(x_row)
        for j in range(columns):                       all elements of the row
            exp_j = exp(x_row[j] - peak_r)
            ...

What a reduction or a later loop needs is kept in a row buffer, which fits in the L1 cache. Apart
from that, only the results are written. A row has a loop for each stage: a stage is what can be
computed before the row's next reduction. Softmax has three.
"""

from __future__ import annotations

import textwrap

from .fusion_groups import Group, indent, merge_axes, steps_along
from .kernel_layout import CHUNK, ROWS, KernelLayout, KernelText
from .symbols import FLOAT_DTYPES
from .values import REDUCTIONS, Value, operands_of

__all__ = ["kernel_text"]

VECTOR_FUNCTIONS = {
    "exp", "exp_nonpositive", "log", "tanh", "erf", "logaddexp", "gelu", "gelu_slope", "gelu_tanh",
    "gelu_tanh_slope", "expm1_nonpositive", "log1p_small",
}  # fmt: skip
"""Functions for which the widest registers pay."""


def kernel_text(group: Group, results: list[Value], shared: dict[Value, Value]) -> KernelText:
    """Generate the kernel of a group, and once more with canonical names.

    Kernels that differ only in names are compiled once: a network of equal layers needs few.

    Args:
        results: the values that are read outside.
        shared: results that are written over an array that the kernel reads.
    """
    # twice: the names are part of the text, and the text is the key of the cache.
    kernel = KernelWriter(group, results, shared).write()
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
        kernel.anonymous_body = KernelWriter(group, results, shared).write().body
    finally:
        for value, name in names.items():
            value.name = name  # later kernels read the same values by their own names
    return kernel


class KernelWriter(KernelLayout):
    """Generates one kernel."""

    def write(self) -> KernelText:
        if self.mode == "single":
            lines = self.write_single()
        else:
            lines = self.write_flat() if self.mode == "flat" else RowWriter(self).write()
        kernel = self.kernel
        # It is written over an input, which is an argument already.
        kernel.outputs = [output for output in kernel.outputs if output not in self.shared]
        arrays = [*kernel.inputs, *kernel.outputs, *kernel.partial]
        prologue = [  # one index for all axes: loops over rows need only sizes
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
            # Not for other functions: memory limits those.
            kernel.needs.add("use_wide_vectors")
            prologue = ["use_wide_vectors()", *prologue]
        if kernel.count > 1:
            kernel.needs.add("claim_range")  # idle threads take over the parts of slow ones
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

    def needs_reshape(self, value: Value) -> bool:
        if value in self.kernel.partial:  # partial sums have the shape that the loop uses
            return False
        return len(value.base.shape) > 1

    def array_type(self, value: Value) -> str:
        if value in self.kernel.partial:
            # Partial sums in float64: thousands of them are added.
            return "float64[:, ::1]" if not self.is_full_sum(value) else "float64[::1]"
        value = value.base
        # The signature is explicit, so numba compiles at once, in the background.
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
        # A chunk has a fixed size, a row that of the call.
        length = "columns" if self.mode in ("rows", "blocks") else str(CHUNK)
        return [
            f"{value.name}_row = np.empty({length}, np.{value.dtype})" for value in self.scratch()
        ]

    # Kernels of scalars, and of flat arrays ---------------------------------------------------

    def write_single(self) -> list[str]:
        """Generate a kernel of scalars."""
        lines, at = [], {}
        for value in self.group.values:
            for operand in operands_of(value):
                if operand in at or operand.base in self.inside:
                    # A view of a value inside is aligned with it.
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
        self.kernel.count = self.rows * self.columns  # any cut will do: no element needs another
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
                # A slice of each array: then one index j is right for all of them.
                before.append(f"{row} = {self.array_name(value)}[{first}:{last}]")
                loop.append(f"{row}[j] = {value.name}_j")
        return list(dict.fromkeys(before)), loop

    def load_operand(
        self, value: Value, first: str, last: str, at: dict[Value, str],
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
        if not step:  # the same element at all positions: loaded once, before the loop
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


class RowWriter:
    """Generates the code for one row, and the loop around it."""

    def __init__(self, writer: KernelWriter) -> None:
        self.writer = writer
        self.group, self.inside = writer.group, writer.inside
        self.level, self.stage = writer.group.level, writer.stage
        # Lines may repeat: an operand is asked for by each of its readers.
        self.before_loop: list[str] = []  # before all rows
        self.row_prologue: list[str] = []  # at the start of each row
        self.row_body: list[str] = []
        self.row_scalars: dict[Value, str] = {}  # values with one element for each row, or for all
        self.rows: dict[Value, str] = {}  # external rows
        self.scratch = set(writer.scratch())
        # Values that a later loop or another unit reads.
        self.stored = self.scratch | set(writer.results)

    def write(self) -> list[str]:
        """Generate all lines."""
        writer = self.writer
        for value in writer.results:
            if self.level[value] == "last":
                continue
            writer.kernel.outputs.append(value)  # the order of the arguments
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
        writer = self.writer
        if writer.mode == "chunks":
            return -(-writer.rows * writer.columns // CHUNK)
        return writer.rows if writer.mode == "rows" else -(-writer.rows // ROWS)

    def wrap_loop(self, row: list[str]) -> list[str]:
        """Wrap the lines of one row in the outer loop."""
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
                # The workspace has the sums of the last call.
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
        # One loop computes all values of the stage, so each row is read once.
        loop = ElementLoop(self, stage)
        for value in self.group.values:
            if self.stage[value] != stage:
                continue
            if self.level[value] == "full":
                loop.compute(value)
            # Column sums are updated in the loop, while the row is in the cache.
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
                text = f"{value.dtype}({text})"  # `total` sums in float64
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
        (operand,) = value.operands
        if value.function == "max" and operand.dtype in FLOAT_DTYPES:
            function = "row_max"  # compares integers: six times as fast, and NaN is the largest
        self.writer.kernel.needs.add(function)
        if operand.base in self.inside:
            row = self.row_buffer(operand.base)
        elif operand in self.scratch:
            row = f"{operand.name}_row"
        else:
            row = self.external_row(operand)
        # The last chunk is shorter than its buffer.
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
        if "r" not in offset_text:  # it does not depend on the row
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
                # r // 3 * 4 would be right by luck only.
                count = f"({count})" if " " in count else count
                parts.append(count if step == 1 else f"{count} * {self.size_text(step)}")
            below *= size
        if offset or not parts:
            parts.append(str(offset))
        return " + ".join(parts)

    def size_text(self, step: int) -> str:
        # Sizes that are arguments keep the text the same for other shapes.
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
            if begin == "r * columns":  # shorter to read; the same number
                end = "(r + 1) * columns"
            begin, end = ("", "columns") if begin == "0" and step == 1 else (begin, end)
        cut = f"{begin}:{end}" + (f":{step}" if step != 1 else "")
        # A slice that is the same for all rows is taken once.
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
            if base not in self.at:  # an earlier stage has computed it: it lies in the row buffer
                self.at[base] = f"{base.name}_j"
                self.text.append(f"{base.name}_j = {rows.row_buffer(base)}[j]")
            return self.at[base]
        if value.dtype is None:
            return writer.add_parameter(value)
        if writer.row_level(value) != "row":  # constant along the row: one scalar
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
