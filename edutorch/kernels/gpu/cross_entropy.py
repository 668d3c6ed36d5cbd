"""Cross entropy of logits and its derivative on a GPU, without a softmax in memory.

For 50,000 classes the logarithms of the softmax, which the two ops of the definition keep for the
derivative, are as large as the logits: here two numbers of each row are kept instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import backends
from ...backends.numpy import Array
from ...nn.functional.loss import definitions
from .module import launch
from .row_launch import (
    MAX_ROW_SIZE,
    MAX_ROWS,
    as_table,
    is_supported,
    module_for,
    row_threads,
    wide_type,
)  # fmt: skip

Run = Callable[..., Any]


def fits(input: Array, target: Array, weight: Array | None) -> bool:
    """Whether the arrays are rows of logits with a class for each, of this device."""
    return (
        input.ndim == 2 and is_supported(input, weight) and input.shape[1] < MAX_ROW_SIZE
        and input.shape[0] <= MAX_ROWS and target.__class__ is input.__class__
    )  # fmt: skip


def weight_arguments(input: Array, target: Array, weight: Array | None) -> tuple[Array, Array]:
    """Return the classes and the weights as a kernel takes them."""
    xp = backends.of(input).xp
    # A kernel takes an array for each pointer: one that is not there is not read.
    return xp.ascontiguousarray(target), input if weight is None else xp.ascontiguousarray(weight)


@definitions.fused_cross_entropy.kernel("cuda", min_size=0)
def fused_cross_entropy() -> Run:
    """Make the loss, the maximum and logarithm of the sum of each row, and the divisor."""

    def run(
        input: Array, target: Array, weight: Array | None, ignore_index: int, reduction: str
    ) -> tuple[Array, Array, Array] | None:
        if not fits(input, target, weight):
            return None
        definitions.check_target(input, target, weight, reduction)
        xp, (rows, n), number = backends.of(input).xp, input.shape, wide_type(input.dtype)
        definitions.check_classes(xp, input.shape, target, target == ignore_index)
        x, module = as_table(input, n), module_for("cross_entropy", input.dtype.name)
        losses, factors = xp.empty(rows, number), xp.empty(rows, number)
        statistics, divisor = xp.empty((rows, 2), number), xp.empty((), number)
        arguments = x, *weight_arguments(x, target, weight), losses, factors, statistics
        sizes = np.int32(n), np.int64(ignore_index), np.int32(weight is not None)
        launch(module, "cross_entropy_rows", rows, row_threads(n), (*arguments, *sizes))
        loss = xp.empty((), input.dtype)
        arguments = losses, factors, loss, divisor, np.int32(rows), np.int32(reduction == "mean")
        launch(module, "finish_cross_entropy", 1, row_threads(rows), arguments)
        if reduction == "none":
            loss = losses.astype(input.dtype)
        return loss, statistics, divisor

    return run


@definitions.fused_cross_entropy.kernel("cuda", "input", min_size=0)
def fused_cross_entropy_input() -> Run:
    """Make (softmax x - onehot target) · g · weight / divisor."""

    def run(
        g: Array, input: Array, target: Array, weight: Array | None, statistics: Array,
        divisor: Array, ignore_index: int, reduction: str,
    ) -> Array | None:  # fmt: skip
        if g.__class__ is not input.__class__ or not fits(input, target, weight):
            return None
        if not is_supported(g, input) or not is_supported(statistics, divisor):
            return None
        xp, (rows, n) = backends.of(input).xp, input.shape
        x, module = as_table(input, n), module_for("cross_entropy", input.dtype.name)
        gradient, grad_input = xp.ascontiguousarray(g), xp.empty(x.shape, x.dtype)
        classes, weights = weight_arguments(x, target, weight)
        arguments = gradient, x, classes, weights, statistics, divisor, grad_input
        flags = np.int32(weight is not None), np.int32(g.ndim)
        sizes = np.int32(n), np.int64(ignore_index), *flags
        kernel = "cross_entropy_rows_backward"
        launch(module, kernel, rows, row_threads(n), (*arguments, *sizes))
        return grad_input

    return run
