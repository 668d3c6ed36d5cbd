"""Entries for ops that move, pick and make elements: shapes, indices, sorting, creation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...fx.node import Node
from .builder import Builder, Value, is_value, numpy_type
from .table import Unsupported, entry

LAST = np.iinfo(np.int64).max
"""The end of a range that goes to the end of its axis."""


def rank(value: Value) -> int:
    """Return the number of axes of a value."""
    return len(value.shape)


# Shapes -------------------------------------------------------------------------------------------


@entry("op:reshape", "op:view")
def reshape(b: Builder, node: Node, input: Value, shape: Sequence[Any]) -> Value:
    """The same elements in another shape."""
    return b.reshape(input, shape)


@entry("op:permute")
def permute(b: Builder, node: Node, input: Value, dims: Sequence[int]) -> Value:
    """The axes in another order."""
    return b.op("Transpose", input, perm=[dim % rank(input) for dim in dims])


@entry("op:transpose")
def transpose(b: Builder, node: Node, input: Value, dim0: int, dim1: int) -> Value:
    """Two axes swapped."""
    order = list(range(rank(input)))
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return b.op("Transpose", input, perm=order)


@entry("op:t")
def t(b: Builder, node: Node, input: Value) -> Value:
    """A matrix transposed."""
    return transpose(b, node, input, 0, 1) if rank(input) == 2 else b.op("Identity", input)


@entry("op:unsqueeze")
def unsqueeze(b: Builder, node: Node, input: Value, dim: int) -> Value:
    """A further axis of size 1."""
    return b.unsqueeze(input, dim)


@entry("op:squeeze")
def squeeze(b: Builder, node: Node, input: Value, dim: Any = None) -> Value:
    """Without axes of size 1."""
    dims = range(rank(input)) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = [axis % max(rank(input), 1) for axis in dims]
    ones = [axis for axis in axes if axis < rank(input) and input.shape[axis] == 1]
    return b.squeeze(input, *ones) if ones else b.op("Identity", input)


@entry("op:expand")
def expand(b: Builder, node: Node, input: Value, size: Sequence[Any]) -> Value:
    """Axes of size 1 repeated."""
    sizes = [1 if not is_value(n) and n == -1 else n for n in size]
    return b.op("Expand", input, b.vector(sizes))


@entry("op:repeat")
def repeat(b: Builder, node: Node, input: Value, repeats: Sequence[Any]) -> Value:
    """A tensor repeated along its axes."""
    missing = len(repeats) - rank(input)
    padded = b.unsqueeze(input, *range(missing)) if missing else input
    return b.op("Tile", padded, b.vector(repeats))


@entry("op:cat")
def cat(b: Builder, node: Node, tensors: Sequence[Value], dim: int = 0) -> Value:
    """Tensors joined along an axis; an empty one with a single axis is left out."""
    wide = max(rank(value) for value in tensors)
    used = [value for value in tensors if rank(value) == wide]
    return b.op("Concat", *(b.cast(v, node.meta["dtype"]) for v in used), axis=dim)


@entry("op:stack", "numpy:stack")
def stack(b: Builder, node: Node, tensors: Sequence[Value], dim: int = 0, axis: int = 0) -> Value:
    """Tensors joined along a new axis."""
    axis = dim or axis
    parts = [b.unsqueeze(b.cast(value, node.meta["dtype"]), axis) for value in tensors]
    return b.op("Concat", *parts, axis=axis)


@entry("op:narrow")
def narrow(b: Builder, node: Node, input: Value, dim: int, start: Any, length: Any) -> Value:
    """A range of an axis."""
    if is_value(start):
        start = b.op("Reshape", start, b.const([], np.int64))
    both_numbers = not is_value(start) and not is_value(length)
    if both_numbers:
        end = start + length if start + length or start >= 0 else LAST
    elif not is_value(start) and start == 0:
        end = length
    else:
        end = b.op("Add", b.tensor(start, np.int64), b.tensor(length, np.int64))
    return b.slice(input, dim, start, end)


@entry("op:select")
def select(b: Builder, node: Node, input: Value, dim: int, index: Any) -> Value:
    """One element of an axis."""
    place = b.tensor(index, np.int64) if is_value(index) else b.const(index, np.int64)
    return b.op("Gather", input, place, axis=dim)


@entry("op:flip")
def flip(b: Builder, node: Node, input: Value, dims: Sequence[int]) -> Value:
    """Axes in reverse."""
    axes = [dim % max(rank(input), 1) for dim in ([dims] if isinstance(dims, int) else dims)]
    if not axes:
        return b.op("Identity", input)
    count = len(axes)
    return b.op(
        "Slice", input, b.const([-1] * count, np.int64), b.const([-LAST] * count, np.int64),
        b.const(axes, np.int64), b.const([-1] * count, np.int64),
    )  # fmt: skip


@entry("op:roll")
def roll(b: Builder, node: Node, input: Value, shifts: Any, dims: Any = None) -> Value:
    """Axes shifted around."""
    flat = dims is None or dims == ()
    result = b.op("Reshape", input, b.const([-1], np.int64)) if flat else input
    moves = [shifts] if isinstance(shifts, int) else list(shifts)
    axes = [0] if flat else [dims] if isinstance(dims, int) else list(dims)
    for shift, axis in zip(moves, axes, strict=True):
        is_fixed = isinstance(input.shape[axis], int) or flat
        if is_value(shift) or (not is_fixed and abs(shift) > 1):
            raise Unsupported("roll by more than 1 along a dynamic axis")
        size = math.prod(input.shape) if flat else input.shape[axis]
        step = shift % size if isinstance(size, int) and size else shift
        if step:
            parts = b.slice(result, axis, -step, LAST), b.slice(result, axis, 0, -step)
            result = b.op("Concat", *parts, axis=axis)
    return b.op("Reshape", result, b.shape(input)) if flat else b.op("Identity", result)


@entry("op:tril", "op:triu", "numpy:tril", "numpy:triu")
def triangle(b: Builder, node: Node, input: Value, diagonal: Any = 0, k: Any = 0) -> Value:
    """A triangle of a matrix, zeros elsewhere."""
    upper = 1 if getattr(node.target, "__name__", "") == "triu" else 0
    dtype = numpy_type(input)
    small = (dtype.kind in "bi" and dtype.itemsize < 8) or dtype.kind == "u"
    value = b.cast(input, np.int64) if small else input
    band = b.op("Trilu", value, b.tensor(diagonal or k, np.int64), upper=upper)
    return b.op("Cast", band, to=int(input.dtype)) if small else band


@entry("op:diagonal")
def diagonal(
    b: Builder, node: Node, input: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    """The diagonal of two axes, as the last axis."""
    first, second = dim1 % rank(input), dim2 % rank(input)
    sizes = input.shape[first], input.shape[second]
    if not all(isinstance(size, int) for size in sizes):
        raise Unsupported("the diagonal of dynamic axes")
    rest = [axis for axis in range(rank(input)) if axis not in (first, second)]
    ordered = b.op("Transpose", input, perm=[first, second, *rest])
    rows = np.arange(max(-offset, 0), min(sizes[0], sizes[1] - offset))
    positions = np.stack([rows, rows + offset], -1).astype(np.int64)
    picked = b.op("GatherND", ordered, b.const(positions))
    return b.op("Transpose", picked, perm=[*range(1, rank(input) - 1), 0])


# Indices ------------------------------------------------------------------------------------------


@entry("op:getitem")
def getitem(b: Builder, node: Node, input: Value, index: Any) -> Value:
    """x[index], for numbers, ranges, None, … and tensors."""
    if hasattr(input, "pick"):  # the states of an LSTM
        picked = input.pick(b, index)
        if picked is not None:
            return picked
        input = input.whole(b)
    parts = list(index) if isinstance(index, tuple) else [index]
    parts = with_ellipsis(parts, rank(input))
    tensors = [part for part in parts if is_value(part)]
    result = take_ranges(b, input, [part for part in parts if part is not None])
    kept = [part for part in parts if not is_number(part)]
    new_axes = [position for position, part in enumerate(kept) if part is None]
    if not tensors:
        return b.unsqueeze(result, *new_axes) if new_axes else b.op("Identity", result)
    if new_axes:
        result = b.unsqueeze(result, *new_axes)
    axes = [position for position, part in enumerate(kept) if is_value(part)]
    return take_tensors(b, result, len(kept), axes, tensors)


def is_number(part: Any) -> bool:
    """Return True for a number of Python as an index; a bool is none."""
    return isinstance(part, int | np.integer) and not isinstance(part, bool)


def with_ellipsis(parts: Sequence[Any], axes: int) -> list[Any]:
    """Return the parts of an index, one for each axis, and None for new ones."""
    if any(isinstance(part, bool | list | np.ndarray) for part in parts):
        raise Unsupported("an index with bools or lists")
    used = sum(part is not None and part is not ... for part in parts)
    fill = [slice(None)] * (axes - used)
    place = next((i for i, part in enumerate(parts) if part is ...), len(parts))
    return [*parts[:place], *fill, *parts[place + 1 :]]


def take_ranges(b: Builder, input: Value, parts: Sequence[Any]) -> Value:
    """Apply the ranges and numbers of an index."""
    result = input
    for axis, part in enumerate(parts):
        if isinstance(part, slice) and (part.start, part.stop, part.step) != (None, None, None):
            start, end = part.start or 0, LAST if part.stop is None else part.stop
            result = b.slice(result, axis, start, end, part.step or 1)
    for axis in range(len(parts) - 1, -1, -1):
        if is_number(parts[axis]):
            result = b.op("Gather", result, b.const(int(parts[axis]), np.int64), axis=axis)
    return result


def take_tensors(
    b: Builder, value: Value, axes: int, indexed: Sequence[int], tensors: Sequence[Value]
) -> Value:
    """Apply the tensors of an index to these axes."""
    if any(numpy_type(tensor).kind == "b" for tensor in tensors):
        raise Unsupported("x[mask], whose size depends on data")
    wide = [b.cast(tensor, np.int64) for tensor in tensors]
    if len(tensors) == 1:
        return b.op("Gather", value, wide[0], axis=indexed[0])
    adjacent = list(indexed) == list(range(indexed[0], indexed[-1] + 1))
    rest = [axis for axis in range(axes) if axis not in indexed]
    ordered = b.op("Transpose", value, perm=[*indexed, *rest])
    count = max(rank(tensor) for tensor in tensors)
    shape = b.shape(wide[0])
    for tensor in wide[1:]:  # the indices broadcast
        product = b.op(
            "Add",
            b.op("Expand", b.const(0, np.int64), shape),
            b.op("Mul", tensor, b.const(0, np.int64)),
        )
        shape = b.shape(product)
    spread = [b.unsqueeze(b.op("Expand", tensor, shape), -1) for tensor in wide]
    picked = b.op("GatherND", ordered, b.op("Concat", *spread, axis=-1))
    if not adjacent or indexed[0] == 0:
        return picked
    front = list(range(count, count + indexed[0]))
    back = list(range(count + indexed[0], count + len(rest)))
    return b.op("Transpose", picked, perm=[*front, *range(count), *back])


@entry("op:index_select", "op:embedding_rows")
def index_select(
    b: Builder, node: Node, input: Value, index: Value = None, dim: int = 0, **settings: Any
) -> Value:
    """Elements of an axis by their numbers."""
    index, value = settings.get("index", index), settings.get("weight", input)
    numeral = b.cast(index, np.int64)
    if rank(value) == 0:
        value, dim = b.unsqueeze(value, 0), 0
    elif "weight" not in settings and rank(index) == 0:  # it keeps its axis
        numeral = b.unsqueeze(numeral, 0)
    picked = b.op("Gather", value, numeral, axis=dim)
    return picked if len(node.meta["shape"]) else b.op("Reshape", picked, b.const([], np.int64))


@entry("op:gather", "numpy:take_along_axis")
def gather(b: Builder, node: Node, input: Value, dim: Any, index: Any, **settings: Any) -> Value:
    """An element for each number, along an axis."""
    if is_value(dim):  # NumPy's order of the arguments
        dim, index = index, dim
    wide = b.cast(index, np.int64)
    if rank(input) and rank(index):
        return b.op("GatherElements", input, wide, axis=int(dim))
    values = input if rank(input) else b.unsqueeze(input, 0)
    return b.op("Gather", values, wide, axis=0)


@entry("op:scatter")
def scatter(
    b: Builder, node: Node, input: Value, dim: int, index: Value, src: Any = None,
    value: Any = None,
) -> Value:  # fmt: skip
    """Elements written along an axis."""
    return scattered(b, node, input, dim, index, src if value is None else value, "none")


@entry("op:scatter_add")
def scatter_add(b: Builder, node: Node, input: Value, dim: int, index: Value, src: Value) -> Value:
    """Elements added along an axis."""
    return scattered(b, node, input, dim, index, src, "add")


def scattered(
    b: Builder, node: Node, input: Value, dim: int, index: Value, src: Any, reduction: str
) -> Value:
    """Add the node of a scatter."""
    wide = b.cast(index, np.int64)
    if rank(input) == 0:
        parts = [
            b.unsqueeze(v, 0) if is_value(v) and not rank(v) else v for v in (input, wide, src)
        ]
        written = scattered(b, node, parts[0], 0, parts[1], parts[2], reduction)
        return b.op("Reshape", written, b.const([], np.int64))
    if not rank(index):
        wide = index = b.unsqueeze(wide, 0)
    if is_value(src) and not rank(src):
        src = b.unsqueeze(src, 0)
    if is_value(src) and rank(src) == rank(index):
        ends = b.op("Shape", wide)
        source = b.op("Slice", src, b.const([0] * rank(index), np.int64), ends)
    else:
        source = b.op("Expand", b.tensor(src, node.meta["dtype"]), b.shape(wide))
    source = b.cast(source, node.meta["dtype"]) if source.dtype is not None else source
    return b.op("ScatterElements", input, wide, source, axis=dim, reduction=reduction)


@entry("op:setitem")
def setitem(b: Builder, node: Node, input: Value, value: Any, index: Any) -> Value:
    """Elements replaced."""
    return set_item(b, node, input, index, value)


@entry("program:set_item")
def set_item(b: Builder, node: Node, input: Value, index: Any, values: Any) -> Value:
    """Elements replaced: the positions of all elements are indexed as x is, and scattered to."""
    if is_mask(index) and (not is_value(values) or rank(values) == 0):
        return b.op(
            "Where", mask_like(b, input, index), b.tensor(values, node.meta["dtype"]), input
        )
    if not is_static(input):
        return set_range(b, node, input, index, values)
    positions = getitem(b, node, flat_positions(b, input), index)
    source = b.op("Expand", b.tensor(values, node.meta["dtype"]), b.shape(positions))
    flat = [b.op("Reshape", v, b.const([-1], np.int64)) for v in (input, positions, source)]
    written = b.op("ScatterElements", *flat, axis=0)
    return b.op("Reshape", written, b.shape(input))


def is_mask(index: Any) -> bool:
    """Return True for an index that is one tensor of bools."""
    (mask,) = index if isinstance(index, tuple) and len(index) == 1 else (index,)
    return is_value(mask) and numpy_type(mask).kind == "b"


def mask_like(b: Builder, input: Value, index: Any) -> Value:
    """Return a mask with as many axes as the input: those that it lacks follow."""
    mask = index[0] if isinstance(index, tuple) else index
    missing = range(rank(mask), rank(input))
    return b.unsqueeze(mask, *missing) if missing else mask


def is_static(value: Value) -> bool:
    """Return True if every size of a value is known."""
    return all(isinstance(size, int) for size in value.shape)


def flat_positions(b: Builder, value: Value) -> Value:
    """Return the position of each element of a value with known sizes, in row-major order."""
    shape = [int(size) for size in value.shape]
    return b.const(np.arange(math.prod(shape), dtype=np.int64).reshape(shape))


def set_range(b: Builder, node: Node, input: Value, index: Any, value: Any) -> Value:
    """Replace a range or one element of a single axis of a tensor with dynamic axes."""
    parts = with_ellipsis(list(index) if isinstance(index, tuple) else [index], rank(input))
    axes = [axis for axis, part in enumerate(parts) if part != slice(None)]
    if len(axes) != 1 or any(part is None or is_value(part) for part in parts):
        raise Unsupported("a write at several axes of a tensor with dynamic sizes")
    (axis,) = axes
    part, dtype = parts[axis], node.meta["dtype"]
    if is_number(part):
        part = slice(part, part + 1 if part != -1 else None)
        value = b.unsqueeze(value, axis) if is_value(value) and rank(value) > axis else value
    if part.step not in (None, 1):
        raise Unsupported("a write at every other element of a tensor with dynamic sizes")
    start, end = part.start or 0, LAST if part.stop is None else part.stop
    target = b.slice(input, axis, start, end)
    middle = b.op("Expand", b.tensor(value, dtype), b.shape(target))
    pieces = [b.slice(input, axis, 0, start), middle]
    pieces += [] if end == LAST else [b.slice(input, axis, end, LAST)]
    return b.op("Concat", *pieces, axis=axis)


@entry("program:fill_like")
def fill_like(b: Builder, node: Node, input: Value, values: Any) -> Value:
    """Values in the shape and dtype of a tensor."""
    return b.op("Expand", b.tensor(values, node.meta["dtype"]), b.shape(input))


# Creation -----------------------------------------------------------------------------------------


def flat_sizes(size: Sequence[Any]) -> Sequence[Any]:
    """Return sizes that are passed as several numbers or as one sequence."""
    return size[0] if len(size) == 1 and isinstance(size[0], tuple | list) else size


@entry("new:zeros", "new:ones", "new:empty")
def filled(b: Builder, node: Node, *size: Any, dtype: Any, **settings: Any) -> Value:
    """A tensor of zeros or ones."""
    value = 1 if getattr(node.target, "__name__", "") == "ones" else 0
    return full(b, node, flat_sizes(size), value, dtype=dtype)


@entry("new:full")
def full(b: Builder, node: Node, size: Sequence[Any], fill_value: Any, *, dtype: Any) -> Value:
    """A tensor full of one number."""
    return b.op("Expand", b.tensor(fill_value, dtype.numpy), b.vector(size))


@entry("new:arange")
def arange(
    b: Builder, node: Node, start: Any = 0, end: Any = None, step: Any = 1, *, dtype: Any
) -> Value:
    """Numbers in equal steps."""
    if end is None:
        start, end = 0, start
    target = np.dtype(dtype.numpy)
    wide = target if target in (np.int64, np.float32, np.float64) else np.dtype(np.int64)
    steps = b.op("Range", *(b.tensor(bound, wide) for bound in (start, end, step)))
    return steps if wide == target else b.cast(steps, target)


@entry("new:eye")
def eye(b: Builder, node: Node, n: Any, m: Any = None, *, dtype: Any) -> Value:
    """The identity matrix."""
    rows = b.unsqueeze(b.op("Range", *(b.tensor(x, np.int64) for x in (0, n, 1))), 1)
    columns = b.op("Range", *(b.tensor(x, np.int64) for x in (0, n if m is None else m, 1)))
    return b.op("Cast", b.op("Equal", rows, columns), to=int(b.tensor(0, dtype.numpy).dtype))


# Sizes --------------------------------------------------------------------------------------------


@entry("program:sym_size")
def sym_size(b: Builder, node: Node, input: Value, dim: int) -> Value:
    """The size of an axis."""
    return b.size(input, dim)


SIZE_ARITHMETIC = {"add": "Add", "sub": "Sub", "mul": "Mul", "floordiv": "Div", "pow": "Pow"}


def register_arithmetic(name: str, op_type: str) -> None:
    """Add the entry of Python's arithmetic on sizes."""

    @entry(f"python:{name}")
    def arithmetic(b: Builder, node: Node, first: Any, second: Any) -> Value:
        floating = any(isinstance(v, float) or is_floating(v) for v in (first, second))
        dtype = np.float64 if floating else np.int64
        result = b.op(op_type, b.tensor(first, dtype), b.tensor(second, dtype))
        return b.like(result, dtype, [])


def is_floating(value: Any) -> bool:
    """Return True for a value of floats."""
    return is_value(value) and value.dtype is not None and numpy_type(value).kind == "f"


for _name, _op_type in SIZE_ARITHMETIC.items():
    register_arithmetic(_name, _op_type)


@entry("python:truediv")
def true_division(b: Builder, node: Node, first: Any, second: Any) -> Value:
    """A quotient of sizes, in double precision."""
    result = b.op("Div", b.tensor(first, np.float64), b.tensor(second, np.float64))
    return b.like(result, np.float64, [])
