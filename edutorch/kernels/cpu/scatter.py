"""Numbers added at places that may occur several times: the other way of picking rows.

NumPy's `add.at` asks itself at each number where it belongs. Here the places of whole rows are
worked out first, and then rows are added to rows. The threads share out the columns, not the
rows: two of them never add to the same number, and the sum is always made in the same order.
Where axes that are taken whole come first, each thread has some of the blocks that these make.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .batched_matmul import INTEGERS, WHOLE
from .jit import ROW, alike, compiled
from .parallel import in_parts
from .work_queue import share_out

__all__ = ["add_at"]

COLUMNS = 16
"""Columns are handed out by so many."""


def add_rows(start, stop, target, places, values, inner):
    """target[places[i]] += values[i], in some of the columns of rows that are `inner` long."""
    start, stop = share_out(start, stop)
    left, right = np.int64(start) * COLUMNS, min(np.int64(stop) * COLUMNS, inner)
    for i in range(places.size):
        at = places[i] * inner
        row, more = target[at + left : at + right], values[i * inner + left : i * inner + right]
        for j in range(row.size):
            row[j] += more[j]


def add_numbers(start, stop, target, places, values):
    """The same for rows of one number."""
    start, stop = share_out(start, stop)
    for i in range(start, stop):
        target[places[i]] += values[i]


def add_in_blocks(start, stop, target, places, values, length, inner):
    """The same in each of many blocks, which have `length` rows."""
    start, stop = share_out(start, stop)
    for block in range(np.int64(start), np.int64(stop)):
        here = target[block * length * inner : (block + 1) * length * inner]
        those = values[block * places.size * inner : (block + 1) * places.size * inner]
        if inner == 1:
            for i in range(places.size):
                here[places[i]] += those[i]
            continue
        for i in range(places.size):
            at = places[i] * inner
            row, more = here[at : at + inner], those[i * inner : (i + 1) * inner]
            for j in range(row.size):
                row[j] += more[j]


def add_at() -> Callable[..., Any]:
    """Make `target[index] += values`, in place; it returns `target`.

    The index has arrays of integers for some axes in a row, and takes the others whole.
    """
    rows = compiled(add_rows, ROW, INTEGERS, ROW, WHOLE)
    numbers = compiled(add_numbers, ROW, INTEGERS, ROW)
    blocks = compiled(add_in_blocks, ROW, INTEGERS, ROW, WHOLE, WHOLE)

    def run(target: Any, index: Any, values: Any) -> Any:
        if not alike((target,)) or values.dtype != target.dtype:
            return None
        first = whole_before(index)
        outer, shape = target.shape[:first], target.shape[first:]
        found = positions(index[first:] if first else index, shape)
        if found is None:
            return None
        places, rest = found
        wanted = (*outer, *places.shape, *rest)
        if values.shape != wanted:
            values = np.broadcast_to(values, wanted)
        inner, flat = math.prod(rest), target.reshape(-1)
        places, values = places.reshape(-1), np.ascontiguousarray(values).reshape(-1)
        if first:
            length = math.prod(shape) // max(inner, 1)
            in_parts(
                blocks, math.prod(outer), flat, places, values, length, inner, work=values.size
            )
        elif inner == 1:
            numbers(0, places.size, flat, places, values)
        else:
            in_parts(rows, -(-inner // COLUMNS), flat, places, values, inner, work=values.size)
        return target

    return run


def whole_before(index: Any) -> int:
    """Return how many axes an index takes whole before it picks."""
    parts = index if isinstance(index, tuple) else ()
    return next((at for at, part in enumerate(parts) if not is_whole(part)), 0)


def positions(index: Any, shape: tuple[int, ...]) -> tuple[Any, tuple[int, ...]] | None:
    """Return the numbers of the rows that an index means, and the shape of such a row."""
    parts = index if isinstance(index, tuple) else (index,)
    while parts and (parts[-1] is Ellipsis or is_whole(parts[-1])):
        parts = parts[:-1]
    if not parts or len(parts) > len(shape):
        return None
    places: Any = 0
    for part, size in zip(parts, shape, strict=False):
        if part.__class__ is not np.ndarray or part.dtype.kind not in "iu" or not part.size:
            return None
        lowest = part.min()
        if lowest < -size or part.max() >= size:
            return None  # NumPy says what is wrong
        part = part.astype(np.int64, copy=False)
        places = places * size + (part if lowest >= 0 else np.where(part < 0, part + size, part))
    return np.ascontiguousarray(places), shape[len(parts) :]


def is_whole(part: Any) -> bool:
    """Say whether a part of an index is `:`."""
    return isinstance(part, slice) and part == slice(None)
