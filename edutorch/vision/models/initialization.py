"""What several models share: rounded numbers of channels, and their initialization."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ... import nn

__all__ = [
    "NormLayer", "SmoothBatchNorm", "initialize_convolutions", "initialize_linear_layers",
    "make_divisible",
]  # fmt: skip

NormLayer = Callable[[int], nn.Module]
"""Makes a normalization of so many channels."""

SmoothBatchNorm = functools.partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
"""The batch normalization of networks that were found by search: slower averages."""


def make_divisible(channels: float, divisor: int = 8) -> int:
    """Round to a multiple, which hardware likes, but never down by more than a tenth.

    >>> from edutorch.vision.models.initialization import make_divisible
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
