"""Recurrent cells as ops: the gates of one step, and whole sequences.

Composed of elementary ops, a step records about twenty nodes and a sequence of a hundred steps
two thousand. Here a step is one node, and so is a whole sequence. The gradient of a sequence is
backpropagation through time, written as a loop from the last step to the first that passes the
gradient of the state on. The gradient of the weights is one product over all times, after the
loop.

All functions here take arrays as well as tensors, so gradients can be differentiated again.
`x` is always the contribution of the input, W_ih input + b, computed for all times by one
product beforehand (`linear`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...backends.numpy import Array, Namespace
from ...core.tensor import Tensor
from ...ops import cat, chunk, relu, sigmoid, stack, tanh, unsqueeze
from .linear import flatten_batch
from .op_decorators import layer

__all__ = ["gru_gates", "gru_sequence", "lstm_gates", "lstm_sequence", "rnn_sequence"]


# One step --------------------------------------------------------------------------------------


@layer("n p, n k -> s n k", dtypes="f", public="lstm_cell")
def lstm_gates(xp: Namespace, x: Array, c: Array) -> Array:
    """The states h and c after a step of an LSTM: (2, n, k).

        i, f, u, o = parts of x
        c ← σ(f) · c + σ(i) · tanh(u)        forget gate f, input gate i
        h ← σ(o) · tanh(c)                    output gate o

    Args:
        x: the pre-activations of the gates, from input and old h, (n, 4 k).
    """
    i, f, u, o = chunk(x, 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * tanh(u)
    return stack([sigmoid(o) * tanh(c), c])


def lstm_gates_backward(g: Any, x: Any, c: Any) -> tuple[Any, Any]:
    """The gradients of x and c; c gets the gradient of h and that of the next step."""
    i, f, u, o = chunk(x, 4, -1)
    i, f, u, o = sigmoid(i), sigmoid(f), tanh(u), sigmoid(o)
    tanh_c = tanh(f * c + i * u)
    grad_h, grad_c = g[0], g[1]
    grad_c = grad_c + grad_h * o * (1 - tanh_c * tanh_c)
    gates = [
        grad_c * u * i * (1 - i), grad_c * c * f * (1 - f), grad_c * i * (1 - u * u),
        grad_h * tanh_c * o * (1 - o),
    ]  # fmt: skip
    return cat(gates, -1), grad_c * f


lstm_gates.vjp(
    joint_vjp=lstm_gates_backward,
    latex={
        "x": r"\text{through the gates}",
        "c": r"\text{as far as it was not forgotten}",
    },
)


@layer("n p, n p, n k -> n k", dtypes="f", public="gru_cell")
def gru_gates(xp: Namespace, x: Array, hidden: Array, h: Array) -> Array:
    """The state after a step of a GRU: n = tanh(xₙ + σ(r) · hₙ);  h ← n + σ(z) · (h - n).

    Args:
        x, hidden: the contributions of the input and of the old state, (n, 3 k): r, z and n.
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
    grad_new = g * (1 - update) * (1 - candidate * candidate)
    grad_update = g * (h - candidate) * update * (1 - update)
    grad_reset = grad_new * h_new * reset * (1 - reset)
    gates = [grad_reset, grad_update]
    return cat([*gates, grad_new], -1), cat([*gates, grad_new * reset], -1), g * update


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
    """Return the time indices in the order of the recurrence."""
    return range(times - 1, -1, -1) if reverse else range(times)


def stack_in_time(steps: list[Any], reverse: bool) -> Any:
    """Stack the results of the steps in the order of time."""
    return stack(steps[::-1] if reverse else steps)


def previous_states(first: Any, states: Any, reverse: bool) -> Any:
    """Return the state before each time: (t, n, k)."""
    first = unsqueeze(first, 0)
    return cat([states[1:], first]) if reverse else cat([first, states[:-1]])


@layer("t n p, n k, n k, p k -> s t n k", outputs=("y", "gates"), dtypes="f", public="lstm")
def lstm_sequence(
    xp: Namespace, x: Array, h: Array, c: Array, weight: Array, reverse: bool = False
) -> tuple[Array, Array]:
    """The states h and c of an LSTM at each time, (2, t, n, k), and the gates' pre-activations.

    Args:
        x: the contribution of the input to the gates at each time, (t, n, 4 k).
        h, c: the initial states, (n, k).
        weight: W_hh, (4 k, k).
        reverse: run backward in time.
    """
    hidden_states, cell_states, gates = [], [], []
    for t in time_order(x.shape[0], reverse):
        gates.append(x[t] + h @ weight.T)
        y = lstm_gates(gates[-1], c)
        h, c = y[0], y[1]
        hidden_states.append(h)
        cell_states.append(c)
    y = stack([stack_in_time(hidden_states, reverse), stack_in_time(cell_states, reverse)])
    return y, stack_in_time(gates, reverse)


def lstm_sequence_backward(
    g: Any, y: Any, gates: Any, x: Any, h: Any, c: Any, weight: Any, reverse: bool
) -> tuple[Any, Any, Any, Any]:
    """The gradients of x, h, c and weight, by backpropagation through time."""
    h, c = previous_states(h, y[0], reverse), previous_states(c, y[1], reverse)
    if isinstance(g, Tensor):  # recompute, to record the gates for a second derivative
        gates = x + h @ weight.T
    grad_h = grad_c = 0
    gate_grads = []
    for t in time_order(x.shape[0], not reverse):
        grad_gates, grad_c = lstm_gates_backward(
            (g[0, t] + grad_h, g[1, t] + grad_c), gates[t], c[t]
        )
        grad_h = grad_gates @ weight
        gate_grads.append(grad_gates)
    grad_x = stack_in_time(gate_grads, not reverse)
    return grad_x, grad_h, grad_c, flatten_batch(grad_x).T @ flatten_batch(h)


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
    xp: Namespace,
    x: Array,
    h: Array,
    weight: Array,
    bias: Array | None = None,
    reverse: bool = False,
) -> Array:
    """The state of a GRU after each time: (t, n, k).

    Args: as for `lstm_sequence`, with 3 k for 4 k; `bias` is added to the contribution of h.
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
    """The gradients of x, h, weight and bias, by backpropagation through time."""
    h = previous_states(h, y, reverse)
    hidden = h @ weight.T if bias is None else h @ weight.T + bias
    grad_h = 0
    input_grads, hidden_grads = [], []
    for t in time_order(x.shape[0], not reverse):
        grad_x, grad_hidden, grad_h = gru_gates_backward(g[t] + grad_h, x[t], hidden[t], h[t])
        grad_h = grad_h + grad_hidden @ weight
        input_grads.append(grad_x)
        hidden_grads.append(grad_hidden)
    grad_hidden = stack_in_time(hidden_grads, not reverse)
    grad_weight = flatten_batch(grad_hidden).T @ flatten_batch(h)
    return stack_in_time(input_grads, not reverse), grad_h, grad_weight, grad_hidden


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
    xp: Namespace,
    x: Array,
    h: Array,
    weight: Array,
    nonlinearity: str = "tanh",
    reverse: bool = False,
) -> Array:
    """The state of an Elman RNN after each time, h ← tanh(x + W h): (t, n, k).

    Args: as for `lstm_sequence`, with k for 4 k; `nonlinearity` is "tanh" or "relu".
    """
    activation = tanh if nonlinearity == "tanh" else relu
    states = []
    for t in time_order(x.shape[0], reverse):
        h = activation(x[t] + h @ weight.T)
        states.append(h)
    return stack_in_time(states, reverse)


def rnn_sequence_backward(
    g: Any, y: Any, h: Any, weight: Any, nonlinearity: str, reverse: bool
) -> tuple[Any, Any, Any]:
    """The gradients of x, h and weight, by backpropagation through time."""
    derivative = 1 - y * y if nonlinearity == "tanh" else y > 0
    grad_h = 0
    input_grads = []
    for t in time_order(y.shape[0], not reverse):
        grad_x = (g[t] + grad_h) * derivative[t]
        grad_h = grad_x @ weight
        input_grads.append(grad_x)
    grad_x = stack_in_time(input_grads, not reverse)
    return grad_x, grad_h, flatten_batch(grad_x).T @ flatten_batch(previous_states(h, y, reverse))


rnn_sequence.vjp(
    joint_vjp=rnn_sequence_backward,
    latex={
        "x": r"\text{back through time}",
        "h": STATE_LATEX,
        "weight": WEIGHT_LATEX,
    },
)
