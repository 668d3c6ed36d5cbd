"""Reductions over axes, and their positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..table import enter, onnx_op
from ..values import (
    Ints,
    Value,
    dtype_of,
    facts,
    ints,
    is_float,
    is_unsigned_storage,
    positive,
    rank_of,
    refuse,
    torch,
)  # fmt: skip

Dims = list[int]
Function = Callable[[Value, Dims, bool], Value]


def reduction(function: Function, noop: Callable[[Value], Value]) -> tuple[Any, Any]:
    """Return the entries of a reduction, with axes as an input, and as an attribute.

    Args:
        noop: what happens to the elements if nothing is reduced.
    """

    def with_input(
        data: Value, axes: Ints = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Value:
        dims = [] if axes is None else ints(axes)
        if not dims and noop_with_empty_axes:
            return noop(data)
        return reduced(function, data, dims, bool(keepdims))

    def with_attribute(
        data: Value, *, axes: Sequence[int] | None = None, keepdims: int = 1
    ) -> Value:
        return reduced(function, data, list(axes or []), bool(keepdims))

    return with_input, with_attribute


def reduced(function: Function, data: Value, dims: Dims, keepdim: bool) -> Value:
    """Return a reduction over some axes, or over all if none are given."""
    if is_unsigned_storage(data):
        refuse("reductions of uint16, uint32 and uint64")
    if not dims:
        dims = list(range(rank_of(data)))
    if not dims:
        return function(data.reshape([1]), [0], False)
    return function(data, dims, keepdim)


def sum_of(data: Value, dims: Dims, keepdim: bool) -> Value:
    """The sum, in the dtype of the elements."""
    if is_float(data):
        return torch.sum(data, dims, keepdim)
    return torch.sum(data, dims, keepdim, dtype=dtype_of(data))


def summed(prepare: Callable[[Value], Value]) -> Function:
    """Return the sum of what a function makes of the elements."""

    def function(data: Value, dims: Dims, keepdim: bool) -> Value:
        if is_float(data):
            return torch.sum(prepare(data), dims, keepdim)
        return torch.sum(prepare(data), dims, keepdim, dtype=dtype_of(data))

    return function


def mean_of(data: Value, dims: Dims, keepdim: bool) -> Value:
    """The mean; of integers, rounded towards 0."""
    if is_float(data):
        return torch.mean(data, dims, keepdim)
    return torch.mean(data.to(torch.float64), dims, keepdim).to(dtype_of(data))


def prod_of(data: Value, dims: Dims, keepdim: bool) -> Value:
    """The product, one axis after the other."""
    rank = rank_of(data)
    for dim in sorted((positive(dim, rank) for dim in dims), reverse=True):
        data = torch.prod(data, dim, keepdim, dtype=None)
    return data


def extreme(name: str, for_float: float, largest_first: bool) -> Function:
    """Return the reduction to the largest or smallest element.

    Args:
        for_float: the result of no elements; of integers it is the end of their range.
    """

    def function(data: Value, dims: Dims, keepdim: bool) -> Value:
        shape = facts(data).shape
        if shape is not None and 0 in shape:
            dtype = dtype_of(data)
            bounds = None if is_float(data) or dtype == torch.bool else torch.iinfo(dtype)
            value = for_float if bounds is None else bounds.min if largest_first else bounds.max
            value = (not largest_first) if dtype == torch.bool else value
            sizes = result_sizes(data, dims, keepdim)
            return torch.full(sizes, value, dtype=dtype)
        return getattr(torch, name)(data, dims, keepdim)

    return function


def result_sizes(data: Value, dims: Dims, keepdim: bool) -> list[Any]:
    """Return the sizes of a reduction of `data`."""
    rank = rank_of(data)
    gone = {positive(dim, rank) for dim in dims}
    return [1 if i in gone else data.shape[i] for i in range(rank) if keepdim or i not in gone]


def norm_of(data: Value, dims: Dims, keepdim: bool) -> Value:
    """The square root of the sum of squares."""
    if is_float(data):
        return torch.sqrt(torch.sum(torch.square(data), dims, keepdim))
    wide = data.to(torch.float64)
    return torch.sqrt(torch.sum(torch.square(wide), dims, keepdim)).to(dtype_of(data))


def log_sum_of(data: Value, dims: Dims, keepdim: bool) -> Value:
    """The logarithm of the sum."""
    return torch.log(sum_of(data, dims, keepdim))


def log_sum_exp_of(data: Value, dims: Dims, keepdim: bool) -> Value:
    """The logarithm of the sum of exponentials, without overflow."""
    shape = facts(data).shape
    if shape is not None and 0 in shape:
        return torch.log(torch.sum(torch.exp(data), dims, keepdim))
    return torch.logsumexp(data, dims, keepdim)


def unchanged(data: Value) -> Value:
    """The elements as they are."""
    return data


REDUCTIONS: dict[str, tuple[Function, Callable[[Value], Value], int]] = {
    "ReduceSum": (sum_of, unchanged, 13),
    "ReduceMean": (mean_of, unchanged, 18),
    "ReduceProd": (prod_of, unchanged, 18),
    "ReduceMax": (extreme("amax", float("-inf"), True), unchanged, 18),
    "ReduceMin": (extreme("amin", float("inf"), False), unchanged, 18),
    "ReduceL1": (summed(torch.abs), torch.abs, 18),
    "ReduceL2": (norm_of, torch.abs, 18),
    "ReduceSumSquare": (summed(torch.square), torch.square, 18),
    "ReduceLogSum": (log_sum_of, torch.log, 18),
    "ReduceLogSumExp": (log_sum_exp_of, unchanged, 18),
}
"""Op → the reduction, what it does to elements that are not reduced, first opset with an input."""

for op_type, (function, noop, first) in REDUCTIONS.items():
    with_input, with_attribute = reduction(function, noop)
    enter(op_type, with_input, first)
    enter(op_type, with_attribute)


@onnx_op("ArgMax")
def arg_max(data: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Value:
    """The position of the largest element along an axis."""
    return position(torch.argmax, data, axis, (keepdims, select_last_index))


@onnx_op("ArgMin")
def arg_min(data: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Value:
    """The position of the smallest element along an axis."""
    return position(torch.argmin, data, axis, (keepdims, select_last_index))


def position(
    function: Callable[..., Value], data: Value, axis: int, options: tuple[int, int]
) -> Value:
    """Return the first or last position of an extreme.

    Args:
        options: keepdims, select_last_index.
    """
    keepdims, last = options
    if not last:
        return function(data, axis, bool(keepdims))
    backwards = function(torch.flip(data, [axis]), axis, bool(keepdims))
    return data.shape[axis] - 1 - backwards
