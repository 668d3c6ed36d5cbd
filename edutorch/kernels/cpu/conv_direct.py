"""Direct convolution for few filters per group: depthwise ones, and first and last layers.

In `conv.py` a vector holds 16 channels of a position, and would be mostly empty where there are
one, three or six. Here it holds 16 consecutive positions in a row of the image. Six channels are
computed together, or twice as many positions of one. A row continues through the padding into the
next one: what is computed between them is discarded.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import types

from ...backends.numpy import Array
from .conv_common import (
    INDEX_LIST,
    PLAN,
    PRODUCTS_PER_ELEMENT,
    SIZE,
    TAPS_PER_STEP,
    KernelPlan,
    Plan,
    aligned_array,
    aligned_zeros,
    compile_kernel,
    copy_into_frame,
    integers,
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
    # Strips also compute what lies between two rows; tiles fill their last vector of channels.
    vectors_needed = rows * (-(-plan.length // strip) * MAX_TILE_VECTORS)
    return vectors_needed < plan.out_size * -(-count // lane)


@lru_cache(256)
def starts_of_filters(count: int, step: int) -> np.ndarray:
    """Return where each filter starts: TILE_ROWS are read, also where fewer are left."""
    return pad_with_last(np.arange(count) * step)


def prefers_dots(plan: Plan, count: int, lane: int) -> bool:
    """Whether dot products are less work than tiles for the gradient of the filters."""
    vectors_needed = plan.taps * count * (plan.length / lane + 20)
    return (
        vectors_needed
        < -(-plan.taps // TILE_ROWS) * TILE_ROWS * plan.out_size * -(-count // lane) * 0.6
    )


def conv_strips(start, stop, x, filters, bias, y, plan_, sizes):
    """Compute the result of some groups of images.

    Args:
        x: groups of `channels` channels, one image after the other.
        filters: `weight`, not packed; `rows` says where that of an output channel begins, `table`
            where its taps are.
        plan_: `KernelPlan` as a plain tuple.
        sizes: the channels of a group of x; the distance from one group of filters to the next; the
            output channels of a group; the groups; the positions computed together; the positions
            of an output channel.
    """
    start, stop = claim_range(start, stop)
    plan = KernelPlan(*plan_)
    weight, rows, table = filters
    channels, part_step, count, groups, strip, y_plane = sizes
    outer, out_size, taps, run_length = plan.outer, plan.out_size, plan.taps, plan.run_length
    starts, offsets, targets, length = plan.starts, plan.offsets, plan.targets, plan.length
    blocks, begin = (length + strip - 1) // strip, starts[0]
    row, double_strip = blocks * strip, 2 * strip
    # The last strip reads whole vectors, also past the end of the image.
    frame_of = aligned_zeros(channels * outer[0] * outer[1] * outer[2] + double_strip, y)
    sums, shift = (
        aligned_array(TILE_ROWS * row + strip, y),
        aligned_array(TILE_ROWS * double_strip, y),
    )
    for unit in range(start, stop):
        copy_into_frame(x, unit, 1, channels, plan.sizes, outer, plan.before, frame_of)
        part = unit % groups
        for o in range(0, count, TILE_ROWS):
            channels_here = min(TILE_ROWS, count - o)
            # As vectors: the lanes are positions here, and the products add s lane by lane.
            for t in range(channels_here):
                for i in range(t * double_strip, (t + 1) * double_strip):
                    shift[i] = bias[part * count + o + t]
            # In this order: with an odd number of strips, the last double strip of a row
            # ends in the next row, which is computed afterwards.
            for t in range(channels_here if channels_here < MIN_FULL_ROWS else 0):
                for at in range(t * row, (t + 1) * row, double_strip):
                    for m in range(0, taps, TAPS_PER_STEP):
                        s, s_at = (sums, at) if m else (shift, t * double_strip)
                        positions = (
                            part * part_step, o + t, m, min(TAPS_PER_STEP, taps - m),
                            begin + at - t * row, s_at, 0, at, 0,
                        )  # fmt: skip
                        single_row_product(
                            weight, rows, table, frame_of, s, sums, positions, offsets
                        )
            for at in range(0, row if channels_here >= MIN_FULL_ROWS else 0, strip):
                for m in range(0, taps, TAPS_PER_STEP):
                    s, s_at, s_step = (sums, at, row) if m else (shift, 0, double_strip)
                    positions = (
                        part * part_step, o, m, min(TAPS_PER_STEP, taps - m), begin + at, s_at,
                        s_step, at, row,
                    )  # fmt: skip
                    indexed_product(weight, rows, table, frame_of, s, sums, positions, offsets)
            for t in range(channels_here):
                y_at, from_at = (unit * count + o + t) * y_plane, t * row - begin
                # With a stride of 1, a row of the result is a run of the sums, without the padding.
                if plan.is_contiguous and run_length > 1:
                    for p in range(0, out_size, run_length):
                        copy(sums, from_at + starts[p], y, y_at + targets[p], run_length)
                    continue
                for p in range(out_size):
                    y[UNSIGNED(y_at + targets[p])] = sums[UNSIGNED(from_at + starts[p])]


class StripConvolution:
    """Executes plans by strips, instead of `conv.TiledConvolution`."""

    def __init__(self) -> None:
        self.kernel = compile_kernel(conv_strips, lambda number: types.void(
            SIZE, SIZE, readonly_array(number),
            types.Tuple((readonly_array(number), INDEX_LIST, INDEX_LIST)), readonly_array(number),
            number[::1], PLAN, integers(6),
        ))  # fmt: skip

    def __call__(
        self, plan: Plan, x: np.ndarray, weight: np.ndarray, lane_step: int, bias: Array | None,
        groups: int, y: np.ndarray,
    ) -> None:  # fmt: skip
        """Fill `y` at the positions of a plan."""
        (n, o), strip = y.shape[:2], MAX_TILE_VECTORS * vector_lanes(y.itemsize)
        count = o // groups
        shift = np.zeros(o, y.dtype) if bias is None else np.ascontiguousarray(bias)
        rows = starts_of_filters(count, lane_step)
        sizes = (
            plan.frame.sizes[0] // groups, weight.size // groups, count, groups, strip,
            y[0, 0].size,
        )  # fmt: skip
        parallel_for(
            self.kernel, n * groups, x.reshape(-1), (weight.reshape(-1), rows, plan.weights), shift,
            y.reshape(-1), plan.for_kernels, sizes,
            work=n * groups * plan.length * plan.taps * (count + TILE_ROWS) // PRODUCTS_PER_ELEMENT,
        )  # fmt: skip


# The gradient of the filters ------------------------------------------------------------------


def weight_gradient_dots(start, stop, x, g, sums, plan_, sizes):
    """Sum over some parts of the images, each in a row of its own: sums is (parts, o, taps).

    Args:
        plan_: `KernelPlan` as a plain tuple.
        sizes: the number of images, of channels and output channels of a group, of groups and of
            parts.
    """
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    plan = KernelPlan(*plan_)
    n, channels, count, groups, parts = sizes
    outer, out_size, taps, run_length = plan.outer, plan.out_size, plan.taps, plan.run_length
    starts, offsets, length = plan.starts, plan.offsets, plan.length
    frame_of = np.zeros(channels * outer[0] * outer[1] * outer[2], g.dtype)
    # It stays 0 between the rows, so what x holds there does not count.
    response_row, begin = np.zeros(length, g.dtype), starts[0]
    for index in range(start, stop):
        for unit in range(n * index // parts * groups, n * (index + 1) // parts * groups):
            copy_into_frame(x, unit, 1, channels, plan.sizes, outer, plan.before, frame_of)
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
                    # `dot` sums in float64, so an image adds one rounding to the sum.
                    tap_start = begin + offsets[k]
                    sums[target + k] += dot(response_row, frame_of[tap_start : tap_start + length])


class DotGradient:
    """Computes gradients of filters by dot products, instead of `conv_gradients.WeightGradient`."""

    def __init__(self) -> None:
        self.kernel = compile_kernel(weight_gradient_dots, lambda number: types.void(
            SIZE, SIZE, *[readonly_array(number)] * 2, number[::1], PLAN, integers(5),
        ))  # fmt: skip

    def __call__(
        self, plan: Plan, x: np.ndarray, g: np.ndarray, groups: int, y: np.ndarray
    ) -> bool:
        """Fill y, (o, c / groups, …); return False if a result is not finite.

        Between the rows the gradient is taken as 0, whatever the image holds; but 0 · ∞ is not 0.
        """
        n = len(x)
        work = n * plan.length * y.size // PRODUCTS_PER_ELEMENT
        parts = count_parts(n, work)
        sums = np.zeros((parts, y.size), y.dtype)
        sizes = (n, plan.frame.sizes[0] // groups, len(y) // groups, groups, parts)
        parallel_for(
            self.kernel, parts, x.reshape(-1), g.reshape(-1), sums.reshape(-1), plan.for_kernels,
            sizes, work=work,
        )  # fmt: skip
        np.sum(sums, axis=0, out=y.reshape(-1))
        return bool(np.isfinite(y).all())
