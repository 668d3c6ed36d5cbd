"""Pooling, a few channels at a time.

The definitions go through all images once for each tap of the window, and for the gradient twice
more. Here channels are read while they are in the nearest cache, and one axis after the other: the
best number of a window is the best of the best of its rows. That is done for windows at every
place, also at those where none stands: then numbers lie side by side, the processor's vectors take
16 at a time, and the wanted ones are picked out at the end.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from ...nn.functional.pooling import first_taps
from ...nn.functional.sliding_window import Windows, windows_of
from .conv_common import LIST, SIZE, SIZES, alike, compiled, put_into_frame, read
from .conv_indexing import Frame, framed, grid, strides_of
from .implicit_gemm import copy
from .jit import wide
from .parallel import in_parts
from .work_queue import share_out

__all__ = ["max_pool", "max_pool_input", "winning_tap"]

TAPS = types.int32
PLACE = np.uint64
"""Python's x[-1] costs a question for each x[p], unless p has no sign."""
AT_HAND = 4096
"""So many numbers are handled together: some channels, if they are small."""
WIDE = 32
"""With longer windows than this, the definition takes fewer steps."""
WINDOW = (SIZE, SIZES, SIZES, SIZES, types.boolean, SIZES, SIZES, LIST, SIZE)
"""How many planes are handled together, their sizes, those with the border, what of it comes
before, whether there is none; the window's kernel, the steps from tap to tap along each axis, where
in a plane windows stand, and how many planes there are in all."""


@njit
def planes_at(x, unit, together, many, sizes, outer, before, bare, framed):
    """Return some planes, in their border, and how many numbers these are."""
    plane, first = outer[0] * outer[1] * outer[2], unit * together
    here = min(together, many - first)
    if bare:
        return x[first * plane : (first + here) * plane], here * plane
    put_into_frame(x, first, here, 1, sizes, outer, before, framed)
    return framed[: here * plane], here * plane


# The largest ----------------------------------------------------------------------------------


@njit
def keep(x, row, best):
    """best = the larger one of x and row; NaN is the largest."""
    wide()
    for p in range(len(best)):
        a, b = x[p], row[p]
        best[p] = a if a > b or a != a else b


@njit
def take(x, row, known, numbers, rise, taken):
    """taken = the number known where x is kept, and otherwise that of the row: also of its NaN."""
    wide()
    for p in range(len(taken)):
        a, b, t, u = x[p], row[p], known[p], numbers[p] + rise
        taken[p] = u if b > a or b != b else t


@njit
def largest_along(x, length, taps, step, y):
    """y[p] = max over i of x[p + i·step]. Return how many there are."""
    length -= (taps - 1) * step
    best = y[:length]
    if taps == 1:
        copy(x, 0, y, 0, length)
    for i in range(1, taps):
        row = x[i * step : i * step + length]
        if i == 1:
            keep(x, row, best)
        else:
            keep(best, row, best)
    return length


def largest(
    start, stop, x, together, sizes, outer, before, bare, kernel, steps, places, many, y,
):  # fmt: skip
    """Compute `max_pool` for some planes."""
    start, stop = share_out(start, stop)
    wide()
    plane = outer[0] * outer[1] * outer[2]
    framed = np.full(1 if bare else together * plane, -np.inf, y.dtype)
    one, other = np.empty(together * plane, y.dtype), np.empty(together * plane, y.dtype)
    for unit in range(start, stop):
        seen, length = planes_at(x, unit, together, many, sizes, outer, before, bare, framed)
        whole = length
        length = largest_along(seen, length, kernel[2], steps[2], one)
        length = largest_along(one, length, kernel[1], steps[1], other)
        if kernel[0] > 1:
            largest_along(other, length, kernel[0], steps[0], one)
        best = one if kernel[0] > 1 else other
        target = unit * together * len(places)
        for first in range(0, whole, plane):
            row = y[target : target + len(places)]
            for p in range(len(row)):
                row[p] = best[PLACE(first + places[p])]
            target += len(places)


@njit
def winners_along(x, tap, length, taps, step, jump, y, won):
    """The same, and the number of the tap that sees it: the first of several, the last NaN.

    The numbers of taps are kept in the type of x: then there are as many of them in a vector.

    Args:
        tap: the numbers up to here; for the first axis there are none yet.
        jump: by how much the number rises from one tap to the next.
    """
    length -= (taps - 1) * step
    best, taken = y[:length], won[:length]
    if taps == 1:
        copy(x, 0, y, 0, length)
        copy(tap, 0, won, 0, length)
    for i in range(1, taps):
        first = i * step
        row, numbers = x[first : first + length], tap[first : first + length]
        if i == 1:
            take(x, row, tap, numbers, x.dtype.type(jump), taken)
            keep(x, row, best)
        else:
            take(best, row, taken, numbers, x.dtype.type(i * jump), taken)
            keep(best, row, best)
    return length


def winners(
    start, stop, x, together, sizes, outer, before, bare, kernel, steps, places, many, firsts, won,
):  # fmt: skip
    """Compute `winning_tap` for some planes.

    Args:
        firsts: the first tap of each window that is not in the border: it wins where all the
            image is as low as the border, -∞.
    """
    start, stop = share_out(start, stop)
    wide()
    plane = outer[0] * outer[1] * outer[2]
    framed = np.full(1 if bare else together * plane, -np.inf, x.dtype)
    one, other = np.empty(together * plane, x.dtype), np.empty(together * plane, x.dtype)
    none = np.zeros(together * plane, x.dtype)
    tap, taps = np.empty(together * plane, x.dtype), np.empty(together * plane, x.dtype)
    for unit in range(start, stop):
        seen, whole = planes_at(x, unit, together, many, sizes, outer, before, bare, framed)
        length = winners_along(seen, none, whole, kernel[2], steps[2], 1, one, tap)
        length = winners_along(one, tap, length, kernel[1], steps[1], kernel[2], other, taps)
        jump = kernel[1] * kernel[2]
        best, numbers = other, taps
        if kernel[0] > 1:
            winners_along(other, taps, length, kernel[0], steps[0], jump, one, tap)
            best, numbers = one, tap
        target = unit * together * len(places)
        for first in range(0, whole, plane):
            row = won[target : target + len(places)]
            for p in range(len(row)):
                place = PLACE(first + places[p])
                row[p] = firsts[p] if best[place] == -np.inf else int(numbers[place])
            target += len(places)


def back(
    start, stop, g, together, sizes, outer, before, bare, kernel, steps, places, many, won,
    offsets, y,
):  # fmt: skip
    """Add each number of g to the place that its winner stands at.

    Args:
        offsets: for each tap, how far it is in a plane from the first one.
    """
    start, stop = share_out(start, stop)
    plane = outer[0] * outer[1] * outer[2]
    framed = np.empty(1 if bare else plane, y.dtype)
    for index in range(start, stop):
        target = y[index * plane : (index + 1) * plane] if bare else framed
        for p in range(plane):
            target[p] = 0
        at = index * len(places)
        given, winner = g[at : at + len(places)], won[at : at + len(places)]
        for p in range(len(given)):
            target[PLACE(places[p] + offsets[PLACE(winner[p])])] += given[p]
        if not bare:
            out_of_frame(framed, index, sizes, outer, before, y)


@njit
def out_of_frame(framed, image, sizes, outer, before, y):
    """Copy an image out of its border."""
    for d in range(sizes[0]):
        for h in range(sizes[1]):
            source = ((d + before[0]) * outer[1] + h + before[1]) * outer[2] + before[2]
            copy(framed, source, y, ((image * sizes[0] + d) * sizes[1] + h) * sizes[2], sizes[2])


# What is put in the place of the definitions ----------------------------------------------------


class Place:
    """Where windows stand, as the kernels want to know it: always along three axes.

    Attributes:
        many: how many planes there are, `units` after those that are handled together are put
            into one.
        arguments: see WINDOW.
        offsets: for each tap, how far it is in a plane from the first one.
        firsts: for each window, its first tap that is not in the border.
        fits: whether the kernels are for such windows.
    """

    def __init__(self, windows: Windows, shape: tuple[int, ...]) -> None:
        frame: Frame = framed((1, 1, *windows.sizes), windows.pads)
        missing = (1,) * (3 - windows.rank)
        kernel, stride, dilation, count = (
            (*missing, *each)
            for each in (windows.kernel, windows.stride, windows.dilation, windows.count)
        )
        strides = strides_of(frame.outer)
        steps = tuple(d * step for d, step in zip(dilation, strides, strict=True))
        self.offsets = grid(*(np.arange(k) * step for k, step in zip(kernel, steps, strict=True)))
        each = zip(count, stride, strides, strict=True)
        places = grid(*(np.arange(c) * (s * step) for c, s, step in each))
        self.many = math.prod(shape[: len(shape) - windows.rank])
        together = max(1, AT_HAND // frame.plane)
        self.units = -(-self.many // together)
        self.arguments = (
            together, frame.sizes[1:], frame.outer, frame.before, frame.bare, kernel, steps,
            places, self.many,
        )  # fmt: skip
        self.firsts = np.zeros(places.size, np.int64)
        if not frame.bare:
            self.firsts += first_taps(np, windows).reshape(-1)
        self.fits = sum(kernel) <= WIDE and self.firsts.min(initial=0) >= 0


@functools.lru_cache(maxsize=256)
def place_of(op: str, shape: tuple[int, ...], settings: tuple[Any, ...]) -> tuple[Windows, Place]:
    """Return where windows stand: each step of a training asks for the same ones."""
    windows = windows_of(op, shape, *settings)
    return windows, Place(windows, shape)


def flat(array: np.ndarray) -> np.ndarray:
    """Return an array as a row of numbers."""
    return np.ascontiguousarray(array).reshape(-1)


def max_pool() -> Callable[..., Any]:
    """Make the largest number of each window."""
    kernel = compiled(largest, lambda number: types.void(
        SIZE, SIZE, read(number), *WINDOW, number[::1],
    ))  # fmt: skip

    def run(input: Any, *settings: Any) -> Any:
        if not alike(input):
            return None
        windows, place = place_of("max_pool", input.shape, settings)
        if not place.fits:
            return None
        y = np.empty((*input.shape[: -windows.rank], *windows.count), input.dtype)
        work = input.size
        in_parts(kernel, place.units, flat(input), *place.arguments, y.reshape(-1), work=work)
        return y

    return run


@functools.cache
def finding() -> Callable[..., Any]:
    """Make what both need that ask which tap it was."""
    kernel = compiled(winners, lambda number: types.void(
        SIZE, SIZE, read(number), *WINDOW, LIST, TAPS[::1],
    ))  # fmt: skip

    def find(input: Any, place: Place, count: int) -> np.ndarray:
        tap = np.empty(count, np.int32)
        where = *place.arguments, place.firsts
        in_parts(kernel, place.units, flat(input), *where, tap, work=input.size)
        return tap

    return find


def winning_tap() -> Callable[..., Any]:
    """Make the number of the tap that sees the largest number."""
    find = finding()

    def run(input: Any, settings: Any) -> Any:
        if not alike(input):
            return None
        windows, place = place_of("max_pool", input.shape, settings)
        if not place.fits:
            return None
        shape = (*input.shape[: -windows.rank], *windows.count)
        tap = find(input, place, math.prod(shape)).reshape(shape)
        return tap if len(windows.taps) >= 128 else tap.astype(np.int8)

    return run


def max_pool_input() -> Callable[..., Any]:
    """Make the gradient's way back to the largest numbers."""
    find = finding()
    kernel = compiled(back, lambda number: types.void(
        SIZE, SIZE, read(number), *WINDOW, TAPS[::1], LIST, number[::1],
    ))  # fmt: skip

    def run(g: Any, input: Any, *settings: Any) -> Any:
        if not alike(g, input):
            return None
        _, place = place_of("max_pool", input.shape, settings)
        if not place.fits:
            return None
        y = np.empty(input.shape, input.dtype)
        tap = find(input, place, g.size)
        where = place.arguments
        in_parts(
            kernel, place.many, flat(g), *where, tap, place.offsets, y.reshape(-1), work=y.size
        )
        return y

    return run
