"""The gates of an LSTM and of a GRU, and their derivatives, on a GPU (`rnn_cell.cu`).

Each is one kernel instead of a dozen: what the definition does for a whole array at a time, a
thread does for its element of the state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import backends
from ...backends.numpy import Array
from ...nn.functional import rnn
from .module import blocks_for, launch
from .row_launch import is_supported, module_for

Run = Callable[..., Any]
THREADS = 256
MAX_SIZE = 2**31 - 1


def run_gates(
    kernel: str, state: Array, inputs: Sequence[Array], shapes: Sequence[tuple[int, ...]]
) -> list[Array] | None:
    """Launch a kernel with a thread for each element of the state; return its results.

    Args:
        state: the old state, (n, k).
        shapes: those of the results.
    """
    arrays = (*inputs, state)
    if not is_supported(*arrays) or state.ndim != 2 or state.size > MAX_SIZE:
        return None
    xp = backends.of(state).xp
    results = [xp.empty(shape, state.dtype) for shape in shapes]
    contiguous = [xp.ascontiguousarray(array) for array in arrays]
    sizes = np.int32(state.shape[0]), np.int32(state.shape[1])
    blocks = blocks_for(state.size, THREADS)
    module = module_for("rnn_cell", state.dtype.name)
    launch(module, kernel, blocks, THREADS, (*contiguous, *results, *sizes))
    return results


@rnn.lstm_gates.kernel("cuda", min_size=0)
def lstm_gates() -> Run:
    """Make the forward of `lstm_gates`."""

    def run(x: Array, c: Array) -> Array | None:
        results = run_gates("lstm_gates", c, (x,), [(2, *c.shape)])
        return None if results is None else results[0]

    return run


@rnn.lstm_gates.kernel("cuda", "joint_vjp", min_size=0)
def lstm_gates_joint_vjp() -> Run:
    """Make the gradients of x and c."""

    def run(g: Array, x: Array, c: Array) -> tuple[Array, ...] | None:
        results = run_gates("lstm_gates_backward", c, (g, x), [x.shape, c.shape])
        return None if results is None else tuple(results)

    return run


@rnn.gru_gates.kernel("cuda", min_size=0)
def gru_gates() -> Run:
    """Make the forward of `gru_gates`."""

    def run(x: Array, hidden: Array, h: Array) -> Array | None:
        results = run_gates("gru_gates", h, (x, hidden), [h.shape])
        return None if results is None else results[0]

    return run


@rnn.gru_gates.kernel("cuda", "joint_vjp", min_size=0)
def gru_gates_joint_vjp() -> Run:
    """Make the gradients of x, hidden and h."""

    def run(g: Array, x: Array, hidden: Array, h: Array) -> tuple[Array, ...] | None:
        shapes = [x.shape, hidden.shape, h.shape]
        results = run_gates("gru_gates_backward", h, (g, x, hidden), shapes)
        return None if results is None else tuple(results)

    return run
