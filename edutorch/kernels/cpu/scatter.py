"""Scatter-add: values added at indices that may repeat, the gradient of indexing.

NumPy's `add.at` resolves the index for each element. Here the indices of whole rows are resolved
first, and then rows are added to rows. The threads divide the columns, not the rows: two of them
never add to the same element, and the order of summation is fixed. If the index starts with full
slices, each thread has some of the blocks that these select.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends import numpy
from ...backends.kernel_registry import as_ndarray
from ...backends.numpy import Array
from .jit import ARRAY_1D, INT64, INT64_1D, are_contiguous_floats, compile_kernel
from .parallel import parallel_for
from .work_queue import claim_range

__all__ = ["add_at"]

COLUMN_BAND = 16
"""The columns are divided in units of so many."""


def add_rows(start, stop, target, indices, values, inner):
    """target[indices[i]] += values[i], in some of the columns of rows of `inner` elements."""
    start, stop = claim_range(start, stop)
    # Signed, as `inner` is: of a uint64 and an int64, numba's `min` makes a float64.
    left, right = np.int64(start) * COLUMN_BAND, min(np.int64(stop) * COLUMN_BAND, inner)
    for i in range(indices.size):
        at = indices[i] * inner
        row, more = target[at + left : at + right], values[i * inner + left : i * inner + right]
        for j in range(row.size):
            row[j] += more[j]


def add_elements(start, stop, target, indices, values):
    """The same for rows of one element."""
    start, stop = claim_range(start, stop)
    for i in range(start, stop):
        target[indices[i]] += values[i]


def add_in_blocks(start, stop, target, indices, values, length, inner):
    """The same in each of some blocks of `length` rows."""
    start, stop = claim_range(start, stop)
    for block in range(np.int64(start), np.int64(stop)):
        here = target[block * length * inner : (block + 1) * length * inner]
        those = values[block * indices.size * inner : (block + 1) * indices.size * inner]
        # For one element, slices and a loop would take longer than the addition.
        if inner == 1:
            for i in range(indices.size):
                here[indices[i]] += those[i]
            continue
        for i in range(indices.size):
            at = indices[i] * inner
            row, more = here[at : at + inner], those[i * inner : (i + 1) * inner]
            for j in range(row.size):
                row[j] += more[j]


@numpy.ADD_AT.kernel("cpu", min_size=4096)
def add_at() -> Callable[..., Any]:
    """Make the in-place `target[index] += values`, which returns `target`.

    The index has integer arrays for some consecutive axes, and full slices for the others.
    """
    rows = compile_kernel(add_rows, ARRAY_1D, INT64_1D, ARRAY_1D, INT64)
    elements = compile_kernel(add_elements, ARRAY_1D, INT64_1D, ARRAY_1D)
    blocks = compile_kernel(add_in_blocks, ARRAY_1D, INT64_1D, ARRAY_1D, INT64, INT64)

    def run(target: Array, index: object, values: Array) -> Any:
        target, values = as_ndarray(target), as_ndarray(values)
        if not are_contiguous_floats((target,)) or values.dtype != target.dtype:
            return None
        leading = count_leading_slices(index)
        outer, shape = target.shape[:leading], target.shape[leading:]
        row_indices = flat_row_indices(index[leading:] if leading else index, shape)
        if row_indices is None:
            return None
        indices, row_shape = row_indices
        values_shape = (*outer, *indices.shape, *row_shape)
        if values.shape != values_shape:
            values = np.broadcast_to(values, values_shape)
        inner, flat = math.prod(row_shape), target.reshape(-1)
        indices, values = indices.reshape(-1), np.ascontiguousarray(values).reshape(-1)
        if leading:
            # An axis of length 0 makes `inner` 0.
            length = math.prod(shape) // max(inner, 1)
            parallel_for(
                blocks, math.prod(outer), flat, indices, values, length, inner, work=values.size
            )
        elif inner == 1:  # one thread: two might add to the same element at the same time
            elements(0, indices.size, flat, indices, values)
        else:
            parallel_for(
                rows, -(-inner // COLUMN_BAND), flat, indices, values, inner, work=values.size
            )
        return target

    return run


def count_leading_slices(index: object) -> int:
    """Return the number of full slices at the start of an index."""
    parts = index if isinstance(index, tuple) else ()
    return next((at for at, part in enumerate(parts) if not is_full_slice(part)), 0)


def flat_row_indices(index: object, shape: tuple[int, ...]) -> tuple[Any, tuple[int, ...]] | None:
    """Return the flat indices of the rows that an index selects, and the shape of a row."""
    parts = index if isinstance(index, tuple) else (index,)
    # A full slice at the end selects whole rows, as leaving it away does.
    while parts and (parts[-1] is Ellipsis or is_full_slice(parts[-1])):
        parts = parts[:-1]
    if not parts or len(parts) > len(shape):
        return None
    indices: Any = 0
    for part, size in zip(map(as_ndarray, parts), shape, strict=False):
        if part.__class__ is not np.ndarray or part.dtype.kind not in "iu" or not part.size:
            return None
        lowest = part.min()  # compiled code does not check bounds: an index outside is memory lost
        if lowest < -size or part.max() >= size:
            return None  # NumPy says what is wrong
        part = part.astype(np.int64, copy=False)
        # Horner's scheme gives the flat index, and the index arrays broadcast on the way.
        indices = indices * size + (part if lowest >= 0 else np.where(part < 0, part + size, part))
    return np.ascontiguousarray(indices), shape[len(parts) :]


def is_full_slice(part: object) -> bool:
    """Whether a part of an index is `:`."""
    return isinstance(part, slice) and part == slice(None)
