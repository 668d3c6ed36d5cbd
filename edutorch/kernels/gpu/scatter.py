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

    The index is one array of integers for the first axis.
    """

    def run(target: Array, index: object, values: Array) -> Array | None:
        rows = row_indices(target, index)
        inner = math.prod(target.shape[1:])
        if rows is None or not target.flags.c_contiguous or not is_supported(target, values):
            return None
        shape = (*rows.shape, *target.shape[1:])
        if values.shape != shape or inner > MAX_ROW_SIZE or rows.size > MAX_ROWS:
            return None
        xp = backends.of(target).xp
        flat = rows.reshape(-1)
        # A negative index counts from the end, as everywhere.
        flat = xp.where(flat < 0, flat + target.shape[0], flat).astype("int64", copy=False)
        # Stable: rows are added in the order in which they come.
        order = xp.argsort(flat, kind="stable")
        arguments = target, flat[order], order, xp.ascontiguousarray(values)
        sizes = np.int64(flat.size), np.int32(inner), np.int64(target.shape[0])
        module = module_for("scatter", target.dtype.name)
        launch(module, "add_sorted_rows", flat.size, row_threads(inner), (*arguments, *sizes))
        return target

    return run


def row_indices(target: Array, index: Any) -> Array | None:
    """Return the indices of rows; None if an index is something else, or not of the device."""
    if index.__class__ is tuple:
        index = index[0] if len(index) == 1 else None
    is_array = index.__class__ is target.__class__ and target.ndim > 0
    return index if is_array and index.dtype.kind in "iu" and index.size else None
