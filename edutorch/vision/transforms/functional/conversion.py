"""Between PIL images, arrays and tensors, and between dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import dtypes
from ....core.tensor import Tensor
from ....errors import ArgumentError, DTypeError, InvalidValueError, ShapeValueError, missing_extra
from ....ops.from_data import from_numpy
from .image import Image, describe, is_pil_image, max_value

ARRAY_DTYPES = {"I": np.int32, "I;16": np.int16, "F": np.float32}
"""The dtype of a PIL image's pixels, where it is not uint8."""


def require_pil(purpose: str) -> Any:
    """Return the module `PIL.Image`.

    Raises: MissingExtraError: Pillow is not installed.
    """
    try:
        from PIL import Image as pil
    except ImportError as error:
        raise missing_extra("vision", purpose, "Pillow is not installed") from error
    return pil


def pixels_of(pic: Image) -> np.ndarray[Any, Any]:
    """Return the pixels of a PIL image: height × width × channels."""
    pixels = np.asarray(pic, ARRAY_DTYPES.get(pic.mode, np.uint8))
    if pic.mode == "1":
        pixels = pixels * np.uint8(255)
    return pixels[..., None] if pixels.ndim == 2 else pixels


def to_tensor(pic: Any) -> Tensor:
    """Convert a PIL image or an array to a float tensor: channels × height × width, from 0 to 1.

    Args:
        pic: a PIL image, or an array height × width (× channels). Only uint8 is divided by 255.

    Raises:
        ArgumentError: it is neither.
        ShapeValueError: the array has not two or three axes.

    >>> import numpy
    >>> to_tensor(numpy.full((1, 2, 1), 255, "uint8"))
    tensor([[[1., 1.]]])
    """
    if is_pil_image(pic):
        pixels = pixels_of(pic)
    elif isinstance(pic, np.ndarray):
        if pic.ndim not in (2, 3):
            raise ShapeValueError(
                "to_tensor", f"expected 2 or 3 axes, found {pic.ndim}", {"pic": pic.shape},
                "an array is one image: height × width × channels",
            )  # fmt: skip
        pixels = pic[..., None] if pic.ndim == 2 else pic
    else:
        raise ArgumentError(
            "to_tensor", "expected a PIL image or an array", {"pic": type(pic).__name__},
            "tensors are converted by convert_image_dtype",
        )  # fmt: skip
    if pixels.dtype != np.uint8:
        return from_numpy(pixels.transpose(2, 0, 1).copy())
    levels = pixels.astype(dtypes.get_default_dtype().numpy)
    levels /= levels.dtype.type(255)
    return from_numpy(np.ascontiguousarray(levels.transpose(2, 0, 1)))


def pil_to_tensor(pic: Image) -> Tensor:
    """Convert a PIL image to a tensor of its own dtype: channels × height × width.

    Raises: ArgumentError: it is not a PIL image.

    >>> from PIL import Image
    >>> pil_to_tensor(Image.new("L", (2, 1), 200))
    tensor([[[200, 200]]], dtype=torch.uint8)
    """
    if not is_pil_image(pic):
        raise ArgumentError(
            "pil_to_tensor", "expected a PIL image", {"pic": type(pic).__name__},
            "to_tensor takes arrays, too",
        )  # fmt: skip
    return from_numpy(pixels_of(pic).transpose(2, 0, 1).copy())


def convert_image_dtype(image: Tensor, dtype: dtypes.dtype = dtypes.float32) -> Tensor:
    """Convert an image to a dtype, and its values to that dtype's range from black to white.

    White is 1 for floats and the largest value for integers.

    Raises: DTypeError: the floats have too few digits for the integers.

    >>> convert_image_dtype(tensor([0, 255], dtype=uint8))
    tensor([0., 1.])
    """
    if not isinstance(image, Tensor):
        hint = "ToTensor() or PILToTensor() make one of a PIL image"
        arguments = {"image": type(image).__name__}
        raise ArgumentError("convert_image_dtype", "expected a tensor", arguments, hint)
    if image.dtype == dtype:
        return image
    black_to_white = max_value(image.dtype), max_value(dtype)
    if image.is_floating_point():
        return image.to(dtype) if dtype.is_floating_point else _to_integers(image, dtype)
    if dtype.is_floating_point:
        return image.to(dtype) / black_to_white[0]
    before, after = (int(value) for value in black_to_white)
    if before > after:
        return image.div((before + 1) // (after + 1), rounding_mode="floor").to(dtype)
    return image.to(dtype) * ((after + 1) // (before + 1))


def _to_integers(image: Tensor, dtype: dtypes.dtype) -> Tensor:
    if (image.dtype is dtypes.float32 and dtype in (dtypes.int32, dtypes.int64)) or (
        image.dtype is dtypes.float64 and dtype is dtypes.int64
    ):
        raise DTypeError(
            "convert_image_dtype", "the floats have fewer digits than the integers",
            {"image": describe(image), "dtype": dtype}, "convert to a smaller integer dtype",
        )  # fmt: skip
    # Almost 1 is added, so that all values have an equal share of the range.
    return image.mul(max_value(dtype) + 1.0 - 1e-3).to(dtype)


MODES = {1: ("L",), 2: ("LA",), 3: ("RGB", "YCbCr", "HSV"), 4: ("RGBA", "CMYK", "RGBX")}
"""PIL's modes of images with so many channels of 8 bits; the first is the usual one."""

ONE_CHANNEL = {"uint8": "L", "int16": "I;16", "int32": "I", "float32": "F"}
"""PIL's mode of images with one channel, by dtype."""


def to_pil_image(pic: Any, mode: str | None = None) -> Image:
    """Convert a tensor (channels × height × width) or an array to a PIL image.

    Args:
        pic: floats are taken to lie between 0 and 1. An array is height × width × channels.
        mode: PIL's mode, "RGB"; by default the usual one for the channels and the dtype.

    Raises:
        ArgumentError: it is neither, or PIL has no mode for its dtype.
        ShapeValueError: it has not two or three axes, or more than four channels.
        InvalidValueError: the mode does not fit.

    >>> to_pil_image(ones(3, 2, 4)).size
    (4, 2)
    """
    pil = require_pil("to_pil_image")
    if not isinstance(pic, Tensor | np.ndarray):
        arguments = {"pic": type(pic).__name__}
        raise ArgumentError("to_pil_image", "expected a tensor or an array", arguments)
    if pic.ndim not in (2, 3):
        raise ShapeValueError(
            "to_pil_image", f"expected 2 or 3 axes, found {pic.ndim}", {"pic": tuple(pic.shape)},
            "take one image of the batch: images[0]",
        )  # fmt: skip
    pixels = _planes(pic, mode) if isinstance(pic, Tensor) else pic
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    channels = pixels.shape[2]
    if channels not in MODES:
        raise ShapeValueError(
            "to_pil_image", f"expected 1 to 4 channels, found {channels}",
            {"pic": tuple(pic.shape)}, "a tensor is channels × height × width, an array h × w × c",
        )  # fmt: skip
    wanted = _pil_mode(pixels, channels, mode)
    if channels == 1:
        pixels = pixels[:, :, 0]
        if wanted == "I;16":
            pixels = pixels.astype(np.uint16)  # what PIL calls it
        return pil.fromarray(pixels)
    image = pil.fromarray(pixels)
    if wanted != image.mode:  # the channels mean something else: YCbCr for RGB
        image = pil.frombytes(wanted, image.size, image.tobytes())
    return image


def _planes(pic: Tensor, mode: str | None) -> np.ndarray[Any, Any]:
    """Return the pixels of a tensor with the channels last, floats as uint8."""
    if pic.is_floating_point() and mode != "F":
        pic = pic.mul(255).to(dtypes.uint8)
    pixels = pic.detach().cpu().numpy()
    return np.ascontiguousarray(pixels.transpose(1, 2, 0)) if pixels.ndim == 3 else pixels


def _pil_mode(pixels: np.ndarray[Any, Any], channels: int, mode: str | None) -> str:
    """Return the mode of an image to be made.

    Raises:
        ArgumentError: PIL has none for the dtype.
        InvalidValueError: `mode` is another one.
    """
    name = pixels.dtype.name
    modes = (ONE_CHANNEL[name],) if channels == 1 and name in ONE_CHANNEL else MODES[channels]
    if name not in ONE_CHANNEL or (channels > 1 and name != "uint8"):
        raise ArgumentError(
            "to_pil_image", f"PIL has no images of {channels} channels of {name}",
            {"pic": (*pixels.shape, name)}, "convert_image_dtype(image, torch.uint8)",
        )  # fmt: skip
    if mode is not None and mode not in modes:
        raise InvalidValueError(
            "to_pil_image", f"the mode does not fit {channels} channels of {name}",
            {"mode": repr(mode)}, f"use {', '.join(modes)}",
        )  # fmt: skip
    return mode or modes[0]
