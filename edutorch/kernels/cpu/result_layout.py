"""The memory of an elementwise result: its axes are in the order that NumPy would choose."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...backends.numpy import Array
from .array_blocks import MAX_DIMS

__all__ = ["broadcast_shape", "empty_result"]


@functools.lru_cache(4096)
def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape to which shapes broadcast. None: a case for the definition."""
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:  # the definition says it better
        return None
    return shape if len(shape) <= MAX_DIMS else None


class Layout(NamedTuple):
    """The shape of a result, and how it is in memory.

    Attributes:
        in_memory: its shape there, from the axis with the largest steps on.
        axes: the axes of that one in the result's order; None if it is the same.
    """

    shape: tuple[int, ...]
    in_memory: tuple[int, ...]
    axes: tuple[int, ...] | None

    def make(self, dtype: np.dtype[Any]) -> Any:
        """Return an empty array."""
        y = np.empty(self.in_memory, dtype)
        return y if self.axes is None else y.transpose(self.axes)


def result_layout(arrays: Sequence[Array]) -> Layout | None:
    """Return the layout of a result as NumPy would choose it. None: a case for the definition."""
    shape = broadcast_shape(*[array.shape for array in arrays])
    if shape is None:
        return None
    if all(array.flags.c_contiguous for array in arrays):
        return Layout(shape, shape, None)
    strides = [
        (0,) * (len(shape) - array.ndim)
        + tuple(
            0 if n == 1 else abs(step) for n, step in zip(array.shape, array.strides, strict=True)
        )
        for array in arrays
    ]
    order: list[int] = []
    for axis in reversed(range(len(shape))):
        # Sorted by insertion, as by NumPy's iterator: an axis passes those that it is outside of.
        position = 0
        for index, other in enumerate(order):
            steps = [(own[axis], own[other]) for own in strides if own[axis] and own[other]]
            if steps and all(a <= b for a, b in steps) and any(a < b for a, b in steps):
                position = index + 1
        order.insert(position, axis)
    axes = None if order == sorted(order) else tuple(np.argsort(order).tolist())
    return Layout(shape, tuple([shape[axis] for axis in order]), axes)


LAYOUTS: dict[Any, Layout | None] = {}
MAX_LAYOUTS = 4096
"""The layouts that are kept, by the shapes and strides of the operands."""


def empty_result(arrays: Sequence[Array], dtype: np.dtype[Any]) -> Any:
    """Return an empty array for a result. None: a case for the definition."""
    key = tuple([(array.shape, array.strides) for array in arrays])
    try:
        layout = LAYOUTS[key]
    except KeyError:
        if len(LAYOUTS) >= MAX_LAYOUTS:
            LAYOUTS.clear()
        layout = LAYOUTS[key] = result_layout(arrays)
    return None if layout is None else layout.make(dtype)
