"""The intermediate representation: a graph as a program of NumPy-level values.

A node of the graph is an op; an op's definition may be several NumPy operations. Those are what
can be fused, so each of them is a `Value` here: a sum, an exp, a view, a matrix product. An op that
cannot be decomposed is one value, the call of its definition.
"""

from __future__ import annotations

import heapq
import itertools
import keyword
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np

__all__ = [
    "CHEAP_FUNCTIONS", "FUNCTIONS", "POWERS", "REDUCTIONS", "Function", "Operand", "Program",
    "Value", "contiguous_steps", "function_of_range", "literal_text", "operands_of",
    "topological_order",
]  # fmt: skip

Item = TypeVar("Item", bound=Hashable)

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
    users: list[Value] = field(default_factory=list)  # set by `remove_unused_values`

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
        # Never a view itself: a view of a view refers to its owner.
        return self.settings["base"] if self.kind == "view" else self

    @property
    def layout(self) -> tuple[int, tuple[int, ...]]:
        """The position in its base: the first element's offset, and the strides in elements."""
        if self.kind == "view":
            return self.settings["offset"], self.settings["steps"]
        return 0, contiguous_steps(self.shape)

    @property
    def is_drawn(self) -> bool:
        """Whether a kernel draws it: a random number, or made of such alone (fused_draws.py)."""
        return bool(self.settings.get("is_drawn"))

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name} {self.shape}>"


Operand = Value | np.generic | bool | int | float
"""What an elementwise function computes with: a value, or a number that is known already."""


def contiguous_steps(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a contiguous array, in elements."""
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= size
    return tuple(reversed(steps))


def operands_of(value: Value | Iterable[object]) -> Iterator[Value]:
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


def topological_order(
    items: Sequence[Item], needs: Callable[[Item], Iterable[Item]], rank: Callable[[Item], Any]
) -> list[Item]:  # fmt: skip
    """Sort items topologically; of those that are ready, the one of the least rank comes first."""
    users: dict[Item, list[Item]] = {item: [] for item in items}
    missing = dict.fromkeys(items, 0)
    for item in items:
        for need in needs(item):
            if need in users:
                users[need].append(item)
                missing[item] += 1
    count = itertools.count()  # a tie is decided by the order of arrival: items have no order
    ready = [(rank(item), next(count), item) for item in items if not missing[item]]
    heapq.heapify(ready)
    ordered = []
    while ready:
        item = heapq.heappop(ready)[2]
        ordered.append(item)
        for user in users[item]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, (rank(user), next(count), user))
    return ordered


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
        stack = list(operands_of(self.outputs))  # backwards from the outputs
        while stack:
            value = stack.pop()
            if id(value) not in needed:
                needed.add(id(value))
                stack += operands_of(value)
        self.values = [
            value for value in self.values
            if id(value) in needed or moves_generator(value)
        ]  # fmt: skip
        for input_ in (*self.inputs, *self.values):
            input_.users = []
        for reader in self.values:
            for operand in dict.fromkeys(operands_of(reader)):  # x * x reads x once
                operand.users.append(reader)

    def duplicate_cheap_values(self) -> None:
        """Let each reader of a mask or a constant recompute it, which costs less than storing it.

        A mask is one comparison. Kept for a later kernel, it is written and read; recomputed from
        values which that kernel may read anyway, it is neither.
        """
        values: list[Value] = []
        for value in self.values:
            is_kernel_value = value.kind in ("element", "reduce")
            if is_kernel_value and value.function not in CHEAP_FUNCTIONS:
                copies: dict[Value, Value] = {}  # one of each for this reader: x < 0 twice is once
                value.operands = tuple(
                    copy_cheap(operand, values, copies)
                    if is_cheap(operand) and operand.shape
                    else operand
                    for operand in value.operands
                )
            values.append(value)
        self.values = values

    def assign_names(self) -> None:
        """Give each value a unique identifier: its node's name, with a suffix if needed."""
        taken = set(RESERVED)  # names are variables of the generated code
        for value in (*self.inputs, *self.values):
            stem = value.node.name if value.node is not None else "value"
            stem = "".join(character if character.isalnum() else "_" for character in stem)
            # layers.0 becomes layers_0, and 0.weight v0_weight.
            stem = f"v{stem}" if not stem or stem[0].isdigit() else stem
            name, suffix = stem, 0
            while name in taken:
                suffix += 1
                name = f"{stem}_{suffix}"
            taken.add(name)
            value.name = name


def moves_generator(value: Value) -> bool:
    """Whether a value is a draw, which counts even if nobody uses the numbers."""
    is_random = value.node is not None and value.node.meta.get("random")
    return bool(is_random) and value.kind != "element"  # such a number is a function of its place


def is_cheap(operand: object) -> bool:
    """Whether an operand is a mask or a constant."""
    return (
        isinstance(operand, Value)
        and operand.kind == "element"
        and operand.function in CHEAP_FUNCTIONS
    )


def copy_cheap(value: Value, values: list[Value], copies: dict[Value, Value]) -> Value:
    """Return a reader's own copy of a cheap value, with copies of its cheap operands."""
    if value not in copies:
        operands = tuple(
            copy_cheap(operand, values, copies) if is_cheap(operand) else operand
            for operand in value.operands
        )
        copies[value] = Value("element", value.function, operands, value.shape, value.dtype)
        copies[value].node = value.node
        values.append(copies[value])
    return copies[value]


CHEAP_FUNCTIONS = {
    "fill", "cast", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal",
    "logical_not", "invert", "logical_and", "bitwise_and",
}  # fmt: skip
"""Masks and constants."""

RESERVED = {
    *keyword.kwlist, "np", "start", "stop", "i", "j", "r", "c", "size", "rows", "columns", "inputs",
    "math", "inf", "nan", "float32", "float64", "int64", "abs", "exp", "log", "tanh", "erf", "sqrt",
    "total", "largest", "smallest", "operator", "maximum", "minimum", "sign", "floor", "ceil",
    "trunc", "rint", "isnan", "isinf", "isfinite", "parallel_for", "contiguous", "workspace", "run",
    "kernel", "max", "min", "sum", "first", "last", "empty", "sin", "cos", "log1p", "expm1", "exp2",
    "log2", "log10", "logaddexp", "power", "begin", "copysign", "atan2", "compiled", "chunk",
    "range", "row_max", "exp_nonpositive", "gelu", "gelu_slope", "gelu_tanh", "gelu_tanh_slope",
    "expm1_nonpositive", "log1p_small",
}  # fmt: skip


def literal_text(number: Operand) -> str:
    """Return the source code of a number."""
    if isinstance(number, np.generic):
        number = number.item()
    return repr(number)


class Function(NamedTuple):
    """The code of a function: `{0}` and `{1}` are the operands. `needs`: the name it imports."""

    kernel: str
    needs: str = ""
    vector: bool = True
    costs: int = 1


FUNCTIONS: dict[str, Function] = {
    "add": Function("{0} + {1}"),
    "subtract": Function("{0} - {1}"),
    "multiply": Function("{0} * {1}"),
    "divide": Function("{0} / {1}", costs=4),
    "negative": Function("-{0}"),
    "positive": Function("{0}"),
    "absolute": Function("abs({0})"),
    "fabs": Function("abs({0})"),
    "square": Function("{0} * {0}"),
    "sqrt": Function("np.sqrt({0})", costs=4),
    "reciprocal": Function("one / {0}", "one", costs=4),
    "maximum": Function("maximum({0}, {1})", "maximum"),
    "minimum": Function("minimum({0}, {1})", "minimum"),
    "sign": Function("sign({0})", "sign"),
    "copysign": Function("copysign({0}, {1})", "copysign"),
    "floor": Function("np.floor({0})"),
    "ceil": Function("np.ceil({0})"),
    "trunc": Function("np.trunc({0})"),
    "rint": Function("np.rint({0})"),
    "isnan": Function("{0} != {0}"),
    "isfinite": Function("abs({0}) < inf", "inf"),
    "isinf": Function("abs({0}) == inf", "inf"),
    "less": Function("{0} < {1}"),
    "less_equal": Function("{0} <= {1}"),
    "greater": Function("{0} > {1}"),
    "greater_equal": Function("{0} >= {1}"),
    "equal": Function("{0} == {1}"),
    "not_equal": Function("{0} != {1}"),
    "logical_and": Function("{0} and {1}"),
    "logical_or": Function("{0} or {1}"),
    "logical_not": Function("not {0}"),
    "bitwise_and": Function("{0} & {1}"),
    "bitwise_or": Function("{0} | {1}"),
    "bitwise_xor": Function("{0} ^ {1}"),
    "invert": Function("not {0}"),
    "where": Function("{1} if {0} else {2}"),
    "cast": Function("{0}"),
    "fill": Function("{0}"),
    "exp": Function("exp({0})", "exp", costs=10),
    "log": Function("log({0})", "log", costs=10),
    "erf": Function("erf({0})", "erf", costs=15),
    "tanh": Function("tanh({0})", "tanh", costs=10),
    "gelu": Function("gelu({0})", "gelu", costs=20),
    "gelu_slope": Function("gelu_slope({0})", "gelu_slope", costs=20),
    "gelu_tanh": Function("gelu_tanh({0})", "gelu_tanh", costs=12),
    "gelu_tanh_slope": Function("gelu_tanh_slope({0})", "gelu_tanh_slope", costs=12),
    "power": Function("power({0}, {1})", "power", vector=False, costs=40),
    "exp2": Function("math.exp2({0})", "math", vector=False, costs=20),
    "expm1": Function("math.expm1({0})", "math", vector=False, costs=20),
    "log1p": Function("math.log1p({0})", "math", vector=False, costs=20),
    "log2": Function("np.log2({0})", vector=False, costs=20),
    "log10": Function("math.log10({0})", "math", vector=False, costs=20),
    "sin": Function("math.sin({0})", "math", vector=False, costs=20),
    "cos": Function("math.cos({0})", "math", vector=False, costs=20),
    "tan": Function("math.tan({0})", "math", vector=False, costs=20),
    "arctan": Function("math.atan({0})", "math", vector=False, costs=20),
    "sinh": Function("math.sinh({0})", "math", vector=False, costs=20),
    "cosh": Function("math.cosh({0})", "math", vector=False, costs=20),
    "logaddexp": Function("logaddexp({0}, {1})", "logaddexp", costs=25),
    "uniform": Function("", vector=False, costs=40),  # by Philox, on devices: `fused_draws.py`
}


def function_of_range(value: Value) -> str | None:
    """Return the vectorized function that does the same for what the operand may be, if any.

    These are what is left of an elu, or of the logarithm of a sigmoid, where the sign is known.
    """
    x = value.operands[0] if value.kind == "element" else None
    if not isinstance(x, Value):
        return None
    if value.function == "expm1" and is_never_positive(x):
        return "expm1_nonpositive"
    if value.function == "log1p" and x.function == "exp" and is_never_positive(x.operands[0]):
        return "log1p_small"
    return None


def is_never_positive(x: Operand) -> bool:
    """Whether a value is min(x, 0) or -|x|, or NaN."""
    if not isinstance(x, Value):
        return False
    operands = [
        operand.operands[0]
        if isinstance(operand, Value) and operand.function == "fill"
        else operand
        for operand in x.operands
    ]
    if x.function == "minimum":
        return any(not isinstance(operand, Value) and operand <= 0 for operand in operands)
    inner = operands[0] if x.function == "negative" else None
    return isinstance(inner, Value) and inner.function in ("absolute", "fabs")


REDUCTIONS = {"sum": "total", "max": "largest", "min": "smallest"}
"""By reduction, the function in `kernels/cpu` that does it."""


POWERS = {2: "{0} * {0}", 3: "{0} * {0} * {0}", 0.5: "np.sqrt({0})", 1: "{0}", -1: "one / {0}"}
"""Exponents for which NumPy, too, does not call `pow`."""
