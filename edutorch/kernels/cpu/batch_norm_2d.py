"""Batch norm of (samples, channels): a channel is a column, and many are processed at a time.

One column after the other would read one element of each cache line. Here a band of adjacent
columns is processed together; the sums of all of them stay in the L1 cache.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .jit import use_wide_vectors
from .work_queue import claim_range

COLUMN_BAND = 128
"""The number of columns processed together."""


@njit(forceinline=True)
def moments(x, at, mean, variance):
    """Write mean and variance of as many columns as `mean` has elements, from `at` on."""
    n, size = x.shape[0], mean.size
    sums = np.zeros(size)
    for r in range(n):
        row = x[r, at : at + size]
        for i in range(size):
            sums[i] += row[i]
    for i in range(size):
        mean[i], sums[i] = sums[i] / n, 0
    for r in range(n):
        row = x[r, at : at + size]
        for i in range(size):
            sums[i] += (row[i] - mean[i]) * (row[i] - mean[i])
    for i in range(size):
        variance[i] = sums[i] / n


def batch_norm(start, stop, x, weight, bias, eps, y, means, variances):
    """y = (x - mean) / √(variance + ε) · weight + bias of each column; the range counts bands."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    n, c = x.shape
    factor = np.empty(COLUMN_BAND, x.dtype)
    for index in range(start, stop):
        at = np.int64(index) * COLUMN_BAND
        end = min(at + COLUMN_BAND, c)
        mean, variance, shift = means[at:end], variances[at:end], bias[at:end]
        moments(x, at, mean, variance)
        for i in range(end - at):
            factor[i] = weight[at + i] / math.sqrt(variance[i] + eps)
        for r in range(n):
            row, out = x[r, at:end], y[r, at:end]
            for i in range(row.size):
                out[i] = (row[i] - mean[i]) * factor[i] + shift[i]


def batch_norm_backward(start, stop, g, x, weight, eps, grad_input, grad_weight, grad_bias):
    """Compute the gradients of each column."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    n, c = x.shape
    means, scales = np.empty(COLUMN_BAND, x.dtype), np.empty(COLUMN_BAND, x.dtype)
    gradient_sums, product_sums = np.empty(COLUMN_BAND), np.empty(COLUMN_BAND)
    mean_gradient, slope = np.empty(COLUMN_BAND, x.dtype), np.empty(COLUMN_BAND, x.dtype)
    for index in range(start, stop):
        at = np.int64(index) * COLUMN_BAND
        end = min(at + COLUMN_BAND, c)
        moments(x, at, means[: end - at], scales[: end - at])
        for i in range(end - at):
            scales[i] = 1 / math.sqrt(scales[i] + eps)
            gradient_sums[i] = product_sums[i] = 0
        for r in range(n):
            row, gradient = x[r, at:end], g[r, at:end]
            for i in range(row.size):
                gradient_sums[i] += gradient[i]
                product_sums[i] += gradient[i] * (row[i] - means[i])
        for i in range(end - at):
            grad_weight[at + i], grad_bias[at + i] = product_sums[i] * scales[i], gradient_sums[i]
            mean_gradient[i], slope[i] = (
                gradient_sums[i] / n,
                product_sums[i] * scales[i] * scales[i] / n,
            )
            scales[i] *= weight[at + i]
        for r in range(n):
            row, gradient, out = x[r, at:end], g[r, at:end], grad_input[r, at:end]
            for i in range(row.size):
                out[i] = (gradient[i] - mean_gradient[i] - (row[i] - means[i]) * slope[i]) * scales[
                    i
                ]
