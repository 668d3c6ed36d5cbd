"""3x3 filters, moved by one place at a time, with 16 products where there were 36.

Four places of the response, two by two, see a square of four by four places of the image. Each
of the four takes 9 products. Winograd found that 16 are enough, as two complex numbers can be
multiplied with three products and not four. Along one axis, with d the image and w the filter:

    y₀ = d₀w₀ + d₁w₁ + d₂w₂ = m₀ + m₁ + m₂        m₀ = (d₀ - d₂) · w₀
    y₁ = d₁w₀ + d₂w₁ + d₃w₂ = m₁ - m₂ - m₃        m₁ = (d₁ + d₂) · (w₀ + w₁ + w₂) / 2
                                                  m₂ = (d₂ - d₁) · (w₀ - w₁ + w₂) / 2
                                                  m₃ = (d₁ - d₃) · w₂

So image and filter are *bent* by a matrix each, multiplied number by number, and bent back; on a
square, along both axes. The bent image is shared by all filters and the bent filter by all
places. What is left is a sum over channels, a product of matrices for each of the 16 numbers.

In all of this the channels of a place stand side by side, because vectors run along channels.

Adding up before multiplying costs a part of a digit: against float64, the largest error in a
layer of ResNet-18 is 3 to 6 · 10⁻⁷ of the largest number, where the plain sum has 3 · 10⁻⁷.

Paper: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, arxiv.org/abs/1509.09308
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types

from .conv_common import (
    A_WORK,
    LIST,
    SIZE,
    channels_last_kernel,
    cleared,
    product,
    read,
    room,
    turned,
    with_channels_last,
)
from .implicit_gemm import SIX, WIDEST, Writer, copy, inside, lanes, turn
from .parallel import in_parts
from .work_queue import share_out

__all__ = [
    "GIVEN", "MADE", "SQUARE", "TAPS", "bend_gradients", "bend_images", "bend_sums", "finite",
    "in_float32", "pays", "responding", "steps", "tiling_of", "widest",
]  # fmt: skip

IMAGE = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))
FILTER = ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))
ANSWER = ((1, 1, 1, 0), (0, 1, -1, -1))
TAPS, SQUARE = 9, 16
MIDDLE = 5
"""The one of the 16 numbers that all four places get with a factor of one."""
TOGETHER = 64
"""About so many tiles are bent at a time: they stay in the second cache."""
ALL = 128
"""So few are bent all at once: then each filter is bent a single time."""
CHUNK = 128
"""So many channels of the filters are bent at a time: they stay in the second cache too."""
SOME = 64
"""So many filters that stand side by side are read at a time."""
MADE, GIVEN = types.float32[::1], read(types.float32)


# Bending --------------------------------------------------------------------------------------


def weighed(w: Writer, weights: Any, vectors: list[Any]) -> Any:
    """Add vectors up, each times its weight."""
    total = None
    for weight, vector in zip(weights, vectors, strict=True):
        if not weight:
            continue
        if abs(weight) != 1:
            vector = w.builder.fmul(vector, w.vector([abs(weight)] * w.vector.count))
        if total is None:
            total = vector if weight > 0 else w.builder.fneg(vector)
        else:
            total = (w.builder.fadd if weight > 0 else w.builder.fsub)(total, vector)
    return total


def bending(matrix: Any) -> Callable[..., None]:
    """Make `bend`: y = M x Mᵀ, where each number of the squares x and y is a vector."""

    @inside
    def bend(typing, x, x_at, places, p_at, y, y_at, targets, t_at):
        """Bend one square.

        Args:
            places: row by row, how far from `x_at` each vector of x is; `targets`: of y.
        """
        size = types.int64
        return types.void(x, size, places, size, y, size, targets, size), write

    def write(*given: Any) -> Any:
        w = Writer(*given)
        _, x_at, _, p_at, _, y_at, _, t_at = w.arguments
        n = len(matrix[0])

        def at(array: int, begin: Any, table: int, first: Any, number: int) -> Any:
            return w.pointer(array, begin, w.builder.load(w.pointer(table, first, number)))

        rows = [[w.load(at(0, x_at, 2, p_at, i * n + j)) for j in range(n)] for i in range(n)]
        rows = [[weighed(w, weights, row) for weights in matrix] for row in rows]
        for i, weights in enumerate(matrix):
            for j in range(len(matrix)):
                vector = weighed(w, weights, [row[j] for row in rows])
                w.store(vector, at(4, y_at, 6, t_at, i * len(matrix) + j))
        return w.context.get_dummy_value()

    return bend


def over(matrix: Any) -> Any:
    """Return a matrix, transposed."""
    return tuple(zip(*matrix, strict=True))


bend_image, bend_filter, bend_answer = bending(IMAGE), bending(FILTER), bending(ANSWER)
bend_gradient, bend_sums = bending(over(ANSWER)), bending(over(FILTER))


# Where things stand ---------------------------------------------------------------------------


class Tiling(NamedTuple):
    """Squares of 2x2 places of one image's response, row by row.

    Attributes:
        tiles: how many there are.
        row: how many stand beside each other.
        seen: 16 places of the image for each tile; -1 is outside.
        targets: 4 places of the response; -1 is outside.
    """

    tiles: int
    row: int
    seen: np.ndarray
    targets: np.ndarray

    def together(self, images: int) -> int:
        """Return how many tiles are bent at a time: whole rows of them."""
        everything = images * self.tiles
        return everything if everything <= ALL else max(1, TOGETHER // self.row) * self.row


@functools.lru_cache(maxsize=256)
def tiling_of(image: tuple[int, int], response: tuple[int, int], before: tuple[int, int]) -> Tiling:
    """Return the tiles of a response.

    Args:
        before: the first place of the response begins so many places above and left of the image.
    """
    down, across = (-(-size // 2) for size in response)

    def places(size: tuple[int, int], length: int, before: tuple[int, int]) -> np.ndarray:
        y, x = (
            2 * np.arange(count)[:, None] + np.arange(length) - border
            for count, border in zip((down, across), before, strict=True)
        )
        y, x = y[:, None, :, None], x[None, :, None, :]
        within = (y >= 0) & (y < size[0]) & (x >= 0) & (x < size[1])
        return np.where(within, y * size[1] + x, -1).reshape(-1)

    return Tiling(down * across, across, places(image, 4, before), places(response, 2, (0, 0)))


# The kernel -----------------------------------------------------------------------------------


@njit
def steps(count, step):
    """Return the places 0, step, 2 · step, … ."""
    places = np.empty(count, np.int64)
    for k in range(count):
        places[k] = k * step
    return places


@njit
def look(seen, count, tile, tiles, plane, channels, zeros, places):
    """Write down where the `count` places that a tile sees stand; outside there are zeros."""
    begin = tile // tiles * plane
    for k in range(count):
        place = seen[tile % tiles * count + k]
        places[k] = zeros if place < 0 else (begin + place) * channels


@njit
def bend_images(x, begin, size, channels, plane, seen, tiles, first, last, lane, bent, to):
    """Bend what the tiles from `first` to `last` see, in `size` channels from `begin` on.

    Args:
        x: the images, channels last, and a place of zeros at their end.
        tiles: how many an image has.
        bent: has a row of `size` numbers for each tile, 16 times.
        to: where each of the 16 begins.
    """
    places = np.empty(SQUARE, np.int64)
    for tile in range(first, last):
        look(seen, SQUARE, tile, tiles, plane, channels, len(x) - channels, places)
        for c in range(0, size, lane):
            bend_image(x, begin + c, places, 0, bent, (tile - first) * size + c, to, 0)


@njit
def bend_gradients(g, begin, size, channels, plane, targets, tiles, first, last, lane, bent, to):
    """Bend the gradients of the four places of tiles: see `bend_images`."""
    places = np.empty(4, np.int64)
    for tile in range(first, last):
        look(targets, 4, tile, tiles, plane, channels, len(g) - channels, places)
        for c in range(0, size, lane):
            bend_gradient(g, begin + c, places, 0, bent, (tile - first) * size + c, to, 0)


@njit
def bend_filters(weight, source, row_step, step, channels, width, lane, taps, raw, square, bent,
                 to):  # fmt: skip
    """Bend the filters of `width` channels of the response, for some channels of the image.

    Args:
        source: where the first one begins; `row_step`, `step`: how far it is from one channel of
            the response, and of the image, to the next.
        taps: where each stands in `raw`, which is room for some filters.
    """
    some = SOME if step == TAPS else 1  # filters that stand side by side
    for m in range(0, channels, some):
        here = min(some, channels - m)
        for v in range(0, width, lane):
            start = source + v * row_step + m * step
            if lane > TAPS and some == 1 and start + lane * row_step + lane <= len(weight):
                turn(weight, start, row_step, raw, 0, lane)  # more than is wanted, but at once
            else:
                turned(weight, start, row_step, lane, here * TAPS, raw, 0, lane, lane, square)
            for i in range(here):
                bend_filter(raw, i * TAPS * lane, taps, 0, bent, (m + i) * width + v, to, 0)


@njit
def bend_answers(sums, of_sums, targets, tiles, first, last, at, width, count, plane, lane, most,
                 square, y):  # fmt: skip
    """Bend the sums of some tiles back and write them to y, images with their channels first.

    Args:
        at, width: which channels of the response these are, `count` it has.
        targets: the four places of each tile of an image; plane: how many places it has.
        most: so many places these tiles have at most, and one more, for what is outside.
    """
    answer, goals = room(most * width, y), np.empty(4, np.int64)
    begin = first // tiles * plane + targets[first % tiles * 4]
    for tile in range(first, last):
        for k in range(4):
            place = targets[tile % tiles * 4 + k]
            goals[k] = (most - 1 if place < 0 else tile // tiles * plane + place - begin) * width
        for v in range(0, width, lane):
            bend_answer(sums, (tile - first) * width + v, of_sums, 0, answer, v, goals, 0)
    p, ends = begin, last // tiles * plane + targets[last % tiles * 4]
    while p < ends:  # image by image
        image, end = p // plane, min(ends, (p // plane + 1) * plane)
        turned(answer, (p - begin) * width, width, end - p, width, y,
               (image * count + at) * plane + p % plane, plane, lane, square)  # fmt: skip
        p = end


def respond(
    start, stop, x, channels, plane, seen, weight, row_step, step, taps, bias, tiles, total,
    together, rows, width, lane, targets, most, count, y_plane, y,
):  # fmt: skip
    """Compute some parts of the response: `together` tiles of all, `width` channels of it.

    Args:
        x: the images, channels last, and a place of zeros at their end.
        tiles, total: how many tiles an image has, and all images.
        rows: as many as tiles together, rounded up to SIX.
    """
    start, stop = share_out(start, stop)
    groups = (total + together - 1) // together
    # Not powers of two, whose multiples get into each other's way in the caches.
    f_step, v_step = min(channels, CHUNK) * width + lane, rows * channels + lane
    filters, of_filters = room(SQUARE * f_step, y), steps(SQUARE, f_step)
    images, of_images = cleared(SQUARE * v_step, y), steps(SQUARE, v_step)
    sums, of_sums = room(SQUARE * rows * width, y), steps(SQUARE, rows * width)
    raw, square = room(TAPS * SOME * lane, y), room(lane * lane, y)
    lines, ones, shift = steps(rows, channels), steps(channels, 1), cleared(2 * width, y)
    held = held_group = -1
    for unit in range(start, stop):
        at, group = unit // groups * width, unit % groups
        first, last = group * together, min((group + 1) * together, total)
        copy(bias, at, shift, width, width)
        if held_group != group:
            bend_images(x, 0, channels, channels, plane, seen, tiles, first, last, lane, images,
                        of_images)  # fmt: skip
            held_group = group
        for chunk in range(0, channels, CHUNK):
            some = min(CHUNK, channels - chunk)
            if held != at * channels + chunk:
                bend_filters(weight, at * row_step + chunk * step, row_step, step, some, width,
                             lane, taps, raw, square, filters, of_filters)  # fmt: skip
                held = at * channels + chunk
            for k in range(SQUARE):
                for p in range(0, last - first, SIX):
                    # The middle one is part of all four places: there the bias comes in.
                    y_at, begin = (k * rows + p) * width, width if k == MIDDLE else 0
                    s, s_at, jump = (sums, y_at, width) if chunk else (shift, begin, 0)
                    product(width // lane, images, k * v_step + chunk, lines, p, ones, 0, some,
                            filters, k * f_step, s, s_at, jump, sums, y_at, width)  # fmt: skip
        bend_answers(sums, of_sums, targets, tiles, first, last, at, width, count, y_plane, lane,
                     most, square, y)  # fmt: skip


# Who calls it ---------------------------------------------------------------------------------


def in_float32(kernel: Callable[..., None], *kinds: Any) -> Any:
    """Compile a kernel for float32: float64 is chosen for its digits, and bending costs some."""
    options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
    return njit([types.void(SIZE, SIZE, *kinds)], **options)(kernel)


@functools.cache
def responding() -> Callable[..., bool]:
    """Make the response, and the way back to the image, which is one too."""
    channels_last_kernel()
    kernel = in_float32(
        respond, GIVEN, SIZE, SIZE, LIST, GIVEN, SIZE, SIZE, LIST, GIVEN, *[SIZE] * 6, LIST,
        *[SIZE] * 3, MADE,
    )  # fmt: skip

    def run(
        x: np.ndarray, weight: np.ndarray, bias: Any, before: Any, y: np.ndarray, turn: bool
    ) -> bool:
        """Fill y; False: there was something that is not finite.

        Args:
            before: the first place of y begins so many places above and left of the image.
            turn: the filters are turned round, and lie with the channels of x first.
        """
        lane, (channels, count) = lanes(y.itemsize), (x.shape[1], y.shape[1])
        width, tiling = widest(count, lane), tiling_of(x.shape[2:], y.shape[2:], before)
        total, together = len(x) * tiling.tiles, tiling.together(len(x))
        row_step, step = (TAPS, TAPS * count) if turn else (TAPS * channels, TAPS)
        taps = np.arange(TAPS) * lane
        shift = np.zeros(count, y.dtype) if bias is None else np.ascontiguousarray(bias)
        in_parts(
            kernel, -(-total // together) * (count // width), with_channels_last(x, channels),
            channels, x[0, 0].size, tiling.seen, weight.reshape(-1), row_step, step,
            taps[::-1].copy() if turn else taps, shift, tiling.tiles, total, together,
            -(-together // SIX) * SIX, width, lane, tiling.targets,
            together // tiling.row * 2 * y.shape[3] + 1, count, y[0, 0].size, y.reshape(-1),
            work=total * channels * count * SQUARE // A_WORK,
        )  # fmt: skip
        return finite(y)

    return run


def widest(count: int, lane: int) -> int:
    """Return how many channels of the response are summed up together."""
    return next(wide * lane for wide in (4, 2, 1) if wide <= WIDEST and count % (wide * lane) == 0)


def finite(y: np.ndarray) -> bool:
    """Say whether all numbers are finite; very large ones are too much as well.

    Bending adds up numbers which the definition keeps apart: one ∞ would reach its neighbours.
    """
    return bool(np.isfinite(np.vdot(y, y)))


def pays(
    x: np.ndarray, weight: tuple[int, ...], stride: Any, dilation: Any, groups: int, places: int,
    least: int = 32,
) -> bool:  # fmt: skip
    """Say whether a convolution can be done so, and whether bending saves more than it takes.

    Args:
        weight: the shape of the filters.
        places: of the response, in all images.
        least: with fewer channels, on either side, it does not.
    """
    if weight[2:] != (3, 3) or x.dtype != np.float32 or places < 128:
        return False
    if any(each != 1 for each in (*stride, *dilation, groups)):
        return False
    return all(each >= least and each % 32 == 0 for each in weight[:2])
