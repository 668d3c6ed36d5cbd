"""The functions of captured graphs on the arrays of any device.

A graph is written down with NumPy's functions, whatever device it was captured on. These are the
same functions of a device: its own `xp`, and the primitives (`primitives.py`) in its terms.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends import Backend
from ..backends.array_surface import Index
from ..backends.numpy import Array
from . import primitives

__all__ = ["device_function", "dotted_name", "function_on"]

Function = Callable[..., Any]


@functools.cache
def dotted_name(function: Function) -> str:
    """Return the name of a function below `numpy`: "sum", "linalg.norm", "add.reduce"; or "".

    >>> dotted_name(np.linalg.norm), dotted_name(np.add.reduce)
    ('linalg.norm', 'add.reduce')
    """
    name = getattr(function, "__name__", "")
    owner = getattr(function, "__self__", None)
    if isinstance(owner, np.ufunc):
        return f"{owner.__name__}.{name}"
    module = getattr(function, "__module__", None) or "numpy"
    for path in (name, f"{module.removeprefix('numpy.')}.{name}"):
        try:
            member = operator.attrgetter(path)(np)
        except AttributeError:
            continue
        if member is function:
            return path
    return ""


def device_function(xp: Any, function: Function) -> Function:
    """Return the device's function for one of NumPy; any other is returned unchanged.

    Args:
        xp: the device's module in place of NumPy.

    Raises: AttributeError: the device has no such function.
    """
    path = dotted_name(function)
    return operator.attrgetter(path)(xp) if path else function


def function_on(backend: Backend, target: Function) -> Function:
    """Return a graph's function for the arrays of a device: an op's definition, or the function.

    Args:
        backend: the device that the call's arrays are on.

    Raises: AttributeError: the device has no such function.
    """
    op = getattr(target, "op", None)
    if op is not None:
        return functools.partial(op.forward, backend.xp)
    if target in PRIMITIVES:
        return functools.partial(PRIMITIVES[target], backend)
    return device_function(backend.xp, target)


# The primitives in the terms of a device ----------------------------------------------------------


def take(backend: Backend, input: Array, index: Index) -> Array:
    return input[index]


def set_item(backend: Backend, input: Array, index: Index, values: object) -> Array:
    y = input.copy()
    y[index] = values
    return y


def fill_like(backend: Backend, input: Array, values: object) -> Array:
    y = backend.xp.empty_like(input)
    y[...] = values
    return y


def apply_to_copy(
    backend: Backend, function: Function, input: Array, *args: Any, **kwargs: Any
) -> Array:
    y = input.copy()
    device_function(backend.xp, function)(y, *args, **kwargs)
    return y


def scatter_add(backend: Backend, input: Array, index: Index, values: Array) -> Array:
    y = input.copy()
    backend.scatter_add(y, index, values)
    return y


def as_array(backend: Backend, number: Any, dtype: np.dtype) -> Array:
    return backend.xp.asarray(number, dtype)


def to_device(backend: Backend, input: Array) -> Array:
    return backend.from_numpy(input)


def region(
    backend: Backend, input: Array, order: Sequence[int], offset: int, shape: Sequence[int],
    strides: Sequence[int], dtype: np.dtype,
) -> Array:  # fmt: skip
    memory = backend.xp.ascontiguousarray(input.transpose(order)).reshape(-1)
    return backend.as_strided(memory.view(dtype), shape, strides, offset)


def with_region(
    backend: Backend, input: Array, values: Array, order: Sequence[int], offset: int,
    shape: Sequence[int], strides: Sequence[int],
) -> Array:  # fmt: skip
    memory = input.transpose(order).copy()
    part = backend.as_strided(memory.reshape(-1).view(values.dtype), shape, strides, offset)
    part[...] = values
    return memory.transpose(tuple(int(axis) for axis in np.argsort(order)))


PRIMITIVES: dict[Function, Callable[..., Any]] = {
    primitives.take: take,
    primitives.set_item: set_item,
    primitives.fill_like: fill_like,
    primitives.apply_to_copy: apply_to_copy,
    primitives.scatter_add: scatter_add,
    primitives.copy: lambda backend, input: input.copy(),
    primitives.as_array: as_array,
    primitives.to_device: to_device,
    primitives.region: region,
    primitives.with_region: with_region,
}
"""The primitives that need something else than the methods of an array."""
