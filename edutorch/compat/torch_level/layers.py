"""Norms, convolutions and pooling as `torch.<name>`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edutorch.core.autograd.node_names import recorded_as
from edutorch.core.out_variants import takes_out
from edutorch.core.tensor import Tensor
from edutorch.nn import functional as F
from edutorch.nn.functional import (
    adaptive_avg_pool1d,
    avg_pool1d,
    bilinear,
    channel_shuffle,
    conv1d,
    conv2d,
    conv3d,
    conv_tbc,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    cosine_similarity,
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool3d,
    native_channel_shuffle,
    pairwise_distance,
    pdist,
    pixel_shuffle,
    pixel_unshuffle,
    rms_norm,
)  # fmt: skip
from edutorch.nn.functional.grid_sample import (
    affine_grid_generator,
    grid_sampler,
    grid_sampler_2d,
    grid_sampler_3d,
)  # fmt: skip
from edutorch.nn.utils.weight_norm import norm_except_dim
from edutorch.ops import mean, reshape, rsqrt, var, zeros

__all__ = [
    "adaptive_avg_pool1d", "adaptive_max_pool1d", "affine_grid_generator", "avg_pool1d",
    "batch_norm", "bilinear", "channel_shuffle", "constant_pad_nd", "conv1d", "conv2d", "conv3d",
    "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution",
    "cosine_similarity", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "group_norm",
    "instance_norm", "layer_norm", "max_pool1d", "max_pool1d_with_indices", "max_pool2d",
    "max_pool3d", "native_batch_norm", "native_channel_shuffle", "native_group_norm",
    "native_layer_norm", "norm_except_dim", "pairwise_distance", "pdist", "pixel_shuffle",
    "pixel_unshuffle", "rms_norm",
]  # fmt: skip


def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-5, cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    """Layer norm; see `nn.functional.layer_norm`.

    >>> layer_norm(tensor([[1.0, 3.0]]), (2,)).round(decimals=2)
    tensor([[-1.,  1.]])
    """
    return F.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """Group norm; see `nn.functional.group_norm`.

    >>> group_norm(tensor([[1.0, 3.0]]), 1).round(decimals=2)
    tensor([[-1.,  1.]])
    """
    return F.group_norm(input, num_groups, weight, bias, eps)


def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """Batch norm; see `nn.functional.batch_norm`.

    >>> x = tensor([[1.0], [3.0]])
    >>> batch_norm(x, None, None, None, None, True, 0.1, 1e-5, False).round(decimals=2)
    tensor([[-1.],
            [ 1.]])
    """
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, use_input_stats: bool, momentum: float, eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """Instance norm; see `nn.functional.instance_norm`.

    >>> x = tensor([[[1.0, 3.0]]])
    >>> instance_norm(x, None, None, None, None, True, 0.1, 1e-5, False).round(decimals=2)
    tensor([[[-1.,  1.]]])
    """
    return F.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Layer norm, with the mean and 1 / √(variance + ε) of each sample.

    >>> native_layer_norm(tensor([[1.0, 3.0]]), (2,), None, None, 0.0)
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))
    """
    y = F.layer_norm(input, normalized_shape, weight, bias, eps)
    dims = tuple(range(-len(tuple(normalized_shape)), 0))
    return y, *moments(input.detach(), dims, eps)


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int,
    group: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Group norm, with the mean and 1 / √(variance + ε) of each group, (N, group).

    >>> native_group_norm(tensor([[1.0, 3.0]]), None, None, 1, 2, 1, 1, 0.0)
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))
    """
    y = F.group_norm(input, group, weight, bias, eps)
    grouped = reshape(input, (N, group, C // group * HxW))
    centre, scale = moments(grouped, (2,), eps)
    return y, reshape(centre, (N, group)), reshape(scale, (N, group))


@takes_out
@recorded_as("NativeBatchNormBackward0")
def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Batch norm, with the mean and 1 / √(variance + ε) of each channel (empty in evaluation).

    >>> x = tensor([[1.0], [3.0]])
    >>> native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)[1:]
    (tensor([2.]), tensor([1.0000]))
    """
    y = F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        nothing = zeros(0, dtype=input.dtype, device=input.device)
        return y, nothing, nothing.clone()
    dims = (0, *range(2, input.ndim))
    centre, scale = moments(input.detach(), dims, eps)
    return y, reshape(centre, (-1,)), reshape(scale, (-1,))


def moments(input: Tensor, dims: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    """Return the mean and 1 / √(variance + ε) over some axes, which are kept with size 1."""
    variance = var(input, dims, keepdim=True, correction=0)
    return mean(input, dims, True), rsqrt(variance + eps)


def constant_pad_nd(input: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """Pad the last axes with a constant; see `nn.functional.pad`.

    >>> constant_pad_nd(ones(2), (1, 0), 5)
    tensor([5., 1., 1.])
    """
    return F.pad(input, pad, "constant", value)


def convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> Tensor:  # fmt: skip
    """A convolution over as many axes as the filters have, or a transposed one.

    >>> x, w = tensor([[[1.0, 2.0, 4.0]]]), tensor([[[-1.0, 1.0]]])
    >>> convolution(x, w, None, (1,), (0,), (1,), False, (0,), 1)
    tensor([[[1., 2.]]])
    """
    axes = f"{weight.ndim - 2}d"
    if transposed:
        conv_transpose = getattr(F, f"conv_transpose{axes}")
        return conv_transpose(
            input, weight, bias, stride, padding, output_padding, groups, dilation
        )
    return getattr(F, f"conv{axes}")(input, weight, bias, stride, padding, dilation, groups)


def adaptive_max_pool1d(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """1-d adaptive max pooling with indices; see `nn.functional.adaptive_max_pool1d`.

    >>> adaptive_max_pool1d(tensor([[1.0, 3.0, 2.0, 0.0]]), 1)
    (tensor([[3.]]), tensor([[1]]))
    """
    return F.adaptive_max_pool1d(input, output_size, True)
