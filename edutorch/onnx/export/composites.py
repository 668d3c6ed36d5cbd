"""Entries for functions that ONNX lacks, made of those that it has; many are NumPy's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...fx.node import Node
from .builder import Builder, Value, is_value, numpy_type
from .elementwise import clamp, number, pair
from .movement import (
    flat_positions,
    getitem,
    is_mask,
    is_static,
    mask_like,
    rank,
    scattered,
)  # fmt: skip
from .reductions import axes_of, reduce
from .table import Unsupported, entry

# Elementwise --------------------------------------------------------------------------------------


@entry("numpy:clip")
def clip(
    b: Builder, node: Node, input: Value, a_min: Any = None, a_max: Any = None, **more: Any
) -> Value:
    """A value within bounds."""
    return clamp(b, node, input, more.get("min", a_min), more.get("max", a_max))


@entry("numpy:around", "numpy:round")
def around(b: Builder, node: Node, input: Value, decimals: int = 0) -> Value:
    """The nearest integer."""
    if decimals:
        raise Unsupported("around with decimals")
    return b.op("Round", input)


@entry("op:signbit", "numpy:signbit")
def signbit(b: Builder, node: Node, input: Value) -> Value:
    """Whether a value has a minus, which -0 has too."""
    if numpy_type(input).kind in "ub":
        return b.op("Not", b.op("Equal", input, input))
    zero = b.const(0, input.dtype.numpy())
    below = b.op("Less", input, zero)
    if numpy_type(input).kind == "i":
        return below
    inverse = b.op("Less", b.op("Reciprocal", input), zero)  # 1 / -0 is -∞
    return b.op("Or", below, b.op("And", b.op("Equal", input, zero), inverse))


@entry("op:copysign", "numpy:copysign")
def copysign(b: Builder, node: Node, input: Any, other: Any) -> Value:
    """The size of one value with the sign of another."""
    size, sign = pair(b, node, input, other)
    size = b.op("Abs", size)
    return b.op("Where", signbit(b, node, sign), b.op("Neg", size), size)


@entry("op:hypot", "numpy:hypot")
def hypot(b: Builder, node: Node, input: Any, other: Any) -> Value:
    """√(x² + y²), scaled by the larger of both."""
    x, y = (b.op("Abs", value) for value in pair(b, node, input, other))
    large, small = b.op("Max", x, y), b.op("Min", x, y)
    divisor = b.op("Where", b.op("Equal", large, number(b, node, 0)), number(b, node, 1), large)
    ratio = b.op("Div", small, divisor)
    total = b.op("Add", b.op("Mul", ratio, ratio), number(b, node, 1))
    return b.op("Mul", large, b.op("Sqrt", total))


@entry("op:logaddexp", "numpy:logaddexp", "op:logaddexp2", "numpy:logaddexp2")
def logaddexp(b: Builder, node: Node, input: Any, other: Any) -> Value:
    """log(exp(x) + exp(y)), or the same with powers of 2."""
    x, y = pair(b, node, input, other)
    large = b.op("Max", x, y)
    gap = b.op("Neg", b.op("Abs", b.op("Sub", x, y)))
    gap = b.op("Where", b.op("Equal", x, y), number(b, node, 0), gap)  # ∞ - ∞
    if getattr(node.target, "__name__", "") == "logaddexp2":
        grown = b.op("Softplus", b.op("Mul", gap, number(b, node, math.log(2))))
        grown = b.op("Mul", grown, number(b, node, 1 / math.log(2)))
    else:
        grown = b.op("Softplus", gap)
    return b.op("Add", large, grown)


@entry("op:atan2", "numpy:arctan2")
def atan2(b: Builder, node: Node, input: Any, other: Any) -> Value:
    """The angle of the point (other, input)."""
    y, x = pair(b, node, input, other)
    zero = number(b, node, 0)
    angle = b.op("Atan", b.op("Div", y, x))
    pi = number(b, node, math.pi)
    minus, left = signbit(b, node, b.like(y, node.meta["dtype"])), b.op("Less", x, zero)
    turned = b.op("Where", minus, b.op("Sub", angle, pi), b.op("Add", angle, pi))
    result = b.op("Where", left, turned, angle)
    upright = b.op("Where", minus, number(b, node, -math.pi / 2), number(b, node, math.pi / 2))
    at_zero = b.op("And", b.op("Equal", x, zero), b.op("Not", b.op("Equal", y, zero)))
    result = b.op("Where", at_zero, upright, result)
    both_zero = b.op("And", b.op("Equal", x, zero), b.op("Equal", y, zero))
    flat = b.op("Where", signbit(b, node, b.like(x, node.meta["dtype"])), pi, zero)
    flat = b.op("Where", minus, b.op("Neg", flat), flat)
    return b.op("Where", both_zero, flat, result)


@entry("op:fmax", "numpy:fmax", "op:fmin", "numpy:fmin")
def extreme_without_nan(b: Builder, node: Node, input: Any, other: Any) -> Value:
    """The larger or smaller value; of NaN and a number, the number."""
    x, y = pair(b, node, input, other)
    op_type = "Max" if getattr(node.target, "__name__", "") == "fmax" else "Min"
    if np.dtype(node.meta["dtype"]).kind != "f":
        return b.op(op_type, x, y)
    chosen = b.op("Where", b.op("IsNaN", y), x, b.op(op_type, x, y))
    return b.op("Where", b.op("IsNaN", x), y, chosen)


@entry("op:isclose")
def isclose(
    b: Builder, node: Node, input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8,
    equal_nan: bool = False,
) -> Value:  # fmt: skip
    """Whether two values differ by no more than atol + rtol · |other|."""
    types = [numpy_type(value) for value in (input, other) if is_value(value)]
    kept = np.result_type(*types)
    dtype = kept if kept.kind == "f" else np.dtype(np.float64)
    x, y = b.tensor(input, dtype), b.tensor(other, dtype)
    limit = b.op("Mul", b.op("Abs", y), b.const(rtol, dtype))
    limit = b.op("Add", limit, b.const(atol, dtype))
    gap = b.op("Abs", b.op("Sub", x, y))
    finite = b.op("Not", b.op("IsInf", gap)) if dtype.itemsize >= 4 else b.const(True)
    near = b.op("And", b.op("LessOrEqual", gap, limit), finite)
    result = b.op("Or", near, b.op("Equal", x, y))
    if equal_nan:
        result = b.op("Or", result, b.op("And", b.op("IsNaN", x), b.op("IsNaN", y)))
    return result


def register_shift(name: str, numpy_name: str, sign: str) -> None:
    """Add the entries of a shift, which is a product with, or a quotient by, a power of 2."""

    @entry(f"op:{name}", f"numpy:{numpy_name}")
    def shift(b: Builder, node: Node, input: Any, other: Any) -> Value:
        dtype = np.dtype(node.meta["dtype"])
        x, count = b.tensor(input, np.int64), b.tensor(other, np.float64)
        power = b.op("Pow", b.const(2.0, np.float64), count)
        factor = b.op("Cast", power, to=int(x.dtype or b.const(0, np.int64).dtype))
        if sign == "left":
            result = b.op("Mul", x, factor)
        else:
            rest = b.op("Mod", x, factor)  # rounds down, also below 0
            result = b.op("Div", b.op("Sub", x, rest), factor)
        return b.op("Cast", result, to=int(b.tensor(0, dtype).dtype))


register_shift("bitwise_left_shift", "left_shift", "left")
register_shift("bitwise_right_shift", "right_shift", "right")


@entry("op:xlogy", "op:xlog1py")
def xlogy(b: Builder, node: Node, input: Any, other: Any) -> Value:
    """x · log(y), and 0 where x is 0."""
    x, y = pair(b, node, input, other)
    if getattr(node.target, "__name__", "") == "xlog1py":
        y = b.op("Add", y, number(b, node, 1))
    product = b.op("Mul", x, b.op("Log", y))
    is_zero = b.op("And", b.op("Equal", x, number(b, node, 0)), b.op("Not", b.op("IsNaN", y)))
    return b.op("Where", is_zero, number(b, node, 0), product)


@entry("op:erfc")
def erfc(b: Builder, node: Node, input: Value) -> Value:
    """1 - erf(x): far from 0 it has few digits, since ONNX has no erfc."""
    return b.op("Sub", number(b, node, 1), b.op("Erf", b.cast(input, node.meta["dtype"])))


@entry("op:frexp_forward")
def frexp(b: Builder, node: Node, input: Value) -> tuple[Value, Value]:
    """Mantissa and exponent: x = m · 2^e with ½ ≤ |m| < 1, in double precision."""
    x, half, one = (b.tensor(value, np.float64) for value in (input, 0.5, 1.0))
    two, zero = b.const(2.0, np.float64), b.const(0.0, np.float64)
    usual = b.op("And", b.op("Not", b.op("IsNaN", x)), b.op("Not", b.op("IsInf", x)))
    usual = b.op("And", usual, b.op("Not", b.op("Equal", x, zero)))
    size = b.op("Where", usual, b.op("Abs", x), one)
    power = b.op("Div", b.op("Log", size), b.const(math.log(2.0)))
    exponent = b.op("Add", b.op("Floor", power), one)
    mantissa = b.op("Div", size, b.op("Pow", two, exponent))  # at most one step beside
    exponent = b.op("Where", b.op("Less", mantissa, half), b.op("Sub", exponent, one), exponent)
    low = b.op("Not", b.op("Less", mantissa, one))
    exponent = b.op("Where", low, b.op("Add", exponent, one), exponent)
    mantissa = b.op("Where", usual, b.op("Div", x, b.op("Pow", two, exponent)), x)
    exponent = b.op("Where", usual, exponent, zero)
    return b.op("Cast", mantissa, to=int(input.dtype)), b.cast(exponent, np.int32)


@entry("op:gcd", "op:lcm")
def common_divisor(b: Builder, node: Node, input: Any, other: Any) -> Value:
    """The greatest common divisor by Euclid's steps, or the least common multiple."""
    dtype = np.dtype(node.meta["dtype"])
    x, y = (b.op("Abs", b.tensor(value, np.int64)) for value in (input, other))
    zero, one = b.const(0, np.int64), b.const(1, np.int64)
    first, second = b.op("Add", x, b.op("Mul", y, zero)), b.op("Add", y, b.op("Mul", x, zero))
    for _ in range(EUCLID_STEPS[dtype.itemsize]):
        done = b.op("Equal", second, zero)
        divisor = b.op("Where", done, one, second)
        rest = b.op("Mod", first, divisor)
        first, second = b.op("Where", done, first, second), b.op("Where", done, zero, rest)
    if getattr(node.target, "__name__", "") == "lcm":
        divisor = b.op("Where", b.op("Equal", first, zero), one, first)
        first = b.op("Mul", b.op("Div", x, divisor), y)
    return b.op("Cast", first, to=int(b.tensor(0, dtype).dtype))


EUCLID_STEPS = {1: 13, 2: 24, 4: 47, 8: 92}
"""The most steps of Euclid's algorithm, by the bytes of the integers."""


# Functions of NumPy on whole arrays ---------------------------------------------------------------


@entry("numpy:full_like")
def full_like(b: Builder, node: Node, input: Value, fill_value: Any, **settings: Any) -> Value:
    """One number in the shape of another array."""
    return b.op("Expand", b.tensor(fill_value, node.meta["dtype"]), b.shape(input))


@entry("numpy:broadcast_arrays")
def broadcast_arrays(b: Builder, node: Node, *arrays: Any) -> tuple[Value, ...]:
    """Arrays in their common shape."""
    values = [a if is_value(a) else b.const(a) for a in arrays]
    zeros = [b.op("Mul", b.cast(v, np.float32), b.const(0, np.float32)) for v in values]
    total = zeros[0]
    for zero in zeros[1:]:
        total = b.op("Add", total, zero)
    return tuple(b.op("Expand", value, b.shape(total)) for value in values)


@entry("numpy:cumprod", "op:cumprod")
def cumprod(b: Builder, node: Node, input: Value, dim: int = 0, **settings: Any) -> Value:
    """Running products: each is that of what a triangle of ones leaves."""
    size = input.shape[dim] if rank(input) else 1
    if rank(input) == 0:
        return b.op("Identity", b.cast(input, node.meta["dtype"]))
    if not isinstance(size, int) or size > LARGEST_TRIANGLE:
        raise Unsupported(f"cumprod over more than {LARGEST_TRIANGLE} elements")
    last = [*(a for a in range(rank(input)) if a != dim % rank(input)), dim % rank(input)]
    value = b.op("Transpose", b.cast(input, node.meta["dtype"]), perm=last)
    rows = b.op("Unsqueeze", value, b.const([-2], np.int64))
    kept = b.op("Where", b.const(np.tri(size, dtype=np.bool_)), rows, number(b, node, 1))
    product = b.op("ReduceProd", kept, b.const([-1], np.int64), keepdims=0)
    return b.op("Transpose", product, perm=np.argsort(last).tolist())


LARGEST_TRIANGLE = 512


@entry("op:logcumsumexp")
def logcumsumexp(b: Builder, node: Node, input: Value, dim: int) -> Value:
    """log of running sums of exp: each is that of what a triangle leaves."""
    if rank(input) == 0:
        return b.op("Identity", input)
    size = input.shape[dim]
    if not isinstance(size, int) or size > LARGEST_TRIANGLE:
        raise Unsupported(f"logcumsumexp over more than {LARGEST_TRIANGLE} elements")
    last = [*(a for a in range(rank(input)) if a != dim % rank(input)), dim % rank(input)]
    rows = b.op("Unsqueeze", b.op("Transpose", input, perm=last), b.const([-2], np.int64))
    triangle = b.const(np.tri(size, dtype=np.bool_))
    kept = b.op("Where", triangle, rows, number(b, node, -math.inf))
    total = b.op("ReduceLogSumExp", kept, b.const([-1], np.int64), keepdims=0)
    return b.op("Transpose", total, perm=np.argsort(last).tolist())


@entry("numpy:broadcast_to")
def broadcast_to(b: Builder, node: Node, input: Any, shape: Sequence[Any]) -> Value:
    """A value in a larger shape."""
    return b.op("Expand", b.tensor(input, node.meta["dtype"]), b.vector(shape))


def register_reduction(name: str, op_type: str) -> None:
    """Add the entry of a reduction of NumPy."""

    @entry(f"numpy:{name}")
    def reduction(
        b: Builder, node: Node, input: Value, axis: Any = None, dtype: Any = None,
        keepdims: bool = False, **settings: Any,
    ) -> Value:  # fmt: skip
        value = b.cast(input, node.meta["dtype"])
        return reduce(b, op_type, value, axis, keepdims)


for _name, _op_type in (("sum", "ReduceSum"), ("mean", "ReduceMean"), ("prod", "ReduceProd"),
                        ("max", "ReduceMax"), ("amax", "ReduceMax"), ("min", "ReduceMin"),
                        ("amin", "ReduceMin")):  # fmt: skip
    register_reduction(_name, _op_type)


@entry("edutorch:call_method")
def call_method(
    b: Builder, node: Node, name: str, input: Value, *args: Any, **kwargs: Any
) -> Value:
    """A method of an array: reductions, and shapes."""
    methods = {
        "sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin",
        "prod": "ReduceProd",
    }  # fmt: skip
    if name in methods and not set(kwargs) - {"axis", "keepdims"}:
        axis = args[0] if args else kwargs.get("axis")
        value = b.cast(input, node.meta["dtype"])
        return reduce(b, methods[name], value, axis, kwargs.get("keepdims", False))
    raise Unsupported(f"the method {name!r} of an array")


@entry("numpy:concatenate")
def concatenate(b: Builder, node: Node, arrays: Sequence[Value], axis: int = 0) -> Value:
    """Arrays joined along an axis."""
    return b.op("Concat", *(b.cast(a, node.meta["dtype"]) for a in arrays), axis=axis)


@entry("numpy:expand_dims")
def expand_dims(b: Builder, node: Node, input: Value, axis: Any) -> Value:
    """A further axis."""
    return b.unsqueeze(input, *([axis] if isinstance(axis, int) else axis))


@entry("numpy:moveaxis")
def moveaxis(b: Builder, node: Node, input: Value, source: int, destination: int) -> Value:
    """An axis at another position."""
    order = [axis for axis in range(rank(input)) if axis != source % rank(input)]
    order.insert(destination % rank(input), source % rank(input))
    return b.op("Transpose", input, perm=order)


# Regions and sums at indices, of static shapes ----------------------------------------------------


@entry("program:read_region")
def read_region(
    b: Builder, node: Node, input: Value, order: Sequence[int], offset: int,
    shape: Sequence[int], strides: Sequence[int],
) -> Value:  # fmt: skip
    """A strided view of memory, as elements picked by their numbers."""
    ordered = b.op("Transpose", input, perm=list(order)) if rank(input) else input
    flat = b.op("Reshape", ordered, b.const([-1], np.int64))
    return b.op("Gather", flat, b.const(region_positions(offset, shape, strides)), axis=0)


def region_positions(offset: Any, shape: Sequence[Any], strides: Sequence[Any]) -> np.ndarray:
    """Return the number of each element of a strided view."""
    if not all(isinstance(n, int) for n in (offset, *shape, *strides)):
        raise Unsupported("a strided view of a dynamic shape")
    positions = np.full(tuple(shape), offset, np.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        steps = np.arange(size) * stride
        positions += steps.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return positions


@entry("program:write_region")
def write_region(
    b: Builder, node: Node, input: Value, values: Value, order: Sequence[int], offset: int,
    shape: Sequence[int], strides: Sequence[int],
) -> Value:  # fmt: skip
    """A strided view of memory written."""
    ordered = b.op("Transpose", input, perm=list(order)) if rank(input) else input
    flat = b.op("Reshape", ordered, b.const([-1], np.int64))
    positions = region_positions(offset, shape, strides).reshape(-1)
    source = b.op("Reshape", b.cast(values, node.meta["dtype"]), b.const([-1], np.int64))
    written = b.op("ScatterElements", flat, b.const(positions), source, axis=0)
    back = b.op("Reshape", written, b.shape(ordered))
    return b.op("Transpose", back, perm=np.argsort(order).tolist()) if rank(input) else back


@entry("program:accumulate_at")
def accumulate_at(b: Builder, node: Node, input: Value, index: Any, values: Value) -> Value:
    """Values added at an index, where repeated ones add up."""
    return put_at(b, node, input, index, values, "add")


@entry("op:index_put")
def index_put(
    b: Builder, node: Node, input: Value, values: Any, indices: Any, accumulate: bool = False
) -> Value:
    """Values written, or added, at an index."""
    return put_at(b, node, input, tuple(indices), values, "add" if accumulate else "none")


@entry("op:index_put_forward")
def index_put_forward(
    b: Builder, node: Node, input: Value, index: Any, shape: Sequence[Any]
) -> Value:
    """The values of an index of zeros of this shape."""
    zeros = b.op("Expand", number(b, node, 0), b.vector(shape))
    b.like(zeros, node.meta["dtype"], [size if isinstance(size, int) else None for size in shape])
    return put_at(b, node, zeros, index, input, "add")


@entry("op:masked_scatter")
def masked_scatter(b: Builder, node: Node, input: Value, source: Value, mask: Value) -> Value:
    """The elements of the source in order, where the mask is True."""
    flat = b.const([-1], np.int64)
    full = b.op("Expand", b.cast(mask, np.int64), b.shape(input))
    count = b.op("CumSum", b.op("Reshape", full, flat), b.const(0, np.int64))
    positions = b.op("Max", b.op("Sub", count, b.const(1, np.int64)), b.const(0, np.int64))
    taken = b.op("Gather", b.op("Reshape", source, flat), positions, axis=0)
    taken = b.op("Reshape", taken, b.shape(full))
    return b.op("Where", b.tensor(mask, np.bool_), taken, input)


def put_at(b: Builder, node: Node, input: Value, index: Any, values: Any, reduction: str) -> Value:
    """Write or add values at an index, by the positions of the elements."""
    if is_mask(index) and (not is_value(values) or rank(values) == 0):
        dtype = node.meta["dtype"]
        value = b.tensor(values, dtype)
        value = b.op("Add", input, value) if reduction == "add" else value
        return b.op("Where", mask_like(b, input, index), value, input)
    if not is_static(input):
        raise Unsupported("a write at an index of a tensor with dynamic sizes")
    positions = getitem(b, node, flat_positions(b, input), index)
    source = b.op("Expand", b.tensor(values, node.meta["dtype"]), b.shape(positions))
    flat = [b.op("Reshape", v, b.const([-1], np.int64)) for v in (input, positions, source)]
    written = b.op("ScatterElements", *flat, axis=0, reduction=reduction)
    return b.op("Reshape", written, b.shape(input))


@entry("op:index_add", "op:index_copy")
def index_add(
    b: Builder, node: Node, input: Value, dim: int, index: Value, source: Any, alpha: float = 1
) -> Value:
    """Slices added to, or written at, numbers of an axis."""
    is_sum = getattr(node.target, "__name__", "") == "index_add"
    value = b.cast(source, node.meta["dtype"])
    if alpha != 1:
        value = b.op("Mul", value, number(b, node, alpha))
    return put_slices(b, node, input, dim, index, value, "add" if is_sum else "none")


@entry("op:index_fill")
def index_fill(b: Builder, node: Node, input: Value, dim: int, index: Value, value: Any) -> Value:
    """One number written at numbers of an axis."""
    picked = b.op("Gather", input, b.cast(index, np.int64), axis=dim)
    filled = b.op("Expand", b.tensor(value, node.meta["dtype"]), b.shape(picked))
    return put_slices(b, node, input, dim, index, filled, "none")


def reads_slice(input: Value, value: Value) -> bool:
    """Return True if a value lacks the axis that a single number chooses."""
    return value.shape is None or rank(value) < rank(input)


def put_slices(
    b: Builder, node: Node, input: Value, dim: int, index: Value, value: Value, reduction: str
) -> Value:
    """Write or add slices of an axis."""
    if rank(input) == 0:
        value = b.op("Reshape", value, b.const([-1], np.int64))
        wide = b.op("Reshape", b.cast(index, np.int64), b.const([-1], np.int64))
        written = b.op(
            "ScatterElements", b.unsqueeze(input, 0), wide, value, axis=0, reduction=reduction
        )
        return b.op("Reshape", written, b.const([], np.int64))
    if rank(index) == 0:
        value = b.unsqueeze(value, dim % rank(input)) if reads_slice(input, value) else value
    shape = [1] * rank(input)
    shape[dim] = -1
    column = b.op("Reshape", b.cast(index, np.int64), b.const(shape, np.int64))
    spread = b.op("Expand", column, b.shape(value))
    return b.op("ScatterElements", input, spread, value, axis=dim, reduction=reduction)


@entry("op:scatter_reduce")
def scatter_reduce(
    b: Builder, node: Node, input: Value, dim: int, index: Value, src: Value, reduce: str,
    include_self: bool = True,
) -> Value:  # fmt: skip
    """Elements combined along an axis; without its own, the input begins as the neutral element."""
    neutral = {"sum": 0, "mean": 0, "prod": 1, "amax": -math.inf, "amin": math.inf}[reduce]
    reduction = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}[reduce]
    start = input
    if not include_self:
        if math.isinf(neutral) and np.dtype(node.meta["dtype"]).kind != "f":
            raise Unsupported(f"reduce={reduce!r} of integers without include_self")
        start = b.like(
            scattered(b, node, input, dim, index, neutral, "none"), node.meta["dtype"], input.shape
        )
    total = scattered(b, node, start, dim, index, src, reduction)
    if reduce != "mean":
        return total
    ones = b.op("Expand", number(b, node, 1 if include_self else 0), b.shape(input))
    ones = b.like(ones, node.meta["dtype"], input.shape)
    count = scattered(b, node, ones, dim, index, 1, "add")
    divisor = b.op("Max", count, number(b, node, 1))
    if np.dtype(node.meta["dtype"]).kind != "f":
        raise Unsupported("reduce='mean' of integers")
    return b.op("Div", total, divisor)


# Others -------------------------------------------------------------------------------------------


@entry("numpy:linalg_norm")
def norm(b: Builder, node: Node, input: Value, axis: Any = None, keepdims: bool = False) -> Value:
    """The root of the sum of squares."""
    axes, _ = axes_of(b, input, axis)
    return b.op("ReduceL2", input, axes, keepdims=int(keepdims))
