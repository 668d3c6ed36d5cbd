"""Image files as tensors of uint8, channels × height × width, and back; by Pillow.

image = read_image("cat.jpg", ImageReadMode.RGB)
"""

from __future__ import annotations

import io
import os
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..dtypes import uint8
from ..errors import ArgumentError, InvalidValueError, ShapeValueError
from ..ops.from_data import from_numpy
from ..utils.atomic_files import write_atomically
from .image_files import DamagedFileError, MissingFileError, near_hint, open_image, read_frames
from .transforms.functional.conversion import require_pil

__all__ = [
    "ImageReadMode", "decode_gif", "decode_image", "decode_jpeg", "decode_png", "decode_webp",
    "encode_jpeg", "encode_png", "read_file", "read_image", "write_file", "write_jpeg", "write_png",
]  # fmt: skip


class ImageReadMode(Enum):
    """Which channels an image is converted to when it is read.

    >>> ImageReadMode["RGB"]
    <ImageReadMode.RGB: 3>
    """

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4


PIL_MODES = {
    ImageReadMode.GRAY: "L", ImageReadMode.GRAY_ALPHA: "LA", ImageReadMode.RGB: "RGB",
    ImageReadMode.RGB_ALPHA: "RGBA",
}  # fmt: skip


def read_file(path: Any) -> Tensor:
    """Return the bytes of a file as a tensor of uint8.

    Raises: MissingFileError: there is no such file.
    """
    file = Path(path)
    if not file.is_file():
        arguments = {"path": path}
        raise MissingFileError("read_file", "there is no such file", arguments, near_hint(file))
    return from_numpy(np.fromfile(file, np.uint8))


def write_file(filename: Any, data: Tensor) -> None:
    """Write a tensor of uint8 with one axis as the bytes of a file: all of it, or nothing.

    Raises: ArgumentError: it is another tensor.
    """
    write_atomically(filename, contents_of(data, "write_file"))


def contents_of(data: Any, op: str) -> bytes:
    """Return the bytes in a tensor.

    Raises: ArgumentError: it is not a tensor of uint8 with one axis.
    """
    if not isinstance(data, Tensor) or data.dtype is not uint8 or data.ndim != 1:
        text = f"{tuple(data.shape)} {data.dtype}" if isinstance(data, Tensor) else type(data)
        raise ArgumentError(
            op, "expected the bytes of a file: uint8, one axis", {"input": text},
            "read_file(path) returns one",
        )  # fmt: skip
    return data.numpy().tobytes()


def read_image(
    path: Any, mode: ImageReadMode = ImageReadMode.UNCHANGED, apply_exif_orientation: bool = False
) -> Tensor:
    """Return the image in a file: channels × height × width, uint8 (int32 for 16 bits).

    Args:
        mode: which channels, or as they are in the file.
        apply_exif_orientation: whether the image is turned as the camera noted.

    Raises:
        MissingFileError: there is no such file.
        DamagedFileError: it is no image, cut short, or larger than `PIL.Image.MAX_IMAGE_PIXELS`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_png(zeros(3, 2, 4, dtype=uint8), f"{folder}/a.png")
    ...     read_image(f"{folder}/a.png").shape
    torch.Size([3, 2, 4])
    """
    return to_channels(open_image(path, "read_image"), mode, apply_exif_orientation, "read_image")


def decode_image(
    input: Any, mode: ImageReadMode = ImageReadMode.UNCHANGED, apply_exif_orientation: bool = False
) -> Tensor:
    """Return the image in the bytes of a file, or in a file: see `read_image`.

    >>> data = encode_png(full((1, 1, 2), 7, dtype=uint8))
    >>> decode_image(data)
    tensor([[[7, 7]]], dtype=torch.uint8)
    """
    source = input if isinstance(input, str | os.PathLike) else contents_of(input, "decode_image")
    image = open_image(source, "decode_image")
    return to_channels(image, mode, apply_exif_orientation, "decode_image")


def decode_format(
    input: Any, form: str, mode: ImageReadMode, apply_exif_orientation: bool = False
) -> Tensor:
    """Return the image in the bytes of a file of one format.

    Raises: DamagedFileError: it is of another format, or damaged.
    """
    op = f"decode_{form.lower()}"
    image = open_image(contents_of(input, op), op)
    check_format(image, form, op)
    return to_channels(image, mode, apply_exif_orientation, op)


def check_format(image: Any, form: str, op: str) -> None:
    if image.format != form:
        raise DamagedFileError(
            op, f"this is not a {form} image", {"input": f"a {image.format} image"},
            "decode_image takes all formats",
        )  # fmt: skip


def decode_png(
    input: Tensor, mode: ImageReadMode = ImageReadMode.UNCHANGED,
    apply_exif_orientation: bool = False,
) -> Tensor:  # fmt: skip
    """Return the image in the bytes of a PNG file: see `read_image`.

    >>> decode_png(encode_png(zeros(1, 2, 2, dtype=uint8)), ImageReadMode.RGB).shape
    torch.Size([3, 2, 2])
    """
    return decode_format(input, "PNG", mode, apply_exif_orientation)


def decode_jpeg(
    input: Any, mode: ImageReadMode = ImageReadMode.UNCHANGED, device: Any = "cpu",
    apply_exif_orientation: bool = False,
) -> Any:  # fmt: skip
    """Return the image in the bytes of a JPEG file, or the images of a list: see `read_image`.

    >>> decode_jpeg(encode_jpeg(zeros(3, 2, 2, dtype=uint8))).shape
    torch.Size([3, 2, 2])
    """
    if isinstance(input, list):
        return [decode_jpeg(data, mode, device, apply_exif_orientation) for data in input]
    return decode_format(input, "JPEG", mode, apply_exif_orientation).to(device)


def decode_webp(input: Tensor, mode: ImageReadMode = ImageReadMode.UNCHANGED) -> Tensor:
    """Return the image in the bytes of a WebP file: see `read_image`."""
    return decode_format(input, "WEBP", mode)


def decode_gif(input: Tensor) -> Tensor:
    """Return the image in the bytes of a GIF file, in colour; of several, n × 3 × height × width.

    Raises: DamagedFileError: it is of another format, damaged, or all its images are too large.
    """
    op = "decode_gif"
    image = open_image(contents_of(input, op), op)
    check_format(image, "GIF", op)
    frames = [np.array(frame.convert("RGB")) for frame in read_frames(image, op)]
    planes = np.stack(frames).transpose(0, 3, 1, 2)
    return from_numpy(np.ascontiguousarray(planes[0] if len(frames) == 1 else planes))


def to_channels(image: Any, mode: Any, apply_exif_orientation: bool, op: str) -> Tensor:
    """Return a PIL image as a tensor with the channels of a mode."""
    if isinstance(mode, str):
        mode = ImageReadMode.__members__.get(mode.upper(), mode)
    if not isinstance(mode, ImageReadMode):
        names = ", ".join(ImageReadMode.__members__)
        raise InvalidValueError(op, "there is no such mode", {"mode": repr(mode)}, f"use {names}")
    if apply_exif_orientation:
        from PIL import ImageOps

        image = ImageOps.exif_transpose(image)
    wanted = PIL_MODES.get(mode)
    if wanted is None and image.mode in ("P", "1"):
        has_alpha = image.mode == "P" and "transparency" in image.info
        wanted = "L" if image.mode == "1" else "RGBA" if has_alpha else "RGB"
    if wanted is not None:
        image = image.convert(wanted)
    pixels = np.array(image)
    if wanted is None and image.mode == "CMYK" and "adobe" in image.info:
        pixels = 255 - pixels  # Pillow inverts what is inverted in the file; libjpeg does not
    if pixels.dtype == np.uint16:
        pixels = pixels.astype(np.int32)
    planes = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return from_numpy(np.ascontiguousarray(planes))


# Writing ----------------------------------------------------------------------------------------


def encode_png(input: Tensor, compression_level: int = 6) -> Tensor:
    """Return the bytes of a PNG file.

    Args:
        input: channels × height × width, uint8, with 1 or 3 channels.
        compression_level: from 0 (fast) to 9 (small).

    Raises:
        ArgumentError, ShapeValueError: it is not such an image.
        InvalidValueError: there is no such level.

    >>> encode_png(zeros(1, 2, 2, dtype=uint8))[1:4]
    tensor([80, 78, 71], dtype=torch.uint8)
    """
    if not 0 <= compression_level <= 9:
        level = {"compression_level": compression_level}
        raise InvalidValueError("encode_png", "compression_level lies between 0 and 9", level)
    return encode(input, "encode_png", format="PNG", compress_level=compression_level)


def encode_jpeg(input: Any, quality: int = 75) -> Any:
    """Return the bytes of a JPEG file, or of one for each image of a list.

    Args:
        input: channels × height × width, uint8, with 1 or 3 channels.
        quality: from 1 (small) to 100.

    Raises:
        ArgumentError, ShapeValueError: it is not such an image.
        InvalidValueError: there is no such quality.

    >>> encode_jpeg(zeros(1, 2, 2, dtype=uint8))[:2]
    tensor([255, 216], dtype=torch.uint8)
    """
    if not 1 <= quality <= 100:
        arguments = {"quality": quality}
        raise InvalidValueError("encode_jpeg", "quality lies between 1 and 100", arguments)
    if isinstance(input, list):
        return [encode_jpeg(image, quality) for image in input]
    return encode(input, "encode_jpeg", format="JPEG", quality=quality)


def encode(input: Any, op: str, **settings: Any) -> Tensor:
    """Return the bytes of a file, as Pillow writes it with these settings."""
    if not isinstance(input, Tensor) or input.dtype is not uint8:
        text = input.dtype if isinstance(input, Tensor) else type(input).__name__
        raise ArgumentError(
            op, "expected a tensor of uint8", {"input": text},
            "convert_image_dtype(image, torch.uint8) makes one of floats",
        )  # fmt: skip
    if input.ndim != 3 or input.shape[0] not in (1, 3) or 0 in input.shape:
        raise ShapeValueError(
            op, "expected an image of 1 or 3 channels", {"input (c h w)": tuple(input.shape)},
            "a file holds one image: utils.make_grid(images) puts several side by side",
        )  # fmt: skip
    pixels = input.cpu().numpy()
    plane = pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0))
    file = io.BytesIO()
    require_pil(op).fromarray(plane).save(file, **settings)
    return from_numpy(np.frombuffer(file.getvalue(), np.uint8).copy())


def write_png(input: Tensor, filename: Any, compression_level: int = 6) -> None:
    """Write an image as a PNG file: see `encode_png`."""
    write_file(filename, encode_png(input, compression_level))


def write_jpeg(input: Tensor, filename: Any, quality: int = 75) -> None:
    """Write an image as a JPEG file: see `encode_jpeg`."""
    write_file(filename, encode_jpeg(input, quality))
