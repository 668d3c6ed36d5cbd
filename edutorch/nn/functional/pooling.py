"""Pooling: one number for each window of an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...backends.numpy import Array
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops import arange, cat, mean, narrow
from .layer import layer
from .windows import Pair, padded, pair, places, taps

__all__ = ["adaptive_avg_pool2d", "avg_pool2d", "max_pool2d"]

Size = int | Sequence[int]


class Windows:
    """Where the windows of one pooling stand."""

    def __init__(
        self, op: str, shape: Sequence[int], kernel: Size, stride: Size | None, padding: Size,
        dilation: Size, ceil_mode: bool,
    ) -> None:  # fmt: skip
        if len(shape) not in (3, 4):
            raise ShapeError(
                op, "expected an image (c h w) or a batch of images (n c h w)", {"input": shape}
            )
        self.image = tuple(shape[-2:])
        self.kernel, self.dilation, self.padding = pair(kernel), pair(dilation), pair(padding)
        self.stride = self.kernel if stride is None or stride == () else pair(stride)
        if any(2 * p > k for p, k in zip(self.padding, self.kernel, strict=True)):
            raise ShapeError(
                op, "pad should be at most half of effective kernel size",
                {"padding": self.padding, "kernel_size": self.kernel},
            )  # fmt: skip
        self.count = self._count(op, shape, ceil_mode)

    def _count(self, op: str, shape: Sequence[int], ceil_mode: bool) -> Pair:
        counts, settings = [], (self.image, self.kernel, self.stride, self.padding, self.dilation)
        for n, k, s, p, d in zip(*settings, strict=True):
            number = places(n + (s - 1 if ceil_mode else 0), k, s, (p, p), d)
            if ceil_mode and (number - 1) * s >= n + p:
                number -= 1  # a window must begin inside the image or its left border
            counts.append(number)
        if min(counts) < 1:
            raise ShapeError(
                op, "the window is larger than the image: the output would be empty",
                {"input": tuple(shape), "kernel_size": self.kernel, "padding": self.padding},
                "the image has become too small: use fewer poolings and strides",
            )  # fmt: skip
        return counts[0], counts[1]

    @property
    def pads(self) -> tuple[Pair, Pair]:
        """The border, wide enough for the last window also with `ceil_mode`."""
        far = [
            max(p, d * (k - 1) + s * (c - 1) + 1 - n - p)
            for n, k, s, p, d, c in zip(
                self.image, self.kernel, self.stride, self.padding, self.dilation, self.count,
                strict=True,
            )
        ]  # fmt: skip
        return (self.padding[0], far[0]), (self.padding[1], far[1])

    @property
    def apart(self) -> bool:
        """Say whether no two windows see the same number."""
        reach = (d * (k - 1) + 1 for d, k in zip(self.dilation, self.kernel, strict=True))
        return all(s >= r for s, r in zip(self.stride, reach, strict=True))

    def taps(self) -> list[tuple[int, int, tuple[Any, slice, slice]]]:
        """List the taps; see `windows.taps`."""
        return list(taps(self.kernel, self.stride, self.dilation, self.count))

    def inside(self, y: Array) -> Array:
        """Cut the border off."""
        (top, _), (left, _) = self.pads
        return y[..., top : top + self.image[0], left : left + self.image[1]]


# The largest --------------------------------------------------------------------------------


@layer()
def max_pool(
    xp: Any, input: Array, kernel_size: Size, stride: Size | None, padding: Size, dilation: Size,
    ceil_mode: bool,
) -> Array:  # fmt: skip
    """The largest number of each window: see `max_pool2d`."""
    windows = Windows("max_pool2d", input.shape, kernel_size, stride, padding, dilation, ceil_mode)
    image = padded(xp, input, windows.pads, lowest(xp, input))
    first, *others = windows.taps()
    y = image[first[2]].copy()
    for _, _, place in others:
        xp.maximum(y, image[place], out=y)
    return y


def lowest(xp: Any, input: Array) -> float:
    """Return a border's number, which never wins."""
    return xp.iinfo(input.dtype).min if input.dtype.kind in "iu" else float("-inf")


@layer()
def winning_tap(xp: Any, input: Array, settings: tuple[Any, ...]) -> Array:
    """The number of the tap that sees the largest number, the first of several.

    It is the number of taps before it: each place counts until its largest is found.
    """
    windows = Windows("max_pool2d", input.shape, *settings)
    image = padded(xp, input, windows.pads, lowest(xp, input))
    best = max_pool.op.forward(xp, input, *settings)
    all_taps = windows.taps()
    searching = xp.ones(best.shape, "bool")
    tap = xp.zeros(best.shape, "int8" if len(all_taps) < 128 else "int32")
    for _, _, place in all_taps[:-1]:
        searching &= image[place] != best
        tap += searching
    return tap


@layer()
def tap_spread(
    xp: Any, input: Array, tap: Array, shape: Sequence[int], settings: tuple[Any, ...]
) -> Array:
    """Each number goes back to the tap that it came from."""
    windows = Windows("max_pool2d", shape, *settings)
    y = padded(xp, xp.zeros(tuple(shape), input.dtype), windows.pads)
    for number, (_, _, place) in enumerate(windows.taps()):
        if windows.apart:
            xp.multiply(input, tap == number, y[place])
        else:
            y[place] += input * (tap == number)
    return windows.inside(y)


@layer()
def tap_pick(xp: Any, input: Array, tap: Array, settings: tuple[Any, ...]) -> Array:
    """At each place the number that the given tap sees: the other way of `tap_spread`."""
    windows = Windows("max_pool2d", input.shape, *settings)
    image = padded(xp, input, windows.pads)
    y = xp.zeros(tap.shape, input.dtype)
    for number, (_, _, place) in enumerate(windows.taps()):
        xp.copyto(y, image[place], where=tap == number)
    return y


def back_to_the_largest(g: Any, input: Any, *settings: Any) -> Any:
    """The output is not asked which was the largest: a ReLU may have overwritten it since."""
    tap = winning_tap(input, settings)
    return tap_spread(g, tap, tuple(input.shape), settings)


max_pool.vjp(
    input=lambda g, input, kernel_size, stride, padding, dilation, ceil_mode: back_to_the_largest(
        g, input, kernel_size, stride, padding, dilation, ceil_mode
    ),
    latex=r"g\ \text{to the largest}",
)
tap_spread.vjp(
    input=lambda g, tap, settings: tap_pick(g, tap, settings), latex=r"g\ \text{from its place}"
)
tap_pick.vjp(
    input=lambda g, tap, input_shape, settings: tap_spread(g, tap, input_shape, settings),
    latex=r"g\ \text{to its place}",
)


def max_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest number of each window.

    Args:
        stride: how far the window moves, by default its own size.
        ceil_mode: let a last window reach over the edge.
        return_indices: also say where in the image (row by row) each was found.

    Raises: ShapeError: not an image, or smaller than the window.

    >>> nn.functional.max_pool2d(arange(16.0).reshape(1, 1, 4, 4), 2)
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    """
    settings = (kernel_size, stride, padding, dilation, ceil_mode)
    values = max_pool(input, *settings)
    if not return_indices:
        return values
    tap = winning_tap(input, settings)
    return values, found_at(Windows("max_pool2d", input.shape, *settings), tap)


def found_at(windows: Windows, tap: Tensor) -> Tensor:
    """Turn the number of a tap into a position in the image."""
    (p, q), (_, width) = windows.count, windows.image
    tap = tap.long()
    i, j = tap // windows.kernel[1], tap % windows.kernel[1]
    rows = arange(p, device=tap.device).reshape(-1, 1) * windows.stride[0] - windows.padding[0]
    across = arange(q, device=tap.device) * windows.stride[1] - windows.padding[1]
    return (rows + i * windows.dilation[0]) * width + across + j * windows.dilation[1]


# The average --------------------------------------------------------------------------------


def divisors(
    xp: Any, windows: Windows, count_include_pad: bool, divisor_override: int | None, dtype: Any
) -> Any:
    """Return what the sum of each window is divided by."""
    if divisor_override:
        return divisor_override
    sizes = []
    for axis in (0, 1):
        n, p = windows.image[axis], windows.padding[axis]
        start = xp.arange(windows.count[axis]) * windows.stride[axis] - p
        end = xp.minimum(start + windows.kernel[axis], n + p)
        if not count_include_pad:
            start, end = xp.maximum(start, 0), xp.minimum(end, n)
        sizes.append(end - start)
    return (sizes[0][:, None] * sizes[1][None, :]).astype(dtype)


@layer()
def avg_pool2d(
    xp: Any,
    input: Array,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """The average of each window.

    Args: as for `max_pool2d`; `count_include_pad` counts the zeros of the border too,
        `divisor_override` is what to divide by instead.

    Raises: ShapeError: not an image, or smaller than the window.

    >>> nn.functional.avg_pool2d(arange(16.0).reshape(1, 1, 4, 4), 2)
    tensor([[[[ 2.5000,  4.5000],
              [10.5000, 12.5000]]]])
    """
    windows = Windows("avg_pool2d", input.shape, kernel_size, stride, padding, 1, ceil_mode)
    image = padded(xp, input, windows.pads)
    total = xp.zeros((*input.shape[:-2], *windows.count), input.dtype)
    for _, _, place in windows.taps():
        total += image[place]
    return total / divisors(xp, windows, count_include_pad, divisor_override, input.dtype)


@layer()
def avg_spread(xp: Any, input: Array, shape: Sequence[int], settings: tuple[Any, ...]) -> Array:
    """Each number is shared out evenly among its window: the other way of `avg_pool2d`."""
    kernel, stride, padding, ceil_mode, include, override = settings
    windows = Windows("avg_pool2d", shape, kernel, stride, padding, 1, ceil_mode)
    share = input / divisors(xp, windows, include, override, input.dtype)
    y = padded(xp, xp.zeros(tuple(shape), input.dtype), windows.pads)
    for _, _, place in windows.taps():
        if windows.apart:
            y[place] = share
        else:
            y[place] += share
    return windows.inside(y)


avg_pool2d.vjp(
    input=lambda g, input_shape, kernel_size, stride, padding, ceil_mode, count_include_pad,
    divisor_override: avg_spread(
        g, input_shape,
        (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override),
    ),
    latex=r"\tfrac{g}{n}\ \text{to each of the window}",
)  # fmt: skip
avg_spread.vjp(input=lambda g, settings: avg_pool2d(g, *settings), latex=r"\text{average of } g")


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Averages of windows that are chosen so that the output has the given size.

    >>> nn.functional.adaptive_avg_pool2d(ones(1, 2, 5, 7), 1).shape
    torch.Size([1, 2, 1, 1])
    """
    height, width = input.shape[-2:]
    wanted = (output_size, output_size) if isinstance(output_size, int) else tuple(output_size)
    rows, across = (
        size if want is None else want for want, size in zip(wanted, (height, width), strict=True)
    )
    if rows == across == 1:
        return mean(input, (-2, -1), True)
    if height % rows == 0 and width % across == 0:
        return avg_pool2d(input, (height // rows, width // across))
    return stretched_average(stretched_average(input, -2, rows), -1, across)


def stretched_average(input: Tensor, dim: int, count: int) -> Tensor:
    """Averages along one axis over `count` windows from ⌊i·n/count⌋ to ⌈(i+1)·n/count⌉."""
    size = input.shape[dim]
    parts = []
    for i in range(count):
        start, end = i * size // count, -(-(i + 1) * size // count)
        parts.append(mean(narrow(input, dim, start, end - start), dim, True))
    return cat(parts, dim)
