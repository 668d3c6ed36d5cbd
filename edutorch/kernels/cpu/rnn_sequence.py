"""Whole sequences of an LSTM, a GRU and an Elman RNN, forward and backward through time.

The samples of a batch are independent, so each thread takes some of them through all time steps:
no synchronization is needed between two steps. A step is one product, the state times W_hhᵀ, added
to the input's contribution, and one pass over the gates (`rnn_cell.py`), while all of it is still
in the cache. The gradient of the weights is computed at the end: one product over all time steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from ...backends.numpy import Array
from ...nn.functional import rnn
from .gemm_microkernel import gemm, gemm_address
from .jit import (
    ARRAY_1D,
    BOOL,
    INT64,
    TUPLE,
    ArgumentType,
    are_contiguous_floats,
    compile_kernel,
    use_wide_vectors,
    writable_contiguous,
)
from .matmul import flatten_rows, product
from .parallel import parallel_for
from .rnn_cell import (
    TABLE_SIZE,
    WIDTH,
    A,
    B,
    D,
    E,
    F,
    G,
    H,
    gru_backward,
    gru_forward,
    load_row,
    lstm_backward,
    lstm_forward,
    store_row,
    tanh_slope,
)  # fmt: skip
from .vector_math import CONTRACTED, tanh
from .work_queue import claim_range

__all__ = [
    "gru_sequence", "gru_sequence_joint_vjp", "lstm_sequence", "lstm_sequence_joint_vjp",
    "rnn_sequence", "rnn_sequence_joint_vjp",
]  # fmt: skip

OPENBLAS_SMALL = 1_000_000
"""With fewer multiplications than this, OpenBLAS multiplies without packing the matrices, which
for a few rows would take longer than it saves."""


@njit(**CONTRACTED)
def add_product(blas, rows, columns, inner, left, right, y, beta):
    """y ← beta · y + left · right, with few rows: in blocks that are small for OpenBLAS.

    The factors are contiguous, (rows, inner) and (inner, columns).
    """
    one = y.dtype.type(1)
    # As many columns as keep a product below the limit, in whole rows of the gates' table.
    width = OPENBLAS_SMALL // (rows * inner) // WIDTH * WIDTH
    if width < 2 * WIDTH:  # so thin blocks would be too many calls
        width = columns
    for j in range(0, columns, width):
        count = min(width, columns - j)
        gemm(
            # A block of columns has the row stride of the whole: nothing is copied.
            blas, False, False, rows, count, inner, one, left, inner, right[j:], columns,
            # BLAS takes beta in the dtype of the matrices, and the callers write an integer.
            y.dtype.type(beta), y[j:], columns,
        )  # fmt: skip


@njit(**CONTRACTED)
def time_of(step, times, reverse):
    """Return the time of a step, forward or in reverse."""
    return times - 1 - step if reverse else step  # so one kernel serves both directions


@njit(**CONTRACTED)
def copy_slice(source, start, target, to, count):
    """Copy elements; a loop compiles to less code than an assignment to a slice."""
    from_, to_ = source[start : start + count], target[to : to + count]
    for j in range(count):
        to_[j] = from_[j]


@njit(**CONTRACTED)
def copy_of(array, start, count):
    """Return a copy of some elements."""
    result = np.empty(count, array.dtype)
    copy_slice(array, start, result, 0, count)
    return result


SIZES = TUPLE(*[INT64] * 4)
"""The number of times, of samples, of features; and whether time runs in reverse."""


def compile_backward(
    kernel: Callable[..., None], inputs: int, gradients: int, *settings: ArgumentType
) -> Callable[..., None]:
    """Compile a kernel that goes back through time, of so many arrays to read and to write."""
    arrays = (TUPLE(*[ARRAY_1D] * count) for count in (inputs, gradients))
    return compile_kernel(kernel, INT64, *arrays, SIZES, *settings)


def flatten(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return contiguous arrays as arrays of one axis."""
    return tuple([array.reshape(-1) for array in arrays])


# LSTM ------------------------------------------------------------------------------------------


@rnn.lstm_sequence.kernel("cpu", min_size=1024)
def lstm_sequence() -> Callable[..., Any]:
    """Make `lstm_sequence`: the states after each time, (2, t, n, k), and the gates' inputs."""

    def forward_through_time(start, stop, blas, arrays, sizes):
        start, stop = claim_range(start, stop)
        x, h, c, weight_t, y, gates = arrays
        times, n, k, reverse = sizes
        use_wide_vectors()
        first, rows = np.int64(start), np.int64(stop) - np.int64(start)
        # Copies: each step overwrites them, and h and c are the caller's.
        state, cell = copy_of(h, first * k, rows * k), copy_of(c, first * k, rows * k)
        s = np.zeros(TABLE_SIZE, x.dtype)
        for step in range(times):
            row_start = time_of(step, times, reverse) * n + first
            gate_rows = gates[row_start * 4 * k : (row_start + rows) * 4 * k]
            # x is where the sums start: with beta = 1, BLAS adds the product to it.
            # They stay in `gates`, from which backward computes the gates without another product.
            copy_slice(x, row_start * 4 * k, gate_rows, 0, gate_rows.size)
            add_product(blas, rows, 4 * k, k, state, weight_t, gate_rows, 1)
            for row in range(rows):
                for j in range(0, k, WIDTH):
                    count, position = min(WIDTH, k - j), row * k + j
                    for gate in range(4):
                        load_row(s, gate * WIDTH, gate_rows, (4 * row + gate) * k + j, count)
                    load_row(s, E, cell, position, count)
                    lstm_forward(s)
                    # The product above was the last to read the old state.
                    store_row(s, E, cell, position, count)
                    store_row(s, F, state, position, count)
            copy_slice(state, 0, y, row_start * k, rows * k)
            # y is (2, t, n, k): all of h, and then all of c.
            copy_slice(cell, 0, y, (times * n + row_start) * k, rows * k)

    kernel = compile_kernel(forward_through_time, INT64, TUPLE(*[ARRAY_1D] * 6), SIZES)

    def run(x: Array, h: Array, c: Array, weight: Array, reverse: bool = False) -> Any:
        blas = gemm_address(x.dtype)
        if (
            blas is None
            or not are_contiguous_floats((x, h, c))
            or weight.dtype != x.dtype
            or not h.size
        ):
            return None
        sizes = (*x.shape[:2], h.shape[1])
        y, gates = np.empty((2, *sizes), x.dtype), np.empty_like(x)
        # Transposed once for all steps: for few rows BLAS does not pack it (`OPENBLAS_SMALL`).
        weight_t = np.ascontiguousarray(weight.T)
        arrays = flatten(x, h, c, weight_t, y, gates)
        work = x.size * sizes[2] // 8
        parallel_for(kernel, sizes[1], blas, arrays, (*sizes, int(reverse)), work=work)
        return y, gates

    return run


@rnn.lstm_sequence.kernel("cpu", "joint_vjp", min_size=1024)
def lstm_sequence_joint_vjp() -> Callable[..., Any]:
    """Make the rule of `lstm_sequence`: the gradients of x, h, c and weight."""

    def backward_through_time(start, stop, blas, arrays, gradients, sizes):
        start, stop = claim_range(start, stop)
        g, y, gates, c, weight = arrays
        grad_x, grad_h0, grad_c0 = gradients
        times, n, k, reverse = sizes
        use_wide_vectors()
        first, rows = np.int64(start), np.int64(stop) - np.int64(start)
        # Views of the results: after the first time step they hold the initial states' gradients.
        grad_h, grad_c = (
            grad_h0[first * k : (first + rows) * k],
            grad_c0[first * k : (first + rows) * k],
        )
        s = np.zeros(TABLE_SIZE, g.dtype)
        for step in range(times - 1, -1, -1):
            row_start = time_of(step, times, reverse) * n + first
            previous = time_of(step - 1, times, reverse) * n + first
            # `previous` means nothing in the first step, which began with the caller's c.
            cell = y[(times * n + previous) * k :] if step else c[first * k :]
            grad_output_h, grad_output_c = g[row_start * k :], g[(times * n + row_start) * k :]
            for row in range(rows):
                for j in range(0, k, WIDTH):
                    count, position = min(WIDTH, k - j), row * k + j
                    for gate in range(4):
                        gate_position = (4 * (row_start + row) + gate) * k + j
                        load_row(s, gate * WIDTH, gates, gate_position, count)
                    load_row(s, E, cell, position, count)
                    # A state is read as the output of its time, and by the step after it.
                    load_sum(s, F, grad_output_h, grad_h, position, count)
                    load_sum(s, G, grad_output_c, grad_c, position, count)
                    lstm_backward(s)
                    for gate in range(4):
                        gate_position = (4 * (row_start + row) + gate) * k + j
                        store_row(s, gate * WIDTH, grad_x, gate_position, count)
                    store_row(s, G, grad_c, position, count)
            # beta = 0: h went only into the product, so its old gradient is replaced.
            add_product(blas, rows, k, 4 * k, grad_x[row_start * 4 * k :], weight, grad_h, 0)

    kernel = compile_backward(backward_through_time, 5, 3)

    def run(
        g: Array, y: Array, gates: Array, x: Array, h: Array, c: Array, weight: Array, reverse: bool
    ) -> Any:  # fmt: skip
        blas, g, weight = (
            gemm_address(y.dtype),
            writable_contiguous(g),
            np.ascontiguousarray(weight),
        )
        if blas is None or not are_contiguous_floats((g, y, gates, h, c, weight)) or not h.size:
            return None
        grad_x, grad_h0, grad_c0 = np.empty_like(gates), np.zeros_like(h), np.zeros_like(c)
        arrays = flatten(g, y, gates, c, weight)
        gradients, sizes = flatten(grad_x, grad_h0, grad_c0), (*y.shape[1:], int(reverse))
        work = grad_x.size * sizes[2] // 4
        parallel_for(kernel, sizes[1], blas, arrays, gradients, sizes, work=work)
        return grad_x, grad_h0, grad_c0, weight_gradient(grad_x, states_before(h, y[0], reverse))

    return run


@njit(**CONTRACTED)
def load_sum(table, place, left, right, start, count):
    """Load the sum of two arrays' elements into a row of the table."""
    a, b = left[start : start + count], right[start : start + count]
    for j in range(count):
        table[place + j] = a[j] + b[j]


def states_before(first: Array, states: Array, reverse: bool) -> Any:
    """Return the state at the start of each time step."""
    parts = (states[1:], first[None]) if reverse else (first[None], states[:-1])
    return np.concatenate(parts)


def weight_gradient(at_gates: Array, states: Array) -> Any:
    """Return the gradient of the weight: one product over all time steps."""
    # A sum over times and samples alike: both become rows of one matrix.
    left, right = flatten_rows(at_gates).T, flatten_rows(states)
    y = product()(left, right)
    return left @ right if y is None else y


# GRU -------------------------------------------------------------------------------------------


@rnn.gru_sequence.kernel("cpu", min_size=1024)
def gru_sequence() -> Callable[..., Any]:
    """Make `gru_sequence`: the state after each time, (t, n, k)."""

    def forward_through_time(start, stop, blas, arrays, sizes):
        start, stop = claim_range(start, stop)
        x, h, weight_t, bias, y = arrays
        times, n, k, reverse = sizes
        first, rows = np.int64(start), np.int64(stop) - np.int64(start)
        state = copy_of(h, first * k, rows * k)
        hidden = np.empty(rows * 3 * k, x.dtype)
        use_wide_vectors()
        s = np.zeros(TABLE_SIZE, x.dtype)
        for step in range(times):
            row_start = time_of(step, times, reverse) * n + first
            for row in range(rows):
                # Not added to x: the reset gate multiplies W h + b (as in PyTorch).
                copy_slice(bias, 0, hidden, row * 3 * k, 3 * k)
            add_product(blas, rows, 3 * k, k, state, weight_t, hidden, 1)
            for row in range(rows):
                for j in range(0, k, WIDTH):
                    count, position = min(WIDTH, k - j), row * k + j
                    for gate in range(3):
                        load_row(s, gate * WIDTH, x, (3 * (row_start + row) + gate) * k + j, count)
                        load_row(s, D + gate * WIDTH, hidden, (3 * row + gate) * k + j, count)
                    load_row(s, G, state, position, count)
                    gru_forward(s)
                    store_row(s, G, state, position, count)
            copy_slice(state, 0, y, row_start * k, rows * k)

    kernel = compile_kernel(forward_through_time, INT64, TUPLE(*[ARRAY_1D] * 5), SIZES)

    def run(
        x: Array, h: Array, weight: Array, bias: Array | None = None, reverse: bool = False
    ) -> Any:
        (times, n, gates), k = x.shape, h.shape[1]
        blas = gemm_address(x.dtype)
        if blas is None or not are_contiguous_floats((x, h)) or weight.dtype != x.dtype or not n:
            return None
        if bias is not None and bias.dtype != x.dtype:
            return None
        bias = np.zeros(gates, x.dtype) if bias is None else np.ascontiguousarray(bias)
        y = np.empty((times, n, k), x.dtype)
        weight_t = np.ascontiguousarray(weight.T)
        arrays, sizes = flatten(x, h, weight_t, bias, y), (times, n, k, int(reverse))
        parallel_for(kernel, n, blas, arrays, sizes, work=x.size * k // 8)
        return y

    return run


@rnn.gru_sequence.kernel("cpu", "joint_vjp", min_size=1024)
def gru_sequence_joint_vjp() -> Callable[..., Any]:
    """Make the rule of `gru_sequence`: the gradients of x, h, weight and bias."""

    def backward_through_time(start, stop, blas, arrays, gradients, sizes):
        start, stop = claim_range(start, stop)
        g, y, x, h, weight, weight_t, bias = arrays
        grad_x, grad_hidden, grad_h0 = gradients
        times, n, k, reverse = sizes
        first, rows = np.int64(start), np.int64(stop) - np.int64(start)
        grad_h = grad_h0[first * k : (first + rows) * k]
        use_wide_vectors()
        s = np.zeros(TABLE_SIZE, x.dtype)
        for step in range(times - 1, -1, -1):
            row_start = time_of(step, times, reverse) * n + first
            state = (
                y[(time_of(step - 1, times, reverse) * n + first) * k :] if step else h[first * k :]
            )
            # W h + b is computed again, in the memory that its gradient takes afterwards.
            hidden = grad_hidden[row_start * 3 * k : (row_start + rows) * 3 * k]
            for row in range(rows):
                copy_slice(bias, 0, hidden, row * 3 * k, 3 * k)
            add_product(blas, rows, 3 * k, k, state, weight_t, hidden, 1)
            for row in range(rows):
                for j in range(0, k, WIDTH):
                    count, position = min(WIDTH, k - j), row * k + j
                    for gate in range(3):
                        load_row(s, gate * WIDTH, x, (3 * (row_start + row) + gate) * k + j, count)
                        load_row(s, D + gate * WIDTH, hidden, (3 * row + gate) * k + j, count)
                    load_row(s, G, state, position, count)
                    load_sum(s, H, g[row_start * k :], grad_h, position, count)
                    gru_backward(s)
                    for gate in range(3):
                        store_row(
                            s, gate * WIDTH, grad_x, (3 * (row_start + row) + gate) * k + j, count
                        )
                    store_row(s, A, hidden, 3 * row * k + j, count)
                    store_row(s, B, hidden, (3 * row + 1) * k + j, count)
                    store_row(s, F, hidden, (3 * row + 2) * k + j, count)
                    store_row(s, G, grad_h, position, count)
            # beta = 1: grad_h already holds g · z, what reached the state past the product.
            add_product(blas, rows, k, 3 * k, hidden, weight, grad_h, 1)

    kernel = compile_backward(backward_through_time, 7, 3)

    def run(
        g: Array, y: Array, x: Array, h: Array, weight: Array, bias: Array | None, reverse: bool
    ) -> Any:
        blas = gemm_address(x.dtype)
        if (
            blas is None
            or not are_contiguous_floats((y, x, h), g.dtype)
            or weight.dtype != x.dtype
            or not h.size
        ):
            return None
        if bias is not None and bias.dtype != x.dtype:
            return None
        shift = np.zeros(x.shape[2], x.dtype) if bias is None else np.ascontiguousarray(bias)
        g, weight = writable_contiguous(g), np.ascontiguousarray(weight)
        weight_t = np.ascontiguousarray(weight.T)
        grad_x, grad_hidden, grad_h0 = np.empty_like(x), np.empty_like(x), np.zeros_like(h)
        arrays = flatten(g, y, x, h, weight, weight_t, shift)
        gradients = flatten(grad_x, grad_hidden, grad_h0)
        sizes = (*x.shape[:2], h.shape[1], int(reverse))
        work = x.size * sizes[2] // 4
        parallel_for(kernel, sizes[1], blas, arrays, gradients, sizes, work=work)
        return (
            grad_x,
            grad_h0,
            weight_gradient(grad_hidden, states_before(h, y, reverse)),
            grad_hidden,
        )

    return run


# Elman RNN -------------------------------------------------------------------------------------


@rnn.rnn_sequence.kernel("cpu", min_size=1024)
def rnn_sequence() -> Callable[..., Any]:
    """Make `rnn_sequence`: the state after each time, (t, n, k)."""

    def forward_through_time(start, stop, blas, arrays, sizes, is_tanh):
        start, stop = claim_range(start, stop)
        x, h, weight_t, y = arrays
        times, n, k, reverse = sizes
        use_wide_vectors()
        first, rows = np.int64(start), np.int64(stop) - np.int64(start)
        # No copy: a step writes to its own rows of y, and the next one reads them there.
        state = h[first * k : (first + rows) * k]
        for step in range(times):
            row_start = time_of(step, times, reverse) * n + first
            state_rows = y[row_start * k : (row_start + rows) * k]
            copy_slice(x, row_start * k, state_rows, 0, state_rows.size)
            add_product(blas, rows, k, k, state, weight_t, state_rows, 1)
            # Tested outside of the loops: so each is free of branches, and vectorized.
            if is_tanh:
                for j in range(rows * k):
                    state_rows[j] = tanh(state_rows[j])
            else:
                for j in range(rows * k):
                    state_rows[j] = max(state_rows[j], state_rows.dtype.type(0))
            state = state_rows

    kernel = compile_kernel(forward_through_time, INT64, TUPLE(*[ARRAY_1D] * 4), SIZES, BOOL)

    def run(
        x: Array, h: Array, weight: Array, nonlinearity: str = "tanh", reverse: bool = False
    ) -> Any:  # fmt: skip
        blas = gemm_address(x.dtype)
        if (
            blas is None
            or not are_contiguous_floats((x, h))
            or weight.dtype != x.dtype
            or not h.size
        ):
            return None
        y, weight_t = np.empty_like(x), np.ascontiguousarray(weight.T)
        arrays, sizes = flatten(x, h, weight_t, y), (*x.shape, int(reverse))
        work = x.size * x.shape[2] // 8
        parallel_for(kernel, x.shape[1], blas, arrays, sizes, nonlinearity == "tanh", work=work)
        return y

    return run


@rnn.rnn_sequence.kernel("cpu", "joint_vjp", min_size=1024)
def rnn_sequence_joint_vjp() -> Callable[..., Any]:
    """Make the rule of `rnn_sequence`: the gradients of x, h and weight."""

    def backward_through_time(start, stop, blas, arrays, gradients, sizes, is_tanh):
        start, stop = claim_range(start, stop)
        g, y, weight = arrays
        grad_x, grad_h0 = gradients
        times, n, k, reverse = sizes
        first, rows = np.int64(start), np.int64(stop) - np.int64(start)
        grad_h = grad_h0[first * k : (first + rows) * k]
        zero = y.dtype.type(0)
        for step in range(times - 1, -1, -1):
            row_start = time_of(step, times, reverse) * n + first
            grad_rows, output = grad_x[row_start * k : (row_start + rows) * k], y[row_start * k :]
            grad_output = g[row_start * k :]
            # Both slopes follow from the output: the sums before it need not be saved.
            if is_tanh:
                for j in range(rows * k):
                    grad_rows[j] = (grad_output[j] + grad_h[j]) * tanh_slope(output[j])
            else:
                for j in range(rows * k):
                    grad_rows[j] = grad_output[j] + grad_h[j] if output[j] > zero else zero
            add_product(blas, rows, k, k, grad_rows, weight, grad_h, 0)

    kernel = compile_backward(backward_through_time, 3, 2, BOOL)

    def run(g: Array, y: Array, h: Array, weight: Array, nonlinearity: str, reverse: bool) -> Any:
        blas = gemm_address(y.dtype)
        if (
            blas is None
            or not are_contiguous_floats((y, h), g.dtype)
            or weight.dtype != y.dtype
            or not h.size
        ):
            return None
        g, weight = writable_contiguous(g), np.ascontiguousarray(weight)
        grad_x, grad_h0 = np.empty_like(y), np.zeros_like(h)
        arrays, gradients = flatten(g, y, weight), flatten(grad_x, grad_h0)
        sizes, is_tanh = (*y.shape, int(reverse)), nonlinearity == "tanh"
        work = y.size * y.shape[2] // 4
        parallel_for(kernel, y.shape[1], blas, arrays, gradients, sizes, is_tanh, work=work)
        return grad_x, grad_h0, weight_gradient(grad_x, states_before(h, y, reverse))

    return run
