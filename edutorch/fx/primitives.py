"""The few functions in captured graphs that are no ops: each takes arrays, and writes into none."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends.numpy import Array, add_at
from ..core.registry import REGISTRY

__all__ = [
    "added_at", "as_array", "changed", "converted", "copied", "draw", "gradients_of", "item",
    "region", "take", "with_region", "written",
]  # fmt: skip


def take(input: Array, index: Any) -> Array:
    """Return `input[index]`, always as an array."""
    return np.asarray(input[index])


def written(input: Array, index: Any, values: Any) -> Array:
    """Return a copy of `input` in which `values` stand at `index`."""
    y = np.array(input, order="K")
    y[index] = values
    return y


def filled(input: Array, values: Any) -> Array:
    """Return `values` with the shape and the type of `input`."""
    y = np.empty_like(input, subok=False)
    y[...] = values
    return y


def changed(function: Callable[..., Any], input: Array, *args: Any, **kwargs: Any) -> Array:
    """Return a copy of `input` in which a function of NumPy, such as `put`, has written."""
    y = np.array(input, order="K")
    function(y, *args, **kwargs)
    return y


def added_at(input: Array, index: Any, values: Array) -> Array:
    """Return a copy of `input` with `values` added at `index`, as often as it occurs there."""
    y = np.array(input, order="K")
    add_at(y, index, values)
    return y


def copied(input: Array) -> Array:
    """Return the same numbers in memory of their own."""
    return np.array(input, order="K", subok=False)


def converted(input: Array, dtype: Any) -> Array:
    """Return the numbers as another type, in memory of their own."""
    return input.astype(dtype)


def item(input: Array) -> Any:
    """Return the only number as a Python number."""
    return input.item()


def as_array(number: Any, dtype: Any) -> Array:
    """Return a number as an array without axes."""
    return np.asarray(number, dtype)


def called(name: str, input: Array, *args: Any, **kwargs: Any) -> Any:
    """Return what a method of arrays returns."""
    return getattr(input, name)(*args, **kwargs)


def draw(generator: Any, how: str, *args: Any) -> Array:
    """Return new random numbers: `how` is a method of the generator's source."""
    return getattr(generator.random, how)(*args)


@functools.cache
def gradients_of(name: str, rule: str) -> Callable[..., Any]:
    """Return a rule of an op, of one input or "joint_vjp" of all, as a function of arrays.

    A kernel computes it, where there is one; else the rule itself does.
    """
    op = REGISTRY[name]
    definition = op.joint_vjp if rule == "joint_vjp" else op.rules[rule].function
    assert definition is not None
    slot = op.rule_slots[rule]
    first = list(inspect.signature(definition).parameters).index("g")

    def gradients(*values: Any) -> Any:
        g = values[first]
        if g.__class__ is np.ndarray and g.size >= slot.least:
            gradient = slot(*values)
            if gradient is not None:
                return gradient
        return definition(*values)

    gradients.__name__ = gradients.__qualname__ = f"{name}_gradients"
    gradients.rule = f"{name}/{rule}"  # type: ignore[attr-defined]
    gradients.definition = definition  # type: ignore[attr-defined]
    return gradients


# Parts of a memory --------------------------------------------------------------------------


def in_order(input: Array, order: Sequence[int]) -> Array:
    """Return the bytes of an array, its axes in the order given, row by row."""
    return np.ascontiguousarray(input.transpose(order)).reshape(-1).view(np.uint8)


def region(
    input: Array, order: Sequence[int], offset: int, shape: Sequence[int], strides: Sequence[int],
    dtype: Any,
) -> Array:  # fmt: skip
    """Return a part of the memory of `input`, in bytes from its beginning."""
    return np.ndarray(shape, dtype, in_order(input, order), offset, strides)


def with_region(
    input: Array, values: Array, order: Sequence[int], offset: int, shape: Sequence[int],
    strides: Sequence[int],
) -> Array:  # fmt: skip
    """Return a copy of `input` with `values` in a part of its memory."""
    whole = in_order(input, order).copy()
    np.ndarray(shape, values.dtype, whole, offset, strides)[...] = values
    laid = whole.view(input.dtype).reshape([input.shape[axis] for axis in order])
    return laid.transpose(np.argsort(order))


NUMBERS: dict[str, Callable[..., Any]] = {
    name: getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "pos", "abs")
}
"""What Python computes with numbers, by the name of its method."""
