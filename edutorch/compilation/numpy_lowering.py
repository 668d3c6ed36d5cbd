"""What NumPy's functions do to symbols: each notes a value, or says why no kernel can have it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .scalar_functions import FUNCTIONS
from .symbols import FLOATS, NUMBERS, Kept, NotPlainError, Number, Symbol
from .values import Value

__all__ = ["INSTEAD", "average", "cast", "element", "filled", "product", "reduced", "where"]


def operand(x: Any) -> Any:
    """Return what a value keeps of an operand: a value, or a number."""
    if isinstance(x, Number):
        value = x.value
        if value.base.kind == "element" and value.base.function == "fill":  # the same everywhere
            (number,) = value.base.operands
            return number if not value.shape else filled(x, number, value.dtype, value.shape).value
        return value
    if isinstance(x, Value) or x.__class__ in (bool, int, float) or isinstance(x, np.generic):
        return x
    if isinstance(x, np.ndarray) and not x.ndim:
        return x[()]
    raise NotPlainError(f"its definition computes with a {type(x).__name__}")


def kind_of(x: Any) -> Any:
    """Return an operand's type; a Python number follows the others, as in NumPy."""
    if isinstance(x, Value):
        return float if x.dtype is None else x.dtype
    return x.dtype if isinstance(x, np.generic) else int if x.__class__ is bool else x.__class__


def element(keep: Kept, ufunc: Any, inputs: tuple[Any, ...]) -> Symbol:
    """Note one of NumPy's functions of single numbers."""
    name = ufunc.__name__
    if name not in FUNCTIONS:
        raise NotPlainError(f"np.{name} has no place in a kernel")
    operands = [operand(input_) for input_ in inputs]
    kinds = [kind_of(operand) for operand in operands]
    *wanted, result = ufunc.resolve_dtypes((*kinds, None))
    for kind in (result, *wanted):
        if kind not in NUMBERS or kind.kind not in TYPES.get(name, "f") + "b" * (kind is result):
            raise NotPlainError(f"{name} of numbers of type {kind} is left to NumPy")
    operands = [fitted(keep, operand, kind) for operand, kind in zip(operands, wanted, strict=True)]
    if not any(isinstance(operand, Value) for operand in operands):
        with np.errstate(all="ignore"):
            return constant(keep, ufunc(*operands))
    shapes = [operand.shape for operand in operands if isinstance(operand, Value)]
    shape = np.broadcast_shapes(*shapes)
    return Symbol(keep("element", name, tuple(operands), shape, result), keep)


BOOL = np.dtype(bool)


def constant(keep: Kept, number: Any) -> Symbol:
    """Note a number that is known now."""
    return Symbol(keep("element", "fill", (number,), (), number.dtype), keep)


TYPES = {
    **dict.fromkeys("bitwise_and bitwise_or bitwise_xor invert".split(), "b"),
    **dict.fromkeys("logical_and logical_or logical_not".split(), "b"),
    **dict.fromkeys("add subtract multiply negative positive absolute square sign".split(), "fi"),
    **dict.fromkeys("maximum minimum".split(), "fi"),
    **dict.fromkeys("less less_equal greater greater_equal equal not_equal".split(), "fib"),
}
"""The types that kernels know a function for: f(loating), i(nteger), b(ool); else f."""


def fitted(keep: Kept, x: Any, kind: np.dtype[Any]) -> Any:
    """Bring an operand to the type in which the function computes."""
    if not isinstance(x, Value):
        return kind.type(x)
    if x.dtype is None or x.dtype == kind:
        return x
    return cast(Symbol(x, keep), kind).value


def cast(x: Symbol, dtype: np.dtype[Any]) -> Symbol:
    """Note a conversion."""
    if x.dtype == dtype:
        return x
    if dtype not in NUMBERS or x.dtype not in NUMBERS:
        raise NotPlainError(f"numbers of type {dtype} are left to NumPy")
    if x.dtype.kind == "f" and dtype.kind != "f":
        raise NotPlainError("rounding to integers is left to NumPy")
    number = operand(x)
    if not isinstance(number, Value):
        return constant(x.keep, number.astype(dtype))
    return Symbol(x.keep("element", "cast", (number,), x.shape, dtype), x.keep)


def where(condition: Any, first: Any, second: Any) -> Symbol:
    """Note a choice between two."""
    keep = next(each.keep for each in (condition, first, second) if isinstance(each, Symbol))
    chosen = operand(condition)
    if kind_of(chosen) != BOOL:
        raise NotPlainError("a choice by numbers that are no bools is left to NumPy")
    pair = [operand(first), operand(second)]
    kinds = [kind_of(each) for each in pair]
    if all(isinstance(kind, type) for kind in kinds):
        kind = np.result_type(first, second)
    else:
        kind = np.add.resolve_dtypes((*kinds, None))[-1]
    if kind not in NUMBERS:
        raise NotPlainError(f"numbers of type {kind} are left to NumPy")
    pair = [fitted(keep, each, kind) for each in pair]
    if not any(isinstance(each, Value) for each in (chosen, *pair)):
        return constant(keep, pair[0] if chosen else pair[1])
    shapes = [each.shape for each in (chosen, *pair) if isinstance(each, Value)]
    shape = np.broadcast_shapes(*shapes)
    return Symbol(keep("element", "where", (chosen, *pair), shape, kind), keep)


def clip(x: Symbol, a_min: Any = None, a_max: Any = None) -> Any:
    """Note both limits."""
    y = x if a_min is None else np.maximum(x, a_min)
    return y if a_max is None else np.minimum(y, a_max)


def filled(x: Any, number: Any, dtype: Any = None, shape: Any = None) -> Symbol:
    """Note an array of one number."""
    kind = np.dtype(dtype) if dtype is not None else x.dtype
    if kind not in NUMBERS:
        raise NotPlainError(f"numbers of type {kind} are left to NumPy")
    shape = x.shape if shape is None else tuple(shape)
    return Symbol(x.keep("element", "fill", (kind.type(number),), shape, kind), x.keep)


def reduced(x: Symbol, name: str, axis: Any = None, keepdims: bool = False, **more: Any) -> Symbol:
    """Note a sum or an extreme along axes."""
    if any(each is not None for each in more.values()):
        raise NotPlainError(f"a reduction with {', '.join(more)} is left to NumPy")
    if not x.ndim:
        return x.copy()
    if x.dtype not in FLOATS:
        raise NotPlainError(f"reductions of type {x.dtype} are left to NumPy")
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = tuple(sorted(axis % x.ndim for axis in axes))
    kept = tuple(1 if i in axes else size for i, size in enumerate(x.shape))
    shape = kept if keepdims else tuple(s for i, s in enumerate(x.shape) if i not in axes)
    count = math.prod(x.shape[i] for i in axes)
    if not count and name != "sum":
        raise NotPlainError("an extreme of nothing is an error")
    settings = {"axes": axes, "keepdims": keepdims, "count": count}
    return Symbol(x.keep("reduce", name, (x.value,), shape, x.dtype, settings), x.keep)


def average(x: Symbol, axis: Any = None, keepdims: bool = False, **more: Any) -> Any:
    """Note a mean: the sum, divided."""
    total = reduced(x, "sum", axis, keepdims, **more)
    if not x.ndim:
        return total
    return total / total.value.settings["count"] if total.value.settings["count"] else not_plain()


def not_plain() -> Any:
    raise NotPlainError("a mean of nothing is left to NumPy")


def product(like: Symbol, left: Any, right: Any) -> Symbol:
    """Note the product of two matrices."""
    first, second = operand(left), operand(right)
    for each in (first, second):
        if not isinstance(each, Value) or each.dtype not in FLOATS or len(each.shape) != 2:
            raise NotPlainError("products of other than two matrices are left to their definition")
    if first.dtype != second.dtype:
        raise NotPlainError("products of several types are left to their definition")
    shape = (first.shape[0], second.shape[1])
    value = like.keep("product", "matmul", (first, second), shape, first.dtype)
    return Symbol(value, like.keep)


def instead() -> dict[Any, Callable[..., Any]]:
    """What runs in the place of NumPy's functions of whole arrays."""

    def extreme(name: str) -> Callable[..., Any]:
        return lambda a, axis=None, keepdims=False, **more: reduced(a, name, axis, keepdims, **more)

    return {
        np.sum: extreme("sum"), np.max: extreme("max"), np.amax: extreme("max"),
        np.min: extreme("min"), np.amin: extreme("min"), np.mean: average,
        np.where: where, np.clip: clip, np.real: lambda x: x,
        np.zeros_like: lambda x, dtype=None: filled(x, 0, dtype),
        np.ones_like: lambda x, dtype=None: filled(x, 1, dtype),
        np.full_like: lambda x, number, dtype=None: filled(x, number, dtype),
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


INSTEAD = instead()
