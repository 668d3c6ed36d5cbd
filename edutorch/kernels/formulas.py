"""Elementwise formulas as text for a compiler: an op's definition, or one of its derivative rules.

This does not depend on numba: `edutorch.compile` writes its kernels while it is not yet imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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
    """

    constants: list[float]
    lines: list[str]
    result: str

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
    expressions: Mapping[str, str] = EXPRESSIONS,
) -> Code:  # fmt: skip
    """Trace a formula, and return its code, in which parameters have their own names.

    Args:
        numbers: the parameters that are one number for all elements.
        fixed: parameters whose values are known.
        expressions: the operations in the compiler's language: Python for numba, or C.
    """
    parameters = (*formula.arrays, *formula.settings)
    trace = Trace(tuple(name for name in parameters if name not in fixed))
    values = {**dict(zip(trace.names, trace.arrays, strict=True)), **fixed}
    with EnableTorchFunction():
        result = formula.compute(*(values[name] for name in parameters))
    constants = list(dict.fromkeys(map(float, trace.scalars)))
    names = [f"c{constants.index(scalar)}" for scalar in trace.scalars]
    lines, (result_name,) = trace.write([result], names, numbers, expressions)
    return Code(constants, lines, result_name)


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
