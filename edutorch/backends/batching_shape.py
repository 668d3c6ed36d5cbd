"""Batching rules for shapes, indexing and new arrays.

See `batching_rules.py` for what a rule is.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .batching_rules import (
    Axes,
    Sizes,
    Values,
    as_tuple,
    axes_inside,
    rule,
    run_per_example,
    unwrap,
)
from .numpy import Array

if TYPE_CHECKING:
    from .batching import BatchedBackend

# Shapes ---------------------------------------------------------------------------------


@rule("reshape")
def reshape(
    level: BatchedBackend, name: str, array: Array, shape: Sizes, order: str = "C", **_: Any
) -> Any:
    """The elements of each example in another shape."""
    if order != "C":
        return run_per_example(level, name, array, shape, order=order)
    values = level.inside(array)
    sizes = [operator.index(size) for size in as_tuple(shape)]
    have, known = math.prod(values.shape[1:]), math.prod(size for size in sizes if size != -1)
    if -1 in sizes and known:
        sizes[sizes.index(-1)] = have // known
    if math.prod(sizes) != have or -1 in sizes:
        raise ValueError(f"cannot reshape array of size {have} into shape {tuple(sizes)}")
    return level.wrap(values.reshape((values.shape[0], *sizes)))


@rule("ravel")
def ravel(level: BatchedBackend, name: str, array: Array, *_: Any) -> Any:
    """The elements of each example as one axis."""
    return reshape(level, name, array, (math.prod(level.inside(array).shape[1:]),))


@rule("transpose")
def transpose(
    level: BatchedBackend, name: str, array: Array, axes: Sequence[int] | None = None
) -> Any:
    """The axes in another order."""
    values, ndim, _ = unwrap(level, array)
    if axes is not None and len(axes) != ndim:
        raise ValueError("axes don't match array")
    order = tuple(range(ndim, 0, -1)) if axes is None else axes_inside(axes, ndim)
    return level.wrap(values.transpose((0, *order)))


@rule("swapaxes", "moveaxis")
def move_axes(level: BatchedBackend, name: str, array: Array, first: Sizes, second: Sizes) -> Any:
    """Swap or move axes."""
    values, ndim, find = unwrap(level, array)
    pairs = [as_tuple(axes) for axes in (first, second)]
    inner_axes = [axes_inside(pair, ndim) for pair in pairs]
    if name == "swapaxes":
        return level.wrap(values.swapaxes(inner_axes[0][0], inner_axes[1][0]))
    return level.wrap(find(name)(values, *inner_axes))


@rule("expand_dims")
def expand_dims(level: BatchedBackend, name: str, array: Array, axis: Sizes) -> Any:
    """New axes of size 1."""
    values, ndim, find = unwrap(level, array)
    axes = as_tuple(axis)
    return level.wrap(find(name)(values, axes_inside(axes, ndim + len(axes))))


@rule("squeeze")
def squeeze(level: BatchedBackend, name: str, array: Array, axis: Axes = None) -> Any:
    """Axes of size 1 removed."""
    values, ndim, find = unwrap(level, array)
    if axis is None:
        axes = tuple(i + 1 for i, size in enumerate(values.shape[1:]) if size == 1)
    else:
        axes = axes_inside(as_tuple(axis), ndim)
    return level.wrap(find(name)(values, axis=axes) if axes else values)


@rule("broadcast_to")
def broadcast_to(level: BatchedBackend, name: str, array: Array, shape: Sequence[int]) -> Any:
    """Axes of size 1 expanded."""
    return level.broadcast_to(level.wrap(level.inside(array)), tuple(shape))


@rule("broadcast_arrays")
def broadcast_arrays(level: BatchedBackend, name: str, *arrays: Any) -> Any:
    """All broadcast to one shape."""
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    return tuple(broadcast_to(level, name, array, shape) for array in arrays)


@rule("concatenate", "stack")
def join_arrays(
    level: BatchedBackend, name: str, arrays: Sequence[Any], axis: int | None = 0, **settings: Any
) -> Any:
    """Several arrays concatenated, or stacked along a new axis."""
    values = [level.inside(array) for array in arrays]
    if len({value.shape[0] for value in values}) > 1:
        values = [level.full(value) for value in values]
    ndim = values[0].ndim - 1 + (name == "stack")
    (axis,) = axes_inside((operator.index(axis or 0),), ndim)
    backend = level.highest(values)
    values = [value if backend.level == 0 else backend.lift(value) for value in values]
    return level.wrap(operator.attrgetter(name)(backend.xp)(values, axis=axis, **settings))


@rule("tile")
def tile(level: BatchedBackend, name: str, array: Array, reps: Sizes) -> Any:
    """Each example repeated."""
    reps = as_tuple(reps)
    values = Values(level, [array], len(reps))
    reps = (1,) * (values.ndim - len(reps)) + reps
    return level.wrap(values.find(name)(values.arrays[0], (1, *reps)))


@rule("atleast_1d")
def atleast_1d(level: BatchedBackend, name: str, array: Array) -> Any:
    """A 0-d array becomes 1-d."""
    return level.wrap(Values(level, [array], 1).arrays[0])


@rule("diagonal")
def diagonal(
    level: BatchedBackend, name: str, array: Array, offset: int = 0, axis1: int = 0, axis2: int = 1
) -> Any:
    """The diagonal of two axes."""
    return level.diagonal(level.wrap(level.inside(array)), offset, axis1, axis2)


# Indexing, creation, properties ---------------------------------------------------------


@rule("take")
def take(
    level: BatchedBackend, name: str, array: Array, indices: Array | int, axis: int | None = None
) -> Any:
    """Slices along an axis."""
    array = level.lift(array) if not hasattr(array, "backend") else array
    if axis is None:
        return ravel(level, name, array)[indices]
    return array[(slice(None),) * (axis % array.ndim) + (indices,)]


@rule("take_along_axis")
def take_along_axis(
    level: BatchedBackend, name: str, array: Array, indices: Array, axis: int
) -> Any:
    """One element per entry of `indices`, along an axis."""
    values = Values(level, [array, indices])
    a, index = (level.full(array) for array in values.arrays)
    return level.wrap(values.find(name)(a, index, axis=axes_inside((axis,), values.ndim)[0]))


@rule("searchsorted", "isin")
def look_up(
    level: BatchedBackend, name: str, first: Array, second: Array, *args: Any, **settings: Any
) -> Any:
    """Insertion positions or membership, in one array that all examples share."""
    table, wanted = (first, second) if name == "searchsorted" else (second, first)
    row = level.inside(level.lift(table))
    if row.shape[0] > 1 or any(
        hasattr(argument, "backend") for argument in (*args, *settings.values())
    ):
        return run_per_example(level, name, first, second, *args, **settings)
    values = level.inside(level.lift(wanted))
    pair = [row[0, ...], values.reshape(values.size)]
    find = operator.attrgetter(name)(level.highest(pair).xp)
    positions = find(*(pair if name == "searchsorted" else pair[::-1]), *args, **settings)
    return level.wrap(positions.reshape(values.shape))


@rule("zeros", "ones", "empty", "full")
def new_array(level: BatchedBackend, name: str, shape: Sizes, *args: Any, **settings: Any) -> Any:
    """A new array with memory for each example."""
    sizes = as_tuple(shape)
    if any(hasattr(argument, "strides") for argument in args):
        y = new_array(level, "empty", shape, **{"dtype": args[0].dtype, **settings})
        y[...] = args[0]
        return y
    find = getattr(level.inner.xp, name)
    return level.wrap(find((level.size, *sizes), *args, **settings))


@rule("zeros_like", "ones_like", "empty_like", "full_like")
def new_array_like(
    level: BatchedBackend, name: str, array: Array, *args: Any, dtype: np.dtype | None = None,
    shape: Axes = None,
) -> Any:  # fmt: skip
    """A new array with the shape and the dtype of another one."""
    result_dtype = array.dtype if dtype is None else dtype
    shape = array.shape if shape is None else shape
    return new_array(level, name.removesuffix("_like"), shape, *args, dtype=result_dtype)


@rule("arange", "linspace", "eye", "identity", "tri", "logspace")
def new_shared_array(level: BatchedBackend, name: str, *args: Any, **settings: Any) -> Any:
    """A new array that all examples share."""
    if any(hasattr(argument, "backend") for argument in (*args, *settings.values())):
        return run_per_example(level, name, *args, **settings)
    return level.lift(getattr(level.inner.xp, name)(*args, **settings))


@rule("asarray", "array", "asanyarray")
def asarray(
    level: BatchedBackend, name: str, value: Array, dtype: np.dtype | None = None,
    copy: bool | None = None, **_: Any,
) -> Any:  # fmt: skip
    """An array of this level from any value."""
    if not hasattr(value, "backend"):
        return level.lift(level.inner.xp.asarray(value, dtype=dtype))
    y = level.wrap(level.inside(value))
    y = y if dtype is None else y.astype(dtype, copy=False)
    return y.copy() if name == "array" or copy else y


@rule("result_type", "can_cast", "finfo", "iinfo", "iscomplexobj", "isrealobj", "isscalar", "ndim",
      "shape")  # fmt: skip
def query(level: BatchedBackend, name: str, *args: Any) -> Any:
    """Properties of dtypes and shapes."""
    if name in ("ndim", "shape"):
        return getattr(args[0], name)
    argument_dtypes = [
        argument.dtype if hasattr(argument, "backend") else argument for argument in args
    ]
    if name in ("iscomplexobj", "isrealobj"):
        return (argument_dtypes[0].kind == "c") == (name == "iscomplexobj")
    return getattr(np, name)(*argument_dtypes)
