"""ConvNeXt: a convolutional network that takes from transformers everything but the attention.

Large depthwise convolutions mix pixels as attention does, linear layers mix channels as in the MLP
of a transformer; normalization over channels, gelu, few activations.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from ... import nn
from ...core.tensor import Tensor
from ...ops import full
from ..ops import Conv2dNormActivation, Permute, StochasticDepth
from .initialization import NormLayer
from .registry import register_model

__all__ = ["ConvNeXt", "convnext_tiny", "convnext_small", "convnext_base", "convnext_large"]


class LayerNorm2d(nn.LayerNorm):
    """Layer normalization over the channels of each pixel. Shape: (N, C, H, W)."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class CNBlock(nn.Module):
    """x + scale · linear(gelu(linear(norm(depthwise(x)))))

    Args:
        dim: channels of input and output.
        layer_scale: initial scale of what the block adds, a parameter for each channel.
        stochastic_depth_prob: probability with which the block adds nothing while training.
        norm_layer: makes a normalization of the last axis.

    Shape: input and output (N, dim, H, W).
    """

    def __init__(
        self, dim: int, layer_scale: float, stochastic_depth_prob: float,
        norm_layer: NormLayer | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        norm_layer = norm_layer or functools.partial(nn.LayerNorm, eps=1e-6)
        self.block = nn.Sequential(
            nn.Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim),
            Permute([0, 2, 3, 1]),  # a linear layer works on the last axis
            norm_layer(dim),
            nn.Linear(dim, 4 * dim),
            nn.GELU(),
            nn.Linear(4 * dim, dim),
            Permute([0, 3, 1, 2]),
        )
        self.layer_scale = nn.Parameter(full((dim, 1, 1), layer_scale))
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")

    def forward(self, input: Tensor) -> Tensor:
        result = self.stochastic_depth(self.layer_scale * self.block(input))
        result += input
        return result


class CNBlockConfig(NamedTuple):
    """A stage: its channels, those of the next stage (None for the last), and how many blocks."""

    input_channels: int
    out_channels: int | None
    num_layers: int


class ConvNeXt(nn.Module):
    """A stem of 4 by 4 patches, stages of blocks, the mean, and a linear layer.

    Args:
        block_setting: the stages; between two of them the picture is halved.
        stochastic_depth_prob: of the last block; that of the others grows from 0 up to it.
        layer_scale: initial scale of what each block adds.
        num_classes: length of the output.
        block, norm_layer: make a block, and a normalization of so many channels.

    Shape: input (N, 3, H, W), H and W at least 32; output (N, num_classes).

    Paper: Liu et al., A ConvNet for the 2020s, 2022, https://arxiv.org/abs/2201.03545

    >>> from edutorch.vision.models.convnext import CNBlockConfig, ConvNeXt
    >>> model = ConvNeXt([CNBlockConfig(8, 16, 1), CNBlockConfig(16, None, 1)], num_classes=10)
    >>> model(zeros(1, 3, 32, 32)).shape
    torch.Size([1, 10])
    """

    def __init__(
        self, block_setting: Sequence[CNBlockConfig], stochastic_depth_prob: float = 0.0,
        layer_scale: float = 1e-6, num_classes: int = 1000, block: type[nn.Module] | None = None,
        norm_layer: NormLayer | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        block = block or CNBlock
        norm_layer = norm_layer or functools.partial(LayerNorm2d, eps=1e-6)
        stem = Conv2dNormActivation(
            3, block_setting[0].input_channels, kernel_size=4, stride=4, padding=0,
            norm_layer=norm_layer, activation_layer=None, bias=True,
        )  # fmt: skip
        layers: list[nn.Module] = [stem]
        total = sum(cnf.num_layers for cnf in block_setting)
        index = 0
        for cnf in block_setting:
            stage = []
            for _ in range(cnf.num_layers):
                probability = stochastic_depth_prob * index / max(total - 1, 1)
                stage.append(block(cnf.input_channels, layer_scale, probability))
                index += 1
            layers.append(nn.Sequential(*stage))
            if cnf.out_channels is not None:
                halve = nn.Conv2d(cnf.input_channels, cnf.out_channels, kernel_size=2, stride=2)
                layers.append(nn.Sequential(norm_layer(cnf.input_channels), halve))
        channels = block_setting[-1].out_channels or block_setting[-1].input_channels
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            norm_layer(channels), nn.Flatten(1), nn.Linear(channels, num_classes)
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)))


def build(
    channels: Sequence[int], layers: Sequence[int], probability: float, **kwargs: Any
) -> ConvNeXt:
    """Return a network from the channels and the number of blocks of each stage."""
    outs = [*channels[1:], None]
    setting = [CNBlockConfig(*row) for row in zip(channels, outs, layers, strict=True)]
    return ConvNeXt(setting, kwargs.pop("stochastic_depth_prob", probability), **kwargs)


@register_model
def convnext_tiny(**kwargs: Any) -> ConvNeXt:
    """ConvNeXt, tiny: 28.6 million parameters. The arguments are those of `ConvNeXt`."""
    return build((96, 192, 384, 768), (3, 3, 9, 3), 0.1, **kwargs)


@register_model
def convnext_small(**kwargs: Any) -> ConvNeXt:
    """ConvNeXt, small: 50.2 million parameters. The arguments are those of `ConvNeXt`."""
    return build((96, 192, 384, 768), (3, 3, 27, 3), 0.4, **kwargs)


@register_model
def convnext_base(**kwargs: Any) -> ConvNeXt:
    """ConvNeXt, base: 88.6 million parameters. The arguments are those of `ConvNeXt`."""
    return build((128, 256, 512, 1024), (3, 3, 27, 3), 0.5, **kwargs)


@register_model
def convnext_large(**kwargs: Any) -> ConvNeXt:
    """ConvNeXt, large: 197.8 million parameters. The arguments are those of `ConvNeXt`."""
    return build((192, 384, 768, 1536), (3, 3, 27, 3), 0.5, **kwargs)
