"""Layers that several models share: convolution with normalization, attention to channels, …"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ... import nn
from ...core.tensor import Tensor
from ...errors import InvalidValueError
from ...ops import empty

__all__ = [
    "Conv2dNormActivation", "Permute", "SqueezeExcitation", "StochasticDepth",
    "initialize_convolutions", "initialize_linear_layers", "make_divisible",
]  # fmt: skip

NormLayer = Callable[[int], nn.Module]
"""Makes a normalization of so many channels."""

SmoothBatchNorm = functools.partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
"""The batch normalization of networks that were found by search: slower averages."""


class Conv2dNormActivation(nn.Sequential):
    """A convolution, a normalization and an activation, in this order.

    Args:
        in_channels, out_channels, kernel_size, stride, groups, dilation: of the convolution.
        padding: as much as keeps the size of the picture by default.
        norm_layer: makes the normalization of so many channels; None for none.
        activation_layer: the class of the activation; None for none.
        inplace: whether the activation overwrites its input; None where it takes no such argument.
        bias: whether the convolution adds a bias; by default if no normalization does.

    Shape: input (N, in_channels, H, W), output (N, out_channels, H / stride, W / stride).

    >>> from edutorch.vision.models.layers import Conv2dNormActivation
    >>> Conv2dNormActivation(3, 8, stride=2)(zeros(1, 3, 32, 32)).shape
    torch.Size([1, 8, 16, 16])
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int = 3, stride: int = 1,
        padding: int | None = None, groups: int = 1, norm_layer: NormLayer | None = nn.BatchNorm2d,
        activation_layer: Callable[..., nn.Module] | None = nn.ReLU, dilation: int = 1,
        inplace: bool | None = True, bias: bool | None = None,
    ) -> None:  # fmt: skip
        if padding is None:
            padding = (kernel_size - 1) // 2 * dilation
        if bias is None:
            bias = norm_layer is None  # a normalization has a bias of its own
        convolution = nn.Conv2d(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias
        )
        layers: list[nn.Module] = [convolution]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            settings = {} if inplace is None else {"inplace": inplace}
            layers.append(activation_layer(**settings))
        super().__init__(*layers)
        self.out_channels = out_channels


class SqueezeExcitation(nn.Module):
    """Attention to channels: each is scaled by a number in [0, 1] worked out from all means.

    y = x · σ(fc2(δ(fc1(mean(x)))))

    Args:
        input_channels: of the picture.
        squeeze_channels: length of the hidden layer.
        activation, scale_activation: the classes of δ and σ.

    Shape: input and output (N, input_channels, H, W).

    Paper: Hu et al., Squeeze-and-Excitation Networks, 2017, https://arxiv.org/abs/1709.01507

    >>> from edutorch.vision.models.layers import SqueezeExcitation
    >>> SqueezeExcitation(8, 2)(ones(1, 8, 4, 4)).shape
    torch.Size([1, 8, 4, 4])
    """

    def __init__(
        self, input_channels: int, squeeze_channels: int,
        activation: Callable[..., nn.Module] = nn.ReLU,
        scale_activation: Callable[..., nn.Module] = nn.Sigmoid,
    ) -> None:  # fmt: skip
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation = activation()
        self.scale_activation = scale_activation()

    def forward(self, input: Tensor) -> Tensor:
        scale = self.activation(self.fc1(self.avgpool(input)))
        return self.scale_activation(self.fc2(scale)) * input


class StochasticDepth(nn.Module):
    """Dropout of whole blocks: while training, what a block adds is zeroed with probability p.

    The others are scaled by 1 / (1 - p), so that the mean stays. Put it before the addition of a
    residual block.

    Args:
        p: probability with which an input is zeroed.
        mode: "row" decides for each example, "batch" for all at once.

    Paper: Huang et al., Deep Networks with Stochastic Depth, 2016, https://arxiv.org/abs/1603.09382

    >>> from edutorch.vision.models.layers import StochasticDepth
    >>> StochasticDepth(1.0, "row")(ones(2, 3))
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """

    def __init__(self, p: float, mode: str) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise InvalidValueError("StochasticDepth", f"p is a probability, got {p}")
        if mode not in ("batch", "row"):
            raise InvalidValueError("StochasticDepth", f'mode is "batch" or "row", got {mode!r}')
        self.p = p
        self.mode = mode

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return input
        rows = input.shape[0] if self.mode == "row" else 1
        shape = (rows, *[1] * (input.ndim - 1))
        keep = empty(shape, dtype=input.dtype, device=input.device).bernoulli_(1 - self.p)
        return input * (keep / (1 - self.p) if self.p < 1 else keep)

    def extra_repr(self) -> str:
        return f"p={self.p}, mode={self.mode}"


class Permute(nn.Module):
    """Reorder the axes, as a layer.

    >>> from edutorch.vision.models.layers import Permute
    >>> Permute([0, 2, 3, 1])(zeros(2, 3, 4, 5)).shape
    torch.Size([2, 4, 5, 3])
    """

    def __init__(self, dims: Sequence[int]) -> None:
        super().__init__()
        self.dims = list(dims)

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(self.dims)


def make_divisible(channels: float, divisor: int = 8) -> int:
    """Round to a multiple, which hardware likes, but never down by more than a tenth.

    >>> from edutorch.vision.models.layers import make_divisible
    >>> make_divisible(35), make_divisible(11)
    (32, 16)
    """
    rounded = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded


def initialize_convolutions(model: nn.Module, mode: str = "fan_out") -> None:
    """Initialize the convolutions of a model for relu (He et al., 2015); biases are 0."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode=mode, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def initialize_linear_layers(model: nn.Module, init: Callable[[Any], Any]) -> None:
    """Initialize the weights of linear layers by a function; biases are 0."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            init(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
