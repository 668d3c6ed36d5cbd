"""Crops: at the middle, at random, of random size, of the corners; borders; erased rectangles."""

from __future__ import annotations

import math
from typing import Any

from ... import ops
from ...core.tensor import Tensor
from ...errors import ArgumentError, InvalidValueError, warn
from . import functional as F
from .base import Transform, WithProbability, integer_below, uniform
from .functional.crops import as_value, to_border
from .functional.image import Image, get_dimensions, to_pair
from .interpolation import InterpolationMode


class CenterCrop(Transform):
    """Cut the middle out of an image, after a border of zeros if the image is smaller.

    Args:
        size: (height, width), or an integer for a square.

    >>> CenterCrop(2)(ones(1, 4, 4)).shape
    torch.Size([1, 2, 2])
    """

    shown = ("size",)

    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = to_pair("CenterCrop", "size", size)

    def forward(self, img: Image) -> Image:
        """Return the middle of the image."""
        return F.center_crop(img, self.size)


class Pad(Transform):
    """Put a border around an image: see `functional.pad`.

    >>> Pad(1)(ones(1, 2, 2)).shape
    torch.Size([1, 4, 4])
    """

    shown = ("padding", "fill", "padding_mode")

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        to_border("Pad", padding)
        if not isinstance(fill, int | float | list | tuple):
            raise ArgumentError("Pad", "`fill` is a number or one per channel", {"fill": fill})
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            hint = "constant, edge, reflect or symmetric"
            arguments = {"padding_mode": padding_mode}
            raise InvalidValueError("Pad", "there is no such padding_mode", arguments, hint)
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def forward(self, img: Image) -> Image:
        """Return the image with its border."""
        return F.pad(img, self.padding, self.fill, self.padding_mode)


class RandomCrop(Transform):
    """Cut out a part of an image, anywhere.

    Args:
        size: (height, width), or an integer for a square.
        padding: a border that is put around the image first.
        pad_if_needed: whether a smaller image gets a border.
        fill, padding_mode: of the border, as in `functional.pad`.

    Raises: InvalidValueError: the image is smaller than `size`.

    >>> RandomCrop(2)(ones(1, 4, 4)).shape
    torch.Size([1, 2, 2])
    """

    shown = ("size", "padding")

    def __init__(
        self, size: Any, padding: Any = None, pad_if_needed: bool = False, fill: Any = 0,
        padding_mode: str = "constant",
    ) -> None:  # fmt: skip
        super().__init__()
        self.size = to_pair("RandomCrop", "size", size)
        self.padding, self.pad_if_needed = padding, pad_if_needed
        self.fill, self.padding_mode = fill, padding_mode

    @staticmethod
    def get_params(img: Image, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Draw (top, left, height, width) of a part of an image."""
        _, rows, columns = get_dimensions(img)
        height, width = output_size
        if rows < height or columns < width:
            raise InvalidValueError(
                "RandomCrop", "the crop is larger than the image",
                {"size (h w)": (height, width), "img (h w)": (rows, columns)},
                "pad_if_needed=True puts a border around small images",
            )  # fmt: skip
        if (rows, columns) == (height, width):
            return 0, 0, rows, columns
        top = integer_below(rows - height + 1)
        return top, integer_below(columns - width + 1), height, width

    def forward(self, img: Image) -> Image:
        """Return a random part of the image."""
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        _, rows, columns = get_dimensions(img)
        height, width = self.size
        if self.pad_if_needed and columns < width:
            img = F.pad(img, [width - columns, 0], self.fill, self.padding_mode)
        if self.pad_if_needed and rows < height:
            img = F.pad(img, [0, height - rows], self.fill, self.padding_mode)
        return F.crop(img, *self.get_params(img, self.size))


class RandomResizedCrop(Transform):
    """Cut out a part of random size and shape, and resize it.

    Args:
        size: (height, width) of the result, or an integer for a square.
        scale: from which to which share of the image's area.
        ratio: from which to which width / height, drawn on a logarithmic scale.
        interpolation, antialias: as in `functional.resize`.

    Paper: Szegedy et al., "Going deeper with convolutions" (2014).

    >>> RandomResizedCrop(2)(ones(1, 8, 8)).shape
    torch.Size([1, 2, 2])
    """

    def __init__(
        self, size: Any, scale: Any = (0.08, 1.0), ratio: Any = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.size = to_pair("RandomResizedCrop", "size", size)
        _check_ranges("RandomResizedCrop", scale, ratio)
        self.scale, self.ratio = scale, ratio
        self.interpolation, self.antialias = interpolation, antialias

    @staticmethod
    def get_params(img: Image, scale: Any, ratio: Any) -> tuple[int, int, int, int]:
        """Draw (top, left, height, width) of a part of an image.

        After ten draws that are larger than the image, the largest part in its middle is taken.
        """
        _, rows, columns = get_dimensions(img)
        for height, width in _draw_sizes(rows * columns, scale, ratio):
            if 0 < width <= columns and 0 < height <= rows:
                top = integer_below(rows - height + 1)
                return top, integer_below(columns - width + 1), height, width
        height, width = rows, columns
        if columns / rows < min(ratio):
            height = round(columns / min(ratio))
        elif columns / rows > max(ratio):
            width = round(rows * max(ratio))
        return (rows - height) // 2, (columns - width) // 2, height, width

    def forward(self, img: Image) -> Image:
        """Return a random part of the image in the size that was asked for."""
        part = self.get_params(img, self.scale, self.ratio)
        return F.resized_crop(img, *part, list(self.size), self.interpolation, self.antialias)

    def __repr__(self) -> str:
        scale, ratio = (tuple(round(x, 4) for x in pair) for pair in (self.scale, self.ratio))
        return (
            f"RandomResizedCrop(size={self.size}, scale={scale}, ratio={ratio}, "
            f"interpolation={self.interpolation.value}, antialias={self.antialias})"
        )


def _check_ranges(op: str, scale: Any, ratio: Any) -> None:
    for name, pair in (("scale", scale), ("ratio", ratio)):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            hint = "(from, to)"
            raise ArgumentError(op, f"`{name}` is not a range", {name: repr(pair)}, hint)
        if pair[0] > pair[1]:
            warn(f"{op}: `{name}` is (from, to), from the smaller to the larger")


def _draw_sizes(area: float, scale: Any, ratio: Any) -> Any:
    """Yield ten random sizes (height, width)."""
    log_ratio = ops.log(ops.tensor([float(bound) for bound in ratio]))
    for _ in range(10):
        target = area * uniform(scale[0], scale[1])
        aspect = ops.exp(ops.tensor(uniform(log_ratio[0].item(), log_ratio[1].item()))).item()
        yield round(math.sqrt(target / aspect)), round(math.sqrt(target * aspect))


class FiveCrop(Transform):
    """Cut out the four corners and the middle.

    >>> len(FiveCrop(2)(ones(1, 4, 4)))
    5
    """

    shown = ("size",)

    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = to_pair("FiveCrop", "size", size)

    def forward(self, img: Image) -> tuple[Image, ...]:
        """Return the five parts."""
        return F.five_crop(img, self.size)


class TenCrop(Transform):
    """Cut out corners and middle of an image and of its mirror image.

    Args:
        vertical_flip: whether the image is turned upside down instead of mirrored.

    >>> len(TenCrop(2)(ones(1, 4, 4)))
    10
    """

    shown = ("size", "vertical_flip")

    def __init__(self, size: Any, vertical_flip: bool = False) -> None:
        super().__init__()
        self.size, self.vertical_flip = to_pair("TenCrop", "size", size), vertical_flip

    def forward(self, img: Image) -> tuple[Image, ...]:
        """Return the ten parts."""
        return F.ten_crop(img, self.size, self.vertical_flip)


class RandomErasing(WithProbability):
    """Overwrite a random rectangle of a tensor with probability `p`.

    Args:
        scale: from which to which share of the image's area.
        ratio: from which to which height / width.
        value: of the erased pixels: a number, one for each channel, or "random".
        inplace: whether the tensor itself is changed.

    Paper: Zhong et al., "Random Erasing Data Augmentation" (2017).

    >>> (RandomErasing(p=1)(ones(1, 8, 8)) == 0).any()
    tensor(True)
    """

    shown = ("p", "scale", "ratio", "value", "inplace")

    def __init__(
        self, p: float = 0.5, scale: Any = (0.02, 0.33), ratio: Any = (0.3, 3.3), value: Any = 0,
        inplace: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(p)
        if isinstance(value, str) and value != "random":
            hint = 'a number, one for each channel, or "random"'
            arguments = {"value": repr(value)}
            raise InvalidValueError("RandomErasing", "there is no such value", arguments, hint)
        if not isinstance(value, int | float | str | list | tuple):
            raise ArgumentError("RandomErasing", "`value` is not a value", {"value": repr(value)})
        _check_ranges("RandomErasing", scale, ratio)
        if min(scale) < 0 or max(scale) > 1:
            hint = "shares of the image's area, between 0 and 1"
            raise InvalidValueError("RandomErasing", "`scale` is no share", {"scale": scale}, hint)
        self.scale, self.ratio, self.value, self.inplace = scale, ratio, value, inplace

    @staticmethod
    def get_params(
        img: Tensor, scale: Any, ratio: Any, value: list[float] | None = None
    ) -> tuple[int, int, int, int, Tensor]:
        """Draw (top, left, height, width) of a rectangle, and its new values.

        Args:
            value: of each channel; None for random ones.
        """
        channels, rows, columns = img.shape[-3:]
        for width, height in _draw_sizes(rows * columns, scale, ratio):
            if not (height < rows and width < columns):
                continue
            if value is None:
                values = ops.empty([channels, height, width], dtype=ops.tensor(0.0).dtype).normal_()
            else:
                values = as_value(value, img)
            top = integer_below(rows - height + 1)
            return top, integer_below(columns - width + 1), height, width, values
        return 0, 0, rows, columns, img

    def change(self, img: Image) -> Image:
        """Return the image with an erased rectangle."""
        value = self.value
        if isinstance(value, int | float):
            value = [float(value)]
        elif value == "random":
            value = None
        if value is not None and len(value) not in (1, img.shape[-3]):
            raise InvalidValueError(
                "RandomErasing", f"`value` has {len(value)} values for {img.shape[-3]} channels",
                {"value": value, "img": tuple(img.shape)},
            )  # fmt: skip
        return F.erase(img, *self.get_params(img, self.scale, self.ratio, value), self.inplace)


__all__ = [
    "CenterCrop", "FiveCrop", "Pad", "RandomCrop", "RandomErasing", "RandomResizedCrop", "TenCrop",
]  # fmt: skip
