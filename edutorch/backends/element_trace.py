"""What a formula does with one element of its arrays: traced once, and written for a compiler.

A definition, a derivative rule or an optimizer's `update` runs with an `Element` in place of each
array, which records what is computed with it; every `if` has been decided by the settings then.
`Trace.write` turns the record into the lines of a kernel, in which each value is computed once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from types import EllipsisType
from typing import Any

import numpy as np

__all__ = ["SCALAR", "Element", "ElementNamespace", "Trace"]

EXPRESSIONS = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "div": "{} / {}", "neg": "-{}",
    "less": "{} < {}", "greater": "{} > {}", "greater_equal": "{} >= {}", "equal": "{} == {}",
    "not_equal": "{} != {}", "and": "{} & {}", "less_equal": "{} <= {}", "or": "{} | {}",
    "xor": "{} ^ {}", "not": "not {}", "isnan": "{0} != {0}", "abs": "abs({})",
    "sqrt": "np.sqrt({})", "sign": "np.sign({})", "where": "{1} if {0} else {2}",
    # A NaN is kept, as by NumPy: it is not equal to itself, and no comparison with it holds. Of one
    # number for all elements, whether it is NaN is asked once.
    "maximum": "{1} if {0} < {1} or {1} != {1} else {0}",
    "minimum": "{1} if {0} > {1} or {1} != {1} else {0}",
    "clip": "{1} if {0} < {1} else {2} if {0} > {2} else {0}",
    # With a number, which is not NaN. (<= makes relu(-0.0) 0.0; > is one instruction.)
    "maximum_number": "{1} if {0} <= {1} else {0}", "minimum_number": "{1} if {0} > {1} else {0}",
    **{
        name: f"{name}({{}})" for name in (
            "exp", "exp_nonpositive", "expm1_nonpositive", "log", "log1p_small", "tanh", "erf",
            "normal_cdf",
        )
    },
    "expm1": "math.expm1({})", "log1p": "math.log1p({})", "power": "power({}, {})",
    "logaddexp": "logaddexp({}, {})", "hypot": "hypot({}, {})", "fmod": "fmod({}, {})",
    "remainder": "remainder({}, {})", "copysign": "copysign({}, {})",
    "arctan2": "math.atan2({}, {})", "floor": "np.floor({})", "ceil": "np.ceil({})",
    "trunc": "np.trunc({})", "rint": "np.rint({})", "sin": "math.sin({})", "cos": "math.cos({})",
    **{name: f"np.{name}({{}})" for name in (
        "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "arcsinh", "arccosh", "arctanh",
    )},
    "logaddexp2": "np.logaddexp2({}, {})", "exp2": "np.exp2({})",
    "log2": "math.log2({})", "log10": "math.log10({})",
}  # fmt: skip
"""The operations of a formula, as expressions of a kernel."""

WHOLE_OPS = {"erf", "normal_cdf"}
"""Ops that are one operation, although their definitions are long."""

CONDITIONS = {
    "less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "and", "or", "xor",
    "not", "isnan",
}  # fmt: skip

SCALAR, FIRST_ARRAY = -1, -2
"""Operands that are not the results of operations: see `Trace`."""

Range = tuple[float, float]
"""The least and the largest value of an element, if it is not NaN."""

ANY: Range = (-math.inf, math.inf)


class Trace:
    """What a formula computes: a list of operations on arrays, scalars and earlier results.

    Args:
        names: the names of the arrays.
        conditions: those among them whose elements are bool.

    Attributes:
        operations: (name, operand …); an operand is the index of an earlier operation, SCALAR for
            the next scalar, or the index of an array, counted down from FIRST_ARRAY.
        scalars: the numbers in the order of their use.
        arrays: the elements that stand for the arrays.
        written: the names of the operations that the lines of the last `write` have.
    """

    def __init__(self, names: tuple[str, ...], conditions: Collection[str] = ()) -> None:
        self.conditions = {FIRST_ARRAY - names.index(name) for name in conditions}
        self.operations: list[tuple[Any, ...]] = []
        self.scalars: list[float] = []
        self.names, self.written = names, tuple[str, ...]()
        self.arrays = [Element(self, FIRST_ARRAY - index) for index in range(len(names))]

    def record(self, name: str, *operands: Any) -> Element:
        """Record an operation, and return its result."""
        self.operations.append((name, *[self.index_of(operand) for operand in operands]))
        return Element(self, len(self.operations) - 1)

    def index_of(self, operand: Any) -> int:
        """Return the index of an operand, and add it to the scalars if it is one."""
        if operand.__class__ is Element:
            return operand.index
        self.scalars.append(operand)
        return SCALAR

    def write(
        self,
        results: Sequence[Element],
        scalar_names: Sequence[str],
        settings: Sequence[str] | None = None,
        expressions: Mapping[str, str] = EXPRESSIONS,
    ) -> tuple[list[str], list[str]]:
        """Return the lines that compute these results, and the results' names.

        Args:
            scalar_names: for each of the scalars; one name stands for one number.
            settings: the names of arrays that are one number for all elements; None if the
                scalars may differ from call to call, so that the text may not depend on them.
            expressions: the operations in the compiler's language.
        """
        names = {FIRST_ARRAY - index: name for index, name in enumerate(self.names)}
        scalars = iter(zip(scalar_names, self.scalars, strict=True))
        numbers = set(settings or ())
        values: dict[str, Value] = {}
        known: dict[Value, str] = {}  # equal values are computed once
        ranges: dict[str, Range] = {}
        for index, (name, *operands) in enumerate(self.operations):
            words = []
            for operand in operands:
                word = names.get(operand, "")
                if operand == SCALAR:
                    word, scalar = next(scalars)
                    if settings is not None:
                        ranges[word] = (scalar, scalar)
                        numbers.add(word)
                words.append(word)
            is_clip = name == "where" and values.get(words[0]) == ("greater_equal", *words[:0:-1])
            if is_clip and words[1] in numbers:  # 0 if x >= 0 else x
                name, words = "minimum", words[:0:-1]
            operand_ranges = [ranges.get(word, ANY) for word in words]
            value = (cheapest(name, operand_ranges, words[-1] in numbers), *words)
            result = names[index] = known.setdefault(value, f"x{len(known)}")
            values[result], ranges[result] = value, range_of(name, words, operand_ranges)
        for name in list(values):
            if name in values:
                remove_clip(values, values[name])
        result_names = [names[element.index] for element in results]
        used = set(result_names)
        for name in reversed(values):
            used.update(values[name][1:] if name in used else ())
        self.written = tuple([value[0] for name, value in values.items() if name in used])
        lines = [
            f"{name} = {expressions[operation].format(*words)}"
            for name, (operation, *words) in values.items()
            if name in used
        ]
        return lines, result_names


Value = tuple[str, ...]
"""The name of an operation, and those of its operands."""


def remove_clip(values: dict[str, Value], choice: Value) -> None:
    """Remove min(x, 0) from b in `a if x > 0 else b`, where x is not above 0.

    What b becomes of a positive x does not matter, so nothing has to keep it in a range.

    Args:
        values: by name; they are changed.
        choice: one of them.
    """
    condition = values.get(choice[1], ("",))
    if choice[0] != "where" or condition[0] != "greater":
        return
    uses = Counter(word for value in values.values() for word in value[1:])

    def without_clip(word: str) -> str:
        value = values.get(word)
        if value is None or uses[word] > 1:
            return word
        if value == ("minimum_number", *condition[1:]):
            del values[word]
            return value[1]
        values[word] = (value[0], *map(without_clip, value[1:]))
        return word

    without_clip(choice[3])


def cheapest(name: str, ranges: Sequence[Range], with_number: bool) -> str:
    """Return the operation that does the same for operands in these ranges.

    Args:
        with_number: whether the last operand is a number.
    """
    low, high = ranges[0]
    if name in ("exp", "expm1") and high <= 0:
        return f"{name}_nonpositive"
    if name == "log1p" and low >= 0 and high <= 1:
        return "log1p_small"
    if name in ("maximum", "minimum") and with_number:
        return f"{name}_number"
    return name


def range_of(name: str, words: Sequence[str], ranges: Sequence[Range]) -> Range:
    """Return the range of a result; ANY where nothing is known of it."""
    low, high = ranges[0]
    if (name == "mul" and words[0] == words[1]) or name == "abs":
        return (0.0, math.inf)
    if name == "neg":
        return (-high, -low)
    if name == "exp":
        return (0.0, 1.0 if high <= 0 else math.inf)
    if name == "where":
        return (min(ranges[1][0], ranges[2][0]), max(ranges[1][1], ranges[2][1]))
    if name in ("maximum", "minimum"):
        choose = max if name == "maximum" else min
        return (choose(low, ranges[1][0]), choose(high, ranges[1][1]))
    if name == "mul":
        products = [a * b if a and b else 0.0 for a in ranges[0] for b in ranges[1]]
        return (min(products), max(products))
    return ANY


# What stands for an array ------------------------------------------------------------------------


def operation(name: str) -> Callable[..., Any]:
    """Return a method that records an operation."""

    def method(self: Element, *others: Any) -> Element:
        return self.trace.record(name, self, *others)

    method.__doc__ = f"Record the operation `{name}`."
    return method


def operators(name: str) -> Any:
    """Return the methods of a binary operator, as in x + y, 1 + x and x += y.

    They do what `Trace.record` does, in few bytecodes: an update is traced in every step.
    """

    def forward(self: Element, other: Any) -> Element:
        trace = self.trace
        if other.__class__ is Element:
            operand = other.index
        else:
            trace.scalars.append(other)
            operand = SCALAR
        operations = trace.operations
        operations.append((name, self.index, operand))
        return Element(trace, len(operations) - 1)

    def swapped(self: Element, other: float) -> Element:
        trace = self.trace
        trace.scalars.append(other)
        operations = trace.operations
        operations.append((name, SCALAR, self.index))
        return Element(trace, len(operations) - 1)

    def in_place(self: Element, other: Any) -> Element:
        self.index = forward(self, other).index
        return self

    return forward, swapped, in_place


class SmallSize:
    """A size that is less than any other; a formula cannot compute with it."""

    def __gt__(self, other: int) -> bool:
        return False


class Element:
    """The element of an array at some index, whichever: computing with it is recorded."""

    __slots__ = ("index", "trace")
    __array_ufunc__ = None  # so that NumPy's scalars leave their operators to this class
    __hash__ = None  # type: ignore[assignment]

    itemsize = 4  # no formula may depend on more than that it is neither 16 bits nor complex
    ndim = 1

    @property
    def size(self) -> SmallSize:
        """That of a small array: what is done to large ones in fewer passes is the same."""
        return SmallSize()

    def __init__(self, trace: Trace, index: int) -> None:
        self.trace, self.index = trace, index

    __add__, __radd__, __iadd__ = operators("add")
    __sub__, __rsub__, __isub__ = operators("sub")
    __mul__, __rmul__, __imul__ = operators("mul")
    __truediv__, __rtruediv__, __itruediv__ = operators("div")
    __neg__, __abs__ = operation("neg"), operation("abs")
    __and__, __or__, __xor__ = operation("and"), operation("or"), operation("xor")
    __invert__ = operation("not")
    __lt__, __le__ = operation("less"), operation("less_equal")
    __gt__, __ge__ = operation("greater"), operation("greater_equal")
    __eq__ = operation("equal")  # type: ignore[assignment]
    __ne__ = operation("not_equal")  # type: ignore[assignment]

    def __pow__(self, exponent: Operand) -> Element:
        """Record the square as a product, as NumPy computes it, and any other power."""
        if exponent.__class__ is not Element and exponent in (-1, -0.5, 1, 2):
            if exponent > 0:
                return self * self if exponent == 2 else self
            if exponent == -1:
                return 1.0 / self
            root = self.trace.record("sqrt", self + 0.0)  # of -0.0 the power is inf, not -inf
            return ElementNamespace.where(self == -math.inf, 0.0, 1.0 / root)
        return self.trace.record("power", self, exponent)

    @property
    def is_condition(self) -> bool:
        """Whether it is bool."""
        if self.index < 0:
            return self.index in self.trace.conditions
        return self.trace.operations[self.index][0] in CONDITIONS

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of a condition, or float32."""
        return np.dtype(bool if self.is_condition else np.float32)

    def astype(self, dtype: Any) -> Element:
        """Return a condition as 0 or 1, or a number as the condition that it is not 0."""
        target = np.dtype(dtype)
        if target not in (np.bool_, np.float32):
            raise TypeError("a formula of a kernel computes in one dtype")
        is_condition = target == np.bool_
        if is_condition == self.is_condition:
            return self
        return self != 0 if is_condition else ElementNamespace.where(self, 1.0, 0.0)

    def __setitem__(self, key: EllipsisType, value: Element) -> None:
        """Replace the element: `x[...] = y`."""
        self.index = value.index

    def __bool__(self) -> bool:
        raise TypeError("a formula of a kernel cannot depend on an array's values: use where()")

    @classmethod
    def __torch_function__(
        cls, function: Any, types: object, args: Sequence[Any], settings: dict[str, Any]
    ) -> Any:
        """Answer an op of a derivative rule by its definition."""
        if function.op.name in WHOLE_OPS:
            return args[0].trace.record(function.op.name, *args)
        return function.op.forward(ElementNamespace, *args, **settings)


Operand = Element | float
"""What an operator of a formula gets: an element, or a number that is the same for all of them."""


class ElementNamespace:
    """NumPy's functions for the elements of a trace."""

    (
        abs, sqrt, sign, exp, expm1, log, log1p, tanh, clip, maximum, minimum, greater,
        greater_equal, less, less_equal, equal, not_equal, isnan, floor, ceil, trunc, hypot, sin,
        cos, exp2, log2, log10, copysign, fmod, remainder, logaddexp2, tan, arcsin, arccos,
        arctan, sinh, cosh, arcsinh, arccosh, arctanh,
    ) = (
        staticmethod(operation(name)) for name in (
            "abs", "sqrt", "sign", "exp", "expm1", "log", "log1p", "tanh", "clip", "maximum",
            "minimum", "greater", "greater_equal", "less", "less_equal", "equal", "not_equal",
            "isnan", "floor", "ceil", "trunc", "hypot", "sin", "cos", "exp2", "log2", "log10",
            "copysign", "fmod", "remainder", "logaddexp2", "tan", "arcsin", "arccos", "arctan",
            "sinh", "cosh", "arcsinh", "arccosh", "arctanh",
        )
    )  # fmt: skip
    arctan2, logical_not = staticmethod(operation("arctan2")), staticmethod(operation("not"))

    @staticmethod
    def where(condition: Element, x: Operand, y: Operand) -> Element:
        """Record a choice between two values."""
        return condition.trace.record("where", condition, x, y)

    @staticmethod
    def asarray(x: Operand) -> Operand:
        """Return the element, or a scalar as NumPy's."""
        return x if isinstance(x, Element) else np.float64(x)

    @staticmethod
    def zeros_like(x: Element) -> float:
        """Return 0."""
        return 0.0

    @staticmethod
    def ones_like(x: Element) -> float:
        """Return 1."""
        return 1.0

    @staticmethod
    def isfinite(x: Element) -> Element:
        """Record a comparison: x - x is NaN for infinities and NaN."""
        return x - x == 0.0

    @staticmethod
    def isinf(x: Element) -> Element:
        """Record a comparison."""
        return ElementNamespace.abs(x) == math.inf

    @staticmethod
    def around(x: Element, decimals: int) -> Element:
        """Record the nearest integer."""
        if decimals:
            raise TypeError("only whole numbers")
        return x.trace.record("rint", x)

    @staticmethod
    def floor_divide(x: Element, y: Operand) -> Element:
        """Record ⌊x / y⌋ as NumPy computes it: from the remainder, which is exact."""
        xp = ElementNamespace
        quotient = x / y
        rest = xp.fmod(x, y)
        whole = (x - rest) / y
        whole = xp.where((rest != 0.0) & ((rest < 0.0) != (y < 0.0)), whole - 1.0, whole)
        down = xp.floor(whole)
        down = xp.where(whole - down > 0.5, down + 1.0, down)
        down = xp.where(whole == 0.0, xp.copysign(0.0 * rest, quotient), down)
        return xp.where(y == 0.0, quotient, down)

    @staticmethod
    def reciprocal(x: Element) -> Element:
        """Record 1 / x."""
        return 1.0 / x

    @staticmethod
    def fmax(x: Element, y: Operand) -> Element:
        """Record the larger one, or the one that is not NaN."""
        return ElementNamespace.where((x >= y) | (y != y), x, y)

    @staticmethod
    def fmin(x: Element, y: Operand) -> Element:
        """Record the smaller one, or the one that is not NaN."""
        return ElementNamespace.where((x <= y) | (y != y), x, y)

    @staticmethod
    def logaddexp(number: Operand, x: Operand) -> Element:
        """log(eᵃ + eˣ): the larger one, and a correction, which is 0 for distant ones."""
        xp = ElementNamespace
        if isinstance(number, Element):
            return number.trace.record("logaddexp", number, x)
        return xp.maximum(x, number) + xp.log1p(xp.exp(-xp.abs(x - number)))
