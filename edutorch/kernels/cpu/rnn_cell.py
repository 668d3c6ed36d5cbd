"""The gates of an LSTM and of a GRU: one step of all of them in one pass over the elements.

With NumPy a step goes through the memory once for each sigmoid, product and sum: some twenty
times forward, thirty times backward. Here `WIDTH` elements of each gate are loaded into a small
table that never leaves the L1 cache, everything is computed there, and the results are stored.
Inside the table all distances are compile-time constants, so LLVM vectorizes the loop; with a
dozen arrays that might overlap it could not.

`lstm_cell.py` and `rnn_sequence.py` use the same tables, after the products of their steps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from ...backends.numpy import Array
from ...nn.functional import rnn
from .along_axis import array_at, compile_along_axis
from .jit import (
    ARRAY_1D,
    INT64,
    TUPLE,
    are_contiguous_floats,
    compile_kernel,
    use_wide_vectors,
    writable_contiguous,
)
from .parallel import parallel_for
from .vector_math import CONTRACTED, FloatFormat, exp, tanh, vector_function
from .work_queue import claim_range

__all__ = ["gru_gates", "gru_gates_joint_vjp", "lstm_gates", "lstm_gates_joint_vjp"]

# Two vectors of 16 float32. The table has 8 such rows: 1 KiB, or 2 KiB in float64.
WIDTH = 32
A, B, C, D, E, F, G, H = (WIDTH * row for row in range(8))
"""The first index of each row of the table."""

TABLE_SIZE = 8 * WIDTH


@vector_function
def sigmoid(format: FloatFormat) -> Callable[..., Any]:
    """1 / (1 + e⁻ˣ)."""
    one = format.scalar(1)

    def sigmoid(x):
        return one / (one + exp(-x))

    return sigmoid


@vector_function
def tanh_slope(format: FloatFormat) -> Callable[..., Any]:
    """1 - y²: the derivative of tanh, given its result."""
    one = format.scalar(1)

    def tanh_slope(y):
        return one - y * y

    return tanh_slope


@njit(**CONTRACTED)
def load_row(table, table_row, array, start, count):
    """Load elements of an array into a row of the table."""
    row = array[start : start + count]
    for j in range(count):
        table[table_row + j] = row[j]


@njit(**CONTRACTED)
def store_row(table, table_row, array, start, count):
    """Store a row of the table in an array."""
    row = array[start : start + count]
    for j in range(count):
        row[j] = table[table_row + j]


# The gates, computed in the table --------------------------------------------------------------


@njit(fastmath={"contract"}, nogil=True)
def lstm_forward(s):
    """Compute the new c in E and h in F from i, f, u, o in A to D and c in E."""
    # The attribute is one of the function that has the loop: that of a caller does not count here.
    use_wide_vectors()
    # All of them, also where `count` is less: a constant length needs no code for a remainder, and
    # what is computed beyond the count is never stored.
    for j in range(WIDTH):
        # The gates are in PyTorch's order, i, f, u (its g), o: so its weights fit.
        c = sigmoid(s[B + j]) * s[E + j] + sigmoid(s[A + j]) * tanh(s[C + j])
        s[E + j] = c
        s[F + j] = sigmoid(s[D + j]) * tanh(c)


@njit(fastmath={"contract"}, nogil=True)
def lstm_backward(s):
    """Compute the gradients of the gates, in A to D, and of c, in G.

    A to D are the gates, E the old c, F the gradient of h and G that of the new c.
    """
    use_wide_vectors()
    for j in range(WIDTH):
        i, f, u, o = sigmoid(s[A + j]), sigmoid(s[B + j]), tanh(s[C + j]), sigmoid(s[D + j])
        old_c, grad_h = s[E + j], s[F + j]
        # Computed again: saved by forward, it would be another array to write and to read.
        tanh_c = tanh(f * old_c + i * u)
        # c reaches the loss in two ways: through the next step, and through this step's h.
        grad_c = s[G + j] + grad_h * o * tanh_slope(tanh_c)
        # Everything has been read: from here on, the gates are overwritten by their gradients.
        # i - i · i is one FMA; i · (1 - i) would be two operations.
        s[A + j] = grad_c * u * (i - i * i)
        s[B + j] = grad_c * old_c * (f - f * f)
        s[C + j] = grad_c * i * tanh_slope(u)
        s[D + j] = grad_h * tanh_c * (o - o * o)
        s[G + j] = grad_c * f


@njit(fastmath={"contract"}, nogil=True)
def gru_forward(s):
    """Compute the new h in G from r, z, n of x in A to C and of hidden in D to F, and h in G."""
    use_wide_vectors()
    for j in range(WIDTH):
        reset, update = sigmoid(s[A + j] + s[D + j]), sigmoid(s[B + j] + s[E + j])
        # As in PyTorch, the reset gate multiplies W h + b and not h: so x stays apart from it.
        candidate = tanh(s[C + j] + reset * s[F + j])
        # The same as (1 - z) · n + z · h, with one product less.
        s[G + j] = candidate + update * (s[G + j] - candidate)


@njit(fastmath={"contract"}, nogil=True)
def gru_backward(s):
    """Compute the gradients of r, z, n in A to C, of hidden's n in F, and of h in G.

    A to F as in forward, G the old h, H the gradient of the new one. (The gradients of hidden's r
    and z equal those of x.)
    """
    use_wide_vectors()
    for j in range(WIDTH):
        reset, update = sigmoid(s[A + j] + s[D + j]), sigmoid(s[B + j] + s[E + j])
        inner, g = s[F + j], s[H + j]
        candidate = tanh(s[C + j] + reset * inner)
        grad_candidate = (g - g * update) * tanh_slope(candidate)
        s[A + j] = grad_candidate * inner * (reset - reset * reset)
        s[B + j] = g * (s[G + j] - candidate) * (update - update * update)
        s[C + j] = grad_candidate
        s[F + j] = grad_candidate * reset
        s[G + j] = g * update


@njit(**CONTRACTED)
def lstm_rows_backward(start, stop, g, x, c, gradients, k):
    """Compute the gradients of the gates and of c for some samples.

    Args:
        g: the gradients of h and of the new c.
        gradients: of the gates x and of the old c.
    """
    (grad_h, grad_new_c), (grad_x, grad_c) = g, gradients
    use_wide_vectors()
    s = np.zeros(TABLE_SIZE, x.dtype)
    for row in range(start, stop):
        for j in range(0, k, WIDTH):
            count, position = min(WIDTH, k - j), row * k + j
            for gate in range(4):
                load_row(s, gate * WIDTH, x, (4 * row + gate) * k + j, count)
            load_row(s, E, c, position, count)
            load_row(s, F, grad_h, position, count)
            load_row(s, G, grad_new_c, position, count)
            lstm_backward(s)
            for gate in range(4):
                store_row(s, gate * WIDTH, grad_x, (4 * row + gate) * k + j, count)
            store_row(s, G, grad_c, position, count)


# The kernels -----------------------------------------------------------------------------------


@rnn.lstm_gates.kernel("cpu", min_size=1024)
def lstm_gates() -> Callable[..., Any]:
    """Make `lstm_gates`."""
    return gates_forward()


@cache
def gates_forward() -> Callable[..., Any]:
    """Make the step from the gates: (n, 4 k) and (n, k) to (2, n, k)."""

    def run_step(start, stop, like, addresses, lengths):
        start, stop = claim_range(start, stop)
        use_wide_vectors()
        n, k, _ = lengths
        x, c = array_at(addresses[0], like, (4 * n * k,)), array_at(addresses[1], like, (n * k,))
        y = array_at(addresses[2], like, (2 * n * k,))
        # Zeros, because lanes that a short row does not load are computed as well.
        s = np.zeros(TABLE_SIZE, x.dtype)
        for row in range(np.int64(start), np.int64(stop)):
            for j in range(0, k, WIDTH):
                count = min(WIDTH, k - j)
                for gate in range(4):
                    load_row(s, gate * WIDTH, x, (4 * row + gate) * k + j, count)
                load_row(s, E, c, row * k + j, count)
                lstm_forward(s)
                store_row(s, F, y, row * k + j, count)
                # y is (2, n, k): all of h, and then all of c.
                store_row(s, E, y, (n + row) * k + j, count)

    entries = compile_along_axis(run_step, 3)

    def run(x: Array, c: Array) -> Any:
        entry = entries.get(c.dtype)
        if entry is None or not are_contiguous_floats((x, c)):
            return None
        (n, k), y = c.shape, np.empty((2, *c.shape), c.dtype)
        parallel_for(entry, n, 0.0, (id(x), id(c), id(y)), (n, k, 0), work=3 * x.size)
        return y

    return run


@rnn.lstm_gates.kernel("cpu", "joint_vjp", min_size=1024)
def lstm_gates_joint_vjp() -> Callable[..., Any]:
    """Make the rule of `lstm_gates`: (2, n, k), (n, 4 k) and (n, k) to (n, 4 k) and (n, k)."""

    def step(start, stop, g, x, c, gradients, n, k):
        start, stop = claim_range(start, stop)
        states = g[: n * k], g[n * k :]
        lstm_rows_backward(np.int64(start), np.int64(stop), states, x, c, gradients, k)

    kernel = compile_kernel(step, *[ARRAY_1D] * 3, TUPLE(*[ARRAY_1D] * 2), INT64, INT64)

    def run(g: Array, x: Array, c: Array) -> Any:
        # g may have gaps, as a part of a larger gradient: it is copied below, if need be.
        if not are_contiguous_floats((x, c), g.dtype):
            return None
        gradients = np.empty_like(x), np.empty_like(c)
        arrays = (array.reshape(-1) for array in (writable_contiguous(g), x, c))
        flat = tuple(gradient.reshape(-1) for gradient in gradients)
        parallel_for(kernel, c.shape[0], *arrays, flat, *c.shape, work=6 * x.size)
        return gradients

    return run


@rnn.gru_gates.kernel("cpu", min_size=1024)
def gru_gates() -> Callable[..., Any]:
    """Make `gru_gates`: (n, 3 k), (n, 3 k) and (n, k) to (n, k)."""

    def step(start, stop, x, hidden, h, y, k):
        start, stop = claim_range(start, stop)
        use_wide_vectors()
        s = np.zeros(TABLE_SIZE, x.dtype)
        for row in range(np.int64(start), np.int64(stop)):
            for j in range(0, k, WIDTH):
                count = min(WIDTH, k - j)
                for gate in range(3):
                    load_row(s, gate * WIDTH, x, (3 * row + gate) * k + j, count)
                    load_row(s, D + gate * WIDTH, hidden, (3 * row + gate) * k + j, count)
                load_row(s, G, h, row * k + j, count)
                gru_forward(s)
                store_row(s, G, y, row * k + j, count)

    kernel = compile_kernel(step, ARRAY_1D, ARRAY_1D, ARRAY_1D, ARRAY_1D, INT64)

    def run(x: Array, hidden: Array, h: Array) -> Any:
        if not are_contiguous_floats((x, hidden, h)):
            return None
        y = np.empty_like(h)
        arrays = (array.reshape(-1) for array in (x, hidden, h, y))
        parallel_for(kernel, h.shape[0], *arrays, h.shape[1], work=3 * x.size)
        return y

    return run


@rnn.gru_gates.kernel("cpu", "joint_vjp", min_size=1024)
def gru_gates_joint_vjp() -> Callable[..., Any]:
    """Make the rule of `gru_gates`: the gradients of x, hidden and h."""

    def step(start, stop, g, x, hidden, h, gradients, k):
        start, stop = claim_range(start, stop)
        grad_x, grad_hidden, grad_h = gradients
        use_wide_vectors()
        s = np.zeros(TABLE_SIZE, x.dtype)
        for row in range(np.int64(start), np.int64(stop)):
            for j in range(0, k, WIDTH):
                count, position = min(WIDTH, k - j), row * k + j
                for gate in range(3):
                    load_row(s, gate * WIDTH, x, (3 * row + gate) * k + j, count)
                    load_row(s, D + gate * WIDTH, hidden, (3 * row + gate) * k + j, count)
                load_row(s, G, h, position, count)
                load_row(s, H, g, position, count)
                gru_backward(s)
                for gate in range(3):
                    store_row(s, gate * WIDTH, grad_x, (3 * row + gate) * k + j, count)
                # r and z take x + hidden, so both have one gradient; in n, hidden was gated.
                store_row(s, A, grad_hidden, 3 * row * k + j, count)
                store_row(s, B, grad_hidden, (3 * row + 1) * k + j, count)
                store_row(s, F, grad_hidden, (3 * row + 2) * k + j, count)
                store_row(s, G, grad_h, position, count)

    kernel = compile_kernel(step, *[ARRAY_1D] * 4, TUPLE(*[ARRAY_1D] * 3), INT64)

    def run(g: Array, x: Array, hidden: Array, h: Array) -> Any:
        if not are_contiguous_floats((x, hidden, h), g.dtype):
            return None
        gradients = np.empty_like(x), np.empty_like(x), np.empty_like(h)
        arrays = (array.reshape(-1) for array in (writable_contiguous(g), x, hidden, h))
        flat = tuple(gradient.reshape(-1) for gradient in gradients)
        parallel_for(kernel, h.shape[0], *arrays, flat, h.shape[1], work=6 * x.size)
        return gradients

    return run
