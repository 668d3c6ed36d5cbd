"""Convolution and its other two faces, without columns.

The definition lays what each window sees into the columns of a matrix, and multiplies. Here the
product itself looks where the numbers stand (`gathered.py`), so nothing is copied but the images
into their border. Memory is touched once: about a hundred places of the result are computed with
a part of the filters that stays in the nearest cache, by each thread for its own images.

While it is summed up, the result lies with the channels of a place side by side, because the
vectors of the processor run along the channels. It is transposed on its way out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types

from ...nn.functional.conv import check_groups
from .conv_parts import (
    A_WORK,
    LIST,
    SIZE,
    SIZES,
    STEP,
    alike,
    compiled,
    product,
    put_into_frame,
    read,
    turned,
    width_at,
)
from .conv_plan import Plan, plan_of_response, plans_of_spread
from .conv_strips import Strips, strips_are_less
from .gathered import SIX, copy, lanes
from .parts import in_parts

PLACE = np.uint64
"""Python's x[-1] costs a question for each x[p], unless p has no sign."""
FEW = 16
"""With fewer places than this, laying out the filters takes longer than the definition."""


# The response ---------------------------------------------------------------------------------


def pack(
    start, stop, weight, table, stretch, lane_step, part_step, count, groups, wide, lane, packed,
):  # fmt: skip
    """Lay the filters out as they are read: for each tap the channels that are summed up together.

    Rows from `start` to `stop` are stretches of so many taps, at best side by side in `weight`.
    """
    taps = len(table)
    square = np.empty(lane * lane, packed.dtype)
    for block in range(start, stop):
        first = block * stretch
        last = min(first + stretch, taps)
        straight = table[last - 1] - table[first] == last - 1 - first
        for part in range(groups):
            at = 0
            while at < wide:
                width = width_at(at, wide, lane)
                target = (part * wide + at) * taps + first * width
                source = part * part_step + at * lane_step
                rows = min(width, count - at)
                if lane_step == 1:
                    for m in range(first, last):
                        copy(weight, source + table[m], packed, target + (m - first) * width, rows)
                elif straight:
                    source += table[first]
                    turned(weight, source, lane_step, rows, last - first, packed, target, width,
                           lane, square)  # fmt: skip
                else:
                    for i in range(rows):
                        for m in range(first, last):
                            place = target + (m - first) * width + i
                            packed[place] = weight[source + i * lane_step + table[m]]
                at += width


def sweep(
    start, stop, x, n, channels, sizes, outer, before, bare, images, places, positions, offsets,
    taps, targets, in_order, tile, tiles, weight, bias, count, groups, wide, lane, y, y_plane,
):  # fmt: skip
    """Compute some tiles of the result.

    Args:
        x: n images, `channels` of them each; `weight`: as packed above.
        count: how many channels of the result belong to a group, `wide` with those that only
            fill up a vector; bias has `wide` numbers for each group.
        y_plane: how many numbers a channel of the result has.
    """
    plane = outer[0] * outer[1] * outer[2]
    framed = np.zeros(1 if bare else images * channels * plane, y.dtype)
    sums = np.empty((tile + lane) * wide, y.dtype)
    square = np.empty(lane * lane, y.dtype)
    held = -1
    for unit in range(start, stop):
        group, first, image = unit // tiles, unit % tiles * tile, unit // tiles * images
        here = min(images, n - image)
        last = min(first + tile, here * places)
        if not bare and group != held:
            put_into_frame(x, image, here, channels, sizes, outer, before, framed)
            held = group
        source, begin = (x, image * channels * plane) if bare else (framed, 0)
        for part in range(groups):
            x_at = begin + part * (channels // groups) * plane
            at = 0
            while at < wide:
                width = width_at(at, wide, lane)
                for m in range(0, taps, STEP):
                    b_at, some = (part * wide + at) * taps + m * width, min(STEP, taps - m)
                    for p in range(first, last, SIX):
                        y_at = at * tile + (p - first) * width
                        s, s_at, s_step = (sums, y_at, width) if m else (bias, part * wide + at, 0)
                        product(width // lane, source, x_at, positions, p, offsets, m, some,
                                weight, b_at, s, s_at, s_step, sums, y_at, width)  # fmt: skip
                at += width
            p = first
            while p < last:  # image by image
                end, shift = min(last, (p // places + 1) * places), p // places * places
                y_at = ((image + p // places) * groups + part) * count * y_plane
                at = 0
                while at < count:
                    width = width_at(at, wide, lane)
                    s_at, here_o = at * tile + (p - first) * width, min(width, count - at)
                    if in_order:
                        turned(sums, s_at, width, end - p, here_o, y, y_at + targets[0] + p - shift,
                               y_plane, lane, square)  # fmt: skip
                    else:
                        for o in range(here_o):
                            row = y[y_at + o * y_plane : y_at + (o + 1) * y_plane]
                            for each in range(end - p):
                                row[PLACE(targets[p - shift + each])] = sums[
                                    s_at + each * width + o
                                ]
                    y_at += width * y_plane
                    at += width
                p = end


class Sweeper:
    """Carries plans out."""

    def __init__(self) -> None:
        self.strips = Strips()
        self.pack = compiled(pack, lambda number: types.void(
            SIZE, SIZE, read(number), LIST, *[SIZE] * 7, number[::1],
        ))  # fmt: skip
        self.sweep = compiled(sweep, lambda number: types.void(
            SIZE, SIZE, read(number), SIZE, SIZE, SIZES, SIZES, SIZES, types.boolean, SIZE, SIZE,
            LIST, LIST, SIZE, LIST, types.boolean, SIZE, SIZE, read(number), read(number),
            SIZE, SIZE, SIZE, SIZE, number[::1], SIZE,
        ))  # fmt: skip

    def __call__(
        self, plan: Plan, x: np.ndarray, weight: np.ndarray, lane_step: int, bias: Any,
        groups: int, y: np.ndarray,
    ) -> None:  # fmt: skip
        """Fill `y` at the places of a plan.

        Args:
            lane_step: how far it is in `weight` from one channel of the result to the next.
        """
        frame, (n, o), lane = plan.frame, y.shape[:2], lanes(y.itemsize)
        count = o // groups
        wide = -(-count // lane) * lane
        if strips_are_less(plan, count, lane):
            self.strips(plan, x, weight, lane_step, bias, groups, y)
            return
        packed = (np.empty if wide == count else np.zeros)(groups * wide * plan.taps, y.dtype)
        stretch = plan.stretch if 1 < plan.stretch < plan.taps else lane
        in_parts(
            self.pack, -(-plan.taps // stretch), weight.reshape(-1), plan.weights, stretch,
            lane_step, weight.size // groups, count, groups, wide, lane, packed, work=packed.size,
        )  # fmt: skip
        shift = np.zeros((groups, wide), y.dtype)
        if bias is not None:
            shift[:, :count] = bias.reshape(groups, count)
        in_parts(
            self.sweep, -(-n // plan.images) * plan.tiles, x.reshape(-1), n, frame.sizes[0],
            frame.sizes[1:], frame.outer, frame.before, frame.bare, plan.images, plan.places,
            plan.positions, plan.offsets, plan.taps, plan.targets, plan.in_order, plan.tile,
            plan.tiles, packed, shift.reshape(-1), count, groups, wide, lane, y.reshape(-1),
            y[0, 0].size, work=n * plan.places * groups * wide * plan.taps // A_WORK,
        )  # fmt: skip


_sweepers: list[Sweeper] = []


def sweeper() -> Sweeper:
    """Return the one there is."""
    if not _sweepers:
        _sweepers.append(Sweeper())
    return _sweepers[0]


def responding(name: str) -> Callable[..., Any]:
    """Make the kernel of `conv2d`, or of `conv_nd`, whose name depends on the axes."""
    sweep = sweeper()

    def run(
        input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Any:
        arrays = (input, weight) if bias is None else (input, weight, bias)
        if not alike(*arrays) or input.ndim != weight.ndim or not 3 <= input.ndim <= 5:
            return None
        op = name or f"conv{input.ndim - 2}d"
        if input.shape[1] != weight.shape[1] * groups:
            return None  # the definition says what is wrong
        check_groups(op, weight.shape[0], groups)
        settings = (
            tuple(each) if isinstance(each, list) else each for each in (stride, padding, dilation)
        )
        plan, count = plan_of_response(op, input.shape, weight.shape, *settings)
        if len(input) * plan.places < FEW:
            return None
        y = np.empty((input.shape[0], weight.shape[0], *count), input.dtype)
        x, w = np.ascontiguousarray(input), np.ascontiguousarray(weight)
        sweep(plan, x, w, w[0].size, bias, groups, y)
        return y

    return run


def conv2d() -> Callable[..., Any]:
    """Make the response of filters to images."""
    return responding("conv2d")


def conv_nd() -> Callable[..., Any]:
    """Make the response of filters to sequences, images and volumes."""
    return responding("")


def transposed() -> Callable[..., Any]:
    """Make the way back: each place of the result adds up the responses that it had a part in.

    The definition spreads each response over the image, and adds where they overlap. With a
    stride of s, places s apart are reached by the same taps; each of these phases is a
    convolution of the response with its own part of the filters, turned round.
    """
    sweep = sweeper()

    def run(
        input: Any, weight: Any, size: Any, stride: Any, pads: Any, dilation: Any, groups: int
    ) -> Any:
        if not alike(input, weight) or input.ndim != weight.ndim or not 3 <= input.ndim <= 5:
            return None
        if input.shape[1] != weight.shape[0]:
            return None
        check_groups("conv_transpose", weight.shape[0], groups)
        if input.size < FEW * input.shape[1]:
            return None
        plans, everywhere = plans_of_spread(
            input.shape, weight.shape, tuple(size), stride, pads, dilation, groups
        )
        x, w = np.ascontiguousarray(input), np.ascontiguousarray(weight)
        # Beside the image there are zeros here, and nothing in the definition; but 0 · ∞ is not 0.
        if not np.isfinite(np.vdot(w, w)):
            return None
        shape = (input.shape[0], groups * weight.shape[1], *size)
        y = (np.empty if everywhere else np.zeros)(shape, input.dtype)
        for plan in plans:
            sweep(plan, x, w, w[0, 0].size, None, groups, y)
        return y

    return run
