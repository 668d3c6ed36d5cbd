"""Direct convolution for few filters per group: depthwise ones, and first and last layers.

In `conv.py` a vector holds 16 channels of a position, and would be mostly empty where there are
one, three or six. Here it holds 16 consecutive positions in a row of the image. Six channels are
computed together, or twice as many positions of one. A row continues through the padding into the
next one: what is computed between them is discarded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from .conv_common import (
    INDEX_LIST,
    PRODUCTS_PER_ELEMENT,
    SIZE,
    SIZES,
    TAPS_PER_STEP,
    Plan,
    aligned_array,
    aligned_zeros,
    compile_kernel,
    copy_into_frame,
    pad_with_last,
    readonly_array,
)
from .implicit_gemm import (
    MAX_TILE_VECTORS,
    TILE_ROWS,
    copy,
    indexed_product,
    single_row_product,
    vector_lanes,
)
from .jit import use_wide_vectors
from .parallel import count_parts, parallel_for
from .row_reduce import dot
from .work_queue import claim_range

__all__ = ["DotGradient", "StripConvolution", "prefers_dots", "prefers_strips"]


MIN_FULL_ROWS = 3
"""Fewer channels than this are computed one by one: of six at once, most would be discarded."""
UNSIGNED = np.uint64
"""An unsigned index saves the branch that Python's x[-1] costs for each x[p]."""


def prefers_strips(plan: Plan, count: int, lane: int) -> bool:
    """Whether so few channels are computed that strips are less work than tiles."""
    strip, remainder = MAX_TILE_VECTORS * lane, count % TILE_ROWS
    rows = count - remainder + (TILE_ROWS if remainder >= MIN_FULL_ROWS else remainder)
    vectors_needed = rows * (-(-plan.length // strip) * MAX_TILE_VECTORS)
    return vectors_needed < plan.out_size * -(-count // lane)


def prefers_dots(plan: Plan, count: int, lane: int) -> bool:
    """Whether dot products are less work than tiles for the gradient of the filters."""
    vectors_needed = plan.taps * count * (plan.length / lane + 20)
    return (
        vectors_needed
        < -(-plan.taps // TILE_ROWS) * TILE_ROWS * plan.out_size * -(-count // lane) * 0.6
    )


def conv_strips(
    start, stop, x, channels, sizes, outer, before, out_size, starts, offsets, taps, run_length,
    targets, is_contiguous, length, weight, rows, table, part_step, bias, count, groups, strip, y,
    y_plane,
):  # fmt: skip
    """Compute the result of some groups of images.

    Args:
        x: groups of `channels` channels, one image after the other.
        weight: the filters, not packed; `rows` says where that of an output channel begins,
            `table` where its taps are, `part_step` the distance to the next group.
        length: the distance from the first position to the last one, inclusive.
        strip: the number of positions computed together.
    """
    start, stop = claim_range(start, stop)
    blocks, begin = (length + strip - 1) // strip, starts[0]
    row, double_strip = blocks * strip, 2 * strip
    frame_of = aligned_zeros(channels * outer[0] * outer[1] * outer[2] + double_strip, y)
    sums, shift = (
        aligned_array(TILE_ROWS * row + strip, y),
        aligned_array(TILE_ROWS * double_strip, y),
    )
    for unit in range(start, stop):
        copy_into_frame(x, unit, 1, channels, sizes, outer, before, frame_of)
        part = unit % groups
        for o in range(0, count, TILE_ROWS):
            channels_here = min(TILE_ROWS, count - o)
            for t in range(channels_here):
                for i in range(t * double_strip, (t + 1) * double_strip):
                    shift[i] = bias[part * count + o + t]
            for t in range(channels_here if channels_here < MIN_FULL_ROWS else 0):
                for at in range(t * row, (t + 1) * row, double_strip):
                    for m in range(0, taps, TAPS_PER_STEP):
                        s, s_at = (sums, at) if m else (shift, t * double_strip)
                        single_row_product(
                            weight, part * part_step, rows, o + t, table, m,
                            min(TAPS_PER_STEP, taps - m), frame_of, begin + at - t * row, s, s_at,
                            0, sums, at, 0, offsets, m,
                        )  # fmt: skip
            for at in range(0, row if channels_here >= MIN_FULL_ROWS else 0, strip):
                for m in range(0, taps, TAPS_PER_STEP):
                    s, s_at, s_step = (sums, at, row) if m else (shift, 0, double_strip)
                    indexed_product(
                        weight, part * part_step, rows, o, table, m, min(TAPS_PER_STEP, taps - m),
                        frame_of, begin + at, s, s_at, s_step, sums, at, row, offsets, m,
                    )  # fmt: skip
            for t in range(channels_here):
                y_at, from_at = (unit * count + o + t) * y_plane, t * row - begin
                if is_contiguous and run_length > 1:
                    for p in range(0, out_size, run_length):
                        copy(sums, from_at + starts[p], y, y_at + targets[p], run_length)
                    continue
                for p in range(out_size):
                    y[UNSIGNED(y_at + targets[p])] = sums[UNSIGNED(from_at + starts[p])]


class StripConvolution:
    """Executes plans by strips, instead of `conv.TiledConvolution`."""

    def __init__(self) -> None:
        self.kernel = compile_kernel(
            conv_strips,
            lambda number: types.void(
                SIZE, SIZE, readonly_array(number), SIZE, SIZES, SIZES, SIZES, SIZE, INDEX_LIST,
                INDEX_LIST, SIZE, SIZE, INDEX_LIST, types.boolean, SIZE, readonly_array(number),
                INDEX_LIST, INDEX_LIST, SIZE, readonly_array(number), *[SIZE] * 3, number[::1],
                SIZE,
            ),
        )  # fmt: skip

    def __call__(
        self, plan: Plan, x: np.ndarray, weight: np.ndarray, lane_step: int, bias: Any,
        groups: int, y: np.ndarray,
    ) -> None:  # fmt: skip
        """Fill `y` at the positions of a plan."""
        frame, (n, o), strip = plan.frame, y.shape[:2], MAX_TILE_VECTORS * vector_lanes(y.itemsize)
        count = o // groups
        shift = np.zeros(o, y.dtype) if bias is None else np.ascontiguousarray(bias)
        parallel_for(
            self.kernel, n * groups, x.reshape(-1), frame.sizes[0] // groups, frame.sizes[1:],
            frame.outer, frame.before, plan.out_size, plan.starts, plan.offsets, plan.taps,
            plan.run_length, plan.targets, plan.is_contiguous, plan.length, weight.reshape(-1),
            pad_with_last(np.arange(count) * lane_step), plan.weights, weight.size // groups, shift,
            count, groups, strip, y.reshape(-1), y[0, 0].size,
            work=n * groups * plan.length * plan.taps * (count + TILE_ROWS) // PRODUCTS_PER_ELEMENT,
        )  # fmt: skip


# The gradient of the filters ------------------------------------------------------------------


def weight_gradient_dots(
    start, stop, x, n, channels, sizes, outer, before, out_size, starts, offsets, taps, run_length,
    length, g, count, groups, parts, sums,
):  # fmt: skip
    """Sum over some parts of the images, each in a row of its own: sums is (parts, o, taps)."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    frame_of = np.zeros(channels * outer[0] * outer[1] * outer[2], g.dtype)
    response_row, begin = np.zeros(length, g.dtype), starts[0]
    for index in range(start, stop):
        for unit in range(n * index // parts * groups, n * (index + 1) // parts * groups):
            copy_into_frame(x, unit, 1, channels, sizes, outer, before, frame_of)
            for o in range(count):
                g_at = (unit * count + o) * out_size
                if run_length > 1:
                    for p in range(0, out_size, run_length):
                        copy(g, g_at + p, response_row, starts[p] - begin, run_length)
                else:
                    for p in range(out_size):
                        response_row[UNSIGNED(starts[p] - begin)] = g[UNSIGNED(g_at + p)]
                target = ((index * groups + unit % groups) * count + o) * taps
                for k in range(taps):
                    tap_start = begin + offsets[k]
                    sums[target + k] += dot(response_row, frame_of[tap_start : tap_start + length])


class DotGradient:
    """Computes gradients of filters by dot products, instead of `conv_gradients.WeightGradient`."""

    def __init__(self) -> None:
        self.kernel = compile_kernel(
            weight_gradient_dots,
            lambda number: types.void(
                SIZE, SIZE, readonly_array(number), SIZE, SIZE, SIZES, SIZES, SIZES, SIZE,
                INDEX_LIST, INDEX_LIST, *[SIZE] * 3, readonly_array(number), *[SIZE] * 3,
                number[::1],
            ),
        )  # fmt: skip

    def __call__(
        self, plan: Plan, x: np.ndarray, g: np.ndarray, groups: int, y: np.ndarray
    ) -> bool:
        """Fill y, (o, c / groups, …); return False if a result is not finite.

        Between the rows the gradient is taken as 0, whatever the image holds; but 0 · ∞ is not 0.
        """
        frame, n = plan.frame, len(x)
        work = n * plan.length * y.size // PRODUCTS_PER_ELEMENT
        parts = count_parts(n, work)
        sums = np.zeros((parts, y.size), y.dtype)
        parallel_for(
            self.kernel, parts, x.reshape(-1), n, frame.sizes[0] // groups, frame.sizes[1:],
            frame.outer, frame.before, plan.out_size, plan.starts, plan.offsets, plan.taps,
            plan.run_length, plan.length, g.reshape(-1), len(y) // groups, groups, parts,
            sums.reshape(-1), work=work,
        )  # fmt: skip
        np.sum(sums, axis=0, out=y.reshape(-1))
        return bool(np.isfinite(y).all())
