"""The intermediate representation: a graph as a program of NumPy-level values.

A node of the graph is an op; an op's definition may be several NumPy operations. Those are what
can be fused, so each of them is a `Value` here: a sum, an exp, a view, a matrix product. An op that
cannot be decomposed is one value, the call of its definition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Program", "Value", "operands_of", "literal_text"]

KINDS = {"input", "constant", "number", "element", "reduce", "view", "product", "call", "part"}


@dataclass(eq=False, slots=True)
class Value:
    """One value of the program.

    Attributes:
        kind: "input" of the graph, a "constant" array, a Python "number" computed in each call,
            an "element"wise function, a "reduce"d axis, a "view" of another value, a "product" of
            matrices, the "call" of a definition, one "part" of a tuple.
        function: the elementwise function or reduction; for a view, its source code.
        operands: values and Python numbers.
        dtype: None if it is not an array.
        settings: of a reduction, the axes; of a view, its position in its base.
        node: the node of the graph that it belongs to.
    """

    kind: str
    function: Any
    operands: tuple[Any, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any] | None
    settings: dict[str, Any] = field(default_factory=dict)
    node: Any = None
    name: str = ""
    users: list[Value] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """The size in memory."""
        return self.size * self.dtype.itemsize if self.dtype is not None else 0

    @property
    def base(self) -> Value:
        """The value that owns the memory: itself unless it is a view."""
        return self.settings["base"] if self.kind == "view" else self

    @property
    def layout(self) -> tuple[int, tuple[int, ...]]:
        """The position in its base: the first element's offset, and the strides in elements."""
        if self.kind == "view":
            return self.settings["offset"], self.settings["steps"]
        return 0, contiguous_steps(self.shape)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name} {self.shape}>"


def contiguous_steps(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a contiguous array, in elements."""
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= size
    return tuple(reversed(steps))


def operands_of(value: Any) -> Iterator[Value]:
    """Yield the values among the operands of a value, at any depth."""
    for operand in value.operands if isinstance(value, Value) else value:
        if isinstance(operand, Value):
            yield operand
        elif isinstance(operand, tuple | list):
            yield from operands_of(operand)
        elif isinstance(operand, dict):
            yield from operands_of(operand.values())
        elif isinstance(operand, slice):
            yield from operands_of((operand.start, operand.stop, operand.step))


@dataclass(slots=True)
class Program:
    """All values in topological order, and the outputs.

    Attributes:
        writes: the index of the input into which an output is written, by the output's index.
        reasons: why a node could not be decomposed, by the node's name.
    """

    inputs: list[Value] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    output_nodes: list[Any] = field(default_factory=list)  # the nodes of the outputs
    writes: dict[int, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def remove_unused_values(self) -> None:
        """Drop values that no output needs, and set the users of each value."""
        needed: set[int] = set()
        stack = list(operands_of(self.outputs))
        while stack:
            value = stack.pop()
            if id(value) not in needed:
                needed.add(id(value))
                stack += operands_of(value)
        self.values = [
            value for value in self.values
            if id(value) in needed or (value.node is not None and value.node.meta.get("random"))
        ]  # fmt: skip
        for input_ in (*self.inputs, *self.values):
            input_.users = []
        for reader in self.values:
            for operand in dict.fromkeys(operands_of(reader)):
                operand.users.append(reader)

    def duplicate_cheap_values(self) -> None:
        """Let each reader of a mask or a constant recompute it, which costs less than storing it.

        A mask is one comparison. Kept for a later kernel, it is written and read; recomputed from
        values which that kernel may read anyway, it is neither.
        """
        values: list[Value] = []
        copies: dict[tuple[int, int], Value] = {}
        for value in self.values:
            changed = tuple(
                self.copy_for_reader(operand, value, values, copies)
                if isinstance(operand, Value)
                else operand
                for operand in value.operands
            )
            if value.kind in ("element", "reduce") and value.function not in CHEAP_FUNCTIONS:
                value.operands = changed
            values.append(value)
        self.values = values

    def copy_for_reader(
        self, value: Value, reader: Value, values: list[Value], copies: dict[tuple[int, int], Value]
    ) -> Value:  # fmt: skip
        """Return a reader's own copy of a cheap value, or the value itself."""
        cheap = value.kind == "element" and value.function in CHEAP_FUNCTIONS and value.shape
        if (
            not cheap
            or reader.kind not in ("element", "reduce")
            or reader.function in CHEAP_FUNCTIONS
        ):
            return value
        return self.copy_chain(value, reader, values, copies)

    def copy_chain(
        self, value: Value, reader: Value, values: list[Value], copies: dict[tuple[int, int], Value]
    ) -> Value:  # fmt: skip
        """Return a reader's own copy of a value, with copies of its cheap operands."""
        key = id(value), id(reader)
        if key not in copies:
            operands = tuple(
                self.copy_chain(operand, reader, values, copies)
                if isinstance(operand, Value)
                and operand.kind == "element"
                and operand.function in CHEAP_FUNCTIONS
                else operand
                for operand in value.operands
            )
            copy = Value("element", value.function, operands, value.shape, value.dtype)
            copy.node = value.node
            copies[key] = copy
            values.append(copy)
        return copies[key]

    def assign_names(self) -> None:
        """Give each value a unique identifier: its node's name, with a suffix if needed."""
        taken: set[str] = set(RESERVED)
        for value in (*self.inputs, *self.values):
            stem = value.node.name if value.node is not None else "value"
            stem = "".join(character if character.isalnum() else "_" for character in stem)
            stem = f"v{stem}" if not stem or stem[0].isdigit() else stem
            name, suffix = stem, 0
            while name in taken:
                suffix += 1
                name = f"{stem}_{suffix}"
            taken.add(name)
            value.name = name


CHEAP_FUNCTIONS = {
    "fill", "cast", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal",
    "logical_not", "invert", "logical_and", "bitwise_and",
}  # fmt: skip
"""Masks and constants."""

RESERVED = (
    "np", "start", "stop", "i", "j", "r", "c", "size", "rows", "columns", "inputs", "math", "inf",
    "nan", "float32", "float64", "int64", "abs", "exp", "log", "tanh", "erf", "sqrt", "total",
    "largest", "smallest", "operator", "and", "or", "not", "if", "else", "is", "in", "for", "del",
    "from", "import", "lambda", "return", "pass", "while", "with", "yield", "None", "True", "False",
    "maximum", "minimum", "sign", "floor", "ceil", "trunc", "rint", "isnan", "isinf", "isfinite",
    "parallel_for", "contiguous", "workspace", "run", "kernel", "max", "min", "sum", "first",
    "last", "empty", "sin", "cos", "log1p", "expm1", "exp2", "log2", "log10", "logaddexp", "power",
    "begin", "assert", "async", "await", "break", "class", "continue", "def", "elif", "except",
    "finally", "global", "nonlocal", "raise", "try", "copysign", "atan2", "compiled", "chunk",
    "range", "gelu", "gelu_slope", "gelu_tanh", "gelu_tanh_slope",
)  # fmt: skip


def literal_text(number: Any) -> str:
    """Return the source code of a number."""
    if isinstance(number, np.generic):
        number = number.item()
    return repr(number)
