"""What the convolution kernels share: compilation, padding, and conversion to channels-last."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from .implicit_gemm import (
    MAX_TILE_VECTORS,
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
    "PRODUCTS_PER_ELEMENT", "INDEX_LIST", "SIZE", "SIZES", "TAPS_PER_STEP", "are_float_arrays",
    "channels_last_kernel", "aligned_zeros", "compile_kernel", "product", "copy_into_frame",
    "readonly_array", "aligned_array", "transpose_block", "block_width", "to_channels_last",
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


def readonly_array(dtype: Any) -> Any:
    """Return the type of a read-only array of one axis."""
    return types.Array(dtype, 1, "C", readonly=True)


def compile_kernel(kernel: Callable[..., None], signature: Callable[[Any], Any]) -> Any:
    """Compile a kernel for float32 and float64."""
    options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
    return njit([signature(dtype) for dtype in FLOAT_TYPES], **options)(kernel)


def are_float_arrays(*arrays: Any) -> bool:
    """Whether arrays are all of float32 or all of float64, and not empty."""
    dtype = arrays[0].dtype
    return dtype in (np.float32, np.float64) and all(
        array.dtype == dtype and array.size for array in arrays
    )


@njit
def block_width(at: int, padded_channels: int, lane: int) -> int:
    """Return how many channels, from `at` on, are accumulated together."""
    left = (padded_channels - at) // lane
    if left >= 4 and MAX_TILE_VECTORS == 4:
        return 4 * lane
    return 2 * lane if left >= 2 else lane


@njit
def product(
    width, x, x_at, first, first_at, second, second_at, count, b, b_at, s, s_at, s_step,
    y, y_at, y_step,
):  # fmt: skip
    """Call the product of this width: see `implicit_gemm.py`."""
    if width == 4:
        product_4(x, x_at, first, first_at, second, second_at, count, b, b_at, s, s_at, s_step,
                  y, y_at, y_step)  # fmt: skip
    elif width == 2:
        product_2(
            x, x_at, first, first_at, second, second_at, count, b, b_at, s, s_at, s_step, y, y_at,
            y_step,
        )  # fmt: skip
    else:
        product_1(
            x, x_at, first, first_at, second, second_at, count, b, b_at, s, s_at, s_step, y, y_at,
            y_step,
        )  # fmt: skip


@njit
def aligned_array(size, like):
    """Return an uninitialized array that begins at a cache line."""
    array = np.empty(size + CACHE_LINE // like.itemsize, like.dtype)
    skip = -array.ctypes.data % CACHE_LINE // like.itemsize
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
                target += before[2]
                copy(x, start * width, framed, target, width)


@njit
def transpose_block(x, x_at, x_step, rows, columns, y, y_at, y_step, lane, square):
    """Transpose a matrix: y[j, i] = x[i, j] for i below `rows`, j below `columns`.

    `square` is a buffer of lane · lane elements, for incomplete squares at the edges.
    """
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
                    if down == lane:
                        copy_vector(square, b * lane, y, target + b * y_step)
                    else:
                        copy(square, b * lane, y, target + b * y_step, down)
            else:
                for b in range(across):
                    for a in range(down):
                        y[target + b * y_step + a] = x[start + a * x_step + b]


def move_channels_last(start, stop, x, channels, plane, lane, y):
    """Convert images to channels-last.

    The range counts vectors of channels of all images.
    """
    start, stop = claim_range(start, stop)
    square = aligned_array(lane * lane, y)
    vectors_per_image = (channels + lane - 1) // lane
    for index in range(start, stop):
        image, c = index // vectors_per_image, index % vectors_per_image * lane
        transpose_block(
            x, (image * channels + c) * plane, plane, min(lane, channels - c), plane, y,
            image * plane * channels + c, channels, lane, square,
        )  # fmt: skip


@functools.cache
def channels_last_kernel() -> Any:
    """Compile `move_channels_last` once for all callers."""
    return compile_kernel(move_channels_last, lambda dtype: types.void(
        SIZE, SIZE, readonly_array(dtype), SIZE, SIZE, SIZE, dtype[::1],
    ))  # fmt: skip


def to_channels_last(x: np.ndarray, spare: int = 0) -> np.ndarray:
    """Return x (n c …) in channels-last layout, flattened, with `spare` zeros at its end."""
    n, channels, plane, lane = *x.shape[:2], x[0, 0].size, vector_lanes(x.itemsize)
    y = aligned_array.py_func(x.size + spare, x)
    y[x.size :] = 0
    parallel_for(
        channels_last_kernel(), n * -(-channels // lane), x.reshape(-1), channels, plane, lane, y,
        work=x.size,
    )  # fmt: skip
    return y
