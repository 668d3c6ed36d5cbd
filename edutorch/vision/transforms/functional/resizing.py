"""Images of another size."""

from __future__ import annotations

from typing import Any

from ....core.tensor import Tensor
from ....errors import InvalidValueError
from ....nn.functional import interpolate
from ..interpolation import PIL_FILTERS, InterpolationMode, to_mode
from .image import Image, check_image, get_dimensions, to_pair
from .rounding import as_float_batch, from_float_batch

TENSOR_MODES = ("nearest", "nearest-exact", "bilinear", "bicubic")


def resize(
    img: Image, size: int | list[int] | None,
    interpolation: InterpolationMode = InterpolationMode.BILINEAR,
    max_size: int | None = None, antialias: bool | None = True,
) -> Image:  # fmt: skip
    """Resize an image.

    Args:
        size: (height, width); or an integer for the shorter side, while the ratio is kept.
        max_size: the longer side has at most so many pixels, if `size` is an integer (or None).
        antialias: whether a smaller image takes averages; ignored for PIL images, where it does.

    Raises:
        ArgumentError: it is not a size.
        InvalidValueError: a size is not positive, or the mode is for PIL images only.

    >>> resize(ones(3, 10, 20), 5).shape
    torch.Size([3, 5, 10])
    """
    mode = to_mode("resize", interpolation)
    is_pil = check_image("resize", img)
    _, rows, columns = get_dimensions(img)
    height, width = output_size(rows, columns, size, max_size)
    if is_pil:
        return (
            img
            if (height, width) == (rows, columns)
            else img.resize((width, height), PIL_FILTERS[mode])
        )
    if mode.value not in TENSOR_MODES:
        raise InvalidValueError(
            "resize", f"{mode.value} is for PIL images only", {"img": tuple(img.shape)},
            f"tensors have {', '.join(TENSOR_MODES)}",
        )  # fmt: skip
    return (
        img
        if (height, width) == (rows, columns)
        else _resize_tensor(img, (height, width), mode.value, bool(antialias))
    )


def _resize_tensor(img: Tensor, size: tuple[int, int], mode: str, antialias: bool) -> Tensor:
    if mode.startswith("nearest"):
        batch = img if img.ndim == 4 else img.reshape(-1, *img.shape[-2:])[None]
        resized = interpolate(batch, size, mode=mode)
        return resized.reshape(*img.shape[:-2], *size)
    batch = as_float_batch(img)
    resized = interpolate(batch, size, mode=mode, align_corners=False, antialias=antialias)
    if mode == "bicubic" and not img.is_floating_point():
        resized = resized.clamp(0, 255)  # the cubics overshoot
    return from_float_batch(resized, img)


def output_size(rows: int, columns: int, size: Any, max_size: int | None = None) -> tuple[int, int]:
    """Return (height, width) of a resized image.

    >>> output_size(10, 20, 5, max_size=8)
    (4, 8)
    """
    if size is None or isinstance(size, int) or len(size) == 1:
        return _size_of_shorter_side(rows, columns, size, max_size)
    height, width = to_pair("resize", "size", size)
    if max_size is not None:
        raise InvalidValueError(
            "resize", "max_size goes with one size only", {"size": size, "max_size": max_size},
            "give the shorter side: size=256, max_size=512",
        )  # fmt: skip
    _check_positive(height, width, size)
    return height, width


def _size_of_shorter_side(
    rows: int, columns: int, size: Any, max_size: int | None
) -> tuple[int, int]:
    short, long = sorted((rows, columns))
    if size is None:
        if max_size is None:
            raise InvalidValueError("resize", "neither size nor max_size says how large", {})
        new_short, new_long = int(max_size * short / long), max_size
    else:
        new_short, _ = to_pair("resize", "size", size)
        new_long = int(new_short * long / short)
        if max_size is not None and max_size <= new_short:
            raise InvalidValueError(
                "resize", "max_size is for the longer side: it is larger than size",
                {"size": new_short, "max_size": max_size},
            )  # fmt: skip
        if max_size is not None and new_long > max_size:
            new_short, new_long = int(max_size * new_short / new_long), max_size
    _check_positive(new_short, new_long, size)
    return (new_long, new_short) if columns <= rows else (new_short, new_long)


def _check_positive(height: int, width: int, size: Any) -> None:
    if height < 1 or width < 1:
        hint = "an image has at least one pixel"
        raise InvalidValueError("resize", "a size is not positive", {"size": size}, hint)
