"""Entries for elementwise ops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...fx.node import Node
from .builder import Builder, Value, is_value, numpy_type
from .table import entry

# Functions of one value that ONNX has under some name ---------------------------------------------

UNARY = {
    "neg": "Neg", "negative": "Neg", "reciprocal": "Reciprocal", "sqrt": "Sqrt", "exp": "Exp",
    "log": "Log", "sigmoid": "Sigmoid", "relu": "Relu", "floor": "Floor",
    "ceil": "Ceil", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "arcsin": "Asin",
    "acos": "Acos", "arccos": "Acos", "atan": "Atan", "arctan": "Atan", "tanh": "Tanh",
    "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh", "arcsinh": "Asinh", "acosh": "Acosh",
    "arccosh": "Acosh", "atanh": "Atanh", "arctanh": "Atanh", "abs": "Abs", "absolute": "Abs",
    "erf": "Erf", "isnan": "IsNaN", "rint": "Round", "sgn": "Sign",
    "mish_forward": "Mish", "hardswish_forward": "HardSwish", "positive": "Identity",
    "clone": "Identity", "to_device": "Identity",
}  # fmt: skip


def register_unary(name: str, op_type: str) -> None:
    """Add the entries of an op and of NumPy's function with the same name."""

    @entry(f"op:{name}", f"numpy:{name}")
    def unary(b: Builder, node: Node, input: Any, **settings: Any) -> Value:
        input = input if is_value(input) else b.const(input, node.meta["dtype"])
        if op_type in FLOAT_ONLY and numpy_type(input).kind in "iub":
            input = b.cast(input, node.meta["dtype"])
        if op_type in DOUBLE_FORMS and numpy_type(input).itemsize == 8:
            return DOUBLE_FORMS[op_type](b, input)
        return b.op(op_type, input)


FLOAT_ONLY = {
    "Sqrt", "Exp", "Log", "Sigmoid", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Tanh", "Sinh",
    "Cosh", "Asinh", "Acosh", "Atanh", "Erf", "Reciprocal",
}  # fmt: skip
"""ONNX's functions that take no integers: these are converted, as our ops do it."""


def half_difference(b: Builder, x: Value, op_type: str) -> Value:
    """Return (exp(x) ± exp(-x)) / 2."""
    both = b.op(op_type, b.op("Exp", x), b.op("Exp", b.op("Neg", x)))
    return b.op("Mul", both, b.const(0.5, np.float64))


def inverse_sinh(b: Builder, x: Value) -> Value:
    """Return asinh(x) = sign(x) · log(|x| + √(x² + 1))."""
    size = b.op("Abs", x)
    root = b.op("Sqrt", b.op("Add", b.op("Mul", x, x), b.const(1.0, np.float64)))
    return b.op("Mul", b.op("Sign", x), b.op("Log", b.op("Add", size, root)))


def inverse_tan(b: Builder, x: Value) -> Value:
    """Return atan(x): what single precision says, and one step of what it misses."""
    near = b.cast(b.op("Atan", b.op("Cast", x, to=int(b.const(0, np.float32).dtype))), np.float64)
    sine, cosine = b.op("Sin", near), b.op("Cos", near)
    above = b.op("Sub", b.op("Mul", x, cosine), sine)
    below = b.op("Add", cosine, b.op("Mul", x, sine))
    is_inf = b.op("IsInf", x)
    rest = b.op("Where", is_inf, b.const(0.0, np.float64), b.op("Div", above, below))
    ends = b.op("Mul", b.op("Sign", x), b.const(np.pi / 2))
    return b.op("Where", is_inf, ends, b.op("Add", near, rest))


DOUBLE_FORMS: dict[str, Callable[[Builder, Value], Value]] = {
    "Tan": lambda b, x: b.op("Div", b.op("Sin", x), b.op("Cos", x)),
    "Sinh": lambda b, x: half_difference(b, x, "Sub"),
    "Cosh": lambda b, x: half_difference(b, x, "Add"),
    "Asinh": inverse_sinh,
    "Atan": inverse_tan,
}
"""Functions that onnxruntime has in single precision only."""

for _name, _op_type in UNARY.items():
    register_unary(_name, _op_type)


# Functions of two ---------------------------------------------------------------------------------


def pair(b: Builder, node: Node, first: Any, second: Any) -> tuple[Value, Value]:
    """Return two operands in the dtype of the result."""
    dtype = node.meta["dtype"]
    return b.tensor(first, dtype), b.tensor(second, dtype)


def compared(b: Builder, first: Any, second: Any) -> tuple[Value, Value]:
    """Return two operands of a comparison in one dtype."""
    types = [numpy_type(value) for value in (first, second) if is_value(value)]
    scalars = [value for value in (first, second) if not is_value(value)]
    dtype = np.result_type(*types)
    if any(isinstance(number, float) for number in scalars) and dtype.kind in "iub":
        dtype = np.dtype(np.float32)
    if any(isinstance(number, int) for number in scalars) and dtype.kind == "b":
        dtype = np.dtype(np.int64)
    return b.tensor(first, dtype), b.tensor(second, dtype)


@entry("op:add", "op:sub")
def add_or_subtract(b: Builder, node: Node, input: Any, other: Any, alpha: float = 1) -> Value:
    """input ± alpha · other."""
    first, second = pair(b, node, input, other)
    dtype = np.dtype(node.meta["dtype"])
    if alpha != 1:
        second = b.op("Mul", second, b.const(alpha, dtype))
    is_sum = getattr(node.target, "__name__", "") == "add"
    if dtype.kind == "b":
        return b.op("Or", first, second)
    return b.op("Add" if is_sum else "Sub", first, second)


@entry("op:mul", "numpy:multiply")
def multiply(b: Builder, node: Node, input: Any, other: Any) -> Value:
    """A product; of bools, both."""
    first, second = pair(b, node, input, other)
    return b.op("And" if np.dtype(node.meta["dtype"]).kind == "b" else "Mul", first, second)


@entry("op:div")
def divide(
    b: Builder, node: Node, input: Any, other: Any, rounding_mode: str | None = None
) -> Value:
    """A quotient, rounded down or towards 0 where that is asked for."""
    if rounding_mode == "floor":
        return floor_divide(b, node, input, other)
    first, second = pair(b, node, input, other)
    quotient = b.op("Div", first, second)
    if rounding_mode is None or np.dtype(node.meta["dtype"]).kind in "iu":
        return quotient
    return truncate_value(b, quotient)


@entry("op:floor_divide", "numpy:floor_divide")
def floor_divide(b: Builder, node: Node, input: Any, other: Any) -> Value:
    """A quotient rounded down; ONNX's of integers rounds towards 0."""
    first, second = pair(b, node, input, other)
    dtype = np.dtype(node.meta["dtype"])
    if dtype.kind != "i":
        quotient = b.op("Div", first, second)
        return quotient if dtype.kind == "u" else b.op("Floor", quotient)
    rest = b.op("Mod", first, second)  # with the sign of the divisor
    return b.op("Div", b.op("Sub", first, rest), second)


@entry("op:remainder", "numpy:remainder", "numpy:mod")
def remainder(b: Builder, node: Node, input: Any, other: Any) -> Value:
    """The rest of a division that rounds down."""
    first, second = pair(b, node, input, other)
    if np.dtype(node.meta["dtype"]).kind in "iu":
        return b.op("Mod", first, second)
    quotient = b.op("Floor", b.op("Div", first, second))
    return b.op("Sub", first, b.op("Mul", quotient, second))


@entry("op:fmod", "numpy:fmod")
def fmod(b: Builder, node: Node, input: Any, other: Any) -> Value:
    """The rest of a division that rounds towards 0."""
    return b.op("Mod", *pair(b, node, input, other), fmod=1)


@entry("op:pow", "numpy:power")
def power(b: Builder, node: Node, input: Any, exponent: Any) -> Value:
    """A power."""
    if not is_value(exponent) and exponent == 2:
        (base, _) = pair(b, node, input, 1)
        return b.op("Mul", base, base)
    return b.op("Pow", *pair(b, node, input, exponent))


COMPARISONS = {
    "eq": "Equal",
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
}


def register_comparison(name: str, op_type: str) -> None:
    """Add the entry of a comparison."""

    @entry(f"op:{name}")
    def compare(b: Builder, node: Node, input: Any, other: Any) -> Value:
        first, second = compared(b, input, other)
        if op_type != "Equal" and numpy_type(first).kind == "b":
            first, second = b.cast(first, np.int32), b.cast(second, np.int32)
        return b.op(op_type, first, second)


for _name, _op_type in COMPARISONS.items():
    register_comparison(_name, _op_type)


@entry("op:ne")
def not_equal(b: Builder, node: Node, input: Any, other: Any) -> Value:
    """Whether two values differ."""
    return b.op("Not", b.op("Equal", *compared(b, input, other)))


def register_logical(name: str, op_type: str) -> None:
    """Add the entries of an op on bools, and of its form on bits."""

    @entry(f"op:logical_{name}", f"numpy:logical_{name}")
    def logical(b: Builder, node: Node, input: Any, other: Any) -> Value:
        return b.op(op_type, b.tensor(input, np.bool_), b.tensor(other, np.bool_))

    @entry(f"op:bitwise_{name}", f"numpy:bitwise_{name}")
    def bitwise(b: Builder, node: Node, input: Any, other: Any) -> Value:
        is_bool = np.dtype(node.meta["dtype"]).kind == "b"
        return b.op(op_type if is_bool else f"Bitwise{op_type}", *pair(b, node, input, other))


for _name, _op_type in (("and", "And"), ("or", "Or"), ("xor", "Xor")):
    register_logical(_name, _op_type)


@entry("op:bitwise_not", "numpy:invert")
def bitwise_not(b: Builder, node: Node, input: Value) -> Value:
    """The opposite of each bit."""
    return b.op("Not" if numpy_type(input).kind == "b" else "BitwiseNot", input)


@entry("op:maximum", "numpy:maximum")
def maximum(b: Builder, node: Node, input: Any, other: Any) -> Value:
    """The larger of two values."""
    return b.op("Max", *pair(b, node, input, other))


@entry("op:minimum", "numpy:minimum")
def minimum(b: Builder, node: Node, input: Any, other: Any) -> Value:
    """The smaller of two values."""
    return b.op("Min", *pair(b, node, input, other))


@entry("op:where", "numpy:where")
def where(b: Builder, node: Node, condition: Value, input: Any, other: Any) -> Value:
    """A choice for each element."""
    return b.op("Where", b.tensor(condition, np.bool_), *pair(b, node, input, other))


@entry("op:masked_fill")
def masked_fill(b: Builder, node: Node, input: Value, mask: Value, value: Any) -> Value:
    """One value where the mask is True."""
    return where(b, node, mask, value, input)


@entry("op:logical_not", "numpy:logical_not")
def logical_not(b: Builder, node: Node, input: Value) -> Value:
    """Whether a value is 0."""
    return b.op("Not", b.cast(input, np.bool_))


@entry("op:sign", "numpy:sign")
def sign(b: Builder, node: Node, input: Value) -> Value:
    """-1, 0 or 1; of NaN, 0."""
    family = numpy_type(input).kind
    if family == "b":
        return b.op("Identity", input)
    value = b.op("Sign", input)
    if family != "f":
        return value
    return b.op("Where", b.op("IsNaN", input), number(b, node, 0), value)


@entry("op:clamp")
def clamp(b: Builder, node: Node, input: Value, min: Any = None, max: Any = None) -> Value:
    """A value within bounds."""
    dtype = node.meta["dtype"]
    result = b.cast(input, dtype)
    if min is not None:
        result = b.op("Max", result, b.tensor(min, dtype))
    if max is not None:
        result = b.op("Min", result, b.tensor(max, dtype))
    return result if result is not input else b.op("Identity", input)


@entry("op:copy", "op:fill")
def overwrite(b: Builder, node: Node, input: Value, value: Any) -> Value:
    """Another value in the shape of the first."""
    made = b.tensor(value, node.meta["dtype"])
    return b.op("Expand", made, b.shape(input))


# Made of others -----------------------------------------------------------------------------------


def number(b: Builder, node: Node, value: float) -> Value:
    """Return a number in the dtype of the node."""
    return b.const(value, node.meta["dtype"])


@entry("op:rsqrt")
def rsqrt(b: Builder, node: Node, input: Value) -> Value:
    """1 / √x."""
    return b.op("Reciprocal", b.op("Sqrt", b.cast(input, node.meta["dtype"])))


@entry("op:square", "numpy:square")
def square(b: Builder, node: Node, input: Value) -> Value:
    """x · x."""
    return b.op("Mul", input, input)


@entry("op:exp2", "numpy:exp2")
def exp2(b: Builder, node: Node, input: Value) -> Value:
    """2 to the power of x."""
    return b.op("Pow", number(b, node, 2.0), b.cast(input, node.meta["dtype"]))


@entry("op:expm1", "numpy:expm1")
def expm1(b: Builder, node: Node, input: Value) -> Value:
    """exp(x) - 1, as 2 · sinh(x / 2) · exp(x / 2), which is exact near 0."""
    half = b.op("Mul", b.cast(input, node.meta["dtype"]), number(b, node, 0.5))
    is_double = np.dtype(node.meta["dtype"]).itemsize == 8
    sinh = half_difference(b, half, "Sub") if is_double else b.op("Sinh", half)
    return b.op("Mul", b.op("Mul", sinh, number(b, node, 2.0)), b.op("Exp", half))


@entry("op:log1p", "numpy:log1p")
def log1p(b: Builder, node: Node, input: Value) -> Value:
    """log(1 + x), computed in double precision: ONNX has no such function."""
    wide = b.op("Add", b.cast(input, np.float64), b.const(1.0, np.float64))
    return b.op("Cast", b.op("Log", wide), to=int(b.tensor(0, node.meta["dtype"]).dtype))


@entry("op:log2", "numpy:log2")
def log2(b: Builder, node: Node, input: Value) -> Value:
    """log(x) / log(2)."""
    logarithm = b.op("Log", b.cast(input, node.meta["dtype"]))
    return b.op("Mul", logarithm, number(b, node, 1 / math.log(2)))


@entry("op:log10", "numpy:log10")
def log10(b: Builder, node: Node, input: Value) -> Value:
    """log(x) / log(10)."""
    logarithm = b.op("Log", b.cast(input, node.meta["dtype"]))
    return b.op("Mul", logarithm, number(b, node, 1 / math.log(10)))


@entry("op:round")
def round_(b: Builder, node: Node, input: Value, decimals: int = 0) -> Value:
    """The nearest multiple of a power of ten; halves go to the even one."""
    if numpy_type(input).kind in "iu":
        return b.op("Identity", input)
    if decimals == 0:
        return b.op("Round", input)
    factor = number(b, node, 10.0**decimals)
    return b.op("Div", b.op("Round", b.op("Mul", input, factor)), factor)


def truncate_value(b: Builder, value: Value) -> Value:
    """Return a value rounded towards 0."""
    return b.op("Mul", b.op("Sign", value), b.op("Floor", b.op("Abs", value)))


@entry("op:trunc", "numpy:trunc")
def trunc(b: Builder, node: Node, input: Value) -> Value:
    """The integer part."""
    is_integer = numpy_type(input).kind in "iu"
    return b.op("Identity", input) if is_integer else truncate_value(b, input)


@entry("op:frac")
def frac(b: Builder, node: Node, input: Value) -> Value:
    """The part behind the point."""
    return b.op("Sub", input, truncate_value(b, input))


@entry("op:isinf", "numpy:isinf")
def isinf(b: Builder, node: Node, input: Value) -> Value:
    """Whether a value is infinite."""
    return b.op("IsInf", b.cast(input, np.float32) if numpy_type(input).kind != "f" else input)


@entry("op:isposinf", "op:isneginf")
def is_signed_inf(b: Builder, node: Node, input: Value) -> Value:
    """Whether a value is infinite, and of one sign."""
    is_positive = getattr(node.target, "__name__", "") == "isposinf"
    flags = {"detect_negative": 0} if is_positive else {"detect_positive": 0}
    return b.op("IsInf", b.cast(input, np.float32), **flags)


@entry("op:isfinite", "numpy:isfinite")
def isfinite(b: Builder, node: Node, input: Value) -> Value:
    """Whether a value is neither infinite nor NaN."""
    value = b.cast(input, np.float32) if numpy_type(input).kind != "f" else input
    return b.op("Not", b.op("Or", b.op("IsInf", value), b.op("IsNaN", value)))


@entry("op:convert_dtype")
def convert_dtype(b: Builder, node: Node, input: Value, dtype: Any) -> Value:
    """The same values in another dtype."""
    cast = b.cast(input, dtype.numpy)
    return cast if cast is not input else b.op("Identity", input)


@entry("op:softplus")
def softplus(
    b: Builder, node: Node, input: Value, beta: float = 1.0, threshold: float = 20.0
) -> Value:
    """log(1 + exp(beta · x)) / beta."""
    scaled = input if beta == 1 else b.op("Mul", input, number(b, node, beta))
    smooth = b.op("Softplus", scaled)
    smooth = smooth if beta == 1 else b.op("Div", smooth, number(b, node, beta))
    if threshold >= 20:
        return smooth
    return b.op("Where", b.op("Greater", scaled, number(b, node, threshold)), input, smooth)


@entry("op:silu_forward")
def silu(b: Builder, node: Node, input: Value) -> Value:
    """x · σ(x)."""
    return b.op("Mul", input, b.op("Sigmoid", input))


@entry("op:gelu")
def gelu(b: Builder, node: Node, input: Value, approximate: str = "none") -> Value:
    """The Gaussian error linear unit."""
    if b.opset >= 20:
        return b.op("Gelu", input, approximate=approximate)
    half = b.op("Mul", input, number(b, node, 0.5))
    if approximate == "none":
        inner = b.op("Erf", b.op("Mul", input, number(b, node, 0.5**0.5)))
    else:
        cube = b.op("Mul", b.op("Mul", input, input), input)
        inner = b.op("Add", input, b.op("Mul", cube, number(b, node, 0.044715)))
        inner = b.op("Tanh", b.op("Mul", inner, number(b, node, (2 / math.pi) ** 0.5)))
    return b.op("Mul", half, b.op("Add", inner, number(b, node, 1.0)))


@entry("op:leaky_relu_forward")
def leaky_relu(b: Builder, node: Node, input: Value, negative_slope: float = 0.01) -> Value:
    """x, and negative_slope · x below 0."""
    return b.op("LeakyRelu", input, alpha=float(negative_slope))


@entry("op:prelu_forward")
def prelu(b: Builder, node: Node, input: Value, weight: Value) -> Value:
    """x, and weight · x below 0."""
    return b.op("PRelu", input, weight)


@entry("op:elu_forward")
def elu(b: Builder, node: Node, input: Value, alpha: float = 1.0) -> Value:
    """x, and alpha · (exp(x) - 1) below 0."""
    return b.op("Elu", input, alpha=float(alpha))


@entry("op:selu_forward")
def selu(b: Builder, node: Node, input: Value) -> Value:
    """Scaled ELU, whose constants are ONNX's own."""
    return b.op("Selu", input)


@entry("op:logsigmoid_forward")
def logsigmoid(b: Builder, node: Node, input: Value) -> Value:
    """-log(1 + exp(-x))."""
    return b.op("Neg", b.op("Softplus", b.op("Neg", input)))


@entry("op:hardtanh_forward")
def hardtanh(b: Builder, node: Node, input: Value, min_val: float, max_val: float) -> Value:
    """x within bounds."""
    return clamp(b, node, input, min_val, max_val)


@entry("op:addcmul", "op:addcdiv")
def add_combined(
    b: Builder, node: Node, input: Any, tensor1: Any, tensor2: Any, value: float = 1
) -> Value:
    """input + value · tensor1 · tensor2, or · tensor1 / tensor2."""
    is_product = getattr(node.target, "__name__", "") == "addcmul"
    combined = b.op("Mul" if is_product else "Div", *pair(b, node, tensor1, tensor2))
    if value != 1:
        combined = b.op("Mul", combined, number(b, node, value))
    return b.op("Add", b.tensor(input, node.meta["dtype"]), combined)


@entry("op:lerp")
def lerp(b: Builder, node: Node, input: Any, end: Any, weight: Any) -> Value:
    """input + weight · (end - input)."""
    start, stop = pair(b, node, input, end)
    step = b.op("Mul", b.tensor(weight, node.meta["dtype"]), b.op("Sub", stop, start))
    return b.op("Add", start, step)
