"""One step of an LSTM and of a GRU: all of its gates in one pass over the elements.

With NumPy a step goes through the memory once for each sigmoid, product and sum: some twenty
times forward, thirty times backward. Here `WIDTH` elements of each gate are loaded into a small
table that never leaves the L1 cache, everything is computed there, and the results are stored.
Inside the table all distances are compile-time constants, so LLVM vectorizes the loop; with a
dozen arrays that might overlap it could not.

`rnn_sequence.py` uses the same tables at each time step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from ...backends.addresses import address_of
from ...backends.numpy import Array
from ...core.fast.lazy_gradients import DeferredMatmulGradient, sum_over
from ...nn.functional import rnn
from .gemm_microkernel import (
    HIGH_TILE_ROWS,
    TILES_ARE_FASTER,
    gemm_address,
    matmul_into,
    multiply,
    workspace_for,
)
from .jit import (
    ARRAY_1D,
    ARRAY_2D,
    FLOATS,
    INT64,
    TUPLE,
    are_contiguous_floats,
    compile_kernel,
    use_wide_vectors,
    writable_contiguous,
)
from .matmul import (
    MAX_DEFERRED_ROWS,
    MIN_PRODUCTS_TRANSPOSED,
    PRODUCTS_PER_ELEMENT,
    blas_layout,
    product_or_numpy,
)
from .parallel import parallel_for
from .vector_math import CONTRACTED, FloatFormat, exp, tanh, vector_function
from .work_queue import claim_range

__all__ = [
    "gru_gates", "gru_gates_joint_vjp", "lstm_cell_forward", "lstm_gates", "lstm_gates_joint_vjp",
]  # fmt: skip

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
def lstm_rows_backward(start, stop, g, x, c, gradients, n, k):
    """Compute the gradients of the gates and of c for some samples."""
    grad_x, grad_c = gradients
    use_wide_vectors()
    s = np.zeros(TABLE_SIZE, x.dtype)
    for row in range(start, stop):
        for j in range(0, k, WIDTH):
            count, position = min(WIDTH, k - j), row * k + j
            for gate in range(4):
                load_row(s, gate * WIDTH, x, (4 * row + gate) * k + j, count)
            load_row(s, E, c, position, count)
            load_row(s, F, g, position, count)
            load_row(s, G, g, n * k + position, count)
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

    def run_step(start, stop, x, c, y, n, k):
        start, stop = claim_range(start, stop)
        use_wide_vectors()
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

    kernel = compile_kernel(run_step, ARRAY_1D, ARRAY_1D, ARRAY_1D, INT64, INT64)

    def run(x: Array, c: Array) -> Any:
        if not are_contiguous_floats((x, c)):
            return None
        y = np.empty((2, *c.shape), c.dtype)
        n, k = c.shape
        parallel_for(kernel, n, x.reshape(-1), c.reshape(-1), y.reshape(-1), n, k, work=3 * x.size)
        return y

    return run


@rnn.lstm_gates.kernel("cpu", "joint_vjp", min_size=1024)
def lstm_gates_joint_vjp() -> Callable[..., Any]:
    """Make the rule of `lstm_gates`: (2, n, k), (n, 4 k) and (n, k) to (n, 4 k) and (n, k)."""

    def step(start, stop, g, x, c, gradients, n, k):
        start, stop = claim_range(start, stop)
        lstm_rows_backward(np.int64(start), np.int64(stop), g, x, c, gradients, n, k)

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


MIN_ROWS, MAX_ROWS = 4, 32
"""With fewer samples, a product is bound by reading the weights: it is left to BLAS. With more, two
products, each cut as suits it, are faster than both in one pass."""


def add_products(start, stop, left, right, weights, bias, y):
    """Compute some columns of y = bias + left · w_ihᵀ + right · w_hhᵀ in tiles.

    Args:
        left, right: the input and h: the address, the step from row to row, the number of columns.
        weights: the addresses of w_ih and w_hh.
        bias: of one row, with which each row of y begins; empty for none.
    """
    start, stop = claim_range(start, stop)
    size, unit = y.itemsize, 4 * HIGH_TILE_ROWS
    first = start * unit
    shape = (y.shape[0], min(stop * unit, y.shape[1]) - first)
    workspace = workspace_for(y)
    target = (y.ctypes.data + first * size, y.shape[1])
    begin = (bias.ctypes.data + first * size if bias.size else 0, 0)
    for (address, step, k), weight in ((left, weights[0]), (right, weights[1])):
        columns = (weight + first * k * size, 1, k)
        multiply(workspace, (*shape, k), (address, step, 1), columns, begin, target)
        begin = target


def describe_rows(x: Array) -> tuple[int, int, int] | None:
    """Return the address of a matrix, the step from row to row, and the number of its columns."""
    layout = blas_layout(x)
    return None if layout is None or layout[0] else (address_of(x), layout[1], x.shape[1])


@rnn.lstm_cell_forward.kernel("cpu", min_size=64)
def lstm_cell_forward() -> Callable[..., Any]:
    """Make `lstm_cell_forward`: both products in one pass, then the gates."""
    operand = TUPLE(*[INT64] * 3)
    kernel = compile_kernel(add_products, operand, operand, TUPLE(INT64, INT64), ARRAY_1D, ARRAY_2D)
    gates_kernel, multiply_now = gates_forward(), product_or_numpy()
    no_bias = {dtype: np.empty(0, dtype) for dtype in FLOATS}

    def run(
        input: Array, h: Array, c: Array, w_ih: Array, w_hh: Array, b_ih: Array | None,
        b_hh: Array | None,
    ) -> Any:  # fmt: skip
        if not are_contiguous_floats((c, w_ih, w_hh), input.dtype):
            return None
        left, right = describe_rows(input), describe_rows(h)
        dtype, work = input.dtype, len(input) * (w_ih.size + w_hh.size)
        if left is None or right is None or h.dtype is not dtype:
            return None
        bias = no_bias[dtype] if b_ih is None or b_hh is None else b_ih + b_hh
        # A single bias is rare.
        if (b_ih is None) is not (b_hh is None) or bias.dtype is not dtype:
            return None
        is_few = MIN_ROWS <= len(input) <= MAX_ROWS
        if TILES_ARE_FASTER and is_few and work >= MIN_PRODUCTS_TRANSPOSED:
            gates = np.empty((len(input), len(w_ih)), dtype)
            parallel_for(
                kernel, -(-len(w_ih) // (4 * HIGH_TILE_ROWS)), left, right,
                (address_of(w_ih), address_of(w_hh)), bias, gates,
                work=work // PRODUCTS_PER_ELEMENT,
            )  # fmt: skip
        else:
            gates = multiply_now(input, w_ih.T, bias if bias.size else None)
            gates += multiply_now(h, w_hh.T)
        return gates_kernel(gates, c), gates

    return run


def cell_backward(start, stop, blas_address, operands, weight, gradients, sizes):
    """Compute the gradients of the gates and of c, and that of h: the gates' · w_hh.

    Args:
        operands: the gradient of (h, c), the gates, and c.
        weight: the address of w_hh.
        gradients: of the gates, of c, of h.
        sizes: n, the elements of c's rows, and those of h's.
    """
    start, stop = claim_range(start, stop)
    (g, gates, c), (grad_gates, grad_c, grad_h), (n, k, columns) = operands, gradients, sizes
    first, rows, size = np.int64(start), np.int64(stop) - np.int64(start), c.itemsize
    lstm_rows_backward(first, first + rows, g, gates, c, (grad_gates, grad_c), n, k)
    matmul_into(
        blas_address, workspace_for(c), (rows, columns, 4 * k),
        (grad_gates.ctypes.data + first * 4 * k * size, 4 * k, 1), (weight, columns, 1),
        (grad_h.ctypes.data + first * columns * size, columns), False,
    )  # fmt: skip


@rnn.lstm_cell_forward.kernel("cpu", "joint_vjp", min_size=64)
def lstm_cell_forward_joint_vjp() -> Callable[..., Any]:
    """Make the rule of `lstm_cell_forward`; products that may wait are deferred."""
    arrays = TUPLE(*[ARRAY_1D] * 3)
    kernel = compile_kernel(cell_backward, INT64, arrays, INT64, arrays, TUPLE(*[INT64] * 3))
    multiply_now = product_or_numpy()

    def run(
        g: Array, gates: Array, input: Array, h: Array, c: Array, w_ih: Array, w_hh: Array,
        b_ih: Array | None, b_hh: Array | None,
    ) -> Any:  # fmt: skip
        blas_address, dtype = gemm_address(g.dtype), g.dtype
        if blas_address is None or not are_contiguous_floats((gates, c, w_hh), dtype):
            return None
        if not input.dtype is h.dtype is w_ih.dtype is dtype:
            return None
        grad_gates, grad_c = np.empty_like(gates), np.empty_like(c)
        grad_h = np.empty(h.shape, dtype)
        operands = tuple([x.reshape(-1) for x in (writable_contiguous(g), gates, c)])
        results = tuple([x.reshape(-1) for x in (grad_gates, grad_c, grad_h)])
        work = 6 * gates.size + gates.size * h.shape[1] // PRODUCTS_PER_ELEMENT
        parallel_for(
            kernel, len(c), blas_address, operands, address_of(w_hh), results,
            (*c.shape, h.shape[1]), work=work,
        )  # fmt: skip
        if len(input) > MAX_DEFERRED_ROWS:
            grad_weights = [multiply_now(grad_gates.T, x) for x in (input, h)]
        else:  # one product of many steps is faster: see `matmul.linear_weight`
            grad_weights = [DeferredMatmulGradient(grad_gates, x, multiply_now) for x in (input, h)]
        # Of its own for each bias: it becomes the `.grad` of a parameter.
        grad_bias = sum_over(grad_gates, 0)
        # Deferred, the gradient of the input is computed only if something asks for it.
        grad_input = DeferredMatmulGradient(grad_gates.T, w_ih, multiply_now)
        return grad_input, grad_h, grad_c, *grad_weights, grad_bias, grad_bias.copy()

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
