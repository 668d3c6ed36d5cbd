"""What the functions of NumPy return on the meta device: the rule of each one's shape.

A rule takes the function itself and the arguments of a call. Where the result has the broadcast
shape of the arguments, or that of the first one less its reduced axes, the dtype comes from a
probe (`meta_array.py`), so that no table of dtypes is written here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .meta_array import (
    MetaArray,
    complete_shape,
    depends_on_elements,
    grow,
    like,
    new,
    probe,
)

RULES: dict[str, Callable[..., Any]] = {}
"""The rules by the names of the functions."""

PLAIN = {"broadcast_shapes", "can_cast", "dtype", "finfo", "iinfo", "isscalar", "issubdtype",
         "promote_types"}  # fmt: skip
"""Functions that take no arrays."""

Rule = Callable[..., Any]


def rule(names: str) -> Callable[[Rule], Rule]:
    """Add a rule for the functions of these names, as a decorator."""

    def add(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names.split(), function))
        return function

    return add


def shape_of(value: Any) -> tuple[int, ...]:
    """Return the shape of an array or a number."""
    return np.shape(value.header if isinstance(value, MetaArray) else value)


def call_on_probes(
    function: Rule, arguments: Sequence[Any], settings: Any, is_full: bool = False
) -> Any:
    """Call a function on probes of its arguments."""
    small = [probe(argument, is_full) for argument in arguments]
    named = {name: probe(value, is_full) for name, value in settings.items()}
    with np.errstate(all="ignore"):
        return function(*small, **named)


# Element by element -------------------------------------------------------------------------


@rule(
    "where clip isclose around round angle nan_to_num sinc i0 real_if_close fix isposinf isneginf"
)
def elementwise(function: Rule, *arguments: Any, out: Any = None, **settings: Any) -> Any:
    """Broadcast. (`where` with a condition alone selects by its elements.)"""
    if function is np.where and len(arguments) == 1:
        raise depends_on_elements("where")
    operands = (*arguments, *settings.values())
    shape = np.broadcast_shapes(*[shape_of(x) for x in operands if hasattr(x, "shape")])
    if out is None:
        return grow(call_on_probes(function, arguments, settings), shape)
    target = out[0] if isinstance(out, tuple) else out
    call_on_probes(function, arguments, {**settings, "out": target})
    if shape != target.shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {target.shape} doesn't match the "
            f"broadcast shape {shape}"
        )
    return target


@rule("copyto")
def copy_into(
    function: Rule, dst: MetaArray, src: Any, casting: str = "", where: Any = True
) -> Any:
    """Nothing: there are no elements."""
    dst[...] = src


@rule("ufunc.at put_along_axis fill_diagonal put place")
def write_nothing(function: Rule, *arguments: Any, **settings: Any) -> None:
    """Nothing: there are no elements."""


@rule("ufunc.outer")
def outer(ufunc: Any, left: Any, right: Any) -> Any:
    return elementwise(ufunc, left.reshape(left.shape + (1,) * right.ndim), right)


# Reductions ------------------------------------------------------------------------------


def reduced_shape(shape: tuple[int, ...], axis: Any, keepdims: bool) -> tuple[int, ...]:
    """Return the shape without the reduced axes, or with 1 in their place."""
    several = range(len(shape)) if axis is None else axis if np.iterable(axis) else (axis,)
    reduced = {normal_axis(number, len(shape)) for number in several}
    if keepdims:
        return tuple(1 if number in reduced else size for number, size in enumerate(shape))
    return tuple(size for number, size in enumerate(shape) if number not in reduced)


def normal_axis(axis: int, ndim: int) -> int:
    """Return an axis counted from the front. Raises: AxisError: there is none."""
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(axis, ndim)
    return axis % ndim


@rule("sum prod max min amax amin all any argmax argmin count_nonzero ptp nansum nanmax nanmin")
def reduce(
    function: Rule, a: Any, axis: Any = None, *rest: Any, keepdims: bool = False, out: Any = None,
    **settings: Any,
) -> Any:  # fmt: skip
    """Less the reduced axes. The reduction of nothing has no result, as in NumPy."""
    shape = reduced_shape(a.shape, axis, keepdims)
    result = call_on_probes(function, (a, axis, *rest), {**settings, "keepdims": keepdims})
    return grow(result, shape)


@rule("mean std var nanmean median average")
def reduce_to_mean(
    function: Rule, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
    keepdims: bool = False, **settings: Any,
) -> Any:  # fmt: skip
    """Less the reduced axes; the mean of nothing is NaN."""
    shape = reduced_shape(a.shape, axis, keepdims)
    result = call_on_probes(
        function, (a,), {"axis": axis, "keepdims": keepdims} | ({"dtype": dtype} if dtype else {}),
        is_full=True,
    )  # fmt: skip
    return grow(result, shape)


@rule("ufunc.reduce")
def reduce_by_ufunc(
    ufunc: Any, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None,
    keepdims: bool = False, **settings: Any,
) -> Any:  # fmt: skip
    shape = reduced_shape(array.shape, axis, keepdims)
    small = probe(array)
    return grow(ufunc.reduce(small, axis, dtype, keepdims=keepdims, **settings), shape)


@rule("ufunc.accumulate")
def accumulate(ufunc: Any, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
    result = grow(ufunc.accumulate(probe(array), axis, dtype), array.shape)
    return result if out is None else out


@rule("cumsum cumprod")
def accumulate_along(
    function: Rule, a: Any, axis: int | None = None, dtype: Any = None, out: Any = None
) -> Any:
    """The same shape; without an axis, flat."""
    if axis is not None and a.ndim:
        normal_axis(axis, a.ndim)
    result = function(probe(a), axis, dtype)
    return grow(result, (a.size,) if axis is None or not a.ndim else a.shape)


@rule("sort argsort")
def sort_along(function: Rule, a: Any, axis: int | None = -1, **settings: Any) -> Any:
    """The same shape; without an axis, flat."""
    if axis is not None:
        normal_axis(axis, a.ndim)
    return grow(function(probe(a), axis), (a.size,) if axis is None else a.shape)


@rule("tril triu roll ascontiguousarray copy asfortranarray conj")
def same_shape(function: Rule, a: Any, *rest: Any, **settings: Any) -> Any:
    """The same shape; a new array."""
    if function is np.ascontiguousarray:
        same = rest in ((), (None,)) or np.dtype(rest[0]) == a.dtype
        if same and a.flags.c_contiguous and a.ndim:
            return a
        return new(a.shape or (1,), a.dtype if same else rest[0])
    return new(a.shape, a.dtype)


@rule("diff")
def diff(function: Rule, a: Any, n: int = 1, axis: int = -1, **settings: Any) -> Any:
    shape = list(a.shape)
    shape[axis] = max(shape[axis] - n, 0)
    return new(shape, a.dtype)


# Views -----------------------------------------------------------------------------------


@rule(
    "transpose swapaxes moveaxis rollaxis squeeze expand_dims broadcast_to diagonal flip fliplr "
    "flipud rot90 atleast_1d atleast_2d atleast_3d matrix_transpose"
)
def view(function: Rule, a: Any, *rest: Any, **settings: Any) -> Any:
    """The view that NumPy makes of the header."""
    if isinstance(a, MetaArray):
        return a.view_of(function(a.header, *rest, **settings))
    return like(function(np.asarray(a), *rest, **settings))


@rule("broadcast_arrays")
def broadcast_arrays(function: Rule, *arrays: Any) -> Any:
    shape = np.broadcast_shapes(*[shape_of(array) for array in arrays])
    return tuple(view(np.broadcast_to, array, shape) for array in arrays)


@rule("split array_split hsplit vsplit unstack")
def split(function: Rule, a: MetaArray, *rest: Any, **settings: Any) -> Any:
    parts = [a.view_of(part) for part in function(a.header, *rest, **settings)]
    return tuple(parts) if function.__name__ == "unstack" else parts


@rule("reshape")
def reshape(function: Rule, a: Any, shape: Any, order: str = "C", **settings: Any) -> Any:
    if order == "C":
        return a.reshape(shape)
    sizes = complete_shape(shape if np.iterable(shape) else (shape,), a.size)
    return new(sizes, a.dtype, tuple(range(len(sizes)))[::-1])


@rule("ravel")
def ravel(function: Rule, a: Any, *rest: Any, **settings: Any) -> Any:
    return a.reshape(-1)


@rule("real imag")
def part_of_complex(function: Rule, val: Any) -> Any:
    return getattr(val, function.__name__)


# Joins, copies and choices -----------------------------------------------------------------


@rule("concatenate")
def concatenate(
    function: Rule, arrays: Sequence[Any], axis: Any = 0, out: Any = None, dtype: Any = None,
    casting: str = "same_kind",
) -> Any:  # fmt: skip
    if axis is None:
        arrays, axis = [array.reshape(-1) for array in arrays], 0
    shapes = [shape_of(array) for array in arrays]
    axis = normal_axis(axis, len(shapes[0]))
    if len({(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}) > 1:
        raise ValueError(
            "all the input array dimensions except for the concatenation axis must match exactly"
        )
    joined = list(shapes[0])
    joined[axis] = sum(shape[axis] for shape in shapes)
    result = np.concatenate([probe(array) for array in arrays], axis, dtype=dtype, casting=casting)
    return grow(result, tuple(joined))


@rule("stack")
def stack(function: Rule, arrays: Sequence[Any], axis: int = 0, **settings: Any) -> Any:
    if len({shape_of(array) for array in arrays}) > 1:
        raise ValueError("all input arrays must have the same shape")
    return concatenate(np.concatenate, [view(np.expand_dims, x, axis) for x in arrays], axis)


@rule("tile")
def tile(function: Rule, A: Any, reps: Any) -> Any:
    counts = tuple(reps) if np.iterable(reps) else (reps,)
    ndim = max(len(counts), A.ndim)
    counts = (1,) * (ndim - len(counts)) + counts
    sizes = (1,) * (ndim - A.ndim) + A.shape
    return new([count * size for count, size in zip(counts, sizes, strict=True)], A.dtype)


@rule("repeat")
def repeat(function: Rule, a: Any, repeats: Any, axis: Any = None) -> Any:
    if isinstance(repeats, MetaArray):
        raise depends_on_elements("repeat_interleave")
    a, axis = (a.reshape(-1), 0) if axis is None else (a, axis)
    shape = list(a.shape)
    counts = np.asarray(repeats)
    shape[axis] = int(counts.sum()) if counts.size > 1 else shape[axis] * int(counts.reshape(()))
    return new(shape, a.dtype)


@rule("pad")
def pad(function: Rule, array: Any, pad_width: Any, mode: str = "constant", **settings: Any) -> Any:
    widths = np.broadcast_to(np.asarray(pad_width), (array.ndim, 2))
    shape = [size + int(sum(pair)) for size, pair in zip(array.shape, widths, strict=True)]
    return new(shape, array.dtype)


@rule("take")
def take(
    function: Rule, a: Any, indices: Any, axis: Any = None, *rest: Any, **settings: Any
) -> Any:
    if axis is None:
        return new(shape_of(indices), a.dtype)
    axis = normal_axis(axis, a.ndim)
    return new((*a.shape[:axis], *shape_of(indices), *a.shape[axis + 1 :]), a.dtype)


@rule("take_along_axis")
def take_along_axis(function: Rule, arr: Any, indices: Any, axis: Any = -1) -> Any:
    others = list(arr.shape)
    others[axis] = 1
    return new(np.broadcast_shapes(tuple(others), shape_of(indices)), arr.dtype)


@rule("searchsorted")
def searchsorted(function: Rule, a: Any, v: Any, *rest: Any, **settings: Any) -> Any:
    return new(shape_of(v), np.int64)


@rule("isin")
def isin(function: Rule, element: Any, test_elements: Any, **settings: Any) -> Any:
    return new(shape_of(element), np.bool_)


@rule("nonzero flatnonzero argwhere unique bincount extract compress trim_zeros")
def refuse(function: Rule, *arguments: Any, **settings: Any) -> Any:
    """As many results as the elements say."""
    raise depends_on_elements(function.__name__)


@rule("allclose array_equal iscomplexobj")
def ask_elements(function: Rule, a: Any, *rest: Any, **settings: Any) -> Any:
    if function is np.iscomplexobj:
        return a.dtype.kind == "c"
    return new((), np.bool_).item()


@rule("histogram")
def histogram(function: Rule, a: Any, bins: Any = 10, *rest: Any, **settings: Any) -> Any:
    count = len(bins) - 1 if np.iterable(bins) else bins
    return new((count,), np.int64), new((count + 1,), np.float64)


# Creation -------------------------------------------------------------------------------


@rule("zeros ones empty")
def create(function: Rule, shape: Any, dtype: Any = None, order: str = "C") -> Any:
    return new(shape, dtype)


@rule("full")
def full(function: Rule, shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    return new(shape, np.asarray(probe(fill_value)).dtype if dtype is None else dtype)


@rule("zeros_like ones_like empty_like full_like")
def create_like(function: Rule, a: Any, *rest: Any, dtype: Any = None, **settings: Any) -> Any:
    names = ["fill_value", "dtype"] if function is np.full_like else ["dtype"]
    named = dict(zip(names, rest, strict=False))
    array_dtype = dtype or named.get("dtype") or a.dtype
    shape = settings.get("shape")
    return like(a, array_dtype) if shape is None else new(shape, array_dtype)


@rule("arange")
def arange(function: Rule, start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    start, stop = (0, start) if stop is None else (start, stop)
    count = max(math.ceil((stop - start) / step), 0)
    array_dtype = np.result_type(start, stop, step) if dtype is None else dtype
    return new(
        (count,), np.int64 if np.dtype(array_dtype).kind == "i" and dtype is None else array_dtype
    )


@rule("linspace logspace geomspace")
def linspace(function: Rule, start: Any, stop: Any, num: int = 50, **settings: Any) -> Any:
    return new((num,), settings.get("dtype") or np.float64)


@rule("eye identity tri")
def eye(function: Rule, N: int, M: Any = None, k: int = 0, dtype: Any = None) -> Any:
    return new((N, N if M is None else M), dtype)


@rule("asarray array asanyarray")
def asarray(function: Rule, values: Any, dtype: Any = None, copy: Any = None, **named: Any) -> Any:
    if not isinstance(values, MetaArray):
        if isinstance(values, (list, tuple)) and any(isinstance(x, MetaArray) for x in values):
            return stack(np.stack, values)
        values = np.asarray(values, dtype)
        return like(values)
    array_dtype = values.dtype if dtype is None else np.dtype(dtype)
    if array_dtype == values.dtype and function is not np.array:
        return values
    return like(values, array_dtype)


@rule("result_type")
def result_type(function: Rule, *operands: Any) -> Any:
    return np.result_type(*[getattr(operand, "dtype", operand) for operand in operands])


@rule("shape ndim size")
def measure(function: Rule, a: Any, *rest: Any) -> Any:
    return function(a.header if isinstance(a, MetaArray) else a, *rest)


@rule("tril_indices triu_indices indices")
def indices_of_triangle(function: Rule, *arguments: Any, **settings: Any) -> Any:
    return tuple(like(part) for part in function(*arguments, **settings))


@rule("may_share_memory shares_memory")
def share_memory(function: Rule, a: Any, b: Any, *rest: Any) -> bool:
    return (a if a.base is None else a.base) is (b if b.base is None else b.base)
