"""The gradient of 3x3 filters with 16 products where there were 36: see `winograd.py`.

The gradient of a bent filter is the sum, over all tiles, of what the tile sees, bent, times the
gradient of its four places, bent by the third matrix turned round. It is bent back by that of
the filters, turned round.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...settings import get_num_threads
from .conv_common import (
    A_WORK,
    LIST,
    SIZE,
    STEP,
    channels_last_kernel,
    cleared,
    product,
    room,
    turned,
    with_channels_last,
)
from .conv_indexing import with_spare
from .implicit_gemm import SIX, lanes
from .parallel import in_parts
from .winograd import (
    GIVEN,
    MADE,
    SQUARE,
    TAPS,
    bend_gradients,
    bend_images,
    bend_sums,
    finite,
    in_float32,
    steps,
    tiling_of,
    widest,
)
from .work_queue import share_out

__all__ = ["gathering"]


def gather(
    start, stop, x, channels, plane, seen, g, count, g_plane, targets, tiles, total, together, rows,
    ones, size, width, lane, taps, parts, y,
):  # fmt: skip
    """Add up the gradients of some filters: `width` channels of the response, `size` of the image.

    Args:
        x, g: the images and the response's gradient, channels last, with zeros at their end.
        ones: where the channels stand, and the last one again SIX times.
        parts: so many parts of the tiles are added up by themselves: y is (parts, count,
            channels, 3, 3).
    """
    start, stop = share_out(start, stop)
    groups = (total + together - 1) // together
    blocks, chunks = count // width, channels // size
    # Not powers of two, whose multiples get into each other's way in the caches.
    x_step, g_step = rows * size + lane, rows * width + lane
    y_step = (size + SIX - 1) // SIX * SIX * width + lane
    images, of_images = room(SQUARE * x_step, y), steps(SQUARE, x_step)
    responses, of_responses = room(SQUARE * g_step, y), steps(SQUARE, g_step)
    sums, of_sums = room(SQUARE * y_step, y), steps(SQUARE, y_step)
    raw, square = room(TAPS * lane * width, y), room(lane * lane, y)
    nothing, lines = cleared(width, y), steps(rows, size)
    held = -1
    for unit in range(start, stop):
        at, begin, part = (
            unit % blocks * width, unit // blocks % chunks * size, unit // blocks // chunks
        )  # fmt: skip
        begun = False
        for group in range(groups * part // parts, groups * (part + 1) // parts):
            first, last = group * together, min((group + 1) * together, total)
            if held != unit // blocks * groups + group:
                bend_images(x, begin, size, channels, plane, seen, tiles, first, last, lane, images,
                            of_images)  # fmt: skip
                held = unit // blocks * groups + group
            bend_gradients(g, at, width, count, g_plane, targets, tiles, first, last, lane,
                           responses, of_responses)  # fmt: skip
            for k in range(SQUARE):
                for c in range(0, size, SIX):
                    y_at = k * y_step + c * width
                    s, s_at, jump = (sums, y_at, width) if begun else (nothing, 0, 0)
                    product(width // lane, images, k * x_step, ones, c, lines, 0, last - first,
                            responses, k * g_step, s, s_at, jump, sums, y_at, width)  # fmt: skip
            begun = True
        for c in range(0, size, lane):
            for i in range(lane):
                for v in range(0, width, lane):
                    bend_sums(sums, (c + i) * width + v, of_sums, 0, raw, i * TAPS * width + v,
                              taps, 0)  # fmt: skip
            turned(raw, 0, width, TAPS * lane, width, y,
                   ((part * count + at) * channels + begin + c) * TAPS, channels * TAPS, lane,
                   square)  # fmt: skip


@functools.cache
def gathering() -> Callable[..., bool]:
    """Make the gradient of the filters."""
    channels_last_kernel()
    kernel = in_float32(
        gather, GIVEN, SIZE, SIZE, LIST, GIVEN, SIZE, SIZE, LIST, *[SIZE] * 4, LIST, SIZE, SIZE,
        SIZE, LIST, SIZE, MADE,
    )  # fmt: skip

    def run(x: np.ndarray, g: np.ndarray, before: Any, y: np.ndarray) -> bool:
        """Fill y; False: there was something that is not finite.

        Args:
            before: the first place of g begins so many places above and left of the image.
        """
        lane, (channels, count) = lanes(y.itemsize), (x.shape[1], y.shape[0])
        width, tiling = widest(count, lane), tiling_of(x.shape[2:], g.shape[2:], before)
        size = max(s for s in range(lane, STEP + 1, lane) if channels % s == 0)
        total, together = len(x) * tiling.tiles, tiling.together(len(x))
        units = count // width * (channels // size)
        parts = min(-(-get_num_threads() // units), -(-total // together))
        sums = np.empty((parts, y.size), y.dtype) if parts > 1 else y
        in_parts(
            kernel, units * parts, with_channels_last(x, channels), channels, x[0, 0].size,
            tiling.seen, with_channels_last(g, count), count, g[0, 0].size, tiling.targets,
            tiling.tiles, total, together, -(-together // SIX) * SIX, with_spare(np.arange(size)),
            size, width, lane, np.arange(TAPS) * width, parts, sums.reshape(-1),
            work=total * channels * count * SQUARE // A_WORK,
        )  # fmt: skip
        if parts > 1:
            np.sum(sums, axis=0, out=y.reshape(-1))
        return finite(y)

    return run
