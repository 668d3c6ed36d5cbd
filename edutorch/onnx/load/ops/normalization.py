"""Normalization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..table import onnx_op
from ..values import F, Value, dtype_of, facts, number, positive, rank_of, torch


@onnx_op("BatchNormalization")
def batch_normalization(
    X: Value, scale: Value, B: Value, input_mean: Value, input_var: Value, *,
    epsilon: float = 1e-5, momentum: float = 0.9, training_mode: int = 0, spatial: int = 1,
    outputs: int = 1,
) -> Any:  # fmt: skip
    """Normalize each channel, by running statistics or by those of the batch."""
    if not training_mode:
        return F.batch_norm(X, input_mean, input_var, scale, B, False, 0.1, epsilon)
    axes = [0, *range(2, rank_of(X))]
    var, mean = torch.var_mean(X, axes, correction=0)
    running_mean = input_mean * momentum + mean * (1 - momentum)
    running_var = input_var * momentum + var * (1 - momentum)
    result = F.batch_norm(X, mean, var, scale, B, False, 0.1, epsilon)
    return result if outputs == 1 else (result, running_mean, running_var)


@onnx_op("InstanceNormalization")
def instance_normalization(input: Value, scale: Value, B: Value, *, epsilon: float = 1e-5) -> Value:
    """Normalize each channel of each sample."""
    return F.instance_norm(input, weight=scale, bias=B, eps=epsilon)


@onnx_op("LayerNormalization")
def layer_normalization(
    X: Value, Scale: Value, B: Value = None, *, axis: int = -1, epsilon: float = 1e-5,
    stash_type: int = 1, outputs: int = 1,
) -> Any:  # fmt: skip
    """Normalize over the axes from `axis` on."""
    shape = facts(Scale).shape
    count = -axis if axis < 0 else rank_of(X) - axis
    if outputs == 1 and shape is not None and len(shape) == count and is_plain(X):
        sizes = list(shape) if all(isinstance(size, int) for size in shape) else Scale.shape
        return F.layer_norm(X, sizes, Scale, B, epsilon)
    axes = list(range(positive(axis, rank_of(X)), rank_of(X)))
    wide = X.to(torch.float32) if stash_type == 1 and not is_plain(X) else X
    var, mean = torch.var_mean(wide, axes, correction=0, keepdim=True)
    inverse = torch.rsqrt(var + epsilon)
    result = ((wide - mean) * inverse).to(dtype_of(X)) * Scale
    result = result if B is None else result + B
    return result if outputs == 1 else (result, mean, inverse)


def is_plain(X: Value) -> bool:
    """Return True for dtypes that are normalized in their own precision."""
    return dtype_of(X) in (torch.float32, torch.float64)


@onnx_op("RMSNormalization")
def rms_normalization(
    X: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Value:
    """Divide by the root of the mean square over the axes from `axis` on."""
    shape = facts(scale).shape
    count = -axis if axis < 0 else rank_of(X) - axis
    if shape is not None and len(shape) == count and is_plain(X):
        sizes = list(shape) if all(isinstance(size, int) for size in shape) else scale.shape
        return F.rms_norm(X, sizes, scale, epsilon)
    axes = list(range(positive(axis, rank_of(X)), rank_of(X)))
    wide = X.to(torch.float32) if stash_type == 1 and not is_plain(X) else X
    mean = torch.mean(torch.square(wide), axes, True)
    return (wide * torch.rsqrt(mean + epsilon)).to(dtype_of(X)) * scale


@onnx_op("GroupNormalization", since=21)
def group_normalization(
    X: Value, scale: Value, bias: Value, *, num_groups: int, epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Value:  # fmt: skip
    """Normalize groups of channels; scale and bias are per channel."""
    return F.group_norm(X, num_groups, scale, bias, epsilon)


@onnx_op("GroupNormalization", since=18)
def group_normalization_18(
    X: Value, scale: Value, bias: Value, *, num_groups: int, epsilon: float = 1e-5
) -> Value:
    """Normalize groups of channels; scale and bias are per group."""
    shape = [1, -1] + [1] * (rank_of(X) - 2)
    repeats = X.shape[1] // num_groups
    weight = torch.repeat_interleave(scale, repeats).reshape(shape)
    shift = torch.repeat_interleave(bias, repeats).reshape(shape)
    return F.group_norm(X, num_groups, eps=epsilon) * weight + shift


@onnx_op("LRN")
def lrn(
    X: Value, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Value:
    """Divide by the activity of neighbouring channels."""
    square = torch.square(X).unsqueeze(1)
    before, after = (size - 1) // 2, size // 2
    amounts = [0] * (2 * (rank_of(X) - 2)) + [before, after]
    spread = F.pad(square, amounts)
    total = torch.stack([spread.narrow(2, i, X.shape[1]) for i in range(size)]).sum(0).squeeze(1)
    return X / (bias + total * (alpha / size)) ** beta


@onnx_op("MeanVarianceNormalization")
def mean_variance_normalization(X: Value, *, axes: Sequence[int] = (0, 2, 3)) -> Value:
    """Subtract the mean, divide by the standard deviation."""
    dims = list(axes)
    mean = torch.mean(X, dims, True)
    deviation = torch.sqrt(torch.mean(torch.square(X), dims, True) - torch.square(mean))
    return (X - mean) / (deviation + 1e-9)


@onnx_op("LpNormalization")
def lp_normalization(input: Value, *, axis: int = -1, p: int = 2) -> Value:
    """Divide by the p-norm along an axis; what has none stays 0."""
    norm = torch.sum(torch.abs(input) ** p, axis, True) ** (1 / p)
    return torch.where(norm == 0, torch.zeros_like(input), input / norm)


@onnx_op("Dropout", since=12)
def dropout(
    data: Value, ratio: Value = None, training_mode: Value = None, *, seed: int | None = None,
    outputs: int = 1,
) -> Any:  # fmt: skip
    """The input, unless the model trains: then some elements become 0, the others larger."""
    if training_mode is not None and number(training_mode):
        rate = 0.5 if ratio is None else number(ratio)
        mask = torch.rand(data.shape, dtype=torch.float32) >= rate
        result = torch.where(mask, data / (1 - rate), torch.zeros_like(data))
        return result if outputs == 1 else (result, mask)
    if outputs == 1:
        return data
    return data, torch.ones_like(data, dtype=torch.bool)


@onnx_op("Dropout", since=7)
def dropout_7(data: Value, *, ratio: float = 0.5, outputs: int = 1) -> Any:
    """The input: what Dropout did when a model did not train, up to opset 11."""
    return data if outputs == 1 else (data, torch.ones_like(data, dtype=torch.bool))
