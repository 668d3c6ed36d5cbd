"""One step of an LSTM and of a GRU: all of its gates in one pass over the numbers.

With NumPy a step goes through the memory once for each sigmoid, product and sum: some twenty
times forward, thirty times backward. Here `WIDTH` numbers of each gate are brought into a small
table that never leaves the processor's cache, everything is computed there, and the results are
brought back. Inside the table all distances are known when the loop is compiled, so LLVM
computes as many numbers at a time as the processor can; with a dozen arrays that might
overlap it would not dare to.

`rnn_sequence.py` uses the same tables, time after time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from .batched_matmul import WHOLE
from .jit import ROW, alike, compiled, wide
from .parallel import in_parts
from .vector_math import CONTRACTED, Kind, exp, mathematical, tanh
from .work_queue import share_out

__all__ = ["gru_gates", "gru_gates_joint_vjp", "lstm_gates", "lstm_gates_joint_vjp"]

WIDTH = 32
A, B, C, D, E, F, G, H = (WIDTH * row for row in range(8))
"""Where the rows of the table begin."""

TABLE = 8 * WIDTH


@mathematical
def sigmoid(kind: Kind) -> Callable[..., Any]:
    """1 / (1 + e⁻ˣ)."""
    one = kind.number(1)

    def sigmoid(x):
        return one / (one + exp(-x))

    return sigmoid


@mathematical
def slope_of(kind: Kind) -> Callable[..., Any]:
    """1 - y²: how steep tanh is where it is y."""
    one = kind.number(1)

    def slope_of(y):
        return one - y * y

    return slope_of


@njit(**CONTRACTED)
def take(table, place, array, at, count):
    """Bring numbers of an array into a row of the table."""
    row = array[at : at + count]
    for j in range(count):
        table[place + j] = row[j]


@njit(**CONTRACTED)
def give(table, place, array, at, count):
    """Bring a row of the table to its place in an array."""
    row = array[at : at + count]
    for j in range(count):
        row[j] = table[place + j]


# The gates, in the table -----------------------------------------------------------------------


@njit(fastmath={"contract"}, nogil=True)
def lstm_forward(s):
    """From i, f, u, o in A to D and c in E to the new c in E and h in F."""
    wide()
    for j in range(WIDTH):
        c = sigmoid(s[B + j]) * s[E + j] + sigmoid(s[A + j]) * tanh(s[C + j])
        s[E + j] = c
        s[F + j] = sigmoid(s[D + j]) * tanh(c)


@njit(fastmath={"contract"}, nogil=True)
def lstm_backward(s):
    """The gradients of the gates, in A to D, and of c, in G.

    A to D are the gates, E the old c, F the gradient of h and G that of the new c.
    """
    wide()
    for j in range(WIDTH):
        i, f, u, o = sigmoid(s[A + j]), sigmoid(s[B + j]), tanh(s[C + j]), sigmoid(s[D + j])
        old, at_h = s[E + j], s[F + j]
        shown = tanh(f * old + i * u)
        at_c = s[G + j] + at_h * o * slope_of(shown)
        s[A + j] = at_c * u * (i - i * i)
        s[B + j] = at_c * old * (f - f * f)
        s[C + j] = at_c * i * slope_of(u)
        s[D + j] = at_h * shown * (o - o * o)
        s[G + j] = at_c * f


@njit(fastmath={"contract"}, nogil=True)
def gru_forward(s):
    """From r, z, n of x in A to C and of hidden in D to F, and h in G, to the new h in G."""
    wide()
    for j in range(WIDTH):
        reset, update = sigmoid(s[A + j] + s[D + j]), sigmoid(s[B + j] + s[E + j])
        candidate = tanh(s[C + j] + reset * s[F + j])
        s[G + j] = candidate + update * (s[G + j] - candidate)


@njit(fastmath={"contract"}, nogil=True)
def gru_backward(s):
    """The gradients of r, z, n in A to C, of hidden's n in F, and of h in G.

    A to F as forward, G the old h, H the gradient of the new one. (Those of hidden's r and z are
    the same as those of x.)
    """
    wide()
    for j in range(WIDTH):
        reset, update = sigmoid(s[A + j] + s[D + j]), sigmoid(s[B + j] + s[E + j])
        inner, g = s[F + j], s[H + j]
        candidate = tanh(s[C + j] + reset * inner)
        at_new = (g - g * update) * slope_of(candidate)
        s[A + j] = at_new * inner * (reset - reset * reset)
        s[B + j] = g * (s[G + j] - candidate) * (update - update * update)
        s[C + j] = at_new
        s[F + j] = at_new * reset
        s[G + j] = g * update


# The kernels -----------------------------------------------------------------------------------


def lstm_gates() -> Callable[..., Any]:
    """Make `lstm_gates`: (n, 4 k) and (n, k) to (2, n, k)."""

    def step(start, stop, x, c, y, n, k):
        start, stop = share_out(start, stop)
        wide()
        s = np.zeros(TABLE, x.dtype)
        for row in range(np.int64(start), np.int64(stop)):
            for j in range(0, k, WIDTH):
                count = min(WIDTH, k - j)
                for gate in range(4):
                    take(s, gate * WIDTH, x, (4 * row + gate) * k + j, count)
                take(s, E, c, row * k + j, count)
                lstm_forward(s)
                give(s, F, y, row * k + j, count)
                give(s, E, y, (n + row) * k + j, count)

    kernel = compiled(step, ROW, ROW, ROW, WHOLE, WHOLE)

    def run(x: Any, c: Any) -> Any:
        if not alike((x, c)):
            return None
        y = np.empty((2, *c.shape), c.dtype)
        n, k = c.shape
        in_parts(kernel, n, x.reshape(-1), c.reshape(-1), y.reshape(-1), n, k, work=3 * x.size)
        return y

    return run


def lstm_gates_joint_vjp() -> Callable[..., Any]:
    """Make the rule of `lstm_gates`: (2, n, k), (n, 4 k) and (n, k) to (n, 4 k) and (n, k)."""

    def step(start, stop, g, x, c, at_x, at_c, n, k):
        start, stop = share_out(start, stop)
        wide()
        s = np.zeros(TABLE, x.dtype)
        for row in range(np.int64(start), np.int64(stop)):
            for j in range(0, k, WIDTH):
                count, here = min(WIDTH, k - j), row * k + j
                for gate in range(4):
                    take(s, gate * WIDTH, x, (4 * row + gate) * k + j, count)
                take(s, E, c, here, count)
                take(s, F, g, here, count)
                take(s, G, g, n * k + here, count)
                lstm_backward(s)
                for gate in range(4):
                    give(s, gate * WIDTH, at_x, (4 * row + gate) * k + j, count)
                give(s, G, at_c, here, count)

    kernel = compiled(step, ROW, ROW, ROW, ROW, ROW, WHOLE, WHOLE)

    def run(g: Any, x: Any, c: Any) -> Any:
        if not alike((x, c), g.dtype):
            return None
        found = np.empty_like(x), np.empty_like(c)
        arrays = (each.reshape(-1) for each in (np.ascontiguousarray(g), x, c, *found))
        in_parts(kernel, c.shape[0], *arrays, *c.shape, work=6 * x.size)
        return found

    return run


def gru_gates() -> Callable[..., Any]:
    """Make `gru_gates`: (n, 3 k), (n, 3 k) and (n, k) to (n, k)."""

    def step(start, stop, x, hidden, h, y, k):
        start, stop = share_out(start, stop)
        wide()
        s = np.zeros(TABLE, x.dtype)
        for row in range(np.int64(start), np.int64(stop)):
            for j in range(0, k, WIDTH):
                count = min(WIDTH, k - j)
                for gate in range(3):
                    take(s, gate * WIDTH, x, (3 * row + gate) * k + j, count)
                    take(s, D + gate * WIDTH, hidden, (3 * row + gate) * k + j, count)
                take(s, G, h, row * k + j, count)
                gru_forward(s)
                give(s, G, y, row * k + j, count)

    kernel = compiled(step, ROW, ROW, ROW, ROW, WHOLE)

    def run(x: Any, hidden: Any, h: Any) -> Any:
        if not alike((x, hidden, h)):
            return None
        y = np.empty_like(h)
        arrays = (each.reshape(-1) for each in (x, hidden, h, y))
        in_parts(kernel, h.shape[0], *arrays, h.shape[1], work=3 * x.size)
        return y

    return run


def gru_gates_joint_vjp() -> Callable[..., Any]:
    """Make the rule of `gru_gates`: the gradients of x, hidden and h."""

    def step(start, stop, g, x, hidden, h, at_x, at_hidden, at_h, k):
        start, stop = share_out(start, stop)
        wide()
        s = np.zeros(TABLE, x.dtype)
        for row in range(np.int64(start), np.int64(stop)):
            for j in range(0, k, WIDTH):
                count, here = min(WIDTH, k - j), row * k + j
                for gate in range(3):
                    take(s, gate * WIDTH, x, (3 * row + gate) * k + j, count)
                    take(s, D + gate * WIDTH, hidden, (3 * row + gate) * k + j, count)
                take(s, G, h, here, count)
                take(s, H, g, here, count)
                gru_backward(s)
                for gate in range(3):
                    give(s, gate * WIDTH, at_x, (3 * row + gate) * k + j, count)
                give(s, A, at_hidden, 3 * row * k + j, count)
                give(s, B, at_hidden, (3 * row + 1) * k + j, count)
                give(s, F, at_hidden, (3 * row + 2) * k + j, count)
                give(s, G, at_h, here, count)

    kernel = compiled(step, ROW, ROW, ROW, ROW, ROW, ROW, ROW, WHOLE)

    def run(g: Any, x: Any, hidden: Any, h: Any) -> Any:
        if not alike((x, hidden, h), g.dtype):
            return None
        found = np.empty_like(x), np.empty_like(x), np.empty_like(h)
        arrays = (each.reshape(-1) for each in (np.ascontiguousarray(g), x, hidden, h, *found))
        in_parts(kernel, h.shape[0], *arrays, h.shape[1], work=6 * x.size)
        return found

    return run
