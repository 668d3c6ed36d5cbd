"""Windows that slide over an image: sizes, padding, and the numbers under each tap.

A window of i × j taps stands at p × q places. Convolution and pooling share this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...backends.numpy import Array
from ...errors import ShapeError
from .layer import SettingError

Pair = tuple[int, int]
Pads = tuple[Pair, ...]


def pair(value: int | Sequence[int]) -> Pair:
    """Read a setting for height and width: one number for both, or two."""
    if isinstance(value, int):
        return value, value
    if len(value) == 1:
        return int(value[0]), int(value[0])
    height, width = value
    return int(height), int(width)


def settings_of(value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """Read a setting for `rank` axes: one number for all, or one for each."""
    if isinstance(value, int):
        return (value,) * rank
    if len(value) == 1:
        return (int(value[0]),) * rank
    if len(value) != rank:
        raise SettingError("conv", f"expected one number or {rank}, got {tuple(value)}")
    return tuple(int(each) for each in value)


def pads_of(
    padding: Any, kernel: Sequence[int], dilation: Sequence[int], stride: Sequence[int] = ()
) -> Pads:
    """Read `padding`: a number, one for each axis, "valid", "same", or (before, after) of each.

    Raises: SettingError (a ValueError): "same" with a stride, which would not be the same
        size; another word.
    """
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding == "same":
        if any(step != 1 for step in stride):
            raise SettingError(
                f"conv{len(kernel)}d", "padding='same' is not supported for strided convolutions",
                {"stride": stride}, "choose the padding as numbers",
            )  # fmt: skip
        total = [step * (size - 1) for size, step in zip(kernel, dilation, strict=True)]
        return tuple((each // 2, each - each // 2) for each in total)
    if isinstance(padding, str):
        raise SettingError(
            f"conv{len(kernel)}d",
            f"padding must be a number, one for each axis, 'valid' or 'same', got {padding!r}",
        )
    if not isinstance(padding, int) and not isinstance(padding[0], int):
        return tuple(padding)
    return tuple((each, each) for each in settings_of(padding, len(kernel)))


def places(size: int, kernel: int, stride: int, pads: Pair, dilation: int) -> int:
    """Return at how many places a window stands along one axis (0 or less: it does not fit)."""
    return (size + sum(pads) - dilation * (kernel - 1) - 1) // stride + 1


def places_2d(
    op: str, shape: Sequence[int], kernel: Pair, stride: Pair, pads: Pads, dilation: Pair
) -> Pair:
    """Return (p, q) for an image of `shape`.

    Raises: ShapeError: the window is larger than the padded image.
    """
    p, q = (places(*each) for each in zip(shape[-2:], kernel, stride, pads, dilation, strict=True))
    if p < 1 or q < 1:
        reach = tuple(d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True))
        raise ShapeError(
            op,
            "Kernel size can't be greater than actual input size",
            {"input": tuple(shape), "window": reach, "padding": pads},
            "the image has become too small: use fewer poolings and strides, or padding",
        )
    return p, q


def padded(xp: Any, input: Array, pads: Pads, value: float = 0) -> Array:
    """Return the image with a border."""
    (top, bottom), (left, right) = pads
    if not (top or bottom or left or right):
        return input
    height, width = input.shape[-2:]
    shape = (*input.shape[:-2], height + top + bottom, width + left + right)
    y = xp.full(shape, value, input.dtype) if value else xp.zeros(shape, input.dtype)
    y[..., top : top + height, left : left + width] = input
    return y


def without_border(x: Array, pads: Pads) -> Array:
    """Undo `padded`."""
    (top, bottom), (left, right) = pads
    height, width = x.shape[-2:]
    return x[..., top : height - bottom, left : width - right]


def taps(
    kernel: Pair, stride: Pair, dilation: Pair, count: Pair
) -> Iterator[tuple[int, int, tuple[Any, slice, slice]]]:
    """Yield for each tap (i, j) the slice of the padded image that it sees, p × q in size."""
    for i in range(kernel[0]):
        rows = span(i * dilation[0], stride[0], count[0])
        for j in range(kernel[1]):
            yield i, j, (..., rows, span(j * dilation[1], stride[1], count[1]))


def span(start: int, step: int, count: int) -> slice:
    return slice(start, start + step * (count - 1) + 1, step)
