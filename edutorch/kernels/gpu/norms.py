"""Layer norm and RMS norm, and their derivatives, on a GPU (`norms.cu`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import backends
from ...backends.numpy import Array
from ...nn.functional import normalization
from .module import blocks_for, launch
from .reductions import COLUMN_THREADS, column_groups, finish_columns
from .row_launch import MAX_ROW_SIZE, as_table, is_supported, module_for, row_threads, wide_type

Run = Callable[..., Any]


def normalize(
    input: Array, weight: Array | None, bias: Array | None, axes: int, eps: float, centered: bool
) -> Array | None:
    """Compute layer norm, or RMS norm."""
    n = math.prod(input.shape[input.ndim - axes :])
    if not is_supported(input, weight, bias) or n > MAX_ROW_SIZE:
        return None
    x = as_table(input, n)
    y = backends.of(input).xp.empty(x.shape, x.dtype)
    # A kernel takes an array for each pointer: one that is not there is not read.
    parameters = [x if array is None else as_table(array, n) for array in (weight, bias)]
    flags = np.int32(centered), np.int32(weight is not None), np.int32(bias is not None)
    arguments = x, *parameters, y, np.int32(n), wide_type(x.dtype)(eps), *flags
    module = module_for("norms", x.dtype.name)
    launch(module, "norm_rows", x.shape[0], row_threads(n), arguments)
    return y.reshape(input.shape)


def normalize_backward(
    g: Array, input: Array, weight: Array | None, bias: Array | None, axes: int, eps: float,
    centered: bool,
) -> tuple[Any, Any, Any] | None:  # fmt: skip
    """Compute the gradients of input, weight and bias."""
    n = math.prod(input.shape[input.ndim - axes :])
    if not is_supported(g, input, weight, bias) or n > MAX_ROW_SIZE:
        return None
    xp, number = backends.of(input).xp, wide_type(input.dtype)
    x, gradient = as_table(input, n), as_table(g, n)
    rows = x.shape[0]
    grad_input, statistics = xp.empty(x.shape, x.dtype), xp.empty((rows, 2), number)
    module = module_for("norms", x.dtype.name)
    flags = np.int32(centered), np.int32(weight is not None)
    arguments = gradient, x, x if weight is None else as_table(weight, n), grad_input, statistics
    sizes = np.int32(n), number(eps), *flags
    launch(module, "norm_rows_backward", rows, row_threads(n), (*arguments, *sizes))
    grad_weight = grad_bias = None
    if weight is not None or bias is not None:
        groups = column_groups(rows)
        sums = xp.empty((len(groups), 2 * n), number)
        sizes = np.int32(rows), np.int32(n), np.int32(groups.step)
        grid = blocks_for(n, 32), len(groups)
        arguments = gradient, x, statistics, sums, *sizes
        launch(module, "norm_columns_backward", grid, COLUMN_THREADS, arguments)
        both = finish_columns(sums, x.dtype)
        grad_weight = None if weight is None else both[:n].reshape(weight.shape)
        grad_bias = None if bias is None else both[n:].reshape(bias.shape)
    return grad_input.reshape(input.shape), grad_weight, grad_bias


@normalization.native_layer_norm.kernel("cuda", min_size=0)
def native_layer_norm() -> Run:
    """Make the forward of layer norm."""
    return lambda input, weight, bias, axes, eps: normalize(
        input, weight, bias, axes, eps, centered=True
    )


@normalization.native_layer_norm.kernel("cuda", "joint_vjp", min_size=0)
def native_layer_norm_joint_vjp() -> Run:
    """Make the gradients of layer norm."""
    return lambda g, input, weight, bias, axes, eps: normalize_backward(
        g, input, weight, bias, axes, eps, centered=True
    )


@normalization.fused_rms_norm.kernel("cuda", min_size=0)
def fused_rms_norm() -> Run:
    """Make the forward of RMS norm."""
    return lambda input, weight, axes, eps: normalize(
        input, weight, None, axes, eps, centered=False
    )


@normalization.fused_rms_norm.kernel("cuda", "joint_vjp", min_size=0)
def fused_rms_norm_joint_vjp() -> Run:
    """Make the gradients of RMS norm."""

    def run(g: Array, input: Array, weight: Array | None, axes: int, eps: float) -> Any:
        gradients = normalize_backward(g, input, weight, None, axes, eps, centered=False)
        return None if gradients is None else gradients[:2]

    return run
