"""Pixel shuffle and its inverse."""

from __future__ import annotations

from ...core.tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = [
    "PixelShuffle",
    "PixelUnshuffle",
]


class PixelShuffle(Module):
    """Rearrange channels into pixels: (…, c · r², h, w) to (…, c, h · r, w · r).

    Paper: Shi et al., Real-time single image and video super-resolution, 2016.

    >>> nn.PixelShuffle(2)(zeros(1, 4, 3, 3)).shape
    torch.Size([1, 1, 6, 6])
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Rearrange pixels into channels: the inverse of `PixelShuffle`.

    >>> nn.PixelUnshuffle(2)(zeros(1, 1, 6, 6)).shape
    torch.Size([1, 4, 3, 3])
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"
