"""What the kernels of convolution share: how they are compiled, and how images are moved about."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from .implicit_gemm import WIDEST, copy, four_wide, lanes, move, one_wide, turn, two_wide
from .parallel import in_parts
from .work_queue import share_out

__all__ = [
    "A_WORK", "LIST", "SIZE", "SIZES", "STEP", "alike", "channels_last_kernel", "cleared",
    "compiled", "product", "put_into_frame", "read", "room", "turned", "width_at",
    "with_channels_last",
]  # fmt: skip

FLOATS = (types.float32, types.float64)
SIZE, SIZES = types.int64, types.UniTuple(types.int64, 3)
LIST = types.Array(SIZE, 1, "C", readonly=True)
STEP = 128
"""So many taps of the filters, for four vectors of channels, are half of the nearest cache."""
LINE = 64
"""So many bytes the caches move at a time."""
A_WORK = 32
"""Products of numbers that take as long as touching one number in memory."""


def read(number: Any) -> Any:
    """Return the type of a row of numbers which is only read."""
    return types.Array(number, 1, "C", readonly=True)


def compiled(function: Callable[..., None], signature: Callable[[Any], Any]) -> Any:
    """Compile a kernel for both kinds of numbers."""
    options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
    return njit([signature(float_) for float_ in FLOATS], **options)(function)


def alike(*arrays: Any) -> bool:
    """Say whether arrays are all of float32 or all of float64, and not empty."""
    kind = arrays[0].dtype
    return kind in (np.float32, np.float64) and all(a.dtype == kind and a.size for a in arrays)


@njit
def width_at(at: int, wide: int, lane: int) -> int:
    """Return how many channels, from `at` on, are summed up together."""
    left = (wide - at) // lane
    if left >= 4 and WIDEST == 4:
        return 4 * lane
    return 2 * lane if left >= 2 else lane


@njit
def product(
    width, x, x_at, first, first_at, second, second_at, count, b, b_at, s, s_at, s_step,
    y, y_at, y_step,
):  # fmt: skip
    """Call the product of this width: see `implicit_gemm.py`."""
    if width == 4:
        four_wide(x, x_at, first, first_at, second, second_at, count, b, b_at, s, s_at, s_step,
                  y, y_at, y_step)  # fmt: skip
    elif width == 2:
        two_wide(x, x_at, first, first_at, second, second_at, count, b, b_at, s, s_at, s_step,
                 y, y_at, y_step)  # fmt: skip
    else:
        one_wide(x, x_at, first, first_at, second, second_at, count, b, b_at, s, s_at, s_step,
                 y, y_at, y_step)  # fmt: skip


@njit
def room(size, like):
    """Return room for numbers, whose vectors do not lie across two lines of the cache."""
    made = np.empty(size + LINE // like.itemsize, like.dtype)
    skip = -made.ctypes.data % LINE // like.itemsize
    return made[skip : skip + size]


@njit
def cleared(size, like):
    """Return room for numbers which are 0. (Compiling `x[:] = 0` takes half a second.)"""
    made = room(size, like)
    for i in range(size):
        made[i] = 0
    return made


@njit
def put_into_frame(x, image, images, channels, sizes, outer, before, framed):
    """Copy images into their border, which is there already."""
    depth, height, width = sizes
    for plane in range(images * channels):
        for d in range(depth):
            for h in range(height):
                start = (((image * channels + plane) * depth) + d) * height + h
                target = ((plane * outer[0] + d + before[0]) * outer[1] + h + before[1]) * outer[2]
                target += before[2]
                copy(x, start * width, framed, target, width)


@njit
def turned(x, x_at, x_step, rows, columns, y, y_at, y_step, lane, square):
    """Transpose a matrix: y[j, i] = x[i, j] for i below `rows`, j below `columns`.

    `square` is room for one square of numbers, which is where incomplete ones are put together.
    """
    for i in range(0, rows, lane):
        for j in range(0, columns, lane):
            start, target = x_at + i * x_step + j, y_at + j * y_step + i
            if rows - i >= lane and columns - j >= lane:
                turn(x, start, x_step, y, target, y_step)
                continue
            down, across = min(lane, rows - i), min(lane, columns - j)
            if start + (lane - 1) * x_step + lane <= len(x):  # there is something to read
                turn(x, start, x_step, square, 0, lane)
                for b in range(across):
                    if down == lane:
                        move(square, b * lane, y, target + b * y_step)
                    else:
                        copy(square, b * lane, y, target + b * y_step, down)
            else:
                for b in range(across):
                    for a in range(down):
                        y[target + b * y_step + a] = x[start + a * x_step + b]


def channels_last(start, stop, x, channels, plane, lane, y):
    """Put the channels of each place side by side.

    Rows from `start` to `stop` are vectors of channels of one image, as many as it has.
    """
    start, stop = share_out(start, stop)
    square = room(lane * lane, y)
    parts = (channels + lane - 1) // lane
    for index in range(start, stop):
        image, c = index // parts, index % parts * lane
        turned(x, (image * channels + c) * plane, plane, min(lane, channels - c), plane, y,
               image * plane * channels + c, channels, lane, square)  # fmt: skip


@functools.cache
def channels_last_kernel() -> Any:
    """Compile it once for all who use it."""
    return compiled(channels_last, lambda number: types.void(
        SIZE, SIZE, read(number), SIZE, SIZE, SIZE, number[::1],
    ))  # fmt: skip


def with_channels_last(x: np.ndarray, spare: int = 0) -> np.ndarray:
    """Return x (n c …) as a row of places with their channels, and so many zeros at its end."""
    n, channels, plane, lane = *x.shape[:2], x[0, 0].size, lanes(x.itemsize)
    y = room.py_func(x.size + spare, x)
    y[x.size :] = 0
    in_parts(
        channels_last_kernel(), n * -(-channels // lane), x.reshape(-1), channels, plane, lane, y,
        work=x.size,
    )  # fmt: skip
    return y
