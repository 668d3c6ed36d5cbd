"""MobileNet V3: the blocks of V2 with attention to channels, their sizes found by search.

Read `mobilenetv2.py` first.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from ... import nn
from ...core.tensor import Tensor
from ...ops import flatten
from ..ops import Conv2dNormActivation, SqueezeExcitation
from .initialization import (
    NormLayer,
    SmoothBatchNorm,
    initialize_convolutions,
    initialize_linear_layers,
    make_divisible,
)
from .registry import register_model

__all__ = ["MobileNetV3", "mobilenet_v3_large", "mobilenet_v3_small"]


class InvertedResidualConfig(NamedTuple):
    """The sizes of a block: channels outside and inside, attention, and the activation.

    `activation` is "RE" (relu) or "HS" (hardswish, a swish of straight lines).
    """

    input_channels: int
    kernel: int
    expanded_channels: int
    out_channels: int
    use_se: bool
    activation: str
    stride: int
    dilation: int = 1

    def scaled(self, width_mult: float) -> InvertedResidualConfig:
        """Return the block with all numbers of channels multiplied."""
        return self._replace(
            input_channels=make_divisible(self.input_channels * width_mult),
            expanded_channels=make_divisible(self.expanded_channels * width_mult),
            out_channels=make_divisible(self.out_channels * width_mult),
        )


class InvertedResidual(nn.Module):
    """x + project(attend(depthwise(expand(x)))): thin outside, wide inside.

    Shape: input (N, input_channels, H, W), output (N, out_channels, H / stride, W / stride).
    """

    def __init__(self, cnf: InvertedResidualConfig, norm_layer: NormLayer) -> None:
        super().__init__()
        hidden = cnf.expanded_channels
        activation = nn.Hardswish if cnf.activation == "HS" else nn.ReLU
        unit = functools.partial(
            Conv2dNormActivation, norm_layer=norm_layer, activation_layer=activation
        )
        layers: list[nn.Module] = []
        if hidden != cnf.input_channels:
            layers.append(unit(cnf.input_channels, hidden, kernel_size=1))
        # Where the convolution is dilated, the picture keeps its size.
        stride = 1 if cnf.dilation > 1 else cnf.stride
        layers.append(
            unit(hidden, hidden, cnf.kernel, stride, dilation=cnf.dilation, groups=hidden)
        )
        if cnf.use_se:
            squeezed = make_divisible(hidden // 4)
            layers.append(
                SqueezeExcitation(hidden, squeezed, scale_activation=nn.Hardsigmoid)
            )  # fmt: skip
        layers.append(unit(hidden, cnf.out_channels, kernel_size=1, activation_layer=None))
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        self.block = nn.Sequential(*layers)

    def forward(self, input: Tensor) -> Tensor:
        result = self.block(input)
        if self.use_res_connect:
            result += input
        return result


class MobileNetV3(nn.Module):
    """A stem, inverted residual blocks, the mean, and two linear layers.

    Args:
        inverted_residual_setting: the blocks.
        last_channel: length of the hidden linear layer.
        num_classes: length of the output.
        norm_layer: makes a normalization of so many channels.
        dropout: probability with which an input of the last linear layer is zeroed.

    Shape: input (N, 3, H, W), output (N, num_classes).

    Paper: Howard et al., Searching for MobileNetV3, 2019, https://arxiv.org/abs/1905.02244
    """

    def __init__(
        self, inverted_residual_setting: Sequence[InvertedResidualConfig], last_channel: int,
        num_classes: int = 1000, norm_layer: NormLayer | None = None, dropout: float = 0.2,
    ) -> None:  # fmt: skip
        super().__init__()
        norm_layer = norm_layer or SmoothBatchNorm
        unit = functools.partial(
            Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.Hardswish
        )
        first, last = inverted_residual_setting[0], inverted_residual_setting[-1]
        width = 6 * last.out_channels
        blocks = [InvertedResidual(cnf, norm_layer) for cnf in inverted_residual_setting]
        self.features = nn.Sequential(
            unit(3, first.input_channels, stride=2),
            *blocks,
            unit(last.out_channels, width, kernel_size=1),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(width, last_channel),
            nn.Hardswish(inplace=True),
            nn.Dropout(p=dropout, inplace=True),
            nn.Linear(last_channel, num_classes),
        )
        initialize_convolutions(self)
        initialize_linear_layers(self, functools.partial(nn.init.normal_, std=0.01))

    def forward(self, x: Tensor) -> Tensor:
        x = self.avgpool(self.features(x))
        return self.classifier(flatten(x, 1))


def large_blocks(tail: int, dilation: int) -> list[InvertedResidualConfig]:
    """Return the blocks of the large network; the last three have `tail` channels."""
    block = InvertedResidualConfig
    return [
        block(16, 3, 16, 16, False, "RE", 1),
        block(16, 3, 64, 24, False, "RE", 2),
        block(24, 3, 72, 24, False, "RE", 1),
        block(24, 5, 72, 40, True, "RE", 2),
        block(40, 5, 120, 40, True, "RE", 1),
        block(40, 5, 120, 40, True, "RE", 1),
        block(40, 3, 240, 80, False, "HS", 2),
        block(80, 3, 200, 80, False, "HS", 1),
        block(80, 3, 184, 80, False, "HS", 1),
        block(80, 3, 184, 80, False, "HS", 1),
        block(80, 3, 480, 112, True, "HS", 1),
        block(112, 3, 672, 112, True, "HS", 1),
        block(112, 5, 672, tail, True, "HS", 2, dilation),
        block(tail, 5, 6 * tail, tail, True, "HS", 1, dilation),
        block(tail, 5, 6 * tail, tail, True, "HS", 1, dilation),
    ]


def small_blocks(tail: int, dilation: int) -> list[InvertedResidualConfig]:
    """Return the blocks of the small network; the last three have `tail` channels."""
    block = InvertedResidualConfig
    return [
        block(16, 3, 16, 16, True, "RE", 2),
        block(16, 3, 72, 24, False, "RE", 2),
        block(24, 3, 88, 24, False, "RE", 1),
        block(24, 5, 96, 40, True, "HS", 2),
        block(40, 5, 240, 40, True, "HS", 1),
        block(40, 5, 240, 40, True, "HS", 1),
        block(40, 5, 120, 48, True, "HS", 1),
        block(48, 5, 144, 48, True, "HS", 1),
        block(48, 5, 288, tail, True, "HS", 2, dilation),
        block(tail, 5, 6 * tail, tail, True, "HS", 1, dilation),
        block(tail, 5, 6 * tail, tail, True, "HS", 1, dilation),
    ]


@register_model
def mobilenet_v3_large(
    width_mult: float = 1.0, reduced_tail: bool = False, dilated: bool = False, **kwargs: Any
) -> MobileNetV3:
    """MobileNet V3, large, with 5.5 million parameters.

    Args:
        width_mult: factor of all numbers of channels.
        reduced_tail: half of the channels in the last blocks.
        dilated: keep the picture's size in the last blocks, for segmentation.
        kwargs: those of `MobileNetV3`.
    """
    part = 2 if reduced_tail else 1
    blocks = large_blocks(160 // part, 2 if dilated else 1)
    last_channel = make_divisible(1280 // part * width_mult)
    return MobileNetV3([block.scaled(width_mult) for block in blocks], last_channel, **kwargs)


@register_model
def mobilenet_v3_small(
    width_mult: float = 1.0, reduced_tail: bool = False, dilated: bool = False, **kwargs: Any
) -> MobileNetV3:
    """MobileNet V3, small, with 2.5 million parameters; see `mobilenet_v3_large`."""
    part = 2 if reduced_tail else 1
    blocks = small_blocks(96 // part, 2 if dilated else 1)
    last_channel = make_divisible(1024 // part * width_mult)
    return MobileNetV3([block.scaled(width_mult) for block in blocks], last_channel, **kwargs)
