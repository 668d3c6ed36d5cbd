"""EfficientNet V2: fused blocks first, and pictures that grow while it trains.

Read `efficientnet.py` first, which has the blocks.

Paper: Tan and Le, EfficientNetV2: Smaller Models and Faster Training, 2021,
https://arxiv.org/abs/2104.00298
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ... import nn
from .efficientnet import EfficientNet, MBConvConfig
from .registry import register_model

__all__ = ["efficientnet_v2_s", "efficientnet_v2_m", "efficientnet_v2_l"]

Row = tuple[int, int, int, int, int]


def build(rows: Sequence[Row], fused: int, dropout: float, **kwargs: Any) -> EfficientNet:
    """Return the network of some stages, of which the first few are fused.

    Args:
        rows: for each stage: factor of the inside, stride, channels in and out, number of blocks.
        fused: how many stages are fused.
        dropout: default of the argument.
    """
    stages = [
        MBConvConfig(factor, 3, stride, channels, out_channels, blocks, fused=index < fused)
        for index, (factor, stride, channels, out_channels, blocks) in enumerate(rows)
    ]
    settings = {"norm_layer": functools.partial(nn.BatchNorm2d, eps=1e-3), "dropout": dropout}
    return EfficientNet(stages, **{**settings, **kwargs}, last_channel=1280)


@register_model
def efficientnet_v2_s(**kwargs: Any) -> EfficientNet:
    """EfficientNet V2, small: 21.5 million parameters; see `EfficientNet`."""
    rows = [
        (1, 1, 24, 24, 2), (4, 2, 24, 48, 4), (4, 2, 48, 64, 4), (4, 2, 64, 128, 6),
        (6, 1, 128, 160, 9), (6, 2, 160, 256, 15),
    ]  # fmt: skip
    return build(rows, 3, 0.2, **kwargs)


@register_model
def efficientnet_v2_m(**kwargs: Any) -> EfficientNet:
    """EfficientNet V2, medium: 54.1 million parameters; see `EfficientNet`."""
    rows = [
        (1, 1, 24, 24, 3), (4, 2, 24, 48, 5), (4, 2, 48, 80, 5), (4, 2, 80, 160, 7),
        (6, 1, 160, 176, 14), (6, 2, 176, 304, 18), (6, 1, 304, 512, 5),
    ]  # fmt: skip
    return build(rows, 3, 0.3, **kwargs)


@register_model
def efficientnet_v2_l(**kwargs: Any) -> EfficientNet:
    """EfficientNet V2, large: 118.5 million parameters; see `EfficientNet`."""
    rows = [
        (1, 1, 32, 32, 4), (4, 2, 32, 64, 7), (4, 2, 64, 96, 7), (4, 2, 96, 192, 10),
        (6, 1, 192, 224, 19), (6, 2, 224, 384, 25), (6, 1, 384, 640, 7),
    ]  # fmt: skip
    return build(rows, 3, 0.4, **kwargs)
