"""The negative log-likelihood: one element of each row, checked and added up in one loop.

NumPy compares the classes with their number, gathers, negates and adds up, each in an array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends.numpy import Array
from ...nn.functional.loss import definitions
from .jit import ARRAY_1D, ARRAY_2D, INT64, INT64_1D, compile_kernel, is_contiguous_float
from .row_reduce import add_compensated, compensated_total

LONG = np.dtype("int64")


def add_targets(start, stop, x, target, ignore_index, results):
    """Write -Σ x[t] of the rows, its mean, and whether there are targets, all of them classes."""
    whole = lost = 0.0
    count = 0
    for r in range(start, stop):
        index = target[r]
        if index == ignore_index:
            continue
        if index < 0 or index >= x.shape[1]:
            results[2] = 0
            return
        whole, lost = add_compensated(whole, lost, x[r, np.uint64(index)])
        count += 1
    whole = -compensated_total(whole, lost)
    results[0], results[1], results[2] = whole, whole / count, count > 0


@definitions.nll_loss.kernel("cpu", min_size=16)
def nll_loss() -> Callable[..., Any]:
    """Make the sum or the mean of the losses of (n, classes) without weights."""
    kernel = compile_kernel(add_targets, ARRAY_2D, INT64_1D, INT64, ARRAY_1D)

    def run(
        input: Array, target: Array, weight: Array | None, ignore_index: int, reduction: str
    ) -> Any:
        if weight is not None or reduction not in ("mean", "sum") or input.ndim != 2:
            return None
        if target.shape != input.shape[:1] or target.dtype is not LONG:
            return None
        if not is_contiguous_float(input) or not target.flags.carray:
            return None
        results = np.empty(3, input.dtype)
        kernel(0, len(target), input, target, ignore_index, results)
        if not results[2]:
            return None  # the definition raises an error, or averages nothing
        return results[0 if reduction == "sum" else 1]

    return run
