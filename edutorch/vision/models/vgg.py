"""VGG: only 3 by 3 convolutions, since two of them see as much as one of 5 by 5.

The plan of a network is a list: a number is a convolution with so many channels, "M" a pooling that
halves the picture.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ... import nn
from ...core.tensor import Tensor
from ...ops import flatten
from .initialization import initialize_convolutions, initialize_linear_layers
from .registry import register_model

__all__ = [
    "VGG", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn",
]  # fmt: skip

PLANS: dict[int, Sequence[int | str]] = {
    11: (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"),
    13: (64, 64, "M", 128, 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"),
    16: (64, 64, "M", 128, 128, "M", *[256] * 3, "M", *[512] * 3, "M", *[512] * 3, "M"),
    19: (64, 64, "M", 128, 128, "M", *[256] * 4, "M", *[512] * 4, "M", *[512] * 4, "M"),
}
"""The convolutions and poolings of a VGG with so many layers that have weights."""


def make_layers(cfg: Sequence[int | str], batch_norm: bool = False) -> nn.Sequential:
    """Return the convolutions of a plan.

    Args:
        cfg: channels of the convolutions, and "M" for each pooling.
        batch_norm: normalize after every convolution.

    >>> from edutorch.vision.models.vgg import make_layers
    >>> make_layers([8, "M"])
    Sequential(
      (0): Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
      (1): ReLU(inplace=True)
      (2): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    )
    """
    layers: list[nn.Module] = []
    in_channels = 3
    for channels in cfg:
        if isinstance(channels, str):
            layers.append(nn.MaxPool2d(kernel_size=2, stride=2))
            continue
        layers.append(nn.Conv2d(in_channels, channels, kernel_size=3, padding=1))
        if batch_norm:
            layers.append(nn.BatchNorm2d(channels))
        layers.append(nn.ReLU(inplace=True))
        in_channels = channels
    return nn.Sequential(*layers)


class VGG(nn.Module):
    """Convolutions of a plan, then three linear layers, which hold most of the parameters.

    Args:
        features: the convolutions; their output has 512 channels.
        num_classes: length of the output.
        init_weights: initialize for relu.
        dropout: probability with which an output of the hidden linear layers is zeroed.

    Shape: input (N, 3, H, W), H and W at least 32; output (N, num_classes).

    Paper: Simonyan and Zisserman, Very Deep Convolutional Networks for Large-Scale Image
        Recognition, 2014, https://arxiv.org/abs/1409.1556
    """

    def __init__(
        self, features: nn.Module, num_classes: int = 1000, init_weights: bool = True,
        dropout: float = 0.5,
    ) -> None:  # fmt: skip
        super().__init__()
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(True),
            nn.Dropout(p=dropout),
            nn.Linear(4096, 4096),
            nn.ReLU(True),
            nn.Dropout(p=dropout),
            nn.Linear(4096, num_classes),
        )
        if init_weights:
            initialize_convolutions(self)
            initialize_linear_layers(self, functools.partial(nn.init.normal_, std=0.01))

    def forward(self, x: Tensor) -> Tensor:
        x = self.avgpool(self.features(x))
        return self.classifier(flatten(x, 1))


def build(layers: int, batch_norm: bool, **kwargs: Any) -> VGG:
    """Return a VGG with so many layers."""
    return VGG(make_layers(PLANS[layers], batch_norm), **kwargs)


@register_model
def vgg11(**kwargs: Any) -> VGG:
    """VGG with 11 layers and 132.9 million parameters. The arguments are those of `VGG`."""
    return build(11, batch_norm=False, **kwargs)


@register_model
def vgg11_bn(**kwargs: Any) -> VGG:
    """VGG-11 with batch normalization. The arguments are those of `VGG`."""
    return build(11, batch_norm=True, **kwargs)


@register_model
def vgg13(**kwargs: Any) -> VGG:
    """VGG with 13 layers and 133.0 million parameters. The arguments are those of `VGG`."""
    return build(13, batch_norm=False, **kwargs)


@register_model
def vgg13_bn(**kwargs: Any) -> VGG:
    """VGG-13 with batch normalization. The arguments are those of `VGG`."""
    return build(13, batch_norm=True, **kwargs)


@register_model
def vgg16(**kwargs: Any) -> VGG:
    """VGG with 16 layers and 138.4 million parameters. The arguments are those of `VGG`."""
    return build(16, batch_norm=False, **kwargs)


@register_model
def vgg16_bn(**kwargs: Any) -> VGG:
    """VGG-16 with batch normalization. The arguments are those of `VGG`."""
    return build(16, batch_norm=True, **kwargs)


@register_model
def vgg19(**kwargs: Any) -> VGG:
    """VGG with 19 layers and 143.7 million parameters. The arguments are those of `VGG`."""
    return build(19, batch_norm=False, **kwargs)


@register_model
def vgg19_bn(**kwargs: Any) -> VGG:
    """VGG-19 with batch normalization. The arguments are those of `VGG`."""
    return build(19, batch_norm=True, **kwargs)
