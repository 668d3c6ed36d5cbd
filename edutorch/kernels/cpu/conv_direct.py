"""Convolution with few filters for each image: depthwise ones, the first and the last layers.

A vector of the processor takes 16 channels of a place, and most of it would be empty where there
are one, three or six. Here it takes 16 places that stand side by side in a row of the image. Six
channels are computed together, or twice as many places of one. A row goes on through the border
into the next one: what is computed between them is thrown away.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from .conv_common import (
    A_WORK,
    LIST,
    SIZE,
    SIZES,
    STEP,
    cleared,
    compiled,
    put_into_frame,
    read,
    room,
)
from .conv_indexing import Plan, with_spare
from .implicit_gemm import SIX, WIDEST, alone, copy, lanes, listed
from .jit import wide
from .parallel import in_parts, parts_for
from .row_reduce import dot
from .work_queue import share_out

__all__ = ["Dots", "Strips", "dots_are_less", "strips_are_less"]


MANY = 3
"""Fewer channels than this are computed one by one: of six at once, most would be thrown away."""
PLACE = np.uint64
"""Python's x[-1] costs a question for each x[p], unless p has no sign."""


def strips_are_less(plan: Plan, count: int, lane: int) -> bool:
    """Say whether few enough channels are computed for strips to be less work."""
    strip, rest = WIDEST * lane, count % SIX
    rows = count - rest + (SIX if rest >= MANY else rest)
    here = rows * (-(-plan.length // strip) * WIDEST)
    return here < plan.places * -(-count // lane)


def dots_are_less(plan: Plan, count: int, lane: int) -> bool:
    """Say the same for the gradient of the filters."""
    here = plan.taps * count * (plan.length / lane + 20)
    return here < -(-plan.taps // SIX) * SIX * plan.places * -(-count // lane) * 0.6


def strips(
    start, stop, x, channels, sizes, outer, before, places, positions, offsets, taps, run,
    targets, in_order, length, weight, rows, table, part_step, bias, count, groups, strip, y,
    y_plane,
):  # fmt: skip
    """Compute the result of some groups of images.

    Args:
        x: groups of `channels` of one image after the other.
        weight: the filters as they are; `rows` says where the one of a channel of the result
            begins, `table` where its taps are, `part_step` how far it is to the next group.
        length: from the first place to the last one.
        strip: how many places are computed together.
    """
    start, stop = share_out(start, stop)
    blocks, begin = (length + strip - 1) // strip, positions[0]
    row, broad = blocks * strip, 2 * strip
    framed = cleared(channels * outer[0] * outer[1] * outer[2] + broad, y)
    sums, shift = room(SIX * row + strip, y), room(SIX * broad, y)
    for unit in range(start, stop):
        put_into_frame(x, unit, 1, channels, sizes, outer, before, framed)
        part = unit % groups
        for o in range(0, count, SIX):
            here = min(SIX, count - o)
            for t in range(here):
                for i in range(t * broad, (t + 1) * broad):
                    shift[i] = bias[part * count + o + t]
            for t in range(here if here < MANY else 0):
                for at in range(t * row, (t + 1) * row, broad):
                    for m in range(0, taps, STEP):
                        s, s_at = (sums, at) if m else (shift, t * broad)
                        alone(weight, part * part_step, rows, o + t, table, m, min(STEP, taps - m),
                              framed, begin + at - t * row, s, s_at, 0, sums, at, 0,
                              offsets, m)  # fmt: skip
            for at in range(0, row if here >= MANY else 0, strip):
                for m in range(0, taps, STEP):
                    s, s_at, s_step = (sums, at, row) if m else (shift, 0, broad)
                    listed(weight, part * part_step, rows, o, table, m, min(STEP, taps - m),
                           framed, begin + at, s, s_at, s_step, sums, at, row,
                           offsets, m)  # fmt: skip
            for t in range(here):
                y_at, from_at = (unit * count + o + t) * y_plane, t * row - begin
                if in_order and run > 1:
                    for p in range(0, places, run):
                        copy(sums, from_at + positions[p], y, y_at + targets[p], run)
                    continue
                for p in range(places):
                    y[PLACE(y_at + targets[p])] = sums[PLACE(from_at + positions[p])]


class Strips:
    """Carries plans out, in the place of `conv.Sweeper`."""

    def __init__(self) -> None:
        self.strips = compiled(strips, lambda number: types.void(
            SIZE, SIZE, read(number), SIZE, SIZES, SIZES, SIZES, SIZE, LIST, LIST, SIZE, SIZE,
            LIST, types.boolean, SIZE, read(number), LIST, LIST, SIZE, read(number), *[SIZE] * 3,
            number[::1], SIZE,
        ))  # fmt: skip

    def __call__(
        self, plan: Plan, x: np.ndarray, weight: np.ndarray, lane_step: int, bias: Any,
        groups: int, y: np.ndarray,
    ) -> None:  # fmt: skip
        """Fill `y` at the places of a plan."""
        frame, (n, o), strip = plan.frame, y.shape[:2], WIDEST * lanes(y.itemsize)
        count = o // groups
        shift = np.zeros(o, y.dtype) if bias is None else np.ascontiguousarray(bias)
        in_parts(
            self.strips, n * groups, x.reshape(-1), frame.sizes[0] // groups, frame.sizes[1:],
            frame.outer, frame.before, plan.places, plan.positions, plan.offsets, plan.taps,
            plan.run, plan.targets, plan.in_order, plan.length, weight.reshape(-1),
            with_spare(np.arange(count) * lane_step), plan.weights, weight.size // groups, shift,
            count, groups, strip, y.reshape(-1), y[0, 0].size,
            work=n * groups * plan.length * plan.taps * (count + SIX) // A_WORK,
        )  # fmt: skip


# The gradient of the filters ------------------------------------------------------------------


def dots(
    start, stop, x, n, channels, sizes, outer, before, places, positions, offsets, taps, run,
    length, g, count, groups, parts, sums,
):  # fmt: skip
    """Add up some parts of the images, each in a place of its own: sums is (parts, o, taps)."""
    start, stop = share_out(start, stop)
    wide()
    framed = np.zeros(channels * outer[0] * outer[1] * outer[2], g.dtype)
    answer, begin = np.zeros(length, g.dtype), positions[0]
    for index in range(start, stop):
        for unit in range(n * index // parts * groups, n * (index + 1) // parts * groups):
            put_into_frame(x, unit, 1, channels, sizes, outer, before, framed)
            for o in range(count):
                g_at = (unit * count + o) * places
                if run > 1:
                    for p in range(0, places, run):
                        copy(g, g_at + p, answer, positions[p] - begin, run)
                else:
                    for p in range(places):
                        answer[PLACE(positions[p] - begin)] = g[PLACE(g_at + p)]
                target = ((index * groups + unit % groups) * count + o) * taps
                for k in range(taps):
                    seen = begin + offsets[k]
                    sums[target + k] += dot(answer, framed[seen : seen + length])


class Dots:
    """Computes gradients of filters, in the place of `conv_gradients.Tallier`."""

    def __init__(self) -> None:
        self.dots = compiled(dots, lambda number: types.void(
            SIZE, SIZE, read(number), SIZE, SIZE, SIZES, SIZES, SIZES, SIZE, LIST, LIST,
            *[SIZE] * 3, read(number), *[SIZE] * 3, number[::1],
        ))  # fmt: skip

    def __call__(
        self, plan: Plan, x: np.ndarray, g: np.ndarray, groups: int, y: np.ndarray
    ) -> bool:
        """Fill y, (o, c / groups, …); False: there was something that is not finite.

        Between the rows zeros are added, whatever the image holds there; but 0 · ∞ is not 0.
        """
        frame, n = plan.frame, len(x)
        work = n * plan.length * y.size // A_WORK
        parts = parts_for(n, work)
        sums = np.zeros((parts, y.size), y.dtype)
        in_parts(
            self.dots, parts, x.reshape(-1), n, frame.sizes[0] // groups, frame.sizes[1:],
            frame.outer, frame.before, plan.places, plan.positions, plan.offsets, plan.taps,
            plan.run, plan.length, g.reshape(-1), len(y) // groups, groups, parts,
            sums.reshape(-1), work=work,
        )  # fmt: skip
        np.sum(sums, axis=0, out=y.reshape(-1))
        return bool(np.isfinite(y).all())
