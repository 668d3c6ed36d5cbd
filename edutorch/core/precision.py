"""16-bit floats are added up in float32, and the sum is rounded once.

A bfloat16 has 8 significant bits, a float16 has 11: a sum that is kept in them stops growing at
256 or 2,048 ones, and a float16 cannot count beyond 65,504. So whatever adds up computes in
float32:

- the forward of an op that is declared with `accumulates=True` (`accumulate_in_float32`),
- the rules of all ops but elementwise ones and views (`backward_codegen.py`),
- what the engine adds up: gradients of broadcast operands, and of tensors with several uses
  (`WideSum`),
- `Backend.scatter_add`.

And a long sum of 32-bit floats is added up in groups (`add_up`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import backends, dtypes
from ..backends.numpy import Array, ArrayOrTensor, Namespace
from ..modes import current
from .registry import op_function

if TYPE_CHECKING:
    from .op import Op

SCALING = {"mul", "div", "lerp"}
"""Ops whose Python number is not rounded to 16 bits: it may be too large for a float16 (x / 70000),
or a weight whose digits matter (lerp)."""

MULTI_STEP = {"gelu", "silu_forward", "mish_forward", "hardswish_forward", "sinc"}
"""Elementwise ops whose rules take several steps, so that 16 bits would lose digits in each."""


def names_to_widen(op: Op) -> tuple[str, ...]:
    """Return what the rules of an op take in float32 where it is of 16 bits, as they may add up.

    The rules of views and of most elementwise ops do not; nor does one that sees only `g`. The
    engine rounds their result.
    """
    needed = {need for rule in op.rules.values() for need in rule.needs}
    is_one_step = op.family.broadcasts and op.name not in MULTI_STEP
    if is_one_step or op.family.makes_view or not needed:
        return ()
    values = {"y", *op.inputs, *op.outputs[1:]}
    return ("g", *(name for name in op.saved if name in values))


def widens(op: Op, g: Any) -> bool:
    """Return True if rules take 16-bit floats in float32 on the device of a gradient `g`."""
    backend = backends.backend_of_type(type(g)) or getattr(g, "backend", None)
    inner = getattr(backend, "inner", backend)  # of a backend that captures
    return inner is None or op.name not in inner.half_products


def widen_for_rules(op: Op, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that the rules of an op take in float32, as 16-bit floats are met.

    Beside a Python number that is not rounded to 16 bits (`SCALING`), it is the gradient alone.
    """
    scalars = [name for name in op.scalars if isinstance(values.get(name), int | float)]
    names = ("g",) if op.name in SCALING and scalars else names_to_widen(op)
    return {name: widen(values[name]) for name in names}


def is_half(dtype: Any) -> bool:
    """Return True for float16 and bfloat16, as dtypes of tensors or of arrays."""
    return getattr(dtype, "numpy", dtype).char in "eE"


def is_wide_tensor(value: Any) -> bool:
    """Return True for a tensor of elements that have not 16 bits: the usual case, found soon."""
    array = getattr(value, "_array", None)
    return array is not None and array.dtype.itemsize != 2


def widen(value: Any) -> Any:
    """Return 16-bit floats as float32: an array, a tensor, or those in a list; else `value`."""
    if is_wide_tensor(value):
        return value
    if value.__class__ in (list, tuple):
        return type(value)(map(widen, value))
    dtype = getattr(value, "dtype", None)
    if dtype is None or not is_half(dtype):
        return value
    return op_function("convert_dtype")(value, dtypes.float32)


def accumulate_in_float32(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Make a forward compute with 16-bit floats in float32, and round its result."""

    def wide(xp: Namespace, *inputs: Any, **named: Any) -> Any:
        first = inputs[0] if inputs else next(iter(named.values()))
        dtype = (first[0] if first.__class__ in (list, tuple) else first).dtype
        if not is_half(dtype):
            return forward(xp, *inputs, **named)
        dtypes_met = {getattr(value, "dtype", dtype) for value in (*inputs, *named.values())}
        inputs = tuple(map(to_float32, inputs))
        y = forward(xp, *inputs, **{name: to_float32(value) for name, value in named.items()})
        if any(is_half(other) and other != dtype for other in dtypes_met):
            return y  # float16 with bfloat16 is float32
        if isinstance(y, tuple):
            return tuple(round_to(part, dtype) for part in y)
        return round_to(y, dtype)

    return wide


def widened(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that is composed of ops compute with 16-bit tensors in float32.

    As a decorator it is `composed.composed_in_float32`. The result is rounded to the dtype of the
    first argument, unless another one has another floating dtype: float16 with bfloat16 is float32.
    """

    @functools.wraps(function)
    def wide(*args: Any, **named: Any) -> Any:
        first = args[0] if args else next(iter(named.values()), None)
        if is_wide_tensor(first):
            return function(*args, **named)
        dtype = getattr(first, "dtype", None)
        if dtype is None or not is_half(dtype) or current().autocast is not None:
            return function(*args, **named)  # autocast chooses the dtypes itself
        argument_dtypes = [getattr(value, "dtype", dtype) for value in (*args, *named.values())]
        y = function(*widen(args), **{name: widen(value) for name, value in named.items()})
        is_wider = any(
            argument_dtype.category >= 2 and argument_dtype is not dtype
            for argument_dtype in argument_dtypes
        )
        return y if is_wider else y.to(dtype)

    return wide


def to_float32(value: Any) -> Any:
    """Return an array of 16-bit floats, or each in a list, as float32; all else as it is."""
    if isinstance(value, list):
        return [to_float32(array) for array in value]
    dtype = getattr(value, "dtype", None)
    return value if dtype is None or not is_half(dtype) else value.astype("float32")


def round_to(y: Array, dtype: np.dtype[Any]) -> Any:
    """Round a result of float32; indices and wider results stay."""
    return y.astype(dtype) if y.dtype == "float32" else y


class WideSum:
    """The gradients of a 16-bit tensor with several uses, as their sum so far in float32.

    Attributes:
        dtype: None, so that the engine calls `match_shape_and_dtype`.
    """

    size, base, dtype = 1 << 62, None, None

    def __init__(self, first: ArrayOrTensor) -> None:
        self.shape, self.array_dtype = first.shape, first.dtype
        self.sum = widen(first)

    def __iadd__(self, other: ArrayOrTensor) -> WideSum:
        self.sum = self.sum + widen(other)
        return self

    def materialize(self) -> Any:
        """Return the sum in the dtype of the tensor."""
        return op_function("convert_dtype")(
            self.sum, dtypes.of(getattr(self.array_dtype, "numpy", self.array_dtype))
        )


LONG = 1000
"""From so many elements on the order of summation along an axis matters."""


def add_up(xp: Namespace, array: Array, dim: int | tuple[int, ...] | None, keepdim: bool) -> Any:
    """Σ x over `dim`, a long axis in groups, and then the groups.

    NumPy adds row by row and rounds n times. In about √n groups of √n rows it rounds 2 √n times.
    Along the last axis NumPy itself sums pairwise.
    """
    shape = array.shape
    if dim.__class__ is tuple and math.prod([shape[axis] for axis in dim]) > LONG:
        return add_up_axes(xp, array, sorted(axis % len(shape) for axis in dim), keepdim)
    if dim.__class__ is not int or shape[dim] <= LONG:
        return xp.add.reduce(array, axis=dim, keepdims=keepdim)
    dim %= len(shape)
    front = (slice(None),) * dim
    size = math.isqrt(shape[dim])
    whole = shape[dim] // size * size
    groups = array[(*front, slice(whole))]
    groups = groups.reshape(*shape[:dim], whole // size, size, *shape[dim + 1 :])
    y = xp.add.reduce(xp.add.reduce(groups, axis=dim + 1), axis=dim, keepdims=keepdim)
    if whole == shape[dim]:
        return y
    return y + xp.add.reduce(array[(*front, slice(whole, None))], axis=dim, keepdims=keepdim)


def add_up_axes(xp: Namespace, array: Array, axes: list[int], keepdim: bool) -> Any:
    """Σ x over several axes, of which NumPy would add up all rows one by one."""
    shape = array.shape
    if len(axes) == len(shape):
        return xp.add.reduce(array, axis=tuple(axes), keepdims=keepdim)
    if axes == list(range(len(axes))):  # as one long axis
        rows = math.prod(shape[: len(axes)])
        y = add_up(xp, array.reshape(rows, *shape[len(axes) :]), 0, False)
        return y.reshape((1,) * len(axes) + y.shape) if keepdim else y
    for axis in axes:  # the outermost first
        array = add_up(xp, array, axis, True)
    return array if keepdim else array.squeeze(tuple(axes))
