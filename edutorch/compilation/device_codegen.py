"""Generates the program of a device: straight-line Python that launches kernels.

It is written with the functions of the device's `xp` where `program_codegen.py` has NumPy's. The
function allocates its results; a pool of its own, from which a captured step takes its memory,
gives the same memory to the next result once a name is deleted.
"""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..backends import Backend
from ..backends.kernel_registry import declarations, run_on_device
from ..backends.pending_checks import called_at
from ..core.op import Op
from ..core.precision import add_up
from ..core.registry import REGISTRY
from ..fx import primitives
from ..fx.device_functions import function_on
from ..nn.functional.activation import gelu_derivative
from .cuda_codegen import UNIFORM
from .fused_draws import place_of_draw
from .fusion_groups import Group, Unit, readers
from .memory_planning import in_place_outputs
from .numpy_codegen import Names, NumpyWriter
from .values import Program, Value, operands_of

__all__ = ["DeviceFunctions", "DeviceProgramText", "device_program_text"]


class DeviceFunctions:
    """The functions that a device's program calls, by what a graph calls.

    Args:
        backend: the device. Its kernels compute what they handle, and definitions the rest.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend, self.xp = backend, backend.xp

    def of(self, target: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function for a function of a graph."""
        op = getattr(target, "op", None)
        if op is not None:
            return self.of_op(op)
        if hasattr(target, "rule"):
            return self.kernel_first(target.rule, target.definition)
        if target in (primitives.draw, place_of_draw):
            return target
        return function_on(self.backend, target)

    def of_op(self, op: Op) -> Callable[..., Any]:
        """Return the function for an op: its kernel before its definition."""
        definition = functools.partial(op.forward, self.xp)
        if not self.has_kernel(op.name):
            return definition
        parameters = op.signature.parameters

        def run(*args: Any, **kwargs: Any) -> Any:
            by_name = dict(zip(parameters, args, strict=False)) | kwargs
            values = [by_name.get(name, p.default) for name, p in parameters.items()]
            y = self.run_kernel(op.name, values)
            # A kernel takes all settings in order; a definition takes some by name alone: `dtype`.
            return definition(*args, **kwargs) if y is None else y

        return run

    def has_kernel(self, key: str) -> bool:
        """Whether the device has a kernel for an op, or a rule, of this name."""
        return bool(self.backend.kernels) and key in declarations(self.backend.kernels)

    def kernel_first(self, key: str, definition: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that tries the kernel of this name before a definition."""
        if not self.has_kernel(key):
            return definition

        def run(*values: Any) -> Any:
            y = self.run_kernel(key, values)
            return definition(*values) if y is None else y

        return run

    def run_kernel(self, key: str, values: Sequence[Any]) -> Any:
        """Compute by the kernel of this name, or return None."""
        size = next((value.size for value in values if hasattr(value, "size")), 1)
        return run_on_device(self.backend.kernels, key, size, values)

    def product(self, left: Any, right: Any, bias: Any = None) -> Any:
        """Return the product of two matrices, plus a bias for each column."""
        if self.backend.kernels and bias is not None:
            from ..kernels.gpu.matmul import product

            y = product(left, right, bias)
            if y is not None:
                return y
        y = self.of_op(REGISTRY["mm"])(left, right)
        return y if bias is None else y + bias

    def sum_along(self, x: Any, axis: Any, keepdims: bool) -> Any:
        """Sum as definitions do."""
        return add_up(self.xp, x, axis, keepdims)

    def uniform(self, place: Any, shape: tuple[int, ...]) -> Any:
        """Return the numbers of a draw that has its place, where no kernel computes them inside."""
        from ..kernels.gpu.random import uniform_at

        y = self.xp.empty(shape, np.float32)
        uniform_at(place, y)
        return y

    def element_functions(self) -> dict[str, Callable[..., Any]]:
        """Return the elementwise functions that array libraries do not have."""
        erf, gelu = REGISTRY["erf"], REGISTRY["gelu"]
        return {
            "erf": lambda x: erf.forward(self.xp, x),
            "gelu": lambda x: gelu.forward(self.xp, x),
            "gelu_tanh": lambda x: gelu.forward(self.xp, x, "tanh"),
            "gelu_slope": lambda x: gelu_derivative(x, "none"),
            "gelu_tanh_slope": lambda x: gelu_derivative(x, "tanh"),
        }


@dataclass(slots=True)
class DeviceProgramText:
    """The source code of a device's program, and what it needs to run.

    Attributes:
        source: the function `run(inputs)`, which returns the outputs.
        scope: the names that it uses.
        kernels: the groups of values that one kernel each computes, by the kernel's name.
    """

    source: str
    scope: dict[str, Any]
    kernels: dict[str, Group] = field(default_factory=dict)


class DeviceWriter(NumpyWriter):
    """Generates the code of single values for a device."""

    def __init__(self, names: Names, functions: DeviceFunctions) -> None:
        super().__init__(names)
        self.functions = functions
        self.elements = functions.element_functions()
        self.number_dtype: np.dtype[Any] | None = None

    def operand_text(self, operand: object) -> str:
        """Return the code of an operand; a number on the device gets the dtype of the result."""
        if is_number(operand) and self.number_dtype is not None:
            # 0-d arrays take part in promotion, unlike the numbers of Python that they replace.
            return f"{operand.name}.astype({self.dtype_text(self.number_dtype)})"  # type: ignore[attr-defined]
        if isinstance(operand, np.generic):
            return f"{self.dtype_text(operand.dtype)}.type({operand.item()!r})"
        return super().operand_text(operand)

    def dtype_text(self, dtype: np.dtype[Any]) -> str:
        """Return the name of a dtype: the device's module need not have one for it."""
        return self.names.name(dtype, str(dtype))

    def view(self, value: Value) -> str:
        """Return the code of a view."""
        (operand,) = value.operands
        inner, text = self.operand_text(operand), value.settings["text"]
        op = getattr(getattr(value.node, "target", None), "op", None)
        if text.endswith("({})") and text.partition("(")[0].isidentifier() and op is not None:
            if op.name == "expand":
                return f"np.broadcast_to({inner}, {value.shape})"
            settings = dict(value.node.kwargs)
            take = functools.partial(op.forward, self.functions.xp, **settings)
            name = self.names.name(take, f"{value.node.name}_view")
            value.settings["device_view"] = take  # the names are kept by what they name
            return f"{name}({inner})"
        return text.format(inner)

    def expression(self, value: Value, out: str | None = None) -> str:
        """Return the code that computes a value."""
        self.number_dtype = number_dtype(value)
        try:
            if value.kind == "product":
                left, right, *bias = map(self.operand_text, value.operands)
                return f"product({', '.join([left, right, *bias])})"
            if value.function == UNIFORM:
                name = self.names.name(self.functions.uniform, UNIFORM)
                return f"{name}({self.operand_text(value.operands[0])}, {value.shape})"
            if value.kind == "element" and value.function in self.elements:
                function = self.names.name(self.elements[value.function], value.function)
                return f"{function}({self.operand_text(value.operands[0])})"
            if value.kind == "element" and value.function == "fill":
                number = value.operands[0]
                dtype = self.dtype_text(value.dtype)
                return f"np.full({value.shape}, {self.operand_text(number)}, {dtype})"
            if value.kind == "element" and value.function == "cast":
                text = self.operand_text(value.operands[0])
                return f"{text}.astype({self.dtype_text(value.dtype)})"
            return super().expression(value, out)
        finally:
            self.number_dtype = None

    def reduction(self, value: Value) -> str:
        """Return the code of a sum, minimum or maximum along axes."""
        if value.function != "sum":
            return super().reduction(value)
        axes, keep = value.settings["axes"], value.settings["keepdims"]
        name = self.names.name(self.functions.sum_along, "sum_along")
        axis = axes[0] if len(axes) == 1 else axes
        return f"{name}({self.operand_text(value.operands[0])}, {axis}, {keep})"

    def call(self, value: Value) -> str:
        """Return the code of the call of a definition, or of another function."""
        *args, kwargs = value.operands
        if value.kind == "part":
            return super().call(value)
        if value.kind == "number":
            return self.number(value)
        function = self.functions.of(value.function)
        line = getattr(value.node, "meta", {}).get("line")
        if line and getattr(value.function, "op", None) is not None:
            function = named_at(line, function)  # its checks are read later
        value.settings["device_function"] = function
        wanted = getattr(value.function, "__name__", "function")
        name = self.names.name(function, wanted)
        pairs = [f"{key}={self.operand_text(argument)}" for key, argument in kwargs.items()]
        return f"{name}({', '.join([*map(self.operand_text, args), *pairs])})"

    def number(self, value: Value) -> str:
        """Return the code of a number made from an array of the device: it stays there."""
        *args, _ = value.operands
        if value.function is primitives.item:
            double = self.dtype_text(np.dtype("float64"))
            return f"{self.operand_text(args[0])}.reshape(()).astype({double})"
        if getattr(value.function, "__module__", "") == "math":
            return f"np.{value.function.__name__}({', '.join(map(self.operand_text, args))})"
        return super().call(value)


def named_at(line: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose errors that are found later name a line of the user's code."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with called_at(line):
            return function(*args, **kwargs)

    return run


def is_number(operand: object) -> bool:
    """Whether an operand is a number that differs from call to call: an array without axes here."""
    scalar_kinds = ("input", "number")  # a call that returns several arrays has no dtype either
    return isinstance(operand, Value) and operand.dtype is None and operand.kind in scalar_kinds


def number_dtype(value: Value) -> np.dtype[Any] | None:
    """Return the dtype in which a value computes with numbers, or None if it is one itself."""
    if value.kind == "number" or value.dtype is None:
        return None
    if value.function is primitives.as_array:
        return None
    if value.dtype.kind == "f" or value.kind == "call":
        return value.dtype
    arrays = [operand.dtype for operand in operands_of(value) if operand.dtype is not None]
    return arrays[0] if arrays else value.dtype


class DeviceProgramWriter:
    """Generates the function `run` of a device's program.

    Args:
        program: the program, whose last inputs are numbers in the device's memory.
        units: in topological order.
        functions: what it calls.
        fuse: returns the function that launches the kernel of a group, given the group, its
            results and its numbers, or None where there is no kernel for it.
    """

    def __init__(
        self, program: Program, units: list[Unit], functions: DeviceFunctions,
        fuse: Callable[[Group, list[Value]], Callable[..., Any] | None],
    ) -> None:  # fmt: skip
        self.program, self.units, self.fuse = program, units, fuse
        taken = {value.name for value in (*program.inputs, *program.values)}
        self.names = Names(taken | {"product"} | {f"fused_{i}" for i in range(len(units))})
        self.names.scope |= {"np": functions.xp, "product": functions.product}
        self.writer = DeviceWriter(self.names, functions)
        self.lines: list[str] = []
        self.kernels: dict[str, Group] = {}
        self.outputs = {output.base for output in operands_of(program.outputs)}
        self.written = in_place_outputs(program, units)

    def write(self) -> DeviceProgramText:
        names = "".join(f"{input_.name}, " for input_ in self.program.inputs)
        self.lines += [f"{names.rstrip()} = inputs"] if names else []
        dead = self.last_used()
        for position, unit in enumerate(self.units):
            if isinstance(unit, Group):
                self.write_group(unit)
            elif unit.values[0].kind != "constant":
                value = unit.values[0]
                self.lines.append(f"{value.name} = {self.writer.expression(value)}")
            if dead.get(position):
                self.lines.append(f"del {', '.join(value.name for value in dead[position])}")
        results = ", ".join(self.results())
        source = "\n".join([*self.lines, f"return [{results}]"])
        source = "def run(inputs):\n" + textwrap.indent(source, "    ") + "\n"
        return DeviceProgramText(source, self.names.scope, self.kernels)

    def write_group(self, group: Group) -> None:
        """Generate the launch of a kernel, or the functions that do the same one after another."""
        results = group.results(self.outputs)
        kernel = self.fuse(group, results)
        if kernel is None:
            self.lines += [
                f"{value.name} = {self.writer.expression(value)}" for value in group.values
            ]
            inner = [value.name for value in group.values if value not in results]
            self.lines += [f"del {', '.join(inner)}"] if inner else []
            return
        name = f"fused_{len(self.kernels)}"
        self.names.scope[name], self.kernels[name] = kernel, group
        # Numbers as they are, arrays without axes: the kernel converts them.
        arguments = ", ".join(map(self.writer.operand_text, group.external_operands()))
        targets = "".join(f"{value.name}, " for value in results)
        # What replaces an input, such as a parameter, is written into its memory at once.
        into = [self.written[value].name if value in self.written else None for value in results]
        if any(into):
            arguments += f", out=({''.join(f'{target}, ' for target in into)})"
        self.lines.append(f"{targets.rstrip()} = {name}({arguments})")

    def last_used(self) -> dict[int, list[Value]]:
        """Return, by unit, the results that no later one reads."""
        unit_of = {value: i for i, unit in enumerate(self.units) for value in unit.values}
        dead: dict[int, list[Value]] = {}
        for value in self.program.values:
            if value.kind in ("view", "constant") or value in self.outputs:
                continue
            unit = self.units[unit_of[value]]
            if isinstance(unit, Group) and value not in unit.results(self.outputs):
                continue
            last = max([unit_of[value], *(unit_of[reader] for reader in readers(value))])
            dead.setdefault(last, []).append(value)
        return dead

    def results(self) -> list[str]:
        """Return the code of the outputs."""
        texts = []
        for value in self.program.outputs:
            if isinstance(value, Value):
                texts.append(self.writer.operand_text(value))
            else:
                texts.append(f"np.asarray({self.writer.operand_text(value)})")
        return texts


def device_program_text(
    program: Program, units: list[Unit], functions: DeviceFunctions,
    fuse: Callable[[Group, list[Value]], Callable[..., Any] | None],
) -> DeviceProgramText:  # fmt: skip
    """Generate the code of a device's program."""
    return DeviceProgramWriter(program, units, functions, fuse).write()
