"""Entries for ops that put elements in order: sorting, medians, modes, running extremes."""

from __future__ import annotations

import math

import numpy as np

from ...fx.node import Node
from .builder import Builder, Value, numpy_type
from .elementwise import number
from .movement import rank
from .table import Unsupported, entry

LARGEST_TRIANGLE = 512
"""The longest axis over which every element is compared with every other."""


@entry("op:sort_forward")
def sort(
    b: Builder, node: Node, input: Value, dim: int = -1, descending: bool = False,
    stable: bool = True,
) -> tuple[Value, Value]:  # fmt: skip
    """The values along an axis in order, and where they were."""
    if rank(input) == 0:
        return b.op("Identity", input), b.const(0, np.int64)
    size = b.op("Shape", input, start=dim, end=dim + 1 if dim != -1 else None)
    return b.op("TopK", input, size, outputs=2, axis=dim, largest=int(descending))


@entry("op:minmax_dim")
def minmax(
    b: Builder, node: Node, input: Value, dim: int, keepdim: bool, largest: bool
) -> tuple[Value, Value]:
    """The largest or smallest element along an axis, and where it is."""
    if rank(input) == 0:
        return b.op("Identity", input), b.const(0, np.int64)
    op_type = "ArgMax" if largest else "ArgMin"
    place = b.op(op_type, input, axis=dim, keepdims=1)
    value = b.op("GatherElements", input, place, axis=dim)
    if keepdim:
        return value, place
    return b.squeeze(value, dim), b.squeeze(place, dim)


@entry("op:median_forward")
def median(b: Builder, node: Node, input: Value, skips_nan: bool) -> Value:
    """The median of all elements; NaNs count as the largest."""
    if 0 in input.shape:
        raise Unsupported("the median of nothing")
    flat = b.op("Reshape", input, b.const([-1], np.int64))
    count = b.op("Size", flat)
    if numpy_type(input).kind != "f":
        return middle(b, flat, count, count)
    is_nan = b.op("IsNaN", flat)
    valid = b.op("Sub", count, b.op("ReduceSum", b.cast(is_nan, np.int64), keepdims=0))
    filled = b.op("Where", is_nan, number(b, node, math.inf), flat)
    fewest = b.op("Min", valid, b.const(1, np.int64)) if skips_nan else count
    needed = b.op("Less", valid, b.op("Max", fewest, b.const(1, np.int64)))
    return b.op("Where", needed, number(b, node, math.nan), middle(b, filled, count, valid))


def middle(b: Builder, flat: Value, count: Value, valid: Value) -> Value:
    """Return the lower of the middle elements of the first `valid` in order."""
    size = b.op("Reshape", count, b.const([1], np.int64))
    ordered, _ = b.op("TopK", flat, size, outputs=2, axis=0, largest=0)
    last = b.op("Max", b.op("Sub", valid, b.const(1, np.int64)), b.const(0, np.int64))
    return b.op("Gather", ordered, b.op("Div", last, b.const(2, np.int64)), axis=0)


@entry("op:mode_dim")
def mode(b: Builder, node: Node, input: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    """The most frequent value of an axis: every element is compared with every other."""
    if rank(input) == 0:
        return b.op("Identity", input), b.const(0, np.int64)
    dtype = numpy_type(input)
    rows, order = last_axis(b, input, dim)
    pairs = b.op("Equal", b.unsqueeze(rows, -1), b.op("Unsqueeze", rows, b.const([-2], np.int64)))
    last, keeps = b.const([-1], np.int64), {"keepdims": 1}
    counts = b.op("ReduceSum", b.op("Cast", pairs, to=int(b.const(0).dtype)), last, keepdims=0)
    frequent = b.op("Equal", counts, b.op("ReduceMax", counts, last, **keeps))
    largest = math.inf if dtype.kind == "f" else np.iinfo(dtype).max
    value = b.op("ReduceMin", b.op("Where", frequent, rows, b.const(largest, dtype)), last, **keeps)
    hits = b.cast(b.op("Equal", rows, value), np.int32)
    place = b.op("ArgMax", hits, axis=-1, select_last_index=1)
    back = np.argsort(order).tolist()
    results = (b.op("Transpose", part, perm=back) for part in (value, place))
    first, second = results if keepdim else (b.squeeze(part, dim) for part in results)
    return first, second


def last_axis(b: Builder, input: Value, dim: int) -> tuple[Value, list[int]]:
    """Return a value with an axis moved to the end, and the order of its axes."""
    axis = dim % rank(input)
    order = [*(other for other in range(rank(input)) if other != axis), axis]
    rows = b.op("Transpose", input, perm=order)
    shape = [input.shape[axis] for axis in order]
    return b.like(rows, numpy_type(input), shape), order


@entry("op:cum_minmax")
def running_extreme(
    b: Builder, node: Node, input: Value, dim: int, largest: bool
) -> tuple[Value, Value]:
    """The extreme up to each element, and where it last was: that of what a triangle leaves."""
    dtype = numpy_type(input)
    if rank(input) == 0:
        return b.op("Identity", input), b.const(0, np.int64)
    size = input.shape[dim]
    if not isinstance(size, int) or size > LARGEST_TRIANGLE:
        raise Unsupported(f"running extremes over more than {LARGEST_TRIANGLE} elements")
    if 0 in input.shape:
        return b.op("Identity", input), b.cast(input, np.int64)
    moved, order = last_axis(b, input, dim)
    rows = b.op("Unsqueeze", moved, b.const([-2], np.int64))
    triangle = b.const(np.tri(size, dtype=np.bool_))
    sign = -1 if largest else 1
    bounds = np.iinfo(dtype) if dtype.kind != "f" else None
    worst = sign * math.inf if bounds is None else bounds.min if largest else bounds.max
    fill, last = b.const(worst, dtype), b.const([-1], np.int64)
    is_nan = b.op("IsNaN", rows) if bounds is None else None
    clean = rows if is_nan is None else b.op("Where", is_nan, fill, rows)
    kept = b.op("Where", triangle, clean, fill)
    value = b.op("ReduceMax" if largest else "ReduceMin", kept, last, keepdims=1)
    hits = b.op("And", triangle, b.op("Equal", kept, value))
    if is_nan is not None:  # a NaN is more extreme than all others
        nans = b.op("And", triangle, is_nan)
        has_nan = b.cast(b.op("ReduceMax", b.cast(nans, np.int32), last, keepdims=1), np.bool_)
        hits = b.op("Or", nans, b.op("And", b.op("Not", has_nan), hits))
        value = b.op("Where", has_nan, b.const(math.nan, dtype), value)
    place = b.op("ArgMax", b.cast(hits, np.int32), axis=-1, select_last_index=1, keepdims=0)
    back = np.argsort(order).tolist()
    element = b.op("Transpose", b.op("Squeeze", value, last), perm=back)
    return element, b.op("Transpose", place, perm=back)
