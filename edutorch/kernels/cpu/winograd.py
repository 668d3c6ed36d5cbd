"""Winograd convolution F(2x2, 3x3): 3x3 filters with stride 1, with 16 products instead of 36.

A tile of 2x2 output positions reads a square of 4x4 positions of the image. Each of the four takes
9 products. Winograd found that 16 are enough, as two complex numbers can be multiplied with three
products instead of four. Along one axis, with d the image and w the filter:

    y₀ = d₀w₀ + d₁w₁ + d₂w₂ = m₀ + m₁ + m₂        m₀ = (d₀ - d₂) · w₀
    y₁ = d₁w₀ + d₂w₁ + d₃w₂ = m₁ - m₂ - m₃        m₁ = (d₁ + d₂) · (w₀ + w₁ + w₂) / 2
                                                  m₂ = (d₂ - d₁) · (w₀ - w₁ + w₂) / 2
                                                  m₃ = (d₁ - d₃) · w₂

So image and filter are *transformed* by a matrix each, multiplied elementwise, and the product is
transformed back; for a square, along both axes. The transformed image is shared by all filters and
the transformed filter by all tiles. What is left is a sum over channels, a matrix product for each
of the 16 elements.

All of this is in channels-last layout, because SIMD vectors run along the channels.

Adding before multiplying costs some precision: against float64, the largest error in a layer of
ResNet-18 is 3 to 6 · 10⁻⁷ of the largest value, where the direct sum has 3 · 10⁻⁷.

Paper: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, arxiv.org/abs/1509.09308
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types

from ...backends.numpy import Array
from ...nn.functional.sliding_window import Counts
from ...settings import get_num_threads
from .conv_common import (
    INDEX_LIST,
    PRODUCTS_PER_ELEMENT,
    SIZE,
    TAPS_PER_STEP,
    aligned_array,
    aligned_zeros,
    channels_last_kernel,
    integers,
    pad_with_last,
    product,
    readonly_array,
    to_channels_last,
    transpose_block,
)
from .implicit_gemm import (
    MAX_TILE_VECTORS,
    TILE_ROWS,
    Writer,
    copy,
    define_intrinsic,
    transpose_square,
    vector_lanes,
)
from .parallel import parallel_for
from .work_queue import claim_range

__all__ = [
    "INPUT_ARRAY", "OUTPUT_ARRAY", "SQUARE", "TAPS", "channels_per_block", "compile_float32",
    "evenly_spaced", "is_finite", "is_worthwhile", "make_tiling", "transform_gradients",
    "transform_images", "transform_sums", "winograd_convolution", "winograd_weight_gradient",
]  # fmt: skip

IMAGE = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))
FILTER = ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))
OUTPUT = ((1, 1, 1, 0), (0, 1, -1, -1))
TAPS, SQUARE = 9, 16
MIDDLE = 5
"""The one of the 16 elements that all four output positions get with a factor of one."""
TILES_PER_GROUP = 64
"""About so many tiles are transformed at a time: they stay in the L2 cache."""
MAX_SINGLE_GROUP = 128
"""Up to so many tiles are transformed at once: then each filter is transformed only once."""
CHANNELS_PER_CHUNK = 128
"""So many channels of the filters are transformed at a time: they stay in the L2 cache, too."""
FILTERS_PER_READ = 64
"""So many adjacent filters are read at a time."""
OUTPUT_ARRAY, INPUT_ARRAY = types.float32[::1], readonly_array(types.float32)


# The transforms -------------------------------------------------------------------------------


def weighted_sum(w: Writer, weights: Sequence[float], vectors: list[Any]) -> Any:
    """Write the weighted sum of vectors."""
    total = None
    for weight, vector in zip(weights, vectors, strict=True):
        # The weights are known while code is written: 0 leaves no instruction, and ±1 no product.
        if not weight:
            continue
        if abs(weight) != 1:
            vector = w.builder.fmul(vector, w.vector([abs(weight)] * w.vector.count))
        if total is None:
            total = vector if weight > 0 else w.builder.fneg(vector)
        else:
            total = (w.builder.fadd if weight > 0 else w.builder.fsub)(total, vector)
    return total


def winograd_transform(matrix: Sequence[Sequence[float]]) -> Callable[..., None]:
    """Make `transform`: y = M x Mᵀ, where each element of the squares x and y is a vector."""

    @define_intrinsic
    def transform(typing, x, x_at, x_positions, y, y_at, y_positions):
        """Transform one square.

        Args:
            x_positions: row by row, the distance of each vector of x from `x_at`; `y_positions`:
                of y from `y_at`.
        """
        size = types.int64
        return types.void(x, size, x_positions, y, size, y_positions), write

    def write(*lowering: Any) -> Any:
        w = Writer(*lowering)
        n = len(matrix[0])

        def at(array: int, index: int) -> Any:
            """Return the address in an array that its table of positions gives."""
            position = w.builder.load(w.pointer(array + 2, index))
            return w.pointer(array, w.arguments[array + 1], position)

        rows = [[w.load(at(0, i * n + j)) for j in range(n)] for i in range(n)]
        # Along one axis and then along the other: sums of at most four terms, and not one of 16.
        rows = [[weighted_sum(w, weights, row) for weights in matrix] for row in rows]
        for i, weights in enumerate(matrix):
            for j in range(len(matrix)):
                vector = weighted_sum(w, weights, [row[j] for row in rows])
                w.store(vector, at(3, i * len(matrix) + j))
        return w.context.get_dummy_value()

    return transform


def transpose_matrix(matrix: Sequence[Sequence[float]]) -> Any:
    """Return the transpose of a matrix."""
    return tuple(zip(*matrix, strict=True))


transform_image, transform_filter = winograd_transform(IMAGE), winograd_transform(FILTER)
transform_output = winograd_transform(OUTPUT)
# The chain rule through a matrix is its transpose: so the gradients take the same code.
transform_gradient = winograd_transform(transpose_matrix(OUTPUT))
transform_sums = winograd_transform(transpose_matrix(FILTER))


# Index lists ----------------------------------------------------------------------------------


class Tiling(NamedTuple):
    """The tiles of 2x2 positions of one image's output, row by row.

    Attributes:
        tiles: the number of tiles.
        row: the number of tiles in a row.
        image_positions: 16 positions of the image for each tile; -1 is outside.
        targets: 4 positions of the output for each tile; -1 is outside.
    """

    tiles: int
    row: int
    image_positions: np.ndarray
    targets: np.ndarray

    def tiles_per_group(self, images: int) -> int:
        """Return how many tiles are transformed at a time: whole rows of them."""
        all_tiles = images * self.tiles
        if all_tiles <= MAX_SINGLE_GROUP:
            return all_tiles
        return max(1, TILES_PER_GROUP // self.row) * self.row


@functools.lru_cache(maxsize=256)
def make_tiling(
    image: tuple[int, int], response: tuple[int, int], before: tuple[int, int]
) -> Tiling:
    """Return the tiles of an output.

    Args:
        before: the padding above and left of the image.
    """
    down, across = (-(-size // 2) for size in response)

    def tile_positions(size: tuple[int, int], length: int, before: tuple[int, int]) -> np.ndarray:
        y, x = (
            2 * np.arange(count)[:, None] + np.arange(length) - border
            for count, border in zip((down, across), before, strict=True)
        )
        y, x = y[:, None, :, None], x[None, :, None, :]
        is_inside = (y >= 0) & (y < size[0]) & (x >= 0) & (x < size[1])
        return np.where(is_inside, y * size[1] + x, -1).reshape(-1)

    return Tiling(
        down * across, across, tile_positions(image, 4, before), tile_positions(response, 2, (0, 0))
    )


# The kernel -----------------------------------------------------------------------------------


@njit
def evenly_spaced(count, step):
    """Return the positions 0, step, 2 · step, …"""
    positions = np.empty(count, np.int64)
    for k in range(count):
        positions[k] = k * step
    return positions


@njit
def find_positions(tile_positions, count, tile, tiles, plane, channels, zeros, positions):
    """Compute the positions in memory of a tile's `count` elements; `zeros` where outside."""
    begin = tile // tiles * plane
    for k in range(count):
        position = tile_positions[tile % tiles * count + k]
        # What lies outside is read from the zeros at the end: so images need no padded copy.
        positions[k] = zeros if position < 0 else (begin + position) * channels


@njit
def transform_images(x, image_positions, images, block, transformed, to):
    """Transform the image squares of the tiles from `first` to `last`, in some channels.

    Args:
        x: the images, channels last, and a position of zeros at their end.
        images: the number of channels, of positions and of tiles of an image.
        block: the first channel, the number of channels, the first tile and the end.
        transformed: has a row of `size` elements for each tile, 16 times.
        to: where each of the 16 begins.
    """
    channels, plane, tiles = images
    begin, size, first, last = block
    positions, lane = np.empty(SQUARE, np.int64), vector_lanes(x.itemsize)
    for tile in range(first, last):
        find_positions(
            image_positions, SQUARE, tile, tiles, plane, channels, len(x) - channels, positions
        )
        for c in range(0, size, lane):
            transform_image(x, begin + c, positions, transformed, (tile - first) * size + c, to)


@njit
def transform_gradients(g, targets, images, block, transformed, to):
    """Transform the gradients of the four positions of tiles: see `transform_images`."""
    channels, plane, tiles = images
    begin, size, first, last = block
    positions, lane = np.empty(4, np.int64), vector_lanes(g.itemsize)
    for tile in range(first, last):
        find_positions(targets, 4, tile, tiles, plane, channels, len(g) - channels, positions)
        for c in range(0, size, lane):
            transform_gradient(g, begin + c, positions, transformed, (tile - first) * size + c, to)


@njit
def transform_filters(weight, block, taps, raw, square, transformed, to):
    """Transform the filters of `width` output channels, for some input channels.

    Args:
        block: where the first one begins; the distances from one output channel, and from one input
            channel, to the next; the number of input channels; width.
        taps: the position of each tap in `raw`, a buffer for some filters.
    """
    source, row_step, step, channels, width = block
    lane = vector_lanes(weight.itemsize)
    filters_per_read = FILTERS_PER_READ if step == TAPS else 1  # adjacent filters
    for m in range(0, channels, filters_per_read):
        filters_here = min(filters_per_read, channels - m)
        for v in range(0, width, lane):
            start = source + v * row_step + m * step
            if (
                # A full square reads beyond nine taps: only where that is inside the array.
                lane > TAPS
                and filters_per_read == 1
                and start + lane * row_step + lane <= len(weight)
            ):
                transpose_square(
                    weight, start, row_step, raw, 0, lane
                )  # more than is wanted, but at once
            else:
                shape = (lane, filters_here * TAPS)
                transpose_block(weight, start, row_step, shape, raw, 0, lane, square)
            for i in range(filters_here):
                transform_filter(raw, i * TAPS * lane, taps, transformed, (m + i) * width + v, to)


@njit
def transform_outputs(sums, of_sums, targets, images, block, square, y):
    """Transform the sums of some tiles back and write them to y, in channels-first layout.

    Args:
        targets: the four positions of each tile of an image.
        images: the number of channels, of positions and of tiles of an image of y; the largest
            number of positions of these tiles, and one more, into which positions outside are
            written.
        block: the first output channel, the number of channels, the first tile and the end.
    """
    count, plane, tiles, max_positions = images
    at, width, first, last = block
    lane = vector_lanes(y.itemsize)
    outputs, output_offsets = aligned_array(max_positions * width, y), np.empty(4, np.int64)
    begin = first // tiles * plane + targets[first % tiles * 4]
    for tile in range(first, last):
        for k in range(4):
            position = targets[tile % tiles * 4 + k]
            output_offsets[k] = (
                # Stores without a condition: what lies outside goes to a spare position.
                max_positions - 1 if position < 0 else tile // tiles * plane + position - begin
            ) * width
        for v in range(0, width, lane):
            transform_output(sums, (tile - first) * width + v, of_sums, outputs, v, output_offsets)
    p, ends = begin, last // tiles * plane + targets[last % tiles * 4]
    while p < ends:  # image by image
        image, end = p // plane, min(ends, (p // plane + 1) * plane)
        y_at = (image * count + at) * plane + p % plane
        transpose_block(
            outputs, (p - begin) * width, width, (end - p, width), y, y_at, plane, square
        )
        p = end


class ConvolveSizes(NamedTuple):
    """The numbers of a convolution.

    Attributes:
        channels, plane: of an image; count, y_plane: of an image of the output.
        row_step, step: from one output channel, and from one input channel, to the next.
        tiles, total: the number of tiles of an image, and of all images.
        together, rows: so many tiles are processed together; rounded up to TILE_ROWS.
        width: so many output channels are.
        max_positions: see `transform_outputs`.
    """

    channels: int
    plane: int
    count: int
    y_plane: int
    row_step: int
    step: int
    tiles: int
    total: int
    together: int
    rows: int
    width: int
    max_positions: int


def convolve(start, stop, x, weight, bias, lists, sizes, y):
    """Compute some parts of the output: `together` tiles, `width` channels each.

    Args:
        x: the images, channels last, and a position of zeros at their end.
        lists: the positions of tiles in an image, those of taps, and those of tiles in the output.
        sizes: `ConvolveSizes` as a plain tuple.
    """
    start, stop = claim_range(start, stop)
    image_positions, taps, targets = lists
    (
        channels, plane, count, y_plane, row_step, step, tiles, total, together, rows, width,
        max_positions,
    ) = sizes  # fmt: skip
    lane = vector_lanes(y.itemsize)
    groups = (total + together - 1) // together
    # Not powers of two, whose multiples would fall into the same cache sets.
    f_step, v_step = min(channels, CHANNELS_PER_CHUNK) * width + lane, rows * channels + lane
    filters, of_filters = aligned_array(SQUARE * f_step, y), evenly_spaced(SQUARE, f_step)
    # Zeros: rows that fill up a group's last tile are multiplied as well, and then ignored.
    images, of_images = aligned_zeros(SQUARE * v_step, y), evenly_spaced(SQUARE, v_step)
    sums, of_sums = aligned_array(SQUARE * rows * width, y), evenly_spaced(SQUARE, rows * width)
    raw, square = aligned_array(TAPS * FILTERS_PER_READ * lane, y), aligned_array(lane * lane, y)
    lines, ones = evenly_spaced(rows, channels), evenly_spaced(channels, 1)
    # Zeros and then the bias: sums start at one or the other.
    shift = aligned_zeros(2 * width, y)
    loaded_filters = loaded_group = -1  # what the buffers hold: a thread's units often share it
    for unit in range(start, stop):
        at, group = unit // groups * width, unit % groups
        first, last = group * together, min((group + 1) * together, total)
        copy(bias, at, shift, width, width)
        if loaded_group != group:
            block = (0, channels, first, last)
            transform_images(x, image_positions, (channels, plane, tiles), block, images, of_images)
            loaded_group = group
        for chunk in range(0, channels, CHANNELS_PER_CHUNK):
            channels_here = min(CHANNELS_PER_CHUNK, channels - chunk)
            if loaded_filters != at * channels + chunk:
                block = (at * row_step + chunk * step, row_step, step, channels_here, width)
                transform_filters(weight, block, taps, raw, square, filters, of_filters)
                loaded_filters = at * channels + chunk
            for k in range(SQUARE):
                for p in range(0, last - first, TILE_ROWS):
                    # The middle element is part of all four positions: the bias is added there.
                    y_at, begin = (k * rows + p) * width, width if k == MIDDLE else 0
                    # The first chunk of channels starts the sums, and the others continue them.
                    s, s_at, bias_step = (sums, y_at, width) if chunk else (shift, begin, 0)
                    positions = (
                        k * v_step + chunk, p, 0, channels_here, k * f_step, s_at, bias_step, y_at,
                        width,
                    )  # fmt: skip
                    product(width // lane, images, lines, ones, filters, s, sums, positions)
        results = (count, y_plane, tiles, max_positions)
        transform_outputs(sums, of_sums, targets, results, (at, width, first, last), square, y)


# The makers -----------------------------------------------------------------------------------


def compile_float32(kernel: Callable[..., None], *argument_types: Any) -> Any:
    """Compile a kernel for float32: float64 is chosen for precision, which transforms reduce."""
    options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
    return njit([types.void(SIZE, SIZE, *argument_types)], **options)(kernel)


@functools.cache
def winograd_convolution() -> Callable[..., bool]:
    """Make the convolution, which with flipped filters is also the gradient of its input."""
    channels_last_kernel()
    lists = types.UniTuple(INDEX_LIST, 3)
    kernel = compile_float32(convolve, *[INPUT_ARRAY] * 3, lists, integers(12), OUTPUT_ARRAY)

    def run(
        x: np.ndarray,
        weight: np.ndarray,
        bias: Array | None,
        before: tuple[int, int],
        y: np.ndarray,
        flip_filters: bool,
    ) -> bool:
        """Fill y; return False if a result is not finite.

        Args:
            before: the padding above and left of the image.
            flip_filters: whether the filters are flipped, with the channels of x as first axis.
        """
        lane, (channels, count) = vector_lanes(y.itemsize), (x.shape[1], y.shape[1])
        width = channels_per_block(count, lane)
        tiling = make_tiling(x.shape[2:], y.shape[2:], before)
        total, together = len(x) * tiling.tiles, tiling.tiles_per_group(len(x))
        row_step, step = (TAPS, TAPS * count) if flip_filters else (TAPS * channels, TAPS)
        taps = np.arange(TAPS) * lane
        shift = np.zeros(count, y.dtype) if bias is None else np.ascontiguousarray(bias)
        taps = taps[::-1].copy() if flip_filters else taps
        sizes = ConvolveSizes(
            channels, x[0, 0].size, count, y[0, 0].size, row_step, step, tiling.tiles, total,
            together, rows=-(-together // TILE_ROWS) * TILE_ROWS, width=width,
            max_positions=together // tiling.row * 2 * y.shape[3] + 1,
        )  # fmt: skip
        parallel_for(
            kernel, -(-total // together) * (count // width), to_channels_last(x, channels),
            weight.reshape(-1), shift, (tiling.image_positions, taps, tiling.targets),
            tuple(sizes), y.reshape(-1),
            work=total * channels * count * SQUARE // PRODUCTS_PER_ELEMENT,
        )  # fmt: skip
        return is_finite(y)

    return run


def channels_per_block(count: int, lane: int) -> int:
    """Return how many output channels are accumulated together."""
    return next(
        padded_channels * lane
        for padded_channels in (4, 2, 1)
        if padded_channels <= MAX_TILE_VECTORS and count % (padded_channels * lane) == 0
    )


def is_finite(y: np.ndarray) -> bool:
    """Whether all elements are finite and their sum of squares does not overflow.

    The transforms add elements which the definition keeps apart: one ∞ would reach its neighbors.
    """
    # In one pass, without an array of booleans: any ∞ or NaN makes this sum one of both.
    return bool(np.isfinite(np.vdot(y, y)))


def is_worthwhile(
    x: np.ndarray, weight: tuple[int, ...], stride: Counts, dilation: Counts, groups: int,
    positions: int, least: int = 32,
) -> bool:  # fmt: skip
    """Whether a convolution is supported, and the transforms save more than they cost.

    Args:
        weight: the shape of the filters.
        positions: the output positions of all images.
        least: the minimum of input and output channels.
    """
    if weight[2:] != (3, 3) or x.dtype != np.float32 or positions < 128:
        return False
    if any(value != 1 for value in (*stride, *dilation, groups)):
        return False
    # A multiple of 32 is whole vectors of any length: no kernel has code for a remainder.
    return all(value >= least and value % 32 == 0 for value in weight[:2])


class GradientSizes(NamedTuple):
    """The numbers of a gradient.

    Attributes:
        channels, plane: of an image; count, g_plane: of the output's gradient.
        tiles, total, together, rows: see `ConvolveSizes`.
        width, size: the output and the input channels of a block.
        parts: the parts of the tiles that are summed separately.
    """

    channels: int
    plane: int
    count: int
    g_plane: int
    tiles: int
    total: int
    together: int
    rows: int
    width: int
    size: int
    parts: int


def sum_weight_gradients(start, stop, x, g, lists, sizes, y):
    """Sum the gradients of some filters: `width` output channels, `size` input channels.

    Args:
        x, g: the images and the output's gradient, channels last, with zeros at their end.
        lists: the positions of tiles in an image and in the output; those of the channels, the last
            one TILE_ROWS more times; those of taps.
        sizes: `GradientSizes` as a plain tuple.
        y: (parts, count, channels, 3, 3).
    """
    start, stop = claim_range(start, stop)
    image_positions, targets, ones, taps = lists
    channels, plane, count, g_plane, tiles, total, together, rows, width, size, parts = sizes
    lane = vector_lanes(y.itemsize)
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
            # Output channels run fastest: if a part has one group, its images serve them all.
            if loaded_images != unit // blocks * groups + group:
                block = (begin, size, first, last)
                transform_images(
                    x, image_positions, (channels, plane, tiles), block, images, of_images
                )
                loaded_images = unit // blocks * groups + group
            block = (at, width, first, last)
            transform_gradients(g, targets, (count, g_plane, tiles), block, responses, of_responses)
            for k in range(SQUARE):
                for c in range(0, size, TILE_ROWS):
                    y_at = k * y_step + c * width
                    s, s_at, s_step = (sums, y_at, width) if has_sums else (zeros, 0, 0)
                    positions = (
                        k * x_step,
                        c,
                        0,
                        last - first,
                        k * g_step,
                        s_at,
                        s_step,
                        y_at,
                        width,
                    )
                    product(width // lane, images, ones, lines, responses, s, sums, positions)
            has_sums = True
        for c in range(0, size, lane):
            for i in range(lane):
                for v in range(0, width, lane):
                    transform_sums(
                        sums, (c + i) * width + v, of_sums, raw, i * TAPS * width + v, taps
                    )
            transpose_block(
                raw, 0, width, (TAPS * lane, width), y,
                ((part * count + at) * channels + begin + c) * TAPS, channels * TAPS, square,
            )  # fmt: skip


@functools.cache
def winograd_weight_gradient() -> Callable[..., bool]:
    """Make the gradient of the filters."""
    channels_last_kernel()
    lists = types.UniTuple(INDEX_LIST, 4)
    kernel = compile_float32(
        sum_weight_gradients, INPUT_ARRAY, INPUT_ARRAY, lists, integers(11), OUTPUT_ARRAY
    )

    def run(x: np.ndarray, g: np.ndarray, before: tuple[int, int], y: np.ndarray) -> bool:
        """Fill y; return False if a result is not finite.

        Args:
            before: the padding above and left of the image.
        """
        lane, (channels, count) = vector_lanes(y.itemsize), (x.shape[1], y.shape[0])
        width = channels_per_block(count, lane)
        tiling = make_tiling(x.shape[2:], g.shape[2:], before)
        # A divisor, so that no block of channels is incomplete.
        size = max(s for s in range(lane, TAPS_PER_STEP + 1, lane) if channels % s == 0)
        total, together = len(x) * tiling.tiles, tiling.tiles_per_group(len(x))
        units = count // width * (channels // size)
        parts = min(-(-get_num_threads() // units), -(-total // together))
        sums = np.empty((parts, y.size), y.dtype) if parts > 1 else y
        sizes = GradientSizes(
            channels, x[0, 0].size, count, g[0, 0].size, tiling.tiles, total, together,
            -(-together // TILE_ROWS) * TILE_ROWS, width, size, parts,
        )  # fmt: skip
        ones, taps = pad_with_last(np.arange(size)), np.arange(TAPS) * width
        parallel_for(
            kernel, units * parts, to_channels_last(x, channels), to_channels_last(g, count),
            (tiling.image_positions, tiling.targets, ones, taps), tuple(sizes), sums.reshape(-1),
            work=total * channels * count * SQUARE // PRODUCTS_PER_ELEMENT,
        )  # fmt: skip
        if parts > 1:  # fewer blocks than threads: each has summed some of the tiles
            np.sum(sums, axis=0, out=y.reshape(-1))
        return is_finite(y)

    return run
