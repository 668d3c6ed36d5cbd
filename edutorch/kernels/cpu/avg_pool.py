"""Pooling by averages: see `max_pool.py`. Sums, like the largest, are taken along one axis after the
other, so a window of k × k numbers takes 2 k steps, and not k²."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from ...nn.functional.pooling import divisors
from ...nn.functional.sliding_window import Windows
from .conv_common import SIZE, alike, compiled, read
from .implicit_gemm import copy
from .jit import wide
from .max_pool import WINDOW, flat, out_of_frame, place_of, planes_at
from .parallel import in_parts
from .work_queue import share_out

__all__ = ["avg_pool", "avg_spread"]


@njit
def added_along(x, length, taps, step, y):
    """y[p] = Σᵢ x[p + i·step]. Return how many there are."""
    wide()
    length -= (taps - 1) * step
    copy(x, 0, y, 0, length)
    for i in range(1, taps):
        row, total = x[i * step : i * step + length], y[:length]
        for p in range(length):
            total[p] += row[p]
    return length


def averages(
    start, stop, x, together, sizes, outer, before, bare, kernel, steps, places, many, divisor, y,
):  # fmt: skip
    """Compute `avg_pool` for some planes. `divisor` has a number for each place of a plane."""
    start, stop = share_out(start, stop)
    plane = outer[0] * outer[1] * outer[2]
    framed = np.zeros(1 if bare else together * plane, y.dtype)
    one, other = np.empty(together * plane, y.dtype), np.empty(together * plane, y.dtype)
    for unit in range(start, stop):
        seen, whole = planes_at(x, unit, together, many, sizes, outer, before, bare, framed)
        length = added_along(seen, whole, kernel[2], steps[2], one)
        length = added_along(one, length, kernel[1], steps[1], other)
        added_along(other, length, kernel[0], steps[0], one)
        target = unit * together * len(places)
        for first in range(0, whole, plane):
            for p in range(len(places)):
                y[target + p] = one[first + places[p]] / divisor[p]
            target += len(places)


@njit
def spread_along(x, length, taps, step, y):
    """y[p + i·step] += x[p] for each i: `added_along` backwards."""
    wide()
    y[:length] = 0
    for i in range(taps):
        row, total = x[: length - i * step], y[i * step : length]
        for p in range(len(row)):
            total[p] += row[p]


def shares(
    start, stop, g, together, sizes, outer, before, bare, kernel, steps, places, many, divisor, y,
):  # fmt: skip
    """Compute `avg_spread` for some planes."""
    start, stop = share_out(start, stop)
    plane = outer[0] * outer[1] * outer[2]
    one, other = np.empty(plane, y.dtype), np.empty(plane, y.dtype)
    for index in range(start, stop):
        one[:] = 0
        at = index * len(places)
        for p in range(len(places)):
            one[places[p]] = g[at + p] / divisor[p]
        spread_along(one, plane, kernel[2], steps[2], other)
        spread_along(other, plane, kernel[1], steps[1], one)
        if kernel[0] > 1:
            spread_along(one, plane, kernel[0], steps[0], other)
        out_of_frame(other if kernel[0] > 1 else one, index, sizes, outer, before, y)


@functools.lru_cache(maxsize=256)
def divisors_of(windows: Windows, include: bool, override: int | None, kind: Any) -> np.ndarray:
    """Return what each place's sum is divided by, in a row."""
    found = divisors(np, windows, include, override, kind)
    return np.ascontiguousarray(np.broadcast_to(found, windows.count), kind).reshape(-1)


def avg_pool() -> Callable[..., Any]:
    """Make the average of each window."""
    kernel = compiled(averages, lambda number: types.void(
        SIZE, SIZE, read(number), *WINDOW, read(number), number[::1],
    ))  # fmt: skip

    def run(
        input: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, include: bool,
        override: int | None,
    ) -> Any:  # fmt: skip
        if not alike(input):
            return None
        settings = kernel_size, stride, padding, (1,) * len(kernel_size), ceil_mode
        windows, place = place_of("avg_pool", input.shape, settings)
        if not place.fits:
            return None
        y = np.empty((*input.shape[: -windows.rank], *windows.count), input.dtype)
        by = divisors_of(windows, include, override, input.dtype)
        rows = flat(input), *place.arguments, by, y.reshape(-1)
        in_parts(kernel, place.units, *rows, work=input.size)
        return y

    return run


def avg_spread() -> Callable[..., Any]:
    """Make the gradient's way back from averages."""
    kernel = compiled(shares, lambda number: types.void(
        SIZE, SIZE, read(number), *WINDOW, read(number), number[::1],
    ))  # fmt: skip

    def run(input: Any, shape: Any, settings: Any) -> Any:
        if not alike(input):
            return None
        kernel_size, stride, padding, ceil_mode, include, override = settings
        window = kernel_size, stride, padding, (1,) * len(kernel_size), ceil_mode
        windows, place = place_of("avg_pool", tuple(shape), window)
        if not place.fits:
            return None
        y = np.empty(shape, input.dtype)
        by = divisors_of(windows, include, override, input.dtype)
        rows = flat(input), *place.arguments, by, y.reshape(-1)
        in_parts(kernel, place.many, *rows, work=y.size)
        return y

    return run
