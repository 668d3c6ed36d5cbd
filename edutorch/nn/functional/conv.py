"""Convolution: the same small filter at every place of an image.

One sum stands behind all three ops here,

    y[n, o, p, q] = Σ  x[n, c, s·p + d·i, s·q + d·j] · w[o, c, i, j]

read in three directions: from image and filters to the response (`conv2d`), from
response and filters back to the image (`conv_transpose2d`), from image and response
to the filters (`conv2d_weight`). It is linear in each of them, so the derivatives
of each op are the two others.

All three lay what a window sees into the rows of a matrix (`columns`) and leave the
sum to a matrix product, a few images at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ... import backends
from ...backends.numpy import Array
from ...errors import ShapeError
from ...ops import sum as total
from .layer import layer
from .linear import same_types
from .windows import Pads, Pair, padded, pads_of, pair, places_2d, taps, without_border

__all__ = ["conv2d", "conv_transpose2d"]

BLOCK = {"cpu": 1 << 20}
"""How many numbers of columns are held at once: on a CPU, as many as fit its cache."""


def columns(xp: Any, x: Array, kernel: Pair, stride: Pair, dilation: Pair, count: Pair) -> Array:
    """Return (n, c · i · j, p · q): in each column, what the window sees at one place."""
    x = xp.ascontiguousarray(x)
    n, c = x.shape[:2]
    sn, sc, sh, sw = x.strides
    shape = (n, c, *kernel, *count)
    strides = (
        sn, sc, sh * dilation[0], sw * dilation[1], sh * stride[0], sw * stride[1],
    )  # fmt: skip
    seen = backends.of(x).as_strided(x, shape, strides, 0)
    return seen.reshape(n, c * kernel[0] * kernel[1], count[0] * count[1])


def blocks(x: Array, numbers_per_image: int) -> Iterator[slice]:
    """Cut the batch into parts whose columns are not too much at once."""
    limit = BLOCK.get(backends.of(x).name, 1 << 26)
    step = max(1, limit // max(1, numbers_per_image))
    return (slice(start, start + step) for start in range(0, x.shape[0], step))


def channels_hint(input: Array, weight: Array, *_: Any) -> str | None:
    """Say what to do about an image that does not fit the filters."""
    if input.ndim == 3:
        return "a batch of one image is needed: input.unsqueeze(0)"
    if weight.ndim == 4 and input.ndim == 4 and input.shape[3] == weight.shape[1]:
        return (
            f"the filters expect {weight.shape[1]} input channels; "
            "permute a channels-last image with input.permute(0, 3, 1, 2)"
        )
    return None


# The three faces ---------------------------------------------------------------------------


@layer("n c h w, o c/groups i j, o -> n o p q", hint=channels_hint)
def conv2d(
    xp: Any,
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Array:
    """The response of filters at every place: y = Σ x · w + b, over channels and window.

    Args:
        stride: how far the window moves at a time.
        padding: zeros around the image; "same" keeps its size, "valid" adds none.
        dilation: the step between the taps of the window.
        groups: cut the channels into parts that do not see each other.

    Raises: ShapeError: the channels do not fit, or the window is larger than the image.

    >>> nn.functional.conv2d(ones(1, 1, 3, 3), ones(1, 1, 2, 2))
    tensor([[[[4., 4.],
              [4., 4.]]]])
    """
    same_types("conv2d", {"input": input, "weight": weight})
    kernel, stride, dilation = weight.shape[2:], pair(stride), pair(dilation)
    pads = pads_of(padding, kernel, dilation, stride)
    check_groups("conv2d", weight.shape[0], groups)
    count = places_2d("conv2d", input.shape, kernel, stride, pads, dilation)
    o, size = weight.shape[0], math.prod(weight.shape[1:])
    filters = weight.reshape(groups, o // groups, size)
    y = xp.empty((input.shape[0], groups, o // groups, math.prod(count)), input.dtype)
    for part in blocks(input, groups * size * y.shape[3]):
        image = padded(xp, input[part], pads)
        seen = columns(xp, image, kernel, stride, dilation, count)
        y[part] = xp.matmul(filters, seen.reshape(-1, groups, size, y.shape[3]))
    y = y.reshape(input.shape[0], o, *count)
    if bias is not None:
        y += bias.reshape(-1, 1, 1)
    return y


@layer("n o p q, o c/groups i j -> n c h w")
def transposed(
    xp: Any,
    input: Array,
    weight: Array,
    size: Pair,
    stride: Pair,
    pads: Pads,
    dilation: Pair,
    groups: int,
) -> Array:
    """Each response spreads its filter over the image, `size` in height and width.

    It is what `conv2d` does, seen from the other end.
    """
    kernel, count = weight.shape[2:], input.shape[2:]
    n, o, per_group = input.shape[0], weight.shape[0], weight.shape[1]
    height, width = (s + sum(p) for s, p in zip(size, pads, strict=True))
    window = per_group * kernel[0] * kernel[1]
    filters = weight.reshape(groups, o // groups, window).swapaxes(1, 2)
    input = xp.ascontiguousarray(input)  # a gradient may be one number, shown everywhere
    y = xp.zeros((n, groups * per_group, height, width), input.dtype)
    for part in blocks(input, groups * window * math.prod(count)):
        response = input[part].reshape(-1, groups, o // groups, math.prod(count))
        spread = xp.matmul(filters, response).reshape(-1, groups * per_group, *kernel, *count)
        image = y[part]
        for i, j, place in taps(kernel, stride, dilation, count):
            image[place] += spread[:, :, i, j]
    return without_border(y, pads)


@layer("n c h w, n o p q -> o c i j")
def conv2d_weight(
    xp: Any,
    input: Array,
    response: Array,
    kernel: Pair,
    stride: Pair,
    pads: Pads,
    dilation: Pair,
    groups: int,
) -> Array:
    """How much each tap of each filter had to do with a response.

    It is what `conv2d` does, seen from its filters.
    """
    o = response.shape[1]
    count = response.shape[2:]
    size = input.shape[1] // groups * kernel[0] * kernel[1]
    response = xp.ascontiguousarray(response)
    y = xp.zeros((groups, o // groups, size), input.dtype)
    for part in blocks(input, groups * size * math.prod(count)):
        image = padded(xp, input[part], pads)
        seen = columns(xp, image, kernel, stride, dilation, count)
        seen = seen.reshape(-1, groups, size, seen.shape[2])
        answer = response[part].reshape(-1, groups, o // groups, seen.shape[3])
        y += xp.matmul(answer, seen.swapaxes(2, 3)).sum(0)
    return y.reshape(o, input.shape[1] // groups, *kernel)


def check_groups(op: str, channels: int, groups: int) -> None:
    if groups < 1 or channels % groups:
        raise ShapeError(op, f"{channels} output channels cannot be cut into {groups} groups")


# Each one's derivatives are the two others --------------------------------------------------


def back_to_image(
    g: Any, weight: Any, input_shape: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    kernel, stride, dilation = tuple(weight.shape[2:]), pair(stride), pair(dilation)
    pads = pads_of(padding, kernel, dilation, stride)
    return transposed(g, weight, tuple(input_shape[2:]), stride, pads, dilation, groups)


def back_to_filters(
    g: Any, input: Any, weight_shape: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    kernel, stride, dilation = tuple(weight_shape[2:]), pair(stride), pair(dilation)
    pads = pads_of(padding, kernel, dilation, stride)
    return conv2d_weight(input, g, kernel, stride, pads, dilation, groups)


conv2d.vjp(
    input=lambda g, weight, input_shape, stride, padding, dilation, groups: back_to_image(
        g, weight, input_shape, stride, padding, dilation, groups
    ),
    weight=lambda g, input, weight_shape, stride, padding, dilation, groups: back_to_filters(
        g, input, weight_shape, stride, padding, dilation, groups
    ),
    bias=lambda g: total(g, (0, 2, 3)),
    latex={"input": r"g \star^{\!\top} w", "weight": r"x \star g", "bias": r"\textstyle\sum g"},
)
transposed.vjp(
    input=lambda g, weight, stride, pads, dilation, groups: conv2d(
        g, weight, None, stride, pads, dilation, groups
    ),
    weight=lambda g, input, weight_shape, stride, pads, dilation, groups: conv2d_weight(
        g, input, tuple(weight_shape[2:]), stride, pads, dilation, groups
    ),
    latex={"input": r"g \star w", "weight": r"g \star x"},
)
conv2d_weight.vjp(
    input=lambda g, response, input_shape, stride, pads, dilation, groups: transposed(
        response, g, tuple(input_shape[2:]), stride, pads, dilation, groups
    ),
    response=lambda g, input, stride, pads, dilation, groups: conv2d(
        input, g, None, stride, pads, dilation, groups
    ),
    latex={"input": r"y \star^{\!\top} g", "response": r"x \star g"},
)


def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Any:
    """A convolution read backwards: each number spreads a filter over a larger image.

    `output_padding` adds rows at the bottom and right, where a stride leaves the size open.

    Raises: ShapeError: the channels do not fit.

    >>> nn.functional.conv_transpose2d(ones(1, 1, 1, 1), ones(1, 1, 2, 2), stride=2)
    tensor([[[[1., 1.],
              [1., 1.]]]])
    """
    kernel, stride, dilation = tuple(weight.shape[2:]), pair(stride), pair(dilation)
    pads = pads_of(padding, kernel, dilation)
    size = tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + extra + 1
        for n, s, p, d, k, extra in zip(
            input.shape[2:],
            stride,
            pair(padding),
            dilation,
            kernel,
            pair(output_padding),
            strict=True,
        )
    )
    y = transposed(input, weight, size, stride, pads, dilation, groups)
    return y if bias is None else y + bias.reshape(-1, 1, 1)
