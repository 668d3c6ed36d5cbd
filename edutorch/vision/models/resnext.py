"""ResNeXt and wide ResNets: the same network, with other convolutions inside of its blocks.

ResNeXt splits the 3 by 3 convolution into many groups of few channels, which costs as much and
learns more. Wide ResNets double its channels, and need fewer layers.

Papers: Xie et al., Aggregated Residual Transformations for Deep Neural Networks, 2016,
https://arxiv.org/abs/1611.05431; Zagoruyko and Komodakis, Wide Residual Networks, 2016,
https://arxiv.org/abs/1605.07146
"""

from __future__ import annotations

from typing import Any

from .registry import register_model
from .resnet import Bottleneck, ResNet

__all__ = [
    "resnext50_32x4d", "resnext101_32x8d", "resnext101_64x4d", "wide_resnet50_2",
    "wide_resnet101_2",
]  # fmt: skip


@register_model
def resnext50_32x4d(**kwargs: Any) -> ResNet:
    """ResNeXt-50: 32 groups of 4 channels, 25.0 million parameters."""
    return ResNet(Bottleneck, [3, 4, 6, 3], groups=32, width_per_group=4, **kwargs)


@register_model
def resnext101_32x8d(**kwargs: Any) -> ResNet:
    """ResNeXt-101: 32 groups of 8 channels, 88.8 million parameters."""
    return ResNet(Bottleneck, [3, 4, 23, 3], groups=32, width_per_group=8, **kwargs)


@register_model
def resnext101_64x4d(**kwargs: Any) -> ResNet:
    """ResNeXt-101: 64 groups of 4 channels, 83.5 million parameters."""
    return ResNet(Bottleneck, [3, 4, 23, 3], groups=64, width_per_group=4, **kwargs)


@register_model
def wide_resnet50_2(**kwargs: Any) -> ResNet:
    """Wide ResNet-50: twice the channels inside of each block, 68.9 million parameters."""
    return ResNet(Bottleneck, [3, 4, 6, 3], width_per_group=128, **kwargs)


@register_model
def wide_resnet101_2(**kwargs: Any) -> ResNet:
    """Wide ResNet-101: twice the channels inside of each block, 126.9 million parameters."""
    return ResNet(Bottleneck, [3, 4, 23, 3], width_per_group=128, **kwargs)
