"""Fusing a layer with the batch norm after it, for evaluation only.

In evaluation batch norm is y = (x - mean) / √(var + eps) · w + b with constants, an affine
map. After another affine map it can be folded into that map's weight and bias.
"""

from __future__ import annotations

import copy
from typing import Any

from ...core.tensor import Tensor
from ...errors import EdutorchError
from ...ops import ones_like, reshape, rsqrt, unsqueeze, zeros_like
from ..modules.module import Module
from ..parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
]  # fmt: skip

Pair = tuple[Parameter, Parameter]


class FusionError(EdutorchError, AssertionError):
    """Two layers cannot be fused (an AssertionError, as in PyTorch)."""


def check_fusable(op: str, layer: Module, bn: Module) -> None:
    if layer.training or bn.training:
        raise FusionError(op, "Fusion only for eval!", hint="call .eval() on both first")
    if bn.running_mean is None or bn.running_var is None:
        raise FusionError(op, "bn.running_mean and bn.running_var must not be None")


def fuse_conv_bn_eval(conv: Module, bn: Module, transpose: bool = False) -> Any:
    """Return a convolution that computes bn(conv(x)); `transpose` for a transposed one.

    Raises: AssertionError: not in evaluation mode, or no running averages.

    >>> conv, bn = nn.Conv1d(1, 1, 1).eval(), nn.BatchNorm1d(1).eval()
    >>> x = ones(1, 1, 3)
    >>> nn.utils.fuse_conv_bn_eval(conv, bn)(x).allclose(bn(conv(x)))
    True
    """
    check_fusable("fuse_conv_bn_eval", conv, bn)
    # Settings such as stride and groups come along with the copy.
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor | None, bn_b: Tensor | None, transpose: bool = False,
) -> Pair:  # fmt: skip
    """Return weight and bias of the fused convolution."""
    # The axis of the output channels; a transposed convolution has it second.
    axis = 1 if transpose else 0
    shape = [-1 if index == axis else 1 for index in range(conv_w.ndim)]
    scale = rsqrt(bn_rv + bn_eps) * (ones_like(bn_rm) if bn_w is None else bn_w)
    weight = (conv_w * reshape(scale, shape)).to(conv_w.dtype)
    return fuse_parameters(conv_w, conv_b, weight, bn_rm, scale, bn_b)


def fuse_parameters(
    old_w: Tensor, old_b: Tensor | None, weight: Tensor, mean: Tensor, scale: Tensor,
    shift: Tensor | None,
) -> Pair:  # fmt: skip
    """Return the fused weight and bias; the bias passes through the batch norm, too."""
    old_bias = zeros_like(mean) if old_b is None else old_b
    bias = (old_bias - mean) * scale + (zeros_like(mean) if shift is None else shift)
    # The averages may be float32 beside weights of float16.
    bias_dtype = old_w.dtype if old_b is None else old_b.dtype
    requires_grad = old_bias.requires_grad
    return (
        Parameter(weight.detach(), old_w.requires_grad),
        Parameter(bias.detach().to(bias_dtype), requires_grad),
    )


def fuse_linear_bn_eval(linear: Module, bn: Module) -> Any:
    """Return a linear layer that computes bn(linear(x)).

    Raises: AssertionError: not in evaluation mode, no running averages, or other features.

    >>> layer, bn = nn.Linear(2, 3).eval(), nn.BatchNorm1d(3).eval()
    >>> x = ones(1, 2)
    >>> nn.utils.fuse_linear_bn_eval(layer, bn)(x).allclose(bn(layer(x)))
    True
    """
    check_fusable("fuse_linear_bn_eval", linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise FusionError(
            "fuse_linear_bn_eval", "To fuse, linear.out_features == bn.num_features or "
            f"bn.num_features == 1, got linear.out_features={linear.out_features} and "
            f"bn.num_features={bn.num_features}",
        )  # fmt: skip
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
    bn_w: Tensor | None, bn_b: Tensor | None,
) -> Pair:  # fmt: skip
    """Return weight and bias of the fused linear layer."""
    scale = rsqrt(bn_rv + bn_eps) * (ones_like(bn_rm) if bn_w is None else bn_w)
    weight = linear_w * unsqueeze(scale, -1).to(linear_w.dtype)
    return fuse_parameters(linear_w, linear_b, weight, bn_rm, scale, bn_b)
