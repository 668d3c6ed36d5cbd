"""DenseNet: each layer sees the outputs of all layers before it, and adds a few channels.

A layer of a ResNet adds to its input; here the outputs are put side by side, so that nothing that
was found is overwritten. Read `_DenseLayer` first, then `_DenseBlock`.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from ... import nn
from ...core.tensor import Tensor
from ...ops import cat, flatten
from ...utils.checkpoint import checkpoint
from .initialization import initialize_convolutions
from .registry import register_model

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201"]


class _DenseLayer(nn.Module):
    """conv3(relu(bn(conv1(relu(bn(all outputs before)))))): `growth_rate` new channels.

    Args:
        num_input_features: channels of all outputs before, together.
        growth_rate: channels that this layer adds.
        bn_size: the 1 by 1 convolution reduces the input to bn_size · growth_rate channels.
        drop_rate: probability with which an element of the output is zeroed while training.
        memory_efficient: compute the intermediate results once more in backward.
    """

    def __init__(
        self, num_input_features: int, growth_rate: int, bn_size: int, drop_rate: float,
        memory_efficient: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        width = bn_size * growth_rate
        self.norm1 = nn.BatchNorm2d(num_input_features)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(num_input_features, width, kernel_size=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, growth_rate, kernel_size=3, padding=1, bias=False)
        self.drop_rate = float(drop_rate)
        self.memory_efficient = memory_efficient

    def reduce(self, *features: Tensor) -> Tensor:
        return self.conv1(self.relu1(self.norm1(cat(features, 1))))

    def forward(self, features: list[Tensor]) -> Tensor:
        if self.memory_efficient and any(feature.requires_grad for feature in features):
            reduced = checkpoint(self.reduce, *features, use_reentrant=False)
        else:
            reduced = self.reduce(*features)
        new = self.conv2(self.relu2(self.norm2(reduced)))
        return nn.functional.dropout(new, self.drop_rate, self.training) if self.drop_rate else new


class _DenseBlock(nn.ModuleDict):
    """Layers of which each gets the outputs of all before it."""

    def __init__(
        self, num_layers: int, num_input_features: int, bn_size: int, growth_rate: int,
        drop_rate: float, memory_efficient: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        for index in range(num_layers):
            channels = num_input_features + index * growth_rate
            self[f"denselayer{index + 1}"] = _DenseLayer(
                channels, growth_rate, bn_size, drop_rate, memory_efficient
            )

    def forward(self, init_features: Tensor) -> Tensor:
        features = [init_features]
        for layer in self.values():
            features.append(layer(features))
        return cat(features, 1)


class _Transition(nn.Sequential):
    """Between two blocks: half of the channels, half of the size."""

    def __init__(self, num_input_features: int, num_output_features: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(num_input_features)
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(num_input_features, num_output_features, kernel_size=1, bias=False)
        self.pool = nn.AvgPool2d(kernel_size=2, stride=2)


class DenseNet(nn.Module):
    """A stem, four dense blocks with transitions between them, the mean, and a linear layer.

    Args:
        growth_rate: channels that each layer adds.
        block_config: how many layers each block has.
        num_init_features: channels after the stem.
        bn_size, drop_rate, memory_efficient: of each layer.
        num_classes: length of the output.

    Shape: input (N, 3, H, W), H and W at least 29; output (N, num_classes).

    Paper: Huang et al., Densely Connected Convolutional Networks, 2016,
        https://arxiv.org/abs/1608.06993

    >>> from edutorch.vision.models import DenseNet
    >>> DenseNet(8, (2, 2, 2, 2), 16, num_classes=10)(zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self, growth_rate: int = 32, block_config: Sequence[int] = (6, 12, 24, 16),
        num_init_features: int = 64, bn_size: int = 4, drop_rate: float = 0,
        num_classes: int = 1000, memory_efficient: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        channels = num_init_features
        stem = [
            ("conv0", nn.Conv2d(3, channels, kernel_size=7, stride=2, padding=3, bias=False)),
            ("norm0", nn.BatchNorm2d(channels)),
            ("relu0", nn.ReLU(inplace=True)),
            ("pool0", nn.MaxPool2d(kernel_size=3, stride=2, padding=1)),
        ]
        self.features = nn.Sequential(OrderedDict(stem))
        for index, layers in enumerate(block_config, start=1):
            block = _DenseBlock(
                layers, channels, bn_size, growth_rate, drop_rate, memory_efficient
            )  # fmt: skip
            self.features.add_module(f"denseblock{index}", block)
            channels += layers * growth_rate
            if index < len(block_config):
                transition = _Transition(channels, channels // 2)
                self.features.add_module(f"transition{index}", transition)
                channels //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(channels))
        self.classifier = nn.Linear(channels, num_classes)
        initialize_convolutions(self, mode="fan_in")
        nn.init.zeros_(self.classifier.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        features = nn.functional.relu(self.features(x), inplace=True)
        pooled = nn.functional.adaptive_avg_pool2d(features, (1, 1))
        return self.classifier(flatten(pooled, 1))

    def _load_from_state_dict(self, state_dict: Any, *args: Any) -> None:
        """Rename the keys of the published weights, which are older: "norm.1" is "norm1" now."""
        for key in list(state_dict):
            new_key = re.sub(r"(denselayer\d+\.(?:norm|conv))\.([12]\.)", r"\1\2", key)
            state_dict[new_key] = state_dict.pop(key)
        super()._load_from_state_dict(state_dict, *args)


@register_model
def densenet121(**kwargs: Any) -> DenseNet:
    """DenseNet with 121 layers, 8.0 million parameters. The arguments are those of `DenseNet`."""
    return DenseNet(32, (6, 12, 24, 16), 64, **kwargs)


@register_model
def densenet161(**kwargs: Any) -> DenseNet:
    """DenseNet with 161 layers, 28.7 million parameters. The arguments are those of `DenseNet`."""
    return DenseNet(48, (6, 12, 36, 24), 96, **kwargs)


@register_model
def densenet169(**kwargs: Any) -> DenseNet:
    """DenseNet with 169 layers, 14.1 million parameters. The arguments are those of `DenseNet`."""
    return DenseNet(32, (6, 12, 32, 32), 64, **kwargs)


@register_model
def densenet201(**kwargs: Any) -> DenseNet:
    """DenseNet with 201 layers, 20.0 million parameters. The arguments are those of `DenseNet`."""
    return DenseNet(32, (6, 12, 48, 32), 64, **kwargs)
