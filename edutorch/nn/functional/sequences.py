"""Convolution and pooling of sequences and volumes, by those of images.

A sequence is an image one pixel high. A volume is many images, each of which sees the
images before and behind it as further channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops import movedim, reshape, squeeze, stack, unsqueeze
from .conv import conv2d, conv_transpose2d
from .padding import pad
from .pooling import adaptive_avg_pool2d, avg_pool2d, max_pool2d
from .windows import pads_of, places, settings_of, span

__all__ = [
    "adaptive_avg_pool1d", "avg_pool1d", "conv1d", "conv3d", "conv_transpose1d", "max_pool1d",
]  # fmt: skip

Size = int | Sequence[int]


def batched(op: str, input: Tensor, axes: str, weight: Tensor | None = None) -> bool:
    """Say whether there is a batch; check the number of axes, `axes` being the full ones."""
    ndim = len(axes.split())
    wrong = input.ndim not in (ndim, ndim - 1)
    if wrong or (weight is not None and weight.ndim != ndim):
        shapes = {"input": tuple(input.shape)}
        if weight is not None:
            shapes["weight"] = tuple(weight.shape)
        raise ShapeError(op, f"expected ({axes}), or the same without the batch n", shapes)
    return input.ndim == ndim


def channels(op: str, input: Tensor, weight: Tensor, expected: int) -> None:
    axis = 1 - weight.ndim
    if input.shape[axis] != expected:
        raise ShapeError(
            op, f"expected {expected} input channels, got {input.shape[axis]}",
            {"input": tuple(input.shape), "weight": tuple(weight.shape)},
            "the channels come before the places: (n, c, …)",
        )  # fmt: skip


def flat(value: Any) -> tuple[int, int]:
    """Read a setting for a sequence as one for an image of height 1, where 1 changes nothing."""
    return 1, settings_of(value, 1)[0]


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """The response of filters at every place of a sequence: y = Σ x · w + b.

    Args: as for `conv2d`, for (n, c, l) or (c, l) and filters (o, c / groups, k).

    Raises: ShapeError: the channels do not fit, or the window is longer than the sequence.

    >>> nn.functional.conv1d(tensor([[[1.0, 2.0, 4.0]]]), tensor([[[-1.0, 1.0]]]))
    tensor([[[1., 2.]]])
    """
    batch = batched("conv1d", input, "n c l", weight)
    channels("conv1d", input, weight, weight.shape[1] * groups)
    pads = pads_of(padding, weight.shape[2:], settings_of(dilation, 1), settings_of(stride, 1))
    image = unsqueeze(input if batch else unsqueeze(input, 0), 2)
    y = conv2d(
        image, unsqueeze(weight, 2), bias, flat(stride), ((0, 0), *pads), flat(dilation), groups
    )
    y = squeeze(y, 2)
    return y if batch else squeeze(y, 0)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """A convolution read backwards: each number spreads a filter over a longer sequence.

    Raises: ShapeError: the channels do not fit.

    >>> nn.functional.conv_transpose1d(ones(1, 1, 2), tensor([[[1.0, 2.0]]]), stride=2)
    tensor([[[1., 2., 1., 2.]]])
    """
    batch = batched("conv_transpose1d", input, "n c l", weight)
    channels("conv_transpose1d", input, weight, weight.shape[0])
    image = unsqueeze(input if batch else unsqueeze(input, 0), 2)
    border, extra = settings_of(padding, 1)[0], settings_of(output_padding, 1)[0]
    y = conv_transpose2d(
        image, unsqueeze(weight, 2), bias, flat(stride), (0, border), (0, extra), groups,
        flat(dilation),
    )  # fmt: skip
    y = squeeze(y, 2)
    return y if batch else squeeze(y, 0)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """The response of filters at every place of a volume: y = Σ x · w + b.

    Args: as for `conv2d`, for (n, c, d, h, w) or (c, d, h, w) and filters
        (o, c / groups, k, i, j).

    Raises: ShapeError: the channels do not fit, or the window is larger than the volume.

    >>> nn.functional.conv3d(ones(1, 1, 2, 2, 2), ones(1, 1, 2, 2, 2))
    tensor([[[[[8.]]]]])
    """
    batch = batched("conv3d", input, "n c d h w", weight)
    channels("conv3d", input, weight, weight.shape[1] * groups)
    kernel = tuple(weight.shape[2:])
    (far, *step), (deep, *gap) = settings_of(stride, 3), settings_of(dilation, 3)
    depth, *pads = pads_of(padding, kernel, (deep, *gap), (far, *step))
    volume = input if batch else unsqueeze(input, 0)
    count = places(volume.shape[2], kernel[0], far, depth, deep)
    if count < 1:
        raise ShapeError(
            "conv3d", "the window is deeper than the volume",
            {"input": tuple(input.shape), "weight": tuple(weight.shape)},
        )  # fmt: skip
    volume = movedim(pad(volume, (0, 0, 0, 0, *depth)), 2, 1)
    taps = [volume[:, span(i * deep, far, count)] for i in range(kernel[0])]
    seen = stack(taps, 3)  # (n, places in depth, c, taps in depth, h, w)
    n, _, c, _, h, w = seen.shape
    images = reshape(seen, (n * count, c * kernel[0], h, w))
    filters = reshape(weight, (weight.shape[0], weight.shape[1] * kernel[0], *kernel[1:]))
    y = conv2d(images, filters, bias, tuple(step), tuple(pads), tuple(gap), groups)
    y = movedim(reshape(y, (n, count, *y.shape[1:])), 1, 2)
    return y if batch else squeeze(y, 0)


# Pooling -------------------------------------------------------------------------------------


def max_pool1d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest number of each window of a sequence; see `max_pool2d`.

    >>> nn.functional.max_pool1d(tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[3., 2.]])
    """
    batched("max_pool1d", input, "n c l")
    found = max_pool2d(
        unsqueeze(input, -2), flat(kernel_size), None if stride is None else flat(stride),
        (0, settings_of(padding, 1)[0]), flat(dilation), ceil_mode, return_indices,
    )  # fmt: skip
    return tuple(squeeze(each, -2) for each in found) if return_indices else squeeze(found, -2)


def avg_pool1d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The average of each window of a sequence; see `avg_pool2d`.

    >>> nn.functional.avg_pool1d(tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[2., 1.]])
    """
    batched("avg_pool1d", input, "n c l")
    y = avg_pool2d(
        unsqueeze(input, -2), flat(kernel_size), None if stride is None else flat(stride),
        (0, settings_of(padding, 1)[0]), ceil_mode, count_include_pad,
    )  # fmt: skip
    return squeeze(y, -2)


def adaptive_avg_pool1d(input: Tensor, output_size: Size) -> Tensor:
    """Averages of windows that are chosen so that the output has the given length.

    >>> nn.functional.adaptive_avg_pool1d(tensor([[1.0, 3.0, 2.0, 0.0]]), 1)
    tensor([[1.5000]])
    """
    batched("adaptive_avg_pool1d", input, "n c l")
    return squeeze(adaptive_avg_pool2d(unsqueeze(input, -2), flat(output_size)), -2)
