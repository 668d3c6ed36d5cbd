"""Batch norm of (samples, channels): a channel is a column, so many columns are done at a time.

One after the other would read one number of each row. Here a band of neighbouring columns is
gone through as if it were one number; the sums of all of them stay in the first cache.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .jit import wide
from .work_queue import share_out

BAND = 128
"""So many columns at a time."""


@njit(forceinline=True)
def moments(x, at, mean, variance):
    """Write mean and variance of as many columns as there is room for, from `at` on."""
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
    """y = (x - mean) / √(variance + ε) · weight + bias of each column; start, stop count bands."""
    start, stop = share_out(start, stop)
    wide()
    n, c = x.shape
    factor = np.empty(BAND, x.dtype)
    for index in range(start, stop):
        at = np.int64(index) * BAND
        end = min(at + BAND, c)
        mean, variance, shift = means[at:end], variances[at:end], bias[at:end]
        moments(x, at, mean, variance)
        for i in range(end - at):
            factor[i] = weight[at + i] / math.sqrt(variance[i] + eps)
        for r in range(n):
            row, out = x[r, at:end], y[r, at:end]
            for i in range(row.size):
                out[i] = (row[i] - mean[i]) * factor[i] + shift[i]


def batch_norm_back(start, stop, g, x, weight, eps, back, by_weight, by_bias):
    """The gradients of each column."""
    start, stop = share_out(start, stop)
    wide()
    n, c = x.shape
    means, scales = np.empty(BAND, x.dtype), np.empty(BAND, x.dtype)
    pushes, pulls = np.empty(BAND), np.empty(BAND)
    shared, slope = np.empty(BAND, x.dtype), np.empty(BAND, x.dtype)
    for index in range(start, stop):
        at = np.int64(index) * BAND
        end = min(at + BAND, c)
        moments(x, at, means[: end - at], scales[: end - at])
        for i in range(end - at):
            scales[i] = 1 / math.sqrt(scales[i] + eps)
            pushes[i] = pulls[i] = 0
        for r in range(n):
            row, given = x[r, at:end], g[r, at:end]
            for i in range(row.size):
                pushes[i] += given[i]
                pulls[i] += given[i] * (row[i] - means[i])
        for i in range(end - at):
            by_weight[at + i], by_bias[at + i] = pulls[i] * scales[i], pushes[i]
            shared[i], slope[i] = pushes[i] / n, pulls[i] * scales[i] * scales[i] / n
            scales[i] *= weight[at + i]
        for r in range(n):
            row, given, out = x[r, at:end], g[r, at:end], back[r, at:end]
            for i in range(row.size):
                out[i] = (given[i] - shared[i] - (row[i] - means[i]) * slope[i]) * scales[i]
