"""Which pixels each bin of a box reads, and with which weights.

The bins of a box are a grid, so the pixels of a bin are those of its row times those of its column.
Both ways of choosing them, points that are interpolated (`SampledAxis`) and whole pixels
(`PixelAxis`), describe one axis; `combine_axes` multiplies two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ...core.tensor import Tensor
from ...ops import as_tensor, cat, index_select, permute, reshape, unsqueeze, where, zeros

BLOCK = 1 << 22
"""So many elements are gathered at once: 16 MiB of float32."""


class Pixels(NamedTuple):
    """The pixels of each bin, and their weights: 0 for one that only fills the table.

    Attributes:
        index: (m t), positions in the batch of images, counted row by row. Of one axis: (k i t).
        weight: of the same shape.
    """

    index: np.ndarray
    weight: np.ndarray


class Axis(Protocol):
    """The bins of all boxes along one axis of the image."""

    bins: int
    counts: np.ndarray  # (k), the pixels or points that a bin of each box may have

    def taps(self, chosen: np.ndarray, count: int) -> Pixels:
        """Return the pixels (k i t) of the bins of the chosen boxes, which have this count."""
        ...


class SampledAxis:
    """Points at equal distances in each bin, interpolated between the two nearest pixels.

    A point more than a pixel outside of the image counts as 0; a nearer one reads its edge.

    Args:
        start, extent: (k), where the boxes begin, and how long they are.
        bins: how many bins they have.
        ratio: how many points a bin has; 0 or less: one for each pixel.
        length: of the image.
    """

    def __init__(
        self, start: np.ndarray, extent: np.ndarray, bins: int, ratio: int, length: int
    ) -> None:
        self.start, self.step, self.bins, self.length = start, extent / bins, bins, length
        fitting = np.ceil(self.step).clip(0).astype(np.int64)
        self.counts = np.full_like(fitting, ratio) if ratio > 0 else fitting

    def taps(self, chosen: np.ndarray, count: int) -> Pixels:
        """Return both neighbours of each point, with linear weights."""
        start, step = self.start[chosen, None, None], self.step[chosen, None, None]
        bins = np.arange(self.bins)[:, None].astype(start.dtype)
        inside = (np.arange(count) + 0.5).astype(start.dtype)
        points = start + bins * step + inside * step / count
        is_near = (points >= -1) & (points <= self.length)
        points = np.where(is_near, points.clip(0, self.length - 1), 0)
        low = np.floor(points)
        share = is_near / count
        index = np.concatenate((low, np.minimum(low + 1, self.length - 1)), -1)
        weight = np.concatenate(((low + 1 - points) * share, (points - low) * share), -1)
        return Pixels(index.astype(np.int64), weight)


class PixelAxis:
    """All pixels of each bin, from `floor` of its start to `ceil` of its end.

    Args:
        start, extent: (k), integers: where the boxes begin, and how long they are.
        bins: how many bins they have.
        length: pixels from here on are left out.
        dtype: in which the ends of the bins are computed.
    """

    def __init__(
        self, start: np.ndarray, extent: np.ndarray, bins: int, length: int, dtype: np.dtype
    ) -> None:
        step = (extent.astype(dtype) / dtype.type(bins))[:, None]
        edges = np.arange(bins + 1).astype(dtype) * step  # (k i+1)
        first = start[:, None].astype(np.int64)
        self.bins = bins
        self.start = (np.floor(edges[:, :-1]).astype(np.int64) + first).clip(0, length)
        self.stop = (np.ceil(edges[:, 1:]).astype(np.int64) + first).clip(0, length)
        self.counts = (self.stop - self.start).clip(0).max(1, initial=0)

    def taps(self, chosen: np.ndarray, count: int) -> Pixels:
        """Return the pixels of each bin, each with the weight 1 / n."""
        start, stop = self.start[chosen, :, None], self.stop[chosen, :, None]
        index = start + np.arange(count)
        weight = (index < stop) / np.maximum(stop - start, 1)
        return Pixels(np.where(weight > 0, index, 0), weight)


def combine_axes(
    axes: Sequence[Axis], chosen: np.ndarray, counts: Sequence[int], first: np.ndarray, width: int
) -> Pixels:
    """Return the pixels (m t) of the bins of the chosen boxes: rows times columns.

    Args:
        first: (k i j) or (k 1 1), the position of the first pixel of the image that a bin reads.
    """
    y, x = (axis.taps(chosen, count) for axis, count in zip(axes, counts, strict=True))
    index = y.index[:, :, None, :, None] * width + x.index[:, None, :, None, :]
    index = index + first[:, :, :, None, None]
    weight = y.weight[:, :, None, :, None] * x.weight[:, None, :, None, :]
    shape = (len(chosen) * axes[0].bins * axes[1].bins, -1)
    return Pixels(index.reshape(shape), weight.reshape(shape))


# Reading them -----------------------------------------------------------------------------------


def gather_blocks(input: Tensor, pixels: Pixels) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the pixels (m t c) of some bins, and their weights (m t 1), until all had their turn.

    Args:
        input: (n c h w).
    """
    channels = input.shape[1]
    rows = reshape(permute(input, (0, 2, 3, 1)), (-1, channels))
    bins, taps = pixels.index.shape
    step = max(1, BLOCK // max(taps * channels, 1))
    for start in range(0, bins, step):
        block = slice(start, start + step)
        index = as_tensor(pixels.index[block].reshape(-1), device=input.device)
        weight = as_tensor(pixels.weight[block], device=input.device).to(input.dtype)
        yield reshape(index_select(rows, 0, index), (-1, taps, channels)), unsqueeze(weight, -1)


def average_pixels(input: Tensor, pixels: Pixels) -> Tensor:
    """Return the weighted sum of the pixels of each bin: (m c)."""
    return cat([(values * weight).sum(1) for values, weight in gather_blocks(input, pixels)])


def largest_pixels(input: Tensor, pixels: Pixels) -> Tensor:
    """Return the largest pixel of each bin: (m c). The gradient goes to the first of equal ones."""
    return cat(
        [
            where(weight > 0, values, -np.inf).max(1)[0]
            for values, weight in gather_blocks(input, pixels)
        ]
    )


def pool_bins(
    input: Tensor,
    axes: tuple[Axis, Axis],
    first: np.ndarray,
    reduce: Callable[[Tensor, Pixels], Tensor],
) -> Tensor:
    """Pool all boxes, those with the same number of pixels in a bin at once.

    Args:
        input: (n c h w).
        axes: the bins along y and x.
        first: (k i j) or (k 1 1): see `combine_axes`.
        reduce: `average_pixels` or `largest_pixels`.

    Returns: (k c i j).
    """
    counts = np.stack([axis.counts for axis in axes], 1)
    shape = (-1, axes[0].bins, axes[1].bins, input.shape[1])
    nothing = reshape(input, (-1,))[:0].sum()  # 0, and the result has a gradient in any case
    parts: list[Tensor] = [zeros(0, *shape[1:], dtype=input.dtype, device=input.device) + nothing]
    order = [np.zeros(0, np.int64)]
    for count_y, count_x in np.unique(counts, axis=0).tolist():
        chosen = np.flatnonzero((counts == (count_y, count_x)).all(1))
        order.append(chosen)
        if min(count_y, count_x) == 0:  # boxes without pixels
            empty = zeros(len(chosen), *shape[1:], dtype=input.dtype, device=input.device)
            parts.append(empty)
            continue
        pixels = combine_axes(axes, chosen, (count_y, count_x), first[chosen], input.shape[3])
        parts.append(reshape(reduce(input, pixels), shape))
    inverse = as_tensor(np.argsort(np.concatenate(order)), device=input.device)
    return permute(index_select(cat(parts), 0, inverse), (0, 3, 1, 2))
