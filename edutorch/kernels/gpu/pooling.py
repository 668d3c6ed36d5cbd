"""Max and average pooling in one and two dimensions, and their derivatives, on a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import backends
from ...backends.numpy import Array
from ...nn.functional import pooling
from ...nn.functional.sliding_window import Windows, get_windows
from .module import blocks_for, launch
from .row_launch import is_supported, module_for, wide_type

Run = Callable[..., Any]
THREADS = 256
MAX_BLOCKS = 2**31 - 1


def window_arguments(windows: Windows) -> tuple[np.int32, ...] | None:
    """Return the arguments that tell a kernel of the windows; None for three dimensions.

    One dimension is a plane with one row.
    """
    if windows.rank > 2:
        return None
    pairs = (
        (windows.sizes, 1), (windows.count, 1), (windows.kernel, 1), (windows.stride, 1),
        (windows.padding, 0), (windows.dilation, 1),
    )  # fmt: skip
    padded = [(default, *values) if windows.rank == 1 else values for values, default in pairs]
    return tuple(np.int32(value) for values in padded for value in values)


def run_on_windows(
    kernel: str, windows: Windows, arrays: Sequence[Array], size: int, *further: Any
) -> bool:
    """Launch a kernel with a thread for each result; False for a case that it does not handle.

    Args:
        arrays: what the kernel reads and writes; the first one has the dtype.
        size: the number of results.
        further: the arguments between the size and the windows.
    """
    arguments = window_arguments(windows)
    blocks = blocks_for(size, THREADS)
    if arguments is None or not size or blocks > MAX_BLOCKS or not is_supported(arrays[0]):
        return False
    module = module_for("pooling", arrays[0].dtype.name)
    launch(module, kernel, blocks, THREADS, (*arrays, np.int64(size), *further, *arguments))
    return True


def pool_maximum(input: Array, settings: Sequence[Any]) -> tuple[Array, Array, Windows] | None:
    """Return the maximum of each window, its tap, and the windows."""
    windows = get_windows("max_pool", input.shape, *settings)
    xp, shape = backends.of(input).xp, (*input.shape[: -windows.rank], *windows.count)
    y, taps = xp.empty(shape, input.dtype), xp.empty(shape, np.int32)
    arrays = xp.ascontiguousarray(input), y, taps
    done = run_on_windows("max_pool", windows, arrays, math.prod(shape))
    return (y, taps, windows) if done else None


@pooling.max_pool.kernel("cuda", min_size=0)
def max_pool() -> Run:
    """Make the forward of `max_pool`."""

    def run(input: Array, *settings: Any) -> Array | None:
        result = pool_maximum(input, settings)
        return None if result is None else result[0]

    return run


@pooling.max_pool_indices.kernel("cuda", min_size=0)
def max_pool_indices() -> Run:
    """Make the index of the tap with the maximum."""

    def run(input: Array, settings: Sequence[Any]) -> Array | None:
        result = pool_maximum(input, settings)
        if result is None:
            return None
        # The definition's dtype: taps below 128 fit into a byte.
        return result[1] if len(result[2].taps) >= 128 else result[1].astype(np.int8)

    return run


@pooling.max_pool.kernel("cuda", "input", min_size=0)
def max_pool_input() -> Run:
    """Make the derivative of `max_pool`: the taps are found again, which saves memory."""

    def run(g: Array, input: Array, *settings: Any) -> Array | None:
        result = pool_maximum(input, settings) if is_supported(g, input) else None
        if result is None:
            return None
        _, taps, windows = result
        xp = backends.of(input).xp
        grad_input = xp.empty(input.shape, input.dtype)
        arrays = xp.ascontiguousarray(g), taps, grad_input
        done = run_on_windows("max_pool_backward", windows, arrays, input.size)
        return grad_input if done else None

    return run


def average_windows(shape: Sequence[int], settings: Sequence[Any]) -> tuple[Windows, bool, Any]:
    """Return the windows, whether padding counts, and the divisor (None: what is counted)."""
    kernel, stride, padding, ceil_mode, include_pad, divisor = settings
    ones = (1,) * len(kernel)
    windows = get_windows("avg_pool", shape, kernel, stride, padding, ones, ceil_mode)
    return windows, include_pad, divisor


@pooling.avg_pool.kernel("cuda", min_size=0)
def avg_pool() -> Run:
    """Make the forward of `avg_pool`."""

    def run(input: Array, *settings: Any) -> Array | None:
        windows, include_pad, divisor = average_windows(input.shape, settings)
        xp, shape = backends.of(input).xp, (*input.shape[: -windows.rank], *windows.count)
        y, number = xp.empty(shape, input.dtype), wide_type(input.dtype)
        further = np.int32(include_pad), number(divisor or 0)
        arrays = xp.ascontiguousarray(input), y
        done = run_on_windows("avg_pool", windows, arrays, y.size, *further)
        return y if done else None

    return run


@pooling.avg_pool_grad.kernel("cuda", min_size=0)
def avg_pool_grad() -> Run:
    """Make `avg_pool_grad`, the derivative of `avg_pool`."""

    def run(input: Array, shape: Sequence[int], settings: Sequence[Any]) -> Array | None:
        windows, include_pad, divisor = average_windows(shape, settings)
        xp, number = backends.of(input).xp, wide_type(input.dtype)
        y = xp.empty(tuple(shape), input.dtype)
        further = np.int32(include_pad), number(divisor or 0)
        arrays = xp.ascontiguousarray(input), y
        done = run_on_windows("avg_pool_backward", windows, arrays, y.size, *further)
        return y if done else None

    return run
