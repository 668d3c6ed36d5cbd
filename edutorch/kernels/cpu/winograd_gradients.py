"""The gradient of 3x3 filters with 16 products instead of 36: see `winograd.py`.

The gradient of a transformed filter is the sum, over all tiles, of the tile's transformed image
square times the gradient of its four positions, transformed by the transpose of the output's
matrix. It is transformed back by the transpose of the filter's matrix.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...settings import get_num_threads
from .conv_common import (
    INDEX_LIST,
    PRODUCTS_PER_ELEMENT,
    SIZE,
    TAPS_PER_STEP,
    aligned_array,
    aligned_zeros,
    channels_last_kernel,
    product,
    to_channels_last,
    transpose_block,
)
from .conv_indexing import pad_with_last
from .implicit_gemm import TILE_ROWS, vector_lanes
from .parallel import parallel_for
from .winograd import (
    INPUT_ARRAY,
    OUTPUT_ARRAY,
    SQUARE,
    TAPS,
    channels_per_block,
    compile_float32,
    evenly_spaced,
    is_finite,
    make_tiling,
    transform_gradients,
    transform_images,
    transform_sums,
)
from .work_queue import claim_range

__all__ = ["winograd_weight_gradient"]


def sum_weight_gradients(
    start, stop, x, channels, plane, image_positions, g, count, g_plane, targets, tiles, total,
    together, rows, ones, size, width, lane, taps, parts, y,
):  # fmt: skip
    """Sum the gradients of some filters: `width` output channels, `size` input channels.

    Args:
        x, g: the images and the output's gradient, channels last, with zeros at their end.
        ones: the positions of the channels, and the last one TILE_ROWS more times.
        parts: the parts of the tiles that are summed separately: y is (parts, count, channels,
            3, 3).
    """
    start, stop = claim_range(start, stop)
    groups = (total + together - 1) // together
    blocks, chunks = count // width, channels // size
    # Not powers of two, whose multiples would fall into the same cache sets.
    x_step, g_step = rows * size + lane, rows * width + lane
    y_step = (size + TILE_ROWS - 1) // TILE_ROWS * TILE_ROWS * width + lane
    images, of_images = aligned_array(SQUARE * x_step, y), evenly_spaced(SQUARE, x_step)
    responses, of_responses = aligned_array(SQUARE * g_step, y), evenly_spaced(SQUARE, g_step)
    sums, of_sums = aligned_array(SQUARE * y_step, y), evenly_spaced(SQUARE, y_step)
    raw, square = aligned_array(TAPS * lane * width, y), aligned_array(lane * lane, y)
    zeros, lines = aligned_zeros(width, y), evenly_spaced(rows, size)
    loaded_images = -1
    for unit in range(start, stop):
        at, begin, part = (
            unit % blocks * width, unit // blocks % chunks * size, unit // blocks // chunks
        )  # fmt: skip
        has_sums = False
        for group in range(groups * part // parts, groups * (part + 1) // parts):
            first, last = group * together, min((group + 1) * together, total)
            if loaded_images != unit // blocks * groups + group:
                transform_images(
                    x, begin, size, channels, plane, image_positions, tiles, first, last, lane,
                    images, of_images,
                )  # fmt: skip
                loaded_images = unit // blocks * groups + group
            transform_gradients(
                g, at, width, count, g_plane, targets, tiles, first, last, lane, responses,
                of_responses,
            )  # fmt: skip
            for k in range(SQUARE):
                for c in range(0, size, TILE_ROWS):
                    y_at = k * y_step + c * width
                    s, s_at, s_step = (sums, y_at, width) if has_sums else (zeros, 0, 0)
                    product(width // lane, images, k * x_step, ones, c, lines, 0, last - first,
                            responses, k * g_step, s, s_at, s_step, sums, y_at, width)  # fmt: skip
            has_sums = True
        for c in range(0, size, lane):
            for i in range(lane):
                for v in range(0, width, lane):
                    transform_sums(
                        sums, (c + i) * width + v, of_sums, 0, raw, i * TAPS * width + v, taps, 0
                    )
            transpose_block(
                raw, 0, width, TAPS * lane, width, y,
                ((part * count + at) * channels + begin + c) * TAPS, channels * TAPS, lane, square,
            )  # fmt: skip


@functools.cache
def winograd_weight_gradient() -> Callable[..., bool]:
    """Make the gradient of the filters."""
    channels_last_kernel()
    kernel = compile_float32(
        sum_weight_gradients, INPUT_ARRAY, SIZE, SIZE, INDEX_LIST, INPUT_ARRAY, SIZE, SIZE,
        INDEX_LIST, *[SIZE] * 4, INDEX_LIST, SIZE, SIZE, SIZE, INDEX_LIST, SIZE, OUTPUT_ARRAY,
    )  # fmt: skip

    def run(x: np.ndarray, g: np.ndarray, before: Any, y: np.ndarray) -> bool:
        """Fill y; return False if a result is not finite.

        Args:
            before: the padding above and left of the image.
        """
        lane, (channels, count) = vector_lanes(y.itemsize), (x.shape[1], y.shape[0])
        width, tiling = (
            channels_per_block(count, lane),
            make_tiling(x.shape[2:], g.shape[2:], before),
        )
        size = max(s for s in range(lane, TAPS_PER_STEP + 1, lane) if channels % s == 0)
        total, together = len(x) * tiling.tiles, tiling.tiles_per_group(len(x))
        units = count // width * (channels // size)
        parts = min(-(-get_num_threads() // units), -(-total // together))
        sums = np.empty((parts, y.size), y.dtype) if parts > 1 else y
        parallel_for(
            kernel, units * parts, to_channels_last(x, channels), channels, x[0, 0].size,
            tiling.image_positions, to_channels_last(g, count), count, g[0, 0].size, tiling.targets,
            tiling.tiles, total, together, -(-together // TILE_ROWS) * TILE_ROWS,
            pad_with_last(np.arange(size)), size, width, lane, np.arange(TAPS) * width, parts,
            sums.reshape(-1), work=total * channels * count * SQUARE // PRODUCTS_PER_ELEMENT,
        )  # fmt: skip
        if parts > 1:
            np.sum(sums, axis=0, out=y.reshape(-1))
        return is_finite(y)

    return run
