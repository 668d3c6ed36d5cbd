"""Generates a whole program as one straight-line Python function that calls its kernels."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..backends.blas import LONG
from ..ops import mm
from .fusion_groups import Group, Unit
from .kernel_codegen import kernel_text
from .kernel_layout import KernelText
from .memory_planning import Plan, is_cat
from .numpy_codegen import Names, NumpyWriter
from .values import Program, Value, operands_of

__all__ = ["Fused", "ProgramText", "program_text"]

MIN_FREED_BYTES = 65_536
"""Arrays allocated by NumPy of at least so many bytes are freed after their last use."""
MIN_KERNEL_PRODUCTS = 500_000
"""From so many multiplications on, a product is worth the call of the kernel of `mm`."""


@dataclass(slots=True)
class Fused:
    """A kernel of the program: its name, its code, and its fallback in NumPy calls."""

    name: str
    group: Group
    text: KernelText
    fallback: str
    results: list[Value]


@dataclass(slots=True)
class ProgramText:
    """The source code of a program and everything that it needs to run."""

    source: str
    scope: dict[str, Any]
    fused: list[Fused] = field(default_factory=list)
    arrays: list[tuple[int, tuple[int, ...], Any, int]] = field(default_factory=list)


class ProgramWriter:
    """Generates the function `run`."""

    def __init__(self, program: Program, units: list[Unit], plan: Plan) -> None:
        self.program, self.units, self.plan = program, units, plan
        everything = [*program.inputs, *program.values]
        # Names of values are fixed; functions get other names.
        taken = {value_.name for value_ in everything}
        self.names = Names(taken | {f"fused_{i}" for i in range(len(units))})
        self.numpy = NumpyWriter(self.names)
        self.lines: list[str] = []
        self.spaces: list[str] = []  # the names of the arrays of the workspace
        self.arrays: list[tuple[int, tuple[int, ...], Any, int]] = []  # buffer, …, first byte
        self.fused: list[Fused] = []
        self.outputs = {value_.base for value_ in operands_of(program.outputs)}
        self.kernel_operands = self.read_by_kernels()
        self.names.scope["contiguous"] = contiguous

    def read_by_kernels(self) -> set[Value]:
        """Return the arrays that kernels read, which must be contiguous."""
        groups = [unit for unit in self.units if isinstance(unit, Group)]
        return {operand.base for group in groups for operand in group.external_operands()
                if operand.dtype is not None}  # fmt: skip

    def write(self) -> ProgramText:
        for value in self.program.values:
            if value.kind == "constant" and value in self.kernel_operands:
                value.function = contiguous(value.function)  # once, instead of in each call
        head = self.head()
        last_used = self.last_used()
        for number, unit in enumerate(self.units):
            if isinstance(unit, Group):
                self.write_kernel(unit)
            else:
                self.write_single(unit.values[0])
            if last_used.get(number):
                # NumPy can give the memory to the next array.
                self.lines.append(f"del {', '.join(value.name for value in last_used[number])}")
        outputs = self.results()
        if self.spaces:
            names = "".join(f"{space}, " for space in self.spaces)
            # A list as a stack: `pop` is atomic, so concurrent calls have their own.
            head.append("workspace = spaces.pop() if spaces else new_workspace()")
            head.append(f"{names.rstrip() if len(self.spaces) > 1 else names} = workspace")
            self.lines.append("spaces.append(workspace)")
        body = [*head, *self.lines, f"return [{', '.join(outputs)}]"]
        source = "def run(inputs):\n" + textwrap.indent("\n".join(body), "    ") + "\n"
        return ProgramText(source, self.names.scope, self.fused, self.arrays)

    def head(self) -> list[str]:
        names = "".join(f"{input_.name}, " for input_ in self.program.inputs)
        lines = [f"{names.rstrip()} = inputs"] if names else []
        lines += [
            self.contiguous_line(input_.name)
            for input_ in self.program.inputs
            if input_ in self.kernel_operands
        ]
        return lines

    def contiguous_line(self, name: str) -> str:
        return f"{name} = {name} if {name}.flags.carray else contiguous({name})"

    def last_used(self) -> dict[int, list[Value]]:
        """Return, by unit, the large arrays of NumPy's that are not needed afterwards."""
        values: dict[int, list[Value]] = {}
        for value in self.program.values:
            has_buffer = self.has_buffer(value)
            last = self.plan.last.get(value, -1)
            is_computed = value.kind in ("call", "element", "reduce", "product") and not has_buffer
            ends_inside = 0 <= last < len(self.units)
            if (
                is_computed
                and ends_inside
                and value.bytes >= MIN_FREED_BYTES
                and self.is_unfused(value)
            ):
                values.setdefault(last, []).append(value)
        return values

    def has_buffer(self, value: Value) -> bool:
        """Whether a value has planned memory."""
        plan = self.plan
        return value in plan.buffer or value in plan.written or value in plan.inside

    def is_unfused(self, value: Value) -> bool:
        return not isinstance(self.unit_of().get(value), Group)

    def unit_of(self) -> dict[Value, Unit]:
        if not hasattr(self, "_unit_of"):
            self._unit_of = {value: unit for unit in self.units for value in unit.values}
        return self._unit_of

    # Memory ---------------------------------------------------------------------------------

    def output_name(self, value: Value) -> str:
        """Return the name of the existing array into which a result is written."""
        if value in self.plan.written:
            name = self.plan.written[value].name
            self.numpy.names_of[value] = name  # from now on the input holds the new value
            return name
        if value in self.plan.inside:
            stack, first = self.plan.inside[value]
            buffer = self.plan.buffer[stack]
            self.add_workspace_array(buffer, value.name, value.shape, value.dtype, first)
        elif value in self.plan.buffer:
            self.add_workspace_array(self.plan.buffer[value], value.name, value.shape, value.dtype)
        else:
            self.before_gradients(value)
            self.lines.append(f"{value.name} = np.empty({value.shape}, np.{value.dtype})")
        return value.name

    def before_gradients(self, value: Value) -> None:
        """Generate the release of the last call's gradients before the first new one."""
        # The old gradients are released as late as possible, and before the first new one.
        late = value.node is not None and value.node.meta.get("phase") == "backward"
        if late and "before_gradients()" not in self.lines:
            self.lines.append("before_gradients()")

    def add_workspace_array(
        self, buffer: int, name: str, shape: tuple[int, ...], dtype: np.dtype | None, first: int = 0
    ) -> None:  # fmt: skip
        if name not in self.spaces:
            self.spaces.append(name)
            self.arrays.append((buffer, shape, dtype, first))

    # Units ------------------------------------------------------------------------------------

    def write_single(self, value: Value) -> None:
        """Generate a value that NumPy computes."""
        if value.kind == "constant":
            return
        has_buffer = self.has_buffer(value)
        if has_buffer and value.kind == "call":  # the only calls that write into planned memory
            self.write_concatenation(value)
            return
        if value.kind == "product" and (has_buffer or value in self.plan.fresh):
            # For its side effect as well: the array is allocated in this line.
            out = self.output_name(value)
            left, right, *bias = (self.numpy.operand_text(operand) for operand in value.operands)
            work = value.operands[0].size * value.shape[1]
            # The kernel of `mm` adds the bias while the result is in the cache.
            if bias or work >= MIN_KERNEL_PRODUCTS:
                name = self.names.name(product, "product")
                self.lines.append(f"{name}({', '.join([left, right, out, *bias])})")
            else:
                self.lines.append(f"np.dot({left}, {right}, {out})")
            return
        if has_buffer:
            self.lines.append(self.numpy.expression(value, out=self.output_name(value)))
            return
        text = self.numpy.expression(value)
        is_array = value.dtype is not None and value.kind != "number"
        if (
            is_array
            and not value.shape
            and (value in self.kernel_operands or value.base in self.outputs)
        ):
            text = f"np.asarray({text})"  # NumPy returns a scalar, and kernels take arrays
        self.lines.append(f"{value.name} = {text}")
        if value in self.kernel_operands and value.shape:
            self.lines.append(self.contiguous_line(value.name))

    def write_concatenation(self, value: Value) -> None:
        """Generate a concatenation into planned memory."""
        out = self.output_name(value)
        if is_cat(value):
            parts = ", ".join(map(self.numpy.operand_text, value.operands[0]))
            settings = value.operands[-1]
            # By keyword or by position.
            dim = settings["dim"] if "dim" in settings else value.operands[1]
            self.lines.append(f"np.concatenate([{parts}], {dim}, {out})")
            return
        first = 0
        for part in value.operands[0]:
            last = first + part.shape[0]
            # The others have been computed in place.
            if self.plan.inside.get(part, (None,))[0] is not value:
                self.lines.append(f"{out}[{first}:{last}] = {self.numpy.operand_text(part)}")
            first = last

    def write_kernel(self, group: Group) -> None:
        """Generate the call of a kernel."""
        results = group.results(self.outputs)
        shared = self.plan.shared.get(group, {})
        text = kernel_text(group, results, shared)
        name = f"fused_{len(self.fused)}"
        text.name = name
        arguments = [self.input(input_) for input_ in text.inputs]
        for value in results:
            if value in shared and value not in self.plan.written:
                self.add_workspace_array(
                    self.plan.buffer[value], value.name, value.shape, value.dtype
                )
            elif value not in text.partial:
                out = self.output_name(value)
                arguments += [out] if value not in shared else []
        for value, (buffer, shape) in self.plan.partial.items():
            if value in text.partial:
                self.add_workspace_array(buffer, f"{value.name}_parts", shape, np.dtype("float64"))
                arguments.append(f"{value.name}_parts")
        scalars = [number.name for number in text.scalars]
        sizes = [str(size) for size in (0, text.count, *text.sizes)]
        call = f"{name}({', '.join([*sizes, *scalars, *arguments])})"
        self.lines.append(f"{call}  # {describe_kernel(group, results, shared)}")
        for value in text.partial:
            out = self.output_name(value)
            is_full_sum = len(value.settings["axes"]) == len(group.domain)
            parts = f"{value.name}_parts"
            if text.partial[value][0] == 1:
                total = f"{parts}[0]"  # one part: nothing to add
            else:
                total = f"np.add.reduce({parts})" if is_full_sum else f"np.add.reduce({parts}, 0)"
            total += f".reshape({value.shape})" if not is_full_sum and len(value.shape) != 1 else ""
            self.lines.append(f"{out}[...] = {total}")  # float64 parts, rounded once
        fallback = self.fallback(group, text, results, shared)
        self.fused.append(Fused(name, group, text, fallback, results))

    def input(self, value: Value) -> str:
        """Return the code of an array that a kernel reads; a view is copied first."""
        if value.kind == "view":
            return f"contiguous({self.numpy.operand_text(value)})"
        return self.numpy.operand_text(value)

    def fallback(
        self, group: Group, text: KernelText, results: list[Value], shared: dict[Value, Value]
    ) -> str:  # fmt: skip
        """Return a function in NumPy calls that does the same as the kernel."""
        arrays = [*text.inputs, *text.outputs]
        names_of = {input_: input_.name for input_ in text.inputs}
        views = [input_ for input_ in text.inputs if input_.kind == "view"]
        names_of |= {
            copy.operands[0]: copy.name for copy in views if copy.operands[0] not in names_of
        }
        writer = NumpyWriter(self.names, names_of)
        names = ["start", "stop", *(f"size_{i}" for i in range(len(text.sizes)))]
        names += [*(number.name for number in text.scalars)]
        names += [
            array.name if array not in text.outputs else f"{array.name}_out" for array in arrays
        ]
        names += [f"{partial.name}_parts" for partial in text.partial]
        # One NumPy call for each value, until the kernel is compiled.
        lines = [f"{value.name} = {writer.expression(value)}" for value in group.values]
        for value in results:
            if value in text.partial:
                # The rest of the parts stays 0, so that the sum below is right.
                lines.append(f"{value.name}_parts[...] = 0")
                buffer = f"0, :] = {value.name}.reshape(-1)"
                is_full_sum = len(value.settings["axes"]) == len(group.domain)
                lines.append(
                    f"{value.name}_parts[" + (f"0] = {value.name}" if is_full_sum else buffer)
                )
                if is_full_sum:
                    lines[-1] = f"{value.name}_parts[0] = {value.name}.item()"
            else:
                out = shared[value].name if value in shared else f"{value.name}_out"
                lines.append(f"{out}[...] = {value.name}")
        body = textwrap.indent("\n".join(lines), "    ")
        return f"def {text.name}({', '.join(names)}):\n{body}\n"

    # Results ------------------------------------------------------------------------------------

    def results(self) -> list[str]:
        """Return the code of the outputs, each a separate array."""
        outputs: list[str] = []
        seen: dict[Value, Any] = {}
        for value, node in zip(self.program.outputs, self.program.output_nodes, strict=True):
            if not isinstance(value, Value):
                outputs.append(f"np.asarray({self.numpy.operand_text(value)})")
                continue
            text = self.numpy.operand_text(value)
            # Two results of the function are two tensors, also if they are equal.
            is_repeated = value in seen and seen[value] is not node and value.kind != "view"
            seen.setdefault(value, node)
            outputs.append(f"{text}.copy()" if is_repeated or value.kind == "constant" else text)
        return outputs


def describe_kernel(group: Group, results: list[Value], shared: dict[Value, Value]) -> str:
    """Return a comment that says what a kernel computes, and what it overwrites."""
    ops = dict.fromkeys(value.node.name for value in group.values if value.node is not None)
    overwritten = {value: f"{value.name} over {array.name}" for value, array in shared.items()}
    names = ", ".join(overwritten.get(result, result.name) for result in results)
    op_names = list(ops)
    return f"{' '.join(op_names[:6])}{' …' if len(op_names) > 6 else ''} -> {names}"


def contiguous(x: np.ndarray) -> np.ndarray:
    """Return an array, or a copy if it is not contiguous, aligned and writeable."""
    y = np.ascontiguousarray(x).reshape(np.shape(x))
    # Also if it is read-only: numba compiles for writeable arrays.
    return y if y.flags.carray else y.copy()


def product(
    left: np.ndarray, right: np.ndarray, out: np.ndarray, bias: np.ndarray | None = None
) -> None:
    """Write the product of two matrices, and a bias for each column, into `out`.

    The kernel of `mm` does it, on all threads, if there is one and it supports the case.
    """
    if left.shape[0] * right.size >= LONG:  # an interrupt must not leave it writing into `out`
        out[...] = mm.op.forward(np, left, right)
        if bias is not None:
            out += bias
        return
    slot = mm.op.slot
    if slot is None or slot(left, right, bias, out) is None:
        np.dot(left, right, out)
        if bias is not None:
            out += bias


def program_text(program: Program, units: list[Unit], plan: Plan) -> ProgramText:
    """Generate the code of a program.

    Args:
        units: in topological order.
        plan: the memory of their results.
    """
    return ProgramWriter(program, units, plan).write()
