"""Entries for reductions, softmaxes, and products of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...fx.node import Node
from .builder import Builder, Value, numpy_type
from .elementwise import number
from .movement import rank
from .table import Unsupported, entry


def axes_of(b: Builder, input: Value, dim: Any) -> tuple[Value | None, list[int]]:
    """Return the axes of a reduction as a value and as numbers; None and () are all of them."""
    if dim is None or dim == ():
        return None, list(range(rank(input)))
    dims = [dim] if isinstance(dim, int) else list(dim)
    axes = [axis % max(rank(input), 1) for axis in dims]
    return b.const(axes, np.int64), axes


def reduce(b: Builder, op_type: str, input: Value, dim: Any = None, keepdim: bool = False) -> Value:
    """Add a reduction."""
    if rank(input) == 0:
        return b.op("Identity", input)
    axes, _ = axes_of(b, input, dim)
    return b.op(op_type, input, axes, keepdims=int(keepdim))


REDUCTIONS = {"sum": "ReduceSum", "mean": "ReduceMean", "prod": "ReduceProd"}


def register_reduction(name: str, op_type: str) -> None:
    """Add the entry of a reduction whose result may have another dtype."""

    @entry(f"op:{name}")
    def reduction(
        b: Builder, node: Node, input: Value, dim: Any = None, keepdim: bool = False,
        dtype: Any = None,
    ) -> Value:  # fmt: skip
        value = b.cast(input, node.meta["dtype"])
        if op_type == "ReduceMean" and 0 in input.shape:
            return b.op(
                "Mul", reduce(b, "ReduceSum", value, dim, keepdim), number(b, node, math.nan)
            )
        return reduce(b, op_type, value, dim, keepdim)


for _name, _op_type in REDUCTIONS.items():
    register_reduction(_name, _op_type)


@entry("op:amax", "op:amin")
def extreme(b: Builder, node: Node, input: Value, dim: Any = (), keepdim: bool = False) -> Value:
    """The largest or smallest element."""
    op_type = "ReduceMax" if getattr(node.target, "__name__", "") == "amax" else "ReduceMin"
    if numpy_type(input).kind == "b":
        wide = reduce(b, op_type, b.cast(input, np.int32), dim, keepdim)
        return b.op("Cast", wide, to=int(input.dtype))
    return reduce(b, op_type, input, dim, keepdim)


@entry("op:all", "op:any")
def truth(b: Builder, node: Node, input: Value, dim: Any = None, keepdim: bool = False) -> Value:
    """Whether all, or any, of the elements are True."""
    op_type = "ReduceMin" if getattr(node.target, "__name__", "") == "all" else "ReduceSum"
    truths = b.cast(b.cast(input, np.bool_), np.int32)
    reduced = reduce(b, op_type, truths, dim, keepdim)
    return b.op("Greater", reduced, b.const(0, np.int32))


@entry("op:count_nonzero")
def count_nonzero(b: Builder, node: Node, input: Value, dim: Any = None) -> Value:
    """How many elements are not 0."""
    return reduce(b, "ReduceSum", b.cast(b.cast(input, np.bool_), np.int64), dim)


@entry("op:logsumexp")
def logsumexp(b: Builder, node: Node, input: Value, dim: Any, keepdim: bool = False) -> Value:
    """log Σ exp(x)."""
    return reduce(b, "ReduceLogSumExp", b.cast(input, node.meta["dtype"]), dim, keepdim)


@entry("op:argmax", "op:argmin")
def arg_extreme(
    b: Builder, node: Node, input: Value, dim: Any = None, keepdim: bool = False
) -> Value:
    """Where the largest or smallest element is."""
    op_type = "ArgMax" if getattr(node.target, "__name__", "") == "argmax" else "ArgMin"
    if numpy_type(input).kind == "b":
        input = b.cast(input, np.int32)
    if dim is not None and rank(input):
        return b.op(op_type, input, axis=dim, keepdims=int(keepdim))
    place = b.op(op_type, b.op("Reshape", input, b.const([-1], np.int64)), axis=0, keepdims=0)
    return b.reshape(place, [1] * rank(input)) if keepdim else place


@entry("op:var")
def var(
    b: Builder, node: Node, input: Value, dim: Any = None, keepdim: bool = False,
    correction: float = 1,
) -> Value:  # fmt: skip
    """The variance, with the number of elements corrected."""
    axes, dims = axes_of(b, input, dim)
    offset = b.op("Sub", input, b.op("ReduceMean", input, axes, keepdims=1))
    squares = b.op("Mul", offset, offset)
    if correction == 0:
        return b.op("ReduceMean", squares, axes, keepdims=int(keepdim))
    total = b.op("ReduceSum", squares, axes, keepdims=int(keepdim))
    sizes = [input.shape[axis] for axis in dims]
    if all(isinstance(size, int) for size in sizes):
        return b.op("Div", total, number(b, node, max(math.prod(sizes) - correction, 0)))
    counted = b.op("Gather", b.shape(input), b.const(dims, np.int64), axis=0)
    count = b.op("ReduceProd", counted, keepdims=0)
    divisor = b.op("Sub", b.op("Cast", count, to=int(input.dtype)), number(b, node, correction))
    return b.op("Div", total, divisor)


@entry("op:vector_norm")
def vector_norm(
    b: Builder, node: Node, input: Value, ord: float = 2, dim: Any = None, keepdim: bool = False
) -> Value:
    """The p-norm."""
    if rank(input) == 0:
        return b.op("Abs", input)
    if ord == 2:
        return reduce(b, "ReduceL2", input, dim, keepdim)
    if ord == 1:
        return reduce(b, "ReduceL1", input, dim, keepdim)
    size = b.like(b.op("Abs", input), node.meta["dtype"], input.shape)
    if math.isinf(ord):
        return reduce(b, "ReduceMax" if ord > 0 else "ReduceMin", size, dim, keepdim)
    if ord == 0:
        ones = b.like(b.op("Sign", size), node.meta["dtype"], input.shape)
        return reduce(b, "ReduceSum", ones, dim, keepdim)
    power = b.like(b.op("Pow", size, number(b, node, ord)), node.meta["dtype"], input.shape)
    return b.op("Pow", reduce(b, "ReduceSum", power, dim, keepdim), number(b, node, 1 / ord))


@entry("op:cumsum")
def cumsum(b: Builder, node: Node, input: Value, dim: int, dtype: Any = None) -> Value:
    """Running sums."""
    value = b.cast(input, node.meta["dtype"])
    if rank(input) == 0:
        return b.op("Identity", value)
    return b.op("CumSum", value, b.const(dim, np.int64))


@entry("op:softmax")
def softmax(b: Builder, node: Node, input: Value, dim: int, dtype: Any = None) -> Value:
    """exp(x) / Σ exp(x) along an axis."""
    return normalized(b, "Softmax", b.cast(input, node.meta["dtype"]), dim)


@entry("op:log_softmax")
def log_softmax(b: Builder, node: Node, input: Value, dim: int, dtype: Any = None) -> Value:
    """The logarithm of softmax."""
    return normalized(b, "LogSoftmax", b.cast(input, node.meta["dtype"]), dim)


def normalized(b: Builder, op_type: str, value: Value, dim: int) -> Value:
    """Add a softmax; ONNX's has no form for a value without axes."""
    if rank(value):
        return b.op(op_type, value, axis=dim)
    return b.squeeze(b.op(op_type, b.unsqueeze(value, 0), axis=0), 0)


# Products -----------------------------------------------------------------------------------------


@entry("op:matmul", "op:mm", "op:bmm", "op:mv", "op:dot", "numpy:matmul")
def matmul(b: Builder, node: Node, input: Value, other: Value) -> Value:
    """The product of matrices or vectors."""
    dtype = np.dtype(node.meta["dtype"])
    if (dtype.kind in "iu" and dtype.itemsize < 4) or dtype.kind == "b":
        product = b.op("MatMul", b.cast(input, np.int32), b.cast(other, np.int32))
        return b.op("Cast", product, to=int(b.tensor(0, dtype).dtype))
    return b.op("MatMul", b.cast(input, dtype), b.cast(other, dtype))


@entry("op:outer")
def outer(b: Builder, node: Node, input: Value, vec2: Value) -> Value:
    """The product of each element of one vector with each of another."""
    return b.op("Mul", b.unsqueeze(input, 1), b.unsqueeze(vec2, 0))


@entry("op:einsum_forward")
def einsum(b: Builder, node: Node, operands: Sequence[Value], equation: str) -> Value:
    """A sum of products, written as an equation."""
    if any(numpy_type(value).kind not in "fi" for value in operands):
        raise Unsupported("einsum of this dtype")
    return b.op("Einsum", *operands, equation=without_ellipsis(equation, operands))


def without_ellipsis(equation: str, operands: Sequence[Value]) -> str:
    """Return an equation with letters for "...": ONNX wants as many axes in all operands."""
    if "..." not in equation:
        return equation
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    letters = [letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in equation]
    terms, widest = [], ""
    for term, value in zip(inputs.split(","), operands, strict=True):
        count = rank(value) - len(term.replace("...", ""))
        axes = "".join(letters[:8][len(letters[:8]) - count :])
        widest = axes if len(axes) > len(widest) else widest
        terms.append(term.replace("...", axes))
    return ",".join(terms) + arrow + output.replace("...", widest)


@entry("op:linear")
def linear(b: Builder, node: Node, input: Value, weight: Value, bias: Value | None = None) -> Value:
    """x Wᵀ + b."""
    if rank(weight) == 1:
        product = b.op("MatMul", input, weight)
        return product if bias is None else b.op("Add", product, bias)
    if rank(input) == 2 and numpy_type(input).kind == "f":
        return b.op("Gemm", input, weight, bias, transB=1)
    product = b.op("MatMul", input, b.op("Transpose", weight, perm=[1, 0]))
    return product if bias is None else b.op("Add", product, bias)
