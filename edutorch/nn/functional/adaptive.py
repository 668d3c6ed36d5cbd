"""Weighted sums of windows along an axis, and adaptive pooling, which is made of them.

In adaptive pooling the windows are chosen so that the output has the size that was asked for:
along an axis of n elements, window i of m spans from ⌊i·n/m⌋ to ⌈(i+1)·n/m⌉.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy
from numpy import isnan

from ... import backends
from ...backends.numpy import Array, Namespace
from ...core.composed import recorded_as
from ...core.error_messages import check_memory
from ...core.shapes import as_int
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...modes import no_grad
from ...ops import argmax, cat, flip, gather, index_select, mean, narrow, reshape, tensor, where
from ...ops import sum as total
from .op_decorators import SettingError, can_read, layer
from .pooling import avg_pool_nd
from .sliding_window import Counts, check_spatial_axes

Taps = list[list[tuple[int, float]]]
"""For each output position: the input positions it reads, and their weights."""


class TapTable(NamedTuple):
    """The taps of all output positions as arrays, padded to the same number of taps.

    Attributes:
        outputs: the number of output positions.
        width: the number of taps of each.
        is_gather: whether each output is one input element with weight 1.
    """

    positions: Any
    weights: Any
    outputs: int
    width: int
    is_gather: bool

    __hash__, __eq__ = object.__hash__, object.__eq__  # a table is itself alone: see `host_taps`

    @classmethod
    def from_taps(cls, taps: Taps) -> TapTable:
        """Pad shorter lists by splitting their last tap; a weight of 0 would give 0 · ∞."""
        width = max(map(len, taps), default=1)
        padded = [repeat_last_tap(tap, width - len(tap)) for tap in taps]
        positions = numpy.array(
            [position for taps_of_output in padded for position, _ in taps_of_output], "int64"
        )
        weights = numpy.array([weight for taps_of_output in padded for _, weight in taps_of_output])
        is_gather = width == 1 and bool((weights == 1).all())
        return cls(positions, weights, len(taps), width, is_gather)


def repeat_last_tap(taps: list[tuple[int, float]], missing: int) -> list[tuple[int, float]]:
    """Return taps with the last one repeated `missing` times, its weight split evenly."""
    position, weight = taps[-1]
    return taps[:-1] + [(position, weight / (missing + 1))] * (missing + 1)


@dataclass(frozen=True, eq=False)
class WindowSums:
    """The taps as lists of any length: those of output i are starts[i] to starts[i + 1].

    Attributes:
        size: the number of input positions.
    """

    starts: Any
    positions: Any
    weights: Any
    size: int

    @classmethod
    @lru_cache(128)
    def from_table(cls, table: TapTable, size: int) -> WindowSums:
        """Take the taps of a table."""
        starts = numpy.arange(table.outputs + 1) * table.width
        return cls(starts, table.positions, table.weights, size)

    @cached_property
    def width(self) -> int:
        """The number of taps of each output; 0 if not all have as many."""
        widths = numpy.unique(numpy.diff(self.starts))
        return int(widths[0]) if len(widths) == 1 else 0

    def weights_as(self, dtype: Any) -> Any:
        """Return the weights in the dtype of what they are multiplied with."""
        weights = self._weights.get(dtype)
        if weights is None:
            weights = self._weights[dtype] = self.weights.astype(dtype)
        return weights

    @cached_property
    def _weights(self) -> dict[Any, Any]:
        return {}

    def outputs_of_taps(self) -> Any:
        """Return the output position of each tap."""
        return numpy.repeat(numpy.arange(len(self.starts) - 1), numpy.diff(self.starts))

    @cached_property
    def transposed(self) -> WindowSums:
        """Return the taps from outputs to inputs: those of the derivative."""
        order = numpy.argsort(self.positions, kind="stable")
        starts = numpy.searchsorted(self.positions[order], numpy.arange(self.size + 1))
        return WindowSums(
            starts, self.outputs_of_taps()[order], self.weights[order], len(self.starts) - 1
        )


@layer(dtypes="f", linear=True, public="interpolate")
def resample_axis(xp: Namespace, input: Array, axis: int, taps: WindowSums) -> Array:
    """`resample` in one op, for devices with a kernel for it."""
    shape = (*input.shape[:axis], len(taps.starts) - 1, *input.shape[axis + 1 :])
    weights = xp.asarray(taps.weights_as(input.dtype))
    weights = weights.reshape((-1,) + (1,) * (input.ndim - axis - 1))
    y = xp.zeros(shape, input.dtype)
    index = (*(slice(None),) * axis, xp.asarray(taps.outputs_of_taps()))
    values = xp.take(input, xp.asarray(taps.positions), axis=axis) * weights
    backends.of(y).scatter_add(y, index, values)
    return y


resample_axis.vjp(
    input=lambda g, axis, taps: resample_axis(g, axis, taps.transposed),
    latex=r"g\ \text{spread over its window, by the same weights}",
)


FEW_TAPS = 4
"""Up to this many taps are added one by one, which is faster than a sum over a short axis. (A sum
of 16-bit floats is rounded only once, so these are summed.)"""


def has_kernel(input: Tensor) -> bool:
    """Return True if there is a kernel for `resample_axis` of this tensor."""
    array, slot = input._array, resample_axis.op.slot
    if not isinstance(array, numpy.ndarray):
        return bool(backends.of(array).kernels)
    if slot is None or array.dtype.char not in "fd":
        return False
    if slot.run is None:
        slot.request()
    return slot.run is not None


def resample(input: Tensor, axis: int, table: TapTable) -> Tensor:
    """Weighted sums along `axis`: y[i] = Σ weight · x[position], over the taps of output i."""
    if has_kernel(input):
        return resample_axis(input, axis, WindowSums.from_table(table, input._array.shape[axis]))
    positions, outputs, width, device = table.positions, table.outputs, table.width, input.device
    on_host = input._array.__class__ is numpy.ndarray
    if table.is_gather:
        index = positions if on_host else tensor(positions, device=device)
        return index_select(input, axis, index)
    leading, trailing = input.shape[:axis], input.shape[axis + 1 :]
    weights = tensor(table.weights, dtype=input.dtype, device=device)
    weights = reshape(weights, (outputs, width) + (1,) * len(trailing))
    if width > FEW_TAPS or input.element_size() < 4:
        values = index_select(input, axis, tensor(positions, device=device))
        return total(reshape(values, (*leading, outputs, width, *trailing)) * weights, axis + 1)
    y = index_select(input, axis, tensor(positions[::width], device=device)) * weights[:, 0]
    for tap in range(1, width):
        values = index_select(input, axis, tensor(positions[tap::width], device=device))
        y = y + values * weights[:, tap]
    return y


__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
]  # fmt: skip


# Windows --------------------------------------------------------------------------------------


OutputSize = int | Sequence[int | None] | None
"""One size for all axes or one for each; None keeps the size of the input."""

MEAN_WINDOW = 4
"""From this window size on, one mean per window is faster than a weighted sum."""


def resolve_output_size(op: str, rank: int, input: Tensor, output_size: OutputSize) -> Counts:
    """Read `output_size`: one size for all axes, or one for each, where None keeps the size.

    Raises: ShapeError: `input` has the wrong number of axes. SettingError: `output_size` does.
    """
    check_spatial_axes(op, input.shape, rank)
    if 0 in input.shape[-rank:]:
        raise ShapeError(op, "only the batch may be empty", {"input": tuple(input.shape)})
    sizes: Any = output_size
    if sizes.__class__ is int and sizes > 0:
        shape = (*input._array.shape[:-rank], *(sizes,) * rank)
        check_memory(op, shape, input._array.dtype, backends.of(input._array).xp)
        return (sizes,) * rank
    if sizes is None or sizes.__class__ is int:
        sizes = (sizes,) * rank
    elif not hasattr(sizes, "__len__") or (
        hasattr(sizes, "__index__") and not getattr(sizes, "shape", ())
    ):
        sizes = (as_int(op, sizes, "output_size"),) * rank  # a NumPy integer, or a tensor of one
    requested = [None if n is None else as_int(op, n, "output_size") for n in sizes]
    if len(requested) != rank or any(size is not None and size < 0 for size in requested):
        raise SettingError(op, f"output_size must be one size or {rank}, got {output_size}")
    sizes = tuple(
        n if target is None else target
        for target, n in zip(requested, input.shape[-rank:], strict=True)
    )
    check_memory(op, (*input.shape[:-rank], *sizes), input.dtype, backends.of(input._array).xp)
    return sizes


def window_bounds(size: int, count: int) -> list[tuple[int, int]]:
    """Return the start and end of each of `count` windows over `size` elements."""
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


# Average -------------------------------------------------------------------------------------


ALL_BUT_CHANNELS = {rank: tuple(range(2, rank + 2)) for rank in (1, 2, 3)}
"""The axes behind the batch and the channels, by their number."""


def adaptive_avg_pool_nd(rank: int, input: Tensor, output_size: OutputSize) -> Tensor:
    """`adaptive_avg_pool1d`, `…2d` and `…3d` for 1, 2 and 3 axes."""
    shape = input._array.shape
    if output_size.__class__ is int and output_size == 1 and len(shape) == rank + 2 and all(shape):
        return mean(input, ALL_BUT_CHANNELS[rank], True)  # the usual head of a network: one mean
    counts = resolve_output_size(f"adaptive_avg_pool{rank}d", rank, input, output_size)
    sizes = tuple(input.shape[-rank:])
    if all(count == 1 for count in counts):
        return mean(input, tuple(range(-rank, 0)), True)
    if all(m and n and n % m == 0 for n, m in zip(sizes, counts, strict=True)):
        window = tuple(n // m for n, m in zip(sizes, counts, strict=True))
        return avg_pool_nd(rank, input, window, None, 0, False, True)
    for axis, (n, m) in enumerate(zip(sizes, counts, strict=True), input.ndim - rank):
        windows = window_bounds(n, m)
        if 0 < m * MEAN_WINDOW <= n:
            parts = (narrow(input, axis, start, end - start) for start, end in windows)
            input = cat([mean(part, axis, True) for part in parts], axis)
            continue
        taps: Taps = [
            [(position, 1 / (end - start)) for position in range(start, end)]
            for start, end in windows
        ]
        input = resample(input, axis, TapTable.from_taps(taps))
    return input


def adaptive_avg_pool1d(input: Tensor, output_size: OutputSize) -> Tensor:
    """Adaptive average pooling of a sequence to the given length.

    >>> nn.functional.adaptive_avg_pool1d(tensor([[1.0, 3.0, 2.0, 0.0]]), 1)
    tensor([[1.5000]])
    """
    return adaptive_avg_pool_nd(1, input, output_size)


@recorded_as("AdaptiveAvgPool2DBackward0")
def adaptive_avg_pool2d(input: Tensor, output_size: OutputSize) -> Tensor:
    """Adaptive average pooling of an image to the given size.

    >>> nn.functional.adaptive_avg_pool2d(ones(1, 2, 5, 7), 1).shape
    torch.Size([1, 2, 1, 1])
    """
    return adaptive_avg_pool_nd(2, input, output_size)


@recorded_as("AdaptiveAvgPool3DBackward0")
def adaptive_avg_pool3d(input: Tensor, output_size: OutputSize) -> Tensor:
    """Adaptive average pooling of a volume to the given size.

    >>> nn.functional.adaptive_avg_pool3d(ones(1, 2, 5, 7, 3), (2, None, 1)).shape
    torch.Size([1, 2, 2, 7, 1])
    """
    return adaptive_avg_pool_nd(3, input, output_size)


# Maximum -------------------------------------------------------------------------------------


def max_of_windows(input: Tensor, window_positions: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The maximum of each window, and its flat index in the image (row-major).

    Args:
        window_positions: for each axis the positions inside the windows, (…, windows, taps).
            Shorter windows repeat their last position.
    """
    rank = len(window_positions)
    leading, sizes = input.shape[:-rank], input.shape[-rank:]
    counts = tuple(positions.shape[-2] for positions in window_positions)
    position: Any = 0
    for axis, positions in enumerate(window_positions):
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = positions.shape[-2:]
        position = position * sizes[axis] + reshape(positions, (*positions.shape[:-2], *shape))
    count = math.prod(counts)
    taps = math.prod(positions.shape[-1] for positions in window_positions)
    flat = reshape(input, (*leading, math.prod(sizes)))
    position = reshape(position, (*position.shape[: -2 * rank], count, taps))
    position = position.expand(*leading, count, taps)
    with no_grad():
        values_in_windows = gather(flat, -1, reshape(position, (*leading, count * taps)))
        values_in_windows = reshape(values_in_windows, position.shape)
        max_index = gather(position, -1, argmax(values_in_windows, -1, keepdim=True))
    values = gather(flat, -1, reshape(max_index, (*leading, count)))
    if values.is_floating_point() and not is_free_of_nan(values):
        with no_grad():
            max_index = gather(position, -1, argmax_or_last_nan(values_in_windows))
        values = gather(flat, -1, reshape(max_index, (*leading, count)))
    return reshape(values, (*leading, *counts)), reshape(max_index, (*leading, *counts))


def argmax_or_last_nan(values: Tensor) -> Tensor:
    """Return the argmax over the last axis: the first maximum, or the last NaN."""
    tap = argmax(values, -1, keepdim=True)
    last = values.shape[-1] - 1 - argmax(flip(values, (-1,)), -1, keepdim=True)
    maximum = gather(values, -1, tap)
    return where(maximum == maximum, tap, last)


def is_free_of_nan(x: Tensor) -> bool:
    """Whether a tensor is known to hold no NaN."""
    return can_read(x) and not (x.numel() and isnan(x._array.max()))


def adaptive_max_pool_nd(
    rank: int, input: Tensor, output_size: OutputSize, return_indices: bool, suffix: str = ""
) -> Any:
    """`adaptive_max_pool1d`, `…2d` and `…3d` for 1, 2 and 3 axes."""
    counts = resolve_output_size(f"adaptive_max_pool{rank}d{suffix}", rank, input, output_size)
    window_positions = []
    for n, m in zip(input.shape[-rank:], counts, strict=True):
        windows = window_bounds(n, m)
        widest = max((end - start for start, end in windows), default=1)
        positions = [[min(start + i, end - 1) for i in range(widest)] for start, end in windows]
        window_positions.append(reshape(tensor(positions, device=input.device).long(), (m, widest)))
    result = max_of_windows(input, window_positions)
    return result if return_indices else result[0]


def adaptive_max_pool1d(
    input: Tensor, output_size: OutputSize, return_indices: bool = False
) -> Any:
    """Adaptive max pooling of a sequence: the maximum of each of `output_size` windows.

    Args:
        return_indices: also return the flat index of each maximum (row-major).

    >>> nn.functional.adaptive_max_pool1d(tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[3., 2.]])
    """
    return adaptive_max_pool_nd(1, input, output_size, return_indices)


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: OutputSize, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool1d` with the indices of the maxima.

    >>> nn.functional.adaptive_max_pool1d_with_indices(tensor([[1.0, 3.0, 2.0, 0.0]]), 2)[1]
    tensor([[1, 2]])
    """
    return adaptive_max_pool_nd(1, input, output_size, True, "_with_indices")


@recorded_as("AdaptiveMaxPool2DBackward0")
def adaptive_max_pool2d(
    input: Tensor, output_size: OutputSize, return_indices: bool = False
) -> Any:
    """Adaptive max pooling of an image: the maximum of each of `output_size` windows.

    Args:
        return_indices: also return the flat index of each maximum (row-major).

    >>> nn.functional.adaptive_max_pool2d(arange(9.0).reshape(1, 3, 3), 2)
    tensor([[[4., 5.],
             [7., 8.]]])
    """
    return adaptive_max_pool_nd(2, input, output_size, return_indices)


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: OutputSize, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool2d` with the indices of the maxima.

    >>> nn.functional.adaptive_max_pool2d_with_indices(arange(9.0).reshape(1, 3, 3), 1)[1]
    tensor([[[8]]])
    """
    return adaptive_max_pool_nd(2, input, output_size, True, "_with_indices")


@recorded_as("AdaptiveMaxPool3DBackward0")
def adaptive_max_pool3d(
    input: Tensor, output_size: OutputSize, return_indices: bool = False
) -> Any:
    """Adaptive max pooling of a volume: the maximum of each of `output_size` windows.

    Args:
        return_indices: also return the flat index of each maximum (row-major).

    >>> nn.functional.adaptive_max_pool3d(arange(8.0).reshape(1, 2, 2, 2), 1)
    tensor([[[[7.]]]])
    """
    return adaptive_max_pool_nd(3, input, output_size, return_indices)


def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: OutputSize, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool3d` with the indices of the maxima.

    >>> nn.functional.adaptive_max_pool3d_with_indices(arange(8.0).reshape(1, 2, 2, 2), 1)[1]
    tensor([[[[7]]]])
    """
    return adaptive_max_pool_nd(3, input, output_size, True, "_with_indices")
