"""Upsampling layers: interpolation of sequences, images and volumes."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = [
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]


class Upsample(Module):
    """Resize an input by interpolation; see `nn.functional.interpolate`.

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
        # PyTorch stores floats, also for whole numbers; its repr shows them.
        elif scale_factor is not None:
            self.scale_factor = tuple(float(factor) for factor in scale_factor)
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners,
            self.recompute_scale_factor,
        )  # fmt: skip

    def extra_repr(self) -> str:
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Resize images by nearest-neighbour interpolation; see `Upsample`.

    >>> nn.UpsamplingNearest2d(scale_factor=2)(zeros(1, 3, 4, 4)).shape
    torch.Size([1, 3, 8, 8])
    """

    def __init__(
        self, size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Resize images by bilinear interpolation with aligned corners; see `Upsample`.

    >>> nn.UpsamplingBilinear2d(size=5)(zeros(1, 3, 4, 4)).shape
    torch.Size([1, 3, 5, 5])
    """

    def __init__(
        self, size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(size, scale_factor, "bilinear", align_corners=True)
