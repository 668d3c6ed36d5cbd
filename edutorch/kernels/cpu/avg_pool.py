"""Average pooling; see `max_pool.py`.

Sums, like maxima, are separable: they are taken along one axis after the other, so a window of
k × k elements takes 2 k steps, and not k².
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from ...nn.functional.pooling import pool_divisors
from ...nn.functional.sliding_window import Windows
from .conv_common import SIZE, are_float_arrays, compile_kernel, readonly_array
from .implicit_gemm import copy
from .jit import use_wide_vectors
from .max_pool import WINDOW_TYPES, copy_out_of_frame, flatten, load_planes, window_layout
from .parallel import parallel_for
from .work_queue import claim_range

__all__ = ["avg_pool", "avg_pool_grad"]


@njit
def sum_along(x, length, taps, step, y):
    """y[p] = Σᵢ x[p + i·step]. Return the length of y."""
    use_wide_vectors()
    length -= (taps - 1) * step
    copy(x, 0, y, 0, length)
    for i in range(1, taps):
        row, total = x[i * step : i * step + length], y[:length]
        for p in range(length):
            total[p] += row[p]
    return length


def avg_pool_planes(
    start, stop, x, planes_per_batch, sizes, outer, before, unpadded, kernel, steps, window_starts,
    plane_count, divisor, y,
):  # fmt: skip
    """Compute `avg_pool` for some batches of planes, with one `divisor` for each window."""
    start, stop = claim_range(start, stop)
    plane = outer[0] * outer[1] * outer[2]
    framed = np.zeros(1 if unpadded else planes_per_batch * plane, y.dtype)
    one, other = (
        np.empty(planes_per_batch * plane, y.dtype),
        np.empty(planes_per_batch * plane, y.dtype),
    )
    for batch in range(start, stop):
        planes, whole = load_planes(
            x, batch, planes_per_batch, plane_count, sizes, outer, before, unpadded, framed
        )
        length = sum_along(planes, whole, kernel[2], steps[2], one)
        length = sum_along(one, length, kernel[1], steps[1], other)
        sum_along(other, length, kernel[0], steps[0], one)
        target = batch * planes_per_batch * len(window_starts)
        for first in range(0, whole, plane):
            for p in range(len(window_starts)):
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


def avg_pool_gradient_planes(
    start, stop, g, planes_per_batch, sizes, outer, before, unpadded, kernel, steps, window_starts,
    plane_count, divisor, y,
):  # fmt: skip
    """Compute the gradient of `avg_pool` for some planes."""
    start, stop = claim_range(start, stop)
    plane = outer[0] * outer[1] * outer[2]
    one, other = np.empty(plane, y.dtype), np.empty(plane, y.dtype)
    for index in range(start, stop):
        one[:] = 0
        first = index * len(window_starts)
        for p in range(len(window_starts)):
            one[window_starts[p]] = g[first + p] / divisor[p]
        spread_sums_along(one, plane, kernel[2], steps[2], other)
        spread_sums_along(other, plane, kernel[1], steps[1], one)
        if kernel[0] > 1:
            spread_sums_along(one, plane, kernel[0], steps[0], other)
        copy_out_of_frame(other if kernel[0] > 1 else one, index, sizes, outer, before, y)


@functools.lru_cache(maxsize=256)
def divisors_of(windows: Windows, include: bool, override: int | None, dtype: Any) -> np.ndarray:
    """Return the divisor of each window's sum, as an array of one axis."""
    result = pool_divisors(np, windows, include, override, dtype)
    return np.ascontiguousarray(np.broadcast_to(result, windows.count), dtype).reshape(-1)


def avg_pool() -> Callable[..., Any]:
    """Make the forward of `avg_pool`."""
    kernel = compile_kernel(avg_pool_planes, lambda number: types.void(
        SIZE, SIZE, readonly_array(number), *WINDOW_TYPES, readonly_array(number), number[::1],
    ))  # fmt: skip

    def run(
        input: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, include: bool,
        override: int | None,
    ) -> Any:  # fmt: skip
        if not are_float_arrays(input):
            return None
        settings = kernel_size, stride, padding, (1,) * len(kernel_size), ceil_mode
        windows, layout = window_layout("avg_pool", input.shape, settings)
        if not layout.is_supported:
            return None
        y = np.empty((*input.shape[: -windows.rank], *windows.count), input.dtype)
        window_divisors = divisors_of(windows, include, override, input.dtype)
        arguments = flatten(input), *layout.arguments, window_divisors, y.reshape(-1)
        parallel_for(kernel, layout.batches, *arguments, work=input.size)
        return y

    return run


def avg_pool_grad() -> Callable[..., Any]:
    """Make the derivative of `avg_pool`."""
    kernel = compile_kernel(avg_pool_gradient_planes, lambda number: types.void(
        SIZE, SIZE, readonly_array(number), *WINDOW_TYPES, readonly_array(number), number[::1],
    ))  # fmt: skip

    def run(input: Any, shape: Any, settings: Any) -> Any:
        if not are_float_arrays(input):
            return None
        kernel_size, stride, padding, ceil_mode, include, override = settings
        window = kernel_size, stride, padding, (1,) * len(kernel_size), ceil_mode
        windows, layout = window_layout("avg_pool", tuple(shape), window)
        if not layout.is_supported:
            return None
        y = np.empty(shape, input.dtype)
        window_divisors = divisors_of(windows, include, override, input.dtype)
        arguments = flatten(input), *layout.arguments, window_divisors, y.reshape(-1)
        parallel_for(kernel, layout.plane_count, *arguments, work=y.size)
        return y

    return run
