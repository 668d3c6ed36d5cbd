"""Pooling: one number for each window of a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..table import onnx_op
from ..values import F, Ints, Value, dtype_of, ints, is_float, rank_of, torch
from .convolution import Sizes, Window, compact, padded, settings, window_of


def fitted_window(X: Value, window: Window, ceil_mode: int) -> Window:
    """Return a window whose padding lets the last, incomplete window in, if that is wanted."""
    if not ceil_mode:
        return window
    after = list(window.after)
    for i, (step, span) in enumerate(zip(window.strides, window.spans, strict=True)):
        length = int(X.shape[i + 2])
        room = length + window.before[i] + window.after[i] - span
        count = -(-room // step) + 1
        if (count - 1) * step >= length + window.before[i]:
            count -= 1  # it would begin in the padding behind the picture
        after[i] += max((count - 1) * step - room, 0)
    return window._replace(after=after)


def unfolded(X: Value, window: Window, value: float) -> Value:
    """Return every window: shape (n, channels, *windows, *kernel)."""
    X, count = padded(X, window, value), len(window.kernel)
    for i in range(count):
        length = int(X.shape[i + 2])
        windows = (length - window.spans[i]) // window.strides[i] + 1
        starts = torch.arange(windows) * window.strides[i]
        holes = torch.arange(window.kernel[i]) * window.dilations[i]
        positions = (starts.unsqueeze(1) + holes).flatten()
        X = torch.index_select(X, i + 2, positions)
        X = X.unflatten(i + 2, [windows, window.kernel[i]])
        X = torch.movedim(X, i + 3, -1)
    return X


@onnx_op("MaxPool")
def max_pool(
    X: Value, *, kernel_shape: Sequence[int], auto_pad: str = "NOTSET", ceil_mode: int = 0,
    dilations: Sizes = None, pads: Sizes = None, storage_order: int = 0, strides: Sizes = None,
    outputs: int = 1,
) -> Any:  # fmt: skip
    """The largest number of each window, and where it is."""
    window = window_of(X, kernel_shape, strides, dilations, pads, auto_pad)
    small = all(2 * p <= k for p, k in zip(window.before, window.kernel, strict=True))
    count = len(window.kernel)
    if outputs == 1 and window.is_symmetric and small and is_float(X) and count < 4:
        function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[count - 1]
        keywords = settings(padding=compact(window.before), dilation=compact(window.dilations))
        keywords |= {"ceil_mode": True} if ceil_mode else {}
        return function(X, compact(window.kernel), compact(window.strides), **keywords)
    lowest = -math.inf if is_float(X) else torch.iinfo(dtype_of(X)).min
    window = fitted_window(X, window, ceil_mode)
    windows = unfolded(X, window, lowest).flatten(-count)
    if outputs == 1:
        return torch.amax(windows, -1)
    best, where = windows.max(-1)
    return best, flat_positions(X, where, window, storage_order)


def flat_positions(X: Value, where: Value, window: Window, storage_order: int) -> Value:
    """Return the position of each maximum in the whole input, as if that were flat."""
    sizes, strides = [int(size) for size in X.shape[2:]], [0] * len(window.kernel)
    order = range(len(sizes)) if storage_order else reversed(range(len(sizes)))
    area = 1
    for i in order:
        strides[i], area = area, area * sizes[i]
    result = torch.zeros_like(where)
    for i in reversed(range(len(sizes))):
        tap = where % window.kernel[i]
        where = where // window.kernel[i]
        starts = torch.arange(result.shape[i + 2]) * window.strides[i] - window.before[i]
        starts = starts.reshape([-1] + [1] * (len(sizes) - 1 - i))
        result = result + (starts + tap * window.dilations[i]) * strides[i]
    pictures = torch.arange(X.shape[0] * X.shape[1]).reshape([*X.shape[:2], *[1] * len(sizes)])
    return result + pictures * area


@onnx_op("AveragePool")
def average_pool(
    X: Value, *, kernel_shape: Sequence[int], auto_pad: str = "NOTSET", ceil_mode: int = 0,
    count_include_pad: int = 0, dilations: Sizes = None, pads: Sizes = None,
    strides: Sizes = None,
) -> Value:  # fmt: skip
    """The mean of each window, with or without the padding in it."""
    window = window_of(X, kernel_shape, strides, dilations, pads, auto_pad)
    count = len(window.kernel)
    plain = window.is_symmetric and set(window.dilations) == {1} and count < 4
    if plain and all(2 * p <= k for p, k in zip(window.before, window.kernel, strict=True)):
        function = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[count - 1]
        keywords = settings(padding=compact(window.before))
        keywords |= {"ceil_mode": True} if ceil_mode else {}
        if "padding" in keywords and not count_include_pad:
            keywords["count_include_pad"] = False
        return function(X, compact(window.kernel), compact(window.strides), **keywords)
    wide = fitted_window(X, window, ceil_mode)
    inside = torch.ones([1, 1, *X.shape[2:]], dtype=X.dtype)
    if count_include_pad:  # the padding counts, but not what lies beyond it
        inside = padded(inside, window, 1.0)
        beyond = [b - a for b, a in zip(wide.after, window.after, strict=True)]
        wide_inside = window._replace(before=[0] * count, after=beyond)
    else:
        wide_inside = wide
    total = unfolded(X, wide, 0.0).flatten(-count).sum(-1)
    return total / unfolded(inside, wide_inside, 0.0).flatten(-count).sum(-1)


@onnx_op("LpPool")
def lp_pool(
    X: Value, *, kernel_shape: Sequence[int], auto_pad: str = "NOTSET", ceil_mode: int = 0,
    dilations: Sizes = None, p: int = 2, pads: Sizes = None, strides: Sizes = None,
) -> Value:  # fmt: skip
    """The p-norm of each window."""
    window = window_of(X, kernel_shape, strides, dilations, pads, auto_pad)
    windows = unfolded(X, fitted_window(X, window, ceil_mode), 0.0).flatten(-len(kernel_shape))
    return windows.abs().pow(p).sum(-1).pow(1 / p)


def picture_axes(X: Value) -> list[int]:
    """Return the axes behind the channels. Raises: NotKnownError."""
    return list(range(2, rank_of(X)))


@onnx_op("GlobalAveragePool")
def global_average_pool(X: Value) -> Value:
    """The mean of each channel."""
    return torch.mean(X, picture_axes(X), True)


@onnx_op("GlobalMaxPool")
def global_max_pool(X: Value) -> Value:
    """The largest number of each channel."""
    return torch.amax(X, picture_axes(X), True)


@onnx_op("GlobalLpPool")
def global_lp_pool(X: Value, *, p: int = 2) -> Value:
    """The p-norm of each channel."""
    return torch.sum(torch.abs(X) ** p, picture_axes(X), True) ** (1 / p)


@onnx_op("MaxUnpool")
def max_unpool(
    X: Value, I: Value, output_shape: Ints = None, *, kernel_shape: Sequence[int],  # noqa: E741
    pads: Sizes = None, strides: Sizes = None,
) -> Value:  # fmt: skip
    """Put the numbers back to where MaxPool took them from; 0 elsewhere."""
    window = window_of(X, kernel_shape, strides, None, pads, "NOTSET")
    sizes = [
        (int(X.shape[i + 2]) - 1) * step + size - window.before[i] - window.after[i]
        for i, (step, size) in enumerate(zip(window.strides, window.kernel, strict=True))
    ]
    shape = [*X.shape[:2], *sizes]
    flat = torch.zeros([math.prod(shape)], dtype=X.dtype)
    result = torch.reshape(flat.scatter(0, I.flatten(), X.flatten()), shape)
    if output_shape is None:
        return result
    amounts = [(0, want - have) for want, have in zip(ints(output_shape), shape, strict=True)]
    return F.pad(result, [size for pair in reversed(amounts) for size in pair])
