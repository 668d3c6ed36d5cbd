"""Weighted sums of windows along an axis: interpolation, adaptive pooling, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends.numpy import Array
from ...nn.functional import adaptive
from .jit import (
    ARRAY_1D,
    ARRAY_3D,
    INT64,
    INT64_1D,
    compile_kernel,
    split_at_axis,
    use_wide_vectors,
)
from .parallel import MIN_PARALLEL, parallel_for
from .scan import is_axis
from .work_queue import claim_range

Run = Callable[..., Any]


def sum_windows(start, stop, x, y, starts, positions, weights, taps):
    """y[i, k] = Σ weight · x[i, position] over the taps of output k; the range: pairs of i and k.

    Where each output is one number, the range counts i.

    Args:
        taps: how many each output has; 0: not all have as many.
    """
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    count, inner = y.shape[1], y.shape[2]
    if inner == 1:
        for i in range(start, stop):
            row, out = x[i].reshape(-1), y[i].reshape(-1)
            if taps == 1:  # the nearest
                for k in range(np.uint64(count)):
                    out[k] = row[np.uint64(positions[k])] * weights[k]
                continue
            if taps == 2:  # linear interpolation
                for k in range(np.uint64(count)):
                    a, b = k + k, k + k + np.uint64(1)
                    left, right = row[np.uint64(positions[a])], row[np.uint64(positions[b])]
                    out[k] = left * weights[a] + right * weights[b]
                continue
            for k in range(count):
                sum = y.dtype.type(0)
                for tap in range(starts[k], starts[k + 1]):
                    sum += row[positions[tap]] * weights[tap]
                out[k] = sum
        return
    for unit in range(np.int64(start), np.int64(stop)):
        i, k = unit // count, unit % count
        out, first = y[i, k], starts[k]
        if first == starts[k + 1]:
            out[:] = 0
            continue
        row, weight = x[i, positions[first]], weights[first]
        for j in range(inner):
            out[j] = row[j] * weight
        for tap in range(first + 1, starts[k + 1]):
            more, weight = x[i, positions[tap]], weights[tap]
            for j in range(inner):
                out[j] += more[j] * weight


@adaptive.resample_axis.kernel("cpu", min_size=1)
def resample_axis() -> Run:
    """Make the weighted sums along an axis; their derivative is the same op."""
    kernel = compile_kernel(sum_windows, ARRAY_3D, ARRAY_3D, INT64_1D, INT64_1D, ARRAY_1D, INT64)

    def run(input: Array, axis: int, taps: adaptive.WindowSums) -> np.ndarray | None:
        if not is_axis(input, axis):
            return None
        count, (outer, n, inner) = len(taps.starts) - 1, split_at_axis(input.shape, axis)
        y = np.empty((outer, count, inner), input.dtype)
        units = outer if inner == 1 else outer * count
        arguments = (
            input.reshape(outer, n, inner), y, taps.starts, taps.positions,
            taps.weights_as(input.dtype), taps.width,
        )  # fmt: skip
        if y.size < MIN_PARALLEL:
            kernel(0, units, *arguments)
        else:
            parallel_for(kernel, units, *arguments, work=y.size)
        return y.reshape(*input.shape[:axis], count, *input.shape[axis + 1 :])

    return run
