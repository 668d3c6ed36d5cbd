"""Convolution as an op, with its two transposes.

All three ops here compute the same sum,

    y[n, o, p, q] = Σ  x[n, c, s·p + d·i, s·q + d·j] · w[o, c, i, j]

each from two of its three tensors to the third: from image and filters to the response
(`conv2d`), from response and filters to the image (`conv_transpose_nd`), from image and response
to the filters (`conv_weight_grad`). Each op is linear in both inputs, so its derivatives are the
two others. The number of spatial axes is arbitrary: one for a sequence, two for an image, three
for a volume.

All three copy the windows into the columns of a matrix (`im2col`) and leave the sum to a
matrix product, a few images at a time.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ... import backends
from ...backends.numpy import Array, Namespace
from ...core.composed import composed_in_float32, recorded_as
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops import narrow, permute, reshape, squeeze, unsqueeze
from ...ops import sum as total
from .op_decorators import (
    ArrayOrTensor,
    Shape,
    check_same_dtype,
    compute_in_float32,
    is_half_array,
    layer,
    shape_of,
)
from .sliding_window import (
    Counts,
    Pads,
    Size,
    check_positive,
    expand_setting,
    im2col,
    interior,
    output_shape,
    pad_array,
    resolve_pads,
    tap_slices,
)  # fmt: skip

__all__ = [
    "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d",
]  # fmt: skip

BLOCK_SIZE = {"cpu": 1 << 20, "meta": 1 << 62}
"""How many elements the im2col buffer may hold: on a CPU, as many as fit its cache, and on `meta`,
which has no memory, any number."""


def split_batch(x: Array, elements_per_image: int) -> Iterator[slice]:
    """Split the batch into slices whose im2col buffers do not exceed `BLOCK_SIZE`."""
    limit = BLOCK_SIZE.get(backends.of(x).name, 1 << 26)
    step = max(1, limit // max(1, elements_per_image))
    return (slice(start, start + step) for start in range(0, x.shape[0], step))


def channels_hint(input: Array, weight: Array, *_: Any) -> str | None:
    """Return a hint about an image that does not fit the filters."""
    if input.ndim == 2:
        return "an image needs axes for the batch and for the channels: x[None, None]"
    if input.ndim != 4 or weight.ndim != 4:
        return None
    if input.shape[0] == weight.shape[1] == 1 and input.shape[1] > 1:
        return "three axes are one image, (c h w); a batch of gray ones is x.unsqueeze(1)"
    if input.shape[3] == weight.shape[1]:
        return (
            f"the filters expect {weight.shape[1]} input channels; "
            "permute a channels-last image with input.permute(0, 3, 1, 2)"
        )
    return None


# The three ops ---------------------------------------------------------------------------


@layer(
    "n c h w, o c/groups i j, o -> n o p q",
    hint=channels_hint,
    dtypes="ifc",
    allow_unbatched=True,
    node="ConvolutionBackward0",
)
def conv2d(
    xp: Namespace, input: Array, weight: Array, bias: Array | None = None,
    stride: int | Sequence[int] = 1, padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1, groups: int = 1,
) -> Array:  # fmt: skip
    """2-d convolution (cross-correlation): y = Σ x · w + b, over channels and window.

    Args:
        stride: the step of the window.
        padding: zeros around the image; "same" keeps its size, "valid" adds none.
        dilation: the step between the taps of the window.
        groups: split the channels into groups that are convolved separately.

    Raises: ShapeError: the channels do not fit, or the window is larger than the image.

    >>> nn.functional.conv2d(ones(1, 1, 3, 3), ones(1, 1, 2, 2))
    tensor([[[[4., 4.],
              [4., 4.]]]])
    """
    return conv_forward(xp, input, weight, bias, stride, padding, dilation, groups)


@layer(dtypes="ifc", public="conv1d conv2d conv3d", node="ConvolutionBackward0")
def conv_nd(
    xp: Namespace, input: Array, weight: Array, bias: Array | None, stride: Counts, padding: Pads,
    dilation: Counts, groups: int,
) -> Array:  # fmt: skip
    """Convolution over any number of axes: see `conv1d` and `conv3d`."""
    return conv_forward(xp, input, weight, bias, stride, padding, dilation, groups)


def conv_forward(
    xp: Namespace, input: Array, weight: Array, bias: Array | None, stride: Size,
    padding: Size | Pads | str, dilation: Size, groups: int,
) -> Array:  # fmt: skip
    """Compute a convolution by im2col and one matrix product per slice of the batch."""
    op = f"conv{weight.ndim - 2}d"
    arrays = {"input": input, "weight": weight}
    check_same_dtype(op, arrays if bias is None else {**arrays, "bias": bias})
    if is_half_array(input):
        settings = stride, padding, dilation, groups
        return compute_in_float32(conv_forward, xp, input, weight, bias, *settings)
    kernel, stride, pads, dilation = resolve_window(weight.shape, stride, padding, dilation)
    check_groups(op, weight.shape[0], groups)
    count = output_shape(op, input.shape, kernel, stride, pads, dilation)
    o, size = weight.shape[0], math.prod(weight.shape[1:])
    filters = weight.reshape(groups, o // groups, size)
    y = xp.empty((input.shape[0], groups, o // groups, math.prod(count)), input.dtype)
    for part in split_batch(input, groups * size * y.shape[3]):
        image = pad_array(xp, input[part], pads)
        cols = im2col(xp, image, kernel, stride, dilation, count)
        y[part] = xp.matmul(filters, cols.reshape(-1, groups, size, y.shape[3]))
    y = y.reshape(input.shape[0], o, *count)
    if bias is not None:
        y += bias.reshape(-1, *(1,) * len(count))
    return y


def resolve_window(
    shape: Sequence[int], stride: Size, padding: Size | Pads | str, dilation: Size
) -> tuple[Counts, Counts, Pads, Counts]:
    """Read the settings for filters of `shape`: kernel, stride, pads, dilation."""
    try:
        return resolve_window_cached(shape, stride, padding, dilation)
    except TypeError:  # lists are valid settings, but cannot be keys of the cache
        pads_and_dilation = (
            tuple(setting) if isinstance(setting, list) else setting
            for setting in (padding, dilation)
        )
        return resolve_window_cached(
            tuple(shape), expand_setting(stride, len(shape) - 2), *pads_and_dilation
        )


@functools.lru_cache(maxsize=256)
def resolve_window_cached(
    shape: Sequence[int], stride: Size, padding: Size | Pads | str, dilation: Size
) -> tuple[Counts, Counts, Pads, Counts]:
    """The cached form of `resolve_window`: each training step has the same settings."""
    kernel = tuple(shape[2:])
    stride, dilation = expand_setting(stride, len(kernel)), expand_setting(dilation, len(kernel))
    check_positive("conv", stride=stride, dilation=dilation)
    return kernel, stride, resolve_pads(padding, kernel, dilation, stride), dilation


@layer(public="conv_transpose2d conv_transpose1d conv_transpose3d", node="ConvolutionBackward0")
def conv_transpose_nd(
    xp: Namespace, input: Array, weight: Array, size: Counts, stride: Counts, pads: Pads,
    dilation: Counts, groups: int,
) -> Array:  # fmt: skip
    """Transposed convolution: the gradient of `conv2d` by its input, of spatial shape `size`."""
    if is_half_array(input):
        forward = conv_transpose_nd.op.forward
        return compute_in_float32(forward, xp, input, weight, size, stride, pads, dilation, groups)
    kernel, count = weight.shape[2:], input.shape[2:]
    n, o, per_group = input.shape[0], weight.shape[0], weight.shape[1]
    sizes = (s + sum(p) for s, p in zip(size, pads, strict=True))
    window = per_group * math.prod(kernel)
    filters = weight.reshape(groups, o // groups, window).swapaxes(1, 2)
    input = xp.ascontiguousarray(input)  # a gradient may be a broadcast scalar
    y = xp.zeros((n, groups * per_group, *sizes), input.dtype)
    for part in split_batch(input, groups * window * math.prod(count)):
        gradient = input[part].reshape(-1, groups, o // groups, math.prod(count))
        spread = xp.matmul(filters, gradient)
        spread = spread.reshape(-1, groups * per_group, math.prod(kernel), *count)
        image = y[part]
        for index, tap in enumerate(tap_slices(kernel, stride, dilation, count)):
            image[tap] += spread[:, :, index]
    return y[interior(pads, size)]


@layer(
    public="conv2d conv1d conv3d conv_transpose2d conv_transpose1d conv_transpose3d",
    node="ConvolutionBackwardBackward0",
)
def conv_weight_grad(
    xp: Namespace, input: Array, response: Array, kernel: Counts, stride: Counts, pads: Pads,
    dilation: Counts, groups: int,
) -> Array:  # fmt: skip
    """The gradient of `conv2d` by its filters."""
    if is_half_array(input):
        forward = conv_weight_grad.op.forward
        return compute_in_float32(
            forward, xp, input, response, kernel, stride, pads, dilation, groups
        )
    o, count = response.shape[1], response.shape[2:]
    size = input.shape[1] // groups * math.prod(kernel)
    response = xp.ascontiguousarray(response)
    y = xp.zeros((groups, o // groups, size), input.dtype)
    for part in split_batch(input, groups * size * math.prod(count)):
        image = pad_array(xp, input[part], pads)
        cols = im2col(xp, image, kernel, stride, dilation, count)
        cols = cols.reshape(-1, groups, size, cols.shape[2])
        gradient = response[part].reshape(-1, groups, o // groups, cols.shape[3])
        y += xp.matmul(gradient, cols.swapaxes(2, 3)).sum(0)
    return y.reshape(o, input.shape[1] // groups, *kernel)


def check_groups(op: str, channels: int, groups: int) -> None:
    if groups < 1 or channels % groups:
        raise ShapeError(op, f"{channels} output channels cannot be cut into {groups} groups")


# Derivatives: for each op, the two others --------------------------------------------------


def conv_backward_input(
    g: ArrayOrTensor, weight: ArrayOrTensor, input_shape: Shape, stride: Size,
    padding: Size | Pads | str, dilation: Size, groups: int,
) -> Any:  # fmt: skip
    _, stride, pads, dilation = resolve_window(weight.shape, stride, padding, dilation)
    return conv_transpose_nd(g, weight, tuple(input_shape[2:]), stride, pads, dilation, groups)


def conv_backward_weight(
    g: ArrayOrTensor, input: ArrayOrTensor, weight_shape: Shape, stride: Size,
    padding: Size | Pads | str, dilation: Size, groups: int,
) -> Any:  # fmt: skip
    kernel, stride, pads, dilation = resolve_window(weight_shape, stride, padding, dilation)
    return conv_weight_grad(input, g, kernel, stride, pads, dilation, groups)


for _conv_op in (conv2d, conv_nd):
    _conv_op.vjp(
        input=conv_backward_input,
        weight=conv_backward_weight,
        bias=lambda g: total(g, (0, *range(2, g.ndim))),
        latex={"input": r"g \star^{\!\top} w", "weight": r"x \star g", "bias": r"\textstyle\sum g"},
    )


def crop_to_windows(
    g: ArrayOrTensor, count: Sequence[int], kernel: Sequence[int], stride: Counts, pads: Pads,
    dilation: Counts,
) -> tuple[Any, Pads]:  # fmt: skip
    """Crop the end of an image that none of `count` windows covers.

    `output_padding` may make the image so long that more windows would fit.
    """
    new_pads = list(pads)
    for axis, (n, k, s, d) in enumerate(zip(count, kernel, stride, dilation, strict=True)):
        before, after = pads[axis]
        extent, size = (n - 1) * s + d * (k - 1) + 1, g.shape[2 + axis]
        excess = before + size + after - extent
        if excess < s:
            continue
        if excess > after:
            g = narrow(g, 2 + axis, 0, max(extent - before, 0))
        new_pads[axis] = min(before, extent), max(after - excess, 0)
    return g, tuple(new_pads)


def conv_transpose_backward_input(
    g: ArrayOrTensor, weight: ArrayOrTensor, input_shape: Shape, stride: Counts, pads: Pads,
    dilation: Counts, groups: int,
) -> Any:  # fmt: skip
    g, pads = crop_to_windows(g, input_shape[2:], weight.shape[2:], stride, pads, dilation)
    return conv_nd(g, weight, None, stride, pads, dilation, groups)


def conv_transpose_backward_weight(
    g: ArrayOrTensor, input: ArrayOrTensor, weight_shape: Shape, stride: Counts, pads: Pads,
    dilation: Counts, groups: int,
) -> Any:  # fmt: skip
    kernel = tuple(weight_shape[2:])
    g, pads = crop_to_windows(g, input.shape[2:], kernel, stride, pads, dilation)
    return conv_weight_grad(g, input, kernel, stride, pads, dilation, groups)


conv_transpose_nd.vjp(
    input=conv_transpose_backward_input,
    weight=conv_transpose_backward_weight,
    latex={"input": r"g \star w", "weight": r"g \star x"},
)
conv_weight_grad.vjp(
    input=lambda g, response, input_shape, stride, pads, dilation, groups: conv_transpose_nd(
        response, g, tuple(input_shape[2:]), stride, pads, dilation, groups
    ),
    response=lambda g, input, stride, pads, dilation, groups: conv_nd(
        input, g, None, stride, pads, dilation, groups
    ),
    latex={"input": r"y \star^{\!\top} g", "response": r"x \star g"},
)


# Sequences, images and volumes, with or without a batch ----------------------------------------

LAYOUTS = {1: "n c l", 2: "n c h w", 3: "n c d h w"}


def check_shapes(
    op: str, rank: int, input: Tensor, weight: Tensor, expected: Callable[[Shape], int]
) -> bool:
    """Check the shapes; return True if the input has a batch axis.

    Raises: ShapeError: too many or too few axes, or not `expected(weight)` channels.
    """
    shape, filters = shape_of(input), shape_of(weight)
    axes = len(shape)
    is_valid = (axes == rank + 2 or axes == rank + 1) and len(filters) == rank + 2
    if is_valid and shape[-1 - rank] == expected(filters):
        return axes == rank + 2
    shapes = {"input": tuple(input.shape), "weight": tuple(weight.shape)}
    if not is_valid:
        raise ShapeError(op, f"expected ({LAYOUTS[rank]}), or the same without the batch n", shapes)
    raise ShapeError(
        op, f"expected {expected(filters)} input channels, got {input.shape[-1 - rank]}", shapes,
        "the channels come before the places: (n, c, …)",
    )  # fmt: skip


def run_conv(
    rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Size,
    padding: Size | str, dilation: Size, groups: int,
) -> Tensor:  # fmt: skip
    """`conv1d` and `conv3d` for 1 and 3 axes."""
    batch = check_shapes(f"conv{rank}d", rank, input, weight, lambda shape: shape[1] * groups)
    _, step, pads, gap = resolve_window(shape_of(weight), stride, padding, dilation)
    samples = input if batch else unsqueeze(input, 0)
    y = conv_nd(samples, weight, bias, step, pads, gap, groups)
    return y if batch else squeeze(y, 0)


def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Size = 1,
    padding: Size | str = 0, dilation: Size = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """1-d convolution (cross-correlation): y = Σ x · w + b.

    Args: as for `conv2d`, for (n, c, l) or (c, l) and filters (o, c / groups, k).

    Raises: ShapeError: the channels do not fit, or the window is longer than the sequence.

    >>> nn.functional.conv1d(tensor([[[1.0, 2.0, 4.0]]]), tensor([[[-1.0, 1.0]]]))
    tensor([[[1., 2.]]])
    """
    return run_conv(1, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Size = 1,
    padding: Size | str = 0, dilation: Size = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """3-d convolution (cross-correlation): y = Σ x · w + b.

    Args: as for `conv2d`, for (n, c, d, h, w) or (c, d, h, w) and filters
        (o, c / groups, k, i, j).

    Raises: ShapeError: the channels do not fit, or the window is larger than the volume.

    >>> nn.functional.conv3d(ones(1, 1, 2, 2, 2), ones(1, 1, 2, 2, 2))
    tensor([[[[[8.]]]]])
    """
    return run_conv(3, input, weight, bias, stride, padding, dilation, groups)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """`conv1d` for (time, batch, channels) and filters (k, channels, o).

    >>> edutorch.nn.functional.conv_tbc(ones(3, 1, 2), ones(2, 2, 1), zeros(1)).shape
    torch.Size([2, 1, 1])
    """
    if bias.ndim != 1 or bias.shape[0] != weight.shape[-1]:
        raise ShapeError(
            "conv_tbc", "Bias must be 1-D, one number for each output channel (axis 2 of `weight`)",
            {"weight": tuple(weight.shape), "bias": tuple(bias.shape)},
        )  # fmt: skip
    y = conv1d(permute(input, (1, 2, 0)), permute(weight, (2, 1, 0)), bias, padding=pad)
    return permute(y, (2, 0, 1))


# Transposed convolution ------------------------------------------------------------------------


class TransposeSettings(NamedTuple):
    """The settings of a transposed convolution, in the order of PyTorch's functions."""

    stride: Size
    padding: Size
    output_padding: Size
    groups: int
    dilation: Size


@composed_in_float32
def transpose_and_add(
    samples: Tensor, weight: Tensor, bias: Tensor | None, window: tuple[Any, ...]
) -> Tensor:
    """Return the transposed convolution with its bias, rounded once where it has 16 bits.

    Args:
        window: the last arguments of `conv_transpose_nd`.
    """
    y = conv_transpose_nd(samples, weight, *window)
    return y if bias is None else y + reshape(bias, (-1,) + (1,) * (y.ndim - 2))


def run_conv_transpose(
    rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, settings: TransposeSettings
) -> Tensor:
    """`conv_transpose1d`, `conv_transpose2d` and `conv_transpose3d` for 1, 2 and 3 axes."""
    stride, padding, output_padding, groups, dilation = settings
    op = f"conv_transpose{rank}d"
    batch = check_shapes(op, rank, input, weight, lambda shape: shape[0])
    kernel, step, pads, gap = resolve_window(weight.shape, stride, padding, dilation)
    extra = expand_setting(output_padding, rank, op)
    if any(e >= max(s, d) or e < 0 for e, s, d in zip(extra, step, gap, strict=True)):
        raise ShapeError(
            op, "output padding must be smaller than either stride or dilation",
            {"output_padding": extra, "stride": step, "dilation": gap},
        )  # fmt: skip
    check_positive(op, groups=(groups,))
    samples = input if batch else unsqueeze(input, 0)
    size: Counts = tuple(
        (n - 1) * s - sum(p) + d * (k - 1) + e + 1
        for n, s, p, d, k, e in zip(samples.shape[2:], step, pads, gap, kernel, extra, strict=True)
    )
    if min(size) < 1:
        raise ShapeError(
            op, f"the output would be too small: {size}",
            {"input": tuple(input.shape), "weight": tuple(weight.shape), "padding": pads},
            "padding takes rows off the output: use less",
        )  # fmt: skip
    arrays = {"input": input._array, "weight": weight._array}
    check_same_dtype(op, arrays if bias is None else {**arrays, "bias": bias._array})
    channels = weight.shape[1] * groups
    if bias is not None and bias.shape != (channels,):
        raise ShapeError(
            op, f"bias needs one number for each of {channels} output channels",
            {"weight": tuple(weight.shape), "bias": tuple(bias.shape)},
        )  # fmt: skip
    y = transpose_and_add(samples, weight, bias, (size, step, pads, gap, groups))
    return y if batch else squeeze(y, 0)


@recorded_as("ConvolutionBackward0")
def conv_transpose2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Size = 1, padding: Size = 0,
    output_padding: Size = 0, groups: int = 1, dilation: Size = 1,
) -> Tensor:  # fmt: skip
    """2-d transposed convolution: each input element adds a scaled filter to the output.

    `output_padding` adds rows at the bottom and right, where a stride leaves the size ambiguous.

    Raises: ShapeError: the channels do not fit.

    >>> nn.functional.conv_transpose2d(ones(1, 1, 1, 1), ones(1, 1, 2, 2), stride=2)
    tensor([[[[1., 1.],
              [1., 1.]]]])
    """
    settings = TransposeSettings(stride, padding, output_padding, groups, dilation)
    return run_conv_transpose(2, input, weight, bias, settings)


@recorded_as("ConvolutionBackward0")
def conv_transpose1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Size = 1, padding: Size = 0,
    output_padding: Size = 0, groups: int = 1, dilation: Size = 1,
) -> Tensor:  # fmt: skip
    """1-d transposed convolution: each input element adds a scaled filter to the output.

    Raises: ShapeError: the channels do not fit.

    >>> nn.functional.conv_transpose1d(ones(1, 1, 2), tensor([[[1.0, 2.0]]]), stride=2)
    tensor([[[1., 2., 1., 2.]]])
    """
    settings = TransposeSettings(stride, padding, output_padding, groups, dilation)
    return run_conv_transpose(1, input, weight, bias, settings)


@recorded_as("ConvolutionBackward0")
def conv_transpose3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Size = 1, padding: Size = 0,
    output_padding: Size = 0, groups: int = 1, dilation: Size = 1,
) -> Tensor:  # fmt: skip
    """3-d transposed convolution: each input element adds a scaled filter to the output.

    Raises: ShapeError: the channels do not fit.

    >>> nn.functional.conv_transpose3d(ones(1, 1, 1, 1, 1), ones(1, 1, 1, 1, 2))
    tensor([[[[[1., 1.]]]]])
    """
    settings = TransposeSettings(stride, padding, output_padding, groups, dilation)
    return run_conv_transpose(3, input, weight, bias, settings)
