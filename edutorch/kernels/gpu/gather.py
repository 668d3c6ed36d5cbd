"""`gather` on a GPU (`gather.cu`); its derivative adds at indices that repeat: `scatter.py`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import backends, ops
from ...backends.numpy import Array
from ...ops import gather_scatter
from .module import blocks_for, launch
from .row_launch import MAX_ROWS, is_supported, module_for

Run = Callable[..., Any]
THREADS = 256


@ops.gather.kernel("cuda", min_size=0)
def gather() -> Run:
    """Make y[o, j, i] = input[o, index[o, j, i], i]."""

    def run(input: Array, dim: int, index: Array, sparse_grad: bool = False) -> Array | None:
        index = getattr(index, "_array", index)
        if index.__class__ is not input.__class__ or index.dtype.kind not in "iu":
            return None
        dim = dim % max(1, input.ndim)
        if input.ndim != index.ndim or not input.ndim or not index.size or not is_supported(input):
            return None
        outer, inner = input.shape[:dim], input.shape[dim + 1 :]
        others = (*index.shape[:dim], *index.shape[dim + 1 :])
        blocks = blocks_for(index.size, THREADS)
        if others != (*outer, *inner) or blocks > MAX_ROWS:
            return None
        xp = backends.of(input).xp
        n, count = input.shape[dim], index.shape[dim]
        rows = gather_scatter.checked_range("gather", index, n)
        rows = xp.ascontiguousarray(rows).astype("int64", copy=False)
        y = xp.empty(index.shape, input.dtype)
        sizes = np.int64(index.size), np.int64(n), np.int64(count), np.int64(math.prod(inner))
        module = module_for("gather", input.dtype.name)
        arguments = xp.ascontiguousarray(input), rows, y, *sizes
        launch(module, "gather_elements", blocks, THREADS, arguments)
        return y

    return run
