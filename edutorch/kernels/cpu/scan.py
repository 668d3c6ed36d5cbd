"""Cumulative sums, products and extremes along any axis, and the gradients of products.

Each element of a scan waits for the one before it, for four cycles and more. So four rows are
scanned at a time; along another axis than the last, so are some hundred adjacent columns, whose
running values fill vectors. Sums and products run in float64, as in the definitions.

An array is (outer, n, inner): the axes before the scanned one, that axis, those after it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from ... import ops
from ...backends.numpy import Array
from ...dtypes import dtype as DType
from ...ops import cumulative
from .along_axis import array_at, axis_layout, compile_along_axis
from .jit import (
    ARRAY_3D,
    FLOATS,
    INT64_3D,
    are_contiguous_floats,
    compile_kernel,
    contiguous_gradient,
    split_at_axis,
    use_wide_vectors,
)
from .parallel import MIN_PARALLEL, parallel_for
from .row_reduce import product
from .work_queue import claim_range

Run = Callable[..., Any]
COLUMN_BAND = 128
"""So many adjacent columns are scanned together."""

ROW_BAND = 4
"""So many rows are scanned together."""

SMALLEST = 1e-290
"""A product from here on can be divided by one of its factors; below, digits are lost."""


def scan(start, stop, like, addresses, lengths, is_product, backwards):
    """y = the sums or the products of x so far; the range counts bands of rows or of columns."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    x, y = array_at(addresses[0], like, lengths), array_at(addresses[1], like, lengths)
    outer, n, inner = lengths
    first = 1.0 if is_product else 0.0
    if inner == 1:
        for band in range(np.int64(start), np.int64(stop)):
            r = band * ROW_BAND
            # The last rows are scanned twice, if they do not fill a band: the result is the same.
            s, t, u = min(r + 1, outer - 1), min(r + 2, outer - 1), min(r + 3, outer - 1)
            a = b = c = d = first
            for step in range(n):
                k = np.uint64(n - 1 - step if backwards else step)
                if is_product:
                    a, b, c, d = a * x[r, k, 0], b * x[s, k, 0], c * x[t, k, 0], d * x[u, k, 0]
                else:
                    a, b, c, d = a + x[r, k, 0], b + x[s, k, 0], c + x[t, k, 0], d + x[u, k, 0]
                y[r, k, 0], y[s, k, 0], y[t, k, 0], y[u, k, 0] = a, b, c, d
        return
    bands, running = (inner + COLUMN_BAND - 1) // COLUMN_BAND, np.empty(COLUMN_BAND)
    for unit in range(np.int64(start), np.int64(stop)):
        block, left = unit // bands, unit % bands * COLUMN_BAND
        width = min(COLUMN_BAND, inner - left)
        for j in range(width):
            running[j] = first
        for step in range(n):
            k = n - 1 - step if backwards else step
            row, out = x[block, k, left : left + width], y[block, k, left : left + width]
            if is_product:
                for j in range(width):
                    running[j] *= row[j]
                    out[j] = running[j]
            else:
                for j in range(width):
                    running[j] += row[j]
                    out[j] = running[j]


@njit(forceinline=True)
def replaces(value, best):
    """Of equal ones the last counts; the first NaN stays, with the index of the last."""
    return (not value < best) and (best == best or value != value)


def scan_maxima(start, stop, x, values, indices):
    """The maxima of x so far, and their indices; the range counts bands of rows or columns."""
    start, stop = claim_range(start, stop)
    n, inner = x.shape[1], x.shape[2]
    if inner == 1:
        for r in range(start, stop):
            best, index = x[r, 0, 0], np.uint64(0)
            for k in range(np.uint64(n)):
                value = x[r, k, 0]
                if replaces(value, best):
                    best, index = value, k
                values[r, k, 0], indices[r, k, 0] = best, index
        return
    bands = (inner + COLUMN_BAND - 1) // COLUMN_BAND
    best, index = np.empty(COLUMN_BAND, x.dtype), np.zeros(COLUMN_BAND, np.int64)
    for unit in range(np.int64(start), np.int64(stop)):
        block, left = unit // bands, unit % bands * COLUMN_BAND
        width = min(COLUMN_BAND, inner - left)
        for j in range(width):
            best[j], index[j] = x[block, 0, left + j], 0
        for k in range(n):
            row, out = x[block, k, left : left + width], values[block, k, left : left + width]
            out_index = indices[block, k, left : left + width]
            for j in range(width):
                value, old = row[j], best[j]
                is_best = replaces(value, old)
                best[j] = value if is_best else old
                index[j] = k if is_best else index[j]
                out[j], out_index[j] = best[j], index[j]


def cumprod_gradient(start, stop, g, x, grad_input):
    """The product before i times g_i + x_{i+1} (g_{i+1} + x_{i+2} (…)): nothing is divided."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    n, inner = np.uint64(x.shape[1]), x.shape[2]
    if inner == 1:
        for r in range(start, stop):
            later, before = 0.0, 1.0
            for step in range(n):
                k = n - 1 - step
                later += g[r, k, 0]
                grad_input[r, k, 0] = later
                later *= x[r, k, 0]
            for k in range(n):
                grad_input[r, k, 0] *= before
                before *= x[r, k, 0]
        return
    bands, running = (inner + COLUMN_BAND - 1) // COLUMN_BAND, np.empty(COLUMN_BAND)
    for unit in range(np.int64(start), np.int64(stop)):
        block, left = unit // bands, unit % bands * COLUMN_BAND
        width = min(COLUMN_BAND, inner - left)
        for j in range(width):
            running[j] = 0
        for step in range(n):
            k = n - 1 - step
            row, gradient = x[block, k, left : left + width], g[block, k, left : left + width]
            out = grad_input[block, k, left : left + width]
            for j in range(width):
                later = gradient[j] + running[j]
                out[j] = later
                running[j] = later * row[j]
        for j in range(width):
            running[j] = 1
        for k in range(n):
            row, out = x[block, k, left : left + width], grad_input[block, k, left : left + width]
            for j in range(width):
                out[j] *= running[j]
                running[j] *= row[j]


@njit(forceinline=True)
def can_divide(products):
    """Whether all products can be divided by one of their factors."""
    result = True
    for j in range(products.size):
        result &= SMALLEST < abs(products[j]) < np.inf
    return result


@njit
def multiply_others(gradient, row, out):
    """The gradient times the product of all other elements of a row."""
    whole, n = product(row), row.size
    if SMALLEST < abs(whole) < np.inf:
        whole *= gradient
        for k in range(n):
            out[k] = whole / row[k]
        return
    # There is a 0, or the product has left the range: those before and after are multiplied.
    after, before = 1.0, np.float64(gradient)
    for step in range(n):
        k = np.uint64(n - 1 - step)
        out[k] = after
        after *= row[k]
    for k in range(n):
        out[k] *= before
        before *= row[k]


@njit
def multiply_other_rows(gradient, x, y, running):
    """The same for adjacent columns, where there is a 0 or a product has left the range."""
    n, width = np.uint64(x.shape[0]), gradient.size
    for j in range(width):
        running[j] = 1
    for step in range(n):
        row, out = x[n - 1 - step], y[n - 1 - step]
        for j in range(width):
            out[j] = running[j]
            running[j] *= row[j]
    for j in range(width):
        running[j] = gradient[j]
    for k in range(n):
        row, out = x[k], y[k]
        for j in range(width):
            out[j] *= running[j]
            running[j] *= row[j]


def prod_gradient(start, stop, g, x, grad_input):
    """g times the product of all other elements along the axis; g has one element for it."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    n, inner = np.uint64(x.shape[1]), x.shape[2]
    if inner == 1:
        for r in range(start, stop):
            multiply_others(g[r, 0, 0], x[r].reshape(-1), grad_input[r].reshape(-1))
        return
    bands, running = (inner + COLUMN_BAND - 1) // COLUMN_BAND, np.empty(COLUMN_BAND)
    for unit in range(np.int64(start), np.int64(stop)):
        block, left = unit // bands, unit % bands * COLUMN_BAND
        width = min(COLUMN_BAND, inner - left)
        for j in range(width):
            running[j] = 1
        for k in range(n):
            row = x[block, k, left : left + width]
            for j in range(width):
                running[j] *= row[j]
        gradient = g[block, 0, left : left + width]
        if can_divide(running[:width]):
            for j in range(width):
                running[j] *= gradient[j]
            for k in range(n):
                row = x[block, k, left : left + width]
                out = grad_input[block, k, left : left + width]
                for j in range(width):
                    out[j] = running[j] / row[j]
        else:
            columns = x[block, :, left : left + width], grad_input[block, :, left : left + width]
            multiply_other_rows(gradient, *columns, running)


# Makers ------------------------------------------------------------------------------------------


@functools.cache
def scan_entries() -> dict[np.dtype[Any], Any]:
    """Compile `scan`."""
    return compile_along_axis(scan, 2, types.boolean, types.boolean)


def count_bands(shape: tuple[int, int, int], rows: int = 1) -> int:
    """Return the number of bands of columns, or of so many rows where each column is alone."""
    outer, _, inner = shape
    return -(-outer // rows) if inner == 1 else outer * -(-inner // COLUMN_BAND)


def is_axis(input: Array, dim: Any) -> bool:
    """Whether a kernel can go along this axis."""
    if dim.__class__ is not int or input.__class__ is not np.ndarray or not input.flags.carray:
        return False
    ndim = input.ndim
    return -ndim <= dim < ndim and input.dtype in FLOATS and input.size > 0


@functools.lru_cache(1024)
def scan_layout(shape: tuple[int, ...], dim: int) -> tuple[tuple[int, int, int], int] | None:
    """Return the lengths of an array along an axis, and the number of its bands."""
    layout = axis_layout(shape, dim) if 0 not in shape else None
    return layout and (layout.lengths, count_bands(layout.lengths, ROW_BAND))


def scan_run(is_product: bool, backwards: bool = False) -> Run:
    """Make the sums or the products of the elements so far."""
    entries = scan_entries()

    def run(input: Array, dim: int, dtype: DType | None = None) -> np.ndarray | None:
        if dtype is not None or dim.__class__ is not int or input.__class__ is not np.ndarray:
            return None
        own_dtype = input.dtype
        entry, layout = entries.get(own_dtype), scan_layout(input.shape, dim)
        if entry is None or layout is None or not input.flags.c_contiguous:
            return None
        y = np.empty(input.shape, own_dtype)
        lengths, bands = layout
        arguments = 0.0, (id(input), id(y)), lengths, is_product, backwards
        if y.size < MIN_PARALLEL:
            entry(0, bands, *arguments)
        else:
            parallel_for(entry, bands, *arguments, work=y.size)
        return y

    return run


@ops.cumsum.kernel("cpu", min_size=256)
def cumsum() -> Run:
    """Make the forward of `cumsum`."""
    return scan_run(is_product=False)


@ops.cumsum.kernel("cpu", "input", min_size=256)
def cumsum_input() -> Run:
    """Make the rule of `cumsum`: the sum of g from the end."""
    return scan_run(is_product=False, backwards=True)


@ops.cumprod.kernel("cpu", min_size=256)
def cumprod() -> Run:
    """Make the forward of `cumprod`."""
    return scan_run(is_product=True)


@ops.cumprod.kernel("cpu", "input", min_size=256)
def cumprod_input() -> Run:
    """Make the rule of `cumprod`."""
    kernel = compile_kernel(cumprod_gradient, ARRAY_3D, ARRAY_3D, ARRAY_3D)

    def run(g: Array, input: Array, dim: int) -> np.ndarray | None:
        g = contiguous_gradient(g, input)
        if g is None or not is_axis(input, dim) or not are_contiguous_floats((g, input)):
            return None
        y, shape = np.empty_like(input), split_at_axis(input.shape, dim)
        arrays = [array.reshape(shape) for array in (g, input, y)]
        parallel_for(kernel, count_bands(shape), *arrays, work=input.size)
        return y

    return run


@cumulative.cum_minmax.kernel("cpu", min_size=256)
def cum_minmax() -> Run:
    """Make the forward of `cummax` and `cummin`."""
    kernel = compile_kernel(scan_maxima, ARRAY_3D, ARRAY_3D, INT64_3D)

    def run(input: Array, dim: int, largest: bool) -> tuple[np.ndarray, np.ndarray] | None:
        if not is_axis(input, dim):
            return None
        shape = split_at_axis(input.shape, dim)
        values, indices = np.empty(shape, input.dtype), np.empty(shape, np.int64)
        x = (input if largest else -input).reshape(shape)  # the minima: -max(-x)
        parallel_for(kernel, count_bands(shape), x, values, indices, work=input.size)
        values = values if largest else np.negative(values, out=values)
        return values.reshape(input.shape), indices.reshape(input.shape)

    return run


@ops.prod.kernel("cpu", "input", min_size=1)
def prod_input() -> Run:
    """Make the rule of `prod`."""
    kernel = compile_kernel(prod_gradient, ARRAY_3D, ARRAY_3D, ARRAY_3D)

    def run(g: Array, input: Array, dim: Any) -> np.ndarray | None:
        axis = dim[0] if dim.__class__ is tuple and len(dim) == 1 else dim
        x = input.reshape(-1) if axis is None and input.ndim else input
        axis = 0 if axis is None else axis
        if input.size < 256 or not is_axis(x, axis):
            return None
        shape = split_at_axis(x.shape, axis)
        if g.size * shape[1] != x.size or g.dtype != x.dtype:
            return None
        y, shape = np.empty_like(x), split_at_axis(x.shape, axis)
        gradient = np.array(g).reshape(shape[0], 1, shape[2])
        parallel_for(
            kernel, count_bands(shape), gradient, x.reshape(shape), y.reshape(shape), work=x.size
        )
        return y.reshape(input.shape)

    return run
