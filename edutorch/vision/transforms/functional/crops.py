"""Parts of images, borders around them, mirror images."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import ops
from ....core.tensor import Tensor
from ....dtypes import get_default_dtype
from ....errors import ArgumentError, InvalidValueError
from ....nn.functional import pad as pad_tensor
from .image import Image, check_image, get_dimensions, to_pair
from .resizing import InterpolationMode, resize

PADDING_MODES = {"constant": "constant", "edge": "edge", "reflect": "reflect",
                 "symmetric": "symmetric"}  # fmt: skip


def crop(img: Image, top: int, left: int, height: int, width: int) -> Image:
    """Cut a rectangle out of an image; what lies outside of the image is 0.

    >>> crop(arange(6).view(1, 2, 3), 0, 1, 2, 2)
    tensor([[[1, 2],
             [4, 5]]])
    """
    if check_image("crop", img):
        return img.crop((left, top, left + width, top + height))
    rows, columns = img.shape[-2:]
    bottom, right = top + height, left + width
    inside = img[..., max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
    if top >= 0 and left >= 0 and bottom <= rows and right <= columns:
        return inside
    before_y, before_x = max(min(bottom, 0) - top, 0), max(min(right, 0) - left, 0)
    after_y, after_x = max(bottom - max(rows, top), 0), max(right - max(columns, left), 0)
    return pad_tensor(inside, (before_x, after_x, before_y, after_y))


def center_crop(img: Image, output_size: int | list[int]) -> Image:
    """Cut the middle out of an image, after a border of zeros if the image is smaller.

    Args:
        output_size: (height, width), or an integer for a square.

    >>> center_crop(arange(9).view(1, 3, 3), 1)
    tensor([[[4]]])
    """
    height, width = to_pair("center_crop", "output_size", output_size)
    _, rows, columns = get_dimensions(img)
    if width > columns or height > rows:
        before = max(width - columns, 0) // 2, max(height - rows, 0) // 2
        after = (max(width - columns, 0) + 1) // 2, (max(height - rows, 0) + 1) // 2
        img = pad(img, [*before, *after], 0)
        _, rows, columns = get_dimensions(img)
    top, left = round((rows - height) / 2), round((columns - width) / 2)
    return crop(img, top, left, height, width)


def resized_crop(
    img: Image, top: int, left: int, height: int, width: int, size: list[int],
    interpolation: InterpolationMode = InterpolationMode.BILINEAR, antialias: bool | None = True,
) -> Image:  # fmt: skip
    """Cut a rectangle out of an image, and resize it.

    >>> resized_crop(ones(1, 8, 8), 0, 0, 4, 4, [2, 2]).shape
    torch.Size([1, 2, 2])
    """
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


def hflip(img: Image) -> Image:
    """Mirror an image: left becomes right.

    >>> hflip(tensor([[[1, 2]]]))
    tensor([[[2, 1]]])
    """
    return img.transpose(0) if check_image("hflip", img) else img.flip(-1)


def vflip(img: Image) -> Image:
    """Turn an image upside down.

    >>> vflip(tensor([[[1], [2]]])).flatten()
    tensor([2, 1])
    """
    return img.transpose(1) if check_image("vflip", img) else img.flip(-2)


def five_crop(img: Image, size: int | list[int]) -> tuple[Image, ...]:
    """Cut out the four corners and the middle: top left, top right, bottom left, bottom right.

    Raises: InvalidValueError: the image is smaller than `size`.

    >>> [corner.item() for corner in five_crop(arange(9).view(1, 3, 3), 1)]
    [0, 2, 6, 8, 4]
    """
    height, width = to_pair("five_crop", "size", size)
    _, rows, columns = get_dimensions(img)
    if width > columns or height > rows:
        raise InvalidValueError(
            "five_crop", "the crops are larger than the image",
            {"size (h w)": (height, width), "img (h w)": (rows, columns)}, "resize the image first",
        )  # fmt: skip
    corners = [(y, x) for y in (0, rows - height) for x in (0, columns - width)]
    parts = [crop(img, top, left, height, width) for top, left in corners]
    return (*parts, center_crop(img, [height, width]))


def ten_crop(img: Image, size: int | list[int], vertical_flip: bool = False) -> tuple[Image, ...]:
    """Cut out corners and middle as `five_crop`, then those of the mirror image.

    Args:
        vertical_flip: whether the image is turned upside down instead of mirrored.

    >>> len(ten_crop(ones(1, 4, 4), 2))
    10
    """
    flipped = vflip(img) if vertical_flip else hflip(img)
    return (*five_crop(img, size), *five_crop(flipped, size))


def erase(img: Image, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Image:
    """Overwrite the rectangle of `h` × `w` pixels whose upper left corner is (i, j).

    Args:
        v: its new values, which broadcast to channels × h × w.
        inplace: whether the tensor itself is changed.

    >>> erase(zeros(1, 2, 2), 0, 0, 1, 2, 5.0)
    tensor([[[5., 5.],
             [0., 0.]]])
    """
    if check_image("erase", img):
        raise ArgumentError("erase", "expected a tensor", {"img": "a PIL image"}, "use ToTensor()")
    img = img if inplace else img.clone()
    img[..., i : i + h, j : j + w] = v
    return img


def pad(
    img: Image, padding: int | list[int], fill: Any = 0, padding_mode: str = "constant"
) -> Image:
    """Put a border around an image.

    Args:
        padding: pixels on all sides; or [left and right, top and bottom];
            or [left, top, right, bottom].
        fill: the value of the border, one for all channels or one for each.
        padding_mode: "constant", "edge" (repeats the last pixel), "reflect" (… 2 1 | 0 1 2) or
            "symmetric" (… 1 0 | 0 1 2).

    Raises:
        ArgumentError: `padding` is not made of integers.
        InvalidValueError: there are not 1, 2 or 4 of them, or there is no such mode.

    >>> pad(ones(1, 1, 1), 1, fill=3.0)
    tensor([[[3., 3., 3.],
             [3., 1., 3.],
             [3., 3., 3.]]])
    """
    left, top, right, bottom = to_border("pad", padding)
    if padding_mode not in PADDING_MODES:
        raise InvalidValueError(
            "pad", "there is no such padding_mode", {"padding_mode": repr(padding_mode)},
            f"use {', '.join(PADDING_MODES)}",
        )  # fmt: skip
    if check_image("pad", img):
        return _pad_pil(img, (left, top, right, bottom), fill, padding_mode)
    if padding_mode == "constant":
        if isinstance(fill, list | tuple) and len(fill) > 1:
            return _pad_channels(img, (left, right, top, bottom), fill)
        value = fill[0] if isinstance(fill, list | tuple) else fill
        return pad_tensor(img, (left, right, top, bottom), value=value or 0)
    if min(left, top, right, bottom) < 0:
        raise InvalidValueError(
            "pad", f"padding_mode={padding_mode!r} cannot remove pixels", {"padding": padding},
            "crop the image instead",
        )  # fmt: skip
    rows = border_index(img.shape[-2], top, bottom, padding_mode)
    columns = border_index(img.shape[-1], left, right, padding_mode)
    device = img.device
    return img.index_select(-2, ops.from_numpy(rows).to(device)).index_select(
        -1, ops.from_numpy(columns).to(device)
    )


def border_index(size: int, before: int, after: int, padding_mode: str) -> np.ndarray[Any, Any]:
    """Return which pixel of an axis each pixel of the wider axis repeats.

    >>> border_index(3, 2, 1, "reflect")
    array([2, 1, 0, 1, 2, 1])
    """
    if padding_mode == "reflect" and max(before, after) >= size:
        raise InvalidValueError(
            "pad", "a reflected border is smaller than the image",
            {"padding": (before, after), "pixels": size}, "use padding_mode='symmetric'",
        )  # fmt: skip
    return np.pad(np.arange(size), (before, after), mode=PADDING_MODES[padding_mode])  # type: ignore[call-overload]


def to_border(op: str, padding: Any) -> tuple[int, int, int, int]:
    """Return (left, top, right, bottom) of one, two or four integers.

    >>> to_border("pad", [1, 2])
    (1, 2, 1, 2)
    """
    sides = [padding] if isinstance(padding, int) else padding
    if not isinstance(sides, list | tuple) or not all(isinstance(side, int) for side in sides):
        hint = "an integer, or 1, 2 or 4 of them: left, top, right, bottom"
        raise ArgumentError(op, "`padding` is not a border", {"padding": repr(padding)}, hint)
    if len(sides) not in (1, 2, 4):
        raise InvalidValueError(
            op, f"`padding` has {len(sides)} values", {"padding": padding},
            "one for all sides; left and right, top and bottom; or left, top, right, bottom",
        )  # fmt: skip
    left, top, right, bottom = list(sides) * (4 // len(sides))
    return left, top, right, bottom


def _pad_channels(img: Tensor, border: tuple[int, ...], fill: Any) -> Tensor:
    """Pad each channel with a value of its own."""
    if len(fill) != img.shape[-3]:
        raise InvalidValueError(
            "pad", f"`fill` has {len(fill)} values for {img.shape[-3]} channels",
            {"fill": fill, "img": tuple(img.shape)},
        )  # fmt: skip
    planes = [
        pad_tensor(plane, border, value=value)
        for plane, value in zip(img.unbind(-3), fill, strict=True)
    ]
    return ops.stack(planes, dim=-3)


def _pad_pil(img: Image, border: tuple[int, ...], fill: Any, padding_mode: str) -> Image:
    from PIL import Image as pil
    from PIL import ImageOps

    left, top, right, bottom = border
    if padding_mode == "constant":
        if isinstance(fill, list | tuple):
            fill = tuple(int(value) for value in fill)
            fill = fill[0] if len(fill) == 1 else fill
        if isinstance(fill, int | float) and len(img.getbands()) > 1 and img.mode != "P":
            fill = (int(fill),) * len(img.getbands())
        framed = ImageOps.expand(img, border, fill)
        if img.mode == "P":
            framed.putpalette(img.getpalette())
        return framed
    if min(border) < 0:
        img = img.crop((-min(left, 0), -min(top, 0), img.width + min(right, 0),
                        img.height + min(bottom, 0)))  # fmt: skip
        left, top, right, bottom = (max(side, 0) for side in border)
    rows = border_index(img.height, top, bottom, padding_mode)
    columns = border_index(img.width, left, right, padding_mode)
    framed = pil.fromarray(np.asarray(img)[rows][:, columns])
    if img.mode == "P":
        framed = framed.convert("P") if framed.mode != "P" else framed
        framed.putpalette(img.getpalette())
    return framed


def default_fill(img: Tensor, fill: Any) -> list[float] | None:
    """Return one value for each channel.

    >>> default_fill(zeros(3, 2, 2), 1)
    [1.0, 1.0, 1.0]
    """
    channels = get_dimensions(img)[0]
    if fill is None:
        return None
    if isinstance(fill, int | float):
        return [float(fill)] * channels
    return [float(value) for value in fill]


def as_value(value: Any, img: Tensor) -> Tensor:
    """Return the value of an erased rectangle as a tensor channels × 1 × 1."""
    values = [value] if isinstance(value, int | float) else list(value)
    return ops.tensor(values, dtype=get_default_dtype())[:, None, None].to(img.device)
