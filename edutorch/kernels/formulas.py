"""Elementwise formulas as text for a compiler: an op's definition, or one of its derivative rules.

This does not depend on numba: `edutorch.compile` writes its kernels while it is not yet imported.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from ..backends.element_trace import EXPRESSIONS, Trace
from ..core.registry import REGISTRY
from ..core.subclasses import EnableTorchFunction

__all__ = ["Code", "Formula", "formula_of", "function_text", "write_formula"]

FUNCTION = """\
@register_jitable(forceinline=True, fastmath={{"contract"}})
def {name}(input):
    {lines}
    return {result}
"""


class Formula(NamedTuple):
    """An op's definition, or a derivative rule of it.

    Attributes:
        compute: the function itself.
        arrays: its parameters that are arrays, which come first.
        settings: the others.
    """

    compute: Callable[..., Any]
    arrays: tuple[str, ...]
    settings: tuple[str, ...]


class Code(NamedTuple):
    """A formula as text.

    Attributes:
        constants: the values of the names c0, c1, …, which the lines read.
        lines: the computation with one element.
        result: the name of the result.
        is_condition: whether the result is bool.
        operations: the names of the operations, one for each line.
    """

    constants: list[float]
    lines: list[str]
    result: str
    is_condition: bool = False
    operations: tuple[str, ...] = ()

    def constant_lines(self, dtype: str) -> list[str]:
        """Return the lines that set the constants: a plain literal would widen float32."""
        return [f"c{index} = {dtype}({value!r})" for index, value in enumerate(self.constants)]


def formula_of(key: str) -> Formula:
    """Return the definition of an op (`gelu`), or a rule (`gelu/input`)."""
    name, _, rule = key.partition("/")
    op = REGISTRY[name]
    parameters = op.rules[rule].parameters if rule else tuple(op.signature.parameters)
    arrays = tuple(name for name in parameters if name not in op.settings)
    settings = parameters[len(arrays) :]

    def definition(*values: Any) -> Any:
        named = dict(zip(settings, values[len(arrays) :], strict=True))
        return op.function(*values[: len(arrays)], **named)

    return Formula(op.rules[rule].function if rule else definition, arrays, settings)


def write_formula(
    formula: Formula, numbers: tuple[str, ...], fixed: dict[str, Any],
    expressions: Mapping[str, str] = EXPRESSIONS, conditions: Collection[str] = (),
) -> Code:  # fmt: skip
    """Trace a formula, and return its code, in which parameters have their own names.

    Args:
        numbers: the parameters that are one number for all elements.
        fixed: parameters whose values are known.
        expressions: the operations in the compiler's language: Python for numba, or C.
        conditions: the parameters whose elements are bool.
    """
    parameters = (*formula.arrays, *formula.settings)
    trace = Trace(tuple(name for name in parameters if name not in fixed), conditions)
    values = {**dict(zip(trace.names, trace.arrays, strict=True)), **fixed}
    with EnableTorchFunction():
        result = formula.compute(*(values[name] for name in parameters))
    constants = list(dict.fromkeys(map(float, trace.scalars)))
    names = [f"c{constants.index(scalar)}" for scalar in trace.scalars]
    lines, (result_name,) = trace.write([result], names, numbers, expressions)
    return Code(constants, lines, result_name, result.is_condition, trace.written)


def function_text(name: str, key: str, **settings: object) -> str:
    """Return the text of a function of one element: an op of its input, or the derivative.

    >>> print(function_text("square_slope", "square/input"))
    @register_jitable(forceinline=True, fastmath={"contract"})
    def square_slope(input):
        c0 = type(input)(2.0)
        c1 = type(input)(1.0)
        x0 = c0 * input
        x1 = c1 * x0
        return x1
    <BLANKLINE>
    """
    fixed = {"g": 1.0, **settings} if "/" in key else settings
    code = write_formula(formula_of(key), (), fixed)
    lines = "\n    ".join([*code.constant_lines("type(input)"), *code.lines])
    return FUNCTION.format(name=name, lines=lines, result=code.result)


# Where a kernel pays -----------------------------------------------------------------------------

STREAMING = {
    "add", "sub", "mul", "div", "neg", "abs", "sqrt", "maximum", "minimum", "where", "less",
    "less_equal", "greater", "greater_equal", "equal", "not_equal", "not", "and", "or", "xor",
    "floor", "ceil", "trunc", "rint", "copysign", "isnan",
}  # fmt: skip
"""Operations that take NumPy no longer than the memory takes: one of them needs several threads."""

NEVER = sys.maxsize

SCALAR = {
    "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "arcsinh", "arccosh",
    "arctanh", "exp2", "log2", "log10", "expm1", "log1p", "arctan2", "power", "logaddexp2",
}  # fmt: skip
"""Functions that the compiler has only for one element; NumPy's loops are vectorized."""

VECTORIZED = {"exp", "log", "tanh"}
"""Functions that NumPy has vectorized as well, where there is AVX-512."""


NUMBER_LIKE = "exponent"
"""The parameter whose value chooses the formula, where it is one number: x² is a product."""


def worthwhile_size(key: str) -> int:
    """Return from how many elements on a kernel written from a formula is faster than NumPy."""
    formula = formula_of(key)
    signature = REGISTRY[key.partition("/")[0]].signature.parameters
    fixed: dict[str, Any] = {name: signature[name].default for name in formula.settings}
    fixed |= {name: None for name in formula.arrays if name == "node"}
    fixed |= {name: "none" for name in formula.settings if name == "reduction"}
    required = tuple(name for name, value in fixed.items() if value is inspect.Parameter.empty)
    fixed = {name: value for name, value in fixed.items() if name not in required}
    code = None
    cases = [((), {}), (formula.arrays[:1], {}), (formula.arrays[1:2], {})]  # conditions: `where`
    cases += [((), {name: 2.0}) for name in formula.arrays if name == NUMBER_LIKE]
    for conditions, constants in cases:
        with suppress(Exception):  # what cannot be traced fails anywhere
            code = code or write_formula(
                formula, required, fixed | constants, conditions=conditions
            )
    if code is None or not code.lines:
        return NEVER
    names = set(code.operations)
    if len(code.operations) > 1:
        # Most of the time goes to such a function, where NumPy is faster.
        return NEVER if names & SCALAR and has_avx512() else 1024
    if names <= STREAMING:
        return 65_536
    return 32_768 if names <= SCALAR | VECTORIZED and has_avx512() else 1024


def has_avx512() -> bool:
    """Whether NumPy computes with AVX-512."""
    features: dict[str, bool] = getattr(np._core._multiarray_umath, "__cpu_features__", {})  # type: ignore[attr-defined]
    return features.get("AVX512_SKX", False)
