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
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types

from ...backends.numpy import Array
from ...nn import functional
from ...nn.functional import conv
from ...nn.functional.conv import check_groups, resolve_window
from ...nn.functional.sliding_window import Counts, Pads
from ...settings import get_num_threads
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
    are_float_arrays,
    block_width,
    compile_kernel,
    copy_into_frame,
    integers,
    make_aligned,
    plan_convolution,
    plan_transposed_convolution,
    product,
    readonly_array,
    to_channels_last,
    transpose_block,
)
from .conv_direct import StripConvolution, prefers_strips
from .conv_taps import meeting_taps
from .implicit_gemm import MAX_TILE_VECTORS, TILE_ROWS, copy, vector_lanes
from .parallel import parallel_for
from .winograd import is_finite, is_worthwhile, winograd_convolution
from .work_queue import claim_range

UNSIGNED = np.uint64
"""An unsigned index saves the branch that Python's x[-1] costs for each x[p]."""
MIN_POSITIONS = 16
"""With fewer output positions than this, packing the filters takes longer than the definition."""


# The forward ----------------------------------------------------------------------------------


def pack_filters(start, stop, weight, table, packed, sizes):
    """Pack the filters in the order in which they are read: for each tap a block of channels.

    The range counts steps of TAPS_PER_STEP taps. In `weight`, either the output channels are
    contiguous, or all taps of one are.
    """
    start, stop = claim_range(start, stop)
    lane_step, part_step, count, groups, padded_channels = sizes
    taps, lane = len(table), vector_lanes(packed.itemsize)
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
                        weight, source + first, lane_step, (rows, last - first), packed, target,
                        width, square,
                    )  # fmt: skip
                at += width


@njit
def write_out(plan, sums, block, square, y, y_position):
    """Write the sums of some positions, for some channels, to the result.

    Args:
        block: the width of the sums' rows, the number of channels, the first position and the end.
        y_position: where the first channel begins in the first image, and the distances from there
            to the next image and to the next channel.
    """
    width, rows, first, last = block
    y_at, y_step, y_plane = y_position
    out_size, targets = plan.out_size, plan.targets
    p = first
    while p < last:  # image by image
        image = p // out_size
        end, shift, target = (
            min(last, (image + 1) * out_size),
            image * out_size,
            y_at + image * y_step,
        )
        s_at = (p - first) * width
        if plan.is_contiguous:
            begin = target + targets[0] + p - shift
            transpose_block(sums, s_at, width, (end - p, rows), y, begin, y_plane, square)
        else:
            for o in range(rows):
                for index in range(end - p):
                    place = target + o * y_plane + targets[p - shift + index]
                    y[UNSIGNED(place)] = sums[s_at + index * width + o]
        p = end


class TileSizes(NamedTuple):
    """The numbers of a tiled convolution.

    Attributes:
        n, channels: of the images.
        count: the output channels of a group; `padded_channels`: rounded up to whole vectors. The
            bias has `padded_channels` elements for each group.
        tile, tiles: the positions of a tile, the tiles of a group of images.
        share: the channels of a group computed at a time: with few tiles, threads divide them.
        y_plane: the number of elements of an output channel.
    """

    n: int
    channels: int
    count: int
    groups: int
    padded_channels: int
    tile: int
    tiles: int
    share: int
    y_plane: int


def conv_tiles(start, stop, x, weight, bias, y, plan_, sizes):
    """Compute some tiles of the result.

    Args:
        x: the images; weight: the filters, packed as above.
        plan_, sizes: `KernelPlan` and `TileSizes` as plain tuples.
    """
    start, stop = claim_range(start, stop)
    plan = KernelPlan(*plan_)
    n, channels, count, groups, padded_channels, tile, tiles, share, y_plane = sizes
    outer, unpadded, images, taps = plan.outer, plan.unpadded, plan.images, plan.taps
    starts, offsets = plan.starts, plan.offsets
    lane = vector_lanes(y.itemsize)
    shares, plane = (padded_channels + share - 1) // share, outer[0] * outer[1] * outer[2]
    frame_of = aligned_zeros(1 if unpadded else images * channels * plane, y)
    sums, square = (
        aligned_array((tile + TILE_ROWS) * MAX_TILE_VECTORS * lane, y),
        aligned_array(lane * lane, y),
    )
    # The frame is kept between units, and its border of zeros is never written again.
    framed_group = -1
    for unit in range(start, stop):
        group, first = unit // shares // tiles, unit // shares % tiles * tile
        image = group * images
        images_here = min(images, n - image)
        last = min(first + tile, images_here * plan.out_size)
        if not unpadded and group != framed_group:  # neighboring units read the same images
            copy_into_frame(
                x, image, images_here, channels, plan.sizes, outer, plan.before, frame_of
            )
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
                    # This part of the filters stays in the L1 cache for all positions of the tile.
                    for p in range(first, last, TILE_ROWS):
                        y_at = (p - first) * width
                        # With a step of 0, all positions begin with the same row: the bias.
                        s, s_at, s_step = (
                            (sums, y_at, width) if m else (bias, part * padded_channels + at, 0)
                        )
                        positions = (x_at, p, m, tap_count, b_at, s_at, s_step, y_at, width)
                        product(width // lane, source, starts, offsets, weight, s, sums, positions)
                y_at = ((image * groups + part) * count + at) * y_plane
                block = (width, min(width, count - at), first, last)
                write_out(plan, sums, block, square, y, (y_at, groups * count * y_plane, y_plane))
                at += width


class TiledConvolution:
    """Executes plans, by tiles or by strips."""

    def __init__(self) -> None:
        self.strips = StripConvolution()
        self.pack_kernel = compile_kernel(pack_filters, lambda number: types.void(
            SIZE, SIZE, readonly_array(number), INDEX_LIST, number[::1], integers(5),
        ))  # fmt: skip
        self.tiles_kernel = compile_kernel(conv_tiles, lambda number: types.void(
            SIZE, SIZE, *[readonly_array(number)] * 3, number[::1], PLAN, integers(9),
        ))  # fmt: skip

    def __call__(
        self, plan: Plan, x: np.ndarray, weight: np.ndarray, lane_step: int, bias: Array | None,
        groups: int, y: np.ndarray,
    ) -> None:  # fmt: skip
        """Fill `y` at the positions of a plan.

        Args:
            lane_step: the distance in `weight` from one output channel to the next.
        """
        key = (y.shape, weight.size, y.itemsize, lane_step, groups, get_num_threads())
        launch = plan.launches.get(key)
        if launch is None:
            launch = plan.launches[key] = plan_launch(plan, *key)
        if launch.by_strips:
            self.strips(plan, x, weight, lane_step, bias, groups, y)
            return
        packed = make_aligned(launch.packed_size, y.dtype)
        padded_channels, count = launch.sizes.padded_channels, launch.sizes.count
        if padded_channels > count:  # the lanes without a filter are computed, and not written
            packed[:] = 0
        parallel_for(
            self.pack_kernel, -(-plan.taps // TAPS_PER_STEP), weight.reshape(-1), plan.weights,
            packed, launch.pack_sizes, work=launch.packed_size,
        )  # fmt: skip
        shift = np.zeros(groups * padded_channels, y.dtype)
        if bias is not None:
            shift.reshape(groups, -1)[:, :count] = bias.reshape(groups, count)
        parallel_for(
            self.tiles_kernel, launch.units, x.reshape(-1), packed, shift, y.reshape(-1),
            plan.for_kernels, launch.tile_sizes, work=launch.work,
        )  # fmt: skip


class Launch(NamedTuple):
    """What the kernels are told besides the plan; kept with it.

    Attributes:
        by_strips: whether strips take less work than tiles.
        packed_size: the number of elements of the packed filters; `pack_sizes` for `pack_filters`.
        units: the range of `conv_tiles`, with `sizes`, which `tile_sizes` are as a plain tuple.
        work: see `parallel_for`.
    """

    by_strips: bool
    packed_size: int
    pack_sizes: tuple[int, ...]
    units: int
    sizes: TileSizes
    tile_sizes: tuple[int, ...]
    work: int


def plan_launch(
    plan: Plan, shape: Counts, weight_size: int, itemsize: int, lane_step: int, groups: int,
    threads: int,
) -> Launch:  # fmt: skip
    """Return what the kernels are told about a result of this shape."""
    (n, o), lane = shape[:2], vector_lanes(itemsize)
    count = o // groups
    padded_channels = -(-count // lane) * lane
    units, blocks = (
        -(-n // plan.images) * plan.tiles,
        -(-padded_channels // (MAX_TILE_VECTORS * lane)),
    )
    # With fewer tiles than threads, the channels of a tile are shared among several.
    share = -(-blocks // -(-threads // units)) * MAX_TILE_VECTORS * lane
    sizes = TileSizes(
        n, plan.frame.sizes[0], count, groups, padded_channels, plan.tile, plan.tiles, share,
        math.prod(shape[2:]),
    )  # fmt: skip
    return Launch(
        prefers_strips(plan, count, lane),
        groups * padded_channels * plan.taps,
        (lane_step, weight_size // groups, count, groups, padded_channels),
        units * -(-padded_channels // share),
        sizes,
        tuple(sizes),
        n * plan.out_size * groups * padded_channels * plan.taps // PRODUCTS_PER_ELEMENT,
    )


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
        input: Array,
        weight: Array,
        bias: Array | None,
        stride: Counts,
        padding: Counts | str,
        dilation: Counts,
        groups: int,
    ) -> Any:
        arrays = (input, weight) if bias is None else (input, weight, bias)
        if not are_float_arrays(*arrays) or input.ndim != weight.ndim or not 3 <= input.ndim <= 5:
            return None
        op = name or f"conv{input.ndim - 2}d"
        if input.shape[1] != weight.shape[1] * groups:
            return None  # the definition says what is wrong
        check_groups(op, weight.shape[0], groups)
        settings = stride, padding, dilation
        if list in map(type, settings):
            settings = tuple(
                tuple(value) if value.__class__ is list else value for value in settings
            )  # type: ignore[assignment]
        kernel, strides, pads, dilations = resolve_window(weight.shape, *settings)
        meeting = meeting_taps(input.shape[2:], kernel, strides, pads, dilations)
        if meeting is not None and is_finite(weight):
            return run(input, weight[meeting.index], bias, strides, meeting.pads, dilations, groups)
        plan, count = plan_convolution(op, input.shape, weight.shape, *settings)
        if len(input) * plan.out_size < MIN_POSITIONS:
            return None
        y = np.empty((input.shape[0], weight.shape[0], *count), input.dtype)
        x, w = np.ascontiguousarray(input), np.ascontiguousarray(weight)
        used_winograd = is_worthwhile(
            x, w.shape, strides, dilations, groups, y[:, 0].size
        ) and winograd(x, w, bias, tuple(before for before, _ in pads), y, flip_filters=False)
        if not used_winograd:
            convolve(plan, x, w, w.size // len(w), bias, groups, y)
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
        input: Array, weight: Array, size: Counts, stride: Counts, pads: Pads, dilation: Counts,
        groups: int,
    ) -> Any:  # fmt: skip
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
        meeting = meeting_taps(tuple(size), weight.shape[2:], stride, pads, dilation)
        if meeting is not None and is_finite(weight):
            part = weight[meeting.index]
            return run(input, part, size, stride, meeting.pads, dilation, groups)
        if is_worthwhile(x, w.shape, stride, dilation, groups, len(x) * math.prod(size)):
            y = np.empty(shape, input.dtype)
            # With flipped filters of three taps, a padding of p becomes one of 2 - p.
            if winograd(x, w, None, tuple(2 - before for before, _ in pads), y, flip_filters=True):
                return y
        # The padding is multiplied here, and skipped by the definition; but 0 · ∞ is not 0.
        if not is_finite(w):
            return None
        plans, covers_all = plan_transposed_convolution(
            input.shape, weight.shape, tuple(size), stride, pads, dilation, groups
        )
        # Positions between the taps, where the stride exceeds the filter, stay 0.
        y = (np.empty if covers_all else np.zeros)(shape, input.dtype)
        # With the output channels contiguous, packing copies rows instead of transposing. With one
        # tap, or one output channel in a group, they are so already.
        w = w if w[0, 0].size == 1 or w.shape[1] == 1 else to_channels_last(w)
        for plan in plans:
            convolve(plan, x, w, 1, None, groups, y)
        return y

    return run
