"""What the functions know of an image: PIL's or a tensor `... × channels × height × width`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....backends.numpy import as_plain_array
from ....core.tensor import Tensor
from ....errors import ArgumentError, InvalidValueError, ShapeValueError

if TYPE_CHECKING:
    from PIL import Image as PILImages

    Image = Tensor | PILImages.Image
else:
    Image = Any


def is_pil_image(image: object) -> bool:
    """Return True for an image of PIL, which need not be imported for that."""
    pil = sys.modules.get("PIL.Image")
    return pil is not None and isinstance(image, pil.Image)


def check_image(op: str, img: object) -> bool:
    """Return True for a PIL image and False for a tensor with at least two axes.

    Raises:
        ArgumentError: it is neither.
        ShapeValueError: the tensor has fewer axes.
    """
    if isinstance(img, Tensor):
        if img.ndim < 2:
            raise ShapeValueError(
                op, "a tensor image has at least two axes", {"img": tuple(img.shape)},
                "its last axes are channels × height × width",
            )  # fmt: skip
        return False
    if is_pil_image(img):
        return True
    hint = "ToTensor() or PILToTensor() make tensors of arrays and PIL images"
    raise ArgumentError(
        op, "an image is a PIL image or a tensor", {"img": type(img).__name__}, hint
    )


def get_dimensions(img: Image) -> list[int]:
    """Return the channels, the height and the width of an image.

    >>> get_dimensions(zeros(3, 4, 5))
    [3, 4, 5]
    """
    if check_image("get_dimensions", img):
        return [len(img.getbands()), img.height, img.width]
    channels = 1 if img.ndim == 2 else img.shape[-3]
    return [channels, *img.shape[-2:]]


def get_image_size(img: Image) -> list[int]:
    """Return the width and the height of an image, in this order.

    >>> get_image_size(zeros(3, 4, 5))
    [5, 4]
    """
    _, height, width = get_dimensions(img)
    return [width, height]


def get_image_num_channels(img: Image) -> int:
    """Return the number of channels of an image.

    >>> get_image_num_channels(zeros(3, 4, 5))
    3
    """
    return get_dimensions(img)[0]


def plain_array(img: Tensor) -> np.ndarray[Any, Any] | None:
    """Return the array of an ordinary tensor on the CPU that needs no gradient, or else None.

    What is done to it is quicker than ops, and is not recorded.
    """
    array = as_plain_array(img._array)
    return array if type(array) is np.ndarray and not img.requires_grad else None


def check_channels(op: str, img: Image, allowed: Sequence[int]) -> int:
    """Return the number of channels.

    Raises: ArgumentError: the function is not defined for so many.
    """
    channels = get_dimensions(img)[0]
    if channels not in allowed:
        expected = " or ".join(map(str, allowed))
        raise ArgumentError(
            op, f"expected {expected} channels, found {channels}",
            {"img": describe(img)}, "the channels stand before height and width: permute(2, 0, 1)?",
        )  # fmt: skip
    return channels


def describe(img: Image) -> str:
    """Return the shape of a tensor, the mode and size of a PIL image.

    >>> describe(zeros(3, 4, 5))
    '(3, 4, 5) float32'
    """
    if isinstance(img, Tensor):
        return f"{tuple(img.shape)} {str(img.dtype).removeprefix('torch.')}"
    return f"{img.mode} {img.width} x {img.height}"


def to_pair(op: str, name: str, value: Any) -> tuple[int, int]:
    """Return (height, width) of a size: an integer, one or two of them in a sequence.

    Raises:
        ArgumentError: it is something else.
        InvalidValueError: there are more than two, or one is negative.

    >>> to_pair("center_crop", "size", 3)
    (3, 3)
    """
    sizes = [value] if isinstance(value, int) else value
    if not isinstance(sizes, list | tuple) or not all(isinstance(size, int) for size in sizes):
        hint = "an integer for a square, or (height, width)"
        raise ArgumentError(op, f"`{name}` is not a size", {name: repr(value)}, hint)
    if len(sizes) not in (1, 2) or min(sizes) < 0:
        raise InvalidValueError(
            op, f"`{name}` is not a size", {name: repr(value)},
            "an integer for a square, or (height, width); none of them negative",
        )  # fmt: skip
    return sizes[0], sizes[-1]


def max_value(dtype: Any) -> float:
    """Return the value of white: 1 for floats, the largest value for integers.

    >>> max_value(uint8), max_value(float32)
    (255, 1)
    """
    from ....dtypes import iinfo

    if dtype.is_floating_point:
        return 1
    return 1 if dtype.itemsize == 1 and "bool" in str(dtype) else iinfo(dtype).max
