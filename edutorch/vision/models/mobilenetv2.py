"""MobileNet V2: cheap convolutions for small machines.

A convolution of 3 by 3 over all channels is split in two: each channel is filtered on its own
("depthwise"), then 1 by 1 convolutions mix them. The block is a bottleneck turned inside out: thin
outside, where the addition is, and wide inside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ... import nn
from ...core.tensor import Tensor
from ...errors import InvalidValueError
from ...ops import flatten
from ..ops import Conv2dNormActivation
from .initialization import (
    NormLayer,
    initialize_convolutions,
    initialize_linear_layers,
    make_divisible,
)
from .registry import register_model

__all__ = ["MobileNetV2", "mobilenet_v2"]

INVERTED_RESIDUAL_SETTING = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
    (6, 320, 1, 1),
)  # fmt: skip
"""Stages: factor by which blocks widen inside, output channels, number of blocks, stride."""


class InvertedResidual(nn.Module):
    """x + project(depthwise(expand(x))); no activation after the projection, which would lose much.

    Args:
        inp, oup: channels of the input and of the output.
        stride: 1 or 2, of the depthwise convolution; x is added only where the shapes agree.
        expand_ratio: how many times wider the inside is.
        norm_layer: makes a normalization of so many channels.

    Shape: input (N, inp, H, W), output (N, oup, H / stride, W / stride).
    """

    def __init__(
        self, inp: int, oup: int, stride: int, expand_ratio: int,
        norm_layer: NormLayer | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if stride not in (1, 2):
            raise InvalidValueError("InvertedResidual", f"stride is 1 or 2, got {stride}")
        norm_layer = norm_layer or nn.BatchNorm2d
        hidden = round(inp * expand_ratio)
        unit = functools.partial(
            Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.ReLU6
        )
        expand = [unit(inp, hidden, kernel_size=1)] if expand_ratio != 1 else []
        depthwise = unit(hidden, hidden, stride=stride, groups=hidden)
        project = nn.Conv2d(hidden, oup, kernel_size=1, bias=False)
        self.use_res_connect = stride == 1 and inp == oup
        self.conv = nn.Sequential(*expand, depthwise, project, norm_layer(oup))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Module):
    """A stem, seven stages of inverted residual blocks, the mean, and a linear layer.

    Args:
        num_classes: length of the output.
        width_mult: factor of all numbers of channels.
        inverted_residual_setting: for each stage: factor of the inside, output channels, number of
            blocks, stride of the first.
        round_nearest: numbers of channels are multiples of it.
        block, norm_layer: make a block, and a normalization of so many channels.
        dropout: probability with which an input of the linear layer is zeroed.

    Shape: input (N, 3, H, W), output (N, num_classes).

    Paper: Sandler et al., MobileNetV2: Inverted Residuals and Linear Bottlenecks, 2018,
        https://arxiv.org/abs/1801.04381
    """

    def __init__(
        self, num_classes: int = 1000, width_mult: float = 1.0,
        inverted_residual_setting: Sequence[Sequence[int]] | None = None, round_nearest: int = 8,
        block: Callable[..., nn.Module] | None = None, norm_layer: NormLayer | None = None,
        dropout: float = 0.2,
    ) -> None:  # fmt: skip
        super().__init__()
        block, norm_layer = block or InvertedResidual, norm_layer or nn.BatchNorm2d
        unit = functools.partial(
            Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.ReLU6
        )
        channels = make_divisible(32 * width_mult, round_nearest)
        features: list[nn.Module] = [unit(3, channels, stride=2)]
        for row in inverted_residual_setting or INVERTED_RESIDUAL_SETTING:
            if len(row) != 4:
                raise InvalidValueError(
                    "MobileNetV2", "a stage is (factor, output channels, number of blocks, stride)",
                    {"inverted_residual_setting": row},
                )  # fmt: skip
            expand_ratio, out_channels, blocks, stride = row
            out_channels = make_divisible(out_channels * width_mult, round_nearest)
            for index in range(blocks):
                block_stride = stride if index == 0 else 1
                features.append(
                    block(channels, out_channels, block_stride, expand_ratio, norm_layer)
                )
                channels = out_channels
        self.last_channel = make_divisible(1280 * max(1.0, width_mult), round_nearest)
        features.append(unit(channels, self.last_channel, kernel_size=1))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(
            nn.Dropout(p=dropout), nn.Linear(self.last_channel, num_classes)
        )
        initialize_convolutions(self)
        initialize_linear_layers(self, functools.partial(nn.init.normal_, std=0.01))

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(flatten(x, 1))


@register_model
def mobilenet_v2(**kwargs: Any) -> MobileNetV2:
    """MobileNet V2 with 3.5 million parameters. The arguments are those of `MobileNetV2`.

    >>> edutorch.vision.models.mobilenet_v2(num_classes=10).classifier[1]
    Linear(in_features=1280, out_features=10, bias=True)
    """
    return MobileNetV2(**kwargs)
