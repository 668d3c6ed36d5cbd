"""Batch norm: forward, and all three gradients, in one pass over each channel; see `norms.py`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from ...backends.numpy import Array
from ...nn.functional import normalization
from .jit import (
    ARRAY_1D,
    ARRAY_2D,
    ARRAY_3D,
    BOOL,
    FLOAT64_3D,
    SCALAR,
    TUPLE,
    are_contiguous_floats,
    compile_kernel,
    contiguous_gradient,
    use_wide_vectors,
)
from .norms import MIN_CHANNEL_SIZE, Run, channel_parameters, select_gradients
from .parallel import count_parts, parallel_for
from .row_reduce import dot_centered, sum_squared_deviations, total
from .work_queue import claim_range

# Channels of (samples, channels, size) -----------------------------------------------------


@njit(forceinline=True)
def moments(x, channel):
    """Return mean and variance of one channel."""
    mean = variance = 0.0
    for k in range(x.shape[0]):
        mean += total(x[k, channel])
    count = x.shape[0] * x.shape[2]
    # Cast, so that the loops over rows stay in float32: a register holds half as many float64.
    mean = x.dtype.type(mean / count)
    for k in range(x.shape[0]):
        # A second pass, because E[x²] - E[x]² cancels for a large mean.
        variance += sum_squared_deviations(x[k, channel], mean)
    # Divided by n, as PyTorch normalizes; only the running average is corrected to n - 1.
    return mean, variance / count


def batch_norm(start, stop, x, weight, bias, eps, results):
    """y = (x - mean) / √(variance + ε) · weight + bias of each channel."""
    start, stop = claim_range(start, stop)
    y, means, variances = results
    use_wide_vectors()
    number = x.dtype.type
    for channel in range(start, stop):
        mean, variance = moments(x, channel)
        means[channel], variances[channel] = mean, variance
        # Weight and scale are constant along a channel: one product per element, not two.
        factor = number(weight[channel] / math.sqrt(variance + eps))
        shift = bias[channel]
        for k in range(x.shape[0]):
            row, out = x[k, channel], y[k, channel]
            for i in range(row.size):
                # Not x · factor + (bias - mean · factor): for a large mean both terms would cancel.
                out[i] = (row[i] - mean) * factor + shift


def batch_norm_backward(start, stop, g, x, weight, eps, gradients):
    """Compute the gradients of each channel."""
    start, stop = claim_range(start, stop)
    grad_input, grad_weight, grad_bias = gradients
    use_wide_vectors()
    number = x.dtype.type
    count = x.shape[0] * x.shape[2]
    for channel in range(start, stop):
        mean, variance = moments(x, channel)
        scale = 1 / math.sqrt(variance + eps)
        bias_row = weight_row = 0.0
        for k in range(x.shape[0]):
            bias_row += total(g[k, channel])
            weight_row += dot_centered(g[k, channel], x[k, channel], mean) * scale
        grad_weight[channel], grad_bias[channel] = weight_row, bias_row
        factor = number(scale * weight[channel])
        # The gradient through mean and variance: without the mean of g, and the part of g along x̂.
        gradient_sum, slope = number(bias_row / count), number(scale * weight_row / count)
        for k in range(x.shape[0]):
            row, gradient, out = x[k, channel], g[k, channel], grad_input[k, channel]
            for i in range(row.size):
                out[i] = (gradient[i] - gradient_sum - (row[i] - mean) * slope) * factor


# Channels of (samples, channels), which are columns ----------------------------------------
#
# Memory is read in whole rows, in groups, whose sums are combined in float64. Deviations are from
# the first row of a group, which is as near as a few standard deviations: nothing cancels.

GROUP_ROWS = 64
"""The rows of a group: a number of its own, so that no sum depends on the number of threads."""

COLUMN_BAND = 1024
"""So many columns of a group are processed together: their sums stay in the L1 cache."""


@njit(forceinline=True)
def bounds_of(unit, x):
    """Return the number of a group, its first row and the one after its last, and its columns."""
    bands = (x.shape[1] + COLUMN_BAND - 1) // COLUMN_BAND
    group, left = unit // bands, unit % bands * COLUMN_BAND
    top, right = group * GROUP_ROWS, min(left + COLUMN_BAND, x.shape[1])
    return group, top, min(top + GROUP_ROWS, x.shape[0]), left, right


@njit(forceinline=True)
def add_deviations(x, r, count, left, center, sums, squares):
    """Add Σ (x - center) and Σ (x - center)² of one row or of four."""
    n = center.size
    if count == 1:
        row = x[r, left : left + n]
        for i in range(n):
            deviation = row[i] - center[i]
            sums[i] += deviation
            squares[i] += deviation * deviation
        return
    rows = x[r, left : left + n], x[r + 1, left : left + n]
    others = x[r + 2, left : left + n], x[r + 3, left : left + n]
    for i in range(n):
        a, b = rows[0][i] - center[i], rows[1][i] - center[i]
        c, d = others[0][i] - center[i], others[1][i] - center[i]
        sums[i] += (a + b) + (c + d)
        squares[i] += (a * a + b * b) + (c * c + d * d)


@njit(forceinline=True)
def add_products(g, x, r, count, left, center, sums, products):
    """Add Σ g and Σ g · (x - center) of one row or of four."""
    n = center.size
    if count == 1:
        row, gradient = x[r, left : left + n], g[r, left : left + n]
        for i in range(n):
            sums[i] += gradient[i]
            products[i] += gradient[i] * (row[i] - center[i])
        return
    for first in (r, r + 2):  # in pairs: eight rows at once are too many for the prefetcher
        one, other = x[first, left : left + n], x[first + 1, left : left + n]
        g_one, g_other = g[first, left : left + n], g[first + 1, left : left + n]
        for i in range(n):
            sums[i] += g_one[i] + g_other[i]
            products[i] += g_one[i] * (one[i] - center[i]) + g_other[i] * (other[i] - center[i])


@njit(forceinline=True)
def sum_group(unit, g, x, moments, sums):
    """Write the mean and Σ (x - mean)² of a group; with gradients, also Σ g and Σ g · (x - mean).

    Args:
        g: an array without rows where there are no gradients.
    """
    group, top, bottom, left, right = bounds_of(unit, x)
    mean, squares = moments[0, group, left:right], moments[1, group, left:right]
    center = x[top, left:right].copy()
    for i in range(center.size):
        mean[i] = squares[i] = 0
        center[i] = center[i] if abs(center[i]) < np.inf else 0
    if g.shape[0] > 0:
        gradient_sum, products = sums[0, group, left:right], sums[1, group, left:right]
        for i in range(center.size):
            gradient_sum[i] = products[i] = 0
    r = top
    while r < bottom:
        count = 4 if r + 4 <= bottom else 1
        add_deviations(x, r, count, left, center, mean, squares)
        if g.shape[0] > 0:
            add_products(g, x, r, count, left, center, gradient_sum, products)
        r += count
    for i in range(center.size):
        rest = mean[i] / (bottom - top)
        if g.shape[0] > 0:
            products[i] -= rest * gradient_sum[i]
        squares[i] -= rest * mean[i]
        mean[i] = center[i] + rest


@njit(forceinline=True)
def combine_moments(moments, n, mean, variance):
    """Write mean and variance of all columns, from those of the groups."""
    groups, c = moments.shape[1:]
    whole, squares = np.zeros(c), np.zeros(c)
    for group in range(groups):
        count = min(GROUP_ROWS, n - group * GROUP_ROWS)
        for i in range(c):
            whole[i] += moments[0, group, i] * count
    for i in range(c):
        whole[i] /= n
    for group in range(groups):
        count = min(GROUP_ROWS, n - group * GROUP_ROWS)
        for i in range(c):
            apart = moments[0, group, i] - whole[i]
            squares[i] += moments[1, group, i] + apart * apart * count
    for i in range(c):
        mean[i], variance[i] = whole[i], squares[i] / n


def sum_groups(start, stop, g, x, moments, sums):
    """Write the sums of groups of rows; the range counts groups and bands of columns."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    for unit in range(np.int64(start), np.int64(stop)):
        sum_group(unit, g, x, moments, sums)


@njit(forceinline=True)
def normalize(start, stop, x, mean, factor, shift, y):
    """y = (x - mean) · factor + shift of some rows."""
    for r in range(start, stop):
        row, out = x[r], y[r]
        for i in range(row.size):
            out[i] = (row[i] - mean[i]) * factor[i] + shift[i]


def normalize_rows(start, stop, x, mean, factor, shift, y):
    """The same, on all threads."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    normalize(start, stop, x, mean, factor, shift, y)


def combine_groups(start, stop, x, weight, bias, settings, moments, results):
    """Write mean, variance and weight / √(variance + ε) of each column; the range: all rows.

    Args:
        settings: ε, and whether this call computes all, from the sums of the groups to y.
    """
    use_wide_vectors()
    eps, is_whole = settings
    y, mean, variance, factor = results
    if is_whole:
        for unit in range(moments.shape[1] * ((mean.size + COLUMN_BAND - 1) // COLUMN_BAND)):
            sum_group(unit, x[:0], x, moments, moments)
    combine_moments(moments, x.shape[0], mean, variance)
    for i in range(mean.size):
        factor[i] = weight[i] / math.sqrt(variance[i] + eps)
    if is_whole:
        normalize(start, stop, x, mean, factor, bias, y)


@njit(forceinline=True)
def derive(start, stop, g, x, mean, columns, grad_input):
    """Compute the gradient of some rows."""
    factor, mean_gradient, slope = columns[0], columns[1], columns[2]
    for r in range(start, stop):
        row, gradient, out = x[r], g[r], grad_input[r]
        for i in range(row.size):
            centered = gradient[i] - mean_gradient[i] - (row[i] - mean[i]) * slope[i]
            out[i] = centered * factor[i]


def derive_rows(start, stop, g, x, mean, columns, grad_input):
    """The same, on all threads."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    derive(start, stop, g, x, mean, columns, grad_input)


def combine_gradients(start, stop, g, x, weight, settings, sums, results):
    """Write the gradients of weight and bias, and what the gradient of the rows needs."""
    use_wide_vectors()
    eps, is_whole = settings
    moments, sums = sums
    grad_input, grad_weight, grad_bias, mean, columns = results
    factor, mean_gradient, slope = columns[0], columns[1], columns[2]
    n, groups, c = x.shape[0], moments.shape[1], moments.shape[2]
    if is_whole:
        for unit in range(groups * ((c + COLUMN_BAND - 1) // COLUMN_BAND)):
            sum_group(unit, g, x, moments, sums)
    combine_moments(moments, n, mean, factor)
    gradient_sum, products = np.zeros(c), np.zeros(c)
    for group in range(groups):
        for i in range(c):
            gradient_sum[i] += sums[0, group, i]
            # Centered before the product: Σ g·x - mean · Σ g would cancel for a large mean.
            apart = moments[0, group, i] - mean[i]
            products[i] += sums[1, group, i] + apart * sums[0, group, i]
    for i in range(c):
        scale = 1 / math.sqrt(factor[i] + eps)
        grad_weight[i], grad_bias[i] = products[i] * scale, gradient_sum[i]
        mean_gradient[i] = gradient_sum[i] / n
        slope[i] = products[i] * scale * scale / n
        factor[i] = scale * weight[i]  # of the whole gradient
    if is_whole:
        derive(start, stop, g, x, mean, columns, grad_input)


# The makers --------------------------------------------------------------------------------


@functools.cache
def groups_kernel() -> Any:
    """Compile `sum_groups`, which forward and gradients use."""
    return compile_kernel(sum_groups, ARRAY_2D, ARRAY_2D, FLOAT64_3D, FLOAT64_3D)


def count_units(moments: np.ndarray) -> int:
    """Return the number of groups of rows, times that of the bands of columns."""
    return moments.shape[1] * -(-moments.shape[2] // COLUMN_BAND)


def normalize_columns() -> Callable[..., None]:
    """Make the forward of channels that are columns."""
    groups_kernel()
    combine = compile_kernel(
        combine_groups, ARRAY_2D, ARRAY_1D, ARRAY_1D, TUPLE(SCALAR, BOOL), FLOAT64_3D,
        TUPLE(ARRAY_2D, *[ARRAY_1D] * 3),
    )  # fmt: skip
    by_rows = compile_kernel(normalize_rows, ARRAY_2D, *[ARRAY_1D] * 3, ARRAY_2D)

    def run(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float, results: Any) -> None:
        n, c = x.shape
        y, mean, variance = results
        factor, moments = np.empty_like(mean), np.empty((2, -(-n // GROUP_ROWS), c))
        is_small = count_parts(n, x.size) == 1
        if not is_small:
            arrays = x[:0], x, moments, moments
            parallel_for(groups_kernel(), count_units(moments), *arrays, work=x.size)
        combine(0, n, x, weight, bias, (eps, is_small), moments, (y, mean, variance, factor))
        if not is_small:
            parallel_for(by_rows, n, x, mean, factor, bias, y, work=x.size)

    return run


def derive_columns() -> Callable[..., None]:
    """Make the gradients of channels that are columns."""
    groups_kernel()
    combine = compile_kernel(
        combine_gradients, ARRAY_2D, ARRAY_2D, ARRAY_1D, TUPLE(SCALAR, BOOL),
        TUPLE(FLOAT64_3D, FLOAT64_3D), TUPLE(ARRAY_2D, *[ARRAY_1D] * 3, ARRAY_2D),
    )  # fmt: skip
    by_rows = compile_kernel(derive_rows, ARRAY_2D, ARRAY_2D, ARRAY_1D, ARRAY_2D, ARRAY_2D)

    def run(g: np.ndarray, x: np.ndarray, weight: np.ndarray, eps: float, gradients: Any) -> None:
        n, c = x.shape
        mean, columns = np.empty(c, x.dtype), np.empty((3, c), x.dtype)
        moments, sums = np.empty((2, 2, -(-n // GROUP_ROWS), c))
        is_small, results = count_parts(n, 2 * x.size) == 1, (*gradients, mean, columns)
        if not is_small:
            arrays = g, x, moments, sums
            parallel_for(groups_kernel(), count_units(moments), *arrays, work=2 * x.size)
        combine(0, n, g, x, weight, (eps, is_small), (moments, sums), results)
        if not is_small:
            parallel_for(by_rows, n, g, x, mean, columns, gradients[0], work=2 * x.size)

    return run


@normalization.native_batch_norm.kernel("cpu", min_size=256)
def native_batch_norm() -> Run:
    """Make the forward of batch norm."""
    results = TUPLE(ARRAY_3D, ARRAY_1D, ARRAY_1D)
    kernel = compile_kernel(batch_norm, ARRAY_3D, ARRAY_1D, ARRAY_1D, SCALAR, results)
    by_columns = normalize_columns()

    def run(
        input: Array, weight: Array | None, bias: Array | None, eps: float
    ) -> tuple[Any, ...] | None:
        n, c = input.shape[:2]
        size = math.prod(input.shape[2:])
        is_supported = size == 1 or size >= MIN_CHANNEL_SIZE
        weight_and_bias = channel_parameters(input, weight, bias, is_supported)
        if weight_and_bias is None:
            return None
        y = np.empty_like(input)
        moments = [np.empty(c, input.dtype) for _ in range(2)]
        shape = (n, c) if size == 1 else (n, c, size)
        arrays = input.reshape(shape), *weight_and_bias, eps, (y.reshape(shape), *moments)
        if size == 1:  # a channel is not contiguous
            by_columns(*arrays)
        else:
            parallel_for(kernel, c, *arrays, work=y.size)
        return y, *moments

    return run


@normalization.native_batch_norm.kernel("cpu", "joint_vjp", min_size=256)
def native_batch_norm_joint_vjp() -> Run:
    """Make the gradients of batch norm."""
    gradients = TUPLE(ARRAY_3D, ARRAY_1D, ARRAY_1D)
    kernel = compile_kernel(batch_norm_backward, ARRAY_3D, ARRAY_3D, ARRAY_1D, SCALAR, gradients)
    by_columns = derive_columns()

    def run(
        g: Array, input: Array, weight: Array | None, bias: Array | None, eps: float
    ) -> tuple[Any, ...] | None:
        n, c = input.shape[:2]
        size = math.prod(input.shape[2:])
        is_supported = size == 1 or size >= MIN_CHANNEL_SIZE
        weight_and_bias = channel_parameters(input, weight, bias, is_supported)
        g = contiguous_gradient(g, input)
        if weight_and_bias is None or not are_contiguous_floats((input, g)):
            return None
        grad_input = np.empty_like(input)
        sums = [np.empty(c, input.dtype) for _ in range(2)]
        shape = (n, c) if size == 1 else (n, c, size)
        gradient, x, to = (array.reshape(shape) for array in (g, input, grad_input))
        arrays = gradient, x, weight_and_bias[0], eps, (to, *sums)
        if size == 1:
            by_columns(*arrays)
        else:
            parallel_for(kernel, c, *arrays, work=3 * input.size)
        return select_gradients(grad_input, weight, bias, *sums)

    return run
