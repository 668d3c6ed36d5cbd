"""Sliding windows: sizes, padding, the slice of the image under each tap, and windows as columns.

A window of i × j taps has p × q positions; a sequence has one such axis, a volume three.
Convolution and pooling are built on this.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from operator import mul
from typing import Any

from ... import backends
from ...backends.numpy import Array, Namespace
from ...core.tensor import Tensor
from ...errors import ShapeError, ShapeValueError
from ...ops import squeeze, unsqueeze
from .op_decorators import SettingError, layer

Pair = tuple[int, int]
Pads = tuple[Pair, ...]
Counts = tuple[int, ...]
Size = int | Sequence[int]


def expand_setting(value: int | Sequence[int], rank: int, op: str = "conv") -> tuple[int, ...]:
    """Read a setting for `rank` axes: one integer for all, or one for each.

    Raises: SettingError (a ValueError): a wrong number of values. TypeError: not integers.
    """
    setting: Any = value
    if setting.__class__ is int:
        return (setting,) * rank
    if isinstance(setting, tuple) and len(setting) == rank:
        return setting
    if isinstance(setting, str) or setting.__class__ is bool:
        raise TypeError("a window needs numbers")
    if hasattr(setting, "__index__") and not getattr(setting, "shape", ()):
        return (operator.index(setting),) * rank
    if len(setting) not in (1, rank):
        raise SettingError(op, f"expected one number or {rank}, got {tuple(setting)}")
    values = tuple(map(operator.index, setting))
    return values if len(values) == rank else values * rank


def resolve_stride(stride: Size | None, kernel: Counts, op: str) -> Counts:
    """Read a stride, by default the kernel size."""
    if stride is None or (isinstance(stride, list | tuple) and not stride):
        return kernel
    return expand_setting(stride, len(kernel), op)


def check_positive(op: str, **settings: Sequence[int]) -> None:
    """Raise SettingError if a kernel, a stride or a dilation is not positive."""
    for name, values in settings.items():
        if any(value < 1 for value in values):
            raise SettingError(op, f"non-positive {name} is not supported", {name: values})


def resolve_pads(
    padding: Size | Pads | str, kernel: Sequence[int], dilation: Sequence[int],
    stride: Sequence[int] = (),
) -> Pads:  # fmt: skip
    """Read `padding`: an integer, one for each axis, "valid", "same", or (before, after) pairs.

    Raises: SettingError (a ValueError): "same" with a stride, or an unknown word.
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
        return tuple((width // 2, width - width // 2) for width in total)
    if isinstance(padding, str):
        raise SettingError(
            f"conv{len(kernel)}d",
            f"padding must be a number, one for each axis, 'valid' or 'same', got {padding!r}",
        )
    widths: Any = padding
    if isinstance(widths, list | tuple) and widths and isinstance(widths[0], list | tuple):
        return tuple(widths)
    return tuple((width, width) for width in expand_setting(widths, len(kernel)))


def count_positions(size: int, kernel: int, stride: int, pads: Pair, dilation: int) -> int:
    """Return the number of window positions along one axis (0 or less: it does not fit)."""
    return (size + sum(pads) - dilation * (kernel - 1) - 1) // stride + 1


@functools.lru_cache(maxsize=256)
def output_shape(
    op: str, shape: Sequence[int], kernel: Counts, stride: Counts, pads: Pads, dilation: Counts
) -> Counts:
    """Return the number of window positions along each spatial axis of an image of `shape`.

    Raises: ShapeError: the window is larger than the padded image.
    """
    sizes = shape[len(shape) - len(kernel) :]
    count = tuple(
        count_positions(*settings)
        for settings in zip(sizes, kernel, stride, pads, dilation, strict=True)
    )
    if min(count) < 1:
        extent = tuple(d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True))
        raise ShapeError(
            op,
            "Kernel size can't be greater than actual input size",
            {"input": tuple(shape), "window": extent, "padding": pads},
            "the image has become too small: use fewer poolings and strides, or padding",
        )
    return count


def pad_array(xp: Namespace, input: Array, pads: Pads, value: float = 0) -> Array:
    """Return the image padded with a constant."""
    if not any(map(max, pads)):
        return input
    leading, sizes = input.shape[: -len(pads)], input.shape[-len(pads) :]
    shape = (*leading, *[a + n + b for n, (a, b) in zip(sizes, pads, strict=True)])
    y = xp.full(shape, value, input.dtype) if value else xp.zeros(shape, input.dtype)
    y[interior(pads, sizes)] = input
    return y


def interior(pads: Pads, sizes: Sequence[int]) -> tuple[Any, ...]:
    """Return the index of the image of these sizes inside its padding."""
    return (..., *[slice(a, a + n) for n, (a, _) in zip(sizes, pads, strict=True)])


def tap_slices(
    kernel: Counts, stride: Counts, dilation: Counts, count: Counts
) -> Iterator[tuple[Any, ...]]:
    """Yield the slice of the padded image under each tap, in row-major order."""
    spans = [
        [strided_slice(i * d, s, c) for i in range(k)]
        for k, s, d, c in zip(kernel, stride, dilation, count, strict=True)
    ]
    return ((..., *slices) for slices in itertools.product(*spans))


def strided_slice(start: int, step: int, count: int) -> slice:
    return slice(start, start + step * (count - 1) + 1, step)


class Windows:
    """The windows of one pooling, over as many axes as `kernel` has values.

    Attributes:
        pads: the padding, wide enough for the last window also with `ceil_mode`.
        disjoint: whether no two windows overlap.
        may_miss_image: whether all taps of a dilated window may lie in the padding.
        taps: the slice under each tap, in row-major order; see `tap_slices`.
    """

    def __init__(
        self, op: str, shape: Sequence[int], kernel: Counts, stride: Counts, padding: Counts,
        dilation: Counts, ceil_mode: bool,
    ) -> None:  # fmt: skip
        if 0 in stride:
            raise SettingError(op, "stride should not be zero", {"stride": stride})
        check_positive(op, kernel_size=kernel, stride=stride, dilation=dilation)
        self.rank = check_spatial_axes(op, shape, len(kernel))
        self.sizes = tuple(shape[-self.rank :])
        if 0 in shape[len(shape) - self.rank - 1 :]:
            raise ShapeError(
                f"{op}{self.rank}d", "only the batch may be empty", {"input": tuple(shape)}
            )
        self.kernel, self.stride, self.padding, self.dilation = kernel, stride, padding, dilation
        extent = tuple(d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True))
        if any(p < 0 or 2 * p > r for p, r in zip(padding, extent, strict=True)):
            raise ShapeError(
                op, "pad should be at most half of effective kernel size",
                {"padding": padding, "kernel_size": kernel},
            )  # fmt: skip
        self.count = self._count_positions(op, shape, ceil_mode)
        settings = zip(self.sizes, stride, padding, extent, self.count, strict=True)
        self.pads = tuple((p, max(p, r + s * (c - 1) - n - p)) for n, s, p, r, c in settings)
        self.disjoint = all(s >= r for s, r in zip(stride, extent, strict=True))
        self.may_miss_image = max(dilation) > 1 and any(map(max, self.pads))
        self.taps = list(tap_slices(kernel, stride, dilation, self.count))

    def _count_positions(self, op: str, shape: Sequence[int], ceil_mode: bool) -> Counts:
        counts, settings = [], (self.sizes, self.kernel, self.stride, self.padding, self.dilation)
        for n, k, s, p, d in zip(*settings, strict=True):
            positions = count_positions(n + (s - 1 if ceil_mode else 0), k, s, (p, p), d)
            if ceil_mode and (positions - 1) * s >= n + p:
                positions -= 1  # a window must begin inside the image or its left border
            counts.append(positions)
        if min(counts) < 1:
            raise ShapeError(
                op, "the window is larger than the image: the output would be empty",
                {"input": tuple(shape), "kernel_size": self.kernel, "padding": self.padding},
                "the image has become too small: use fewer poolings and strides",
            )  # fmt: skip
        return tuple(counts)

    def crop(self, y: Array) -> Array:
        """Crop the padding."""
        return y[interior(self.pads, self.sizes)]


get_windows = functools.lru_cache(maxsize=256)(Windows)
"""`Windows`, cached: each training step uses the same ones."""

INPUT_NAMES = {1: "a sequence (c l)", 2: "an image (c h w)", 3: "a volume (c d h w)"}


def check_spatial_axes(op: str, shape: Sequence[int], rank: int) -> int:
    """Return `rank`, the number of axes behind the channels.

    Raises: ShapeError: there are not that many axes, with or without a batch.
    """
    if len(shape) in (rank + 1, rank + 2):
        return rank
    raise ShapeValueError(
        f"{op}{rank}d" if op in ("max_pool", "avg_pool") else op,
        f"expected {INPUT_NAMES[rank]} or a batch of them (n …)", {"input": tuple(shape)},
        "x.unsqueeze(0) adds the axis of the channels or of the batch",
    )  # fmt: skip


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


# Windows as columns ---------------------------------------------------------------------------


def im2col(
    xp: Namespace, x: Array, kernel: Counts, stride: Counts, dilation: Counts, count: Counts
) -> Array:
    """Return (n, c · i · j, p · q): each column holds the elements of one window."""
    x = xp.ascontiguousarray(x)
    batch, channel, *steps = x.strides
    tap_strides, window_strides = map(mul, steps, dilation), map(mul, steps, stride)
    shape = (*x.shape[:2], *kernel, *count)
    windows = backends.of(x).as_strided(
        x, shape, (batch, channel, *tap_strides, *window_strides), 0
    )
    return windows.reshape(x.shape[0], x.shape[1] * math.prod(kernel), math.prod(count))
