"""Normalisation: batch, layer, group, instance and RMS norm, and unit vectors."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from ...core.autograd.node_names import recorded_as
from ...core.error_messages import wrong_argument
from ...core.out_variants import takes_out
from ...core.precision import composed_in_float32, widen
from ...core.tensor import Tensor
from ...errors import DTypeError, InvalidValueError, ShapeError, ShapeValueError
from ...modes import no_grad
from ...ops import clamp, mean, reshape, rsqrt, var
from ...ops.statistics import vector_norm
from .distance import is_extreme, scale_by_max
from .native_norms import (
    fused_rms_norm,
    native_batch_norm,
    native_group_norm,
    native_layer_norm,
)

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "normalize", "rms_norm"]


def keep_input_dtype(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Wrap a norm: it returns the dtype of its input, and computes 16-bit inputs in float32.

    Weights and running averages may have a wider dtype than the input.
    """

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
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
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
    channels = (1, -1) + (1,) * (input.ndim - 2)
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
        y = input if weight is None else input * reshape(weight, channels)
        return y + (0 if bias is None else reshape(bias, channels))
    y, batch_mean, variance = native_batch_norm(input, weight, bias, eps)
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
    if variance.dtype.category < 2:  # bool and integer statistics
        mean, variance = mean.to(input.dtype), variance.to(input.dtype)
    if variance.dtype.itemsize == 2:  # one rounding, at the end
        mean, variance, weight, bias = map(widen, (mean, variance, weight, bias))
    scale = rsqrt(variance + eps)
    scale = scale if weight is None else scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    channels = (1, -1) + (1,) * (input.ndim - 2)
    return input * reshape(scale, channels) + reshape(shift, channels)


@keep_input_dtype
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Layer normalisation of each sample over its last axes, of shape `normalized_shape`.

    Raises: ShapeError: the last axes have other sizes.

    >>> nn.functional.layer_norm(tensor([[1.0, 3.0]]), (2,)).round(decimals=2)
    tensor([[-1.,  1.]])
    """
    shape = resolve_normalized_shape("layer_norm", input, normalized_shape)
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and parameter._array.shape != shape:
            raise ShapeError(
                "layer_norm", f"expected `{name}` to have the normalized shape {shape}",
                {name: tuple(parameter.shape)},
            )  # fmt: skip
    return native_layer_norm(input, weight, bias, len(shape), eps)


def check_weight_shape(parameter: Tensor | None, shape: tuple[int, ...]) -> Tensor | None:
    if parameter is None or parameter._array.shape == shape:
        return parameter
    raise ShapeError(
        "rms_norm", f"expected `weight` to have the normalized shape {shape}",
        {"weight": tuple(parameter.shape)},
    )  # fmt: skip


def resolve_normalized_shape(
    op: str, input: Tensor, normalized_shape: Sequence[int]
) -> tuple[int, ...]:
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
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Group normalisation of each sample over groups of its channels.

    Raises: ShapeError: the channels are not divisible into so many groups.

    >>> nn.functional.group_norm(tensor([[1.0, 3.0]]), 1).round(decimals=2)
    tensor([[-1.,  1.]])
    """
    if input.ndim < 2 or num_groups <= 0:
        raise ShapeError(
            "group_norm", "needs an input (n, c, …) and a positive number of groups",
            {"input": tuple(input.shape), "num_groups": num_groups},
        )  # fmt: skip
    c = input.shape[1]
    if c % num_groups:
        raise ShapeError(
            "group_norm", f"{c} channels cannot be cut into {num_groups} groups",
            {"input": tuple(input.shape)},
        )  # fmt: skip
    if input.numel() == num_groups == input.shape[0] * num_groups:
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
    count = input._array.shape[1]
    for index, parameter in enumerate(parameters):
        if parameter is not None and parameter._array.shape != (count,):
            name = ("running_mean", "running_var", "weight", "bias")[index]
            raise ShapeError(
                op, f"`{name}` needs one number for each of {count} channels",
                {"input": tuple(input.shape), name: tuple(parameter.shape)},
            )  # fmt: skip


@keep_input_dtype
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
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
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Root mean square normalisation of each sample: y = x / √(mean(x²) + ε).

    >>> nn.functional.rms_norm(tensor([[3.0, 4.0]]), (2,), eps=0.0)
    tensor([[0.8485, 1.1314]])
    """
    shape = resolve_normalized_shape("rms_norm", input, normalized_shape)
    if eps is None:
        eps = float(numpy.finfo(widen(input).dtype.numpy).eps)  # of the dtype that it computes in
    weight = check_weight_shape(weight, shape)
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
    if not (input.is_floating_point() or input.is_complex()):
        raise DTypeError(
            "normalize", "expected floating or complex numbers", {"input": input.dtype},
            "use x.float()",
        )  # fmt: skip
    length = vector_norm(input, p, dim, True)
    if 1 <= p < math.inf and is_extreme(length, p):
        input, length = scale_by_max(input, p, dim, eps, True)
        return input / length
    return input / clamp(length, min=eps)
