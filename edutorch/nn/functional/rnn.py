"""Recurrent networks: each cell's formula, once, and the loops over time.

`lstm_gates`, `gru_gates` and `elman_cell` are the cells. Everything else calls them: a step of
`nn.LSTMCell` or `torch.lstm_cell`, and the sequences of `nn.LSTM`, `nn.GRU`, `nn.RNN` and
`torch.lstm`, … (torch_level). The kernels that do the same in one pass are tested against them.

The cells of LSTM and GRU are ops, and so are whole sequences: composed of elementary ops, a step
records about twenty nodes, and a sequence of a hundred steps two thousand. The gradient of a
sequence is backpropagation through time, written as a loop from the last step to the first that
passes the gradient of the state on. The gradient of the weights is one product over all times,
after the loop.

`x` is always the contribution of the input, W_ih input + b: it does not depend on the state, so
it is computed for all times by one product beforehand (`linear`).

Sequences of different lengths are packed time by time, the longest first: at each time the
active samples are the first ones (see `nn.utils.rnn`). A batch of equal lengths is the special
case in which all stay active: for it a single op does what the loops do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from numpy import ndarray

from ...backends.numpy import Array, Namespace
from ...core.composed import with_argument_checks
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...modes import current
from ...ops import (
    cat,
    chunk,
    relu,
    reshape,
    sigmoid,
    split,
    stack,
    tanh,
    unbind,
    unsqueeze,
)  # fmt: skip
from .dropout import dropout as drop
from .linear import flatten_batch, linear
from .op_decorators import ArrayOrTensor, layer

GATES_LATEX = r"\text{through the gates}"


# Cells --------------------------------------------------------------------------------------------


@layer("n p, n k -> s n k", dtypes="f", public="lstm_cell")
def lstm_gates(xp: Namespace, x: Array, c: Array) -> Array:
    """The states h and c after a step of an LSTM: (2, n, k).

        i, f, u, o = parts of x
        c ← σ(f) · c + σ(i) · tanh(u)        forget gate f, input gate i
        h ← σ(o) · tanh(c)                    output gate o

    Args:
        x: the pre-activations of the gates, from input and old h, (n, 4 k).
    """
    return next_lstm_state(x, c)


def next_lstm_state(x: ArrayOrTensor, c: ArrayOrTensor) -> Any:
    """The formula above, for the two ops that compute it."""
    i, f, u, o = chunk(x, 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * tanh(u)
    return stack([sigmoid(o) * tanh(c), c])


def lstm_gates_backward(g: ArrayOrTensor, x: ArrayOrTensor, c: ArrayOrTensor) -> tuple[Any, Any]:
    """The gradients of x and c; c gets the gradient of h and that of the next step."""
    i, f, u, o = chunk(x, 4, -1)
    i, f, u, o = sigmoid(i), sigmoid(f), tanh(u), sigmoid(o)
    tanh_c = tanh(f * c + i * u)  # cheaper to compute again than to save
    grad_h, grad_c = g[0], g[1]
    grad_c = grad_c + grad_h * o * (1 - tanh_c * tanh_c)
    gates = [
        grad_c * u * i * (1 - i), grad_c * c * f * (1 - f), grad_c * i * (1 - u * u),
        grad_h * tanh_c * o * (1 - o),
    ]  # fmt: skip
    return cat(gates, -1), grad_c * f


lstm_gates.vjp(
    joint_vjp=lstm_gates_backward,
    latex={"x": GATES_LATEX, "c": r"\text{as far as it was not forgotten}"},
)


@layer(
    "n i, n j, n k, p i, p j, p, p -> s n k", outputs=("y", "_gates"), dtypes="f",
    public="lstm_cell",
)  # fmt: skip
def lstm_cell_forward(
    xp: Namespace, input: Array, h: Array, c: Array, w_ih: Array, w_hh: Array,
    b_ih: Array | None = None, b_hh: Array | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """The states h and c after a step of an LSTM, (2, n, k), and the gates' pre-activations."""
    gates = linear(input, w_ih, b_ih) + linear(h, w_hh, b_hh)
    return next_lstm_state(gates, c), gates


def lstm_cell_backward(
    g: ArrayOrTensor, _gates: ArrayOrTensor, input: ArrayOrTensor, h: ArrayOrTensor,
    c: ArrayOrTensor, w_ih: ArrayOrTensor, w_hh: ArrayOrTensor, b_ih: ArrayOrTensor | None,
    b_hh: ArrayOrTensor | None,
) -> tuple[Any, ...]:  # fmt: skip
    """The gradients of all operands; those of the biases are summed over the rows by the engine."""
    if isinstance(g, Tensor):  # recompute, to record the gates for a second derivative
        _gates = linear(input, w_ih, b_ih) + linear(h, w_hh, b_hh)  # type: ignore[arg-type]
    grad_gates, grad_c = lstm_gates_backward(g, _gates, c)
    grad_weights = grad_gates.T @ input, grad_gates.T @ h
    return grad_gates @ w_ih, grad_gates @ w_hh, grad_c, *grad_weights, grad_gates, grad_gates


lstm_cell_forward.vjp(
    joint_vjp=lstm_cell_backward,
    latex=dict.fromkeys(("input", "h", "w_ih", "w_hh", "b_ih", "b_hh"), GATES_LATEX)
    | {"c": r"\text{as far as it was not forgotten}"},
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


def gru_gates_backward(
    g: ArrayOrTensor, x: ArrayOrTensor, hidden: ArrayOrTensor, h: ArrayOrTensor
) -> tuple[Any, Any, Any]:
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
    latex={"x": GATES_LATEX, "hidden": GATES_LATEX, "h": r"\text{as far as it was kept}"},
)


def elman_cell(x: ArrayOrTensor, hidden: ArrayOrTensor, nonlinearity: str) -> Any:
    """The state after a step of an Elman RNN: h ← tanh(x + hidden), or max(0, x + hidden).

    Args:
        x, hidden: the contributions of the input and of the old state, W h (+ b).
    """
    return (tanh if nonlinearity == "tanh" else relu)(x + hidden)


# The steps of the networks: (x, the states, the weights of the state) to the new states ---------

State = tuple[Tensor, ...]
"""The recurrent state: (h), or (h, c) for an LSTM."""

Step = Callable[..., State]


def lstm_step(
    x: Tensor, state: State, w_hh: Tensor, b_hh: Tensor | None = None, w_hr: Tensor | None = None
) -> State:
    """A step of an LSTM; with `w_hr` the new h is projected."""
    h, c = state
    h, c = unbind(lstm_gates(x + linear(h, w_hh, b_hh), c))
    return (h if w_hr is None else linear(h, w_hr)), c


def gru_step(x: Tensor, state: State, w_hh: Tensor, b_hh: Tensor | None = None) -> State:
    """A step of a GRU."""
    (h,) = state
    # The bias cannot be added to x: the reset gate multiplies W h + b, but not x.
    return (gru_gates(x, linear(h, w_hh, b_hh), h),)


def tanh_step(x: Tensor, state: State, w_hh: Tensor, b_hh: Tensor | None = None) -> State:
    """A step of an Elman RNN with tanh."""
    return (elman_cell(x, linear(state[0], w_hh, b_hh), "tanh"),)


def relu_step(x: Tensor, state: State, w_hh: Tensor, b_hh: Tensor | None = None) -> State:
    """A step of an Elman RNN with ReLU."""
    return (elman_cell(x, linear(state[0], w_hh, b_hh), "relu"),)


def cell_step(
    step: Step, input: Tensor, state: State, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None,
    b_hh: Tensor | None,
) -> State:  # fmt: skip
    """A step of a cell, from the input itself. That of an LSTM is one op on the CPU."""
    is_plain = input._array.__class__ is ndarray and current().autocast is None
    if step is lstm_step and is_plain:  # else of ops: in a graph that is captured, on a GPU
        y, _ = lstm_cell_forward(input, *state, w_ih, w_hh, b_ih, b_hh)
        return unbind(y)
    return step(linear(input, w_ih, b_ih), state, w_hh, b_hh)


# Whole sequences as ops ---------------------------------------------------------------------------


def time_order(times: int, reverse: bool) -> Sequence[int]:
    """Return the time indices in the order of the recurrence."""
    return range(times - 1, -1, -1) if reverse else range(times)


def stack_in_time(steps: list[Any], reverse: bool) -> Any:
    """Stack the results of the steps in the order of time."""
    return stack(steps[::-1] if reverse else steps)


def previous_states(first: ArrayOrTensor, states: ArrayOrTensor, reverse: bool) -> Any:
    """Return the state before each time: (t, n, k)."""
    first = unsqueeze(first, 0)
    return cat([states[1:], first]) if reverse else cat([first, states[:-1]])


@layer("t n p, n k, n k, p k -> s t n k", outputs=("y", "_gates"), dtypes="f", public="lstm")
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
    g: ArrayOrTensor, y: ArrayOrTensor, _gates: ArrayOrTensor, x: ArrayOrTensor, h: ArrayOrTensor,
    c: ArrayOrTensor, weight: ArrayOrTensor, reverse: bool,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    """The gradients of x, h, c and weight, by backpropagation through time."""
    h, c = previous_states(h, y[0], reverse), previous_states(c, y[1], reverse)
    if isinstance(g, Tensor):  # recompute, to record the gates for a second derivative
        _gates = x + h @ weight.T
    grad_h = grad_c = 0  # nothing reads the last state but `g`
    gate_grads = []
    for t in time_order(x.shape[0], not reverse):
        grad_gates, grad_c = lstm_gates_backward(
            (g[0, t] + grad_h, g[1, t] + grad_c), _gates[t], c[t]
        )
        grad_h = grad_gates @ weight
        gate_grads.append(grad_gates)
    grad_x = stack_in_time(gate_grads, not reverse)
    return grad_x, grad_h, grad_c, flatten_batch(grad_x).T @ flatten_batch(h)


SEQUENCE_LATEX = {
    "x": r"\text{back through time}",
    "h": r"\text{through the first step}",
    "weight": r"\text{one product over all times}",
}
lstm_sequence.vjp(
    joint_vjp=lstm_sequence_backward, latex=SEQUENCE_LATEX | {"c": SEQUENCE_LATEX["h"]}
)


@layer("t n p, n k, p k, p -> t n k", dtypes="f", public="gru")
def gru_sequence(
    xp: Namespace, x: Array, h: Array, weight: Array, bias: Array | None = None,
    reverse: bool = False,
) -> Array:  # fmt: skip
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
    g: ArrayOrTensor, y: ArrayOrTensor, x: ArrayOrTensor, h: ArrayOrTensor, weight: ArrayOrTensor,
    bias: ArrayOrTensor | None, reverse: bool,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
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
    latex=SEQUENCE_LATEX | {"bias": r"\text{the sum over all times}"},
)


@layer(
    "t n k, n k, k j -> t n k", dtypes="f", public="rnn_tanh rnn_relu",
    node="RnnTanhBackward0 if nonlinearity == 'tanh' else RnnReluBackward0",
)  # fmt: skip
def rnn_sequence(
    xp: Namespace, x: Array, h: Array, weight: Array, nonlinearity: str = "tanh",
    reverse: bool = False,
) -> Array:  # fmt: skip
    """The state of an Elman RNN after each time, h ← tanh(x + W h): (t, n, k).

    Args: as for `lstm_sequence`, with k for 4 k; `nonlinearity` is "tanh" or "relu".
    """
    states = []
    for t in time_order(x.shape[0], reverse):
        h = elman_cell(x[t], h @ weight.T, nonlinearity)
        states.append(h)
    return stack_in_time(states, reverse)


def rnn_sequence_backward(
    g: ArrayOrTensor, y: ArrayOrTensor, h: ArrayOrTensor, weight: ArrayOrTensor, nonlinearity: str,
    reverse: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
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


rnn_sequence.vjp(joint_vjp=rnn_sequence_backward, latex=SEQUENCE_LATEX)


# Layers -----------------------------------------------------------------------------------------


class LayerSettings(NamedTuple):
    """The settings of a stack of layers, in the order of PyTorch's functions.

    Attributes:
        has_biases: whether b_ih and b_hh are among the weights.
        dropout: the probability of zeroing outputs between layers, if `train`.
        bidirectional: whether each layer runs in both directions.
    """

    has_biases: bool
    num_layers: int
    dropout: float
    train: bool
    bidirectional: bool


def run_layer(
    step: Step, reverse: bool, x: Tensor, sizes: list[int], state: State, weights: Sequence[Any]
) -> tuple[Tensor, State]:
    """Run one layer in one direction. Returns the outputs, packed as `x`, and the last states.

    Args:
        weights: w_ih, w_hh, b_ih, b_hh and w_hr, or None where absent.
    """
    if can_use_sequence_op(x, sizes, state, weights):
        outputs, end = run_sequence_op(step, reverse, x, len(sizes), state, weights)
        return reshape(outputs, (len(x), outputs.shape[-1])), end
    w_ih, w_hh, b_ih, b_hh, *projection = weights
    parts = split(linear(x, w_ih, b_ih), sizes)
    direction = run_reverse if reverse else run_forward
    outputs, end = direction(step, parts, state, w_hh, b_hh, *projection)
    return cat(outputs), end


def can_use_sequence_op(x: Tensor, sizes: list[int], state: State, weights: Sequence[Any]) -> bool:
    """Whether `run_sequence_op` can replace the loops: one length, one dtype, no projection.

    With 16-bit floats the loops round after each op, as PyTorch does.
    """
    dtypes = {tensor.dtype for tensor in (x, *state, *weights) if tensor is not None}
    is_uniform = len(dtypes) == 1 and x.element_size() >= 4 and x.is_floating_point()
    return is_uniform and len(weights) == 4 and sizes[0] == sizes[-1] and current().autocast is None


def run_sequence_op(
    step: Step, reverse: bool, x: Tensor, steps: int, state: State, weights: Sequence[Any]
) -> tuple[Tensor, State]:
    """Run sequences of equal length by a single op. Returns the outputs and the last states."""
    w_ih, w_hh, b_ih, b_hh = weights
    last = 0 if reverse else -1
    if step is not gru_step and b_ih is not None:  # both biases are only added to the gates
        b_ih, b_hh = b_ih + b_hh, None
    gates = reshape(linear(x, w_ih, b_ih), (steps, -1, w_hh.shape[0]))
    if step is lstm_step:
        y, _ = lstm_sequence(gates, *state, w_hh, reverse)
        return y[0], (y[0, last], y[1, last])
    if step is gru_step:
        y = gru_sequence(gates, *state, w_hh, b_hh, reverse)
    else:
        y = rnn_sequence(gates, *state, w_hh, "tanh" if step is tanh_step else "relu", reverse)
    return y, (y[last],)


def run_forward(step: Step, parts: Sequence[Tensor], state: State, *weights: Any) -> Any:
    """Loop forward in time; collect the states of samples that end. Returns outputs, states."""
    outputs, final_states = [], []
    for part in parts:
        active = part.shape[0]
        if active < state[0].shape[0]:
            final_states.append(tuple(tensor[active:] for tensor in state))
            state = tuple(tensor[:active] for tensor in state)
        state = step(part, state, *weights)
        outputs.append(state[0])
    final_states.append(state)
    return outputs, tuple(cat(pieces[::-1]) for pieces in zip(*final_states, strict=True))


def run_reverse(step: Step, parts: Sequence[Tensor], start: State, *weights: Any) -> Any:
    """Loop backward in time; samples join at their last time. Returns outputs, states."""
    outputs = []
    state = tuple(tensor[: parts[-1].shape[0]] for tensor in start)
    for part in reversed(parts):
        running, active = state[0].shape[0], part.shape[0]
        if active > running:
            state = tuple(
                cat([old, new[running:active]]) for old, new in zip(state, start, strict=True)
            )
        state = step(part, state, *weights)
        outputs.append(state[0])
    return outputs[::-1], state


@with_argument_checks
def run_recurrent(
    step: Step, x: Tensor, sizes: list[int], states: State, params: Sequence[Tensor],
    settings: LayerSettings,
) -> tuple[Tensor, State]:  # fmt: skip
    """Run all layers, in one direction or both.

    Args:
        x: the inputs, packed time by time; `sizes` holds the number of active samples at each.
        states: the initial states, each (layers · directions, n, k).
        params: for each layer and direction w_ih, w_hh, b_ih, b_hh (and w_hr).
    """
    directions = (False, True) if settings.bidirectional else (False,)
    count = settings.num_layers * len(directions)
    check_states(states, params, count, sizes)
    per_run = len(params) // count
    last = []
    for level in range(settings.num_layers):
        layer_outputs = []
        for run, reverse in enumerate(directions, level * len(directions)):
            weights = params[run * per_run : (run + 1) * per_run]
            if not settings.has_biases:
                weights = (*weights[:2], None, None, *weights[2:])
            start = tuple(state[run] for state in states)
            outputs, end = run_layer(step, reverse, x, sizes, start, weights)
            layer_outputs.append(outputs)
            last.append(end)
        x = layer_outputs[0] if len(layer_outputs) == 1 else cat(layer_outputs, -1)
        if level < settings.num_layers - 1:  # not after the last: its outputs are the result
            x = drop(x, settings.dropout, settings.train)
    return x, tuple(stack(tensors) for tensors in zip(*last, strict=True))


def check_states(states: State, params: Sequence[Tensor], count: int, sizes: Sequence[int]) -> None:
    """Raise ShapeError unless there is an initial state for each layer, direction and sample."""
    for state in states:
        if state.ndim != 3 or tuple(state.shape[:2]) != (count, sizes[0]):
            raise ShapeError(
                "rnn", f"Expected hidden size ({count}, {sizes[0]}, …), one state for each layer "
                "(and direction) and sample", {"hx": tuple(state.shape)},
            )  # fmt: skip
    if not params or len(params) % count:
        raise ShapeError(
            "rnn", f"expected the weights of {count} layers (and directions)",
            {"params": f"{len(params)} tensors"},
        )  # fmt: skip
