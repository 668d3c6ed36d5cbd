"""softmax, log_softmax and logsumexp, and their derivatives, row by row.

The definitions go through the memory once for the maximum, the difference, the exponential, the
sum and the quotient, each time over all rows. Here all of this is done to one row while it is in
the cache, so that each element is read from memory once. Along another axis than the last, many
adjacent columns are processed together.

Cross entropy uses these: its loss and its gradient touch one more element of each row.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types

from ... import ops
from ...backends.numpy import Array
from ...dtypes import dtype as DType
from ...ops.reduction import LOG_SOFTMAX_KERNEL
from .along_axis import array_at, axis_layout, compile_along_axis
from .jit import (
    ARRAY_1D,
    ARRAY_2D,
    ARRAY_3D,
    BOOL,
    INT64_1D,
    are_contiguous_floats,
    as_rows_of,
    compile_kernel,
    contiguous_gradient,
    is_contiguous_float,
    split_at_axis,
    use_wide_vectors,
)
from .parallel import MIN_PARALLEL, parallel_for
from .row_reduce import (
    BLOCK,
    add_compensated,
    block_total,
    compensated_total,
    dot,
    max_or_any,
    row_max,
    total,
)
from .vector_math import exp_nonpositive
from .work_queue import claim_range

Run = Callable[..., Any]
Dims = int | tuple[int, ...] | None
COLUMN_BAND = 512
"""So many adjacent columns are processed together: their sums stay in the L1 cache."""


# Along the last axis -----------------------------------------------------------------------


def softmax_rows(start, stop, like, addresses, lengths, logarithm):
    """y = exp(x - max) / Σ exp(x - max) of each row, or its logarithm, x - max - log Σ.

    Args:
        addresses: of x and of y.
    """
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    shape = lengths[:2]
    x, y = array_at(addresses[0], like, shape), array_at(addresses[1], like, shape)
    number = x.dtype.type
    for r in range(start, stop):
        row, out = x[r], y[r]
        # Without it, eˣ overflows from 89 on in float32; with it, the largest term is 1.
        peak = max_or_any(row)
        # The result is also where the exponentials wait for their sum: no other memory is touched.
        for i in range(row.size):
            out[i] = exp_nonpositive(row[i] - peak)
        if logarithm:
            # The sum has a term of 1, so the logarithm is never that of 0.
            shift = number(math.log(total(out)))
            for i in range(row.size):
                out[i] = row[i] - peak - shift  # not row - (peak + shift): that would round it away
        else:
            scale = number(1 / total(out))  # one division for a row: products take less time
            for i in range(row.size):
                out[i] *= scale


def softmax_rows_backward(start, stop, g, y, grad_input):
    """y · (g - Σ g·y) of each row."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    number = y.dtype.type
    for r in range(start, stop):
        gradient, row, out = g[r], y[r], grad_input[r]
        # Cast back: a float64 would widen the whole loop, with half as many lanes in a vector.
        mean = number(dot(gradient, row))
        for i in range(row.size):
            out[i] = row[i] * (gradient[i] - mean)


def log_softmax_rows_backward(start, stop, g, y, grad_input):
    """g - exp(y) · Σ g of each row."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    number = y.dtype.type
    for r in range(start, stop):
        gradient, row, out = g[r], y[r], grad_input[r]
        sum = number(total(gradient))
        for i in range(row.size):
            out[i] = gradient[i] - exp_nonpositive(row[i]) * sum


def log_softmax_rows_one_hot(start, stop, values, columns, y, grad_input):
    """The same where g is 0 except for one element in each row."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    for r in range(start, stop):
        row, out, value = y[r], grad_input[r], values[r]
        for i in range(row.size):
            # Σ g is the one value, so no sum is computed, and g is never made an array.
            out[i] = -exp_nonpositive(row[i]) * value
        out[columns[r]] += value  # the only element of g in this row


# Along another axis ------------------------------------------------------------------------


def softmax_columns(start, stop, like, addresses, lengths, logarithm):
    """The same along the middle axis of (outer, n, inner), for `COLUMN_BAND` columns at a time."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    x, y = array_at(addresses[0], like, lengths), array_at(addresses[1], like, lengths)
    number = x.dtype.type
    n, inner = x.shape[1], x.shape[2]
    bands = (inner + COLUMN_BAND - 1) // COLUMN_BAND
    peaks, sums = np.empty(COLUMN_BAND, x.dtype), np.empty(COLUMN_BAND, x.dtype)
    for index in range(start, stop):
        band = np.int64(index)
        at = band % bands * COLUMN_BAND
        size = min(COLUMN_BAND, inner - at)
        table, out = x[band // bands], y[band // bands]
        peak, sum = peaks[:size], sums[:size]
        for i in range(size):
            peak[i], sum[i] = -np.inf, 0
        # Rows outside, columns inside: memory is read in order, and neighbors fill the vectors.
        for k in range(n):
            row = table[k, at : at + size]
            for i in range(size):
                peak[i] = (
                    peak[i] if row[i] < peak[i] else row[i]
                )  # with a NaN any value: the sum is NaN
        for k in range(n):
            row, target = table[k, at : at + size], out[k, at : at + size]
            for i in range(size):
                target[i] = exp_nonpositive(row[i] - peak[i])
                sum[i] += target[i]
        for i in range(size):
            # One division a column, and then a product for each of its n elements.
            sum[i] = number(math.log(sum[i])) if logarithm else number(1) / sum[i]
        for k in range(n):
            row, target = table[k, at : at + size], out[k, at : at + size]
            if logarithm:
                for i in range(size):
                    # Not peak + sum, which would round the logarithm away: see `log_softmax_rows`.
                    target[i] = row[i] - peak[i] - sum[i]
            else:
                for i in range(size):
                    target[i] *= sum[i]


def softmax_columns_backward(start, stop, g, y, grad_input, logarithm):
    """The derivative along the middle axis of (outer, n, inner)."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    n, inner = y.shape[1], y.shape[2]
    bands = (inner + COLUMN_BAND - 1) // COLUMN_BAND
    sums = np.empty(COLUMN_BAND, y.dtype)
    for index in range(start, stop):
        band = np.int64(index)
        at = band % bands * COLUMN_BAND
        size = min(COLUMN_BAND, inner - at)
        block = band // bands
        sum = sums[:size]
        for i in range(size):
            sum[i] = 0
        for k in range(n):
            gradient, row = g[block, k, at : at + size], y[block, k, at : at + size]
            for i in range(size):
                sum[i] += gradient[i] if logarithm else gradient[i] * row[i]
        for k in range(n):
            gradient, row = g[block, k, at : at + size], y[block, k, at : at + size]
            target = grad_input[block, k, at : at + size]
            if logarithm:
                for i in range(size):
                    target[i] = gradient[i] - exp_nonpositive(row[i]) * sum[i]
            else:
                for i in range(size):
                    target[i] = row[i] * (gradient[i] - sum[i])


# logsumexp ---------------------------------------------------------------------------------


def logsumexp_rows(start, stop, x, y):
    """y = max + log Σ exp(x - max) of each row."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    number, exponentials = x.dtype.type, np.empty(BLOCK, x.dtype)
    for r in range(start, stop):
        row, whole, lost = x[r], 0.0, 0.0
        peak = row_max(row)
        if not abs(peak) < np.inf:  # NaN, or ±∞, which is the result
            y[r] = peak
            continue
        for at in range(0, row.size, BLOCK):
            block = row[at : at + BLOCK]
            out = exponentials[: block.size]
            for i in range(block.size):
                out[i] = exp_nonpositive(block[i] - peak)
            whole, lost = add_compensated(whole, lost, block_total(out))
        y[r] = number(math.log(compensated_total(whole, lost)) + peak)


def logsumexp_columns(start, stop, x, y):
    """The same along the middle axis of (outer, n, inner), for `COLUMN_BAND` columns at a time."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    n, inner = x.shape[1], x.shape[2]
    bands = (inner + COLUMN_BAND - 1) // COLUMN_BAND
    sums, zero = np.empty(COLUMN_BAND), x.dtype.type(0)
    for index in range(np.int64(start), np.int64(stop)):
        block, left = index // bands, index % bands * COLUMN_BAND
        peak = y[block, left : min(left + COLUMN_BAND, inner)]
        sum = sums[: peak.size]
        for i in range(peak.size):
            peak[i], sum[i] = -np.inf, 0
        for k in range(n):
            row = x[block, k, left : left + peak.size]
            for i in range(peak.size):
                peak[i] = row[i] if row[i] > peak[i] or row[i] != row[i] else peak[i]
        for k in range(n):
            row = x[block, k, left : left + peak.size]
            for i in range(peak.size):
                # Of an infinite peak, the sum is not used.
                sum[i] += exp_nonpositive(row[i] - (peak[i] if abs(peak[i]) < np.inf else zero))
        for i in range(peak.size):
            if abs(peak[i]) < np.inf:
                peak[i] = math.log(sum[i]) + peak[i]


def logsumexp_rows_backward(start, stop, g, y, x, grad_input):
    """g · exp(x - y) of each row."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    for r in range(start, stop):
        row, out, factor = x[r], grad_input[r], g[r]
        shift = y[r] if y[r] != -np.inf else x.dtype.type(0)  # of -∞ alone, the gradient is 0
        for i in range(row.size):
            out[i] = factor * exp_nonpositive(row[i] - shift)


def logsumexp_columns_backward(start, stop, g, y, x, grad_input):
    """The same along the middle axis; the range counts the rows of the last two axes."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    n, zero = x.shape[1], x.dtype.type(0)
    for index in range(np.int64(start), np.int64(stop)):
        block, k = index // n, index % n
        row, out, factors, shifts = x[block, k], grad_input[block, k], g[block], y[block]
        for i in range(row.size):
            shift = shifts[i] if shifts[i] != -np.inf else zero
            out[i] = factors[i] * exp_nonpositive(row[i] - shift)


# The makers --------------------------------------------------------------------------------


class Softmax(NamedTuple):
    """How arrays of one shape and dtype are normalized along an axis.

    Attributes:
        entry, count: the kernel and its range.
        lengths: its arguments after the addresses.
    """

    entry: Any
    count: int
    lengths: tuple[int, int, int]


def forward(logarithm: bool) -> Run:
    """Make the forward of `softmax`, or of `log_softmax`."""
    by_rows = compile_along_axis(softmax_rows, 2, types.boolean)
    by_columns = compile_along_axis(softmax_columns, 2, types.boolean)

    @functools.lru_cache(1024)
    def find_plan(shape: tuple[int, ...], dtype: np.dtype[Any], dim: int) -> Softmax | None:
        layout = axis_layout(shape, dim) if 0 not in shape else None
        if layout is None or dtype not in by_rows:
            return None
        outer, _, inner = layout.lengths
        if inner == 1:
            return Softmax(by_rows[dtype], outer, layout.lengths)
        return Softmax(by_columns[dtype], outer * -(-inner // COLUMN_BAND), layout.lengths)

    def run(input: Array, dim: int, dtype: DType | None) -> np.ndarray | None:
        if dtype is not None or dim.__class__ is not int or input.__class__ is not np.ndarray:
            return None
        own_dtype, shape = input.dtype, input.shape
        plan = find_plan(shape, own_dtype, dim)
        if plan is None or not input.flags.c_contiguous:
            return None
        entry, count, lengths = plan
        y = np.empty(shape, own_dtype)
        size, arrays = y.size, (id(input), id(y))
        if size < MIN_PARALLEL:
            entry(0, count, 0.0, arrays, lengths, logarithm)
        else:
            parallel_for(entry, count, 0.0, arrays, lengths, logarithm, work=size)
        return y

    return run


def backward(rows: Callable[..., None], columns: Callable[..., None], logarithm: bool) -> Run:
    """Make a derivative from its kernels for the last axis and for another axis."""

    def run(g: Array, y: Array, dim: int) -> np.ndarray | None:
        g = contiguous_gradient(g, y)
        if not are_contiguous_floats((y, g)) or not is_valid_axis(y, dim):
            return None
        grad_input = np.empty_like(y)
        outer, n, inner = split_at_axis(y.shape, dim)
        if inner == 1:
            arrays = [as_rows_of(block, n) for block in (g, y, grad_input)]
            parallel_for(rows, outer, *arrays, work=y.size)
        else:
            arrays = [block.reshape(outer, n, inner) for block in (g, y, grad_input)]
            parallel_for(columns, outer * -(-inner // COLUMN_BAND), *arrays, logarithm, work=y.size)
        return grad_input

    return run


@functools.cache
def columns_backward_kernel() -> Any:
    """Compile `softmax_columns_backward`, which both derivatives use."""
    return compile_kernel(softmax_columns_backward, ARRAY_3D, ARRAY_3D, ARRAY_3D, BOOL)


def is_valid_axis(array: np.ndarray, dim: int) -> bool:
    """Whether an array is not empty, and has this axis."""
    return array.size > 0 and dim.__class__ is int and -array.ndim <= dim < array.ndim


@ops.softmax.kernel("cpu", min_size=256)
def softmax() -> Run:
    """Make the forward of `softmax`."""
    return forward(logarithm=False)


@ops.log_softmax.kernel("cpu", min_size=256)
def log_softmax() -> Run:
    """Make the forward of `log_softmax`."""
    return forward(logarithm=True)


@ops.softmax.kernel("cpu", "input", min_size=1024)
def softmax_input() -> Run:
    """Make y · (g - Σ g·y)."""
    return backward(
        compile_kernel(softmax_rows_backward, *[ARRAY_2D] * 3), columns_backward_kernel(), False
    )


@ops.log_softmax.kernel("cpu", "input", min_size=1024)
def log_softmax_input() -> Run:
    """Make g - exp(y) · Σ g."""
    return backward(
        compile_kernel(log_softmax_rows_backward, *[ARRAY_2D] * 3), columns_backward_kernel(), True
    )


@LOG_SOFTMAX_KERNEL.kernel("cpu", min_size=256)
def log_softmax_one_hot() -> Run:
    """Make the derivative of `log_softmax` for a gradient that is `OneHotGradient`."""
    kernel = compile_kernel(log_softmax_rows_one_hot, ARRAY_1D, INT64_1D, ARRAY_2D, ARRAY_2D)

    def run(g: Array, y: Array) -> np.ndarray | None:
        columns = g.columns
        if not are_contiguous_floats((y,), g.array_dtype) or columns.dtype != np.int64:
            return None
        grad_input = np.empty_like(y)
        parallel_for(
            kernel, len(y), g.values, np.ascontiguousarray(columns), y, grad_input, work=y.size
        )
        return grad_input

    return run


@ops.logsumexp.kernel("cpu", min_size=512)
def logsumexp() -> Run:
    """Make the forward of `logsumexp`."""
    by_rows = compile_kernel(logsumexp_rows, ARRAY_2D, ARRAY_1D)
    by_columns = compile_kernel(logsumexp_columns, ARRAY_3D, ARRAY_2D)

    def run(input: Array, dim: Dims, keepdim: bool) -> np.ndarray | None:
        layout = axis_layout(input.shape, dim) if is_contiguous_float(input) else None
        if layout is None or not input.size:
            return None
        outer, n, inner = layout.lengths
        table, y = input.reshape(layout.lengths), np.empty((outer, inner), input.dtype)
        if inner == 1:
            parallel_for(by_rows, outer, table.reshape(outer, n), y.reshape(outer), work=table.size)
        else:
            units = outer * -(-inner // COLUMN_BAND)
            parallel_for(by_columns, units, table, y, work=table.size)
        return y.reshape(layout.kept if keepdim else layout.reduced)

    return run


@ops.logsumexp.kernel("cpu", "input", min_size=1)
def logsumexp_input() -> Run:
    """Make g · exp(x - y); g and y have the reduced axes with length 1."""
    by_rows = compile_kernel(logsumexp_rows_backward, *[ARRAY_1D] * 2, *[ARRAY_2D] * 2)
    by_columns = compile_kernel(logsumexp_columns_backward, *[ARRAY_2D] * 2, *[ARRAY_3D] * 2)

    def run(g: Array, y: Array, input: Array) -> np.ndarray | None:
        if input.size < 512 or not y.flags.carray or y.dtype != input.dtype:
            return None
        reduced = [
            axis for axis in range(input.ndim) if y.shape[axis] == 1 and input.shape[axis] != 1
        ]
        is_valid = is_contiguous_float(input) and input.size
        layout = axis_layout(input.shape, tuple(reduced)) if is_valid else None
        g = contiguous_gradient(g, y)
        if layout is None or g is None or g.dtype != y.dtype:
            return None
        outer, n, inner = layout.lengths
        grad_input = np.empty_like(input)
        arrays = [g.reshape(outer, inner), y.reshape(outer, inner)]
        arrays += [array.reshape(outer, n, inner) for array in (input, grad_input)]
        if inner == 1:  # without the last axis, for the rows to be contiguous
            by, count, arrays = (
                by_rows,
                outer,
                [array.reshape(array.shape[:-1]) for array in arrays],
            )
        else:
            by, count = by_columns, outer * n
        parallel_for(by, count, *arrays, work=input.size)
        return grad_input

    return run
