"""Brightness, contrast, saturation, hue; grey images; the value of each pixel on its own."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from .... import ops
from ....core.tensor import Tensor
from ....dtypes import float32, int64, uint8
from ....errors import ArgumentError, DTypeError, InvalidValueError
from ....ops.from_data import from_numpy
from .conversion import convert_image_dtype, require_pil, to_pil_image
from .image import (
    Image,
    check_channels,
    check_image,
    describe,
    get_dimensions,
    max_value,
    plain_array,
)  # fmt: skip

GREY = (0.2989, 0.587, 0.114)
"""The shares of red, green and blue in the brightness that an eye sees."""


def normalize(tensor: Tensor, mean: Any, std: Any, inplace: bool = False) -> Tensor:
    """Subtract a mean from each channel and divide by a standard deviation.

    y = (x - mean) / std

    Args:
        tensor: floats, `... × channels × height × width`.
        mean, std: one value for each channel, or one for all.
        inplace: whether the tensor itself is changed.

    Raises:
        ArgumentError: it is no tensor, or holds integers.
        ShapeValueError: it has fewer than three axes.
        InvalidValueError: a standard deviation is 0, or the channels are others.

    >>> normalize(ones(1, 1, 2), [0.5], [0.25])
    tensor([[[2., 2.]]])
    """
    if not isinstance(tensor, Tensor):
        hint = "put ToTensor() before Normalize(…)"
        arguments = {"tensor": type(tensor).__name__}
        raise ArgumentError("normalize", "expected a tensor", arguments, hint)
    if not tensor.is_floating_point():
        raise ArgumentError(
            "normalize", "expected floats", {"tensor": describe(tensor)},
            "convert_image_dtype(image, torch.float32) makes them",
        )  # fmt: skip
    check_image("normalize", tensor)
    array = plain_array(tensor)
    if array is not None and not isinstance(mean, Tensor) and not isinstance(std, Tensor):
        shift, scale = (channel_values(array.dtype, *to_values(values)) for values in (mean, std))
        check_statistics(tensor, shift, scale)
        result = np.subtract(array, shift, out=array if inplace else None)
        np.divide(result, scale, out=result)
        return tensor if inplace else from_numpy(result)
    shift, scale = (
        ops.as_tensor(values, dtype=tensor.dtype, device=tensor.device).reshape(-1, 1, 1)
        for values in (mean, std)
    )
    check_statistics(tensor, shift, scale)
    changed = tensor.sub_(shift) if inplace else tensor - shift
    return changed.div_(scale)


def to_values(values: Any) -> Any:
    return (values,) if isinstance(values, int | float) else values


@lru_cache(maxsize=64)
def channel_values(dtype: np.dtype[Any], *values: float) -> np.ndarray[Any, Any]:
    """Return one value for each channel as an array, channels × 1 × 1."""
    return np.array(values, dtype).reshape(-1, 1, 1)


def check_statistics(tensor: Tensor, shift: Any, scale: Any) -> None:
    """Raise InvalidValueError for a standard deviation of 0, or another number of channels."""
    channels = get_dimensions(tensor)[0]
    if not scale.all():
        raise InvalidValueError(
            "normalize", "a standard deviation is 0: division by zero",
            {"std": scale.flatten().tolist()}, f"in {tensor.dtype} a small one may become 0",
        )  # fmt: skip
    if tensor.ndim < 3 or {len(shift), len(scale)} - {1, channels}:
        raise InvalidValueError(
            "normalize", f"the image has {channels} channels",
            {"tensor": tuple(tensor.shape), "mean": shift.flatten().tolist(),
             "std": scale.flatten().tolist()},
            "mean and std have one value for each channel: (0.5,) for grey images",
        )  # fmt: skip


def rgb_to_grayscale(img: Image, num_output_channels: int = 1) -> Image:
    """Convert an image to grey: 0.2989 · red + 0.587 · green + 0.114 · blue.

    Args:
        num_output_channels: 1, or 3 for three equal channels.

    Raises:
        ArgumentError: a tensor has not 1 or 3 channels.
        InvalidValueError: `num_output_channels` is not 1 or 3.

    >>> rgb_to_grayscale(tensor([255, 0, 0], dtype=uint8).view(3, 1, 1))
    tensor([[[76]]], dtype=torch.uint8)
    """
    if num_output_channels not in (1, 3):
        raise InvalidValueError(
            "rgb_to_grayscale", "num_output_channels is 1 or 3",
            {"num_output_channels": num_output_channels},
        )  # fmt: skip
    if check_image("rgb_to_grayscale", img):
        grey = img.convert("L")
        return grey if num_output_channels == 1 else require_pil("").merge("RGB", [grey] * 3)
    if check_channels("rgb_to_grayscale", img, (1, 3)) == 1:
        grey = img
    else:
        red, green, blue = img.unbind(-3)
        grey = (GREY[0] * red + GREY[1] * green + GREY[2] * blue).to(img.dtype).unsqueeze(-3)
    return grey.expand(*img.shape[:-3], num_output_channels, *img.shape[-2:])


to_grayscale = rgb_to_grayscale


def adjust_brightness(img: Image, brightness_factor: float) -> Image:
    """Make an image darker (0: black) or brighter (1: as it is, 2: twice).

    Raises: InvalidValueError: the factor is negative.

    >>> adjust_brightness(full((1, 1, 1), 0.25), 2)
    tensor([[[0.5000]]])
    """
    check_factor("adjust_brightness", brightness_factor=brightness_factor)
    if check_image("adjust_brightness", img):
        return _enhance("Brightness", img, brightness_factor)
    check_channels("adjust_brightness", img, (1, 3))
    return blend(img, 0, brightness_factor)


def adjust_contrast(img: Image, contrast_factor: float) -> Image:
    """Move the values away from the mean of the grey image (0: grey, 1: as it is, 2: twice as far).

    Raises: InvalidValueError: the factor is negative.

    >>> adjust_contrast(tensor([[[0.25, 0.75]]]), 2)
    tensor([[[0., 1.]]])
    """
    check_factor("adjust_contrast", contrast_factor=contrast_factor)
    if check_image("adjust_contrast", img):
        return _enhance("Contrast", img, contrast_factor)
    check_channels("adjust_contrast", img, (1, 3))
    dtype = img.dtype if img.is_floating_point() else float32
    mean = rgb_to_grayscale(img).to(dtype).mean((-3, -2, -1), keepdim=True)
    return blend(img, mean, contrast_factor)


def adjust_saturation(img: Image, saturation_factor: float) -> Image:
    """Make the colours of an image paler (0: grey) or stronger (1: as it is, 2: twice).

    Raises: InvalidValueError: the factor is negative.

    >>> adjust_saturation(tensor([1.0, 0.0, 0.0]).view(3, 1, 1), 0).flatten()
    tensor([0.2989, 0.2989, 0.2989])
    """
    check_factor("adjust_saturation", saturation_factor=saturation_factor)
    if check_image("adjust_saturation", img):
        return _enhance("Color", img, saturation_factor)
    if check_channels("adjust_saturation", img, (1, 3)) == 1:
        return img
    return blend(img, rgb_to_grayscale(img), saturation_factor)


def adjust_hue(img: Image, hue_factor: float) -> Image:
    """Turn the circle of colours.

    Args:
        hue_factor: from -0.5 to 0.5 turns; 0 changes nothing.

    Raises: InvalidValueError: the factor is out of range.

    >>> adjust_hue(tensor([1.0, 0.0, 0.0]).view(3, 1, 1), 0.5).flatten()
    tensor([0., 1., 1.])
    """
    if not -0.5 <= hue_factor <= 0.5:
        raise InvalidValueError(
            "adjust_hue", "hue_factor lies between -0.5 and 0.5", {"hue_factor": hue_factor},
            "0.5 is half a turn: red becomes cyan",
        )  # fmt: skip
    if check_image("adjust_hue", img):
        return _turn_pil(img, hue_factor)
    if check_channels("adjust_hue", img, (1, 3)) == 1:
        return img
    hue, saturation, value = rgb_to_hsv(convert_image_dtype(img, _float_of(img)))
    return convert_image_dtype(hsv_to_rgb((hue + hue_factor) % 1.0, saturation, value), img.dtype)


def _float_of(img: Tensor) -> Any:
    return img.dtype if img.is_floating_point() else float32


def _turn_pil(img: Image, hue_factor: float) -> Image:
    if img.mode in ("L", "1", "I", "F"):
        return img
    pil = require_pil("adjust_hue")
    hue, saturation, value = img.convert("HSV").split()
    turned = np.asarray(hue) + np.uint8(int(hue_factor * 255) % 256)  # modulo 256
    hue = pil.fromarray(turned.astype(np.uint8))
    return pil.merge("HSV", (hue, saturation, value)).convert(img.mode)


def rgb_to_hsv(img: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return hue, saturation and value of an image, each `... × height × width` from 0 to 1.

    Source: A. R. Smith, "Color gamut transform pairs" (1978).

    >>> hue, saturation, value = rgb_to_hsv(tensor([[[0.0]], [[1.0]], [[0.0]]]))
    >>> hue, saturation, value
    (tensor([[0.3333]]), tensor([[1.]]), tensor([[1.]]))
    """
    red, green, blue = img.unbind(-3)
    highest, lowest = img.amax(-3), img.amin(-3)
    is_grey = highest == lowest
    spread = highest - lowest
    one = ops.ones_like(highest)
    saturation = spread / ops.where(is_grey, one, highest)
    divisor = ops.where(is_grey, one, spread)
    from_red, from_green, from_blue = (
        (highest - channel) / divisor for channel in (red, green, blue)
    )
    # Sixths of a turn, from the colour that is strongest.
    hue_at_red = (highest == red) * (from_blue - from_green)
    hue_at_green = ((highest == green) & (highest != red)) * (2.0 + from_red - from_blue)
    hue_at_blue = ((highest != green) & (highest != red)) * (4.0 + from_green - from_red)
    hue = ops.fmod((hue_at_red + hue_at_green + hue_at_blue) / 6.0 + 1.0, 1.0)
    return hue, saturation, highest


def hsv_to_rgb(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    """Return the image `... × 3 × height × width` of hue, saturation and value.

    >>> red = hsv_to_rgb(zeros(1, 1), ones(1, 1), ones(1, 1))
    >>> red.flatten()
    tensor([1., 0., 0.])
    """
    sector = (hue * 6.0).floor()
    rest = hue * 6.0 - sector
    sector = sector.to(int64) % 6
    low = (value * (1.0 - saturation)).clamp(0.0, 1.0)
    falling = (value * (1.0 - saturation * rest)).clamp(0.0, 1.0)
    rising = (value * (1.0 - saturation * (1.0 - rest))).clamp(0.0, 1.0)
    channels = (
        (value, falling, low, low, rising, value),
        (rising, value, value, falling, low, low),
        (low, low, rising, value, value, falling),
    )
    index = sector.unsqueeze(0)
    return ops.stack([ops.stack(levels).gather(0, index).squeeze(0) for levels in channels], dim=-3)


def adjust_gamma(img: Image, gamma: float, gain: float = 1) -> Image:
    """Apply a power: y = gain · x^gamma, with x from 0 to 1.

    Raises: InvalidValueError: gamma is negative.

    >>> adjust_gamma(full((1, 1, 1), 0.5), 2)
    tensor([[[0.2500]]])
    """
    check_factor("adjust_gamma", gamma=gamma)
    if check_image("adjust_gamma", img):
        rgb = img.convert("RGB")
        levels = [int((255 + 1 - 1e-3) * gain * pow(level / 255.0, gamma)) for level in range(256)]
        return rgb.point([min(max(level, 0), 255) for level in levels] * 3).convert(img.mode)
    check_channels("adjust_gamma", img, (1, 3))
    values = convert_image_dtype(img, _float_of(img))
    return convert_image_dtype((gain * values**gamma).clamp(0, 1), img.dtype)


def invert(img: Image) -> Image:
    """Swap black and white: y = white - x.

    >>> invert(tensor([[[0, 255]]], dtype=uint8))
    tensor([[[255,   0]]], dtype=torch.uint8)
    """
    if check_image("invert", img):
        from PIL import ImageOps

        return ImageOps.invert(img)
    return max_value(img.dtype) - img


def posterize(img: Image, bits: int) -> Image:
    """Keep the upper bits of each value.

    Args:
        bits: from 0 (black) to 8 (as it is).

    Raises:
        InvalidValueError: so many bits cannot be kept.
        DTypeError: a tensor is not of uint8.

    >>> posterize(tensor([[[255]]], dtype=uint8), 1)
    tensor([[[128]]], dtype=torch.uint8)
    """
    if not 0 <= bits <= 8:
        raise InvalidValueError("posterize", "bits lies between 0 and 8", {"bits": bits})
    if check_image("posterize", img):
        from PIL import ImageOps

        return ImageOps.posterize(img, bits) if bits else img.point(lambda level: 0)
    require_uint8("posterize", img)
    return img & (256 - 2 ** (8 - bits))


def solarize(img: Image, threshold: float) -> Image:
    """Invert the values that are at least the threshold.

    >>> solarize(tensor([[[10, 200]]], dtype=uint8), 100)
    tensor([[[10, 55]]], dtype=torch.uint8)
    """
    if check_image("solarize", img):
        from PIL import ImageOps

        return ImageOps.solarize(img, threshold)
    return ops.where(img >= threshold, invert(img), img)


def autocontrast(img: Image) -> Image:
    """Stretch the values of each channel, so that they reach from black to white.

    >>> autocontrast(tensor([[[0.25, 0.5]]]))
    tensor([[[0., 1.]]])
    """
    if check_image("autocontrast", img):
        from PIL import ImageOps

        return ImageOps.autocontrast(img)
    white = max_value(img.dtype)
    values = img.to(_float_of(img))
    lowest, highest = values.amin((-2, -1), keepdim=True), values.amax((-2, -1), keepdim=True)
    scale = white / (highest - lowest)
    is_flat = ~scale.isfinite()
    lowest = ops.where(is_flat, ops.zeros_like(lowest), lowest)
    scale = ops.where(is_flat, ops.ones_like(scale), scale)
    return ((values - lowest) * scale).clamp(0, white).to(img.dtype)


def equalize(img: Image) -> Image:
    """Change the values of each channel so that all levels are about equally frequent.

    Raises: DTypeError: a tensor is not of uint8.

    >>> equalize(arange(100, 164).view(1, 8, 8).repeat(1, 8, 1).to(uint8)).unique()[-2:]
    tensor([248, 255], dtype=torch.uint8)
    """
    if check_image("equalize", img):
        from PIL import ImageOps

        return ImageOps.equalize(img)
    require_uint8("equalize", img)
    planes = img.reshape(-1, *img.shape[-2:])
    return ops.stack([_equalize_plane(plane) for plane in planes]).reshape(img.shape)


def _equalize_plane(plane: Tensor) -> Tensor:
    histogram = ops.bincount(plane.flatten().to(int64), minlength=256)
    used = histogram[histogram != 0]
    step = int(used[:-1].sum()) // 255
    if step == 0:
        return plane
    # A level becomes the share of the pixels below it.
    below = (histogram.cumsum(0) + step // 2) // step
    levels = ops.cat([ops.zeros_like(below[:1]), below[:-1]]).clamp(0, 255)
    return levels[plane.to(levels.dtype)].to(uint8)


def require_uint8(op: str, img: Tensor) -> None:
    """Raise DTypeError for a tensor of another dtype."""
    if img.dtype is not uint8:
        raise DTypeError(
            op, "expected uint8", {"img": describe(img)}, "convert_image_dtype(image, torch.uint8)"
        )


def check_factor(op: str, **factor: float) -> None:
    """Raise InvalidValueError for a negative factor."""
    for name, value in factor.items():
        if value < 0:
            raise InvalidValueError(op, f"{name} is not negative", {name: value})


def blend(img: Tensor, other: Any, ratio: float) -> Tensor:
    """Return ratio · img + (1 - ratio) · other, kept between black and white.

    >>> blend(tensor([200], dtype=uint8), 0, 0.5)
    tensor([100], dtype=torch.uint8)
    """
    ratio = float(ratio)
    mixed = ratio * img + (1.0 - ratio) * other
    return mixed.clamp(0, max_value(img.dtype)).to(img.dtype)


def _enhance(aspect: str, img: Image, factor: float) -> Image:
    from PIL import ImageEnhance

    return getattr(ImageEnhance, aspect)(img).enhance(factor)


__all__ = [
    "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_saturation",
    "autocontrast", "equalize", "invert", "normalize", "posterize", "rgb_to_grayscale", "solarize",
    "to_grayscale", "to_pil_image",
]  # fmt: skip
