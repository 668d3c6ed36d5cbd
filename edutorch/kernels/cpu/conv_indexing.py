"""Where the numbers of a convolution stand: lists of places, worked out once for each shape.

    y[place l] = Σₘ x[positions[l] + offsets[m]] · w[m]

Everything that a convolution may be set to (stride, padding, dilation, one to three axes) is in
these lists, so the loops that add up know nothing of it.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from ...nn.functional.conv import window_of
from ...nn.functional.sliding_window import Counts, Pads, places_of
from .implicit_gemm import SIX

__all__ = ["Frame", "Plan", "plan_of_response", "plans_of_spread"]

TOGETHER = 96
"""About so many places are computed with each part of the filters while it is at hand."""


class Frame(NamedTuple):
    """Images (c d h w) inside a border.

    Attributes:
        sizes: c, d, h, w of an image; those of its axes that it does not have are 1.
        outer: d, h, w with the border.
        before: how much of the border is before the image.
        bare: whether there is no border at all.
    """

    sizes: tuple[int, int, int, int]
    outer: tuple[int, int, int]
    before: tuple[int, int, int]
    bare: bool

    @property
    def plane(self) -> int:
        """How many numbers a channel has."""
        return math.prod(self.outer)


class Plan(NamedTuple):
    """One sum over images.

    Attributes:
        frame: the images that are read.
        images: so many are handled together; then `positions` has the places in all of them.
        places: how many an image has.
        positions: where in the frame each place begins, and the last one again SIX times.
        offsets: where from there each tap of each channel is, likewise.
        taps: how many.
        run: so many places stand side by side, then there is a gap.
        targets: where in a channel of the result each place is.
        tile, tiles: places computed together, and how many such parts a group of images has.
        weights: where in the filters each tap stands, for the first output channel.
    """

    frame: Frame
    images: int
    places: int
    positions: np.ndarray
    offsets: np.ndarray
    taps: int
    run: int
    targets: np.ndarray
    tile: int
    tiles: int
    weights: np.ndarray

    @property
    def in_order(self) -> bool:
        """Whether the places are those of the result, one after the other."""
        return self.places < 2 or bool(self.targets[-1] - self.targets[0] == self.places - 1)

    @property
    def length(self) -> int:
        """How many places there are in an image with all that is between them."""
        return int(self.positions[self.places - 1] - self.positions[0]) + 1


def framed(shape: Counts, pads: Pads) -> Frame:
    """Return the frame of images (n, c, …) with a border."""
    missing = 5 - len(shape)
    sizes = (1,) * missing + shape[2:]
    pads = ((0, 0),) * missing + tuple(pads)
    outer = tuple(a + n + b for n, (a, b) in zip(sizes, pads, strict=True))
    before = tuple(a for a, _ in pads)
    return Frame((shape[1], *sizes), outer, before, outer == sizes)  # type: ignore[arg-type]


def grid(*axes: Any) -> np.ndarray:
    """Return the sums of one number of each list, the last list running fastest."""
    total = np.zeros(1, np.int64)
    for axis in axes:
        total = (total[:, None] + np.asarray(axis, np.int64)).reshape(-1)
    return total


def planned(
    n: int, frame: Frame, starts: np.ndarray, taps: np.ndarray, channels: int, targets: np.ndarray,
    weights: np.ndarray,
) -> Plan:  # fmt: skip
    """Put a plan together.

    Args:
        starts, taps: for one image and one channel.
        channels: how many are summed up.
    """
    places = len(starts)
    images = handled_together(n, places)
    if n % images:  # the places of images that are not there must be somewhere
        frame = frame._replace(bare=False)
    tiles = max(1, round(images * places / TOGETHER))
    tile = -(-images * places // tiles)
    positions = grid(np.arange(images) * (frame.sizes[0] * frame.plane), starts)
    offsets = grid(np.arange(channels) * frame.plane, taps)
    return Plan(
        frame, images, places, with_spare(positions), with_spare(offsets), len(offsets),
        unbroken(starts), targets, -(-tile // SIX) * SIX, tiles, weights,
    )  # fmt: skip


def handled_together(n: int, places: int) -> int:
    """Return how many of n images have about `TOGETHER` places; at best, none is left over."""
    wanted = TOGETHER / places
    near = range(max(1, round(wanted * 0.7)), round(wanted * 1.4) + 1)
    even = [each for each in near if n % each == 0]
    return min(
        even, key=lambda each: (abs(each - wanted), -each), default=max(1, min(n, round(wanted)))
    )


def unbroken(places: np.ndarray) -> int:
    """Return how many places, from the first one on, stand side by side."""
    gaps = np.flatnonzero(np.diff(places) != 1)
    return int(gaps[0]) + 1 if len(gaps) else len(places)


def with_spare(places: np.ndarray) -> np.ndarray:
    """Repeat the last place: sums are taken for SIX at once."""
    return np.append(places, np.repeat(places[-1:], SIX))


@functools.lru_cache(maxsize=256)
def plan_of_response(
    op: str, shape: Counts, filters: Counts, stride: Any, padding: Any, dilation: Any
) -> tuple[Plan, Counts]:
    """Return the plan of `conv2d` and its kin, and at how many places along each axis they look."""
    kernel, stride, pads, dilation = window_of(filters, stride, padding, dilation)
    count = places_of(op, shape, kernel, stride, pads, dilation)
    frame = framed(shape, pads)
    steps = strides_of(frame.outer)[-len(kernel) :]
    each = zip(count, stride, steps, strict=True)
    starts = grid(*(np.arange(c) * (s * step) for c, s, step in each))
    each = zip(kernel, dilation, steps, strict=True)
    taps = grid(*(np.arange(k) * (d * step) for k, d, step in each))
    targets, weights = np.arange(len(starts)), np.arange(filters[1] * len(taps))
    return planned(shape[0], frame, starts, taps, filters[1], targets, weights), count


def strides_of(sizes: Counts) -> list[int]:
    """Return how far it is along each axis from one number to the next."""
    return [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]


class Phase(NamedTuple):
    """Along one axis, all places of the result that are reached by the same taps.

    With a stride of 2, even places are reached by even taps and odd ones by odd taps.
    """

    targets: np.ndarray
    starts: np.ndarray
    taps: np.ndarray
    offsets: np.ndarray


def phases_of(
    count: int, size: int, kernel: int, stride: int, before: int, dilation: int
) -> tuple[list[Phase], tuple[int, int]]:
    """Return the phases of one axis, and the border that the response needs for them.

    Place u of the result (u + before with its border) is reached from place t of the response by
    tap i where u + before = stride · t + dilation · i.
    """
    phases = []
    for rest in range(stride):
        reached = np.arange(before, before + size)
        reached = reached[reached % stride == rest]
        taps = np.arange(kernel)
        taps = taps[taps * dilation % stride == rest]
        if len(reached):
            offsets = -(taps * dilation // stride)
            phases.append(Phase(reached - before, reached // stride, taps, offsets))
    ends = [
        (p.starts[0] + p.offsets.min(), p.starts[-1] + p.offsets.max())
        for p in phases
        if len(p.taps)
    ]
    left = max([0, *(-int(low) for low, _ in ends)])
    return phases, (left, max([0, *(int(high) - count + 1 for _, high in ends)]))


@functools.lru_cache(maxsize=256)
def plans_of_spread(
    shape: Counts, filters: Counts, size: Counts, stride: Counts, pads: Pads, dilation: Counts,
    groups: int,
) -> tuple[list[Plan], bool]:  # fmt: skip
    """Return the plans of `transposed`, one for each phase, and whether they reach every place.

    The filters, (o, c, …), are to be there with their channels c last.
    """
    kernel, count = filters[2:], shape[2:]
    before = tuple(a for a, _ in pads)
    axes = [
        phases_of(*each) for each in zip(count, size, kernel, stride, before, dilation, strict=True)
    ]
    frame = framed(shape, tuple(border for _, border in axes))
    steps, jumps, turns = (
        strides_of(frame.outer)[3 - len(kernel) :],
        strides_of(size),
        strides_of(kernel),
    )
    lefts = [border[0] * step for (_, border), step in zip(axes, steps, strict=True)]
    channels = shape[1] // groups
    plans, everywhere = [], True
    for phases in itertools.product(*(phases for phases, _ in axes)):
        if not all(len(phase.taps) for phase in phases):
            everywhere = False
            continue
        starts = grid(*(p.starts * step for p, step in zip(phases, steps, strict=True))) + sum(
            lefts
        )
        offsets = grid(*(p.offsets * step for p, step in zip(phases, steps, strict=True)))
        targets = grid(*(p.targets * jump for p, jump in zip(phases, jumps, strict=True)))
        taps = grid(*(p.taps * turn for p, turn in zip(phases, turns, strict=True)))
        whole = math.prod(kernel) * filters[1]
        weights = grid(np.arange(channels) * whole, taps * filters[1])
        plans.append(planned(shape[0], frame, starts, offsets, channels, targets, weights))
    return plans, everywhere
