"""EfficientNet: one small network, found by search, and a rule how to make it larger.

Depth, width and the size of the pictures grow together: B1 to B7 are B0 with more of each.
Read `mobilenetv2.py` first.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ... import nn
from ...core.tensor import Tensor
from ...ops import flatten
from ..ops import Conv2dNormActivation, SqueezeExcitation, StochasticDepth
from .initialization import (
    NormLayer,
    SmoothBatchNorm,
    initialize_convolutions,
    initialize_linear_layers,
    make_divisible,
)
from .registry import register_model

__all__ = [
    "EfficientNet", "efficientnet_b0", "efficientnet_b1", "efficientnet_b2", "efficientnet_b3",
    "efficientnet_b4", "efficientnet_b5", "efficientnet_b6", "efficientnet_b7",
]  # fmt: skip


class MBConvConfig(NamedTuple):
    """A stage: how blocks look and how many there are. `fused`: see `MBConv`."""

    expand_ratio: float
    kernel: int
    stride: int
    input_channels: int
    out_channels: int
    num_layers: int
    fused: bool = False


class MBConv(nn.Module):
    """x + project(attend(depthwise(expand(x)))), with swish.

    Fused, one convolution over all channels does the work of expand and depthwise, without
    attention: more multiplications, but faster ones.

    Shape: input (N, input_channels, H, W), output (N, out_channels, H / stride, W / stride).
    """

    def __init__(
        self, cnf: MBConvConfig, stochastic_depth_prob: float, norm_layer: NormLayer
    ) -> None:
        super().__init__()
        unit = functools.partial(
            Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.SiLU
        )
        hidden = make_divisible(cnf.input_channels * cnf.expand_ratio)
        expands = hidden != cnf.input_channels
        layers: list[nn.Module] = []
        if cnf.fused:
            wide = hidden if expands else cnf.out_channels
            layers.append(unit(cnf.input_channels, wide, cnf.kernel, cnf.stride))
        else:
            if expands:
                layers.append(unit(cnf.input_channels, hidden, kernel_size=1))
            layers.append(unit(hidden, hidden, cnf.kernel, cnf.stride, groups=hidden))
            squeezed = max(1, cnf.input_channels // 4)
            swish = functools.partial(nn.SiLU, inplace=True)
            layers.append(SqueezeExcitation(hidden, squeezed, activation=swish))
        if expands or not cnf.fused:
            layers.append(unit(hidden, cnf.out_channels, kernel_size=1, activation_layer=None))
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        self.block = nn.Sequential(*layers)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")

    def forward(self, input: Tensor) -> Tensor:
        result = self.block(input)
        if self.use_res_connect:
            result = self.stochastic_depth(result)
            result += input
        return result


class EfficientNet(nn.Module):
    """A stem, stages of blocks, the mean, and a linear layer.

    Args:
        inverted_residual_setting: the stages.
        dropout: probability with which an input of the linear layer is zeroed.
        stochastic_depth_prob: of the last block; that of the others grows from 0 up to it.
        num_classes: length of the output.
        norm_layer: makes a normalization of so many channels.
        last_channel: channels before the mean; 4 times those of the last stage by default.

    Shape: input (N, 3, H, W), output (N, num_classes).

    Papers: Tan and Le, EfficientNet, 2019, https://arxiv.org/abs/1905.11946, and EfficientNetV2,
        2021, https://arxiv.org/abs/2104.00298
    """

    def __init__(
        self, inverted_residual_setting: Sequence[MBConvConfig], dropout: float,
        stochastic_depth_prob: float = 0.2, num_classes: int = 1000,
        norm_layer: NormLayer | None = None, last_channel: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        unit = functools.partial(
            Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.SiLU
        )
        features: list[nn.Module] = [unit(3, inverted_residual_setting[0].input_channels, stride=2)]
        total = sum(cnf.num_layers for cnf in inverted_residual_setting)
        index = 0
        for cnf in inverted_residual_setting:
            stage = []
            for _ in range(cnf.num_layers):
                stage.append(MBConv(cnf, stochastic_depth_prob * index / total, norm_layer))
                cnf = cnf._replace(input_channels=cnf.out_channels, stride=1)
                index += 1
            features.append(nn.Sequential(*stage))
        channels = inverted_residual_setting[-1].out_channels
        last_channel = last_channel or 4 * channels
        features.append(unit(channels, last_channel, kernel_size=1))
        self.features = nn.Sequential(*features)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Dropout(p=dropout, inplace=True), nn.Linear(last_channel, num_classes)
        )
        initialize_convolutions(self)
        bound = 1 / math.sqrt(num_classes)
        initialize_linear_layers(self, functools.partial(nn.init.uniform_, a=-bound, b=bound))

    def forward(self, x: Tensor) -> Tensor:
        x = self.avgpool(self.features(x))
        return self.classifier(flatten(x, 1))


B0 = tuple(
    MBConvConfig(*row)
    for row in (
        (1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 2), (6, 3, 2, 40, 80, 3),
        (6, 5, 1, 80, 112, 3), (6, 5, 2, 112, 192, 4), (6, 3, 1, 192, 320, 1),
    )
)  # fmt: skip


def scale(width_mult: float, depth_mult: float, dropout: float, **kwargs: Any) -> EfficientNet:
    """Return B0 with more channels and more layers."""
    stages = [
        cnf._replace(
            input_channels=make_divisible(cnf.input_channels * width_mult),
            out_channels=make_divisible(cnf.out_channels * width_mult),
            num_layers=math.ceil(cnf.num_layers * depth_mult),
        )
        for cnf in B0
    ]
    return EfficientNet(stages, kwargs.pop("dropout", dropout), **kwargs)


@register_model
def efficientnet_b0(**kwargs: Any) -> EfficientNet:
    """EfficientNet B0 with 5.3 million parameters. The arguments are those of `EfficientNet`."""
    return scale(1.0, 1.0, 0.2, **kwargs)


@register_model
def efficientnet_b1(**kwargs: Any) -> EfficientNet:
    """EfficientNet B1 with 7.8 million parameters. The arguments are those of `EfficientNet`."""
    return scale(1.0, 1.1, 0.2, **kwargs)


@register_model
def efficientnet_b2(**kwargs: Any) -> EfficientNet:
    """EfficientNet B2 with 9.1 million parameters. The arguments are those of `EfficientNet`."""
    return scale(1.1, 1.2, 0.3, **kwargs)


@register_model
def efficientnet_b3(**kwargs: Any) -> EfficientNet:
    """EfficientNet B3 with 12.2 million parameters. The arguments are those of `EfficientNet`."""
    return scale(1.2, 1.4, 0.3, **kwargs)


@register_model
def efficientnet_b4(**kwargs: Any) -> EfficientNet:
    """EfficientNet B4 with 19.3 million parameters. The arguments are those of `EfficientNet`."""
    return scale(1.4, 1.8, 0.4, **kwargs)


@register_model
def efficientnet_b5(**kwargs: Any) -> EfficientNet:
    """EfficientNet B5 with 30.4 million parameters. The arguments are those of `EfficientNet`."""
    return scale(1.6, 2.2, 0.4, **{"norm_layer": SmoothBatchNorm, **kwargs})


@register_model
def efficientnet_b6(**kwargs: Any) -> EfficientNet:
    """EfficientNet B6 with 43.0 million parameters. The arguments are those of `EfficientNet`."""
    return scale(1.8, 2.6, 0.5, **{"norm_layer": SmoothBatchNorm, **kwargs})


@register_model
def efficientnet_b7(**kwargs: Any) -> EfficientNet:
    """EfficientNet B7 with 66.3 million parameters. The arguments are those of `EfficientNet`."""
    return scale(2.0, 3.1, 0.5, **{"norm_layer": SmoothBatchNorm, **kwargs})
