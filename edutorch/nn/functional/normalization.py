"""Normalisation: batch, layer, group, instance and RMS norm, and unit vectors.

The norms differ in the axes of mean and variance: the features of a sample (layer norm), all
samples of a channel (batch norm), a group of channels of a sample (group norm; with a channel
in each, instance norm). Each is one op; its gradient is the same for all.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from ... import backends
from ...backends import kernel_registry
from ...backends.numpy import Array, Namespace
from ...core.composed import compose, composed_in_float32, recorded_as, takes_out
from ...core.error_messages import wrong_argument
from ...core.precision import widen
from ...core.tensor import PLAIN_TENSORS, Tensor, wrap
from ...errors import DTypeError, InvalidValueError, ShapeError, ShapeValueError
from ...modes import NO_GRAD, current, no_grad
from ...ops import clamp, mean, reshape, rsqrt, sum, var
from ...ops.reduction import mean_of
from ...ops.statistics import vector_norm
from .distance import at_least, scale_by_max, shortest
from .op_decorators import ArrayOrTensor, SettingError, layer, shape_of
from .padding import pad
from .pooling import avg_pool_nd

BATCH_NORM_BY_STATISTICS = kernel_registry.slot("BATCH_NORM_BY_STATISTICS", "cuda")
"""Batch norm in evaluation as one kernel, which a device may have."""

Dims = tuple[int, ...]
GRADIENTS = {
    "input": r"\tfrac{1}{\sigma}\,(wg - \overline{wg} - \hat x\,\overline{wg\,\hat x})",
    "weight": r"\textstyle\sum g\,\hat x",
    "bias": r"\textstyle\sum g",
}


# The norms as ops: y = (x - mean) / √(variance + ε) · weight + bias ---------------------------


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
    y = affine_by_channel(y, weight, bias).astype(input.dtype)
    return y, batch_mean.reshape(-1).astype(input.dtype), variance.reshape(-1).astype(input.dtype)


@layer(promotion="float", dtypes="f", public="group_norm instance_norm")
def native_group_norm(
    xp: Namespace, input: Array, weight: Array | None, bias: Array | None, num_groups: int,
    eps: float,
) -> Array:  # fmt: skip
    """Group norm of (n, c, …), over the channels of a group; with c groups, instance norm."""
    y, _, _ = standardize(xp, input.reshape(group_shape(input.shape, num_groups)), (2,), eps)
    return affine_by_channel(y.reshape(input.shape), weight, bias).astype(input.dtype)


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


def apply_affine(y: ArrayOrTensor, weight: ArrayOrTensor | None, bias: ArrayOrTensor | None) -> Any:
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def affine_by_channel(
    y: ArrayOrTensor, weight: ArrayOrTensor | None, bias: ArrayOrTensor | None
) -> Any:
    shape = channel_shape(y.ndim)
    weight = None if weight is None else weight.reshape(shape)
    return apply_affine(y, weight, None if bias is None else bias.reshape(shape))


def channel_shape(ndim: int) -> Dims:
    """Return the shape in which one value per channel broadcasts with (n, c, …)."""
    return (1, -1, *(1,) * (ndim - 2))


def group_shape(shape: Dims, groups: int) -> Dims:
    return (shape[0], groups, math.prod(shape[1:]) // max(groups, 1))


# Gradients ------------------------------------------------------------------------------------


def recompute_standardized(x: ArrayOrTensor, dims: Dims, eps: float) -> tuple[Any, Any]:
    """Recompute x standardised and 1 / √(variance + ε), instead of saving them."""
    x = x - mean(x, dims, True)
    scale = rsqrt(mean(x * x, dims, True) + eps)
    return x * scale, scale


def standardize_backward(
    g: ArrayOrTensor, x: ArrayOrTensor, scale: ArrayOrTensor, dims: Dims
) -> Any:
    """The gradient of the standardisation: g without its mean and its component along x."""
    return scale * (g - mean(g, dims, True) - x * mean(g * x, dims, True))


def layer_norm_backward(
    g: ArrayOrTensor, input: ArrayOrTensor, weight: ArrayOrTensor | None,
    bias: ArrayOrTensor | None, axes: int, eps: float,
) -> tuple[Any, Any, Any]:  # fmt: skip
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


def rms_norm_backward(
    g: ArrayOrTensor, input: ArrayOrTensor, weight: ArrayOrTensor | None, axes: int, eps: float
) -> tuple[Any, Any]:
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
    g: ArrayOrTensor, input: ArrayOrTensor, weight: ArrayOrTensor | None,
    bias: ArrayOrTensor | None, eps: float,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The gradients of input, weight and bias."""
    dims = (0, *range(2, g.ndim))
    x, scale = recompute_standardized(input, dims, eps)
    grad_weight, grad_bias = affine_backward(g, x, weight, bias, dims, (-1,))
    g = g if weight is None else g * reshape(weight, channel_shape(g.ndim))
    return standardize_backward(g, x, scale, dims), grad_weight, grad_bias


def group_norm_backward(
    g: ArrayOrTensor, input: ArrayOrTensor, weight: ArrayOrTensor | None,
    bias: ArrayOrTensor | None, num_groups: int, eps: float,
) -> tuple[Any, Any, Any]:  # fmt: skip
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
    g: ArrayOrTensor, x: ArrayOrTensor, weight: ArrayOrTensor | None, bias: ArrayOrTensor | None,
    dims: Dims, shape: Dims,
) -> tuple[Any, Any]:  # fmt: skip
    """The gradients of weight and bias, or None where absent."""
    grad_weight = None if weight is None else reshape(sum_over(g * x, dims), shape)
    return grad_weight, None if bias is None else reshape(sum_over(g, dims), shape)


def sum_over(x: ArrayOrTensor, dims: Dims) -> Any:
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


__all__ = [
    "batch_norm", "fused_rms_norm", "group_norm", "instance_norm", "layer_norm",
    "local_response_norm", "native_batch_norm", "native_group_norm", "native_layer_norm",
    "normalize", "rms_norm",
]  # fmt: skip


# The public functions -------------------------------------------------------------------------


def keep_input_dtype(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Make a norm return the dtype of its input, and compute 16-bit inputs in float32.

    Weights and running averages may have a wider dtype than the input.
    """
    return compose(function, widening=with_input_dtype, finish=cast_to_input)


def with_input_dtype(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Wrap a norm for inputs of any dtype: see `keep_input_dtype`."""

    @functools.wraps(function)
    def wrapper(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not isinstance(input, Tensor):
            return function(input, *args, **kwargs)
        if input._array.dtype.itemsize != 2 or not input.is_floating_point():
            return cast_to_input(function(input, *args, **kwargs), input)
        return function(widen(input), *args, **kwargs).to(input.dtype)

    return wrapper


def cast_to_input(output: Tensor, input: Tensor) -> Tensor:
    """Cast a norm's output to the dtype of its input, which may be narrower than a weight's."""
    if output._array.dtype == input._array.dtype:
        return output
    both_floating = input.is_floating_point() and output.is_floating_point()
    return output.to(input.dtype) if both_floating else output


@recorded_as("NativeBatchNormBackward0")
@keep_input_dtype
def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
    weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Batch normalisation: by batch statistics in training, by running ones in evaluation.

    Training moves the running averages towards the mean and variance of the batch.

    Args:
        input: (n, c) or (n, c, …): the channels along axis 1.
        momentum: the weight of the batch statistics in the running averages.

    Raises: ShapeError: training with a single value per channel.

    >>> y = nn.functional.batch_norm(tensor([[1.0], [3.0]]), None, None, training=True)
    >>> y.round(decimals=2)
    tensor([[-1.],
            [ 1.]])
    """
    if input.ndim < 2 and not input.numel():  # without channels, as PyTorch takes it
        return input.clone()
    if input.ndim > 1:
        check_channels("batch_norm", input, running_mean, running_var, weight, bias)
    if training and eps <= 0:
        raise InvalidValueError("batch_norm", f"`eps` must be positive, got {eps}")
    if not training:
        if running_mean is None or running_var is None:
            raise InvalidValueError(
                "batch_norm", "Expected running_mean and running_var when training=False"
            )
        return normalize_by_running_stats(input, running_mean, running_var, weight, bias, eps)
    count = input.numel() // max(input.shape[1], 1)
    if count == 1:
        raise ShapeValueError(
            "batch_norm", "Expected more than 1 value per channel when training",
            {"input": tuple(input.shape)}, "use a larger batch, or model.eval()",
        )  # fmt: skip
    if not count:  # an empty batch changes no average; the parameters get gradients of 0
        return affine_by_channel(input, weight, bias) + 0
    y, batch_mean, variance = native_batch_norm(input, weight, bias, eps)
    if running_mean is None and running_var is None:
        return y
    with no_grad():
        if running_mean is not None:
            running_mean.lerp_(batch_mean.to(running_mean.dtype), momentum)
        if running_var is not None:
            running_var.lerp_((variance * (count / (count - 1))).to(running_var.dtype), momentum)
    return y


def normalize_by_running_stats(
    input: Tensor, mean: Tensor, variance: Tensor, weight: Tensor | None, bias: Tensor | None,
    eps: float,
) -> Tensor:  # fmt: skip
    """Normalise each channel by its running averages: one scale and one shift per channel."""
    tensors = input, mean, variance, weight, bias
    y = by_running_stats_on_device(tensors, eps) if current() is NO_GRAD else None
    if y is not None:
        return y
    if variance.dtype.category < 2:  # bool and integer statistics
        mean, variance = mean.to(input.dtype), variance.to(input.dtype)
    if variance.dtype.itemsize == 2:  # one rounding, at the end
        mean, variance, weight, bias = map(widen, (mean, variance, weight, bias))
    scale = rsqrt(variance + eps)
    scale = scale if weight is None else scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    return affine_by_channel(input, scale, shift)


def by_running_stats_on_device(tensors: tuple[Tensor | None, ...], eps: float) -> Tensor | None:
    """Normalise by the one kernel that a device has for it, or return None; no op is recorded."""
    arrays = [None if tensor is None else tensor._array for tensor in tensors]
    backend = backends.of(arrays[0])
    classes = {type(tensor) for tensor in tensors if tensor is not None}
    if not backend.kernels or not classes <= PLAIN_TENSORS:
        return None
    run, name = kernel_registry.run_on_device, "BATCH_NORM_BY_STATISTICS"
    y = backend.on_card(run, backend.kernels, name, arrays[0].size, (*arrays, eps))  # type: ignore[union-attr]
    return None if y is None else wrap(y)


@keep_input_dtype
def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Layer normalisation of each sample over its last axes, of shape `normalized_shape`.

    Raises: ShapeError: the last axes have other sizes.

    >>> nn.functional.layer_norm(tensor([[1.0, 3.0]]), (2,)).round(decimals=2)
    tensor([[-1.,  1.]])
    """
    shape = resolve_normalized_shape("layer_norm", input, normalized_shape)
    check_normalized_shape("layer_norm", shape, weight=weight, bias=bias)
    return native_layer_norm(input, weight, bias, len(shape), eps)


def check_normalized_shape(op: str, shape: tuple[int, ...], **parameters: Tensor | None) -> None:
    for name, parameter in parameters.items():
        if parameter is None or parameter._array.shape == shape:
            continue
        if parameter.shape != shape:  # (of a DTensor, the array is only a part)
            raise ShapeError(
                op, f"expected `{name}` to have the normalized shape {shape}",
                {name: tuple(parameter.shape)},
            )  # fmt: skip


def resolve_normalized_shape(
    op: str, input: Tensor, normalized_shape: Sequence[int]
) -> tuple[int, ...]:
    if normalized_shape.__class__ is tuple and normalized_shape:  # the usual case first
        shape, whole = normalized_shape, shape_of(input)
        if whole[len(whole) - len(shape) :] == shape:
            return shape
    if isinstance(normalized_shape, int):
        raise wrong_argument(op, "normalized_shape", normalized_shape, "Sequence[int]")
    shape = tuple(normalized_shape)
    if not shape:
        raise ShapeError(op, "normalized_shape must name at least one axis, got ()")
    if tuple(input.shape[input.ndim - len(shape) :]) != shape:
        raise ShapeError(
            op, f"the last axes of `input` should be {shape}", {"input": tuple(input.shape)},
            "normalized_shape is the size of the features, without the batch",
        )  # fmt: skip
    return shape


@keep_input_dtype
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Group normalisation of each sample over groups of its channels.

    Raises: ShapeError: the channels are not divisible into so many groups.

    >>> nn.functional.group_norm(tensor([[1.0, 3.0]]), 1).round(decimals=2)
    tensor([[-1.,  1.]])
    """
    shape = shape_of(input)
    if len(shape) < 2 or num_groups <= 0:
        raise ShapeError(
            "group_norm", "needs an input (n, c, …) and a positive number of groups",
            {"input": tuple(input.shape), "num_groups": num_groups},
        )  # fmt: skip
    c = shape[1]
    if c % num_groups:
        raise ShapeError(
            "group_norm", f"{c} channels cannot be cut into {num_groups} groups",
            {"input": tuple(input.shape)},
        )  # fmt: skip
    if shape[0] == 1 and math.prod(shape) == num_groups:
        raise ShapeValueError(
            "group_norm", "Expected more than 1 value per channel when training",
            {"input": tuple(input.shape)}, "a single number less its mean is 0",
        )  # fmt: skip
    check_channels("group_norm", input, None, None, weight, bias)
    return native_group_norm(input, weight, bias, num_groups, eps)


def check_channels(op: str, input: Tensor, *parameters: Tensor | None) -> None:
    """Raise ShapeError unless parameters have one value per channel: others would broadcast.

    Args:
        parameters: the running mean, the running variance, weight and bias.
    """
    count = (input._array.shape[1],)
    for index, parameter in enumerate(parameters):
        if parameter is None or parameter._array.shape == count:
            continue
        if parameter.shape != input.shape[1:2]:  # (of a DTensor, the array is only a part)
            name = ("running_mean", "running_var", "weight", "bias")[index]
            raise ShapeError(
                op, f"`{name}` needs one number for each of {input.shape[1]} channels",
                {"input": tuple(input.shape), name: tuple(parameter.shape)},
            )  # fmt: skip


@keep_input_dtype
def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Instance normalisation: each channel of each sample, or by running averages.

    Args: as for `batch_norm`; `use_input_stats=False` uses the running averages.

    Raises: ShapeError: a single value per channel.

    >>> nn.functional.instance_norm(tensor([[[1.0, 3.0]]])).round(decimals=2)
    tensor([[[-1.,  1.]]])
    """
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    count = math.prod(input.shape[2:])
    if input.ndim > 1:
        check_channels("instance_norm", input, running_mean, running_var, weight, bias)
    if count == 1:
        raise ShapeValueError(
            "instance_norm", "Expected more than 1 spatial element when training",
            {"input": tuple(input.shape)}, "a sample's channel needs several numbers: (n, c, …)",
        )  # fmt: skip
    if (running_mean is None) != (running_var is None):
        raise InvalidValueError(
            "instance_norm", "running_mean and running_var must either both be None or neither"
        )
    with no_grad():
        dims = tuple(range(2, input.ndim))
        if running_mean is not None:
            average = mean(mean(input, dims), 0)
            running_mean.lerp_(average.to(running_mean.dtype), momentum)
        if running_var is not None:
            running_var.lerp_(mean(var(input, dims), 0).to(running_var.dtype), momentum)
    return native_group_norm(input, weight, bias, input.shape[1], eps)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:  # fmt: skip
    """Root mean square normalisation of each sample: y = x / √(mean(x²) + ε).

    >>> nn.functional.rms_norm(tensor([[3.0, 4.0]]), (2,), eps=0.0)
    tensor([[0.8485, 1.1314]])
    """
    shape = resolve_normalized_shape("rms_norm", input, normalized_shape)
    if eps is None:
        eps = float(numpy.finfo(widen(input).dtype.numpy).eps)  # of the dtype that it computes in
    check_normalized_shape("rms_norm", shape, weight=weight)
    if input.is_complex():  # PyTorch's formula: the mean of x², not of |x|²
        y = input * rsqrt(mean(input * input, tuple(range(-len(shape), 0)), True) + eps)
        return y if weight is None else y * weight
    if input._array.dtype.itemsize > 2:
        return cast_to_input(fused_rms_norm(input, weight, len(shape), eps), input)
    y = fused_rms_norm(widen(input), None, len(shape), eps).to(input.dtype)
    return y if weight is None else (y * weight).to(input.dtype)


@takes_out
@composed_in_float32
def normalize(
    input: Tensor, p: float = 2.0, dim: int | tuple[int, ...] = 1, eps: float = 1e-12
) -> Tensor:
    """Divide vectors along `dim` by their p-norm, at least `eps`.

    >>> nn.functional.normalize(tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    if input._array.dtype.kind != "f" and not (input.is_floating_point() or input.is_complex()):
        raise DTypeError(
            "normalize", "expected floating or complex numbers", {"input": input.dtype},
            "use x.float()",
        )  # fmt: skip
    length = vector_norm(input, p, dim, True)
    if not 1 <= p < math.inf:
        return input / clamp(length, min=eps)
    least = shortest(length, p)
    if math.isnan(least):
        input, length = scale_by_max(input, p, dim, eps, True)
        return input / length
    return input / at_least(length, eps, least)


# Over neighbouring channels -------------------------------------------------------------------


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Local response normalisation: y = x / (k + α · mean(x²))^β over neighbouring channels.

    Args:
        input: (n, c, …), at least 3 axes.
        size: the number of channels of the mean.

    Raises: SettingError (a ValueError): too few axes.

    Paper: Krizhevsky, Sutskever and Hinton, ImageNet classification, 2012.

    >>> nn.functional.local_response_norm(ones(1, 2, 1), 2, alpha=6.0).flatten()
    tensor([0.3536, 0.2324])
    """
    if input.ndim < 3:
        raise SettingError("local_response_norm", "expected 3 axes or more: (n, c, …)",
            {"input": tuple(input.shape)})  # fmt: skip
    if not input.numel():
        return input
    n, c, *rest = input.shape
    rows = reshape(input * input, (n, 1, c, math.prod(rest)))
    rows = pad(rows, (0, 0, size // 2, (size - 1) // 2))
    means = reshape(avg_pool_nd(2, rows, (size, 1), 1, 0, False, True), input.shape)
    return input / (means * alpha + k) ** beta
