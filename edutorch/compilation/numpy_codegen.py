"""Generates NumPy calls: for values that are not fused, and until a kernel is compiled."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backends.numpy import Array
from ..core.op import Op, as_positional
from ..core.precision import add_up
from ..nn.functional.activation import gelu, gelu_derivative
from ..ops.special import erf
from .values import Value, literal_text

__all__ = ["Names", "NumpyWriter", "with_kernel"]

INFIX = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "less": "<", "less_equal": "<=",
    "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!=", "power": "**",
    "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
}  # fmt: skip
OPERATOR_INFIX = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/",
    operator.pow: "**", operator.floordiv: "//", operator.mod: "%",
}  # fmt: skip


class Names:
    """The names that generated code uses, and their values."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken
        self.scope: dict[str, Any] = {"np": np, "inf": math.inf, "nan": math.nan, "math": math}
        self.known_names: dict[int, str] = {}  # by the id of the thing, which the scope keeps alive

    def name(self, thing: object, wanted: str) -> str:
        """Return the name of a function or setting, which is assigned at the first call."""
        if id(thing) in self.known_names:
            return self.known_names[id(thing)]
        wanted = (
            "".join(character if character.isalnum() else "_" for character in wanted) or "thing"
        )
        name, suffix = wanted, 0
        while name in self.taken or name in self.scope:
            suffix += 1
            name = f"{wanted}_{suffix}"
        self.scope[name] = thing
        self.known_names[id(thing)] = name
        return name


class NumpyWriter:
    """Generates the code of single values.

    Args:
        names_of: by value, the parameter that holds it, instead of its own name.
    """

    def __init__(self, names: Names, names_of: dict[Value, str] | None = None) -> None:
        self.names = names
        self.names_of = names_of or {}

    def operand_text(self, operand: object) -> str:
        """Return the code of an operand: a value's name, a view, a number, a list of these."""
        if isinstance(operand, Value):
            if operand in self.names_of:  # inside a fallback: the parameter's name
                return self.names_of[operand]
            if operand.kind == "view":
                return self.view(operand)
            if operand.kind == "constant":
                return self.names.name(operand.function, operand.name)
            return operand.name
        if isinstance(operand, np.generic):
            return literal_text(operand)
        if operand is None or operand is ... or isinstance(operand, bool | int | float | str):
            return repr(operand)  # repr of a float is exact
        if type(operand) is tuple:
            return "(" + "".join(f"{self.operand_text(item)}, " for item in operand) + ")"
        if type(operand) is list:
            return "[" + ", ".join(map(self.operand_text, operand)) + "]"
        if type(operand) is slice:
            bounds = map(self.operand_text, (operand.start, operand.stop, operand.step))
            return f"slice({', '.join(bounds)})"
        return self.names.name(
            operand, getattr(operand, "__name__", None) or str(operand).rpartition(".")[2]
        )

    def view(self, value: Value) -> str:
        """Return the code of a view."""
        (operand,) = value.operands
        inner, text = self.operand_text(operand), value.settings["text"]
        head = text.partition("(")[0]
        if text.endswith("({})") and head.isidentifier():  # a view that an op's definition takes
            op = getattr(getattr(value.node, "target", None), "op", None)
            if op is not None and op.name in RESHAPES:
                # Shorter than the call of the definition, and as fast as NumPy can.
                return f"{inner}.reshape({value.shape})"
            if op is not None and op.name == "expand":
                return f"np.broadcast_to({inner}, {value.shape})"
            name = self.names.name(value.settings["make"], head + "_view")
            return f"{name}({inner})"
        return text.format(inner)

    def expression(self, value: Value, out: str | None = None) -> str:
        """Return the code that computes a value."""
        if value.kind == "reduce":
            return self.reduction(value)
        if value.kind == "product":
            left, right, *bias = map(self.operand_text, value.operands)
            return " + ".join([f"{left} @ {right}", *bias])
        if value.kind in ("call", "number", "part"):
            return self.call(value)
        name, texts = value.function, [self.operand_text(operand) for operand in value.operands]
        if not any(isinstance(operand, Value) and operand.dtype for operand in value.operands):
            # 0-d arrays and numbers.
            texts[0] = f"np.{value.dtype}({texts[0]})"  # Python numbers alone would become float64
        if name == "cast":
            return f"{texts[0]}.astype(np.{value.dtype})"
        if name == "fill":
            # Once in each call, where a kernel would have a literal.
            return f"np.full({value.shape}, {texts[0]})"
        if name in FUNCTION_DEFINITIONS:
            return f"{self.names.name(FUNCTION_DEFINITIONS[name], name)}({texts[0]})"
        if out is not None:
            return f"np.{name}({', '.join(texts)}, out={out})"
        if name in INFIX:  # readable code; the same ufunc
            return f"{texts[0]} {INFIX[name]} {texts[1]}"
        return f"-{texts[0]}" if name == "negative" else f"np.{name}({', '.join(texts)})"

    def reduction(self, value: Value) -> str:
        """Return the code of a sum, minimum or maximum along axes."""
        text = self.operand_text(value.operands[0])
        axes, keep = value.settings["axes"], value.settings["keepdims"]
        axis = axes[0] if len(axes) == 1 else axes
        if value.function == "sum":
            return f"{self.names.name(sum_along, 'sum_along')}({text}, {axis}, {keep})"
        return f"np.{value.function}({text}, axis={axis}, keepdims={keep})"

    def call(self, value: Value) -> str:
        """Return the code of the call of a definition, or of another function."""
        *args, kwargs = value.operands
        function, op = value.function, getattr(value.function, "op", None)
        if function in OPERATOR_INFIX and not kwargs:
            left, right = map(self.operand_text, args)
            return f"{left} {OPERATOR_INFIX[function]} {right}"
        if function is operator.getitem:
            return f"{self.operand_text(args[0])}[{self.operand_text(args[1])}]"
        if op is None:
            name = self.names.name(function, getattr(function, "__name__", "function"))
            pairs = [f"{key}={self.operand_text(argument)}" for key, argument in kwargs.items()]
            return f"{name}({', '.join([*map(self.operand_text, args), *pairs])})"
        # Definitions are called by position, in the order of their signature.
        arguments = dict(zip(op.inputs, args, strict=False)) | kwargs
        texts = []
        for name, parameter in op.signature.parameters.items():
            texts.append(self.operand_text(arguments.get(name, parameter.default)))
        return f"{self.names.name(definition_of(op), op.name)}({', '.join(texts)})"


RESHAPES = {"reshape", "view", "unsqueeze", "squeeze", "flatten", "unflatten"}


def sum_along(x: np.ndarray, axis: int | tuple[int, ...], keepdims: bool) -> Any:
    """Sum as definitions do (see `core/precision.py`)."""
    return add_up(np, x, axis, keepdims)


FUNCTION_DEFINITIONS: dict[str, Callable[..., Any]] = {
    "erf": lambda x: erf.op.forward(np, x),
    "gelu": lambda x: gelu.op.forward(np, x),
    "gelu_tanh": lambda x: gelu.op.forward(np, x, "tanh"),
    "gelu_slope": lambda x: gelu_derivative(x, "none"),
    "gelu_tanh_slope": lambda x: gelu_derivative(x, "tanh"),
}
"""Elementwise functions that NumPy does not have, as functions of arrays."""


_definitions: dict[str, Callable[..., Any]] = {}


def definition_of(op: Op) -> Callable[..., Any]:
    """Return the function that computes an op from arrays, by its kernel if it has one."""
    if op.name not in _definitions:
        _definitions[op.name] = with_kernel(op)
    return _definitions[op.name]


def with_kernel(op: Op) -> Callable[..., Any]:
    """Return a function that tries an op's kernel, if it may have one, before its definition."""
    forward, slot = as_positional(op.forward), op.slot
    if slot is None or op.variadic:  # a kernel takes a fixed number of arrays
        return lambda *arguments: forward(np, *arguments)

    def definition(first: Array, *others: Any) -> Any:
        # Small arrays: the call of the kernel would take longer.
        if first.size >= slot.min_size and first.__class__ is np.ndarray:
            y = slot(first, *others)
            if y is not None:
                return y
        return forward(np, first, *others)

    return definition
