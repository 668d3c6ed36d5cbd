"""The normalisation layers, one op each: standardise, then scale and shift.

    y = (x - mean) / √(variance + ε) · weight + bias

They differ in the axes of mean and variance: the features of a sample (layer norm), all samples of
a channel (batch norm), a group of channels of a sample (group norm). The gradient is the same.
"""

from __future__ import annotations

import math
from typing import Any

from ...backends.numpy import Array, Namespace
from ...ops import mean, reshape, rsqrt, sum
from ...ops.reduction import mean_of
from .op_decorators import layer

__all__ = ["fused_rms_norm", "native_batch_norm", "native_group_norm", "native_layer_norm"]

Dims = tuple[int, ...]
GRADIENTS = {
    "input": r"\tfrac{1}{\sigma}\,(wg - \overline{wg} - \hat x\,\overline{wg\,\hat x})",
    "weight": r"\textstyle\sum g\,\hat x",
    "bias": r"\textstyle\sum g",
}


@layer(promotion="float", dtypes="f", public="layer_norm")
def native_layer_norm(
    xp: Namespace, input: Array, weight: Array | None, bias: Array | None, axes: int, eps: float
) -> Array:
    """Layer norm over the last `axes` axes, which have the shape of the weight."""
    dims = tuple(range(input.ndim - axes, input.ndim))
    y, _, _ = standardize(xp, input, dims, eps)
    return apply_affine(y, weight, bias).astype(input.dtype)


@layer(
    promotion="float", outputs=("y", "mean", "variance"), dtypes="f",
    public="batch_norm",
)  # fmt: skip
def native_batch_norm(
    xp: Namespace, input: Array, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    """Batch norm of (n, c, …), over all axes but the channels; also returns mean and variance."""
    y, batch_mean, variance = standardize(xp, input, (0, *range(2, input.ndim)), eps)
    shape = channel_shape(input.ndim)
    weight, bias = (
        parameter if parameter is None else parameter.reshape(shape) for parameter in (weight, bias)
    )
    y = apply_affine(y, weight, bias).astype(input.dtype)
    return y, batch_mean.reshape(-1).astype(input.dtype), variance.reshape(-1).astype(input.dtype)


@layer(promotion="float", dtypes="f", public="group_norm instance_norm")
def native_group_norm(
    xp: Namespace,
    input: Array,
    weight: Array | None,
    bias: Array | None,
    num_groups: int,
    eps: float,
) -> Array:
    """Group norm of (n, c, …), over the channels of a group; with c groups, instance norm."""
    y, _, _ = standardize(xp, input.reshape(group_shape(input.shape, num_groups)), (2,), eps)
    shape = channel_shape(input.ndim)
    weight, bias = (
        parameter if parameter is None else parameter.reshape(shape) for parameter in (weight, bias)
    )
    return apply_affine(y.reshape(input.shape), weight, bias).astype(input.dtype)


@layer(promotion="float", dtypes="f", public="rms_norm")
def fused_rms_norm(
    xp: Namespace, input: Array, weight: Array | None, axes: int, eps: float
) -> Array:
    """RMS norm over the last `axes` axes: no mean is subtracted, and there is no bias."""
    x = input.astype("float32") if input.dtype.itemsize == 2 else input
    dims = tuple(range(input.ndim - axes, input.ndim))
    y = x / xp.sqrt(xp.mean(x * x, axis=dims, keepdims=True) + eps)
    return apply_affine(y, weight, None).astype(input.dtype)


def standardize(xp: Namespace, input: Array, dims: Dims, eps: float) -> tuple[Array, Array, Array]:
    """Return (x - mean) / √(variance + ε), mean and variance over `dims`."""
    if input.dtype.itemsize == 2:  # the squares would overflow
        input = input.astype("float32")
    mean = mean_of(xp, input, dims, True)
    y = input - mean
    variance = mean_of(xp, y * y, dims, True)
    y /= xp.sqrt(variance + eps)
    return y, mean, variance


def apply_affine(y: Any, weight: Any, bias: Any) -> Any:
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def channel_shape(ndim: int) -> Dims:
    """Return the shape in which one value per channel broadcasts with (n, c, …)."""
    return (1, -1, *(1,) * (ndim - 2))


def group_shape(shape: Dims, groups: int) -> Dims:
    return (shape[0], groups, math.prod(shape[1:]) // max(groups, 1))


# Gradients ---------------------------------------------------------------------------------


def recompute_standardized(x: Any, dims: Dims, eps: float) -> tuple[Any, Any]:
    """Recompute x standardised and 1 / √(variance + ε), instead of saving them."""
    x = x - mean(x, dims, True)
    scale = rsqrt(mean(x * x, dims, True) + eps)
    return x * scale, scale


def standardize_backward(g: Any, x: Any, scale: Any, dims: Dims) -> Any:
    """The gradient of the standardisation: g without its mean and its component along x."""
    return scale * (g - mean(g, dims, True) - x * mean(g * x, dims, True))


def layer_norm_backward(
    g: Any, input: Any, weight: Any, bias: Any, axes: int, eps: float
) -> tuple[Any, Any, Any]:
    """The gradients of input, weight and bias."""
    dims = tuple(range(g.ndim - axes, g.ndim))
    x, scale = recompute_standardized(input, dims, eps)
    grad_weight, grad_bias = affine_backward(
        g, x, weight, bias, tuple(range(g.ndim - axes)), g.shape[-axes:]
    )
    return (
        standardize_backward(g if weight is None else g * weight, x, scale, dims),
        grad_weight,
        grad_bias,
    )


def rms_norm_backward(g: Any, input: Any, weight: Any, axes: int, eps: float) -> tuple[Any, Any]:
    """The gradients of input and weight: g without its component along x."""
    dims = tuple(range(g.ndim - axes, g.ndim))
    scale = rsqrt(mean(input * input, dims, True) + eps)
    x = input * scale
    grad_weight, _ = affine_backward(
        g, x, weight, None, tuple(range(g.ndim - axes)), g.shape[-axes:]
    )
    g = g if weight is None else g * weight
    return scale * (g - x * mean(g * x, dims, True)), grad_weight


def batch_norm_backward(
    g: Any, input: Any, weight: Any, bias: Any, eps: float
) -> tuple[Any, Any, Any]:
    """The gradients of input, weight and bias."""
    dims = (0, *range(2, g.ndim))
    x, scale = recompute_standardized(input, dims, eps)
    grad_weight, grad_bias = affine_backward(g, x, weight, bias, dims, (-1,))
    g = g if weight is None else g * reshape(weight, channel_shape(g.ndim))
    return standardize_backward(g, x, scale, dims), grad_weight, grad_bias


def group_norm_backward(
    g: Any, input: Any, weight: Any, bias: Any, num_groups: int, eps: float
) -> tuple[Any, Any, Any]:
    """The gradients of input, weight and bias."""
    groups = group_shape(g.shape, num_groups)
    x, scale = recompute_standardized(reshape(input, groups), (2,), eps)
    dims = (0, *range(2, g.ndim))
    grad_weight, grad_bias = affine_backward(g, reshape(x, g.shape), weight, bias, dims, (-1,))
    g_input = g if weight is None else g * reshape(weight, channel_shape(g.ndim))
    return (
        reshape(standardize_backward(reshape(g_input, groups), x, scale, (2,)), g.shape),
        grad_weight,
        grad_bias,
    )


def affine_backward(
    g: Any, x: Any, weight: Any, bias: Any, dims: Dims, shape: Dims
) -> tuple[Any, Any]:
    """The gradients of weight and bias, or None where absent."""
    grad_weight = None if weight is None else reshape(sum_over(g * x, dims), shape)
    return grad_weight, None if bias is None else reshape(sum_over(g, dims), shape)


def sum_over(x: Any, dims: Dims) -> Any:
    """Σ x over dims, which may be empty (`sum` without dims would sum over all)."""
    return sum(x, dims) if dims else x


native_layer_norm.vjp(joint_vjp=layer_norm_backward, latex=GRADIENTS)
native_batch_norm.vjp(joint_vjp=batch_norm_backward, latex=GRADIENTS)
native_group_norm.vjp(joint_vjp=group_norm_backward, latex=GRADIENTS)
fused_rms_norm.vjp(
    joint_vjp=rms_norm_backward,
    latex={
        "input": r"\tfrac{1}{\sigma}\,(wg - \hat x\,\overline{wg\,\hat x})",
        "weight": r"\textstyle\sum g\,\hat x",
    },
)
