"""softmax and log_softmax along the last axis, and their derivatives, on a GPU (`softmax.cu`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import backends, ops
from ...backends.numpy import Array
from ...dtypes import dtype as DType
from .module import launch
from .row_launch import MAX_ROW_SIZE, as_table, is_supported, module_for, row_threads

Run = Callable[..., Any]


def is_last_axis(array: Array, dim: int) -> bool:
    """Whether `dim` is the last axis of an array with rows that a block can take."""
    return array.ndim > 0 and dim in (-1, array.ndim - 1) and array.shape[-1] < MAX_ROW_SIZE


def forward(logarithm: bool) -> Run:
    """Make the forward of softmax, or of log_softmax."""

    def run(input: Array, dim: int, dtype: DType | None) -> Array | None:
        if dtype is not None or not is_supported(input) or not is_last_axis(input, dim):
            return None
        n = input.shape[-1]
        x = as_table(input, n)
        y = backends.of(input).xp.empty(x.shape, x.dtype)
        module = module_for("softmax", x.dtype.name)
        arguments = (x, y, np.int32(n), np.int32(logarithm))
        launch(module, "softmax_rows", x.shape[0], row_threads(n), arguments)
        return y.reshape(input.shape)

    return run


def backward(logarithm: bool) -> Run:
    """Make the derivative of softmax, or of log_softmax."""

    def run(g: Array, y: Array, dim: int) -> Array | None:
        # A gradient that is not an array, such as `OneHotGradient`, goes to the definition.
        if g.__class__ is not y.__class__ or not is_supported(g, y) or not is_last_axis(y, dim):
            return None
        n = y.shape[-1]
        table = as_table(y, n)
        grad_input = backends.of(y).xp.empty(table.shape, y.dtype)
        module = module_for("softmax", y.dtype.name)
        arguments = (as_table(g, n), table, grad_input, np.int32(n), np.int32(logarithm))
        launch(module, "softmax_rows_backward", table.shape[0], row_threads(n), arguments)
        return grad_input.reshape(y.shape)

    return run


@ops.softmax.kernel("cuda", min_size=0)
def softmax() -> Run:
    """Make the forward of `softmax`."""
    return forward(logarithm=False)


@ops.softmax.kernel("cuda", "input", min_size=0)
def softmax_input() -> Run:
    """Make y · (g - Σ g·y)."""
    return backward(logarithm=False)


@ops.log_softmax.kernel("cuda", min_size=0)
def log_softmax() -> Run:
    """Make the forward of `log_softmax`."""
    return forward(logarithm=True)


@ops.log_softmax.kernel("cuda", "input", min_size=0)
def log_softmax_input() -> Run:
    """Make g - exp(y) · Σ g."""
    return backward(logarithm=True)
