"""Sliding windows: sizes, padding, and the slice of the image under each tap.

A window of i × j taps has p × q positions; a sequence has one such axis, a volume three.
Convolution, pooling and folding share this.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import Any

from ...backends.numpy import Array, Namespace
from ...errors import ShapeError, ShapeValueError
from .op_decorators import SettingError

Pair = tuple[int, int]
Pads = tuple[Pair, ...]
Counts = tuple[int, ...]
Size = int | Sequence[int]


def expand_setting(value: int | Sequence[int], rank: int, op: str = "conv") -> tuple[int, ...]:
    """Read a setting for `rank` axes: one integer for all, or one for each.

    Raises: SettingError (a ValueError): a wrong number of values. TypeError: not integers.
    """
    if value.__class__ is int:
        return (value,) * rank
    if isinstance(value, tuple) and len(value) == rank:
        return value
    if isinstance(value, str) or value.__class__ is bool:
        raise TypeError("a window needs numbers")
    if hasattr(value, "__index__") and not getattr(value, "shape", ()):
        return (operator.index(value),) * rank
    if len(value) not in (1, rank):
        raise SettingError(op, f"expected one number or {rank}, got {tuple(value)}")
    values = tuple(map(operator.index, value))
    return values if len(values) == rank else values * rank


def resolve_stride(stride: Any, kernel: Counts, op: str) -> Counts:
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
    padding: Any, kernel: Sequence[int], dilation: Sequence[int], stride: Sequence[int] = ()
) -> Pads:
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
    if isinstance(padding, list | tuple) and padding and isinstance(padding[0], list | tuple):
        return tuple(padding)
    return tuple((width, width) for width in expand_setting(padding, len(kernel)))


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
    shape = (*leading, *(a + n + b for n, (a, b) in zip(sizes, pads, strict=True)))
    y = xp.full(shape, value, input.dtype) if value else xp.zeros(shape, input.dtype)
    y[interior(pads, sizes)] = input
    return y


def interior(pads: Pads, sizes: Sequence[int]) -> tuple[Any, ...]:
    """Return the index of the image of these sizes inside its padding."""
    return (..., *(slice(a, a + n) for n, (a, _) in zip(sizes, pads, strict=True)))


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
