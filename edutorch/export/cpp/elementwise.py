"""Entries for elementwise ops: each is one expression of C++, which becomes a function."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...fx.node import Node
from .table import Unsupported, entry
from .values import Value, cpp_type, dtype_of, operand

EXPRESSIONS = {
    # of one element
    "neg": "-x", "abs": "x < C(0) ? -x : x", "reciprocal": "C(1) / x", "square": "x * x",
    "sqrt": "std::sqrt(x)", "rsqrt": "C(1) / std::sqrt(x)", "exp": "std::exp(x)",
    "exp2": "std::exp2(x)", "expm1": "std::expm1(x)", "log": "std::log(x)",
    "log1p": "std::log1p(x)", "log2": "std::log2(x)", "log10": "std::log10(x)",
    "sin": "std::sin(x)", "cos": "std::cos(x)", "tan": "std::tan(x)", "asin": "std::asin(x)",
    "acos": "std::acos(x)", "atan": "std::atan(x)", "sinh": "std::sinh(x)",
    "cosh": "std::cosh(x)", "tanh": "std::tanh(x)", "asinh": "std::asinh(x)",
    "acosh": "std::acosh(x)", "atanh": "std::atanh(x)", "floor": "std::floor(x)",
    "ceil": "std::ceil(x)", "trunc": "std::trunc(x)", "rint": "std::nearbyint(x)",
    "erf": "std::erf(x)", "erfc": "std::erfc(x)", "lgamma": "std::lgamma(x)",
    "sigmoid": "C(1) / (C(1) + std::exp(-x))", "relu": "x < C(0) ? C(0) : x",
    "silu_forward": "x / (C(1) + std::exp(-x))",
    "gelu": "C(0.5) * x * (C(1) + std::erf(x * C(0.7071067811865476)))",
    "logsigmoid_forward": "std::min(x, C(0)) - std::log1p(std::exp(-std::abs(x)))",
    "selu_forward": "x > C(0) ? C(1.0507009873554805) * x "
    ": C(1.7580993408473766) * std::expm1(std::min(x, C(0)))",
    "hardswish_forward": "x * std::min(std::max(x + C(3), C(0)), C(6)) / C(6)",
    "mish_forward": "x * std::tanh(std::log1p(std::exp(x)))",
    "sign": "C((x > C(0)) - (x < C(0)))", "positive": "x", "bitwise_not": "~x",
    # of two
    "add": "x + y", "sub": "x - y", "mul": "x * y", "div": "x / y",
    "maximum": "x > y || x != x ? x : y", "minimum": "x < y || x != x ? x : y",
    "pow": "std::pow(x, y)", "atan2": "std::atan2(x, y)", "hypot": "std::hypot(x, y)",
    "fmod": "std::fmod(x, y)", "remainder": "floor_mod(x, y)",
    "logaddexp": "x == y ? x + C(0.6931471805599453) "
    ": std::max(x, y) + std::log1p(std::exp(-std::abs(x - y)))",
    "copysign": "std::copysign(x, y)", "bitwise_and": "x & y", "bitwise_or": "x | y",
    "bitwise_xor": "x ^ y",
    # of three
    "where": "x != C(0) ? y : z", "lerp": "x + z * (y - x)", "clip": "std::min(std::max(x, y), z)",
}  # fmt: skip
"""What each op computes from x, y and z, which are of the type C."""

PREDICATES = {
    "eq": "x == y", "ne": "x != y", "lt": "x < y", "le": "x <= y", "gt": "x > y", "ge": "x >= y",
    "isnan": "std::isnan(x)", "isinf": "std::isinf(x)", "isfinite": "std::isfinite(x)",
    "logical_not": "x == C(0)", "logical_and": "x != C(0) && y != C(0)",
    "logical_or": "x != C(0) || y != C(0)", "logical_xor": "(x != C(0)) != (y != C(0))",
}  # fmt: skip
"""The same for ops whose result is a bool."""

NUMPY_NAMES = {
    "negative": "neg", "absolute": "abs", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "subtract": "sub",
    "multiply": "mul", "power": "pow", "arctan2": "atan2", "mod": "remainder", "equal": "eq",
    "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
    "true_divide": "div", "divide": "div", "invert": "bitwise_not", "sgn": "sign",
    "fabs": "abs",
}  # fmt: skip
"""NumPy's names of ops that have another name here."""


def is_used(name: str, expression: str) -> bool:
    """Return True if an expression reads the variable `name`."""
    return any(
        f"{before}{name}{after}" in f" {expression} " for before in " (-~" for after in " ),;"
    )


def arity(expression: str) -> int:
    """Return how many elements an expression reads."""
    return 1 + is_used("y", expression) + is_used("z", expression)


def function_text(name: str) -> str:
    """Return the function of C++ for an elementwise op.

    >>> from edutorch.export.cpp.elementwise import function_text
    >>> print(function_text("mul").splitlines()[0])
    // mul: x * y, for each element.
    """
    result = "bool" if name in PREDICATES else "C"
    expression = PREDICATES.get(name) or EXPRESSIONS[name]
    count = arity(expression)
    types, operands = "ABD"[:count], "abc"[:count]
    names = ", ".join(f"C {variable}" for variable in "xyz"[:count])
    parameters = ", ".join(f"const {t}& {v}" for t, v in zip(types, operands, strict=True))
    return (
        f"// {name}: {expression}, for each element.\n"
        f"template <class C, {', '.join(f'class {t}' for t in types)}>\n"
        f"[[gnu::noinline]] Tensor<{result}> {name}({parameters}) {{\n"
        f"  return map<{result}, C>([]({names}) {{ return {expression}; }}, "
        f"{', '.join(operands)});\n"
        "}\n"
    )


def common_dtype(node: Node, values: tuple[Any, ...]) -> np.dtype[Any]:
    """Return the dtype in which operands are compared."""
    dtype = np.result_type(*(value.dtype for value in values if isinstance(value, Value)))
    scalars = [value for value in values if not isinstance(value, Value)]
    if any(isinstance(scalar, float) for scalar in scalars) and dtype.kind in "iub":
        return np.dtype(np.float32)
    if any(isinstance(scalar, int) for scalar in scalars) and dtype.kind == "b":
        return np.dtype(np.int64)
    return dtype


def call(name: str, dtype: Any, *values: Any) -> str:
    """Return the call of an elementwise function that computes in a dtype."""
    dtype = np.dtype(dtype)
    operands = ", ".join(operand(value, dtype) for value in values)
    return f"edu::{name}<{cpp_type(dtype)}>({operands})"


def register(name: str, expression: str, names: list[str]) -> None:
    """Add the entries of an op, and of NumPy's functions of these names."""
    count = arity(expression)

    @entry(f"op:{name}", f"numpy:{name}", *(f"numpy:{other}" for other in names))
    def elementwise(node: Node, *values: Any, **settings: Any) -> str:
        values = (*values, *settings.values())[:count]
        is_predicate = name in PREDICATES
        return call(
            name, common_dtype(node, values) if is_predicate else node.meta["dtype"], *values
        )


for _name, _expression in (EXPRESSIONS | PREDICATES).items():
    register(_name, _expression, [other for other, own in NUMPY_NAMES.items() if own == _name])


@entry("op:bitwise_not", "numpy:bitwise_not", "numpy:invert")
def bitwise_not(node: Node, input: Any) -> str:
    """All bits turned over; of a bool, its opposite."""
    dtype = dtype_of(node.meta["dtype"])
    return call("logical_not" if dtype.kind == "b" else "bitwise_not", dtype, input)


@entry("op:add", "op:sub", "numpy:add", "numpy:subtract")
def add_or_subtract(node: Node, input: Any, other: Any, alpha: float = 1, **settings: Any) -> str:
    """input ± alpha · other; of bools, either."""
    dtype = dtype_of(node.meta["dtype"])
    is_sum = getattr(node.target, "__name__", "") == "add"
    if dtype.kind == "b":
        return call("logical_or", dtype, input, other)
    if alpha != 1:
        other = Value(call("mul", dtype, other, alpha), dtype, ())
    return call("add" if is_sum else "sub", dtype, input, other)


@entry("op:mul", "numpy:multiply")
def multiply(node: Node, input: Any, other: Any) -> str:
    """A product; of bools, both."""
    dtype = dtype_of(node.meta["dtype"])
    return call("logical_and" if dtype.kind == "b" else "mul", dtype, input, other)


@entry("op:div")
def divide(node: Node, input: Any, other: Any, rounding_mode: str | None = None) -> str:
    """A quotient, rounded down or towards 0 where that is asked for."""
    dtype = dtype_of(node.meta["dtype"])
    if rounding_mode == "floor":
        return floor_divide(node, input, other)
    quotient = call("div", dtype, input, other)
    if rounding_mode is None or dtype.kind in "iu":
        return quotient
    return call("trunc", dtype, Value(quotient, dtype, ()))


@entry("op:floor_divide", "numpy:floor_divide")
def floor_divide(node: Node, input: Any, other: Any) -> str:
    """A quotient rounded down."""
    dtype = dtype_of(node.meta["dtype"])
    if dtype.kind == "f":
        return call("floor", dtype, Value(call("div", dtype, input, other), dtype, ()))
    rest = Value(call("remainder", dtype, input, other), dtype, ())
    return call("div", dtype, Value(call("sub", dtype, input, rest), dtype, ()), other)


@entry("op:pow", "numpy:power")
def power(node: Node, input: Any, exponent: Any) -> str:
    """A power; squares are products."""
    if isinstance(exponent, int | float) and exponent == 2:
        return call("square", node.meta["dtype"], input)
    return call("pow", node.meta["dtype"], input, exponent)


@entry("op:gelu")
def gelu(node: Node, input: Value, approximate: str = "none") -> str:
    """x · Φ(x)."""
    if approximate != "none":
        raise Unsupported(f"approximate={approximate!r}")
    return call("gelu", node.meta["dtype"], input)


@entry("op:hardtanh_forward")
def hardtanh(node: Node, input: Value, min_val: float, max_val: float) -> str:
    """x between two limits."""
    return call("clip", node.meta["dtype"], input, min_val, max_val)


@entry("numpy:around", "numpy:round")
def around(node: Node, input: Value, decimals: int = 0, **settings: Any) -> str:
    """x rounded, halves to even numbers."""
    if decimals:
        raise Unsupported(f"decimals={decimals}")
    return call("rint", node.meta["dtype"], input)


@entry("op:clamp", "numpy:clip")
def clamp(node: Node, input: Value, min: Any = None, max: Any = None, **settings: Any) -> str:
    """x between two limits, or one."""
    dtype = dtype_of(node.meta["dtype"])
    if min is not None and max is not None:
        return call("clip", dtype, input, min, max)
    limit = max if min is None else min
    return call("minimum" if min is None else "maximum", dtype, input, limit)


@entry("op:masked_fill")
def masked_fill(node: Node, input: Value, mask: Value, value: Any) -> str:
    """A number where a mask is True."""
    return call("where", node.meta["dtype"], mask, value, input)


@entry("op:clone", "op:to_device", "numpy:copy", "numpy:ascontiguousarray", "numpy:asarray")
def clone(node: Node, input: Any, *settings: Any, **named: Any) -> str:
    """The same elements: nothing writes in place here."""
    if not isinstance(input, Value):
        return (
            f"edu::full<{cpp_type(node.meta['dtype'])}>({{}}, {operand(input, node.meta['dtype'])})"
        )
    return converted(input, node.meta["dtype"])


@entry("op:convert_dtype", "edutorch:cast")
def convert_dtype(node: Node, input: Value, dtype: Any) -> str:
    """The elements in another dtype."""
    return converted(input, node.meta["dtype"])


def converted(value: Value, dtype: Any) -> str:
    """Return a value in a dtype."""
    if value.dtype == np.dtype(dtype):
        return value.text
    return f"edu::convert<{cpp_type(dtype)}>({value})"
