"""im2col and col2im: sliding windows as columns of a matrix, and back."""

from __future__ import annotations

import math

from ...backends.numpy import Array, Namespace
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops import squeeze, unsqueeze
from .conv import im2col
from .op_decorators import SettingError, layer
from .sliding_window import (
    Counts,
    Pads,
    Size,
    expand_setting,
    interior,
    output_shape,
    pad_array,
    tap_slices,
)

__all__ = ["fold", "unfold"]


@layer(linear=True, dtypes="bfc", public="unfold", node="Im2ColBackward0")
def unfold_forward(
    xp: Namespace, input: Array, kernel: Counts, stride: Counts, pads: Pads, dilation: Counts
) -> Array:
    """im2col: each column holds the elements of one window; see `unfold`."""
    count = output_shape("unfold", input.shape, kernel, stride, pads, dilation)
    return im2col(xp, pad_array(xp, input, pads), kernel, stride, dilation, count)


@layer(linear=True, dtypes="bfc", public="fold", accumulates=True, node="Col2ImBackward0")
def fold_forward(
    xp: Namespace, input: Array, size: Counts, kernel: Counts, stride: Counts, pads: Pads,
    dilation: Counts,
) -> Array:  # fmt: skip
    """col2im: each column is added at its window; see `fold`."""
    n, channels = input.shape[0], input.shape[1] // math.prod(kernel)
    count = output_shape("fold", (n, channels, *size), kernel, stride, pads, dilation)
    values = input.reshape(n, channels, math.prod(kernel), *count)
    sizes = (s + sum(p) for s, p in zip(size, pads, strict=True))
    y = xp.zeros((n, channels, *sizes), input.dtype)
    for index, tap in enumerate(tap_slices(kernel, stride, dilation, count)):
        y[tap] += values[:, :, index]
    return y[interior(pads, size)]


# The two ops are each other's transposes.
unfold_forward.vjp(
    input=lambda g, input_shape, kernel, stride, pads, dilation: fold_forward(
        g, tuple(input_shape[2:]), kernel, stride, pads, dilation
    ),
    latex=r"\mathrm{fold}(g)",
)
fold_forward.vjp(
    input=lambda g, kernel, stride, pads, dilation: unfold_forward(
        g, kernel, stride, pads, dilation
    ),
    latex=r"\mathrm{unfold}(g)",
)


def resolve_settings(
    op: str, kernel_size: Size, dilation: Size, padding: Size, stride: Size
) -> tuple[Counts, Counts, Pads, Counts]:
    """Read kernel, stride, padding and dilation for height and width.

    Raises: SettingError: one of them is out of range.
    """
    kernel, gap, border, step = (
        expand_setting(value, 2, op) for value in (kernel_size, dilation, padding, stride)
    )
    for name, values in (("kernel_size", kernel), ("dilation", gap), ("stride", step)):
        if min(values) < 1:
            raise SettingError(op, f"{name} should be greater than zero, but got {values}")
    if min(border) < 0:
        raise SettingError(op, f"padding should be non-negative, but got {border}")
    return kernel, step, tuple((value, value) for value in border), gap


def unfold(
    input: Tensor, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1
) -> Tensor:
    """Copy each sliding window into a column of a matrix (im2col).

    Args:
        input: (n, c, h, w) or (c, h, w). The result is (n, c · i · j, p · q).
        kernel_size, dilation, padding, stride: as for `conv2d`, which is the matrix product
            of the flattened filters and these columns.

    Raises: ShapeError: not images, or smaller than the window.

    >>> nn.functional.unfold(arange(6.0).reshape(1, 1, 2, 3), 2)
    tensor([[[0., 1.],
             [1., 2.],
             [3., 4.],
             [4., 5.]]])
    """
    if input.ndim not in (3, 4) or 0 in input.shape[-3:]:
        raise ShapeError(
            "unfold", "expected images (n c h w) or one image (c h w)",
            {"input": tuple(input.shape)}, "for windows along one axis there is x.unfold(dim, …)",
        )  # fmt: skip
    settings = resolve_settings("unfold", kernel_size, dilation, padding, stride)
    if input.ndim == 3:
        return squeeze(unfold_forward(unsqueeze(input, 0), *settings), 0)
    return unfold_forward(input, *settings)


def fold(
    input: Tensor, output_size: Size, kernel_size: Size, dilation: Size = 1, padding: Size = 0,
    stride: Size = 1,
) -> Tensor:  # fmt: skip
    """Add each column at its window in the image (col2im).

    This is the transpose of `unfold`, not its inverse: overlapping windows are summed.

    Args:
        input: (n, c · i · j, p · q), or the same without n.
        output_size: height and width of the image.

    Raises: ShapeError: the columns do not fit the windows of such an image.

    >>> nn.functional.fold(ones(1, 4, 2), (2, 3), 2)
    tensor([[[[1., 2., 1.],
              [1., 2., 1.]]]])
    """
    size = expand_setting(output_size, 2, "fold")
    kernel, step, pads, gap = resolve_settings("fold", kernel_size, dilation, padding, stride)
    shapes = {"input": tuple(input.shape), "output_size": size, "kernel_size": kernel}
    if input.ndim not in (2, 3) or 0 in input.shape[-2:]:
        raise ShapeError(
            "fold", "expected columns (n, c · i · j, p · q), with or without n", shapes
        )
    window = math.prod(kernel)
    if input.shape[-2] % window:
        raise ShapeError(
            "fold", f"the columns hold {input.shape[-2]} numbers: "
            f"no multiple of a window's {window}", shapes,
        )  # fmt: skip
    positions = math.prod(output_shape("fold", size, kernel, step, pads, gap))
    if input.shape[-1] != positions:
        raise ShapeError(
            "fold", f"such an image has {positions} windows, "
            f"but there are {input.shape[-1]} columns", shapes,
        )  # fmt: skip
    if input.ndim == 2:
        return squeeze(fold_forward(unsqueeze(input, 0), size, kernel, step, pads, gap), 0)
    return fold_forward(input, size, kernel, step, pads, gap)
