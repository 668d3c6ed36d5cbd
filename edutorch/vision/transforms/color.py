"""Random brightness, contrast, saturation and hue; grey, inverted, posterized, blurred images."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...errors import ArgumentError, InvalidValueError
from . import functional as F
from .base import Transform, WithProbability, to_range, uniform
from .functional.filters import pair_of_values
from .functional.image import Image, get_dimensions

Range = tuple[float, float] | None


class ColorJitter(Transform):
    """Change brightness, contrast, saturation and hue at random, in a random order.

    Args:
        brightness, contrast, saturation: (from, to) of the factor; or x for 1 - x to 1 + x.
        hue: (from, to) in turns, between -0.5 and 0.5; or x for -x to x.

    Raises: InvalidValueError: a range is out of bounds.

    >>> ColorJitter(brightness=0.5)
    ColorJitter(brightness=(0.5, 1.5), contrast=None, saturation=None, hue=None)
    """

    shown = ("brightness", "contrast", "saturation", "hue")

    def __init__(
        self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0
    ) -> None:
        super().__init__()
        self.brightness = jitter_range("brightness", brightness)
        self.contrast = jitter_range("contrast", contrast)
        self.saturation = jitter_range("saturation", saturation)
        self.hue = jitter_range("hue", hue, center=0, bounds=(-0.5, 0.5), stop_at_0=False)

    @staticmethod
    def get_params(
        brightness: Range, contrast: Range, saturation: Range, hue: Range
    ) -> tuple[Any, float | None, float | None, float | None, float | None]:
        """Draw the order of the four changes, and the factor of each."""
        order = ops.randperm(4)
        factors = [
            None if bounds is None else uniform(*bounds)
            for bounds in (brightness, contrast, saturation, hue)
        ]
        return order, *factors

    def forward(self, img: Image) -> Image:
        """Return the changed image."""
        ranges = (self.brightness, self.contrast, self.saturation, self.hue)
        order, *factors = self.get_params(*ranges)
        changes = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
        for index in order.tolist():
            factor = factors[index]
            if factor is not None:
                img = changes[index](img, factor)
        return img


def jitter_range(
    name: str, value: Any, center: float = 1, bounds: tuple[float, float] = (0, float("inf")),
    stop_at_0: bool = True,
) -> Range:  # fmt: skip
    """Return the range that a factor is drawn from; None if it would change nothing.

    >>> jitter_range("brightness", 2)
    (0.0, 3.0)
    """
    if isinstance(value, int | float):
        if value < 0:
            arguments = {name: value}
            raise InvalidValueError("ColorJitter", f"{name} is not negative", arguments)
        first, last = center - float(value), center + float(value)
        first = max(first, 0.0) if stop_at_0 else first
    elif isinstance(value, list | tuple) and len(value) == 2:
        first, last = float(value[0]), float(value[1])
    else:
        hint = "a number, or (from, to)"
        raise ArgumentError("ColorJitter", f"{name} is not a range", {name: repr(value)}, hint)
    if not bounds[0] <= first <= last <= bounds[1]:
        hint = f"it lies between {bounds[0]} and {bounds[1]}, in order"
        raise InvalidValueError("ColorJitter", f"{name} is out of range", {name: value}, hint)
    return None if first == last == center else (first, last)


class RandomGrayscale(WithProbability):
    """Convert an image to grey, with as many channels, with probability `p`.

    >>> RandomGrayscale(p=1)(ones(3, 2, 2)).shape
    torch.Size([3, 2, 2])
    """

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)

    def change(self, img: Image) -> Image:
        """Return the grey image."""
        return F.rgb_to_grayscale(img, get_dimensions(img)[0])


class GaussianBlur(Transform):
    """Blur an image by a bell curve of random width.

    Args:
        kernel_size: (width, height) of the neighbourhood, both odd, or one number.
        sigma: σ in pixels, or (from, to).

    >>> GaussianBlur(3)
    GaussianBlur(kernel_size=(3, 3), sigma=(0.1, 2.0))
    """

    shown = ("kernel_size", "sigma")

    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0)) -> None:
        super().__init__()
        self.kernel_size = tuple(pair_of_values("GaussianBlur", "kernel_size", kernel_size))
        if any(size <= 0 or size % 2 == 0 for size in self.kernel_size):
            hint = "an odd size has a pixel in its middle"
            arguments = {"kernel_size": kernel_size}
            raise InvalidValueError(
                "GaussianBlur", "kernel_size is odd and positive", arguments, hint
            )
        both = (sigma, sigma) if isinstance(sigma, int | float) else sigma
        low, high = to_range("GaussianBlur", "sigma", both)
        if low <= 0:
            raise InvalidValueError("GaussianBlur", "sigma is positive", {"sigma": sigma})
        self.sigma = (low, high)

    @staticmethod
    def get_params(sigma_min: float, sigma_max: float) -> float:
        """Draw a width."""
        return uniform(sigma_min, sigma_max)

    def forward(self, img: Image) -> Image:
        """Return the blurred image."""
        sigma = self.get_params(*self.sigma)
        return F.gaussian_blur(img, list(self.kernel_size), [sigma, sigma])


class RandomInvert(WithProbability):
    """Swap black and white with probability `p`.

    >>> RandomInvert(p=1)(ones(1, 1, 1))
    tensor([[[0.]]])
    """

    def change(self, img: Image) -> Image:
        """Return the inverted image."""
        return F.invert(img)


class RandomPosterize(WithProbability):
    """Keep the upper bits of each value with probability `p`.

    >>> RandomPosterize(bits=1, p=1)(full((1, 1, 1), 200, dtype=uint8))
    tensor([[[128]]], dtype=torch.uint8)
    """

    shown = ("bits", "p")

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = bits

    def change(self, img: Image) -> Image:
        """Return the posterized image."""
        return F.posterize(img, self.bits)


class RandomSolarize(WithProbability):
    """Invert the values from `threshold` on with probability `p`.

    >>> RandomSolarize(threshold=0.5, p=1)(tensor([[[0.25, 1.0]]]))
    tensor([[[0.2500, 0.0000]]])
    """

    shown = ("threshold", "p")

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = threshold

    def change(self, img: Image) -> Image:
        """Return the solarized image."""
        return F.solarize(img, self.threshold)


class RandomAdjustSharpness(WithProbability):
    """Make an image smoother (factor 0) or sharper (2) with probability `p`.

    >>> RandomAdjustSharpness(2, p=1)(ones(1, 4, 4)).mean()
    tensor(1.)
    """

    shown = ("sharpness_factor", "p")

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def change(self, img: Image) -> Image:
        """Return the image, smoother or sharper."""
        return F.adjust_sharpness(img, self.sharpness_factor)


class RandomAutocontrast(WithProbability):
    """Stretch the values to the whole range with probability `p`.

    >>> RandomAutocontrast(p=1)(tensor([[[0.25, 0.5]]]))
    tensor([[[0., 1.]]])
    """

    def change(self, img: Image) -> Image:
        """Return the stretched image."""
        return F.autocontrast(img)


class RandomEqualize(WithProbability):
    """Make all levels about equally frequent with probability `p`.

    >>> RandomEqualize(p=1)(arange(100, 164).view(1, 8, 8).repeat(1, 8, 1).to(uint8)).unique()[-2:]
    tensor([248, 255], dtype=torch.uint8)
    """

    def change(self, img: Image) -> Image:
        """Return the equalized image."""
        return F.equalize(img)
