"""Convolution of sequences and volumes, and transposed convolution."""

from __future__ import annotations

from typing import Any

from ...core.autograd.node_names import recorded_as
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops import permute, reshape, squeeze, unsqueeze
from .conv import conv_nd, conv_transpose_nd, resolve_window
from .linear import check_same_dtype
from .sliding_window import Counts, Size, check_positive, expand_setting

__all__ = [
    "conv1d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
]  # fmt: skip

LAYOUTS = {1: "n c l", 2: "n c h w", 3: "n c d h w"}


def check_shapes(op: str, rank: int, input: Tensor, weight: Tensor, expected: Any) -> bool:
    """Check the shapes; return True if the input has a batch axis.

    Raises: ShapeError: too many or too few axes, or not `expected(weight)` channels.
    """
    shapes = {"input": tuple(input.shape), "weight": tuple(weight.shape)}
    if input.ndim not in (rank + 1, rank + 2) or weight.ndim != rank + 2:
        raise ShapeError(op, f"expected ({LAYOUTS[rank]}), or the same without the batch n", shapes)
    channels, expected_channels = input.shape[-1 - rank], expected(weight)
    if channels != expected_channels:
        raise ShapeError(
            op, f"expected {expected_channels} input channels, got {channels}", shapes,
            "the channels come before the places: (n, c, …)",
        )  # fmt: skip
    return input.ndim == rank + 2


def run_conv(
    rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Size,
    padding: Size | str, dilation: Size, groups: int,
) -> Tensor:  # fmt: skip
    """`conv1d` and `conv3d` for 1 and 3 axes."""
    batch = check_shapes(f"conv{rank}d", rank, input, weight, lambda w: w.shape[1] * groups)
    _, step, pads, gap = resolve_window(weight.shape, stride, padding, dilation)
    samples = input if batch else unsqueeze(input, 0)
    y = conv_nd(samples, weight, bias, step, pads, gap, groups)
    return y if batch else squeeze(y, 0)


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """1-d convolution (cross-correlation): y = Σ x · w + b.

    Args: as for `conv2d`, for (n, c, l) or (c, l) and filters (o, c / groups, k).

    Raises: ShapeError: the channels do not fit, or the window is longer than the sequence.

    >>> nn.functional.conv1d(tensor([[[1.0, 2.0, 4.0]]]), tensor([[[-1.0, 1.0]]]))
    tensor([[[1., 2.]]])
    """
    return run_conv(1, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
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


# Transposed ----------------------------------------------------------------------------------


def run_conv_transpose(
    rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Size, padding: Size,
    output_padding: Size, groups: int, dilation: Size,
) -> Tensor:  # fmt: skip
    """`conv_transpose1d`, `conv_transpose2d` and `conv_transpose3d` for 1, 2 and 3 axes."""
    op = f"conv_transpose{rank}d"
    batch = check_shapes(op, rank, input, weight, lambda w: w.shape[0])
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
    y = conv_transpose_nd(samples, weight, size, step, pads, gap, groups)
    if bias is not None:
        if bias._array.shape != (y.shape[1],):
            raise ShapeError(
                op, f"bias needs one number for each of {y.shape[1]} output channels",
                {"weight": tuple(weight.shape), "bias": tuple(bias.shape)},
            )  # fmt: skip
        y = y + reshape(bias, (-1,) + (1,) * rank)
    return y if batch else squeeze(y, 0)


@recorded_as("ConvolutionBackward0")
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """2-d transposed convolution: each input element adds a scaled filter to the output.

    `output_padding` adds rows at the bottom and right, where a stride leaves the size ambiguous.

    Raises: ShapeError: the channels do not fit.

    >>> nn.functional.conv_transpose2d(ones(1, 1, 1, 1), ones(1, 1, 2, 2), stride=2)
    tensor([[[[1., 1.],
              [1., 1.]]]])
    """
    settings = (stride, padding, output_padding, groups, dilation)
    return run_conv_transpose(2, input, weight, bias, *settings)


@recorded_as("ConvolutionBackward0")
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
    """1-d transposed convolution: each input element adds a scaled filter to the output.

    Raises: ShapeError: the channels do not fit.

    >>> nn.functional.conv_transpose1d(ones(1, 1, 2), tensor([[[1.0, 2.0]]]), stride=2)
    tensor([[[1., 2., 1., 2.]]])
    """
    settings = (stride, padding, output_padding, groups, dilation)
    return run_conv_transpose(1, input, weight, bias, *settings)


@recorded_as("ConvolutionBackward0")
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """3-d transposed convolution: each input element adds a scaled filter to the output.

    Raises: ShapeError: the channels do not fit.

    >>> nn.functional.conv_transpose3d(ones(1, 1, 1, 1, 1), ones(1, 1, 1, 1, 2))
    tensor([[[[[1., 1.]]]]])
    """
    settings = (stride, padding, output_padding, groups, dilation)
    return run_conv_transpose(3, input, weight, bias, *settings)
