"""One step of an LSTM cell, by one kernel each way: its products, and its gates (`rnn_cell.py`).

Forward, the threads divide the columns of the gates, each the sum of two products; then come the
states. Backward they divide the samples: one computes the gradients of its samples' gates, their
sums, and the product of them that is the gradient of h.

A step of a small cell is short, so the arrays come by their addresses (see `along_axis.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types

from ...backends.numpy import Array
from ...core.fast.lazy_gradients import DeferredMatmulGradient, new_rows, sum_over
from ...nn.functional import rnn
from .along_axis import array_at, compile_along_axis
from .array_blocks import DATA
from .gemm_microkernel import (
    HIGH_TILE_ROWS,
    TILES_ARE_FASTER,
    gemm_address,
    matmul_into,
    multiply,
    workspace_for,
)
from .jit import are_contiguous_floats, use_wide_vectors, writable_contiguous
from .matmul import (
    MAX_DEFERRED_ROWS,
    MIN_PRODUCTS_TRANSPOSED,
    PRODUCTS_PER_ELEMENT,
    blas_layout,
    product_or_numpy,
)
from .memory_access import load
from .parallel import parallel_for
from .rnn_cell import gates_forward, lstm_rows_backward
from .vector_math import CONTRACTED
from .work_queue import claim_range

__all__ = ["lstm_cell_forward", "lstm_cell_forward_joint_vjp"]

MIN_ROWS, MAX_ROWS = 4, 32
"""With fewer samples, a product is bound by reading the weights: it is left to BLAS. With more, two
products, each cut as suits it, are faster than both in one pass."""

COLUMNS = 4 * HIGH_TILE_ROWS
"""The threads divide the columns of the gates in units of so many."""

MAX_SUMMED_ROWS = 8
"""The gradient of the bias is the sum of sums of at most so many samples, whatever thread has
them."""

MAX_SUMS = 64
"""With more sums than so many, they are left to the sum over all samples."""


def multiply_gates(start, stop, like, addresses, lengths, row_steps):
    """Compute some columns of the gates' pre-activations, bias + input · w_ihᵀ + h · w_hhᵀ.

    Args:
        start, stop: of the columns, in units of `COLUMNS`.
        addresses: of input, h, w_ih, w_hh, the bias or 0, and the gates.
        lengths: the number of samples, and the columns of the gates and of the input.
        row_steps: from row to row of the input and of h; the columns of h.
    """
    start, stop = claim_range(start, stop)
    (n, width, input_size), (input_step, h_step, h_size) = lengths, row_steps
    input, h, w_ih, w_hh, bias, gates = addresses
    workspace = workspace_for(array_at(gates, like, (n * width,)))
    size = workspace.itemsize
    first = np.int64(start) * COLUMNS
    columns = min(np.int64(stop) * COLUMNS, width) - first
    target = (load(gates + DATA) + first * size, width)
    begin = (load(bias + DATA) + first * size if bias else 0, 0)
    left = (load(input + DATA), input_step, 1)
    weight = (load(w_ih + DATA) + first * input_size * size, 1, input_size)
    multiply(workspace, (n, columns, input_size), left, weight, begin, target)
    left = (load(h + DATA), h_step, 1)
    weight = (load(w_hh + DATA) + first * h_size * size, 1, h_size)
    multiply(workspace, (n, columns, h_size), left, weight, target, target)


def row_step(x: Array) -> int | None:
    """Return the step from row to row of a matrix; None where rows have gaps inside."""
    layout = blas_layout(x)
    return None if layout is None or layout[0] else layout[1]


@rnn.lstm_cell_forward.kernel("cpu", min_size=64)
def lstm_cell_forward() -> Callable[..., Any]:
    """Make `lstm_cell_forward`."""
    entries = compile_along_axis(multiply_gates, 6, types.UniTuple(types.int64, 3))
    gates_kernel, multiply_now = gates_forward(), product_or_numpy()

    def run(
        input: Array, h: Array, c: Array, w_ih: Array, w_hh: Array, b_ih: Array | None,
        b_hh: Array | None,
    ) -> Any:  # fmt: skip
        dtype = input.dtype
        entry = entries.get(dtype)
        if entry is None or h.dtype is not dtype:
            return None
        if not are_contiguous_floats((c, w_ih, w_hh), dtype):
            return None
        input_step, h_step = row_step(input), row_step(h)
        if input_step is None or h_step is None:
            return None
        bias = None if b_ih is None or b_hh is None else b_ih + b_hh
        # A single bias is rare.
        if (b_ih is None) is not (b_hh is None) or (bias is not None and bias.dtype is not dtype):
            return None
        n, work = len(input), len(input) * (w_ih.size + w_hh.size)
        if MIN_ROWS <= n <= MAX_ROWS and TILES_ARE_FASTER and work >= MIN_PRODUCTS_TRANSPOSED:
            width = len(w_ih)
            gates, bias_address = np.empty((n, width), dtype), 0 if bias is None else id(bias)
            parallel_for(
                entry, -(-width // COLUMNS), 0.0,
                (id(input), id(h), id(w_ih), id(w_hh), bias_address, id(gates)),
                (n, width, input.shape[1]), (input_step, h_step, h.shape[1]),
                work=work // PRODUCTS_PER_ELEMENT,
            )  # fmt: skip
        else:
            gates = multiply_now(input, w_ih.T, bias)
            gates += multiply_now(h, w_hh.T)
        return gates_kernel(gates, c), gates

    return run


@njit(**CONTRACTED)
def sum_rows(rows, start, stop, sums):
    """Add some rows of a matrix up, in their order."""
    width = sums.size
    sums[:] = rows[start * width : (start + 1) * width]
    for r in range(start + 1, stop):
        row = rows[r * width : (r + 1) * width]
        for j in range(width):
            sums[j] += row[j]


def step_backward(start, stop, like, addresses, lengths, blas_address, h_size, summed_rows):
    """Compute the gradients of the gates and of c, their sums, and that of h: the gates' · w_hh.

    Args:
        start, stop: of the samples, in units of `summed_rows`.
        addresses: of the gradient of (h, c), the gates, c, w_hh, the gradients of the gates, of c
            and of h, and the sums of the first, (units, 4 k), or 0.
        lengths: the number of samples, the columns of c's rows, and the units.
        h_size: the columns of h's rows.
    """
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    n, k, units = lengths
    g_, gates_, c_, w_hh, grad_gates_, grad_c_, grad_h, sums_ = addresses
    g, grad_c = array_at(g_, like, (2 * n * k,)), array_at(grad_c_, like, (n * k,))
    gates, c = array_at(gates_, like, (4 * n * k,)), array_at(c_, like, (n * k,))
    grad_gates, size = array_at(grad_gates_, like, (4 * n * k,)), c.itemsize
    states, gradients = (g[: n * k], g[n * k :]), (grad_gates, grad_c)
    first, end = np.int64(start) * summed_rows, min(np.int64(stop) * summed_rows, n)
    lstm_rows_backward(first, end, states, gates, c, gradients, k)
    if sums_:
        sums = array_at(sums_, like, (units, 4 * k))
        for unit in range(np.int64(start), np.int64(stop)):
            row = unit * summed_rows
            sum_rows(grad_gates, row, min(row + summed_rows, n), sums[unit])
    matmul_into(
        blas_address, workspace_for(c), (end - first, h_size, 4 * k),
        (load(grad_gates_ + DATA) + first * 4 * k * size, 4 * k, 1),
        (load(w_hh + DATA), h_size, 1),
        (load(grad_h + DATA) + first * h_size * size, h_size), False,
    )  # fmt: skip


@rnn.lstm_cell_forward.kernel("cpu", "joint_vjp", min_size=64)
def lstm_cell_forward_joint_vjp() -> Callable[..., Any]:
    """Make the rule of `lstm_cell_forward`; products that may wait are deferred."""
    entries = compile_along_axis(step_backward, 8, *[types.int64] * 3)
    multiply_now = product_or_numpy()

    def run(
        g: Array, gates: Array, input: Array, h: Array, c: Array, w_ih: Array, w_hh: Array,
        b_ih: Array | None, b_hh: Array | None,
    ) -> Any:  # fmt: skip
        dtype = g.dtype
        blas_address, entry = gemm_address(dtype), entries.get(dtype)
        if blas_address is None or not are_contiguous_floats((gates, c, w_hh), dtype):
            return None
        if entry is None or not input.dtype is h.dtype is w_ih.dtype is dtype:
            return None
        (n, k), h_size, g = c.shape, h.shape[1], writable_contiguous(g)
        grad_gates, grad_c = new_rows(n, 4 * k, dtype), np.empty((n, k), dtype)
        grad_h = np.empty((n, h_size), dtype)
        summed_rows = min(MAX_SUMMED_ROWS, -(-n // 8))
        units = -(-n // summed_rows)
        sums = None if b_ih is None or units > MAX_SUMS else np.empty((units, 4 * k), dtype)
        addresses = (
            id(g), id(gates), id(c), id(w_hh), id(grad_gates), id(grad_c), id(grad_h),
            0 if sums is None else id(sums),
        )  # fmt: skip
        work = 6 * gates.size + gates.size * h_size // PRODUCTS_PER_ELEMENT
        parallel_for(
            entry, units, 0.0, addresses, (n, k, units), blas_address, h_size, summed_rows,
            work=work,
        )  # fmt: skip
        if n > MAX_DEFERRED_ROWS:
            grad_weights = [multiply_now(grad_gates.T, x) for x in (input, h)]
        else:  # one product of many steps is faster: see `matmul.linear_weight`
            grad_weights = [DeferredMatmulGradient(grad_gates, x, multiply_now) for x in (input, h)]
        # Deferred, the gradient of the input is computed only if something asks for it.
        grad_input = DeferredMatmulGradient(grad_gates.T, w_ih, multiply_now)
        gradients = grad_input, grad_h, grad_c, *grad_weights
        if b_ih is None:
            return *gradients, None, None
        grad_bias = sum_over(grad_gates if sums is None else sums, 0)
        # Of its own for each bias: it becomes the `.grad` of a parameter.
        return *gradients, grad_bias, grad_bias.copy()

    return run
