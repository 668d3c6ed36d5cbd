"""Layer, RMS, batch and group norm: forward, and all three gradients, in one pass.

A definition goes through the memory for the mean, the difference, the square, its mean, the
quotient, the scale and the shift, and for the gradients twice as often. Here a row (a channel,
a group) is in the cache once it is read for its mean, and all the rest is done to it there. That
is also why the gradients find mean and variance again instead of keeping them.

The gradients of weight and bias are sums over rows that different threads work on: each group
of rows has sums of its own, which are added up in the end. So the result does not depend on how
many threads there are.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from . import batch_norm_2d
from .jit import BLOCKS, FLAG, NUMBER, ROW, TABLE, WHOLE, alike, compiled, filled, wide
from .parallel import in_parts
from .row_reduce import BLOCK, REORDERED, dot_centred, spread, total
from .work_queue import share_out

Run = Callable[..., Any]


# Layer norm: rows, with a weight for each column -------------------------------------------


def layer_norm(start, stop, x, weight, bias, centred, eps, y):
    """y = (x - mean) / √(variance + ε) · weight + bias of each row; in RMS norm, 0 is the mean."""
    start, stop = share_out(start, stop)
    wide()
    number = x.dtype.type
    for r in range(start, stop):
        row, out = x[r], y[r]
        mean = number(total(row) / row.size if centred else 0)
        scale = number(1 / math.sqrt(spread(row, mean) / row.size + eps))
        for i in range(row.size):
            out[i] = (row[i] - mean) * scale * weight[i] + bias[i]


@njit(**REORDERED)
def block_pulls(g, x, weight, mean, scale, by_weight, by_bias):
    """Return Σ gw and Σ gw·x̂ of a short row, and add g·x̂ and g to the sums over rows."""
    shared = stretched = x.dtype.type(0)
    for i in range(x.size):
        standard, weighted = (x[i] - mean) * scale, g[i] * weight[i]
        shared += weighted
        stretched += weighted * standard
        by_weight[i] += g[i] * standard
        by_bias[i] += g[i]
    return shared, stretched


@njit(forceinline=True)
def pulls(g, x, weight, mean, scale, by_weight, by_bias):
    """The same of any row."""
    shared = stretched = 0.0
    for at in range(0, x.size, BLOCK):
        end = at + BLOCK
        one, other = block_pulls(
            g[at:end], x[at:end], weight[at:end], mean, scale, by_weight[at:end], by_bias[at:end]
        )
        shared, stretched = shared + one, stretched + other
    return shared, stretched


def layer_norm_back(start, stop, g, x, weight, centred, eps, back, by_weight, by_bias, plain):
    """The gradients, for groups of rows; `by_weight` and `by_bias` have a row for each group.

    They are left as they are if it is `plain`: with no bias, and 1 for each weight.
    """
    start, stop = share_out(start, stop)
    wide()
    number = x.dtype.type
    rows, n = x.shape
    size = (rows + by_weight.shape[0] - 1) // by_weight.shape[0]
    for index in range(start, stop):
        group = np.int64(index)
        pull, push = by_weight[group], by_bias[group]
        for r in range(group * size, min(rows, (group + 1) * size)):
            row, given, out = x[r], g[r], back[r]
            mean = number(total(row) / n if centred else 0)
            scale = number(1 / math.sqrt(spread(row, mean) / n + eps))
            if plain:
                shared, stretched = total(given), dot_centred(given, row, mean) * scale
            else:
                shared, stretched = pulls(given, row, weight, mean, scale, pull, push)
            shared, stretched = number(shared / n if centred else 0), number(stretched / n)
            for i in range(n):
                share = given[i] * weight[i] - shared - (row[i] - mean) * scale * stretched
                out[i] = scale * share


# Group norm: rows of channels, with a weight for each channel ------------------------------


def group_norm(start, stop, x, weight, bias, size, eps, y):
    """y = (x - mean) / √(variance + ε) · weight + bias; each `size` numbers are one channel."""
    start, stop = share_out(start, stop)
    wide()
    number = x.dtype.type
    channels = x.shape[1] // size
    for index in range(start, stop):
        r = np.int64(index)
        mean = number(total(x[r]) / x.shape[1])
        scale = 1 / math.sqrt(spread(x[r], mean) / x.shape[1] + eps)
        first = r * channels % weight.size
        for k in range(channels):
            row, out = x[r, k * size : (k + 1) * size], y[r, k * size : (k + 1) * size]
            factor, shift = number(scale * weight[first + k]), bias[first + k]
            for i in range(row.size):
                out[i] = (row[i] - mean) * factor + shift


def group_norm_back(start, stop, g, x, weight, size, eps, back, by_weight, by_bias):
    """The gradients; `by_weight` and `by_bias` have a row for each group of each sample."""
    start, stop = share_out(start, stop)
    wide()
    number = x.dtype.type
    channels = x.shape[1] // size
    for index in range(start, stop):
        r = np.int64(index)
        mean = number(total(x[r]) / x.shape[1])
        scale = 1 / math.sqrt(spread(x[r], mean) / x.shape[1] + eps)
        first = r * channels % weight.size
        shared = stretched = 0.0
        for k in range(channels):
            row, given = x[r, k * size : (k + 1) * size], g[r, k * size : (k + 1) * size]
            push, pull = total(given), dot_centred(given, row, mean) * scale
            by_bias[r, k], by_weight[r, k] = push, pull
            shared += push * weight[first + k]
            stretched += pull * weight[first + k]
        shift = number(scale * shared / x.shape[1])
        slope = number(scale * scale * stretched / x.shape[1])
        for k in range(channels):
            row, given = x[r, k * size : (k + 1) * size], g[r, k * size : (k + 1) * size]
            factor, out = number(scale * weight[first + k]), back[r, k * size : (k + 1) * size]
            for i in range(row.size):
                out[i] = given[i] * factor - shift - (row[i] - mean) * slope


# Batch norm: channels of (samples, channels, size) -----------------------------------------


@njit(forceinline=True)
def moments(x, channel):
    """Return mean and variance of one channel."""
    mean = variance = 0.0
    for k in range(x.shape[0]):
        mean += total(x[k, channel])
    count = x.shape[0] * x.shape[2]
    mean = x.dtype.type(mean / count)
    for k in range(x.shape[0]):
        variance += spread(x[k, channel], mean)
    return mean, variance / count


def batch_norm(start, stop, x, weight, bias, eps, y, means, variances):
    """y = (x - mean) / √(variance + ε) · weight + bias of each channel."""
    start, stop = share_out(start, stop)
    wide()
    number = x.dtype.type
    for channel in range(start, stop):
        mean, variance = moments(x, channel)
        means[channel], variances[channel] = mean, variance
        factor = number(weight[channel] / math.sqrt(variance + eps))
        shift = bias[channel]
        for k in range(x.shape[0]):
            row, out = x[k, channel], y[k, channel]
            for i in range(row.size):
                out[i] = (row[i] - mean) * factor + shift


def batch_norm_back(start, stop, g, x, weight, eps, back, by_weight, by_bias):
    """The gradients of each channel."""
    start, stop = share_out(start, stop)
    wide()
    number = x.dtype.type
    count = x.shape[0] * x.shape[2]
    for channel in range(start, stop):
        mean, variance = moments(x, channel)
        scale = 1 / math.sqrt(variance + eps)
        push = pull = 0.0
        for k in range(x.shape[0]):
            push += total(g[k, channel])
            pull += dot_centred(g[k, channel], x[k, channel], mean) * scale
        by_weight[channel], by_bias[channel] = pull, push
        factor = number(scale * weight[channel])
        shared, slope = number(push / count), number(scale * pull / count)
        for k in range(x.shape[0]):
            row, given, out = x[k, channel], g[k, channel], back[k, channel]
            for i in range(row.size):
                out[i] = (given[i] - shared - (row[i] - mean) * slope) * factor


# The makers --------------------------------------------------------------------------------

GROUPS = 64
"""At most so many sums over rows are kept side by side."""

SHORT = 8
"""Channels of fewer numbers for each sample are left to the definition; but see `batch_norm_2d.py`."""


def parameters(input: Any, weight: Any, bias: Any, size: int) -> list[np.ndarray] | None:
    """Return weight and bias as rows, ones and zeros for none; None if they do not fit."""
    if not input.size or not alike((input, *(each for each in (weight, bias) if each is not None))):
        return None
    rows = [np.ones(size, input.dtype) if weight is None else weight.reshape(-1)]
    rows.append(np.zeros(size, input.dtype) if bias is None else bias.reshape(-1))
    return rows if all(row.size == size for row in rows) else None


def wanted(back: Any, weight: Any, bias: Any, by_weight: Any, by_bias: Any) -> tuple[Any, ...]:
    """Return the gradients of what there is."""
    by_weight = None if weight is None else by_weight.reshape(weight.shape)
    return back, by_weight, None if bias is None else by_bias.reshape(bias.shape)


@functools.cache
def rows_kernel() -> Any:
    """Compile the forward of layer and RMS norm."""
    return compiled(layer_norm, TABLE, ROW, ROW, FLAG, NUMBER, TABLE)


@functools.cache
def rows_back_kernel() -> Any:
    """Compile their gradients."""
    return compiled(layer_norm_back, *[TABLE] * 2, ROW, FLAG, NUMBER, *[TABLE] * 3, FLAG)


def rows(
    input: Any, weight: Any, bias: Any, axes: int, eps: float, centred: bool = True
) -> np.ndarray | None:
    """Run the forward of layer norm, or of RMS norm."""
    n = math.prod(input.shape[input.ndim - axes :])
    found = parameters(input, weight, bias, n)
    if found is None:
        return None
    y = np.empty_like(input)
    table = input.reshape(-1, n)
    in_parts(rows_kernel(), len(table), table, *found, centred, eps, y.reshape(-1, n), work=y.size)
    return y


def rows_back(
    g: Any, input: Any, weight: Any, bias: Any, axes: int, eps: float, centred: bool = True
) -> tuple[Any, ...] | None:
    """Find the gradients of layer norm, or of RMS norm."""
    n = math.prod(input.shape[input.ndim - axes :])
    found = parameters(input, weight, bias, n)
    g = filled(g, input)
    if found is None or not alike((input, g)):
        return None
    back = np.empty_like(input)
    count = input.size // n
    groups = -(-count // max(16, -(-count // GROUPS)))
    sums = [np.zeros((groups, n), input.dtype) for _ in range(2)]
    tables = [each.reshape(-1, n) for each in (g, input, back)]
    settings = found[0], centred, eps
    results = tables[2], *sums, weight is None and bias is None
    in_parts(rows_back_kernel(), groups, *tables[:2], *settings, *results, work=3 * input.size)
    return wanted(back, weight, bias, *(sum_.sum(0) for sum_ in sums))


def native_layer_norm() -> Run:
    """Make the forward of layer norm."""
    rows_kernel()
    return rows


def native_layer_norm_joint_vjp() -> Run:
    """Make the gradients of layer norm."""
    rows_back_kernel()
    return rows_back


def fused_rms_norm() -> Run:
    """Make the forward of RMS norm."""
    rows_kernel()
    return lambda input, weight, axes, eps: rows(input, weight, None, axes, eps, False)


def fused_rms_norm_joint_vjp() -> Run:
    """Make the gradients of RMS norm."""
    rows_back_kernel()

    def run(g: Any, input: Any, weight: Any, axes: int, eps: float) -> tuple[Any, ...] | None:
        found = rows_back(g, input, weight, None, axes, eps, False)
        return None if found is None else found[:2]

    return run


def native_group_norm() -> Run:
    """Make the forward of group norm."""
    kernel = compiled(group_norm, TABLE, ROW, ROW, WHOLE, NUMBER, TABLE)

    def run(input: Any, weight: Any, bias: Any, num_groups: int, eps: float) -> np.ndarray | None:
        size = math.prod(input.shape[2:])
        found = parameters(input, weight, bias, input.shape[1]) if size >= SHORT else None
        if found is None:
            return None
        y = np.empty_like(input)
        shape = len(input) * num_groups, -1
        arrays = input.reshape(shape), *found, size, eps, y.reshape(shape)
        in_parts(kernel, shape[0], *arrays, work=y.size)
        return y

    return run


def native_group_norm_joint_vjp() -> Run:
    """Make the gradients of group norm."""
    kernel = compiled(group_norm_back, *[TABLE] * 2, ROW, WHOLE, NUMBER, *[TABLE] * 3)

    def run(
        g: Any, input: Any, weight: Any, bias: Any, num_groups: int, eps: float
    ) -> tuple[Any, ...] | None:
        size = math.prod(input.shape[2:])
        found = parameters(input, weight, bias, input.shape[1]) if size >= SHORT else None
        g = filled(g, input)
        if found is None or not alike((input, g)):
            return None
        back = np.empty_like(input)
        shape = len(input) * num_groups, -1
        sums = [np.empty((shape[0], input.shape[1] // num_groups), input.dtype) for _ in range(2)]
        arrays = [each.reshape(shape) for each in (g, input, back)]
        settings = found[0], size, eps
        in_parts(kernel, shape[0], *arrays[:2], *settings, arrays[2], *sums, work=3 * input.size)
        by_channel = (sum_.reshape(len(input), -1).sum(0) for sum_ in sums)
        return wanted(back, weight, bias, *by_channel)

    return run


def native_batch_norm() -> Run:
    """Make the forward of batch norm."""
    kernel = compiled(batch_norm, BLOCKS, ROW, ROW, NUMBER, BLOCKS, ROW, ROW)
    by_columns = compiled(batch_norm_2d.batch_norm, TABLE, ROW, ROW, NUMBER, TABLE, ROW, ROW)

    def run(input: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, ...] | None:
        n, c = input.shape[:2]
        size = math.prod(input.shape[2:])
        found = parameters(input, weight, bias, c) if size == 1 or size >= SHORT else None
        if found is None:
            return None
        y = np.empty_like(input)
        moments = [np.empty(c, input.dtype) for _ in range(2)]
        shape = (n, c) if size == 1 else (n, c, size)
        arrays = input.reshape(shape), *found, eps, y.reshape(shape), *moments
        if size == 1:
            in_parts(by_columns, -(-c // batch_norm_2d.BAND), *arrays, work=y.size)
        else:
            in_parts(kernel, c, *arrays, work=y.size)
        return y, *moments

    return run


def native_batch_norm_joint_vjp() -> Run:
    """Make the gradients of batch norm."""
    kernel = compiled(batch_norm_back, BLOCKS, BLOCKS, ROW, NUMBER, BLOCKS, ROW, ROW)
    by_columns = compiled(batch_norm_2d.batch_norm_back, *[TABLE] * 2, ROW, NUMBER, TABLE, ROW, ROW)

    def run(g: Any, input: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, ...] | None:
        n, c = input.shape[:2]
        size = math.prod(input.shape[2:])
        found = parameters(input, weight, bias, c) if size == 1 or size >= SHORT else None
        g = filled(g, input)
        if found is None or not alike((input, g)):
            return None
        back = np.empty_like(input)
        sums = [np.empty(c, input.dtype) for _ in range(2)]
        shape = (n, c) if size == 1 else (n, c, size)
        given, x, to = (each.reshape(shape) for each in (g, input, back))
        arrays = given, x, found[0], eps, to, *sums
        if size == 1:
            in_parts(by_columns, -(-c // batch_norm_2d.BAND), *arrays, work=3 * input.size)
        else:
            in_parts(kernel, c, *arrays, work=3 * input.size)
        return wanted(back, weight, bias, *sums)

    return run
