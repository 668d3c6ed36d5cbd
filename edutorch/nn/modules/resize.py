"""Layers that change the size of images."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = ["PixelShuffle", "PixelUnshuffle", "Upsample"]


class Upsample(Module):
    """The same image in another size; see `nn.functional.interpolate`.

    >>> nn.Upsample(scale_factor=2)(zeros(1, 3, 4, 4)).shape
    torch.Size([1, 3, 8, 8])
    """

    def __init__(
        self, size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None, mode: str = "nearest",
        align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.size, self.mode, self.align_corners = size, mode, align_corners
        self.scale_factor: float | Sequence[float] | None = scale_factor
        if isinstance(scale_factor, int | float):
            self.scale_factor = float(scale_factor)
        elif scale_factor is not None:
            self.scale_factor = tuple(float(each) for each in scale_factor)
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Resize."""
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners,
            self.recompute_scale_factor,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Return the settings."""
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class PixelShuffle(Module):
    """Channels become pixels: (…, c · r², h, w) to (…, c, h · r, w · r).

    Paper: Shi et al., Real-time single image and video super-resolution, 2016.

    >>> nn.PixelShuffle(2)(zeros(1, 4, 3, 3)).shape
    torch.Size([1, 1, 6, 6])
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Lay the channels side by side."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Pixels become channels: the other way of `PixelShuffle`.

    >>> nn.PixelUnshuffle(2)(zeros(1, 1, 6, 6)).shape
    torch.Size([1, 4, 3, 3])
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Lay neighbours behind each other."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"downscale_factor={self.downscale_factor}"
