"""Sums, means, variances and peaks along the last axes, or over everything; sums of columns.

NumPy adds up a row with few numbers at a time, by one thread, and makes an array of all squared
distances for a variance. Here a row is read once by wide registers, and a long one is cut into
pieces that several threads take. What the pieces give is added up in float64, in their order:
the result does not depend on how many threads there are.

Along the first axes whole rows are added to each other, four at a time, and each thread has columns
of its own. Along others they are left to NumPy.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .jit import DOUBLES, FLAG, ROW, TABLE, alike, compiled, wide
from .parallel import in_parts
from .row_reduce import highest, spread, total
from .work_queue import share_out

Run = Callable[..., Any]
PIECE = 65_536
"""So many numbers of a row are one piece."""

BAND = 16
"""Columns are handed out by so many: those of float32 fill a line of the cache."""

ADDED_AT_ONCE = 8
"""So many numbers of neighbouring columns take as long as one number takes in other kernels."""


def pieces(start, stop, x, centres, distances, found):
    """Σ x or Σ (x - centre)² of each piece; `found` has a row for each row of x."""
    start, stop = share_out(start, stop)
    wide()
    count = found.shape[1]
    for index in range(start, stop):
        r, piece = np.int64(index) // count, np.int64(index) % count
        part = x[r, piece * PIECE : (piece + 1) * PIECE]
        found[r, piece] = spread(part, centres[r]) if distances else total(part)


def columns(start, stop, x, y):
    """Σ x of each column; start, stop count bands."""
    start, stop = share_out(start, stop)
    wide()
    left, right = np.int64(start) * BAND, min(np.int64(stop) * BAND, x.shape[1])
    sums, whole = np.zeros(right - left), x.shape[0] // 4 * 4
    for r in range(0, whole, 4):
        a, b = x[r, left:right], x[r + 1, left:right]
        c, d = x[r + 2, left:right], x[r + 3, left:right]
        for j in range(sums.size):
            sums[j] += (a[j] + b[j]) + (c[j] + d[j])
    for r in range(whole, x.shape[0]):
        row = x[r, left:right]
        for j in range(sums.size):
            sums[j] += row[j]
    y[left:right] = sums


def peaks(start, stop, x, y):
    """The largest number of each row, NaN if there is one."""
    start, stop = share_out(start, stop)
    wide()
    for r in range(start, stop):
        y[r] = highest(x[r])


@functools.cache
def pieces_kernel() -> Any:
    """Compile what sums and variances use."""
    return compiled(pieces, TABLE, ROW, FLAG, DOUBLES)


def by_pieces(table: np.ndarray, centres: np.ndarray | None = None) -> np.ndarray:
    """Return Σ x of each row, or Σ (x - centre)², as float64."""
    rows, n = table.shape
    found = np.empty((rows, -(-n // PIECE)))
    distances, centres = centres is not None, table[:, 0] if centres is None else centres
    centres = np.ascontiguousarray(centres)
    in_parts(pieces_kernel(), found.size, table, centres, distances, found, work=table.size)
    return found[:, 0] if found.shape[1] == 1 else found.sum(1)


def as_rows(input: Any, dim: Any) -> np.ndarray | None:
    """Return an array as rows that are to be reduced; None unless these are the last axes."""
    dims = tuple(range(input.ndim)) if dim is None else (dim,) if dim.__class__ is int else dim
    kept = input.ndim - len(dims)
    last = tuple(range(kept, input.ndim))
    if not input.size or not dims or tuple(sorted(dims)) != last or not alike((input,)):
        return None
    return input.reshape(-1, math.prod(input.shape[kept:]))


def as_columns(input: Any, dim: Any) -> np.ndarray | None:
    """Return an array as columns that are to be summed; None unless its first axes are."""
    dims = dim if dim.__class__ is tuple else (dim,)
    first = len(dims)
    if tuple(sorted(dims)) != tuple(range(first)) or not 0 < first < input.ndim:
        return None
    if not input.size or not alike((input,)):
        return None
    table = input.reshape(math.prod(input.shape[:first]), -1)
    return table if table.shape[1] >= 2 * BAND else None


def shaped(values: np.ndarray, input: Any, dim: Any, keepdim: bool) -> Any:
    """Return what was found in the type of the input, and in the shape that is due."""
    dims = range(input.ndim) if dim is None else (dim,) if dim.__class__ is int else dim
    kept = tuple(1 if axis in dims else size for axis, size in enumerate(input.shape))
    if not keepdim:
        kept = tuple(size for axis, size in enumerate(input.shape) if axis not in dims)
    with np.errstate(over="ignore"):  # the sum of numbers of float32 may be none of these
        return values.astype(input.dtype, copy=False).reshape(kept)


def sum() -> Run:
    """Make the forward of `sum`."""
    pieces_kernel()
    by_columns = compiled(columns, TABLE, ROW)

    def run(input: Any, dim: Any, keepdim: bool, dtype: Any) -> np.ndarray | None:
        if dtype is not None:
            return None
        rows = as_rows(input, dim)
        if rows is not None:
            return shaped(by_pieces(rows), input, dim, keepdim)
        table = as_columns(input, dim)
        if table is None:
            return None
        y = np.empty(table.shape[1], table.dtype)
        in_parts(by_columns, -(-y.size // BAND), table, y, work=table.size // ADDED_AT_ONCE)
        return shaped(y, input, dim, keepdim)

    return run


def mean() -> Run:
    """Make the forward of `mean`."""
    pieces_kernel()

    def run(input: Any, dim: Any, keepdim: bool, dtype: Any) -> np.ndarray | None:
        rows = as_rows(input, dim) if dtype is None else None
        if rows is None:
            return None
        return shaped(by_pieces(rows) / rows.shape[1], input, dim, keepdim)

    return run


def var() -> Run:
    """Make the forward of `var`."""
    pieces_kernel()

    def run(input: Any, dim: Any, keepdim: bool, correction: float) -> np.ndarray | None:
        rows = as_rows(input, dim)
        if rows is None or rows.shape[1] <= correction:
            return None
        n = rows.shape[1]
        with np.errstate(over="ignore"):
            centres = (by_pieces(rows) / n).astype(rows.dtype)
        squares = by_pieces(rows, centres) / (n - correction)
        return shaped(squares, input, dim, keepdim)

    return run


def amax() -> Run:
    """Make the forward of `amax`."""
    kernel = compiled(peaks, TABLE, ROW)

    def run(input: Any, dim: Any, keepdim: bool) -> np.ndarray | None:
        rows = as_rows(input, dim)
        if rows is None:
            return None
        y = np.empty(len(rows), rows.dtype)
        in_parts(kernel, len(rows), rows, y, work=rows.size)
        return shaped(y, input, dim, keepdim)

    return run
