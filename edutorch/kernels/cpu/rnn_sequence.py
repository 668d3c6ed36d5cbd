"""Whole sequences of an LSTM, a GRU and the simplest network, forward and back through time.

The samples of a batch know nothing of each other, so each thread takes some of them through all
times: nobody waits for anybody between two steps. A step is one product, the state times W_hhᵀ,
added to what the input contributes, and one pass over the gates (`rnn_cell.py`), while all of
it is still in the cache. The gradient of the weights waits until the end: one product over all
times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from .batched_matmul import WHOLE
from .blas import address, gemm
from .jit import ROW, alike, compiled, wide
from .matmul import product, rows
from .parallel import in_parts
from .rnn_cell import (
    TABLE,
    WIDTH,
    A,
    B,
    D,
    E,
    F,
    G,
    H,
    give,
    gru_backward,
    gru_forward,
    lstm_backward,
    lstm_forward,
    slope_of,
    take,
)  # fmt: skip
from .vector_math import CONTRACTED, tanh
from .work_queue import share_out

__all__ = [
    "gru_sequence", "gru_sequence_joint_vjp", "lstm_sequence", "lstm_sequence_joint_vjp",
    "rnn_sequence", "rnn_sequence_joint_vjp",
]  # fmt: skip

SMALL = 1_000_000
"""OpenBLAS multiplies matrices as they lie if that takes fewer products than this. Else it first
copies them to where it can read them faster, which for a few rows takes longer than it saves."""


@njit(**CONTRACTED)
def add_product(blas, rows, columns, inner, left, right, y, keep):
    """y ← keep · y + left · right, with few rows: in blocks that are small for OpenBLAS.

    (rows, inner) times (inner, columns), all of them without gaps.
    """
    one = y.dtype.type(1)
    width = SMALL // (rows * inner) // WIDTH * WIDTH
    if width < 2 * WIDTH:
        width = columns
    for j in range(0, columns, width):
        count = min(width, columns - j)
        gemm(
            blas, False, False, rows, count, inner, one, left, inner, right[j:], columns,
            y.dtype.type(keep), y[j:], columns,
        )  # fmt: skip


@njit(**CONTRACTED)
def at(step, times, reverse):
    """The time of a step, forwards or backwards."""
    return times - 1 - step if reverse else step


@njit(**CONTRACTED)
def move(source, start, target, to, count):
    """Copy numbers; the compiler makes less of it than of an assignment to a slice."""
    these, those = source[start : start + count], target[to : to + count]
    for j in range(count):
        those[j] = these[j]


@njit(**CONTRACTED)
def part(array, start, count):
    """Return a copy of some numbers."""
    found = np.empty(count, array.dtype)
    move(array, start, found, 0, count)
    return found


# LSTM ------------------------------------------------------------------------------------------


def lstm_sequence() -> Callable[..., Any]:
    """Make `lstm_sequence`: the states after each time, (2, t, n, k), and the gates' inputs."""

    def walk(start, stop, blas, x, h, c, across, y, gates, times, n, k, reverse):
        start, stop = share_out(start, stop)
        wide()
        first, rows = np.int64(start), np.int64(stop) - np.int64(start)
        state, held = part(h, first * k, rows * k), part(c, first * k, rows * k)
        s = np.zeros(TABLE, x.dtype)
        for step in range(times):
            place = at(step, times, reverse) * n + first
            here = gates[place * 4 * k : (place + rows) * 4 * k]
            move(x, place * 4 * k, here, 0, here.size)
            add_product(blas, rows, 4 * k, k, state, across, here, 1)
            for row in range(rows):
                for j in range(0, k, WIDTH):
                    count, to = min(WIDTH, k - j), row * k + j
                    for gate in range(4):
                        take(s, gate * WIDTH, here, (4 * row + gate) * k + j, count)
                    take(s, E, held, to, count)
                    lstm_forward(s)
                    give(s, E, held, to, count)
                    give(s, F, state, to, count)
            move(state, 0, y, place * k, rows * k)
            move(held, 0, y, (times * n + place) * k, rows * k)

    kernel = compiled(walk, WHOLE, *[ROW] * 6, *[WHOLE] * 4)

    def run(x: Any, h: Any, c: Any, weight: Any, reverse: bool = False) -> Any:
        blas = address(x.dtype)
        if blas is None or not alike((x, h, c)) or weight.dtype != x.dtype or not h.size:
            return None
        sizes = (*x.shape[:2], h.shape[1])
        y, gates = np.empty((2, *sizes), x.dtype), np.empty_like(x)
        across = np.ascontiguousarray(weight.T)
        arrays = (each.reshape(-1) for each in (x, h, c, across, y, gates))
        in_parts(kernel, sizes[1], blas, *arrays, *sizes, reverse, work=x.size * sizes[2] // 8)
        return y, gates

    return run


def lstm_sequence_joint_vjp() -> Callable[..., Any]:
    """Make the rule of `lstm_sequence`: the gradients of x, h, c and weight."""

    def walk(start, stop, blas, g, y, gates, h, c, weight, at_x, at_h, at_c, times, n, k, reverse):
        start, stop = share_out(start, stop)
        wide()
        first, rows = np.int64(start), np.int64(stop) - np.int64(start)
        flow, kept = at_h[first * k : (first + rows) * k], at_c[first * k : (first + rows) * k]
        s = np.zeros(TABLE, g.dtype)
        for step in range(times - 1, -1, -1):
            place = at(step, times, reverse) * n + first
            then = at(step - 1, times, reverse) * n + first
            held = y[(times * n + then) * k :] if step else c[first * k :]
            at_state, at_held = g[place * k :], g[(times * n + place) * k :]
            for row in range(rows):
                for j in range(0, k, WIDTH):
                    count, here = min(WIDTH, k - j), row * k + j
                    for gate in range(4):
                        there = (4 * (place + row) + gate) * k + j
                        take(s, gate * WIDTH, gates, there, count)
                    take(s, E, held, here, count)
                    add(s, F, at_state, flow, here, count)
                    add(s, G, at_held, kept, here, count)
                    lstm_backward(s)
                    for gate in range(4):
                        there = (4 * (place + row) + gate) * k + j
                        give(s, gate * WIDTH, at_x, there, count)
                    give(s, G, kept, here, count)
            add_product(blas, rows, k, 4 * k, at_x[place * 4 * k :], weight, flow, 0)

    kernel = compiled(walk, WHOLE, *[ROW] * 9, *[WHOLE] * 4)

    def run(
        g: Any, y: Any, gates: Any, x: Any, h: Any, c: Any, weight: Any, reverse: bool
    ) -> Any:  # fmt: skip
        blas, g, weight = address(y.dtype), np.ascontiguousarray(g), np.ascontiguousarray(weight)
        if blas is None or not alike((g, y, gates, h, c, weight)) or not h.size:
            return None
        at_x, at_h, at_c = np.empty_like(gates), np.zeros_like(h), np.zeros_like(c)
        arrays = (each.reshape(-1) for each in (g, y, gates, h, c, weight, at_x, at_h, at_c))
        sizes = y.shape[1:]
        in_parts(kernel, sizes[1], blas, *arrays, *sizes, reverse, work=at_x.size * sizes[2] // 4)
        return at_x, at_h, at_c, of_weight(at_x, before(h, y[0], reverse))

    return run


@njit(**CONTRACTED)
def add(table, place, left, right, start, count):
    """Bring the sum of two arrays' numbers into a row of the table."""
    a, b = left[start : start + count], right[start : start + count]
    for j in range(count):
        table[place + j] = a[j] + b[j]


def before(first: Any, states: Any, reverse: bool) -> Any:
    """Return the state that each time began with."""
    parts = (states[1:], first[None]) if reverse else (first[None], states[:-1])
    return np.concatenate(parts)


def of_weight(at_gates: Any, states: Any) -> Any:
    """Return the gradient of the weight: one product over all times."""
    left, right = rows(at_gates).T, rows(states)
    y = product()(left, right)
    return left @ right if y is None else y


# GRU -------------------------------------------------------------------------------------------


def gru_sequence() -> Callable[..., Any]:
    """Make `gru_sequence`: the state after each time, (t, n, k)."""

    def walk(start, stop, blas, x, h, across, bias, y, times, n, k, reverse):
        start, stop = share_out(start, stop)
        first, rows = np.int64(start), np.int64(stop) - np.int64(start)
        state = part(h, first * k, rows * k)
        hidden = np.empty(rows * 3 * k, x.dtype)
        wide()
        wide()
        s = np.zeros(TABLE, x.dtype)
        for step in range(times):
            place = at(step, times, reverse) * n + first
            for row in range(rows):
                move(bias, 0, hidden, row * 3 * k, 3 * k)
            add_product(blas, rows, 3 * k, k, state, across, hidden, 1)
            for row in range(rows):
                for j in range(0, k, WIDTH):
                    count, here = min(WIDTH, k - j), row * k + j
                    for gate in range(3):
                        take(s, gate * WIDTH, x, (3 * (place + row) + gate) * k + j, count)
                        take(s, D + gate * WIDTH, hidden, (3 * row + gate) * k + j, count)
                    take(s, G, state, here, count)
                    gru_forward(s)
                    give(s, G, state, here, count)
            move(state, 0, y, place * k, rows * k)

    kernel = compiled(walk, WHOLE, *[ROW] * 5, *[WHOLE] * 4)

    def run(x: Any, h: Any, weight: Any, bias: Any = None, reverse: bool = False) -> Any:
        (times, n, gates), k = x.shape, h.shape[1]
        blas = address(x.dtype)
        if blas is None or not alike((x, h)) or weight.dtype != x.dtype or not n:
            return None
        if bias is not None and bias.dtype != x.dtype:
            return None
        bias = np.zeros(gates, x.dtype) if bias is None else np.ascontiguousarray(bias)
        y = np.empty((times, n, k), x.dtype)
        across = np.ascontiguousarray(weight.T)
        arrays = (each.reshape(-1) for each in (x, h, across, bias, y))
        in_parts(kernel, n, blas, *arrays, times, n, k, reverse, work=x.size * k // 8)
        return y

    return run


def gru_sequence_joint_vjp() -> Callable[..., Any]:
    """Make the rule of `gru_sequence`: the gradients of x, h, weight and bias."""

    def walk(
        start, stop, blas, g, y, x, h, weight, across, bias, at_x, at_hidden, at_h, times, n, k,
        reverse,
    ):  # fmt: skip
        start, stop = share_out(start, stop)
        first, rows = np.int64(start), np.int64(stop) - np.int64(start)
        flow = at_h[first * k : (first + rows) * k]
        wide()
        wide()
        s = np.zeros(TABLE, x.dtype)
        for step in range(times - 1, -1, -1):
            place = at(step, times, reverse) * n + first
            state = y[(at(step - 1, times, reverse) * n + first) * k :] if step else h[first * k :]
            hidden = at_hidden[place * 3 * k : (place + rows) * 3 * k]
            for row in range(rows):
                move(bias, 0, hidden, row * 3 * k, 3 * k)
            add_product(blas, rows, 3 * k, k, state, across, hidden, 1)
            for row in range(rows):
                for j in range(0, k, WIDTH):
                    count, here = min(WIDTH, k - j), row * k + j
                    for gate in range(3):
                        take(s, gate * WIDTH, x, (3 * (place + row) + gate) * k + j, count)
                        take(s, D + gate * WIDTH, hidden, (3 * row + gate) * k + j, count)
                    take(s, G, state, here, count)
                    add(s, H, g[place * k :], flow, here, count)
                    gru_backward(s)
                    for gate in range(3):
                        give(s, gate * WIDTH, at_x, (3 * (place + row) + gate) * k + j, count)
                    give(s, A, hidden, 3 * row * k + j, count)
                    give(s, B, hidden, (3 * row + 1) * k + j, count)
                    give(s, F, hidden, (3 * row + 2) * k + j, count)
                    give(s, G, flow, here, count)
            add_product(blas, rows, k, 3 * k, hidden, weight, flow, 1)

    kernel = compiled(walk, WHOLE, *[ROW] * 10, *[WHOLE] * 4)

    def run(g: Any, y: Any, x: Any, h: Any, weight: Any, bias: Any, reverse: bool) -> Any:
        blas = address(x.dtype)
        if blas is None or not alike((y, x, h), g.dtype) or weight.dtype != x.dtype or not h.size:
            return None
        if bias is not None and bias.dtype != x.dtype:
            return None
        shift = np.zeros(x.shape[2], x.dtype) if bias is None else np.ascontiguousarray(bias)
        g, weight = np.ascontiguousarray(g), np.ascontiguousarray(weight)
        across = np.ascontiguousarray(weight.T)
        found = np.empty_like(x), np.empty_like(x), np.zeros_like(h)
        arrays = (each.reshape(-1) for each in (g, y, x, h, weight, across, shift, *found))
        sizes = (*x.shape[:2], h.shape[1])
        in_parts(kernel, sizes[1], blas, *arrays, *sizes, reverse, work=x.size * sizes[2] // 4)
        at_x, at_hidden, at_h = found
        return at_x, at_h, of_weight(at_hidden, before(h, y, reverse)), at_hidden

    return run


# The simplest network --------------------------------------------------------------------------


def rnn_sequence() -> Callable[..., Any]:
    """Make `rnn_sequence`: the state after each time, (t, n, k)."""

    def walk(start, stop, blas, x, h, across, y, times, n, k, by_tanh, reverse):
        start, stop = share_out(start, stop)
        wide()
        first, rows = np.int64(start), np.int64(stop) - np.int64(start)
        state = h[first * k : (first + rows) * k]
        for step in range(times):
            place = at(step, times, reverse) * n + first
            here = y[place * k : (place + rows) * k]
            move(x, place * k, here, 0, here.size)
            add_product(blas, rows, k, k, state, across, here, 1)
            if by_tanh:
                for j in range(rows * k):
                    here[j] = tanh(here[j])
            else:
                for j in range(rows * k):
                    here[j] = max(here[j], here.dtype.type(0))
            state = here

    kernel = compiled(walk, WHOLE, *[ROW] * 4, *[WHOLE] * 5)

    def run(
        x: Any, h: Any, weight: Any, nonlinearity: str = "tanh", reverse: bool = False
    ) -> Any:  # fmt: skip
        blas = address(x.dtype)
        if blas is None or not alike((x, h)) or weight.dtype != x.dtype or not h.size:
            return None
        y, across = np.empty_like(x), np.ascontiguousarray(weight.T)
        arrays = (each.reshape(-1) for each in (x, h, across, y))
        settings = (*x.shape, nonlinearity == "tanh", reverse)
        in_parts(kernel, x.shape[1], blas, *arrays, *settings, work=x.size * x.shape[2] // 8)
        return y

    return run


def rnn_sequence_joint_vjp() -> Callable[..., Any]:
    """Make the rule of `rnn_sequence`: the gradients of x, h and weight."""

    def walk(start, stop, blas, g, y, weight, at_x, at_h, times, n, k, by_tanh, reverse):
        start, stop = share_out(start, stop)
        first, rows = np.int64(start), np.int64(stop) - np.int64(start)
        flow = at_h[first * k : (first + rows) * k]
        zero = y.dtype.type(0)
        for step in range(times - 1, -1, -1):
            place = at(step, times, reverse) * n + first
            here, shown = at_x[place * k : (place + rows) * k], y[place * k :]
            given = g[place * k :]
            if by_tanh:
                for j in range(rows * k):
                    here[j] = (given[j] + flow[j]) * slope_of(shown[j])
            else:
                for j in range(rows * k):
                    here[j] = given[j] + flow[j] if shown[j] > zero else zero
            add_product(blas, rows, k, k, here, weight, flow, 0)

    kernel = compiled(walk, WHOLE, *[ROW] * 5, *[WHOLE] * 5)

    def run(g: Any, y: Any, h: Any, weight: Any, nonlinearity: str, reverse: bool) -> Any:
        blas = address(y.dtype)
        if blas is None or not alike((y, h), g.dtype) or weight.dtype != y.dtype or not h.size:
            return None
        g, weight = np.ascontiguousarray(g), np.ascontiguousarray(weight)
        at_x, at_h = np.empty_like(y), np.zeros_like(h)
        arrays = (each.reshape(-1) for each in (g, y, weight, at_x, at_h))
        settings = (*y.shape, nonlinearity == "tanh", reverse)
        in_parts(kernel, y.shape[1], blas, *arrays, *settings, work=y.size * y.shape[2] // 4)
        return at_x, at_h, of_weight(at_x, before(h, y, reverse))

    return run
