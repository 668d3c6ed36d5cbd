"""Convolution and its other two faces, without columns.

The definition lays what each window sees into the columns of a matrix, and multiplies. Here the
product itself looks where the numbers stand (`implicit_gemm.py`), so nothing is copied but the images
into their border. Memory is touched once: about a hundred places of the result are computed with
a part of the filters that stays in the nearest cache, by each thread for its own images.

While it is summed up, the result lies with the channels of a place side by side, because the
vectors of the processor run along the channels. It is transposed on its way out.

Two cases go other ways: few filters (`conv_direct.py`), and many of 3x3 (`winograd.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from ...nn.functional.conv import check_groups, window_of
from ...settings import get_num_threads
from .conv_common import (
    A_WORK,
    LIST,
    SIZE,
    SIZES,
    STEP,
    alike,
    cleared,
    compiled,
    product,
    put_into_frame,
    read,
    room,
    turned,
    width_at,
    with_channels_last,
)
from .conv_direct import Strips, strips_are_less
from .conv_indexing import Plan, plan_of_response, plans_of_spread
from .implicit_gemm import SIX, WIDEST, copy, lanes
from .parallel import in_parts
from .winograd import pays
from .winograd import responding as bending
from .work_queue import share_out

PLACE = np.uint64
"""Python's x[-1] costs a question for each x[p], unless p has no sign."""
FEW = 16
"""With fewer places than this, laying out the filters takes longer than the definition."""


# The response ---------------------------------------------------------------------------------


def pack(
    start, stop, weight, table, lane_step, part_step, count, groups, wide, lane, packed,
):  # fmt: skip
    """Lay the filters out as they are read: for each tap the channels that are summed up together.

    Rows from `start` to `stop` are stretches of STEP taps. Either the channels of the result are
    side by side in `weight`, or all its taps are.
    """
    start, stop = share_out(start, stop)
    taps = len(table)
    square = room(lane * lane, packed)
    for block in range(start, stop):
        first = block * STEP
        last = min(first + STEP, taps)
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
                else:
                    turned(weight, source + first, lane_step, rows, last - first, packed, target,
                           width, lane, square)  # fmt: skip
                at += width


@njit
def write_out(
    sums, width, first, last, places, targets, in_order, rows, lane, square, y, y_at, y_step,
    y_plane,
):  # fmt: skip
    """Write the sums of the places from `first` to `last`, for `rows` channels, into the result.

    Args:
        places: how many an image has; `targets`: where in a channel of the result each is.
        y_at: where the first channel begins in the first image; it is `y_step` to the next image
            and `y_plane` to the next channel.
    """
    p = first
    while p < last:  # image by image
        image = p // places
        end, shift, target = min(last, (image + 1) * places), image * places, y_at + image * y_step
        s_at = (p - first) * width
        if in_order:
            turned(sums, s_at, width, end - p, rows, y, target + targets[0] + p - shift, y_plane,
                   lane, square)  # fmt: skip
        else:
            for o in range(rows):
                for index in range(end - p):
                    place = target + o * y_plane + targets[p - shift + index]
                    y[PLACE(place)] = sums[s_at + index * width + o]
        p = end


def sweep(
    start, stop, x, n, channels, sizes, outer, before, bare, images, places, positions, offsets,
    taps, targets, in_order, tile, tiles, share, weight, bias, count, groups, wide, lane, y,
    y_plane,
):  # fmt: skip
    """Compute some tiles of the result.

    Args:
        x: n images, `channels` of them each; `weight`: as packed above.
        count: how many channels of the result belong to a group, `wide` with those that only
            fill up a vector; bias has `wide` numbers for each group.
        share: so many channels of a group at a time: with few tiles, threads share them out.
        y_plane: how many numbers a channel of the result has.
    """
    start, stop = share_out(start, stop)
    shares, plane = (wide + share - 1) // share, outer[0] * outer[1] * outer[2]
    framed = cleared(1 if bare else images * channels * plane, y)
    sums, square = room((tile + SIX) * WIDEST * lane, y), room(lane * lane, y)
    held = -1
    for unit in range(start, stop):
        group, first = unit // shares // tiles, unit // shares % tiles * tile
        image = group * images
        here = min(images, n - image)
        last = min(first + tile, here * places)
        if not bare and group != held:
            put_into_frame(x, image, here, channels, sizes, outer, before, framed)
            held = group
        source, begin = (x, image * channels * plane) if bare else (framed, 0)
        for part in range(groups):
            x_at = begin + part * (channels // groups) * plane
            at = unit % shares * share
            end = min(at + share, wide)
            while at < end:
                width = width_at(at, wide, lane)
                for m in range(0, taps, STEP):
                    b_at, some = (part * wide + at) * taps + m * width, min(STEP, taps - m)
                    for p in range(first, last, SIX):
                        y_at = (p - first) * width
                        s, s_at, s_step = (sums, y_at, width) if m else (bias, part * wide + at, 0)
                        product(width // lane, source, x_at, positions, p, offsets, m, some,
                                weight, b_at, s, s_at, s_step, sums, y_at, width)  # fmt: skip
                y_at = ((image * groups + part) * count + at) * y_plane
                write_out(sums, width, first, last, places, targets, in_order,
                          min(width, count - at), lane, square, y, y_at, groups * count * y_plane,
                          y_plane)  # fmt: skip
                at += width


class Sweeper:
    """Carries plans out."""

    def __init__(self) -> None:
        self.strips = Strips()
        self.pack = compiled(pack, lambda number: types.void(
            SIZE, SIZE, read(number), LIST, *[SIZE] * 6, number[::1],
        ))  # fmt: skip
        self.sweep = compiled(sweep, lambda number: types.void(
            SIZE, SIZE, read(number), SIZE, SIZE, SIZES, SIZES, SIZES, types.boolean, SIZE, SIZE,
            LIST, LIST, SIZE, LIST, types.boolean, *[SIZE] * 3, read(number), read(number),
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
        packed = room.py_func(groups * wide * plan.taps, y)
        if wide > count:
            packed[:] = 0
        in_parts(
            self.pack, -(-plan.taps // STEP), weight.reshape(-1), plan.weights, lane_step,
            weight.size // groups, count, groups, wide, lane, packed, work=packed.size,
        )  # fmt: skip
        shift = np.zeros((groups, wide), y.dtype)
        if bias is not None:
            shift[:, :count] = bias.reshape(groups, count)
        units, blocks = -(-n // plan.images) * plan.tiles, -(-wide // (WIDEST * lane))
        share = -(-blocks // -(-get_num_threads() // units)) * WIDEST * lane
        in_parts(
            self.sweep, units * -(-wide // share), x.reshape(-1), n, frame.sizes[0],
            frame.sizes[1:], frame.outer, frame.before, frame.bare, plan.images, plan.places,
            plan.positions, plan.offsets, plan.taps, plan.targets, plan.in_order, plan.tile,
            plan.tiles, share, packed, shift.reshape(-1), count, groups, wide, lane, y.reshape(-1),
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
    sweep, bend = sweeper(), bending()

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
        settings = tuple(
            tuple(each) if isinstance(each, list) else each for each in (stride, padding, dilation)
        )
        plan, count = plan_of_response(op, input.shape, weight.shape, *settings)
        if len(input) * plan.places < FEW:
            return None
        y = np.empty((input.shape[0], weight.shape[0], *count), input.dtype)
        x, w = np.ascontiguousarray(input), np.ascontiguousarray(weight)
        _, steps, pads, gaps = window_of(weight.shape, *settings)
        bent = pays(x, w.shape, steps, gaps, groups, y[:, 0].size) and bend(
            x, w, bias, tuple(before for before, _ in pads), y, turn=False
        )
        if not bent:
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
    sweep, bend = sweeper(), bending()

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
        x, w = np.ascontiguousarray(input), np.ascontiguousarray(weight)
        shape = (input.shape[0], groups * weight.shape[1], *size)
        if pays(x, w.shape, stride, dilation, groups, len(x) * math.prod(size)):
            y = np.empty(shape, input.dtype)
            if bend(x, w, None, tuple(2 - before for before, _ in pads), y, turn=True):
                return y
        # Beside the image there are zeros here, and nothing in the definition; but 0 · ∞ is not 0.
        if not np.isfinite(np.vdot(w, w)):
            return None
        plans, everywhere = plans_of_spread(
            input.shape, weight.shape, tuple(size), stride, pads, dilation, groups
        )
        y = (np.empty if everywhere else np.zeros)(shape, input.dtype)
        w = w if w[0, 0].size == 1 or w.shape[1] == 1 else with_channels_last(w)
        for plan in plans:
            sweep(plan, x, w, 1, None, groups, y)
        return y

    return run
