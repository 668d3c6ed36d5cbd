"""Values added at indices that may repeat, on a GPU (`scatter.cu`): sorted, without atomics."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import backends
from ...backends import numpy
from ...backends.numpy import Array
from .module import launch
from .row_launch import MAX_ROW_SIZE, MAX_ROWS, is_supported, module_for, row_threads

Run = Callable[..., Any]


@numpy.ADD_AT.kernel("cuda", min_size=0)
def add_at() -> Run:
    """Make the in-place `target[index] += values`, which returns `target`.

    The index is an array of integers for one axis, after full slices or none, or an array for each
    axis.
    """

    def run(target: Array, index: object, values: Array) -> Array | None:
        indices = row_indices(target, index)
        if indices is None or not target.flags.c_contiguous or not is_supported(target, values):
            return None
        rows, count, shape = indices
        inner = target.size // count
        if values.shape != shape or inner > MAX_ROW_SIZE or rows.size > MAX_ROWS:
            return None
        xp = backends.of(target).xp
        # Stable: rows are added in the order in which they come.
        order = xp.argsort(rows, kind="stable")
        arguments = target, rows[order], order, xp.ascontiguousarray(values)
        sizes = np.int64(rows.size), np.int32(inner)
        module = module_for("scatter", target.dtype.name)
        launch(module, "add_sorted_rows", rows.size, row_threads(inner), (*arguments, *sizes))
        return target

    return run


def row_indices(target: Array, index: Any) -> tuple[Array, int, tuple[int, ...]] | None:
    """Return the rows that an index selects, if `target` is seen as a table of rows.

    Returns: their numbers, one axis of int64; how many rows `target` has; the shape of what the
        index selects. None for another index than those of `add_at`, or one of another device.
    """
    parts = index if index.__class__ is tuple else (index,)
    leading = 0
    while leading < len(parts) and is_full_slice(parts[leading]):
        leading += 1
    arrays = parts[leading:]
    if not arrays or len(parts) > target.ndim or (leading and len(arrays) > 1):
        return None
    if any(array.__class__ is not target.__class__ for array in arrays):
        return None
    if any(array.dtype.kind not in "iu" or not array.size for array in arrays):
        return None
    if 1 < len(arrays) < target.ndim:
        return None
    xp, sizes = backends.of(target).xp, target.shape[leading:]
    rows = in_range_or_outside(xp, arrays[0], sizes[0])
    for size, array in zip(sizes[1:], arrays[1:], strict=False):
        column = in_range_or_outside(xp, array, size)
        rows = xp.where((rows < 0) | (column < 0), OUTSIDE, rows * size + column)
    outer = math.prod(target.shape[:leading])
    rows_shape, flat = rows.shape, rows.reshape(1, -1)
    if leading:
        first = xp.arange(outer).reshape(-1, 1) * sizes[0]
        flat = xp.where(flat < 0, OUTSIDE, flat + first)
    inner = target.shape[leading + len(arrays) :]
    count = outer * math.prod(sizes[: len(arrays)])
    return flat.reshape(-1), count, (*target.shape[:leading], *rows_shape, *inner)


def is_full_slice(part: Any) -> bool:
    """Whether a part of an index is `:`."""
    return part.__class__ is slice and part == slice(None)


OUTSIDE = -1
"""The row of an index that is out of range: the kernel adds nothing there."""


def in_range_or_outside(xp: numpy.Namespace, index: Array, size: int) -> Array:
    """Return an index as int64, with negative ones counted from the end, as everywhere."""
    index = index.astype("int64", copy=False)
    index = xp.where(index < 0, index + size, index)
    return xp.where((index < 0) | (index >= size), OUTSIDE, index)
