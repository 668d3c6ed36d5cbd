"""What the convolution kernels share: compilation, padding, and conversion to channels-last."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types

from ...backends.addresses import address_of
from ...backends.numpy import Array
from ...nn.functional.conv import resolve_window
from ...nn.functional.sliding_window import Counts, Pads, output_shape
from .implicit_gemm import (
    MAX_TILE_VECTORS,
    TILE_ROWS,
    copy,
    copy_vector,
    product_1,
    product_2,
    product_4,
    transpose_square,
    vector_lanes,
)
from .parallel import parallel_for
from .work_queue import claim_range

__all__ = [
    "Frame", "INDEX_LIST", "PRODUCTS_PER_ELEMENT", "Plan", "SIZE", "SIZES", "TAPS_PER_STEP",
    "aligned_array", "aligned_zeros", "are_float_arrays", "block_width", "channels_last_kernel",
    "compile_kernel", "copy_into_frame", "plan_convolution", "plan_transposed_convolution",
    "product", "readonly_array", "to_channels_last", "transpose_block",
]  # fmt: skip

FLOAT_TYPES = (types.float32, types.float64)
SIZE, SIZES = types.int64, types.UniTuple(types.int64, 3)
INDEX_LIST = types.Array(SIZE, 1, "C", readonly=True)
TAPS_PER_STEP = 128
"""How many taps are summed at a time: for four vectors of channels, half of the L1 cache."""
CACHE_LINE = 64
"""The size of a cache line in bytes."""
PRODUCTS_PER_ELEMENT = 32
"""The number of multiplications that take as long as one element's memory access."""


def readonly_array(dtype: types.Float) -> Any:
    """Return the type of a read-only array of one axis."""
    return types.Array(dtype, 1, "C", readonly=True)


def compile_kernel(kernel: Callable[..., None], signature: Callable[[Any], Any]) -> Any:
    """Compile a kernel for float32 and float64."""
    # NumPy's error model: Python's would test every divisor, and no such loop is vectorized.
    # Without fastmath: the products allow the fused multiply-add themselves, and no more.
    options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
    # With signatures it is compiled here, in the background, and not at its first call.
    return njit([signature(dtype) for dtype in FLOAT_TYPES], **options)(kernel)


def are_float_arrays(*arrays: Array) -> bool:
    """Whether arrays are all of float32 or all of float64, and not empty."""
    dtype = arrays[0].dtype
    if dtype.char not in "fd":
        return False
    for array in arrays:  # noqa: SIM110  (the generator of `all` takes longer)
        if array.dtype != dtype or not array.size:
            return False
    return True


@njit
def block_width(at: int, padded_channels: int, lane: int) -> int:
    """Return how many channels, from `at` on, are accumulated together."""
    left = (padded_channels - at) // lane
    # Only powers of two, because a product is compiled for every width. With AVX's 16 registers,
    # six rows of four vectors would not fit.
    if left >= 4 and MAX_TILE_VECTORS == 4:
        return 4 * lane
    return 2 * lane if left >= 2 else lane


@njit
def product(width, x, first, second, b, s, y, at):
    """Call the product of this width: see `implicit_gemm.py`."""
    # The width is constant in the IR, where the loop over vectors is unrolled: hence a branch.
    if width == 4:
        product_4(x, first, second, b, s, y, at)
    elif width == 2:
        product_2(x, first, second, b, s, y, at)
    else:
        product_1(x, first, second, b, s, y, at)


@njit
def aligned_array(size, like):
    """Return an uninitialized array that begins at a cache line."""
    array = np.empty(size + CACHE_LINE // like.itemsize, like.dtype)
    # A vector that crosses a cache line takes two accesses.
    skip = -array.ctypes.data % CACHE_LINE // like.itemsize
    return array[skip : skip + size]


def make_aligned(size: int, dtype: np.dtype) -> np.ndarray:
    """Do the same as `aligned_array`, in Python."""
    array = np.empty(size + CACHE_LINE // dtype.itemsize, dtype)
    skip = -address_of(array) % CACHE_LINE // dtype.itemsize
    return array[skip : skip + size]


@njit
def aligned_zeros(size, like):
    """Return an aligned array of zeros. (Compiling `x[:] = 0` takes half a second.)"""
    array = aligned_array(size, like)
    for i in range(size):
        array[i] = 0
    return array


@njit
def copy_into_frame(x, first_image, images, channels, sizes, outer, before, framed):
    """Copy images into padded ones, whose padding is already set."""
    depth, height, width = sizes
    for plane in range(images * channels):
        for d in range(depth):
            for h in range(height):
                start = (((first_image * channels + plane) * depth) + d) * height + h
                target = ((plane * outer[0] + d + before[0]) * outer[1] + h + before[1]) * outer[2]
                # Only the interior is written: the zeros around it serve for all images.
                target += before[2]
                # A row is contiguous in both arrays, so memcpy can move it.
                copy(x, start * width, framed, target, width)


@njit
def transpose_block(x, x_at, x_step, shape, y, y_at, y_step, square):
    """Transpose a matrix: y[j, i] = x[i, j] for all i, j within its shape.

    `square` is a buffer of lane · lane elements, for incomplete squares at the edges.
    """
    rows, columns = shape
    lane = vector_lanes(y.itemsize)
    for i in range(0, rows, lane):
        for j in range(0, columns, lane):
            start, target = x_at + i * x_step + j, y_at + j * y_step + i
            if rows - i >= lane and columns - j >= lane:
                transpose_square(x, start, x_step, y, target, y_step)
                continue
            down, across = min(lane, rows - i), min(lane, columns - j)
            if start + (lane - 1) * x_step + lane <= len(x):  # within the array
                transpose_square(x, start, x_step, square, 0, lane)
                for b in range(across):
                    # A whole vector is one instruction; memcpy of a variable length is a call.
                    if down == lane:
                        copy_vector(square, b * lane, y, target + b * y_step)
                    else:
                        copy(square, b * lane, y, target + b * y_step, down)
            else:  # at the end of x a whole square would read foreign memory
                for b in range(across):
                    for a in range(down):
                        y[target + b * y_step + a] = x[start + a * x_step + b]


def move_channels_last(start, stop, x, channels, plane, y):
    """Convert images to channels-last.

    The range counts vectors of channels of all images.
    """
    start, stop = claim_range(start, stop)
    lane = vector_lanes(y.itemsize)
    square = aligned_array(lane * lane, y)
    vectors_per_image = (channels + lane - 1) // lane
    for index in range(start, stop):
        image, c = index // vectors_per_image, index % vectors_per_image * lane
        transpose_block(
            x, (image * channels + c) * plane, plane, (min(lane, channels - c), plane), y,
            image * plane * channels + c, channels, square,
        )  # fmt: skip


@functools.cache
def channels_last_kernel() -> Any:
    """Compile `move_channels_last` once for all callers."""
    return compile_kernel(move_channels_last, lambda dtype: types.void(
        SIZE, SIZE, readonly_array(dtype), SIZE, SIZE, dtype[::1],
    ))  # fmt: skip


def to_channels_last(x: np.ndarray, spare: int = 0) -> np.ndarray:
    """Return x (n c …) in channels-last layout, flattened, with `spare` zeros at its end."""
    n, channels, plane, lane = *x.shape[:2], x[0, 0].size, vector_lanes(x.itemsize)
    y = make_aligned(x.size + spare, x.dtype)
    y[x.size :] = 0
    parallel_for(
        channels_last_kernel(), n * -(-channels // lane), x.reshape(-1), channels, plane, y,
        work=x.size,
    )  # fmt: skip
    return y


POSITIONS_PER_TILE = 96
"""About so many positions are computed with each part of the filters while it is in the cache."""


class Frame(NamedTuple):
    """The geometry of padded images (c d h w).

    Attributes:
        sizes: c, d, h, w of an image; 1 for missing axes.
        outer: d, h, w with the padding.
        before: the padding before the image along d, h, w.
        unpadded: whether there is no padding at all.
    """

    sizes: tuple[int, int, int, int]
    outer: tuple[int, int, int]
    before: tuple[int, int, int]
    unpadded: bool

    @property
    def plane(self) -> int:
        """The number of elements of a padded channel."""
        return math.prod(self.outer)


@dataclass(frozen=True)
class Plan:
    """The index lists of one convolution.

    Attributes:
        frame: the geometry of the images that are read.
        images: the number of images in a group; `starts` covers all of them.
        out_size: the number of output positions of an image.
        starts: where in the frame each window starts, and the last one TILE_ROWS more times.
        offsets: the offset of each tap of each channel from there, likewise.
        taps: the number of taps of all channels.
        run_length: so many output positions are consecutive, then there is a gap.
        targets: the index of each output position in a channel of the result.
        tile, tiles: the positions computed together, and the number of tiles of a group of images.
        weights: the index of each tap in the filters, for the first output channel.
    """

    frame: Frame
    images: int
    out_size: int
    starts: np.ndarray
    offsets: np.ndarray
    taps: int
    run_length: int
    targets: np.ndarray
    tile: int
    tiles: int
    weights: np.ndarray

    @functools.cached_property
    def for_kernels(self) -> tuple[Any, ...]:
        """The plan as kernels take it: `KernelPlan` as a plain tuple."""
        # Made once, and not at every call: plans are cached, and so is this.
        frame = self.frame
        starts, offsets, targets = map(read_only, (self.starts, self.offsets, self.targets))
        return (
            frame.sizes[1:], frame.outer, frame.before, frame.unpadded, self.images, self.out_size,
            starts, offsets, self.taps, targets, self.is_contiguous, self.run_length, self.length,
        )  # fmt: skip

    @functools.cached_property
    def launches(self) -> dict[Any, Any]:
        """What the kernels are told for results of some shapes: see `conv.Launch`."""
        return {}

    @functools.cached_property
    def is_contiguous(self) -> bool:
        """Whether the output positions are consecutive in the result."""
        # The targets increase, so the first one and the last one decide.
        return self.out_size < 2 or bool(self.targets[-1] - self.targets[0] == self.out_size - 1)

    @functools.cached_property
    def length(self) -> int:
        """The distance from the first window of an image to the last one, inclusive."""
        # `starts` goes on with the other images of the group.
        return int(self.starts[self.out_size - 1] - self.starts[0]) + 1


def read_only(positions: np.ndarray) -> np.ndarray:
    """Return a read-only view: in a tuple, a type has to match exactly to be found at once."""
    view = positions.view()
    view.flags.writeable = False
    return view


class KernelPlan(NamedTuple):
    """What kernels need of a plan: see `Frame` and `Plan`."""

    sizes: tuple[int, int, int]
    outer: tuple[int, int, int]
    before: tuple[int, int, int]
    unpadded: bool
    images: int
    out_size: int
    starts: np.ndarray
    offsets: np.ndarray
    taps: int
    targets: np.ndarray
    is_contiguous: bool
    run_length: int
    length: int


PLAN = types.Tuple((
    SIZES, SIZES, SIZES, types.boolean, SIZE, SIZE, INDEX_LIST, INDEX_LIST, SIZE, INDEX_LIST,
    types.boolean, SIZE, SIZE,
))  # fmt: skip
"""The type of `KernelPlan`, passed as a plain tuple."""


def integers(count: int) -> types.UniTuple:
    """Return the type of so many integers in one argument; the kernel names them in its head."""
    return types.UniTuple(SIZE, count)


def frame_of(shape: Counts, pads: Pads) -> Frame:
    """Return the frame of images (n, c, …) with padding."""
    # Sequences and images are volumes whose first axes have the size 1: one kernel for all.
    missing_axes = 5 - len(shape)
    sizes = (1,) * missing_axes + shape[2:]
    pads = ((0, 0),) * missing_axes + tuple(pads)
    outer = tuple(a + n + b for n, (a, b) in zip(sizes, pads, strict=True))
    before = tuple(a for a, _ in pads)
    return Frame((shape[1], *sizes), outer, before, outer == sizes)  # type: ignore[arg-type]


def outer_sum(*axes: Any) -> np.ndarray:
    """Return all sums of one element of each list, the last list running fastest."""
    # Not NumPy's default integer, which may have 32 bits; the kernels are compiled for int64.
    total = np.zeros(1, np.int64)
    for axis in axes:
        total = (total[:, None] + np.asarray(axis, np.int64)).reshape(-1)
    return total


def make_plan(
    n: int, frame: Frame, starts: np.ndarray, taps: np.ndarray, channels: int, targets: np.ndarray,
    weights: np.ndarray,
) -> Plan:  # fmt: skip
    """Put a plan together.

    Args:
        starts, taps: for one image and one channel.
        channels: the number of channels that are summed.
    """
    out_size = len(starts)
    images = images_per_group(n, out_size)
    if n % images:  # the last group is incomplete: its missing images are read, and need memory
        frame = frame._replace(unpadded=False)
    # Below, tiles are rounded up to whole products of TILE_ROWS positions: so only the last tile
    # computes some in vain.
    tiles = max(1, round(images * out_size / POSITIONS_PER_TILE))
    tile = -(-images * out_size // tiles)
    positions = outer_sum(np.arange(images) * (frame.sizes[0] * frame.plane), starts)
    offsets = outer_sum(np.arange(channels) * frame.plane, taps)
    return Plan(
        frame, images, out_size, pad_with_last(positions), pad_with_last(offsets), len(offsets),
        count_consecutive(starts), targets, -(-tile // TILE_ROWS) * TILE_ROWS, tiles, weights,
    )  # fmt: skip


def images_per_group(n: int, out_size: int) -> int:
    """Return how many of n images have about `POSITIONS_PER_TILE` positions; a divisor, if any."""
    # A divisor leaves no incomplete group, for which the images would have to be copied.
    ideal = POSITIONS_PER_TILE / out_size
    candidates = range(max(1, round(ideal * 0.7)), round(ideal * 1.4) + 1)
    divisors = [count for count in candidates if n % count == 0]
    return min(
        divisors,
        key=lambda count: (abs(count - ideal), -count),
        default=max(1, min(n, round(ideal))),
    )


def count_consecutive(positions: np.ndarray) -> int:
    """Return how many positions, from the first one on, are consecutive."""
    gaps = np.flatnonzero(np.diff(positions) != 1)
    return int(gaps[0]) + 1 if len(gaps) else len(positions)


def pad_with_last(positions: np.ndarray) -> np.ndarray:
    """Repeat the last position: sums are taken for TILE_ROWS at once."""
    return np.append(positions, np.repeat(positions[-1:], TILE_ROWS))


# A layer asks for the same plan in every step.
@functools.lru_cache(maxsize=256)
def plan_convolution(
    op: str, shape: Counts, filters: Counts, stride: Counts, padding: Counts | str, dilation: Counts
) -> tuple[Plan, Counts]:
    """Return the plan of a convolution, and the output's size along each axis."""
    kernel, stride, pads, dilation = resolve_window(filters, stride, padding, dilation)
    count = output_shape(op, shape, kernel, stride, pads, dilation)
    frame = frame_of(shape, pads)
    steps = contiguous_strides(frame.outer)[-len(kernel) :]
    axes = zip(count, stride, steps, strict=True)
    starts = outer_sum(*(np.arange(c) * (s * step) for c, s, step in axes))
    axes = zip(kernel, dilation, steps, strict=True)
    taps = outer_sum(*(np.arange(k) * (d * step) for k, d, step in axes))
    targets, weights = np.arange(len(starts)), np.arange(filters[1] * len(taps))
    return make_plan(shape[0], frame, starts, taps, filters[1], targets, weights), count


def contiguous_strides(sizes: Counts) -> list[int]:
    """Return the strides of a contiguous array, in elements."""
    return [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]


class Phase(NamedTuple):
    """Along one axis, all positions of the result that are reached by the same taps.

    With a stride of 2, even positions are reached by even taps and odd ones by odd taps.
    """

    targets: np.ndarray
    starts: np.ndarray
    taps: np.ndarray
    offsets: np.ndarray


def split_into_phases(
    count: int, size: int, kernel: int, stride: int, before: int, dilation: int
) -> tuple[list[Phase], tuple[int, int]]:
    """Return the phases of one axis, and the padding that the input needs for them.

    Position u of the result (u + before with its padding) is reached from position t of the input
    by tap i where u + before = stride · t + dilation · i.
    """
    phases = []
    for remainder in range(stride):
        targets = np.arange(before, before + size)
        targets = targets[targets % stride == remainder]
        taps = np.arange(kernel)
        # Others would reach this phase from between two positions of the input.
        taps = taps[taps * dilation % stride == remainder]
        if len(targets):
            # t = (u + before - dilation · i) / stride: a later tap reads an earlier position.
            offsets = -(taps * dilation // stride)
            phases.append(Phase(targets - before, targets // stride, taps, offsets))
    bounds = [
        (p.starts[0] + p.offsets.min(), p.starts[-1] + p.offsets.max())
        for p in phases
        if len(p.taps)
    ]
    # Padding is needed where a phase reads before the input's first position, or after its last.
    left = max([0, *(-int(low) for low, _ in bounds)])
    return phases, (left, max([0, *(int(high) - count + 1 for _, high in bounds)]))


@functools.lru_cache(maxsize=256)
def plan_transposed_convolution(
    shape: Counts, filters: Counts, size: Counts, stride: Counts, pads: Pads, dilation: Counts,
    groups: int,
) -> tuple[list[Plan], bool]:  # fmt: skip
    """Return the plans of a transposed convolution, one for each phase.

    The filters, (o, c, …), have to be in channels-last layout.

    Returns: the plans, and whether they reach every position.
    """
    kernel, count = filters[2:], shape[2:]
    before = tuple(a for a, _ in pads)
    axes = [
        split_into_phases(*axis)
        for axis in zip(count, size, kernel, stride, before, dilation, strict=True)
    ]
    frame = frame_of(shape, tuple(border for _, border in axes))
    steps, size_strides, kernel_strides = (
        contiguous_strides(frame.outer)[3 - len(kernel) :],
        contiguous_strides(size),
        contiguous_strides(kernel),
    )
    left_offsets = [border[0] * step for (_, border), step in zip(axes, steps, strict=True)]
    channels = shape[1] // groups
    plans, covers_all = [], True
    for phases in itertools.product(*(phases for phases, _ in axes)):
        if not all(len(phase.taps) for phase in phases):
            covers_all = False
            continue
        starts = outer_sum(*(p.starts * step for p, step in zip(phases, steps, strict=True))) + sum(
            left_offsets
        )
        offsets = outer_sum(*(p.offsets * step for p, step in zip(phases, steps, strict=True)))
        targets = outer_sum(
            *(p.targets * size_stride for p, size_stride in zip(phases, size_strides, strict=True))
        )
        taps = outer_sum(
            *(
                p.taps * kernel_stride
                for p, kernel_stride in zip(phases, kernel_strides, strict=True)
            )
        )
        channel_size = math.prod(kernel) * filters[1]
        weights = outer_sum(np.arange(channels) * channel_size, taps * filters[1])
        plans.append(make_plan(shape[0], frame, starts, offsets, channels, targets, weights))
    return plans, covers_all
