"""Layer, RMS and group norm: forward, and all three gradients, in one pass.

A definition goes through the memory for the mean, the difference, the square, its mean, the
quotient, the scale and the shift, and for the gradients twice as often. Here a row (a channel,
a group) is in the cache once it has been read for its mean, and the rest is computed there. That
is also why the gradients recompute mean and variance instead of storing them.

The gradients of weight and bias are sums over rows that different threads process: each group of
rows has sums of its own, which are added at the end. So the result does not depend on the number
of threads.
"""

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
    BOOL,
    INT64,
    SCALAR,
    TUPLE,
    are_contiguous_floats,
    as_rows_of,
    compile_kernel,
    contiguous_gradient,
    use_wide_vectors,
)
from .parallel import MIN_PARALLEL, parallel_for
from .row_reduce import BLOCK, REORDERED, dot_centered, sum_squared_deviations, total
from .work_queue import claim_range

Run = Callable[..., Any]


# Layer norm: rows, with a weight for each column -------------------------------------------


def layer_norm(start, stop, x, weight, bias, centered, eps, y):
    """y = (x - mean) / √(variance + ε) · weight + bias of each row; in RMS norm, the mean is 0."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    # Sums arrive as float64. Left so, one of them would widen the whole loop: half the lanes.
    number = x.dtype.type
    for r in range(start, stop):
        row, out = x[r], y[r]
        mean = number(total(row) / row.size if centered else 0)
        # The variance from deviations, not as E[x²] - E[x]², which cancels for a large mean.
        scale = number(1 / math.sqrt(sum_squared_deviations(row, mean) / row.size + eps))
        for i in range(row.size):
            out[i] = (row[i] - mean) * scale * weight[i] + bias[i]


@njit(**REORDERED)
def block_weighted_sums(g, x, weight, mean, scale, grad_weight, grad_bias):
    """Return Σ gw and Σ gw·x̂ of a short row, and add g·x̂ and g to the sums over rows."""
    # In the dtype of x, to fill the lanes; a block is too short for that to cost much precision.
    gradient_sum = product_sum = x.dtype.type(0)
    for i in range(x.size):
        standard, weighted = (x[i] - mean) * scale, g[i] * weight[i]
        gradient_sum += weighted
        product_sum += weighted * standard
        grad_weight[i] += g[i] * standard
        grad_bias[i] += g[i]
    return gradient_sum, product_sum


@njit(forceinline=True)
def weighted_sums(g, x, weight, mean, scale, grad_weight, grad_bias):
    """The same of any row."""
    # float64: a long row has many blocks.
    gradient_sum = product_sum = 0.0
    for at in range(0, x.size, BLOCK):
        end = at + BLOCK
        one, other = block_weighted_sums(
            g[at:end], x[at:end], weight[at:end], mean, scale, grad_weight[at:end],
            grad_bias[at:end],
        )  # fmt: skip
        gradient_sum, product_sum = gradient_sum + one, product_sum + other
    return gradient_sum, product_sum


def layer_norm_backward(start, stop, g, x, weight, eps, settings, gradients):
    """Compute the gradients; `grad_weight` and `grad_bias` have a row for each group of rows.

    These are not touched if `is_unscaled`: with no bias, and 1 for each weight.
    """
    start, stop = claim_range(start, stop)
    centered, is_unscaled = settings
    grad_input, grad_weight, grad_bias = gradients
    use_wide_vectors()
    number = x.dtype.type
    rows, n = x.shape
    size = (rows + grad_weight.shape[0] - 1) // grad_weight.shape[0]
    for index in range(start, stop):
        group = np.int64(index)
        weight_row, bias_row = grad_weight[group], grad_bias[group]
        for r in range(group * size, min(rows, (group + 1) * size)):
            row, gradient, out = x[r], g[r], grad_input[r]
            mean = number(total(row) / n if centered else 0)
            scale = number(1 / math.sqrt(sum_squared_deviations(row, mean) / n + eps))
            if is_unscaled:  # two sums less over rows, which no one will read
                gradient_sum, product_sum = (
                    total(gradient),
                    dot_centered(gradient, row, mean) * scale,
                )
            else:
                gradient_sum, product_sum = weighted_sums(
                    gradient, row, weight, mean, scale, weight_row, bias_row
                )
            # An RMS norm has no mean, through which a gradient could flow.
            gradient_sum = number(gradient_sum / n if centered else 0)
            product_sum = number(product_sum / n)
            # A second pass, for both sums need the whole row; but it is still in the cache.
            for i in range(n):
                share = (
                    gradient[i] * weight[i] - gradient_sum - (row[i] - mean) * scale * product_sum
                )
                out[i] = scale * share


# Group norm: rows of channels, with a weight for each channel ------------------------------


def group_norm(start, stop, x, weight, bias, size, eps, y):
    """y = (x - mean) / √(variance + ε) · weight + bias; each channel has `size` elements."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    number = x.dtype.type
    channels = x.shape[1] // size
    for index in range(start, stop):
        r = np.int64(index)
        mean = number(total(x[r]) / x.shape[1])
        # It stays float64 until the product with a channel's weight, which is rounded once.
        scale = 1 / math.sqrt(sum_squared_deviations(x[r], mean) / x.shape[1] + eps)
        first = r * channels % weight.size  # x has a row for each group of each sample
        for k in range(channels):
            row, out = x[r, k * size : (k + 1) * size], y[r, k * size : (k + 1) * size]
            factor, shift = number(scale * weight[first + k]), bias[first + k]
            for i in range(row.size):
                out[i] = (row[i] - mean) * factor + shift


def group_norm_backward(start, stop, g, x, weight, size, eps, gradients):
    """Compute the gradients; `grad_weight`, `grad_bias` have a row for each group and sample."""
    start, stop = claim_range(start, stop)
    grad_input, grad_weight, grad_bias = gradients
    use_wide_vectors()
    number = x.dtype.type
    channels = x.shape[1] // size
    for index in range(start, stop):
        r = np.int64(index)
        mean = number(total(x[r]) / x.shape[1])
        scale = 1 / math.sqrt(sum_squared_deviations(x[r], mean) / x.shape[1] + eps)
        first = r * channels % weight.size
        gradient_sum = product_sum = 0.0
        for k in range(channels):
            row, gradient = x[r, k * size : (k + 1) * size], g[r, k * size : (k + 1) * size]
            bias_row, weight_row = total(gradient), dot_centered(gradient, row, mean) * scale
            grad_bias[r, k], grad_weight[r, k] = bias_row, weight_row
            # Within a group every channel has its own weight: it has to come before the sum.
            gradient_sum += bias_row * weight[first + k]
            product_sum += weight_row * weight[first + k]
        shift = number(scale * gradient_sum / x.shape[1])
        # `scale` once from the derivative and once from x̂, of which only x - mean is in the loop.
        slope = number(scale * scale * product_sum / x.shape[1])
        for k in range(channels):
            row, gradient = x[r, k * size : (k + 1) * size], g[r, k * size : (k + 1) * size]
            factor, out = (
                number(scale * weight[first + k]),
                grad_input[r, k * size : (k + 1) * size],
            )
            for i in range(row.size):
                out[i] = gradient[i] * factor - shift - (row[i] - mean) * slope


# The makers --------------------------------------------------------------------------------

MAX_GROUPS = 64
"""The largest number of groups of rows with sums of their own."""

MIN_CHANNEL_SIZE = 2
"""With fewer elements per sample, a channel is left to the definition, or `batch_norm_columns`."""


MAX_KEPT = 4096
"""So many ones and zeros are kept: kernels only read them."""


def constants_of(size: int, dtype: np.dtype, value: int) -> np.ndarray:
    """Return an array of one value."""
    return np.full(size, value, dtype)


kept_constants = functools.lru_cache(64)(constants_of)


def parameter_rows(
    input: Array, weight: Array | None, bias: Array | None, size: int
) -> list[np.ndarray] | None:
    """Return weight and bias as 1-D arrays, ones and zeros if absent; None if unsupported."""
    # Ones and zeros, so that one kernel serves layers with and without parameters.
    constants = kept_constants if size <= MAX_KEPT else constants_of
    weight = constants(size, input.dtype, 1) if weight is None else weight
    bias = constants(size, input.dtype, 0) if bias is None else bias
    if not input.size or not weight.size == bias.size == size:
        return None
    if not are_contiguous_floats((input, weight, bias)):
        return None
    flat = weight.ndim == 1 == bias.ndim
    return [weight, bias] if flat else [weight.reshape(-1), bias.reshape(-1)]


def channel_parameters(
    input: Array, weight: Array | None, bias: Array | None, is_supported: bool
) -> list[np.ndarray] | None:
    """Return weight and bias, an element for each channel; None if unsupported."""
    return parameter_rows(input, weight, bias, input.shape[1]) if is_supported else None


def select_gradients(
    grad_input: Array,
    weight: Array | None,
    bias: Array | None,
    grad_weight: Array,
    grad_bias: Array,
) -> tuple[Any, ...]:
    """Return the gradients in the parameters' shapes, None for absent parameters."""
    grad_weight = None if weight is None else grad_weight.reshape(weight.shape)
    return grad_input, grad_weight, None if bias is None else grad_bias.reshape(bias.shape)


@functools.cache
def layer_norm_kernel() -> Any:
    """Compile the forward of layer and RMS norm."""
    return compile_kernel(layer_norm, ARRAY_2D, ARRAY_1D, ARRAY_1D, BOOL, SCALAR, ARRAY_2D)


@functools.cache
def layer_norm_backward_kernel() -> Any:
    """Compile the gradients of layer and RMS norm."""
    settings, gradients = TUPLE(BOOL, BOOL), TUPLE(*[ARRAY_2D] * 3)
    return compile_kernel(
        layer_norm_backward, ARRAY_2D, ARRAY_2D, ARRAY_1D, SCALAR, settings, gradients
    )


def run_layer_norm(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    axes: int,
    eps: float,
    centered: bool = True,
) -> np.ndarray | None:
    """Run the forward of layer norm, or of RMS norm."""
    n = input.shape[-1] if axes == 1 else math.prod(input.shape[input.ndim - axes :])
    weight_and_bias = parameter_rows(input, weight, bias, n)
    if weight_and_bias is None:
        return None
    y, table = np.empty(input.shape, input.dtype), as_rows_of(input, n)
    arguments = table, *weight_and_bias, centered, eps, as_rows_of(y, n)
    if y.size < MIN_PARALLEL:
        layer_norm_kernel()(0, len(table), *arguments)
    else:
        parallel_for(layer_norm_kernel(), len(table), *arguments, work=y.size)
    return y


def run_layer_norm_backward(
    g: Array,
    input: Array,
    weight: Array | None,
    bias: Array | None,
    axes: int,
    eps: float,
    centered: bool = True,
) -> tuple[Any, ...] | None:
    """Run the gradients of layer norm, or of RMS norm."""
    n = input.shape[-1] if axes == 1 else math.prod(input.shape[input.ndim - axes :])
    weight_and_bias = parameter_rows(input, weight, bias, n)
    g = contiguous_gradient(g, input)
    if weight_and_bias is None or not are_contiguous_floats((input, g)):
        return None
    grad_input = np.empty_like(input)
    count = input.size // n
    # Groups of at least 16 rows, and at most MAX_GROUPS: both limit what is added up at the end.
    groups = -(-count // max(16, -(-count // MAX_GROUPS)))
    # Zeros, because all rows of a group are added to one row here.
    sums = [np.zeros((groups, n), input.dtype) for _ in range(2)]
    tables = [as_rows_of(array, n) for array in (g, input, grad_input)]
    settings, gradients = (centered, weight is None and bias is None), (tables[2], *sums)
    parallel_for(
        layer_norm_backward_kernel(), groups, *tables[:2], weight_and_bias[0], eps, settings,
        gradients, work=3 * input.size,
    )  # fmt: skip
    return select_gradients(grad_input, weight, bias, *(sum_.sum(0) for sum_ in sums))


@normalization.native_layer_norm.kernel("cpu", min_size=256)
def native_layer_norm() -> Run:
    """Make the forward of layer norm."""
    layer_norm_kernel()
    return run_layer_norm


@normalization.native_layer_norm.kernel("cpu", "joint_vjp", min_size=256)
def native_layer_norm_joint_vjp() -> Run:
    """Make the gradients of layer norm."""
    layer_norm_backward_kernel()
    return run_layer_norm_backward


@normalization.fused_rms_norm.kernel("cpu", min_size=256)
def fused_rms_norm() -> Run:
    """Make the forward of RMS norm."""
    layer_norm_kernel()
    return lambda input, weight, axes, eps: run_layer_norm(input, weight, None, axes, eps, False)


@normalization.fused_rms_norm.kernel("cpu", "joint_vjp", min_size=256)
def fused_rms_norm_joint_vjp() -> Run:
    """Make the gradients of RMS norm."""
    layer_norm_backward_kernel()

    def run(
        g: Array, input: Array, weight: Array | None, axes: int, eps: float
    ) -> tuple[Any, ...] | None:
        weight_and_bias = run_layer_norm_backward(g, input, weight, None, axes, eps, False)
        return None if weight_and_bias is None else weight_and_bias[:2]

    return run


@normalization.native_group_norm.kernel("cpu", min_size=256)
def native_group_norm() -> Run:
    """Make the forward of group norm."""
    kernel = compile_kernel(group_norm, ARRAY_2D, ARRAY_1D, ARRAY_1D, INT64, SCALAR, ARRAY_2D)

    def run(
        input: Array, weight: Array | None, bias: Array | None, num_groups: int, eps: float
    ) -> np.ndarray | None:
        size = math.prod(input.shape[2:])
        weight_and_bias = channel_parameters(input, weight, bias, size >= MIN_CHANNEL_SIZE)
        if weight_and_bias is None:
            return None
        y = np.empty_like(input)
        shape = len(input) * num_groups, -1
        arrays = input.reshape(shape), *weight_and_bias, size, eps, y.reshape(shape)
        parallel_for(kernel, shape[0], *arrays, work=y.size)
        return y

    return run


@normalization.native_group_norm.kernel("cpu", "joint_vjp", min_size=256)
def native_group_norm_joint_vjp() -> Run:
    """Make the gradients of group norm."""
    kernel = compile_kernel(
        group_norm_backward, *[ARRAY_2D] * 2, ARRAY_1D, INT64, SCALAR, TUPLE(*[ARRAY_2D] * 3)
    )

    def run(
        g: Array,
        input: Array,
        weight: Array | None,
        bias: Array | None,
        num_groups: int,
        eps: float,
    ) -> tuple[Any, ...] | None:
        size = math.prod(input.shape[2:])
        weight_and_bias = channel_parameters(input, weight, bias, size >= MIN_CHANNEL_SIZE)
        g = contiguous_gradient(g, input)
        if weight_and_bias is None or not are_contiguous_floats((input, g)):
            return None
        grad_input = np.empty_like(input)
        shape = len(input) * num_groups, -1
        # Not zeros: a group of a sample owns its elements, and assigns them once.
        sums = [np.empty((shape[0], input.shape[1] // num_groups), input.dtype) for _ in range(2)]
        arrays = [array.reshape(shape) for array in (g, input, grad_input)]
        settings, gradients = (weight_and_bias[0], size, eps), (arrays[2], *sums)
        parallel_for(kernel, shape[0], *arrays[:2], *settings, gradients, work=3 * input.size)
        by_channel = (sum_.reshape(len(input), -1).sum(0) for sum_ in sums)
        return select_gradients(grad_input, weight, bias, *by_channel)

    return run
