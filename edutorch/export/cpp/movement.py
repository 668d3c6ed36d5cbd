"""Entries for ops that move, pick and make elements: shapes, indices, creation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...fx.node import Node
from .elementwise import converted
from .table import Unsupported, entry
from .values import Scalar, Value, cpp_type, literal, operand, rank_of, sizes

# Sizes --------------------------------------------------------------------------------------------


@entry("program:sym_size")
def sym_size(node: Node, input: Value, dim: int) -> Scalar:
    """The size of an axis."""
    return Scalar(f"{input}.size({dim})")


def register_arithmetic(name: str, sign: str) -> None:
    """Add the entry of an operator of Python on sizes."""

    @entry(f"python:{name}")
    def arithmetic(node: Node, first: Any, second: Any) -> Scalar:
        if name == "truediv":
            return Scalar(f"static_cast<double>({first}) / static_cast<double>({second})")
        if name == "pow":
            return Scalar(f"std::pow(static_cast<double>({first}), {second})")
        if name == "floordiv":
            return Scalar(f"edu::quotient({first}, {second})")
        if isinstance(first, float) or isinstance(second, float):
            first, second = (
                f"static_cast<double>({n})" if isinstance(n, Scalar) else n for n in (first, second)
            )
        return Scalar(f"{first} {sign} {second}")


for _name, _sign in (("add", "+"), ("sub", "-"), ("mul", "*"), ("truediv", "/"),
                     ("floordiv", "/"), ("pow", "^")):  # fmt: skip
    register_arithmetic(_name, _sign)


# Shapes -------------------------------------------------------------------------------------------


@entry("op:reshape", "op:view", "numpy:reshape")
def reshape(node: Node, input: Value, shape: Any, *settings: Any, **named: Any) -> str:
    """The same elements in another shape."""
    return f"edu::reshape({input}, {sizes(shape)})"


@entry("op:permute")
def permute(node: Node, input: Value, dims: Sequence[int]) -> str:
    """The axes in another order."""
    return f"edu::permute({input}, {sizes(dims)})"


@entry("op:transpose", "numpy:swapaxes")
def transpose(node: Node, input: Value, dim0: int, dim1: int) -> str:
    """Two axes swapped."""
    return f"edu::transpose({input}, {dim0}, {dim1})"


@entry("op:t")
def t(node: Node, input: Value) -> str:
    """A matrix transposed."""
    return f"edu::transpose({input}, 0, 1)" if rank_of(input) == 2 else input.text


@entry("op:unsqueeze", "numpy:expand_dims")
def unsqueeze(node: Node, input: Value, dim: int = 0, axis: int = 0) -> str:
    """A further axis of size 1."""
    return f"edu::unsqueeze({input}, {dim or axis})"


@entry("op:squeeze", "numpy:squeeze")
def squeeze(node: Node, input: Value, dim: Any = None, axis: Any = None) -> str:
    """Without axes of size 1: the sizes of the others are kept."""
    dim = axis if dim is None else dim
    dims = range(rank_of(input)) if dim is None else [dim] if isinstance(dim, int) else dim
    gone = {axis % max(rank_of(input), 1) for axis in dims}
    kept = [
        axis for axis, size in enumerate(input.shape) if axis not in gone or size != 1
    ]  # fmt: skip
    return f"edu::reshape({input}, {{{', '.join(f'{input}.size({axis})' for axis in kept)}}})"


@entry("op:expand", "numpy:broadcast_to")
def expand(node: Node, input: Any, size: Any = None, shape: Any = None) -> str:
    """Axes of size 1 repeated."""
    size = shape if size is None else size
    if not isinstance(input, Value):
        return full_of(node, size, input)
    return f"edu::expand({input}, {sizes(size)})"


@entry("op:repeat", "numpy:tile")
def repeat(node: Node, input: Value, repeats: Sequence[Any]) -> str:
    """A tensor repeated along its axes."""
    return f"edu::repeat({input}, {sizes(repeats)})"


@entry("op:cat", "numpy:concatenate")
def cat(node: Node, tensors: Sequence[Value], dim: int = 0, axis: int = 0) -> str:
    """Tensors joined along an axis; an empty one with a single axis is left out."""
    wide = max(rank_of(value) for value in tensors)
    used = [value for value in tensors if rank_of(value) == wide]
    return joined("cat", node, used, dim or axis)


@entry("op:stack", "numpy:stack")
def stack(node: Node, tensors: Sequence[Value], dim: int = 0, axis: int = 0) -> str:
    """Tensors joined along a new axis."""
    return joined("stack", node, tensors, dim or axis)


def joined(name: str, node: Node, tensors: Sequence[Value], dim: int) -> str:
    """Return the call of `cat` or `stack`."""
    parts = ", ".join(converted(value, node.meta["dtype"]) for value in tensors)
    return f"edu::{name}<{cpp_type(node.meta['dtype'])}>({{{parts}}}, {dim})"


@entry("op:narrow")
def narrow(node: Node, input: Value, dim: int, start: Any, length: Any) -> str:
    """A range of an axis."""
    return f"edu::narrow({input}, {dim}, {start}, {length})"


@entry("op:select")
def select(node: Node, input: Value, dim: int, index: Any) -> str:
    """One element of an axis."""
    return f"edu::select({input}, {dim}, {index})"


@entry("op:flip")
def flip(node: Node, input: Value, dims: Any) -> str:
    """Axes in reverse."""
    text = input.text
    for dim in [dims] if isinstance(dims, int) else dims:
        text = f"edu::flip({text}, {dim})"
    return text


@entry("op:tril", "op:triu", "numpy:tril", "numpy:triu")
def triangle(node: Node, input: Value, diagonal: Any = 0, k: Any = 0) -> str:
    """A triangle of a matrix, zeros elsewhere."""
    is_upper = getattr(node.target, "__name__", "") == "triu"
    return f"edu::triangle({input}, {diagonal or k}, {'true' if is_upper else 'false'})"


@entry("op:constant_pad")
def constant_pad(node: Node, input: Value, pads: Sequence[Any], value: float) -> str:
    """A border of one number; negative pads cut."""
    before, after = (sizes([pair[side] for pair in pads]) for side in (0, 1))
    number = literal(value, node.meta["dtype"])
    return f"edu::constant_pad({input}, {before}, {after}, {number})"


@entry("program:read_region")
def read_region(
    node: Node, input: Value, order: Sequence[int], offset: int, shape: Any, strides: Any
) -> str:
    """A strided view of memory."""
    ordered = input.text
    if list(order) != list(range(len(order))):
        ordered = f"edu::permute({input}, {sizes(order)})"
    return f"edu::strided({ordered}, {offset}, {sizes(shape)}, {sizes(strides)})"


# Indices ------------------------------------------------------------------------------------------


@entry("op:getitem")
def getitem(node: Node, input: Value, index: Any) -> str:
    """x[index], for numbers, ranges, None, … and one tensor of integers."""
    parts = list(index) if isinstance(index, tuple) else [index]
    if any(isinstance(part, bool | list | np.ndarray) for part in parts):
        raise Unsupported("an index with bools or lists")
    used = sum(part is not None and part is not ... for part in parts)
    place = next((i for i, part in enumerate(parts) if part is ...), len(parts))
    parts = [*parts[:place], *[slice(None)] * (rank_of(input) - used), *parts[place + 1 :]]
    if sum(isinstance(part, Value) for part in parts) > 1:
        raise Unsupported("an index with several tensors")
    text, axis = input.text, 0
    for part in parts:
        text, axis = take_part(text, axis, part)
    return text


def take_part(text: str, axis: int, part: Any) -> tuple[str, int]:
    """Apply one part of an index at an axis; return the expression, and the next axis."""
    if part is None:
        return f"edu::unsqueeze({text}, {axis})", axis + 1
    if isinstance(part, Value):
        if part.dtype.kind == "b":
            raise Unsupported("x[mask], whose size depends on data")
        return f"edu::index_select({text}, {axis}, {part})", axis + rank_of(part)
    if not isinstance(part, slice):
        return f"edu::select({text}, {axis}, {part})", axis
    if (part.start, part.stop, part.step) == (None, None, None):
        return text, axis + 1
    end = "std::numeric_limits<Index>::max()" if part.stop is None else part.stop
    start, step = part.start or 0, part.step or 1
    if isinstance(step, int) and step < 0:
        raise Unsupported("a range with a negative step")
    return f"edu::slice({text}, {axis}, {start}, {end}, {step})", axis + 1


@entry("python:getitem")
def pick(node: Node, values: Any, index: int) -> str:
    """One of several results."""
    return f"std::get<{index}>({values})"


@entry("op:index_select")
def index_select(node: Node, input: Value, dim: int, index: Value) -> str:
    """Elements of an axis by their numbers."""
    if rank_of(input) == 0 or rank_of(index) == 0:
        raise Unsupported("an index without an axis")
    return f"edu::index_select({input}, {dim}, {index})"


@entry("op:embedding_rows")
def embedding_rows(node: Node, weight: Value, index: Value, padding_idx: int | None = None) -> str:
    """Rows of a matrix by their numbers."""
    return f"edu::index_select({weight}, 0, {index})"


@entry("op:gather")
def gather(node: Node, input: Value, dim: int, index: Value, **settings: Any) -> str:
    """An element for each number, along an axis."""
    if rank_of(input) == 0 or rank_of(index) == 0:
        raise Unsupported("a tensor without an axis")
    return f"edu::gather({input}, {dim}, {index})"


# Creation -----------------------------------------------------------------------------------------


def full_of(node: Node, shape: Any, value: Any) -> str:
    """Return a tensor of one number."""
    dtype = node.meta["dtype"]
    return f"edu::full<{cpp_type(dtype)}>({sizes(shape)}, {operand(value, dtype)})"


@entry("new:zeros", "numpy:zeros", "new:ones", "numpy:ones")
def zeros_or_ones(node: Node, *size: Any, **settings: Any) -> str:
    """Zeros, or ones."""
    shape = size[0] if len(size) == 1 and isinstance(size[0], tuple | list) else size
    if getattr(node.target, "__module__", "").startswith("numpy"):
        shape = size[0]
    return full_of(node, shape, getattr(node.target, "__name__", "") == "ones")


@entry("new:full", "numpy:full")
def full(node: Node, shape: Any, fill_value: Any, *dtype: Any, **settings: Any) -> str:
    """One number everywhere."""
    return full_of(node, shape, fill_value)


@entry("numpy:zeros_like", "numpy:ones_like", "numpy:full_like", "program:fill_like")
def full_like(node: Node, input: Value, fill_value: Any = None, **settings: Any) -> str:
    """One number in the shape of another tensor."""
    name = getattr(node.target, "__name__", "")
    value = {"zeros_like": 0, "ones_like": 1}.get(name, fill_value)
    if isinstance(value, Value):
        text = converted(value, node.meta["dtype"])
        return f"edu::expand({text}, {input}.shape)"
    dtype = node.meta["dtype"]
    return f"edu::full<{cpp_type(dtype)}>({input}.shape, {operand(value, dtype)})"


@entry("new:arange", "numpy:arange")
def arange(node: Node, *ends: Any, **settings: Any) -> str:
    """Numbers in equal steps."""
    start, end, step = {1: (0, *ends, 1), 2: (*ends, 1), 3: ends}[len(ends)]
    counts = "double" if any(isinstance(n, float) for n in (start, end, step)) else "Index"
    return f"edu::arange<{cpp_type(node.meta['dtype'])}, {counts}>({start}, {end}, {step})"
