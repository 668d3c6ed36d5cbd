"""The gradients of a convolution's filters and bias.

For the filters it is the same product as for the forward, with its two lists exchanged:

    gradient[tap m] = Σₚ x[offsets[m] + starts[p]] · g[position p]

Each part of the images is summed separately and these sums are added in a fixed order, so that for
equal settings the result is always the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from ...backends.numpy import Array
from ...nn import functional
from ...nn.functional import conv
from ...nn.functional.sliding_window import Counts, Pads
from . import jit
from .conv_common import (
    PLAN,
    PRODUCTS_PER_ELEMENT,
    SIZE,
    TAPS_PER_STEP,
    KernelPlan,
    Plan,
    aligned_array,
    aligned_zeros,
    are_float_arrays,
    block_width,
    compile_kernel,
    copy_into_frame,
    integers,
    make_aligned,
    plan_convolution,
    product,
    readonly_array,
    transpose_block,
)  # fmt: skip
from .conv_direct import DotGradient, prefers_dots
from .conv_taps import meeting_taps
from .implicit_gemm import TILE_ROWS, vector_lanes
from .parallel import count_parts, parallel_for
from .row_reduce import total
from .winograd import is_finite, is_worthwhile, winograd_weight_gradient
from .work_queue import claim_range

__all__ = ["conv2d_bias", "conv_weight_grad"]

POSITIONS_PER_BLOCK = 512
"""So many positions of the output's gradient are transposed at a time."""


@njit
def pack_responses(g, g_at, g_step, out_size, block, responses, square):
    """Convert some positions of some channels to channels-last.

    Args:
        g_at: where the first channel begins in the first image; the next image is `g_step` elements
            further.
        block: the width of a row, the number of channels, the first position and the end.
    """
    width, rows, first, last = block
    p = first
    while p < last:  # image by image
        end = min(last, (p // out_size + 1) * out_size)
        transpose_block(
            g, g_at + p // out_size * g_step + p % out_size, out_size, (rows, end - p), responses,
            (p - first) * width, width, square,
        )  # fmt: skip
        p = end


def sum_weight_gradients(start, stop, x, g, sums, plan_, sizes):
    """Sum over some parts of the images, each in a buffer of its own.

    Args:
        x, g: the images and the output's gradient.
        plan_: `KernelPlan` as a plain tuple.
        sizes: the number of images and of channels; the output channels of a group, the groups, and
            the output channels rounded up to whole vectors; the parts.
        sums: for each part, group and block of channels, a row for each tap, rounded up to
            TILE_ROWS taps.
    """
    start, stop = claim_range(start, stop)
    plan = KernelPlan(*plan_)
    n, channels, count, groups, padded_channels, parts = sizes
    outer, unpadded, images, out_size = plan.outer, plan.unpadded, plan.images, plan.out_size
    starts, offsets, taps = plan.starts, plan.offsets, plan.taps
    lane = vector_lanes(g.itemsize)
    plane = outer[0] * outer[1] * outer[2]
    frame_of = aligned_zeros(1 if unpadded else images * channels * plane, g)
    responses = aligned_zeros(POSITIONS_PER_BLOCK * padded_channels, g)
    square = aligned_array(lane * lane, g)
    # A product writes TILE_ROWS rows, however few taps are left.
    rows = (taps + TILE_ROWS - 1) // TILE_ROWS * TILE_ROWS
    for index in range(start, stop):
        for image in range(n * index // parts, n * (index + 1) // parts, images):
            images_here = min(images, n * (index + 1) // parts - image)
            if not unpadded:
                copy_into_frame(
                    x, image, images_here, channels, plan.sizes, outer, plan.before, frame_of
                )
            source, begin = (x, image * channels * plane) if unpadded else (frame_of, 0)
            for part in range(groups):
                x_at = begin + part * (channels // groups) * plane
                for first in range(0, images_here * out_size, POSITIONS_PER_BLOCK):
                    positions_here = min(POSITIONS_PER_BLOCK, images_here * out_size - first)
                    at = 0
                    while at < padded_channels:
                        width = block_width(at, padded_channels, lane)
                        g_at = ((image * groups + part) * count + at) * out_size
                        block = (width, min(width, count - at), first, first + positions_here)
                        pack_responses(
                            g, g_at, groups * count * out_size, out_size, block, responses, square
                        )
                        # This part of the responses stays in the L1 cache for all taps.
                        for m in range(0, positions_here, TAPS_PER_STEP):
                            for k in range(0, taps, TILE_ROWS):
                                y_at = (
                                    (index * groups + part) * padded_channels + at
                                ) * rows + k * width
                                positions = (
                                    x_at, k, first + m, min(TAPS_PER_STEP, positions_here - m),
                                    m * width, y_at, width, y_at, width,
                                )  # fmt: skip
                                # Lists exchanged: a row is a tap, and positions are summed.
                                # `sums` is read and written, so the blocks add up there.
                                product(
                                    width // lane, source, offsets, starts, responses, sums, sums,
                                    positions,
                                )  # fmt: skip
                        at += width


def reduce_parts(start, stop, sums, y, sizes):
    """Add the parts and transpose: y is (o, taps). The range counts blocks of `lane` taps."""
    start, stop = claim_range(start, stop)
    parts, groups, taps, count, padded_channels = sizes
    lane = vector_lanes(y.itemsize)
    rows = (taps + TILE_ROWS - 1) // TILE_ROWS * TILE_ROWS
    square = np.empty(lane * lane, y.dtype)
    for block in range(start, stop):
        first = block * lane
        last = min(first + lane, taps)
        for part in range(groups):
            at = 0
            while at < count:
                width = block_width(at, padded_channels, lane)
                begin = (part * padded_channels + at) * rows + first * width
                # Into the first part, in a fixed order: the result is the same in every run.
                first_part = sums[begin : begin + (last - first) * width]
                for index in range(1, parts):
                    other_part = sums[begin + index * groups * rows * padded_channels :]
                    for i in range(len(first_part)):
                        first_part[i] += other_part[i]
                transpose_block(
                    sums, begin, width, (last - first, min(width, count - at)), y,
                    (part * count + at) * taps + first, taps, square,
                )  # fmt: skip
                at += width


class WeightGradient:
    """Computes gradients of filters by implicit GEMM."""

    def __init__(self) -> None:
        self.sum_kernel = compile_kernel(sum_weight_gradients, lambda number: types.void(
            SIZE, SIZE, *[readonly_array(number)] * 2, number[::1], PLAN, integers(6),
        ))  # fmt: skip
        self.reduce_kernel = compile_kernel(
            reduce_parts, lambda number: types.void(SIZE, SIZE, *[number[::1]] * 2, integers(5))
        )

    def __call__(
        self, plan: Plan, x: np.ndarray, g: np.ndarray, groups: int, y: np.ndarray
    ) -> None:
        """Fill y, (o, c / groups, …)."""
        n, lane = len(x), vector_lanes(y.itemsize)
        count = len(y) // groups
        padded_channels = -(-count // lane) * lane
        work = n * plan.out_size * groups * padded_channels * plan.taps // PRODUCTS_PER_ELEMENT
        parts = count_parts(n, work)
        rows = -(-plan.taps // TILE_ROWS) * TILE_ROWS
        # Not by np.zeros, whose memory need not begin at a cache line.
        sums = make_aligned(parts * groups * rows * padded_channels, y.dtype)
        sums[:] = 0
        parallel_for(
            self.sum_kernel, parts, x.reshape(-1), g.reshape(-1), sums, plan.for_kernels,
            (n, plan.frame.sizes[0], count, groups, padded_channels, parts), work=work,
        )  # fmt: skip
        parallel_for(
            self.reduce_kernel, -(-plan.taps // lane), sums, y.reshape(-1),
            (parts, groups, plan.taps, count, padded_channels), work=sums.size,
        )  # fmt: skip


@conv.conv_weight_grad.kernel("cpu", min_size=256)
def conv_weight_grad() -> Callable[..., Any]:
    """Make the gradient of a convolution's filters."""
    dots, winograd = DotGradient(), winograd_weight_gradient()
    sum_weight_gradients = WeightGradient()

    def run(
        input: Array, response: Array, kernel: Counts, stride: Counts, pads: Pads,
        dilation: Counts, groups: int,
    ) -> Any:  # fmt: skip
        if (
            not are_float_arrays(input, response)
            or input.ndim != response.ndim
            or not 3 <= input.ndim <= 5
        ):
            return None
        channels, o = input.shape[1], response.shape[1]
        if groups < 1 or channels % groups or o % groups:
            return None
        filters = (o, channels // groups, *kernel)
        meeting = meeting_taps(input.shape[2:], kernel, stride, pads, dilation)
        if meeting is not None and is_finite(response):
            part = run(input, response, meeting.kernel, stride, meeting.pads, dilation, groups)
            if part is not None:
                y = np.zeros(filters, input.dtype)  # the other taps have met zeros
                y[meeting.index] = part
                return y
        plan, count = plan_convolution("conv", input.shape, filters, stride, pads, dilation)
        if count != response.shape[2:] or len(input) != len(response):
            return None
        y = np.empty(filters, input.dtype)
        # The gradient of a sum is one broadcast element, whose strides of 0 no kernel reads.
        x, g = np.ascontiguousarray(input), np.ascontiguousarray(response)
        if is_worthwhile(x, filters, stride, dilation, groups, g[:, 0].size, least=64) and winograd(
            x, g, tuple(before for before, _ in pads), y
        ):
            return y
        # `dots` refuses a result that is not finite: then the sums are computed again by tiles.
        if not prefers_dots(plan, o // groups, vector_lanes(y.itemsize)) or not dots(
            plan, x, g, groups, y
        ):
            sum_weight_gradients(plan, x, g, groups, y)
        return y

    return run


# The bias -------------------------------------------------------------------------------------


def sum_channels(start, stop, g, n, out_size, y):
    """y = the sum over images and positions for some channels; g is (n, len(y), out_size)."""
    start, stop = claim_range(start, stop)
    jit.use_wide_vectors()
    for channel in range(start, stop):
        sum = 0.0  # in float64: there may be a million positions
        for image in range(n):
            at = (image * len(y) + channel) * out_size
            sum += total(g[at : at + out_size])
        y[channel] = sum


@functional.conv2d.kernel("cpu", "bias", min_size=2048)
@conv.conv_nd.kernel("cpu", "bias", min_size=2048)
def conv2d_bias() -> Callable[..., Any]:
    """Make the gradient of a convolution's bias, the sum over all positions."""
    kernel = compile_kernel(sum_channels, lambda number: types.void(
        SIZE, SIZE, readonly_array(number), SIZE, SIZE, number[::1],
    ))  # fmt: skip

    def run(g: Array) -> Any:
        if not are_float_arrays(g):
            return None
        n, o = g.shape[:2]
        y = np.empty(o, g.dtype)
        flat = np.ascontiguousarray(g).reshape(-1)
        parallel_for(kernel, o, flat, n, g.size // (n * o), y, work=g.size)
        return y

    return run
