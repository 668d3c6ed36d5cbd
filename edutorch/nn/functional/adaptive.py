"""Adaptive pooling: windows chosen so that the output has the wanted size.

Along an axis of n numbers, window i of m reaches from ⌊i·n/m⌋ to ⌈(i+1)·n/m⌉.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from numpy import isnan

from ...core.allocation import check_room
from ...core.autograd.node_names import recorded_as
from ...core.shapes import whole
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...modes import no_grad
from ...ops import argmax, cat, flip, gather, mean, narrow, reshape, tensor, where
from .interpolation_weights import TapTable, Taps, resample
from .op_decorators import SettingError, can_read
from .pooling import avg_pool_nd
from .sliding_window import Counts, check_spatial_axes

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
]  # fmt: skip


MEAN_WINDOW = 4
"""From windows of so many numbers on, it is quicker to take the mean of one after the other."""


def resolve_output_size(op: str, rank: int, input: Tensor, output_size: Any) -> Counts:
    """Read `output_size`: one number for all axes, or one for each, where None keeps the size.

    Raises: ShapeError: `input` has not that many axes. SettingError: nor has `output_size`.
    """
    check_spatial_axes(op, input.shape, rank)
    if 0 in input.shape[-rank:]:
        raise ShapeError(op, "only the batch may be empty", {"input": tuple(input.shape)})
    if output_size is None or output_size.__class__ is int:
        output_size = (output_size,) * rank
    elif hasattr(output_size, "__index__") and not getattr(output_size, "shape", ()):
        output_size = (whole(op, output_size, "output_size"),) * rank
    wanted: tuple[int | None, ...] = tuple(output_size)
    if len(wanted) != rank or any(each is not None and each < 0 for each in wanted):
        raise SettingError(op, f"output_size must be one size or {rank}, got {output_size}")
    sizes = tuple(
        n if want is None else whole(op, want, "output_size")
        for want, n in zip(wanted, input.shape[-rank:], strict=True)
    )
    check_room(op, (*input.shape[:-rank], *sizes), input.dtype)
    return sizes


def window_bounds(size: int, count: int) -> list[tuple[int, int]]:
    """Return where each of `count` windows over `size` numbers starts and ends."""
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


# The average ---------------------------------------------------------------------------------


def adaptive_avg_pool_nd(rank: int, input: Tensor, output_size: Any) -> Tensor:
    """`adaptive_avg_pool1d`, `…2d` and `…3d` for 1, 2 and 3 axes."""
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
            [(place, 1 / (end - start)) for place in range(start, end)] for start, end in windows
        ]
        input = resample(input, axis, TapTable.of(taps))
    return input


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Averages of windows that are chosen so that the output has the given length.

    >>> nn.functional.adaptive_avg_pool1d(tensor([[1.0, 3.0, 2.0, 0.0]]), 1)
    tensor([[1.5000]])
    """
    return adaptive_avg_pool_nd(1, input, output_size)


@recorded_as("AdaptiveAvgPool2DBackward0")
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Averages of windows that are chosen so that the output has the given size.

    >>> nn.functional.adaptive_avg_pool2d(ones(1, 2, 5, 7), 1).shape
    torch.Size([1, 2, 1, 1])
    """
    return adaptive_avg_pool_nd(2, input, output_size)


@recorded_as("AdaptiveAvgPool3DBackward0")
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Averages of windows of a volume, chosen so that the output has the given size.

    >>> nn.functional.adaptive_avg_pool3d(ones(1, 2, 5, 7, 3), (2, None, 1)).shape
    torch.Size([1, 2, 2, 7, 1])
    """
    return adaptive_avg_pool_nd(3, input, output_size)


# The largest ---------------------------------------------------------------------------------


def max_of_windows(input: Tensor, seen: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The largest number of each window, and where in the image (row by row) it stands.

    Args:
        seen: for each axis the positions under the windows, (…, places, taps). Shorter
            windows repeat their last position.
    """
    rank = len(seen)
    lead, sizes = input.shape[:-rank], input.shape[-rank:]
    counts = tuple(each.shape[-2] for each in seen)
    position: Any = 0
    for axis, each in enumerate(seen):
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = each.shape[-2:]
        position = position * sizes[axis] + reshape(each, (*each.shape[:-2], *shape))
    count, taps = math.prod(counts), math.prod(each.shape[-1] for each in seen)
    flat = reshape(input, (*lead, math.prod(sizes)))
    position = reshape(position, (*position.shape[: -2 * rank], count, taps))
    position = position.expand(*lead, count, taps)
    with no_grad():
        under = gather(flat, -1, reshape(position, (*lead, count * taps)))
        under = reshape(under, position.shape)
        found = gather(position, -1, argmax(under, -1, keepdim=True))
    values = gather(flat, -1, reshape(found, (*lead, count)))
    if values.is_floating_point() and not is_free_of_nan(values):
        with no_grad():
            found = gather(position, -1, argmax_or_last_nan(under))
        values = gather(flat, -1, reshape(found, (*lead, count)))
    return reshape(values, (*lead, *counts)), reshape(found, (*lead, *counts))


def argmax_or_last_nan(under: Tensor) -> Tensor:
    """Return which of the last axis is the largest: the first of several, the last NaN."""
    tap = argmax(under, -1, keepdim=True)
    last = under.shape[-1] - 1 - argmax(flip(under, (-1,)), -1, keepdim=True)
    best = gather(under, -1, tap)
    return where(best == best, tap, last)


def is_free_of_nan(x: Tensor) -> bool:
    """Whether there is surely no NaN in a tensor."""
    return can_read(x) and not (x.numel() and isnan(x._array.max()))


def adaptive_max_pool_nd(rank: int, input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool1d`, `…2d` and `…3d` with indices, for 1, 2 and 3 axes."""
    counts = resolve_output_size(f"adaptive_max_pool{rank}d", rank, input, output_size)
    seen = []
    for n, m in zip(input.shape[-rank:], counts, strict=True):
        windows = window_bounds(n, m)
        widest = max((end - start for start, end in windows), default=1)
        places = [[min(start + i, end - 1) for i in range(widest)] for start, end in windows]
        seen.append(reshape(tensor(places, device=input.device).long(), (m, widest)))
    return max_of_windows(input, seen)


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest number of each window of a sequence; the windows fit the output's size.

    Args:
        return_indices: also say where each was found, row by row.

    >>> nn.functional.adaptive_max_pool1d(tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[3., 2.]])
    """
    found = adaptive_max_pool_nd(1, input, output_size)
    return found if return_indices else found[0]


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool1d`, and where each number was found.

    >>> nn.functional.adaptive_max_pool1d_with_indices(tensor([[1.0, 3.0, 2.0, 0.0]]), 2)[1]
    tensor([[1, 2]])
    """
    return adaptive_max_pool_nd(1, input, output_size)


@recorded_as("AdaptiveMaxPool2DBackward0")
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest number of each window of an image; the windows fit the output's size.

    Args:
        return_indices: also say where each was found, row by row.

    >>> nn.functional.adaptive_max_pool2d(arange(9.0).reshape(1, 3, 3), 2)
    tensor([[[4., 5.],
             [7., 8.]]])
    """
    found = adaptive_max_pool_nd(2, input, output_size)
    return found if return_indices else found[0]


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool2d`, and where each number was found.

    >>> nn.functional.adaptive_max_pool2d_with_indices(arange(9.0).reshape(1, 3, 3), 1)[1]
    tensor([[[8]]])
    """
    return adaptive_max_pool_nd(2, input, output_size)


@recorded_as("AdaptiveMaxPool3DBackward0")
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The largest number of each window of a volume; the windows fit the output's size.

    Args:
        return_indices: also say where each was found, row by row.

    >>> nn.functional.adaptive_max_pool3d(arange(8.0).reshape(1, 2, 2, 2), 1)
    tensor([[[[7.]]]])
    """
    found = adaptive_max_pool_nd(3, input, output_size)
    return found if return_indices else found[0]


def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool3d`, and where each number was found.

    >>> nn.functional.adaptive_max_pool3d_with_indices(arange(8.0).reshape(1, 2, 2, 2), 1)[1]
    tensor([[[[7]]]])
    """
    return adaptive_max_pool_nd(3, input, output_size)
