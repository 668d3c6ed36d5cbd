"""Convolution and transposed convolution by implicit GEMM, without im2col.

The definition copies each window into the columns of a matrix, and multiplies. Here the product
reads the windows where they are (`implicit_gemm.py`), so nothing is copied but the images into
their padded frames. Memory is touched once: about a hundred positions of the result are computed
with a part of the filters that stays in the L1 cache, by each thread for its own images.

While it is accumulated, the result is in channels-last layout, because SIMD vectors run along the
channels. It is transposed when it is written.

Two cases have kernels of their own: few filters (`conv_direct.py`), and many of 3x3
(`winograd.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from ...nn import functional
from ...nn.functional import conv
from ...nn.functional.conv import check_groups, resolve_window
from ...settings import get_num_threads
from .conv_common import (
    INDEX_LIST,
    PRODUCTS_PER_ELEMENT,
    SIZE,
    SIZES,
    TAPS_PER_STEP,
    Plan,
    aligned_array,
    aligned_zeros,
    are_float_arrays,
    block_width,
    compile_kernel,
    copy_into_frame,
    plan_convolution,
    plan_transposed_convolution,
    product,
    readonly_array,
    to_channels_last,
    transpose_block,
)
from .conv_direct import StripConvolution, prefers_strips
from .implicit_gemm import MAX_TILE_VECTORS, TILE_ROWS, copy, vector_lanes
from .parallel import parallel_for
from .winograd import is_worthwhile, winograd_convolution
from .work_queue import claim_range

UNSIGNED = np.uint64
"""An unsigned index saves the branch that Python's x[-1] costs for each x[p]."""
MIN_POSITIONS = 16
"""With fewer output positions than this, packing the filters takes longer than the definition."""


# The forward ----------------------------------------------------------------------------------


def pack_filters(
    start, stop, weight, table, lane_step, part_step, count, groups, padded_channels, lane, packed,
):  # fmt: skip
    """Pack the filters in the order in which they are read: for each tap a block of channels.

    The range counts steps of TAPS_PER_STEP taps. In `weight`, either the output channels are
    contiguous, or all taps of one are.
    """
    start, stop = claim_range(start, stop)
    taps = len(table)
    square = aligned_array(lane * lane, packed)
    for block in range(start, stop):
        first = block * TAPS_PER_STEP
        last = min(first + TAPS_PER_STEP, taps)
        for part in range(groups):
            at = 0
            while at < padded_channels:
                width = block_width(at, padded_channels, lane)
                target = (part * padded_channels + at) * taps + first * width
                source = part * part_step + at * lane_step
                rows = min(width, count - at)
                if lane_step == 1:
                    for m in range(first, last):
                        copy(weight, source + table[m], packed, target + (m - first) * width, rows)
                else:
                    transpose_block(
                        weight, source + first, lane_step, rows, last - first, packed, target,
                        width, lane, square,
                    )  # fmt: skip
                at += width


@njit
def write_out(
    sums, width, first, last, out_size, targets, is_contiguous, rows, lane, square, y, y_at, y_step,
    y_plane,
):  # fmt: skip
    """Write the sums of the positions from `first` to `last`, for `rows` channels, to the result.

    Args:
        out_size: the positions per image; `targets`: their indices in a channel of the result.
        y_at: where the first channel begins in the first image; the next image is `y_step`, the
            next channel `y_plane` elements further.
    """
    p = first
    while p < last:  # image by image
        image = p // out_size
        end, shift, target = (
            min(last, (image + 1) * out_size),
            image * out_size,
            y_at + image * y_step,
        )
        s_at = (p - first) * width
        if is_contiguous:
            transpose_block(
                sums, s_at, width, end - p, rows, y, target + targets[0] + p - shift, y_plane, lane,
                square,
            )  # fmt: skip
        else:
            for o in range(rows):
                for index in range(end - p):
                    place = target + o * y_plane + targets[p - shift + index]
                    y[UNSIGNED(place)] = sums[s_at + index * width + o]
        p = end


def conv_tiles(
    start, stop, x, n, channels, sizes, outer, before, unpadded, images, out_size, starts, offsets,
    taps, targets, is_contiguous, tile, tiles, share, weight, bias, count, groups, padded_channels,
    lane, y, y_plane,
):  # fmt: skip
    """Compute some tiles of the result.

    Args:
        x: n images with `channels` each; `weight`: packed as above.
        count: the output channels of a group; `padded_channels`: rounded up to whole vectors. The
            bias has `padded_channels` elements for each group.
        share: the channels of a group computed at a time: with few tiles, threads divide them.
        y_plane: the number of elements of an output channel.
    """
    start, stop = claim_range(start, stop)
    shares, plane = (padded_channels + share - 1) // share, outer[0] * outer[1] * outer[2]
    frame_of = aligned_zeros(1 if unpadded else images * channels * plane, y)
    sums, square = (
        aligned_array((tile + TILE_ROWS) * MAX_TILE_VECTORS * lane, y),
        aligned_array(lane * lane, y),
    )
    framed_group = -1
    for unit in range(start, stop):
        group, first = unit // shares // tiles, unit // shares % tiles * tile
        image = group * images
        images_here = min(images, n - image)
        last = min(first + tile, images_here * out_size)
        if not unpadded and group != framed_group:
            copy_into_frame(x, image, images_here, channels, sizes, outer, before, frame_of)
            framed_group = group
        source, begin = (x, image * channels * plane) if unpadded else (frame_of, 0)
        for part in range(groups):
            x_at = begin + part * (channels // groups) * plane
            at = unit % shares * share
            end = min(at + share, padded_channels)
            while at < end:
                width = block_width(at, padded_channels, lane)
                for m in range(0, taps, TAPS_PER_STEP):
                    b_at, tap_count = (
                        (part * padded_channels + at) * taps + m * width,
                        min(TAPS_PER_STEP, taps - m),
                    )
                    for p in range(first, last, TILE_ROWS):
                        y_at = (p - first) * width
                        s, s_at, s_step = (
                            (sums, y_at, width) if m else (bias, part * padded_channels + at, 0)
                        )
                        product(width // lane, source, x_at, starts, p, offsets, m, tap_count,
                                weight, b_at, s, s_at, s_step, sums, y_at, width)  # fmt: skip
                y_at = ((image * groups + part) * count + at) * y_plane
                write_out(sums, width, first, last, out_size, targets, is_contiguous,
                          min(width, count - at), lane, square, y, y_at, groups * count * y_plane,
                          y_plane)  # fmt: skip
                at += width


class TiledConvolution:
    """Executes plans, by tiles or by strips."""

    def __init__(self) -> None:
        self.strips = StripConvolution()
        self.pack_kernel = compile_kernel(pack_filters, lambda number: types.void(
            SIZE, SIZE, readonly_array(number), INDEX_LIST, *[SIZE] * 6, number[::1],
        ))  # fmt: skip
        self.tiles_kernel = compile_kernel(
            conv_tiles,
            lambda number: types.void(
                SIZE, SIZE, readonly_array(number), SIZE, SIZE, SIZES, SIZES, SIZES, types.boolean,
                SIZE, SIZE, INDEX_LIST, INDEX_LIST, SIZE, INDEX_LIST, types.boolean, *[SIZE] * 3,
                readonly_array(number), readonly_array(number), SIZE, SIZE, SIZE, SIZE, number[::1],
                SIZE,
            ),
        )  # fmt: skip

    def __call__(
        self, plan: Plan, x: np.ndarray, weight: np.ndarray, lane_step: int, bias: Any,
        groups: int, y: np.ndarray,
    ) -> None:  # fmt: skip
        """Fill `y` at the positions of a plan.

        Args:
            lane_step: the distance in `weight` from one output channel to the next.
        """
        frame, (n, o), lane = plan.frame, y.shape[:2], vector_lanes(y.itemsize)
        count = o // groups
        padded_channels = -(-count // lane) * lane
        if prefers_strips(plan, count, lane):
            self.strips(plan, x, weight, lane_step, bias, groups, y)
            return
        packed = aligned_array.py_func(groups * padded_channels * plan.taps, y)
        if padded_channels > count:
            packed[:] = 0
        parallel_for(
            self.pack_kernel, -(-plan.taps // TAPS_PER_STEP), weight.reshape(-1), plan.weights,
            lane_step, weight.size // groups, count, groups, padded_channels, lane, packed,
            work=packed.size,
        )  # fmt: skip
        shift = np.zeros((groups, padded_channels), y.dtype)
        if bias is not None:
            shift[:, :count] = bias.reshape(groups, count)
        units, blocks = (
            -(-n // plan.images) * plan.tiles,
            -(-padded_channels // (MAX_TILE_VECTORS * lane)),
        )
        share = -(-blocks // -(-get_num_threads() // units)) * MAX_TILE_VECTORS * lane
        parallel_for(
            self.tiles_kernel, units * -(-padded_channels // share), x.reshape(-1), n,
            frame.sizes[0], frame.sizes[1:], frame.outer, frame.before, frame.unpadded, plan.images,
            plan.out_size, plan.starts, plan.offsets, plan.taps, plan.targets, plan.is_contiguous,
            plan.tile, plan.tiles, share, packed, shift.reshape(-1), count, groups, padded_channels,
            lane, y.reshape(-1), y[0, 0].size,
            work=n * plan.out_size * groups * padded_channels * plan.taps // PRODUCTS_PER_ELEMENT,
        )  # fmt: skip


_convolutions: list[TiledConvolution] = []


def tiled_convolution() -> TiledConvolution:
    """Return the shared instance: its kernels are compiled once."""
    if not _convolutions:
        _convolutions.append(TiledConvolution())
    return _convolutions[0]


def convolution_kernel(name: str) -> Callable[..., Any]:
    """Make the forward of `conv2d`, or of `conv_nd`, whose name in errors depends on the rank."""
    convolve, winograd = tiled_convolution(), winograd_convolution()

    def run(
        input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Any:
        arrays = (input, weight) if bias is None else (input, weight, bias)
        if not are_float_arrays(*arrays) or input.ndim != weight.ndim or not 3 <= input.ndim <= 5:
            return None
        op = name or f"conv{input.ndim - 2}d"
        if input.shape[1] != weight.shape[1] * groups:
            return None  # the definition says what is wrong
        check_groups(op, weight.shape[0], groups)
        settings = tuple(
            tuple(setting) if isinstance(setting, list) else setting
            for setting in (stride, padding, dilation)
        )
        plan, count = plan_convolution(op, input.shape, weight.shape, *settings)
        if len(input) * plan.out_size < MIN_POSITIONS:
            return None
        y = np.empty((input.shape[0], weight.shape[0], *count), input.dtype)
        x, w = np.ascontiguousarray(input), np.ascontiguousarray(weight)
        _, strides, pads, dilations = resolve_window(weight.shape, *settings)
        used_winograd = is_worthwhile(
            x, w.shape, strides, dilations, groups, y[:, 0].size
        ) and winograd(x, w, bias, tuple(before for before, _ in pads), y, flip_filters=False)
        if not used_winograd:
            convolve(plan, x, w, w[0].size, bias, groups, y)
        return y

    return run


@functional.conv2d.kernel("cpu", min_size=256)
def conv2d() -> Callable[..., Any]:
    """Make the forward of `conv2d`."""
    return convolution_kernel("conv2d")


@conv.conv_nd.kernel("cpu", min_size=256)
def conv_nd() -> Callable[..., Any]:
    """Make the forward of `conv_nd`: sequences, images and volumes."""
    return convolution_kernel("")


@conv.conv_transpose_nd.kernel("cpu", min_size=256)
def conv_transpose_nd() -> Callable[..., Any]:
    """Make the transposed convolution, which is also the input's gradient of a convolution.

    The definition scatters each element of the input over the result, and adds where they overlap.
    With a stride of s, positions s apart are reached by the same taps; each of these phases is a
    convolution of the input with its own part of the flipped filters.
    """
    convolve, winograd = tiled_convolution(), winograd_convolution()

    def run(
        input: Any, weight: Any, size: Any, stride: Any, pads: Any, dilation: Any, groups: int
    ) -> Any:
        if (
            not are_float_arrays(input, weight)
            or input.ndim != weight.ndim
            or not 3 <= input.ndim <= 5
        ):
            return None
        if input.shape[1] != weight.shape[0]:
            return None
        check_groups("conv_transpose", weight.shape[0], groups)
        if input.size < MIN_POSITIONS * input.shape[1]:
            return None
        x, w = np.ascontiguousarray(input), np.ascontiguousarray(weight)
        shape = (input.shape[0], groups * weight.shape[1], *size)
        if is_worthwhile(x, w.shape, stride, dilation, groups, len(x) * math.prod(size)):
            y = np.empty(shape, input.dtype)
            if winograd(x, w, None, tuple(2 - before for before, _ in pads), y, flip_filters=True):
                return y
        # The padding is multiplied here, and skipped by the definition; but 0 · ∞ is not 0.
        if not np.isfinite(np.vdot(w, w)):
            return None
        plans, covers_all = plan_transposed_convolution(
            input.shape, weight.shape, tuple(size), stride, pads, dilation, groups
        )
        y = (np.empty if covers_all else np.zeros)(shape, input.dtype)
        w = w if w[0, 0].size == 1 or w.shape[1] == 1 else to_channels_last(w)
        for plan in plans:
            convolve(plan, x, w, 1, None, groups, y)
        return y

    return run
