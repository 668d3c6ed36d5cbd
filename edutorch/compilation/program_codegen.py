"""Writes a whole program as one Python function, straight down, with its kernels and places."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..backends.interruptible import LONG
from ..ops import mm
from .fusion_groups import Group, Unit
from .kernel_codegen import KernelText, kernel_text
from .memory_planning import Plan, is_cat
from .numpy_codegen import Names, NumpyText
from .values import Program, Value, operands_of

__all__ = ["Fused", "ProgramText", "program_text"]

LARGE = 65_536
"""From so many bytes on, what NumPy allocated is let go as soon as nobody needs it."""
WORTH_ASKING = 500_000
"""From so many multiplications on, a product is worth the call of its own kernel."""


@dataclass(slots=True)
class Fused:
    """A kernel of the program: its name there, its text, and the same in NumPy's calls."""

    name: str
    group: Group
    text: KernelText
    plain: str
    results: list[Value]


@dataclass(slots=True)
class ProgramText:
    """The text of a program and all that it needs to run."""

    source: str
    scope: dict[str, Any]
    fused: list[Fused] = field(default_factory=list)
    arrays: list[tuple[int, tuple[int, ...], Any, int]] = field(default_factory=list)


class ProgramWriter:
    """Writes the function `run`."""

    def __init__(self, program: Program, units: list[Unit], plan: Plan) -> None:
        self.program, self.units, self.plan = program, units, plan
        everything = [*program.inputs, *program.values]
        taken = {each.name for each in everything}
        self.names = Names(taken | {f"fused_{i}" for i in range(len(units))})
        self.numpy = NumpyText(self.names)
        self.lines: list[str] = []
        self.spaces: list[str] = []  # the names of the arrays of the workspace
        self.arrays: list[tuple[int, tuple[int, ...], Any, int]] = []  # place, …, first byte
        self.fused: list[Fused] = []
        self.outputs = {each.base for each in operands_of(program.outputs)}
        self.for_kernels = self.read_by_kernels()
        self.names.scope["contiguous"] = contiguous

    def read_by_kernels(self) -> set[Value]:
        """The arrays that some kernel reads as they lie in memory."""
        groups = [unit for unit in self.units if isinstance(unit, Group)]
        return {each.base for group in groups for each in group.outside()
                if each.dtype is not None}  # fmt: skip

    def write(self) -> ProgramText:
        for value in self.program.values:
            if value.kind == "constant" and value in self.for_kernels:
                value.function = contiguous(value.function)
        head = self.head()
        dying = self.dying()
        for number, unit in enumerate(self.units):
            if isinstance(unit, Group):
                self.kernel(unit)
            else:
                self.single(unit.values[0])
            if dying.get(number):
                self.lines.append(f"del {', '.join(each.name for each in dying[number])}")
        outputs = self.results()
        if self.spaces:
            names = "".join(f"{space}, " for space in self.spaces)
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
            self.laid_out(input_.name)
            for input_ in self.program.inputs
            if input_ in self.for_kernels
        ]
        return lines

    def laid_out(self, name: str) -> str:
        return f"{name} = {name} if {name}.flags.carray else contiguous({name})"

    def dying(self) -> dict[int, list[Value]]:
        """By unit, the large arrays of NumPy's that nobody needs afterwards."""
        found: dict[int, list[Value]] = {}
        for value in self.program.values:
            ours = self.ours(value)
            last = self.plan.last.get(value, -1)
            made = value.kind in ("call", "element", "reduce", "product") and not ours
            ends = 0 <= last < len(self.units)
            if made and ends and value.bytes >= LARGE and self.alone(value):
                found.setdefault(last, []).append(value)
        return found

    def ours(self, value: Value) -> bool:
        """Say whether a value has a place that was planned for it."""
        plan = self.plan
        return value in plan.place or value in plan.written or value in plan.inside

    def alone(self, value: Value) -> bool:
        return not isinstance(self.unit_of().get(value), Group)

    def unit_of(self) -> dict[Value, Unit]:
        if not hasattr(self, "_unit_of"):
            self._unit_of = {value: unit for unit in self.units for value in unit.values}
        return self._unit_of

    # Memory ---------------------------------------------------------------------------------

    def memory(self, value: Value) -> str:
        """Return the name of the array that a result is to be written into, made before."""
        if value in self.plan.written:
            name = self.plan.written[value].name
            self.numpy.own[value] = name
            return name
        if value in self.plan.inside:
            stack, first = self.plan.inside[value]
            place = self.plan.place[stack]
            self.space(place, value.name, value.shape, value.dtype, first)
        elif value in self.plan.place:
            self.space(self.plan.place[value], value.name, value.shape, value.dtype)
        else:
            self.before_gradients(value)
            self.lines.append(f"{value.name} = np.empty({value.shape}, np.{value.dtype})")
        return value.name

    def before_gradients(self, value: Value) -> None:
        """Before the first array that may be a gradient, those of the last call can go."""
        late = value.node is not None and value.node.meta.get("phase") == "backward"
        if late and "before_gradients()" not in self.lines:
            self.lines.append("before_gradients()")

    def space(
        self, place: int, name: str, shape: tuple[int, ...], dtype: Any, first: int = 0
    ) -> None:  # fmt: skip
        if name not in self.spaces:
            self.spaces.append(name)
            self.arrays.append((place, shape, dtype, first))

    # Units ------------------------------------------------------------------------------------

    def single(self, value: Value) -> None:
        """A value that NumPy computes."""
        if value.kind == "constant":
            return
        ours = self.ours(value)
        if ours and value.kind == "call":
            self.joined(value)
            return
        if value.kind == "product" and (ours or value in self.plan.fresh):
            out = self.memory(value)
            left, right, *bias = (self.numpy.of(operand) for operand in value.operands)
            work = value.operands[0].size * value.shape[1]
            if bias or work >= WORTH_ASKING:
                name = self.names.name(product, "product")
                self.lines.append(f"{name}({', '.join([left, right, out, *bias])})")
            else:
                self.lines.append(f"np.dot({left}, {right}, {out})")
            return
        if ours:
            self.lines.append(self.numpy.expression(value, out=self.memory(value)))
            return
        text = self.numpy.expression(value)
        array = value.dtype is not None and value.kind != "number"
        if array and not value.shape and (value in self.for_kernels or value.base in self.outputs):
            text = f"np.asarray({text})"
        self.lines.append(f"{value.name} = {text}")
        if value in self.for_kernels and value.shape:
            self.lines.append(self.laid_out(value.name))

    def joined(self, value: Value) -> None:
        """Arrays that are put below or beside each other, in memory that is there."""
        out = self.memory(value)
        if is_cat(value):
            parts = ", ".join(map(self.numpy.of, value.operands[0]))
            settings = value.operands[-1]
            dim = settings["dim"] if "dim" in settings else value.operands[1]
            self.lines.append(f"np.concatenate([{parts}], {dim}, {out})")
            return
        first = 0
        for part in value.operands[0]:
            last = first + part.shape[0]
            if self.plan.inside.get(part, (None,))[0] is not value:
                self.lines.append(f"{out}[{first}:{last}] = {self.numpy.of(part)}")
            first = last

    def kernel(self, group: Group) -> None:
        """The call of a kernel."""
        results = group.results(self.outputs)
        shared = self.plan.shared.get(group, {})
        text = kernel_text(group, results, shared)
        name = f"fused_{len(self.fused)}"
        text.name = name
        arguments = [self.input(input_) for input_ in text.inputs]
        for value in results:
            if value in shared and value not in self.plan.written:
                self.space(self.plan.place[value], value.name, value.shape, value.dtype)
            elif value not in text.partial:
                out = self.memory(value)
                arguments += [out] if value not in shared else []
        for value, (place, shape) in self.plan.partial.items():
            if value in text.partial:
                self.space(place, f"{value.name}_parts", shape, np.dtype("float64"))
                arguments.append(f"{value.name}_parts")
        numbers = [number.name for number in text.numbers]
        sizes = [str(each) for each in (0, text.count, *text.sizes)]
        call = f"{name}({', '.join([*sizes, *numbers, *arguments])})"
        self.lines.append(f"{call}  # {told(group, results, shared)}")
        for value in text.partial:
            out = self.memory(value)
            whole = len(value.settings["axes"]) == len(group.domain)
            parts = f"{value.name}_parts"
            if text.partial[value][0] == 1:
                total = f"{parts}[0]"
            else:
                total = f"np.add.reduce({parts})" if whole else f"np.add.reduce({parts}, 0)"
            total += f".reshape({value.shape})" if not whole and len(value.shape) != 1 else ""
            self.lines.append(f"{out}[...] = {total}")
        plain = self.plain(group, text, results, shared)
        self.fused.append(Fused(name, group, text, plain, results))

    def input(self, value: Value) -> str:
        """Write an array that a kernel reads; a view is copied first."""
        if value.kind == "view":
            return f"contiguous({self.numpy.of(value)})"
        return self.numpy.of(value)

    def plain(
        self, group: Group, text: KernelText, results: list[Value], shared: dict[Value, Value]
    ) -> str:  # fmt: skip
        """The same as the kernel in NumPy's calls, with the same arguments."""
        arrays = [*text.inputs, *text.outputs]
        own = {input_: input_.name for input_ in text.inputs}
        copies = [input_ for input_ in text.inputs if input_.kind == "view"]
        own |= {copy.operands[0]: copy.name for copy in copies if copy.operands[0] not in own}
        writer = NumpyText(self.names, own)
        names = ["start", "stop", *(f"size_{i}" for i in range(len(text.sizes)))]
        names += [*(number.name for number in text.numbers)]
        names += [
            array.name if array not in text.outputs else f"{array.name}_out" for array in arrays
        ]
        names += [f"{each.name}_parts" for each in text.partial]
        lines = [f"{value.name} = {writer.expression(value)}" for value in group.values]
        for value in results:
            if value in text.partial:
                lines.append(f"{value.name}_parts[...] = 0")
                place = f"0, :] = {value.name}.reshape(-1)"
                whole = len(value.settings["axes"]) == len(group.domain)
                lines.append(f"{value.name}_parts[" + (f"0] = {value.name}" if whole else place))
                if whole:
                    lines[-1] = f"{value.name}_parts[0] = {value.name}.item()"
            else:
                out = shared[value].name if value in shared else f"{value.name}_out"
                lines.append(f"{out}[...] = {value.name}")
        body = textwrap.indent("\n".join(lines), "    ")
        return f"def {text.name}({', '.join(names)}):\n{body}\n"

    # Results ------------------------------------------------------------------------------------

    def results(self) -> list[str]:
        """Write what the function returns: each output an array of its own."""
        found: list[str] = []
        seen: dict[Value, Any] = {}
        for value, node in zip(self.program.outputs, self.program.wanted, strict=True):
            if not isinstance(value, Value):
                found.append(f"np.asarray({self.numpy.of(value)})")
                continue
            text = self.numpy.of(value)
            again = value in seen and seen[value] is not node and value.kind != "view"
            seen.setdefault(value, node)
            found.append(f"{text}.copy()" if again or value.kind == "constant" else text)
        return found


def told(group: Group, results: list[Value], shared: dict[Value, Value]) -> str:
    """Say in a comment what a kernel computes, and what it writes over."""
    ops = dict.fromkeys(value.node.name for value in group.values if value.node is not None)
    over = {value: f"{value.name} over {each.name}" for value, each in shared.items()}
    names = ", ".join(over.get(result, result.name) for result in results)
    found = list(ops)
    return f"{' '.join(found[:6])}{' …' if len(found) > 6 else ''} -> {names}"


def contiguous(x: Any) -> np.ndarray:
    """Return an array with its numbers in order, which a kernel may take: a copy if it is not."""
    y = np.ascontiguousarray(x).reshape(np.shape(x))
    return y if y.flags.carray else y.copy()


def product(left: Any, right: Any, out: Any, bias: Any = None) -> None:
    """Write the product of two matrices, and a bias for each column, into `out`.

    The kernel of products does it, by all threads, where there is one and it is worth its call.
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
    """Write a program.

    Args:
        units: in the order in which they run.
        plan: where their results go.
    """
    return ProgramWriter(program, units, plan).write()
