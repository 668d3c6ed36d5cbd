"""The gradients of a convolution's filters and bias.

For the filters it is the same product as for the response, its two lists exchanged:

    gradient[tap m] = Σₚ x[offsets[m] + positions[p]] · g[place p]

Each part of the images is summed up by itself and these sums are added in order, so that for
equal settings the result is always the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from . import jit
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
)  # fmt: skip
from .conv_direct import Dots, dots_are_less
from .conv_indexing import Plan, plan_of_response
from .implicit_gemm import SIX, lanes
from .parallel import in_parts, parts_for
from .row_reduce import total
from .winograd import pays
from .winograd_gradients import gathering
from .work_queue import share_out

__all__ = ["conv2d_bias", "conv_nd_bias", "conv_weight"]

AT_HAND = 512
"""So many places of the response are transposed at a time."""


@njit
def read_in(g, g_at, g_step, first, last, places, rows, answer, width, lane, square):
    """Put the channels of the places from `first` to `last` side by side.

    Args:
        g_at: where the first of `rows` channels begins in the first image; it is `g_step` to the
            next image.
    """
    p = first
    while p < last:  # image by image
        end = min(last, (p // places + 1) * places)
        turned(g, g_at + p // places * g_step + p % places, places, rows, end - p, answer,
               (p - first) * width, width, lane, square)  # fmt: skip
        p = end


def tally(
    start, stop, x, n, channels, sizes, outer, before, bare, images, places, positions, offsets,
    taps, g, count, groups, wide, lane, parts, sums,
):  # fmt: skip
    """Add up some parts of the images, each in a place of its own.

    Args:
        x: n images, `channels` of them each, `images` handled together; g: the response's gradient.
        count: how many channels of the response belong to a group, `wide` with those that only
            fill up a vector.
        sums: for each part, group and block of channels that are summed up together, a row for
            each tap, rounded up to SIX taps.
    """
    start, stop = share_out(start, stop)
    plane = outer[0] * outer[1] * outer[2]
    framed = cleared(1 if bare else images * channels * plane, g)
    answer = cleared(AT_HAND * wide, g)
    square = room(lane * lane, g)
    rows = (taps + SIX - 1) // SIX * SIX
    for index in range(start, stop):
        for image in range(n * index // parts, n * (index + 1) // parts, images):
            here = min(images, n * (index + 1) // parts - image)
            if not bare:
                put_into_frame(x, image, here, channels, sizes, outer, before, framed)
            source, begin = (x, image * channels * plane) if bare else (framed, 0)
            for part in range(groups):
                x_at = begin + part * (channels // groups) * plane
                for first in range(0, here * places, AT_HAND):
                    some = min(AT_HAND, here * places - first)
                    at = 0
                    while at < wide:
                        width = width_at(at, wide, lane)
                        g_at = ((image * groups + part) * count + at) * places
                        read_in(g, g_at, groups * count * places, first, first + some, places,
                                min(width, count - at), answer, width, lane, square)  # fmt: skip
                        for m in range(0, some, STEP):
                            for k in range(0, taps, SIX):
                                y_at = ((index * groups + part) * wide + at) * rows + k * width
                                product(width // lane, source, x_at, offsets, k, positions,
                                        first + m, min(STEP, some - m), answer, m * width, sums,
                                        y_at, width, sums, y_at, width)  # fmt: skip
                        at += width


def finish(start, stop, sums, parts, groups, taps, count, wide, lane, y):
    """Add the parts and transpose: y is (o, taps). Rows are blocks of a vector's length of taps."""
    start, stop = share_out(start, stop)
    rows = (taps + SIX - 1) // SIX * SIX
    square = np.empty(lane * lane, y.dtype)
    for block in range(start, stop):
        first = block * lane
        last = min(first + lane, taps)
        for part in range(groups):
            at = 0
            while at < count:
                width = width_at(at, wide, lane)
                begin = (part * wide + at) * rows + first * width
                whole = sums[begin : begin + (last - first) * width]
                for index in range(1, parts):
                    more = sums[begin + index * groups * rows * wide :]
                    for i in range(len(whole)):
                        whole[i] += more[i]
                turned(sums, begin, width, last - first, min(width, count - at), y,
                       (part * count + at) * taps + first, taps, lane, square)  # fmt: skip
                at += width


class Tallier:
    """Computes gradients of filters."""

    def __init__(self) -> None:
        self.tally = compiled(tally, lambda number: types.void(
            SIZE, SIZE, read(number), SIZE, SIZE, SIZES, SIZES, SIZES, types.boolean, SIZE, SIZE,
            LIST, LIST, SIZE, read(number), *[SIZE] * 5, number[::1],
        ))  # fmt: skip
        self.finish = compiled(finish, lambda number: types.void(
            SIZE, SIZE, number[::1], *[SIZE] * 6, number[::1],
        ))  # fmt: skip

    def __call__(
        self, plan: Plan, x: np.ndarray, g: np.ndarray, groups: int, y: np.ndarray
    ) -> None:
        """Fill y, (o, c / groups, …)."""
        frame, n, lane = plan.frame, len(x), lanes(y.itemsize)
        count = len(y) // groups
        wide = -(-count // lane) * lane
        work = n * plan.places * groups * wide * plan.taps // A_WORK
        parts = parts_for(n, work)
        rows = -(-plan.taps // SIX) * SIX
        sums = room.py_func(parts * groups * rows * wide, y)
        sums[:] = 0
        in_parts(
            self.tally, parts, x.reshape(-1), n, frame.sizes[0], frame.sizes[1:], frame.outer,
            frame.before, frame.bare, plan.images, plan.places, plan.positions, plan.offsets,
            plan.taps, g.reshape(-1), count, groups, wide, lane, parts, sums, work=work,
        )  # fmt: skip
        in_parts(
            self.finish, -(-plan.taps // lane), sums, parts, groups, plan.taps, count, wide, lane,
            y.reshape(-1), work=sums.size,
        )  # fmt: skip


def conv_weight() -> Callable[..., Any]:
    """Make the gradient of filters."""
    tally, dots, bend = Tallier(), Dots(), gathering()

    def run(
        input: Any, response: Any, kernel: Any, stride: Any, pads: Any, dilation: Any, groups: int
    ) -> Any:
        if not alike(input, response) or input.ndim != response.ndim or not 3 <= input.ndim <= 5:
            return None
        channels, o = input.shape[1], response.shape[1]
        if groups < 1 or channels % groups or o % groups:
            return None
        filters = (o, channels // groups, *kernel)
        plan, count = plan_of_response("conv", input.shape, filters, stride, pads, dilation)
        if count != response.shape[2:] or len(input) != len(response):
            return None
        y = np.empty(filters, input.dtype)
        x, g = np.ascontiguousarray(input), np.ascontiguousarray(response)
        if pays(x, filters, stride, dilation, groups, g[:, 0].size, least=64) and bend(
            x, g, tuple(before for before, _ in pads), y
        ):
            return y
        if not dots_are_less(plan, o // groups, lanes(y.itemsize)) or not dots(
            plan, x, g, groups, y
        ):
            tally(plan, x, g, groups, y)
        return y

    return run


# The bias -------------------------------------------------------------------------------------


def channel_totals(start, stop, g, n, places, y):
    """y = the sum over images and places for some channels; g is (n, len(y), places)."""
    start, stop = share_out(start, stop)
    jit.wide()
    for channel in range(start, stop):
        sum = 0.0
        for image in range(n):
            at = (image * len(y) + channel) * places
            sum += total(g[at : at + places])
        y[channel] = sum


def conv2d_bias() -> Callable[..., Any]:
    """Make the gradient of a bias, which every place has a part in."""
    kernel = compiled(channel_totals, lambda number: types.void(
        SIZE, SIZE, read(number), SIZE, SIZE, number[::1],
    ))  # fmt: skip

    def run(g: Any) -> Any:
        if not alike(g):
            return None
        n, o = g.shape[:2]
        y = np.empty(o, g.dtype)
        flat = np.ascontiguousarray(g).reshape(-1)
        in_parts(kernel, o, flat, n, g.size // (n * o), y, work=g.size)
        return y

    return run


conv_nd_bias = conv2d_bias
