"""What a recurrent network computes besides products, as ops: one step, and whole sequences.

A step written with the ops of everyday leaves twenty nodes behind, and a sequence of a hundred
steps two thousand. Here a step is one node, and so is a whole sequence. The rule of a sequence
is backpropagation through time as a loop that can be read: from the last step to the first,
each handing the gradient of its state to the one before. What all steps share waits until the
loop is over: the gradient of the weights is one product over all times.

All functions here compute with arrays as well as with tensors, so a gradient can be
differentiated again. `x` is always what the input contributes, W_ih input + b, computed for all
times by one product beforehand (`linear`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...backends.numpy import Array
from ...core.tensor import Tensor
from ...ops import cat, chunk, relu, sigmoid, stack, tanh, unsqueeze
from .linear import flatten_batch
from .op_decorators import layer

__all__ = ["gru_gates", "gru_sequence", "lstm_gates", "lstm_sequence", "rnn_sequence"]


# One step --------------------------------------------------------------------------------------


@layer("n p, n k -> s n k", dtypes="f", public="lstm_cell")
def lstm_gates(xp: Any, x: Array, c: Array) -> Array:
    """The states h and c after a step of an LSTM: (2, n, k).

        i, f, u, o = parts of x
        c ← σ(f) · c + σ(i) · tanh(u)        forget a little, add a little
        h ← σ(o) · tanh(c)                    show a part of it

    Args:
        x: what input and old h contribute to the gates, (n, 4 k).
    """
    i, f, u, o = chunk(x, 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * tanh(u)
    return stack([sigmoid(o) * tanh(c), c])


def lstm_gates_backward(g: Any, x: Any, c: Any) -> tuple[Any, Any]:
    """The gradients of x and c. Through c flows what h wants of it, and what comes later."""
    i, f, u, o = chunk(x, 4, -1)
    i, f, u, o = sigmoid(i), sigmoid(f), tanh(u), sigmoid(o)
    shown = tanh(f * c + i * u)
    at_h, at_c = g[0], g[1]
    at_c = at_c + at_h * o * (1 - shown * shown)
    gates = [
        at_c * u * i * (1 - i), at_c * c * f * (1 - f), at_c * i * (1 - u * u),
        at_h * shown * o * (1 - o),
    ]  # fmt: skip
    return cat(gates, -1), at_c * f


lstm_gates.vjp(
    joint_vjp=lstm_gates_backward,
    latex={
        "x": r"\text{through the gates}",
        "c": r"\text{as far as it was not forgotten}",
    },
)


@layer("n p, n p, n k -> n k", dtypes="f", public="gru_cell")
def gru_gates(xp: Any, x: Array, hidden: Array, h: Array) -> Array:
    """The state after a step of a GRU: n = tanh(xₙ + σ(r) · hₙ);  h ← n + σ(z) · (h - n).

    Args:
        x, hidden: what the input and what the old state contribute, (n, 3 k): r, z and n.
    """
    reset, update, new = chunk(x, 3, -1)
    h_reset, h_update, h_new = chunk(hidden, 3, -1)
    candidate = tanh(new + sigmoid(reset + h_reset) * h_new)
    return candidate + sigmoid(update + h_update) * (h - candidate)


def gru_gates_backward(g: Any, x: Any, hidden: Any, h: Any) -> tuple[Any, Any, Any]:
    """The gradients of x, hidden and h."""
    reset, update, new = chunk(x, 3, -1)
    h_reset, h_update, h_new = chunk(hidden, 3, -1)
    reset, update = sigmoid(reset + h_reset), sigmoid(update + h_update)
    candidate = tanh(new + reset * h_new)
    at_new = g * (1 - update) * (1 - candidate * candidate)
    at_update = g * (h - candidate) * update * (1 - update)
    at_reset = at_new * h_new * reset * (1 - reset)
    gates = [at_reset, at_update]
    return cat([*gates, at_new], -1), cat([*gates, at_new * reset], -1), g * update


gru_gates.vjp(
    joint_vjp=gru_gates_backward,
    latex={
        "x": r"\text{through the gates}",
        "hidden": r"\text{through the gates}",
        "h": r"\text{as far as it was kept}",
    },
)


# Whole sequences -------------------------------------------------------------------------------


def time_order(times: int, reverse: bool) -> Sequence[int]:
    """Return the times in the order in which a network goes through them."""
    return range(times - 1, -1, -1) if reverse else range(times)


def stack_in_time(steps: list[Any], reverse: bool) -> Any:
    """Put what was found step by step together, in the order of time."""
    return stack(steps[::-1] if reverse else steps)


def previous_states(first: Any, states: Any, reverse: bool) -> Any:
    """Return the state that each time began with: (t, n, k)."""
    first = unsqueeze(first, 0)
    return cat([states[1:], first]) if reverse else cat([first, states[:-1]])


@layer("t n p, n k, n k, p k -> s t n k", outputs=("y", "gates"), dtypes="f", public="lstm")
def lstm_sequence(
    xp: Any, x: Array, h: Array, c: Array, weight: Array, reverse: bool = False
) -> tuple[Array, Array]:
    """The states h and c of an LSTM after each time, (2, t, n, k), and what went into the gates.

    Args:
        x: what the input contributes to the gates at each time, (t, n, 4 k).
        h, c: the first states, (n, k).
        weight: W_hh, (4 k, k).
        reverse: go through time backwards.
    """
    shown, held, gates = [], [], []
    for t in time_order(x.shape[0], reverse):
        gates.append(x[t] + h @ weight.T)
        y = lstm_gates(gates[-1], c)
        h, c = y[0], y[1]
        shown.append(h)
        held.append(c)
    y = stack([stack_in_time(shown, reverse), stack_in_time(held, reverse)])
    return y, stack_in_time(gates, reverse)


def lstm_sequence_backward(
    g: Any, y: Any, gates: Any, x: Any, h: Any, c: Any, weight: Any, reverse: bool
) -> tuple[Any, Any, Any, Any]:
    """The gradients of x, h, c and weight: back through time."""
    h, c = previous_states(h, y[0], reverse), previous_states(c, y[1], reverse)
    if isinstance(g, Tensor):  # the gradient will be differentiated, so it has to know its past
        gates = x + h @ weight.T
    at_h = at_c = 0
    found = []
    for t in time_order(x.shape[0], not reverse):
        at_gates, at_c = lstm_gates_backward((g[0, t] + at_h, g[1, t] + at_c), gates[t], c[t])
        at_h = at_gates @ weight
        found.append(at_gates)
    at_x = stack_in_time(found, not reverse)
    return at_x, at_h, at_c, flatten_batch(at_x).T @ flatten_batch(h)


WEIGHT_LATEX = r"\text{one product over all times}"
STATE_LATEX = r"\text{through the first step}"
lstm_sequence.vjp(
    joint_vjp=lstm_sequence_backward,
    latex={
        "x": r"\text{back through time}",
        "h": STATE_LATEX,
        "c": STATE_LATEX,
        "weight": WEIGHT_LATEX,
    },
)


@layer("t n p, n k, p k, p -> t n k", dtypes="f", public="gru")
def gru_sequence(
    xp: Any, x: Array, h: Array, weight: Array, bias: Array | None = None, reverse: bool = False
) -> Array:
    """The state of a GRU after each time: (t, n, k).

    Args: as for `lstm_sequence`, with 3 k for 4 k; `bias` is added to what h contributes.
    """
    states = []
    for t in time_order(x.shape[0], reverse):
        hidden = h @ weight.T
        h = gru_gates(x[t], hidden if bias is None else hidden + bias, h)
        states.append(h)
    return stack_in_time(states, reverse)


def gru_sequence_backward(
    g: Any, y: Any, x: Any, h: Any, weight: Any, bias: Any, reverse: bool
) -> tuple[Any, Any, Any, Any]:
    """The gradients of x, h, weight and bias: back through time."""
    h = previous_states(h, y, reverse)
    hidden = h @ weight.T if bias is None else h @ weight.T + bias
    at_h = 0
    inside, contributed = [], []
    for t in time_order(x.shape[0], not reverse):
        at_x, at_hidden, at_h = gru_gates_backward(g[t] + at_h, x[t], hidden[t], h[t])
        at_h = at_h + at_hidden @ weight
        inside.append(at_x)
        contributed.append(at_hidden)
    at_hidden = stack_in_time(contributed, not reverse)
    at_weight = flatten_batch(at_hidden).T @ flatten_batch(h)
    return stack_in_time(inside, not reverse), at_h, at_weight, at_hidden


gru_sequence.vjp(
    joint_vjp=gru_sequence_backward,
    latex={
        "x": r"\text{back through time}",
        "h": STATE_LATEX,
        "weight": WEIGHT_LATEX,
        "bias": r"\text{the sum over all times}",
    },
)


@layer(
    "t n k, n k, k j -> t n k", dtypes="f", public="rnn_tanh rnn_relu",
    node="RnnTanhBackward0 if nonlinearity == 'tanh' else RnnReluBackward0",
)  # fmt: skip
def rnn_sequence(
    xp: Any, x: Array, h: Array, weight: Array, nonlinearity: str = "tanh", reverse: bool = False
) -> Array:
    """The state of the simplest network after each time, h ← tanh(x + W h): (t, n, k).

    Args: as for `lstm_sequence`, with k for 4 k; `nonlinearity` is "tanh" or "relu".
    """
    bend = tanh if nonlinearity == "tanh" else relu
    states = []
    for t in time_order(x.shape[0], reverse):
        h = bend(x[t] + h @ weight.T)
        states.append(h)
    return stack_in_time(states, reverse)


def rnn_sequence_backward(
    g: Any, y: Any, h: Any, weight: Any, nonlinearity: str, reverse: bool
) -> tuple[Any, Any, Any]:
    """The gradients of x, h and weight: back through time."""
    slope = 1 - y * y if nonlinearity == "tanh" else y > 0
    at_h = 0
    found = []
    for t in time_order(y.shape[0], not reverse):
        at_x = (g[t] + at_h) * slope[t]
        at_h = at_x @ weight
        found.append(at_x)
    at_x = stack_in_time(found, not reverse)
    return at_x, at_h, flatten_batch(at_x).T @ flatten_batch(previous_states(h, y, reverse))


rnn_sequence.vjp(
    joint_vjp=rnn_sequence_backward,
    latex={
        "x": r"\text{back through time}",
        "h": STATE_LATEX,
        "weight": WEIGHT_LATEX,
    },
)
