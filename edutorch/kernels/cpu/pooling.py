"""Max pooling, a few planes at a time.

The definitions go through all images once for each tap of the window, and for the gradient twice
more. Here planes are processed while they are in the L1 cache, and separably along one axis after
the other: the maximum of a window is the maximum of the maxima of its rows. Windows are computed
at every position, also between those that the stride selects: so elements are consecutive, loops
are vectorized, and the selected windows are gathered at the end.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types

from ...backends.numpy import Array
from ...nn.functional import pooling
from ...nn.functional.pooling import first_inner_tap, pool_divisors
from ...nn.functional.sliding_window import Counts, Windows, get_windows
from .conv_common import (
    INDEX_LIST,
    SIZE,
    SIZES,
    Frame,
    are_float_arrays,
    compile_kernel,
    contiguous_strides,
    copy_into_frame,
    frame_of,
    outer_sum,
    read_only,
    readonly_array,
)
from .implicit_gemm import copy
from .jit import use_wide_vectors
from .parallel import MIN_PARALLEL, parallel_for
from .work_queue import claim_range

__all__ = ["avg_pool", "avg_pool_grad", "max_pool", "max_pool_indices", "max_pool_input"]

TAP_INDEX = types.int32
UNSIGNED = np.uint64
"""An unsigned index saves the branch that Python's x[-1] costs for each x[p]."""
ELEMENTS_PER_BATCH = 4096
"""How many elements are processed together: several planes, if they are small."""
MAX_WINDOW = 32
"""The largest sum of the window's sizes; beyond it, the definition takes fewer steps."""
WINDOWS = types.Tuple((SIZE, SIZES, SIZES, SIZES, types.boolean, SIZES, SIZES, INDEX_LIST, SIZE))
"""The type of `KernelWindows`, passed as a plain tuple."""


class KernelWindows(NamedTuple):
    """Windows as kernels take them, always along three axes.

    Attributes:
        planes_per_batch: so many planes are processed together.
        sizes, outer, before: of a plane, with its padding, and the padding before it.
        unpadded: whether there is no padding.
        kernel, steps: of a window the sizes, and the distances of its taps along each axis.
        starts: where in a plane each window starts.
        plane_count: the number of all planes.
    """

    planes_per_batch: int
    sizes: tuple[int, int, int]
    outer: tuple[int, int, int]
    before: tuple[int, int, int]
    unpadded: bool
    kernel: tuple[int, int, int]
    steps: tuple[int, int, int]
    starts: np.ndarray
    plane_count: int


@njit
def load_planes(x, batch, windows, frame_of):
    """Return a batch of planes, padded, and the number of its elements."""
    outer = windows.outer
    plane, first = outer[0] * outer[1] * outer[2], batch * windows.planes_per_batch
    planes_here = min(windows.planes_per_batch, windows.plane_count - first)
    # Then the planes of a batch are one slice, and nothing is copied.
    if windows.unpadded:
        return x[first * plane : (first + planes_here) * plane], planes_here * plane
    copy_into_frame(x, first, planes_here, 1, windows.sizes, outer, windows.before, frame_of)
    return frame_of[: planes_here * plane], planes_here * plane


# The largest ----------------------------------------------------------------------------------


@njit
def update_max(x, row, best):
    """best = max(x, row); NaN counts as the largest."""
    use_wide_vectors()
    for p in range(len(best)):
        a, b = x[p], row[p]
        best[p] = a if a > b or a != a else b  # a NaN of b is kept by `else`


@njit
def update_indices(x, row, previous, indices, offset, result):
    """result = the tap index `previous` where x is kept, else that of row (also for its NaN)."""
    use_wide_vectors()
    for p in range(len(result)):
        a, b, t, u = x[p], row[p], previous[p], indices[p] + offset
        # > and not >=: of equal elements the first one wins, as in PyTorch.
        result[p] = u if b > a or b != b else t


@njit
def max_along(x, length, taps, step, y):
    """y[p] = max over i of x[p + i·step]. Return the length of y."""
    length -= (taps - 1) * step
    best = y[:length]
    if taps == 1:
        # One tap leaves nothing to compare, but callers look for the result in y.
        copy(x, 0, y, 0, length)
    for i in range(1, taps):
        row = x[i * step : i * step + length]
        # The first two taps are compared where they are, so y needs no initial values.
        if i == 1:
            update_max(x, row, best)
        else:
            update_max(best, row, best)
    return length


def max_pool_planes(start, stop, x, settings, y):
    """Compute `max_pool` for some batches of planes."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    windows = KernelWindows(*settings)
    planes_per_batch, kernel, steps = windows.planes_per_batch, windows.kernel, windows.steps
    outer, window_starts = windows.outer, windows.starts
    plane = outer[0] * outer[1] * outer[2]
    # -∞ never wins. Only the inside is overwritten by the next batch, the border stays.
    frame_of = np.full(1 if windows.unpadded else planes_per_batch * plane, -np.inf, y.dtype)
    size = planes_per_batch * plane
    # Two buffers in turn: what one axis has written, the next one reads.
    one, other = np.empty(size, y.dtype), np.empty(size, y.dtype)
    for batch in range(start, stop):
        planes, length = load_planes(x, batch, windows, frame_of)
        total_length = length
        # The last axis first: its elements are adjacent, so all three passes are vectorized.
        length = max_along(planes, length, kernel[2], steps[2], one)
        length = max_along(one, length, kernel[1], steps[1], other)
        # Images and sequences have no depth: for them this pass would be a copy.
        if kernel[0] > 1:
            max_along(other, length, kernel[0], steps[0], one)
        best = one if kernel[0] > 1 else other
        target = batch * planes_per_batch * len(window_starts)
        # Windows that reach into the next plane were computed too, but no start selects them.
        for first in range(0, total_length, plane):
            row = y[target : target + len(window_starts)]
            for p in range(len(row)):
                row[p] = best[UNSIGNED(first + window_starts[p])]
            target += len(window_starts)


@njit
def argmax_along(x, tap, length, taps, step, tap_step, y, indices):
    """The same, and the index of the tap with the maximum: the first of several, the last NaN.

    Indices of taps have the dtype of x: then as many of them fit in a vector.

    Args:
        tap: the indices along the axes so far; zeros for the first axis.
        tap_step: by how much the index rises from one tap to the next.
    """
    length -= (taps - 1) * step
    best, result = y[:length], indices[:length]
    if taps == 1:
        copy(x, 0, y, 0, length)
        copy(tap, 0, indices, 0, length)
    for i in range(1, taps):
        first = i * step
        row, tap_row = x[first : first + length], tap[first : first + length]
        if i == 1:
            update_indices(x, row, tap, tap_row, x.dtype.type(tap_step), result)
            update_max(x, row, best)
        else:
            # Before `best` is updated: the comparison needs the maximum so far.
            update_indices(best, row, result, tap_row, x.dtype.type(i * tap_step), result)
            update_max(best, row, best)
    return length


def argmax_planes(start, stop, x, settings, first_valid_taps, indices):
    """Compute the index of the tap with the maximum for some batches of planes.

    Args:
        first_valid_taps: the first tap of each window that is not in the padding: the result
            where all elements of the window equal the padding, -∞.
    """
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    windows = KernelWindows(*settings)
    planes_per_batch, kernel, steps = windows.planes_per_batch, windows.kernel, windows.steps
    outer, window_starts = windows.outer, windows.starts
    plane = outer[0] * outer[1] * outer[2]
    frame_of = np.full(1 if windows.unpadded else planes_per_batch * plane, -np.inf, x.dtype)
    size = planes_per_batch * plane
    one, other, none = np.empty(size, x.dtype), np.empty(size, x.dtype), np.zeros(size, x.dtype)
    tap, taps = np.empty(size, x.dtype), np.empty(size, x.dtype)
    for batch in range(start, stop):
        planes, whole = load_planes(x, batch, windows, frame_of)
        length = argmax_along(planes, none, whole, kernel[2], steps[2], 1, one, tap)
        # Taps are numbered row by row: one step down passes a row of kernel[2] taps.
        length = argmax_along(one, tap, length, kernel[1], steps[1], kernel[2], other, taps)
        tap_step = kernel[1] * kernel[2]
        best, best_taps = other, taps
        if kernel[0] > 1:
            argmax_along(other, taps, length, kernel[0], steps[0], tap_step, one, tap)
            best, best_taps = one, tap
        target = batch * planes_per_batch * len(window_starts)
        for first in range(0, whole, plane):
            row = indices[target : target + len(window_starts)]
            for p in range(len(row)):
                position = UNSIGNED(first + window_starts[p])
                row[p] = (
                    # -∞ against -∞: the border may have won, but must not be chosen.
                    first_valid_taps[p] if best[position] == -np.inf else int(best_taps[position])
                )
            target += len(window_starts)


def scatter_planes(start, stop, g, settings, taps, offsets, y):
    """Add each element of g at the position of its window's maximum.

    Args:
        offsets: for each tap, its distance in a plane from the first one.
    """
    start, stop = claim_range(start, stop)
    windows = KernelWindows(*settings)
    outer, window_starts, unpadded = windows.outer, windows.starts, windows.unpadded
    plane = outer[0] * outer[1] * outer[2]
    frame_of = np.empty(1 if unpadded else plane, y.dtype)
    for index in range(start, stop):
        target = y[index * plane : (index + 1) * plane] if unpadded else frame_of
        for p in range(plane):
            target[p] = 0
        first = index * len(window_starts)
        gradients, winning_taps = (
            g[first : first + len(window_starts)],
            taps[first : first + len(window_starts)],
        )
        for p in range(len(gradients)):
            # Windows overlap: several may add here, in a fixed order, as one thread has the plane.
            target[UNSIGNED(window_starts[p] + offsets[UNSIGNED(winning_taps[p])])] += gradients[p]
        if not unpadded:
            copy_out_of_frame(frame_of, index, windows, y)


@njit
def copy_out_of_frame(frame_of, image, windows, y):
    """Copy an image without its padding."""
    sizes, outer, before = windows.sizes, windows.outer, windows.before
    for d in range(sizes[0]):
        for h in range(sizes[1]):
            source = ((d + before[0]) * outer[1] + h + before[1]) * outer[2] + before[2]
            copy(frame_of, source, y, ((image * sizes[0] + d) * sizes[1] + h) * sizes[2], sizes[2])


# The makers -------------------------------------------------------------------------------------


class WindowLayout:
    """The positions of windows in the form that the kernels take: always along three axes.

    Attributes:
        plane_count: the number of planes.
        batches: the number of batches of planes.
        arguments: `KernelWindows` as a plain tuple.
        offsets: for each tap, its distance in a plane from the first one.
        first_valid_taps: for each window, its first tap that is not in the padding.
        shape: that of the result.
        is_supported: whether the kernels take such windows.
    """

    def __init__(self, windows: Windows, shape: tuple[int, ...]) -> None:
        frame: Frame = frame_of((1, 1, *windows.sizes), windows.pads)
        missing_axes = (1,) * (3 - windows.rank)
        kernel, stride, dilation, count = (
            (*missing_axes, *value)
            for value in (windows.kernel, windows.stride, windows.dilation, windows.count)
        )
        strides = contiguous_strides(frame.outer)
        steps = tuple(d * step for d, step in zip(dilation, strides, strict=True))
        self.offsets = outer_sum(
            *(np.arange(k) * step for k, step in zip(kernel, steps, strict=True))
        )
        value = zip(count, stride, strides, strict=True)
        window_starts = outer_sum(*(np.arange(c) * (s * step) for c, s, step in value))
        self.plane_count = math.prod(shape[: len(shape) - windows.rank])
        planes_per_batch = max(1, ELEMENTS_PER_BATCH // frame.plane)
        self.batches = -(-self.plane_count // planes_per_batch)
        self.arguments = tuple(KernelWindows(
            planes_per_batch, frame.sizes[1:], frame.outer, frame.before, frame.unpadded, kernel,
            steps, read_only(window_starts), self.plane_count,
        ))  # fmt: skip
        self.first_valid_taps = np.zeros(window_starts.size, np.int64)
        if not frame.unpadded:
            self.first_valid_taps += first_inner_tap(np, windows).reshape(-1)
        self.shape = (*shape[: len(shape) - windows.rank], *windows.count)
        self._windows = windows
        self._divisors: dict[Any, np.ndarray] = {}
        # -1: a window that lies in the padding, which is left to the definition.
        self.is_supported = sum(kernel) <= MAX_WINDOW and self.first_valid_taps.min(initial=0) >= 0

    def divisors(self, include: bool, override: int | None, dtype: np.dtype) -> np.ndarray:
        """Return the divisor of each window's sum, as an array of one axis."""
        key = include, override, dtype
        divisors = self._divisors.get(key)
        if divisors is None:
            result = pool_divisors(np, self._windows, *key)
            broadcast = np.broadcast_to(result, self._windows.count)
            divisors = self._divisors[key] = np.ascontiguousarray(broadcast, dtype).reshape(-1)
        return divisors


@functools.lru_cache(maxsize=256)
def window_layout(
    op: str, shape: tuple[int, ...], settings: tuple[Any, ...]
) -> tuple[Windows, WindowLayout]:
    """Return the layout of windows, cached: each training step asks for the same ones."""
    windows = get_windows(op, shape, *settings)
    return windows, WindowLayout(windows, shape)


def flatten(array: np.ndarray) -> np.ndarray:
    """Return an array as a contiguous array of one axis."""
    return np.ascontiguousarray(array).reshape(-1)


@pooling.max_pool.kernel("cpu", min_size=1024)
def max_pool() -> Callable[..., Any]:
    """Make the forward of `max_pool`."""
    kernel = compile_kernel(max_pool_planes, lambda number: types.void(
        SIZE, SIZE, readonly_array(number), WINDOWS, number[::1],
    ))  # fmt: skip

    def run(input: Array, *settings: object) -> Any:
        if not are_float_arrays(input):
            return None
        windows, layout = window_layout("max_pool", input.shape, settings)
        if not layout.is_supported:
            return None
        y = np.empty((*input.shape[: -windows.rank], *windows.count), input.dtype)
        work = input.size
        windows_ = layout.arguments
        parallel_for(kernel, layout.batches, flatten(input), windows_, y.reshape(-1), work=work)
        return y

    return run


@functools.cache
def index_kernel() -> Callable[..., Any]:
    """Make the function that finds the tap with the maximum, used by index and gradient."""
    kernel = compile_kernel(argmax_planes, lambda number: types.void(
        SIZE, SIZE, readonly_array(number), WINDOWS, INDEX_LIST, TAP_INDEX[::1],
    ))  # fmt: skip

    def find_indices(input: Array, layout: WindowLayout, count: int) -> np.ndarray:
        tap = np.empty(count, np.int32)
        arguments = layout.arguments, layout.first_valid_taps
        parallel_for(kernel, layout.batches, flatten(input), *arguments, tap, work=input.size)
        return tap

    return find_indices


@pooling.max_pool_indices.kernel("cpu", min_size=1024)
def max_pool_indices() -> Callable[..., Any]:
    """Make the index of the tap with the maximum."""
    find_indices = index_kernel()

    def run(input: Array, settings: object) -> Any:
        if not are_float_arrays(input):
            return None
        windows, layout = window_layout("max_pool", input.shape, settings)
        if not layout.is_supported:
            return None
        shape = (*input.shape[: -windows.rank], *windows.count)
        tap = find_indices(input, layout, math.prod(shape)).reshape(shape)
        # The definition's dtype: taps below 128 fit into a byte.
        return tap if len(windows.taps) >= 128 else tap.astype(np.int8)

    return run


@pooling.max_pool.kernel("cpu", "input", min_size=256)
def max_pool_input() -> Callable[..., Any]:
    """Make the derivative of `max_pool`."""
    find_indices = index_kernel()
    kernel = compile_kernel(scatter_planes, lambda number: types.void(
        SIZE, SIZE, readonly_array(number), WINDOWS, TAP_INDEX[::1], INDEX_LIST, number[::1],
    ))  # fmt: skip

    def run(g: Array, input: Array, *settings: object) -> Any:
        if not are_float_arrays(g, input):
            return None
        _, layout = window_layout("max_pool", input.shape, settings)
        if not layout.is_supported:
            return None
        y = np.empty(input.shape, input.dtype)
        # Not saved by forward: inference would compute them in vain.
        tap = find_indices(input, layout, g.size)
        parallel_for(
            kernel, layout.plane_count, flatten(g), layout.arguments, tap, layout.offsets,
            y.reshape(-1), work=y.size,
        )  # fmt: skip
        return y

    return run


@njit
def sum_along(x, length, taps, step, y):
    """y[p] = Σᵢ x[p + i·step]. Return the length of y."""
    use_wide_vectors()
    length -= (taps - 1) * step
    # The first tap is copied, so the sums need no zeros.
    copy(x, 0, y, 0, length)
    for i in range(1, taps):
        row, total = x[i * step : i * step + length], y[:length]
        for p in range(length):
            total[p] += row[p]
    return length


def avg_pool_planes(start, stop, x, settings, divisor, y):
    """Compute `avg_pool` for some batches of planes, with one `divisor` for each window."""
    start, stop = claim_range(start, stop)
    windows = KernelWindows(*settings)
    planes_per_batch, kernel, steps = windows.planes_per_batch, windows.kernel, windows.steps
    outer, window_starts = windows.outer, windows.starts
    plane = outer[0] * outer[1] * outer[2]
    # Zeros add nothing to a sum; whether they count is up to the divisor.
    framed = np.zeros(1 if windows.unpadded else planes_per_batch * plane, y.dtype)
    size = planes_per_batch * plane
    one, other = np.empty(size, y.dtype), np.empty(size, y.dtype)
    for batch in range(start, stop):
        planes, whole = load_planes(x, batch, windows, framed)
        length = sum_along(planes, whole, kernel[2], steps[2], one)
        length = sum_along(one, length, kernel[1], steps[1], other)
        # Of one tap this is a copy: the result is in `one` in any case.
        sum_along(other, length, kernel[0], steps[0], one)
        target = batch * planes_per_batch * len(window_starts)
        for first in range(0, whole, plane):
            for p in range(len(window_starts)):
                # Windows at the border may have another divisor (count_include_pad).
                y[target + p] = one[first + window_starts[p]] / divisor[p]
            target += len(window_starts)


@njit
def spread_sums_along(x, length, taps, step, y):
    """y[p + i·step] += x[p] for each i: the transpose of `sum_along`."""
    use_wide_vectors()
    y[:length] = 0
    for i in range(taps):
        row, total = x[: length - i * step], y[i * step : length]
        for p in range(len(row)):
            total[p] += row[p]


def avg_pool_gradient_planes(start, stop, g, settings, divisor, y):
    """Compute the gradient of `avg_pool` for some planes."""
    start, stop = claim_range(start, stop)
    windows = KernelWindows(*settings)
    kernel, steps, window_starts = windows.kernel, windows.steps, windows.starts
    outer = windows.outer
    plane = outer[0] * outer[1] * outer[2]
    one, other = np.empty(plane, y.dtype), np.empty(plane, y.dtype)
    for index in range(start, stop):
        # 0 wherever no window starts: so the sums below can go over all positions, as forward does.
        one[:] = 0
        first = index * len(window_starts)
        for p in range(len(window_starts)):
            # Assigned, not added: no two windows start at the same position.
            one[window_starts[p]] = g[first + p] / divisor[p]
        spread_sums_along(one, plane, kernel[2], steps[2], other)
        spread_sums_along(other, plane, kernel[1], steps[1], one)
        if kernel[0] > 1:
            spread_sums_along(one, plane, kernel[0], steps[0], other)
        copy_out_of_frame(other if kernel[0] > 1 else one, index, windows, y)


@functools.lru_cache(maxsize=256)
def average_plan(
    shape: tuple[int, ...], settings: tuple[Any, ...], dtype: np.dtype
) -> tuple[Any, ...] | None:
    """Return the result's shape, the number of batches, the windows and their divisors."""
    kernel_size, stride, padding, ceil_mode, include, override = settings
    window = kernel_size, stride, padding, (1,) * len(kernel_size), ceil_mode
    _, layout = window_layout("avg_pool", shape, window)
    if not layout.is_supported:
        return None
    return layout.shape, layout.batches, layout.arguments, layout.divisors(include, override, dtype)


@pooling.avg_pool.kernel("cpu", min_size=1024)
def avg_pool() -> Callable[..., Any]:
    """Make the forward of `avg_pool`."""
    kernel = compile_kernel(avg_pool_planes, lambda number: types.void(
        SIZE, SIZE, readonly_array(number), WINDOWS, readonly_array(number), number[::1],
    ))  # fmt: skip

    def run(
        input: Array, kernel_size: Counts, stride: Counts, padding: Counts, ceil_mode: bool,
        include: bool, override: int | None,
    ) -> Any:  # fmt: skip
        dtype, size = input.dtype, input.size
        if not size or dtype.char not in "fd":
            return None
        settings = kernel_size, stride, padding, ceil_mode, include, override
        plan = average_plan(input.shape, settings, dtype)
        if plan is None:
            return None
        shape, batches, windows, window_divisors = plan
        y = np.empty(shape, dtype)
        flat = input.reshape(-1) if input.flags.c_contiguous else flatten(input)
        arguments = flat, windows, window_divisors, y.reshape(-1)
        if size < MIN_PARALLEL:
            kernel(0, batches, *arguments)
        else:
            parallel_for(kernel, batches, *arguments, work=size)
        return y

    return run


@pooling.avg_pool_grad.kernel("cpu", min_size=256)
def avg_pool_grad() -> Callable[..., Any]:
    """Make the derivative of `avg_pool`."""
    kernel = compile_kernel(avg_pool_gradient_planes, lambda number: types.void(
        SIZE, SIZE, readonly_array(number), WINDOWS, readonly_array(number), number[::1],
    ))  # fmt: skip

    def run(input: Array, shape: Counts, settings: object) -> Any:
        if not are_float_arrays(input):
            return None
        kernel_size, stride, padding, ceil_mode, include, override = settings
        window = kernel_size, stride, padding, (1,) * len(kernel_size), ceil_mode
        _, layout = window_layout("avg_pool", tuple(shape), window)
        if not layout.is_supported:
            return None
        y = np.empty(shape, input.dtype)
        window_divisors = layout.divisors(include, override, input.dtype)
        arguments = flatten(input), layout.arguments, window_divisors, y.reshape(-1)
        parallel_for(kernel, layout.plane_count, *arguments, work=y.size)
        return y

    return run
