"""Arithmetic, comparisons and functions of single numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from ..table import enter, onnx_op
from ..values import (
    Value,
    dtype_of,
    facts,
    is_float,
    is_unsigned_storage,
    literal,
    number,
    torch,
)  # fmt: skip

Function = Callable[..., Any]

UNARY = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh",
    "Atan": "atan", "Atanh": "atanh", "BitwiseNot": "bitwise_not", "Ceil": "ceil", "Cos": "cos",
    "Cosh": "cosh", "Det": "det", "Erf": "erf", "Exp": "exp", "Floor": "floor", "IsNaN": "isnan",
    "Log": "log", "Neg": "neg", "Not": "logical_not", "Reciprocal": "reciprocal", "Relu": "relu",
    "Round": "round", "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin", "Sinh": "sinh",
    "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
}  # fmt: skip
"""ONNX's op → PyTorch's function of one tensor."""


def unary(name: str) -> Function:
    """Return the entry that calls a function of one tensor."""

    def entry(X: Value) -> Value:
        if is_known_unsigned(X):
            return getattr(torch, name)(X.to(torch.int64)).to(dtype_of(X))
        return getattr(torch, name)(X)

    return entry


def is_known_unsigned(X: Value) -> bool:
    """Return True if a value is known to be of an unsigned dtype for storage."""
    return facts(X).dtype is not None and is_unsigned_storage(X)


for op_type, function_name in UNARY.items():
    enter(op_type, unary(function_name))


# Two tensors ---------------------------------------------------------------------------------


def binary(name: str) -> Function:
    """Return the entry that calls a function of two tensors."""

    def entry(A: Value, B: Value) -> Value:
        function = getattr(torch, name)
        if is_unsigned_storage(A):  # arithmetic modulo 2**64 is the same for both signs
            return function(A.to(torch.int64), B.to(torch.int64)).to(dtype_of(A))
        return function(*with_literal(A, B))

    return entry


def with_literal(A: Value, B: Value) -> tuple[Value, Value]:
    """Return two operands, one of them as a Python number if it is a 0-d constant."""
    second = literal(B)
    if second is not B:
        return A, second
    return literal(A), B


def comparison(name: str) -> Function:
    """Return the entry that compares two tensors."""

    def entry(A: Value, B: Value) -> Value:
        function = getattr(torch, name)
        if is_unsigned_storage(A):
            return function(ordered(A), ordered(B))
        return function(A, literal(B))

    return entry


def ordered(X: Value, dtype: object = None) -> Value:
    """Return unsigned integers as int64 in the same order; or back, if their dtype is given."""
    signed = X.to(torch.int64)
    return signed ^ -(2**63) if (dtype or dtype_of(X)) == torch.uint64 else signed


BINARY = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor",
}  # fmt: skip
LOGICAL = {"And": "logical_and", "Or": "logical_or", "Xor": "logical_xor"}
COMPARISONS = {
    "Equal": "eq", "Less": "lt", "LessOrEqual": "le", "Greater": "gt", "GreaterOrEqual": "ge",
}  # fmt: skip

for op_type, function_name in (BINARY | LOGICAL).items():
    enter(op_type, binary(function_name))
for op_type, function_name in COMPARISONS.items():
    enter(op_type, comparison(function_name))


@onnx_op("Div")
def div(A: Value, B: Value) -> Value:
    """A / B; of integers, rounded towards 0."""
    if is_float(A):
        return torch.div(*with_literal(A, B))
    if is_unsigned_storage(A):
        return unsigned_quotient(A, B).to(dtype_of(A))
    return torch.div(*with_literal(A, B), rounding_mode="trunc")


def unsigned_quotient(A: Value, B: Value) -> Value:
    """Return the quotient of unsigned integers as int64, with the bits of an unsigned one.

    Half of A fits into int64. Twice its quotient is right, or too small by one.
    """
    a, b = A.to(torch.int64), B.to(torch.int64)
    half = (a >> 1) & (2**63 - 1)
    is_large = b < 0  # 2**63 or more: the quotient is 0 or 1
    quotient = torch.div(half, torch.where(is_large, 1, b), rounding_mode="trunc") * 2
    quotient = torch.where(is_large, 0, quotient)
    rest = (a - quotient * b) ^ -(2**63)
    return torch.where(rest >= b ^ -(2**63), quotient + 1, quotient)


@onnx_op("Mod")
def mod(A: Value, B: Value, *, fmod: int = 0) -> Value:
    """The rest of A / B, with the sign of B, or of A (fmod=1)."""
    function = torch.fmod if fmod else torch.remainder
    if is_unsigned_storage(A):
        rest = A.to(torch.int64) - unsigned_quotient(A, B) * B.to(torch.int64)
        return rest.to(dtype_of(A))
    return function(A, literal(B))


@onnx_op("Pow")
def pow(X: Value, Y: Value) -> Value:
    """X to the power Y, in the dtype of X."""
    dtype, exponent = dtype_of(X), literal(Y)
    if is_unsigned_storage(X) or is_unsigned_storage(Y):
        wide = X.to(torch.int64) if is_unsigned_storage(X) else X
        other = Y.to(torch.int64) if is_unsigned_storage(Y) else Y
        return torch.pow(wide, other).to(dtype)
    if dtype_of(Y) == dtype or (exponent is not Y and is_float(X)):
        return torch.pow(X, exponent)
    return torch.pow(X, Y).to(dtype)


@onnx_op("BitShift")
def bit_shift(X: Value, Y: Value, *, direction: str = "LEFT") -> Value:
    """Shift the bits of unsigned integers."""
    shift = torch.bitwise_left_shift if direction == "LEFT" else torch.bitwise_right_shift
    if not is_unsigned_storage(X):
        return shift(X, Y)
    dtype, X, Y = dtype_of(X), X.to(torch.int64), Y.to(torch.int64)
    if direction == "RIGHT" and dtype == torch.uint64:  # the sign bit must not come down
        rest = torch.bitwise_right_shift((X >> 1) & (2**63 - 1), torch.clamp(Y - 1, min=0))
        return torch.where(Y == 0, X, rest).to(dtype)
    return shift(X, Y).to(dtype)


@onnx_op("Where")
def where(condition: Value, X: Value, Y: Value) -> Value:
    """X where the condition holds, else Y."""
    return torch.where(condition, X, Y)


@onnx_op("IsInf")
def is_inf(X: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Value:
    """Whether an element is infinite, of one sign or both."""
    if detect_negative and detect_positive:
        return torch.isinf(X)
    if detect_positive:
        return torch.isposinf(X)
    if detect_negative:
        return torch.isneginf(X)
    return torch.zeros_like(X, dtype=torch.bool)


# Any number of tensors ---------------------------------------------------------------------------


@onnx_op("Sum")
def sum(*data_0: Value) -> Value:
    """The sum of the inputs."""
    return reduce(torch.add, data_0)


@onnx_op("Mean")
def mean(*data_0: Value) -> Value:
    """The mean of the inputs."""
    return reduce(torch.add, data_0) / len(data_0)


def larger(A: Value, B: Value) -> Value:
    """The larger of two elements."""
    if is_unsigned_storage(A):
        return torch.where(ordered(A) > ordered(B), A, B)
    return torch.maximum(A, B)


def smaller(A: Value, B: Value) -> Value:
    """The smaller of two elements."""
    if is_unsigned_storage(A):
        return torch.where(ordered(A) < ordered(B), A, B)
    return torch.minimum(A, B)


@onnx_op("Max")
def max(*data_0: Value) -> Value:
    """The largest of the inputs."""
    if is_unsigned_storage(data_0[0]):
        return reduce(larger, data_0)
    return reduce(torch.maximum, data_0)


@onnx_op("Min")
def min(*data_0: Value) -> Value:
    """The smallest of the inputs."""
    if is_unsigned_storage(data_0[0]):
        return reduce(smaller, data_0)
    return reduce(torch.minimum, data_0)


@onnx_op("Clip", since=11)
def clip(input: Value, min: Value = None, max: Value = None) -> Value:
    """Values below the minimum become it, those above the maximum become that."""
    low, high = literal(min), literal(max)
    if is_unsigned_storage(input):
        result = input if min is None else larger(input, min)
        return result if max is None else smaller(result, max)
    if all(bound is None or isinstance(bound, int | float) for bound in (low, high)):
        return input if low is None and high is None else torch.clamp(input, low, high)
    result = input if min is None else torch.maximum(input, min)
    return result if max is None else torch.minimum(result, max)


@onnx_op("Clip", since=6)
def clip_6(input: Value, *, min: float | None = None, max: float | None = None) -> Value:
    """Clip with its bounds as attributes."""
    return input if min is None and max is None else torch.clamp(input, min, max)


@onnx_op("Identity")
def identity(input: Value) -> Value:
    """The input."""
    return input


@onnx_op("CumSum")
def cum_sum(x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value:
    """The running sum along an axis."""
    return running(torch.cumsum, x, axis_of(axis), (exclusive, reverse, 0))


@onnx_op("CumProd")
def cum_prod(x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value:
    """The running product along an axis."""
    return running(torch.cumprod, x, axis_of(axis), (exclusive, reverse, 1))


def axis_of(axis: Value) -> int:
    """Return an axis that is an input."""
    return int(number(axis))


def running(function: Function, x: Value, axis: int, options: tuple[int, int, int]) -> Value:
    """Accumulate along an axis.

    Args:
        options: exclusive, reverse, and the value to begin with if it is exclusive.
    """
    exclusive, backwards, first = options
    result = torch.flip(x, [axis]) if backwards else x
    result = function(result, axis, dtype=dtype_of(x))
    if exclusive:
        start = torch.full_like(result.narrow(axis, 0, 1), first)
        result = torch.cat([start, result], axis).narrow(axis, 0, x.shape[axis])
    return torch.flip(result, [axis]) if backwards else result
