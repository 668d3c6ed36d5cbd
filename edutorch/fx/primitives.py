"""The functions in captured graphs that are not ops. They write into none of their arguments."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends.array_surface import Index
from ..backends.numpy import Array, add_at
from ..core.registry import REGISTRY
from ..ops.random import Generator

__all__ = [
    "scatter_add", "as_array", "apply_to_copy", "cast", "copy", "draw", "gradients_of", "item",
    "region", "take", "to_device", "with_region", "set_item",
]  # fmt: skip


def take(input: Array, index: Index) -> Array:
    """Return `input[index]`, always as an array."""
    return np.asarray(input[index])  # NumPy gives a scalar for a single element


def set_item(input: Array, index: Index, values: object) -> Array:
    """Return a copy of `input` with `values` written at `index`."""
    y = np.array(input, order="K")  # a graph writes nothing in place
    y[index] = values
    return y


def fill_like(input: Array, values: object) -> Array:
    """Return `values` broadcast to the shape, and converted to the dtype, of `input`."""
    y = np.empty_like(input, subok=False)
    y[...] = values
    return y


def apply_to_copy(function: Callable[..., Any], input: Array, *args: Any, **kwargs: Any) -> Array:
    """Return a copy of `input` after applying an in-place NumPy function such as `put` to it."""
    y = np.array(input, order="K")
    function(y, *args, **kwargs)
    return y


def scatter_add(input: Array, index: Index, values: Array) -> Array:
    """Return a copy of `input` with `values` added at `index`; repeated indices accumulate."""
    y = np.array(input, order="K")
    add_at(y, index, values)
    return y


def copy(input: Array) -> Array:
    """Return a copy in the same memory order."""
    return np.array(input, order="K", subok=False)


def cast(input: Array, dtype: np.dtype) -> Array:
    """Return a copy with another dtype."""
    return input.astype(dtype)


def item(input: Array) -> Any:
    """Return the only element as a Python number."""
    return input.item()


def as_array(number: int | float, dtype: np.dtype) -> Array:
    """Return a number as a 0-d array."""
    return np.asarray(number, dtype)


def to_device(input: Array) -> Array:
    """Return a 0-d array of the CPU on the device that computes with it."""
    return input


def call_method(name: str, input: Array, *args: Any, **kwargs: Any) -> Any:
    """Call a method of an array."""
    return getattr(input, name)(*args, **kwargs)


def draw(generator: Generator, how: str, *args: Any) -> Array:
    """Return new random numbers: `how` is a method of the generator's source."""
    return getattr(generator.random, how)(*args)


@functools.cache
def gradients_of(name: str, rule: str) -> Callable[..., Any]:
    """Return a derivative rule of an op, of one input or "joint_vjp" of all, as a function.

    A kernel computes it if there is one, otherwise the rule itself.
    """
    op = REGISTRY[name]
    definition = op.joint_vjp if rule == "joint_vjp" else op.rules[rule].function
    assert definition is not None
    slot = op.rule_slots.get(rule)
    first = list(inspect.signature(definition).parameters).index("g")

    def gradients(*values: Any) -> Any:
        g = values[first]
        # As in the engine: small arrays are not worth a kernel.
        if slot is not None and g.__class__ is np.ndarray and g.size >= slot.min_size:
            gradient = slot(*values)
            if gradient is not None:
                return gradient
        return definition(*values)

    gradients.__name__ = gradients.__qualname__ = f"{op.public_name}_gradients"
    gradients.rule = f"{name}/{rule}"  # type: ignore[attr-defined]
    gradients.definition = definition  # type: ignore[attr-defined]
    return gradients


# Views of memory ----------------------------------------------------------------------------


def in_order(input: Array, order: Sequence[int]) -> Array:
    """Return the bytes of an array in row-major order, after permuting its axes."""
    return np.ascontiguousarray(input.transpose(order)).reshape(-1).view(np.uint8)


def region(
    input: Array, order: Sequence[int], offset: int, shape: Sequence[int], strides: Sequence[int],
    dtype: np.dtype,
) -> Array:  # fmt: skip
    """Return a strided view of the memory of `input`; offset and strides are in bytes."""
    return np.ndarray(shape, dtype, in_order(input, order), offset, strides)


def with_region(
    input: Array, values: Array, order: Sequence[int], offset: int, shape: Sequence[int],
    strides: Sequence[int],
) -> Array:  # fmt: skip
    """Return a copy of `input` with `values` written into a strided view of its memory."""
    bytes_ = in_order(input, order).copy()  # in bytes, because strides are in bytes
    np.ndarray(shape, values.dtype, bytes_, offset, strides)[...] = values
    ordered = bytes_.view(input.dtype).reshape([input.shape[axis] for axis in order])
    return ordered.transpose(np.argsort(order))


NUMBERS: dict[str, Callable[..., Any]] = {
    name: getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "pos", "abs")
}
"""Python's arithmetic on numbers, by the name of the method."""
