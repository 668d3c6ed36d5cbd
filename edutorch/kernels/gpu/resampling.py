"""Resizing along an axis (nearest, linear, cubic) and its derivative on a GPU (`resampling.cu`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import backends
from ...backends.numpy import Array
from ...nn.functional import adaptive
from .module import blocks_for, launch
from .row_launch import MAX_ROWS, is_supported, module_for, wide_type

Run = Callable[..., Any]
THREADS = 256


@adaptive.resample_axis.kernel("cuda", min_size=0)
def resample_axis() -> Run:
    """Make the weighted sums along an axis; their derivative is the same op."""

    def run(input: Array, axis: int, taps: adaptive.WindowSums) -> Array | None:
        count, n, inner = len(taps.starts) - 1, input.shape[axis], input.shape[axis + 1 :]
        shape = (*input.shape[:axis], count, *inner)
        blocks = blocks_for(math.prod(shape), THREADS)
        if not is_supported(input) or not count or blocks > MAX_ROWS:
            return None
        xp = backends.of(input).xp
        y = xp.empty(shape, input.dtype)
        weights = taps.weights.astype(wide_type(input.dtype))
        tables = [xp.asarray(table) for table in (taps.starts, taps.positions, weights)]
        sizes = [np.int64(size) for size in (y.size, n, count, math.prod(inner))]
        module = module_for("resampling", input.dtype.name)
        arguments = xp.ascontiguousarray(input), *tables, y, *sizes
        launch(module, "sum_windows", blocks, THREADS, arguments)
        return y

    return run
