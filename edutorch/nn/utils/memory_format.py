"""The memory format of convolution weights."""

from __future__ import annotations

from typing import Any

from ...core.storage import memory_format
from ..modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from ..modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def convert_weights(module: Module, classes: tuple[type, ...], memory_format: memory_format) -> Any:
    for child in module.modules():
        if isinstance(child, classes):
            weight: Any = child.weight
            weight.data = weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Module, memory_format: memory_format) -> Any:
    """Convert the weights of all 2-d convolutions to another memory format.

    >>> layer = nn.utils.convert_conv2d_weight_memory_format(nn.Conv2d(2, 2, 2), channels_last)
    >>> layer.weight.is_contiguous(memory_format=channels_last)
    True
    """
    return convert_weights(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Module, memory_format: memory_format) -> Any:
    """Convert the weights of all 3-d convolutions to another memory format.

    >>> layer = nn.Conv3d(2, 2, 2)
    >>> nn.utils.convert_conv3d_weight_memory_format(layer, channels_last_3d) is layer
    True
    """
    return convert_weights(module, (Conv3d, ConvTranspose3d), memory_format)
