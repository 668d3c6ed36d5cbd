"""NumPy's functions on symbols: each adds a value, or raises if kernels do not support it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .scalar_functions import FUNCTIONS
from .symbols import (
    FLOAT_DTYPES,
    KERNEL_DTYPES,
    SymbolicArray,
    SymbolicNumber,
    UnsupportedDefinitionError,
    ValueMaker,
)
from .values import Value

__all__ = [
    "REPLACEMENTS", "lower_mean", "lower_cast", "lower_elementwise", "lower_fill", "lower_matmul",
    "lower_reduction", "lower_where",
]  # fmt: skip


def lower_operand(x: Any) -> Any:
    """Return an operand as a value or a number."""
    if isinstance(x, SymbolicNumber):
        value = x.value
        if value.base.kind == "element" and value.base.function == "fill":  # the same everywhere
            (number,) = value.base.operands
            return (
                number if not value.shape else lower_fill(x, number, value.dtype, value.shape).value
            )
        return value
    if isinstance(x, Value) or x.__class__ in (bool, int, float) or isinstance(x, np.generic):
        return x
    if isinstance(x, np.ndarray) and not x.ndim:
        return x[()]
    raise UnsupportedDefinitionError(f"its definition computes with a {type(x).__name__}")


def dtype_of(x: Any) -> Any:
    """Return an operand's dtype, or a Python number's class, which promotes weakly as in NumPy."""
    if isinstance(x, Value):
        return float if x.dtype is None else x.dtype
    return x.dtype if isinstance(x, np.generic) else int if x.__class__ is bool else x.__class__


def lower_elementwise(make_value: ValueMaker, ufunc: Any, inputs: tuple[Any, ...]) -> SymbolicArray:
    """Add an elementwise function of NumPy's."""
    name = ufunc.__name__
    if name not in FUNCTIONS:
        raise UnsupportedDefinitionError(f"np.{name} has no place in a kernel")
    operands = [lower_operand(input_) for input_ in inputs]
    dtypes = [dtype_of(lower_operand) for lower_operand in operands]
    *wanted, result = ufunc.resolve_dtypes((*dtypes, None))
    for dtype in (result, *wanted):
        if dtype not in KERNEL_DTYPES or dtype.kind not in SUPPORTED_KINDS.get(name, "f") + "b" * (
            dtype is result
        ):
            raise UnsupportedDefinitionError(f"{name} of {dtype} is left to NumPy")
    operands = [
        cast_operand(make_value, lower_operand, dtype)
        for lower_operand, dtype in zip(operands, wanted, strict=True)
    ]
    if not any(isinstance(lower_operand, Value) for lower_operand in operands):
        with np.errstate(all="ignore"):
            return lower_constant(make_value, ufunc(*operands))
    shapes = [lower_operand.shape for lower_operand in operands if isinstance(lower_operand, Value)]
    shape = np.broadcast_shapes(*shapes)
    return SymbolicArray(make_value("element", name, tuple(operands), shape, result), make_value)


BOOL_DTYPE = np.dtype(bool)


def lower_constant(make_value: ValueMaker, number: Any) -> SymbolicArray:
    """Add a constant number."""
    return SymbolicArray(make_value("element", "fill", (number,), (), number.dtype), make_value)


SUPPORTED_KINDS = {
    **dict.fromkeys("bitwise_and bitwise_or bitwise_xor invert".split(), "b"),
    **dict.fromkeys("logical_and logical_or logical_not".split(), "b"),
    **dict.fromkeys("add subtract multiply negative positive absolute square sign".split(), "fi"),
    **dict.fromkeys("maximum minimum".split(), "fi"),
    **dict.fromkeys("less less_equal greater greater_equal equal not_equal".split(), "fib"),
}
"""The dtype kinds for which kernels support a function: f(loat), i(nteger), b(ool); else f."""


def cast_operand(make_value: ValueMaker, x: Any, dtype: np.dtype[Any]) -> Any:
    """Cast an operand to the dtype in which the function computes."""
    if not isinstance(x, Value):
        return dtype.type(x)
    if x.dtype is None or x.dtype == dtype:
        return x
    return lower_cast(SymbolicArray(x, make_value), dtype).value


def lower_cast(x: SymbolicArray, dtype: np.dtype[Any]) -> SymbolicArray:
    """Add a conversion."""
    if x.dtype == dtype:
        return x
    if dtype not in KERNEL_DTYPES or x.dtype not in KERNEL_DTYPES:
        raise UnsupportedDefinitionError(f"the dtype {dtype} is left to NumPy")
    if x.dtype.kind == "f" and dtype.kind != "f":
        raise UnsupportedDefinitionError("rounding to integers is left to NumPy")
    number = lower_operand(x)
    if not isinstance(number, Value):
        return lower_constant(x.make_value, number.astype(dtype))
    return SymbolicArray(x.make_value("element", "cast", (number,), x.shape, dtype), x.make_value)


def lower_where(condition: Any, first: Any, second: Any) -> SymbolicArray:
    """Add `np.where`."""
    make_value = next(
        item.make_value for item in (condition, first, second) if isinstance(item, SymbolicArray)
    )
    condition_value = lower_operand(condition)
    if dtype_of(condition_value) != BOOL_DTYPE:
        raise UnsupportedDefinitionError(
            "np.where with a condition that is not bool is left to NumPy"
        )
    pair = [lower_operand(first), lower_operand(second)]
    dtypes = [dtype_of(item) for item in pair]
    if all(isinstance(dtype, type) for dtype in dtypes):
        dtype = np.result_type(first, second)
    else:
        dtype = np.add.resolve_dtypes((*dtypes, None))[-1]
    if dtype not in KERNEL_DTYPES:
        raise UnsupportedDefinitionError(f"the dtype {dtype} is left to NumPy")
    pair = [cast_operand(make_value, item, dtype) for item in pair]
    if not any(isinstance(item, Value) for item in (condition_value, *pair)):
        return lower_constant(make_value, pair[0] if condition_value else pair[1])
    shapes = [item.shape for item in (condition_value, *pair) if isinstance(item, Value)]
    shape = np.broadcast_shapes(*shapes)
    return SymbolicArray(
        make_value("element", "where", (condition_value, *pair), shape, dtype), make_value
    )


def lower_clip(x: SymbolicArray, a_min: Any = None, a_max: Any = None) -> Any:
    """Add `np.clip` as a maximum and a minimum."""
    y = x if a_min is None else np.maximum(x, a_min)
    return y if a_max is None else np.minimum(y, a_max)


def lower_fill(x: Any, number: Any, dtype: Any = None, shape: Any = None) -> SymbolicArray:
    """Add a constant array."""
    dtype_ = np.dtype(dtype) if dtype is not None else x.dtype
    if dtype_ not in KERNEL_DTYPES:
        raise UnsupportedDefinitionError(f"the dtype {dtype_} is left to NumPy")
    shape = x.shape if shape is None else tuple(shape)
    return SymbolicArray(
        x.make_value("element", "fill", (dtype_.type(number),), shape, dtype_), x.make_value
    )


def lower_reduction(
    x: SymbolicArray, name: str, axis: Any = None, keepdims: bool = False, **more: Any
) -> SymbolicArray:
    """Add a sum, minimum or maximum along axes."""
    if any(setting is not None for setting in more.values()):
        raise UnsupportedDefinitionError(f"a reduction with {', '.join(more)} is left to NumPy")
    if not x.ndim:
        return x.copy()
    if x.dtype not in FLOAT_DTYPES:
        raise UnsupportedDefinitionError(f"reductions of {x.dtype} are left to NumPy")
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = tuple(sorted(axis % x.ndim for axis in axes))
    kept = tuple(1 if i in axes else size for i, size in enumerate(x.shape))
    shape = kept if keepdims else tuple(s for i, s in enumerate(x.shape) if i not in axes)
    count = math.prod(x.shape[i] for i in axes)
    if not count and name != "sum":
        raise UnsupportedDefinitionError("the minimum or maximum of nothing is an error")
    settings = {"axes": axes, "keepdims": keepdims, "count": count}
    return SymbolicArray(
        x.make_value("reduce", name, (x.value,), shape, x.dtype, settings), x.make_value
    )


def lower_mean(x: SymbolicArray, axis: Any = None, keepdims: bool = False, **more: Any) -> Any:
    """Add a mean: the sum, divided by the count."""
    total = lower_reduction(x, "sum", axis, keepdims, **more)
    if not x.ndim:
        return total
    return (
        total / total.value.settings["count"]
        if total.value.settings["count"]
        else raise_empty_mean()
    )


def raise_empty_mean() -> Any:
    raise UnsupportedDefinitionError("a mean of nothing is left to NumPy")


def lower_matmul(like: SymbolicArray, left: Any, right: Any) -> SymbolicArray:
    """Add the product of two matrices."""
    first, second = lower_operand(left), lower_operand(right)
    for factor in (first, second):
        if (
            not isinstance(factor, Value)
            or factor.dtype not in FLOAT_DTYPES
            or len(factor.shape) != 2
        ):
            raise UnsupportedDefinitionError(
                "products of other than two matrices are left to their definition"
            )
    if first.dtype != second.dtype:
        raise UnsupportedDefinitionError("products of several dtypes are left to their definition")
    shape = (first.shape[0], second.shape[1])
    value = like.make_value("product", "matmul", (first, second), shape, first.dtype)
    return SymbolicArray(value, like.make_value)


def numpy_replacements() -> dict[Any, Callable[..., Any]]:
    """Return the replacements of NumPy's functions that are not ufuncs."""

    def extreme(name: str) -> Callable[..., Any]:
        return lambda a, axis=None, keepdims=False, **more: lower_reduction(
            a, name, axis, keepdims, **more
        )

    return {
        np.sum: extreme("sum"), np.max: extreme("max"), np.amax: extreme("max"),
        np.min: extreme("min"), np.amin: extreme("min"), np.mean: lower_mean,
        np.where: lower_where, np.clip: lower_clip, np.real: lambda x: x,
        np.zeros_like: lambda x, dtype=None: lower_fill(x, 0, dtype),
        np.ones_like: lambda x, dtype=None: lower_fill(x, 1, dtype),
        np.full_like: lambda x, number, dtype=None: lower_fill(x, number, dtype),
        np.squeeze: lambda x, axis=None: x.squeeze(axis),
        np.reshape: lambda x, shape: x.reshape(shape),
        np.transpose: lambda x, axes=None: x.transpose(*([axes] if axes else [])),
        np.swapaxes: lambda x, first, second: x.swapaxes(first, second),
        np.expand_dims: lambda x, axis: x.view(
            lambda y: np.expand_dims(y, axis), f"np.expand_dims({{}}, {axis})"
        ),
        np.broadcast_to: lambda x, shape: x.view(
            lambda y: np.broadcast_to(y, shape), f"np.broadcast_to({{}}, {tuple(shape)})"
        ),
    }  # fmt: skip


REPLACEMENTS = numpy_replacements()
