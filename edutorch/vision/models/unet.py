"""U-Net: a picture in, a picture of the same size out; made for cells under a microscope.

On the way down the network sees more and more of the picture, on ever fewer pixels: it learns what
is there. On the way up it takes from the way down, level by level, where exactly that is.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ... import nn
from ...core.tensor import Tensor
from ...errors import InvalidValueError, ShapeError
from ...ops import cat
from ..ops import Conv2dNormActivation
from .initialization import initialize_convolutions
from .registry import register_model

__all__ = ["UNet", "unet"]


class DoubleConv(nn.Sequential):
    """Twice a 3 by 3 convolution, normalization and relu.

    Shape: input (N, in_channels, H, W), output (N, out_channels, H, W).
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(
            Conv2dNormActivation(in_channels, out_channels),
            Conv2dNormActivation(out_channels, out_channels),
        )


class Up(nn.Module):
    """Double the size, put the picture from the way down beside it, and convolve both.

    Shape: inputs (N, in_channels, H, W) and (N, out_channels, 2 · H, 2 · W), output as the second.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(in_channels, out_channels, kernel_size=2, stride=2)
        self.conv = DoubleConv(2 * out_channels, out_channels)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        return self.conv(cat([skip, self.up(x)], 1))


class UNet(nn.Module):
    """Convolutions at full size, down by halves, up by doubling, and a score of each class.

    Convolutions pad here, so that the output has the size of the input (in the paper it is
    smaller), and are followed by batch normalization.

    Args:
        in_channels: of the pictures.
        num_classes: channels of the output: a score of each class for each pixel.
        features: channels at each level, from the full size down.

    Shape: input (N, in_channels, H, W), H and W multiples of 2 ** (len(features) - 1); output
        (N, num_classes, H, W).

    Paper: Ronneberger et al., U-Net: Convolutional Networks for Biomedical Image Segmentation,
        2015, https://arxiv.org/abs/1505.04597

    >>> model = edutorch.vision.models.UNet(1, 2, features=(4, 8, 16))
    >>> model(zeros(1, 1, 32, 32)).shape
    torch.Size([1, 2, 32, 32])
    """

    def __init__(
        self, in_channels: int = 3, num_classes: int = 2,
        features: Sequence[int] = (64, 128, 256, 512, 1024),
    ) -> None:  # fmt: skip
        super().__init__()
        if not features:
            raise InvalidValueError("UNet", "features lists the channels of at least one level")
        pairs = list(itertools.pairwise(features))
        self.stem = DoubleConv(in_channels, features[0])
        self.down = nn.ModuleList(DoubleConv(high, low) for high, low in pairs)
        self.pool = nn.MaxPool2d(kernel_size=2)
        self.up = nn.ModuleList(Up(low, high) for high, low in reversed(pairs))
        self.classifier = nn.Conv2d(features[0], num_classes, kernel_size=1)
        initialize_convolutions(self)

    def forward(self, x: Tensor) -> Tensor:
        multiple = 2 ** len(self.down)
        if x.ndim != 4 or x.shape[2] % multiple or x.shape[3] % multiple:
            raise ShapeError(
                "UNet", f"height and width must be multiples of {multiple}",
                {"x": tuple(x.shape)}, "resize or pad the pictures",
            )  # fmt: skip
        x = self.stem(x)
        skips = []
        for down in self.down:
            skips.append(x)
            x = down(self.pool(x))
        for up in self.up:
            x = up(x, skips.pop())
        return self.classifier(x)


@register_model
def unet(**kwargs: Any) -> UNet:
    """U-Net with 31.0 million parameters. The arguments are those of `UNet`; no weights exist.

    >>> edutorch.vision.models.unet(num_classes=5).classifier
    Conv2d(64, 5, kernel_size=(1, 1), stride=(1, 1))
    """
    return UNet(**kwargs)
