"""Max and average pooling of sequences, images and volumes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from numpy import dtype as array_dtype
from numpy import ndarray

from ...backends.numpy import Array, Namespace
from ...core.composed import takes_out
from ...core.tensor import Tensor
from ...ops import arange, reshape, trunc, where
from .op_decorators import ArrayOrTensor, SettingError, layer
from .sliding_window import (
    Counts,
    Size,
    Windows,
    expand_setting,
    get_windows,
    pad_array,
    resolve_stride,
)

__all__ = [
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool1d_with_indices",
    "max_pool2d", "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices",
]  # fmt: skip

# Maximum ------------------------------------------------------------------------------------


@layer(
    dtypes="if",
    public="max_pool2d max_pool1d max_pool3d adaptive_max_pool1d adaptive_max_pool2d "
    "adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d",
    node="MaxPool2DWithIndicesBackward0 if len(kernel_size) == 2 else "
    "MaxPool3DWithIndicesBackward0 if len(kernel_size) == 3 else MaxPool1DBackward0",
)
def max_pool(
    xp: Namespace, input: Array, kernel_size: Counts, stride: Counts, padding: Counts,
    dilation: Counts, ceil_mode: bool,
) -> Array:  # fmt: skip
    """The maximum of each window: see `max_pool2d`."""
    windows = get_windows(
        "max_pool", input.shape, kernel_size, stride, padding, dilation, ceil_mode
    )
    image = pad_array(xp, input, windows.pads, lowest_value(xp, input))
    first, *others = windows.taps
    y = image[first].copy()
    for tap in others:
        xp.maximum(y, image[tap], out=y)
    return y


def lowest_value(xp: Namespace, input: Array) -> float:
    """Return the padding value of a max pooling: the lowest value of the dtype."""
    return xp.iinfo(input.dtype).min if input.dtype.kind in "iu" else float("-inf")


@layer(public="max_pool2d max_pool1d max_pool3d")
def max_pool_indices(xp: Namespace, input: Array, settings: tuple[Any, ...]) -> Array:
    """The index of the tap with the maximum of each window: the first maximum, the last NaN.

    The padding is never chosen, not even where all elements of a window equal it: -∞, or the least
    integer. A window that lies in the padding has the tap -1.
    """
    windows = get_windows("max_pool", input.shape, *settings)
    image = pad_array(xp, input, windows.pads, lowest_value(xp, input))
    largest = max_pool.op.forward(xp, input, *settings)
    if largest.__class__ is ndarray and largest.size and largest.min() > lowest_value(xp, input):
        return first_maximal_tap(xp, image, largest, windows)
    is_floating = input.dtype.kind not in "iu"
    shape = (*input.shape[: -windows.rank], *windows.count)
    best = xp.full(shape, lowest_value(xp, input), input.dtype)
    tap = xp.zeros(shape, "int8" if len(windows.taps) < 128 else "int32")
    if any(map(max, windows.pads)):
        tap += first_inner_tap(xp, windows).astype(tap.dtype)
    for index, tap_slice in enumerate(windows.taps):
        values = image[tap_slice]
        wins = values > best
        if is_floating:
            wins |= values != values
        xp.copyto(best, values, where=wins)
        xp.copyto(tap, index, where=wins)
    return tap


def first_maximal_tap(xp: Namespace, image: Array, largest: Array, windows: Windows) -> Array:
    """Return the index of the first tap that equals the maximum, which is not NaN.

    The index is counted up: by one for each tap before the maximum is found.
    """
    searching = xp.ones(largest.shape, "bool")
    tap = xp.zeros(largest.shape, "int8" if len(windows.taps) < 128 else "int32")
    for tap_slice in windows.taps[:-1]:
        searching &= image[tap_slice] != largest
        tap += searching
    return tap


def first_inner_tap(xp: Namespace, windows: Windows) -> Array:
    """Return the first tap of each window that lies in the image, or -1."""
    first, misses_image = xp.zeros((), int), xp.zeros((), bool)
    for axis in range(windows.rank):
        dilation, kernel = windows.dilation[axis], windows.kernel[axis]
        start = xp.arange(windows.count[axis]) * windows.stride[axis] - windows.padding[axis]
        tap = xp.maximum(-(start // dilation), 0)
        is_outside = (start + tap * dilation >= windows.sizes[axis]) | (tap >= kernel)
        first = first[..., None] * kernel + tap
        misses_image = misses_image[..., None] | is_outside
    return xp.where(misses_image, -1, first)


@layer(
    public="max_pool2d max_pool1d max_pool3d max_unpool1d max_unpool2d max_unpool3d",
    accumulates=True,
    node="MaxPool2DWithIndicesBackwardBackward0",
)
def max_pool_scatter(
    xp: Namespace, input: Array, tap: Array, shape: Sequence[int], settings: tuple[Any, ...]
) -> Array:
    """Scatter each element to the tap that it was taken from."""
    windows = get_windows("max_pool", shape, *settings)
    y = pad_array(xp, xp.zeros(tuple(shape), input.dtype), windows.pads)
    for index, tap_slice in enumerate(windows.taps):
        if windows.disjoint:
            xp.copyto(y[tap_slice], input, where=tap == index)
        else:
            y[tap_slice] += xp.where(tap == index, input, 0)  # ∞ · 0 would be NaN
    return windows.crop(y)


@layer(public="max_pool2d max_pool1d max_pool3d", node="GatherBackward0")
def max_pool_gather(xp: Namespace, input: Array, tap: Array, settings: tuple[Any, ...]) -> Array:
    """Gather from each window the element at its tap: the transpose of `max_pool_scatter`."""
    windows = get_windows("max_pool", input.shape, *settings)
    image = pad_array(xp, input, windows.pads)
    y = xp.zeros(tap.shape, input.dtype)
    for index, tap_slice in enumerate(windows.taps):
        xp.copyto(y, image[tap_slice], where=tap == index)
    return y


def max_pool_backward(
    g: ArrayOrTensor, input: ArrayOrTensor, kernel_size: Counts, stride: Counts, padding: Counts,
    dilation: Counts, ceil_mode: bool,
) -> Any:  # fmt: skip
    """The gradient of max pooling, from the input: the output may have been overwritten."""
    settings = kernel_size, stride, padding, dilation, ceil_mode
    tap = max_pool_indices(input, settings)
    return max_pool_scatter(g, tap, tuple(input.shape), settings)


max_pool.vjp(input=max_pool_backward, latex=r"g\ \text{to the largest}")
max_pool_scatter.vjp(
    input=lambda g, tap, settings: max_pool_gather(g, tap, settings),
    latex=r"g\ \text{from its place}",
)
max_pool_gather.vjp(
    input=lambda g, tap, input_shape, settings: max_pool_scatter(g, tap, input_shape, settings),
    latex=r"g\ \text{to its place}",
)


def expand_window(
    name: str, rank: int, kernel_size: Size, stride: Size | None, padding: Size
) -> tuple[Counts, Counts, Counts]:
    """Read the size, the step and the border of windows: integers for all axes, or one for each."""
    if kernel_size.__class__ is padding.__class__ is int and stride is None:
        kernel = (kernel_size,) * rank
        return kernel, kernel, (padding,) * rank  # type: ignore[return-value]
    kernel = expand_setting(kernel_size, rank, name)
    return kernel, resolve_stride(stride, kernel, name), expand_setting(padding, rank, name)


def max_pool_nd(
    rank: int, input: Tensor, kernel_size: Size, stride: Size | None, padding: Size, dilation: Size,
    ceil_mode: bool, return_indices: bool,
) -> Any:  # fmt: skip
    """`max_pool1d`, `max_pool2d` and `max_pool3d` for 1, 2 and 3 axes."""
    name = f"max_pool{rank}d"
    kernel, step, border = expand_window(name, rank, kernel_size, stride, padding)
    settings = (kernel, step, border, expand_setting(dilation, rank, name), ceil_mode)
    values = max_pool(input, *settings)
    if not return_indices:
        return values
    windows = get_windows("max_pool", input.shape, *settings)
    return values, tap_to_index(windows, max_pool_indices(input, settings))


def tap_to_index(windows: Windows, tap: Tensor) -> Tensor:
    """Convert a tap index into a flat index in the image (row-major)."""
    tap, rank = tap.long(), windows.rank
    position: Any = 0
    for axis in range(rank):
        positions = arange(windows.count[axis], device=tap.device) * windows.stride[axis]
        positions = reshape(positions - windows.padding[axis], (-1,) + (1,) * (rank - 1 - axis))
        offset = tap // math.prod(windows.kernel[axis + 1 :]) % windows.kernel[axis]
        position = position * windows.sizes[axis] + positions + offset * windows.dilation[axis]
    return where(tap < 0, -1, position) if windows.may_miss_image else position


def max_pool2d(
    input: Tensor, kernel_size: Size, stride: Size | None = None, padding: Size = 0,
    dilation: Size = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """2-d max pooling: the maximum of each window.

    Args:
        stride: the step of the window, by default its size.
        padding: the width of a border of -∞.
        dilation: the step between the taps of the window.
        ceil_mode: allow a last window that exceeds the image.
        return_indices: also return the flat index of each maximum (row-major).

    Raises: ShapeError: not an image, or smaller than the window.

    >>> nn.functional.max_pool2d(arange(16.0).reshape(1, 1, 4, 4), 2)
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    """
    return max_pool_nd(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool1d(
    input: Tensor, kernel_size: Size, stride: Size | None = None, padding: Size = 0,
    dilation: Size = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """1-d max pooling: the maximum of each window; see `max_pool2d`.

    >>> nn.functional.max_pool1d(tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[3., 2.]])
    """
    return max_pool_nd(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: Tensor, kernel_size: Size, stride: Size | None = None, padding: Size = 0,
    dilation: Size = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """3-d max pooling: the maximum of each window; see `max_pool2d`.

    >>> nn.functional.max_pool3d(arange(8.0).reshape(1, 2, 2, 2), 2)
    tensor([[[[7.]]]])
    """
    return max_pool_nd(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool1d_with_indices(
    input: Tensor, kernel_size: Size, stride: Size | None = None, padding: Size = 0,
    dilation: Size = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`max_pool1d` with the indices of the maxima.

    >>> nn.functional.max_pool1d_with_indices(tensor([[1.0, 3.0, 2.0, 0.0]]), 2)[1]
    tensor([[1, 2]])
    """
    return max_pool_nd(1, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool2d_with_indices(
    input: Tensor, kernel_size: Size, stride: Size | None = None, padding: Size = 0,
    dilation: Size = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`max_pool2d` with the flat indices of the maxima (row-major).

    >>> nn.functional.max_pool2d_with_indices(arange(4.0).reshape(1, 2, 2), 2)[1]
    tensor([[[3]]])
    """
    return max_pool_nd(2, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool3d_with_indices(
    input: Tensor, kernel_size: Size, stride: Size | None = None, padding: Size = 0,
    dilation: Size = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`max_pool3d` with the indices of the maxima.

    >>> nn.functional.max_pool3d_with_indices(arange(8.0).reshape(1, 2, 2, 2), 2)[1]
    tensor([[[[7]]]])
    """
    return max_pool_nd(3, input, kernel_size, stride, padding, dilation, ceil_mode, True)


# Average ------------------------------------------------------------------------------------


def pool_divisors(
    xp: Namespace, windows: Windows, count_include_pad: bool, divisor_override: int | None,
    dtype: array_dtype,
) -> Any:  # fmt: skip
    """Return what the sum of each window is divided by."""
    if divisor_override is not None:
        return divisor_override
    if not any(map(max, windows.pads)):  # no window exceeds the image
        return xp.full((1,) * windows.rank, math.prod(windows.kernel), dtype)
    y: Any = 1
    for axis in range(windows.rank):
        n, p = windows.sizes[axis], windows.padding[axis]
        start = xp.arange(windows.count[axis]) * windows.stride[axis] - p
        end = xp.minimum(start + windows.kernel[axis], n + p)
        if not count_include_pad:
            start, end = xp.maximum(start, 0), xp.minimum(end, n)
        y = y * (end - start).reshape((-1,) + (1,) * (windows.rank - 1 - axis))
    return y.astype(dtype)


@layer(
    dtypes="if",
    accumulates=True,
    public="avg_pool2d avg_pool1d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d "
    "adaptive_avg_pool3d lp_pool1d lp_pool2d lp_pool3d",
    node="AvgPool2DBackward0 if len(kernel_size) == 2 else "
    "AvgPool3DBackward0 if len(kernel_size) == 3 else AvgPool1DBackward0",
)
def avg_pool(
    xp: Namespace, input: Array, kernel_size: Counts, stride: Counts, padding: Counts,
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> Array:  # fmt: skip
    """The average of each window: see `avg_pool2d`."""
    ones = (1,) * len(kernel_size)
    windows = get_windows("avg_pool", input.shape, kernel_size, stride, padding, ones, ceil_mode)
    image = pad_array(xp, input, windows.pads)
    total = xp.zeros((*input.shape[: -windows.rank], *windows.count), input.dtype)
    for tap in windows.taps:
        total += image[tap]
    return total / pool_divisors(xp, windows, count_include_pad, divisor_override, input.dtype)


@layer(
    dtypes="if",
    public="avg_pool2d avg_pool1d avg_pool3d",
    accumulates=True,
    node="AvgPool2DBackwardBackward0",
)
def avg_pool_grad(
    xp: Namespace, input: Array, shape: Sequence[int], settings: tuple[Any, ...]
) -> Array:
    """Spread each element evenly over its window: the transpose of `avg_pool`."""
    kernel, stride, padding, ceil_mode, include, override = settings
    windows = get_windows("avg_pool", shape, kernel, stride, padding, (1,) * len(kernel), ceil_mode)
    share = input / pool_divisors(xp, windows, include, override, input.dtype)
    y = pad_array(xp, xp.zeros(tuple(shape), input.dtype), windows.pads)
    for tap in windows.taps:
        if windows.disjoint:
            y[tap] = share
        else:
            y[tap] += share
    return windows.crop(y)


avg_pool.vjp(
    input=lambda g, input_shape, kernel_size, stride, padding, ceil_mode, count_include_pad,
    divisor_override: avg_pool_grad(
        g, input_shape,
        (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override),
    ),
    latex=r"\tfrac{g}{n}\ \text{to each of the window}",
)  # fmt: skip
avg_pool_grad.vjp(input=lambda g, settings: avg_pool(g, *settings), latex=r"\text{average of } g")


def avg_pool_nd(
    rank: int, input: Tensor, kernel_size: Size, stride: Size | None, padding: Size,
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """`avg_pool1d`, `avg_pool2d` and `avg_pool3d` for 1, 2 and 3 axes."""
    name = f"avg_pool{rank}d"
    if divisor_override == 0:
        raise SettingError(name, "divisor must be not zero")
    kernel, step, border = expand_window(name, rank, kernel_size, stride, padding)
    y = avg_pool(input, kernel, step, border, ceil_mode, count_include_pad, divisor_override)
    if (
        y._array.dtype is not input._array.dtype
        and y._array.dtype != input._array.dtype
        and not input.is_floating_point()
    ):
        return trunc(y).to(input.dtype)  # integer tensors keep their dtype, as in PyTorch
    return y


@takes_out
def avg_pool2d(
    input: Tensor, kernel_size: Size, stride: Size | None = None, padding: Size = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """2-d average pooling: the mean of each window.

    Args: as for `max_pool2d`; `count_include_pad` counts the zeros of the padding too,
        `divisor_override` replaces the number of elements as the divisor.

    Raises: ShapeError: not an image, or smaller than the window.

    >>> nn.functional.avg_pool2d(arange(16.0).reshape(1, 1, 4, 4), 2)
    tensor([[[[ 2.5000,  4.5000],
              [10.5000, 12.5000]]]])
    """
    settings = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return avg_pool_nd(2, input, *settings)


def avg_pool1d(
    input: Tensor, kernel_size: Size, stride: Size | None = None, padding: Size = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """1-d average pooling: the mean of each window; see `avg_pool2d`.

    >>> nn.functional.avg_pool1d(tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[2., 1.]])
    """
    return avg_pool_nd(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


@takes_out
def avg_pool3d(
    input: Tensor, kernel_size: Size, stride: Size | None = None, padding: Size = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """3-d average pooling: the mean of each window; see `avg_pool2d`.

    >>> nn.functional.avg_pool3d(arange(8.0).reshape(1, 2, 2, 2), 2)
    tensor([[[[3.5000]]]])
    """
    settings = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return avg_pool_nd(3, input, *settings)
