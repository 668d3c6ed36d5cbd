"""Batch norm: forward, and all three gradients, in one pass over each channel; see `norms.py`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from ...backends.numpy import Array
from ...nn.functional import normalization
from .jit import (
    ARRAY_1D,
    ARRAY_2D,
    ARRAY_3D,
    SCALAR,
    TUPLE,
    are_contiguous_floats,
    compile_kernel,
    contiguous_gradient,
    use_wide_vectors,
)
from .norms import MIN_CHANNEL_SIZE, Run, channel_parameters, select_gradients
from .parallel import parallel_for
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

# A band is contiguous in every row, and its sums stay in the L1 cache from row to row.
COLUMN_BAND = 128
"""The number of columns processed together."""


@njit(forceinline=True)
def column_moments(x, at, mean, variance):
    """Write mean and variance of as many columns as `mean` has elements, from `at` on."""
    n, size = x.shape[0], mean.size
    # In float64, and side by side: they do not depend on one another, so the loop over a row is
    # vectorized although no sum is reordered.
    sums = np.zeros(size)
    for r in range(n):
        row = x[r, at : at + size]
        for i in range(size):
            sums[i] += row[i]
    for i in range(size):  # the sums of deviations begin at 0 again
        mean[i], sums[i] = sums[i] / n, 0
    for r in range(n):
        row = x[r, at : at + size]
        for i in range(size):
            sums[i] += (row[i] - mean[i]) * (row[i] - mean[i])
    for i in range(size):
        variance[i] = sums[i] / n


def batch_norm_columns(start, stop, x, weight, bias, eps, results):
    """y = (x - mean) / √(variance + ε) · weight + bias of each column; the range counts bands."""
    start, stop = claim_range(start, stop)
    y, means, variances = results
    use_wide_vectors()
    n, c = x.shape
    factor = np.empty(COLUMN_BAND, x.dtype)
    for index in range(start, stop):
        at = np.int64(index) * COLUMN_BAND
        end = min(at + COLUMN_BAND, c)
        mean, variance, shift = means[at:end], variances[at:end], bias[at:end]
        column_moments(x, at, mean, variance)
        for i in range(end - at):
            factor[i] = weight[at + i] / math.sqrt(variance[i] + eps)
        for r in range(n):
            row, out = x[r, at:end], y[r, at:end]
            for i in range(row.size):
                out[i] = (row[i] - mean[i]) * factor[i] + shift[i]


def batch_norm_columns_backward(start, stop, g, x, weight, eps, gradients):
    """Compute the gradients of each column."""
    start, stop = claim_range(start, stop)
    grad_input, grad_weight, grad_bias = gradients
    use_wide_vectors()
    n, c = x.shape
    means, scales = np.empty(COLUMN_BAND, x.dtype), np.empty(COLUMN_BAND, x.dtype)
    gradient_sums, product_sums = np.empty(COLUMN_BAND), np.empty(COLUMN_BAND)
    mean_gradient, slope = np.empty(COLUMN_BAND, x.dtype), np.empty(COLUMN_BAND, x.dtype)
    for index in range(start, stop):
        at = np.int64(index) * COLUMN_BAND
        end = min(at + COLUMN_BAND, c)
        column_moments(x, at, means[: end - at], scales[: end - at])
        for i in range(end - at):
            scales[i] = 1 / math.sqrt(scales[i] + eps)
            gradient_sums[i] = product_sums[i] = 0
        for r in range(n):
            row, gradient = x[r, at:end], g[r, at:end]
            for i in range(row.size):
                gradient_sums[i] += gradient[i]
                # Centered before the product: Σ g·x - mean · Σ g would cancel for a large mean.
                product_sums[i] += gradient[i] * (row[i] - means[i])
        for i in range(end - at):
            grad_weight[at + i], grad_bias[at + i] = product_sums[i] * scales[i], gradient_sums[i]
            mean_gradient[i], slope[i] = (
                gradient_sums[i] / n,
                product_sums[i] * scales[i] * scales[i] / n,
            )
            scales[i] *= weight[at + i]  # from here on, the factor of the whole gradient
        for r in range(n):
            row, gradient, out = x[r, at:end], g[r, at:end], grad_input[r, at:end]
            for i in range(row.size):
                centered = gradient[i] - mean_gradient[i] - (row[i] - means[i]) * slope[i]
                out[i] = centered * scales[i]


# The makers --------------------------------------------------------------------------------


@normalization.native_batch_norm.kernel("cpu", min_size=256)
def native_batch_norm() -> Run:
    """Make the forward of batch norm."""
    kernel, by_columns = (
        compile_kernel(
            function, table, ARRAY_1D, ARRAY_1D, SCALAR, TUPLE(table, ARRAY_1D, ARRAY_1D)
        )
        for function, table in ((batch_norm, ARRAY_3D), (batch_norm_columns, ARRAY_2D))
    )

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
        if size == 1:  # a channel is not contiguous: bands of them are read row by row
            parallel_for(by_columns, -(-c // COLUMN_BAND), *arrays, work=y.size)
        else:
            parallel_for(kernel, c, *arrays, work=y.size)
        return y, *moments

    return run


@normalization.native_batch_norm.kernel("cpu", "joint_vjp", min_size=256)
def native_batch_norm_joint_vjp() -> Run:
    """Make the gradients of batch norm."""
    forms = (batch_norm_backward, ARRAY_3D), (batch_norm_columns_backward, ARRAY_2D)
    kernel, by_columns = (
        compile_kernel(function, table, table, ARRAY_1D, SCALAR, TUPLE(table, ARRAY_1D, ARRAY_1D))
        for function, table in forms
    )

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
            parallel_for(by_columns, -(-c // COLUMN_BAND), *arrays, work=3 * input.size)
        else:
            parallel_for(kernel, c, *arrays, work=3 * input.size)
        return select_gradients(grad_input, weight, bias, *sums)

    return run
