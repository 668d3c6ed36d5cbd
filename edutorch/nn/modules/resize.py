"""Layers that change the size of images."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = [
    "ChannelShuffle", "PixelShuffle", "PixelUnshuffle", "Upsample", "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]  # fmt: skip


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


class UpsamplingNearest2d(Upsample):
    """Images of another size by their nearest pixels; see `Upsample`.

    >>> nn.UpsamplingNearest2d(scale_factor=2)(zeros(1, 3, 4, 4)).shape
    torch.Size([1, 3, 8, 8])
    """

    def __init__(
        self, size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Images of another size along straight lines, their corners kept; see `Upsample`.

    >>> nn.UpsamplingBilinear2d(size=5)(zeros(1, 3, 4, 4)).shape
    torch.Size([1, 3, 5, 5])
    """

    def __init__(
        self, size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(size, scale_factor, "bilinear", align_corners=True)


class ChannelShuffle(Module):
    """Deal the channels out anew; see `nn.functional.channel_shuffle`.

    >>> nn.ChannelShuffle(2)(arange(4.0).reshape(1, 4, 1)).flatten()
    tensor([0., 2., 1., 3.])
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """Shuffle."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"groups={self.groups}"


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
