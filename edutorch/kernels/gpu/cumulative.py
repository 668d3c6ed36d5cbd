"""Running sums along the last axis on a GPU (`cumulative.cu`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import backends, ops
from ...backends.numpy import Array
from ...dtypes import dtype as DType
from .module import launch
from .row_launch import MAX_ROWS, as_table, is_supported, module_for, row_threads
from .softmax import is_last_axis

Run = Callable[..., Any]


@ops.cumsum.kernel("cuda", min_size=0)
def cumsum() -> Run:
    """Make the forward of `cumsum`; its derivative is a sum from the other end."""

    def run(input: Array, dim: int, dtype: DType | None) -> Array | None:
        if dtype is not None or not is_supported(input) or not is_last_axis(input, dim):
            return None
        n = input.shape[-1]
        x = as_table(input, n)
        if x.shape[0] > MAX_ROWS:
            return None
        y = backends.of(input).xp.empty(x.shape, x.dtype)
        module = module_for("cumulative", x.dtype.name)
        launch(module, "cumsum_rows", x.shape[0], row_threads(n), (x, y, np.int32(n)))
        return y.reshape(input.shape)

    return run
