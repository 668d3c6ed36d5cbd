"""softmax and log_softmax, and their derivatives, row by row.

The definitions go through the memory once for the peak, the difference, the exponential, the sum
and the quotient, each time over all rows. Here all of this is done to one row while it is in the
cache, so that each number comes from the memory once. Along another axis than the last, many
neighbouring columns are gone through at a time, as if they were one number.

Cross entropy is made of these: its loss and its gradient touch one number of each row besides.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .batched_matmul import INTEGERS
from .jit import BLOCKS, FLAG, ROW, TABLE, alike, compiled, filled, outside_in, wide
from .parallel import in_parts
from .row_reduce import dot, largest, total
from .vector_math import exp_below
from .work_queue import share_out

Run = Callable[..., Any]
COLUMNS = 512
"""So many neighbouring columns are gone through at a time: their sums stay in the first cache."""


# Along the last axis -----------------------------------------------------------------------


def softmax_rows(start, stop, x, y):
    """y = exp(x - peak) / Σ exp(x - peak) of each row."""
    start, stop = share_out(start, stop)
    wide()
    number = x.dtype.type
    for r in range(start, stop):
        row, out = x[r], y[r]
        peak = largest(row)
        for i in range(row.size):
            out[i] = exp_below(row[i] - peak)
        scale = number(1 / total(out))
        for i in range(row.size):
            out[i] *= scale


def log_softmax_rows(start, stop, x, y):
    """y = x - peak - log Σ exp(x - peak) of each row."""
    start, stop = share_out(start, stop)
    wide()
    number = x.dtype.type
    for r in range(start, stop):
        row, out = x[r], y[r]
        peak = largest(row)
        for i in range(row.size):
            out[i] = exp_below(row[i] - peak)
        shift = number(math.log(total(out)))
        for i in range(row.size):
            out[i] = row[i] - peak - shift


def softmax_rows_back(start, stop, g, y, back):
    """y · (g - Σ g·y) of each row."""
    start, stop = share_out(start, stop)
    wide()
    number = y.dtype.type
    for r in range(start, stop):
        given, row, out = g[r], y[r], back[r]
        mean = number(dot(given, row))
        for i in range(row.size):
            out[i] = row[i] * (given[i] - mean)


def log_softmax_rows_back(start, stop, g, y, back):
    """g - exp(y) · Σ g of each row."""
    start, stop = share_out(start, stop)
    wide()
    number = y.dtype.type
    for r in range(start, stop):
        given, row, out = g[r], y[r], back[r]
        mass = number(total(given))
        for i in range(row.size):
            out[i] = given[i] - exp_below(row[i]) * mass


def log_softmax_rows_spots(start, stop, values, columns, y, back):
    """The same where g is 0 but for one number in each row."""
    start, stop = share_out(start, stop)
    wide()
    for r in range(start, stop):
        row, out, mass = y[r], back[r], values[r]
        for i in range(row.size):
            out[i] = -exp_below(row[i]) * mass
        out[columns[r]] += mass


# Along another axis ------------------------------------------------------------------------


def softmax_columns(start, stop, x, y, logarithm):
    """The same of each column of blocks (outer, n, inner), for `COLUMNS` of them at a time."""
    start, stop = share_out(start, stop)
    wide()
    number = x.dtype.type
    n, inner = x.shape[1], x.shape[2]
    bands = (inner + COLUMNS - 1) // COLUMNS
    peaks, sums = np.empty(COLUMNS, x.dtype), np.empty(COLUMNS, x.dtype)
    for index in range(start, stop):
        band = np.int64(index)
        at = band % bands * COLUMNS
        size = min(COLUMNS, inner - at)
        table, out = x[band // bands], y[band // bands]
        peak, mass = peaks[:size], sums[:size]
        for i in range(size):
            peak[i], mass[i] = -np.inf, 0
        for k in range(n):
            row = table[k, at : at + size]
            for i in range(size):
                peak[i] = peak[i] if row[i] < peak[i] else row[i]
        for k in range(n):
            row, to = table[k, at : at + size], out[k, at : at + size]
            for i in range(size):
                to[i] = exp_below(row[i] - peak[i])
                mass[i] += to[i]
        for i in range(size):
            mass[i] = number(math.log(mass[i])) if logarithm else number(1) / mass[i]
        for k in range(n):
            row, to = table[k, at : at + size], out[k, at : at + size]
            if logarithm:
                for i in range(size):
                    to[i] = row[i] - peak[i] - mass[i]
            else:
                for i in range(size):
                    to[i] *= mass[i]


def softmax_columns_back(start, stop, g, y, back, logarithm):
    """The derivative, for blocks (outer, n, inner)."""
    start, stop = share_out(start, stop)
    wide()
    n, inner = y.shape[1], y.shape[2]
    bands = (inner + COLUMNS - 1) // COLUMNS
    sums = np.empty(COLUMNS, y.dtype)
    for index in range(start, stop):
        band = np.int64(index)
        at = band % bands * COLUMNS
        size = min(COLUMNS, inner - at)
        block = band // bands
        mass = sums[:size]
        for i in range(size):
            mass[i] = 0
        for k in range(n):
            given, row = g[block, k, at : at + size], y[block, k, at : at + size]
            for i in range(size):
                mass[i] += given[i] if logarithm else given[i] * row[i]
        for k in range(n):
            given, row = g[block, k, at : at + size], y[block, k, at : at + size]
            to = back[block, k, at : at + size]
            if logarithm:
                for i in range(size):
                    to[i] = given[i] - exp_below(row[i]) * mass[i]
            else:
                for i in range(size):
                    to[i] = row[i] * (given[i] - mass[i])


# The makers --------------------------------------------------------------------------------


def forward(rows: Any, columns: Any, logarithm: bool) -> Run:
    """Join the two ways of a forward."""

    def run(input: Any, dim: int, dtype: Any) -> np.ndarray | None:
        if dtype is not None or not alike((input,)) or not usable(input, dim):
            return None
        y = np.empty_like(input)
        outer, n, inner = outside_in(input.shape, dim)
        if inner == 1:
            in_parts(rows, outer, input.reshape(outer, n), y.reshape(outer, n), work=y.size)
        else:
            shape, bands = (outer, n, inner), -(-inner // COLUMNS)
            arrays = input.reshape(shape), y.reshape(shape)
            in_parts(columns, outer * bands, *arrays, logarithm, work=y.size)
        return y

    return run


def backward(rows: Any, columns: Any, logarithm: bool) -> Run:
    """Join the two ways of a derivative."""

    def run(g: Any, y: Any, dim: int) -> np.ndarray | None:
        if not alike((y, g := filled(g, y))) or not usable(y, dim):
            return None
        back = np.empty_like(y)
        outer, n, inner = outside_in(y.shape, dim)
        if inner == 1:
            arrays = [each.reshape(outer, n) for each in (g, y, back)]
            in_parts(rows, outer, *arrays, work=y.size)
        else:
            arrays = [each.reshape(outer, n, inner) for each in (g, y, back)]
            in_parts(columns, outer * -(-inner // COLUMNS), *arrays, logarithm, work=y.size)
        return back

    return run


@functools.cache
def columns_kernel() -> Any:
    """Compile what both forwards use."""
    return compiled(softmax_columns, BLOCKS, BLOCKS, FLAG)


@functools.cache
def columns_back_kernel() -> Any:
    """Compile what both derivatives use."""
    return compiled(softmax_columns_back, BLOCKS, BLOCKS, BLOCKS, FLAG)


def usable(array: np.ndarray, dim: Any) -> bool:
    """Say whether there is something along this axis."""
    return array.size > 0 and dim.__class__ is int and -array.ndim <= dim < array.ndim


def softmax() -> Run:
    """Make the forward of `softmax`."""
    return forward(compiled(softmax_rows, TABLE, TABLE), columns_kernel(), False)


def log_softmax() -> Run:
    """Make the forward of `log_softmax`."""
    return forward(compiled(log_softmax_rows, TABLE, TABLE), columns_kernel(), True)


def softmax_input() -> Run:
    """Make y · (g - Σ g·y)."""
    return backward(compiled(softmax_rows_back, *[TABLE] * 3), columns_back_kernel(), False)


def log_softmax_input() -> Run:
    """Make g - exp(y) · Σ g."""
    return backward(compiled(log_softmax_rows_back, *[TABLE] * 3), columns_back_kernel(), True)


def log_softmax_spots() -> Run:
    """Make the derivative of `log_softmax` for a gradient that is `Spots`."""
    kernel = compiled(log_softmax_rows_spots, ROW, INTEGERS, TABLE, TABLE)

    def run(g: Any, y: Any) -> np.ndarray | None:
        columns = g.columns
        if not alike((y,), g.kind) or columns.dtype != np.int64:
            return None
        back = np.empty_like(y)
        in_parts(kernel, len(y), g.values, np.ascontiguousarray(columns), y, back, work=y.size)
        return back

    return run
