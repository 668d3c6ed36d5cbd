"""`torch.ops.image`: the codecs that the real torchvision has in C++, by `edutorch.vision.io`.

Pillow reads and writes the files. It reads a PNG of 16 bits a channel in colour as 8 bits.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

from edutorch.core.tensor import Tensor
from edutorch.dtypes import int32, uint8, uint16
from edutorch.errors import InvalidValueError, NotHereError

from .operators import OpNamespace

DECODED = "Tensor data, int mode, bool apply_exif_orientation=False"
SCHEMAS = (
    "read_file(str filename) -> Tensor",
    "write_file(str filename, Tensor data) -> ()",
    f"decode_image({DECODED}) -> Tensor",
    f"decode_png({DECODED}) -> Tensor",
    f"decode_jpeg({DECODED}) -> Tensor",
    "decode_webp(Tensor data, int mode) -> Tensor",
    "decode_gif(Tensor data) -> Tensor",
    "encode_png(Tensor data, int compression_level) -> Tensor",
    "encode_jpeg(Tensor data, int quality) -> Tensor",
)

ABSENT = (
    "decode_jpegs_cuda(Tensor[] data, int mode, Device device) -> Tensor[]",
    "encode_jpegs_cuda(Tensor[] data, int quality) -> Tensor[]",
)
"""Codecs that run on a GPU."""


def codecs() -> Any:
    """Return the module that reads and writes images."""
    return import_module("edutorch.vision.io")


def check_file(data: Tensor) -> Tensor:
    """Return the bytes of a file. Raises: RuntimeError: the tensor has another dtype or shape."""
    if data.dtype is not uint8:
        text = f"Input tensor must have uint8 data type, got {data.dtype}"
        raise InvalidValueError("torch.ops.image", text)
    if data.ndim != 1 or not data.numel():
        text = "Input tensor must be 1-dimensional and non-empty"
        raise InvalidValueError("torch.ops.image", text, {"input": tuple(data.shape)})
    return data


def check_image(data: Tensor) -> Tensor:
    """Return an image to be written. Raises: RuntimeError: it has another dtype or shape."""
    if data.dtype is not uint8:
        text = f"Input tensor dtype should be uint8, got {data.dtype}"
    elif data.ndim != 3:
        text = f"Input data should be a 3-dimensional tensor, got {data.ndim} axes"
    elif data.shape[0] not in (1, 3):
        text = f"The number of channels should be 1 or 3, got: {data.shape[0]}"
    else:
        return data
    raise InvalidValueError("torch.ops.image", text, {"input (c h w)": tuple(data.shape)})


def read_file(filename: str) -> Tensor:
    """Return the bytes of a file."""
    return codecs().read_file(filename)


def write_file(filename: str, data: Tensor) -> None:
    """Write the bytes of a file."""
    codecs().write_file(filename, check_file(data))


def decode_image(data: Tensor, mode: int, apply_exif_orientation: bool = False) -> Tensor:
    """Return the image in the bytes of a file; of a GIF, all of them."""
    check_file(data)
    start = bytes(data[:4].tolist())
    if start == b"GIF8":
        return decode_gif(data)
    return decode_webp(data, mode) if start == b"RIFF" else decode(
        "decode_image", data, mode, apply_exif_orientation
    )  # fmt: skip


def decode_png(data: Tensor, mode: int, apply_exif_orientation: bool = False) -> Tensor:
    """Return the image in the bytes of a PNG file."""
    return decode("decode_png", data, mode, apply_exif_orientation)


def decode_jpeg(data: Tensor, mode: int, apply_exif_orientation: bool = False) -> Tensor:
    """Return the image in the bytes of a JPEG file."""
    return decode("decode_jpeg", data, mode, apply_exif_orientation=apply_exif_orientation)


def decode(name: str, data: Tensor, mode: int, apply_exif_orientation: bool) -> Tensor:
    """Return an image, as a function of `edutorch.vision.io` decodes it; uint16 for 16 bits."""
    module = codecs()
    image = getattr(module, name)(
        check_file(data), module.ImageReadMode(mode), apply_exif_orientation=apply_exif_orientation
    )
    return image.to(uint16) if image.dtype is int32 else image


def decode_webp(data: Tensor, mode: int) -> Tensor:
    """Return the image in the bytes of a WebP file, in colour."""
    modes = codecs().ImageReadMode
    if modes(mode) in (modes.GRAY, modes.GRAY_ALPHA):
        text = "Webp does not support grayscale conversions. The returned tensor will be in RGB"
        warnings.warn(text, stacklevel=2)
        mode = modes.RGB.value
    return codecs().decode_webp(check_file(data), modes(mode))


def decode_gif(data: Tensor) -> Tensor:
    """Return the image in the bytes of a GIF file, or all of them: n × 3 × height × width."""
    return codecs().decode_gif(check_file(data))


def encode_png(data: Tensor, compression_level: int) -> Tensor:
    """Return the bytes of a PNG file."""
    if not 0 <= compression_level <= 9:
        text = "Compression level should be between 0 and 9"
        raise InvalidValueError("torch.ops.image", text, {"compression_level": compression_level})
    return codecs().encode_png(check_image(data), compression_level)


def encode_jpeg(data: Tensor, quality: int) -> Tensor:
    """Return the bytes of a JPEG file."""
    return codecs().encode_jpeg(check_image(data), quality)


def fill(namespace: OpNamespace) -> None:
    """Define the operators."""
    for schema in SCHEMAS:
        namespace.define_composite(schema, globals()[schema.partition("(")[0]])
    for schema in ABSENT:
        namespace.define_composite(schema, not_here)


def not_here(*args: Any) -> None:
    """Say that there is no such op.

    Raises: NotHereError: always.
    """
    raise NotHereError(
        "torch.ops.image", "images are not decoded on a GPU here", hint="device='cpu', then .to()"
    )
