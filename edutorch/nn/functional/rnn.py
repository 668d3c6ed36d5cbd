"""Recurrent networks: one step of each cell, and the loops over time.

A step computes a new state from the old one and the input. The part that depends on the input
alone is computed for the whole sequence at once, as one matrix product (`linear`).

Sequences of different lengths are packed time by time, the longest first: at each time the
active samples are the first ones (see `nn.utils.rnn`). A batch of equal lengths is the special
case in which all stay active. So one pair of loops serves both; for equal lengths a single op
of `rnn_ops.py` does the same.

The modules `nn.LSTM`, `nn.GRU`, `nn.RNN` and the functions `torch.lstm`, … (torch_level) call
the functions here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.argument_checks import with_argument_checks
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...modes import current
from ...ops import cat, relu, reshape, split, stack, tanh
from .dropout import dropout as drop
from .linear import linear
from .rnn_ops import gru_gates, gru_sequence, lstm_gates, lstm_sequence, rnn_sequence

State = tuple[Tensor, ...]
"""The recurrent state: (h) or (h, c)."""
Step = Callable[..., State]


# The steps, in which `x` is W_ih input + b_ih ------------------------------------------------


def lstm_step(x: Tensor, state: State, w_hh: Any, b_hh: Any = None, w_hr: Any = None) -> State:
    """LSTM: c ← σ(f) · c + σ(i) · tanh(g);  h = σ(o) · tanh(c), optionally projected by w_hr."""
    h, c = state
    y = lstm_gates(x + linear(h, w_hh, b_hh), c)
    h, c = y[0], y[1]
    return (h if w_hr is None else linear(h, w_hr)), c


def gru_step(x: Tensor, state: State, w_hh: Any, b_hh: Any = None) -> State:
    """GRU: n = tanh(xₙ + σ(r) · hₙ);  h ← n + σ(z) · (h - n)."""
    (h,) = state
    return (gru_gates(x, linear(h, w_hh, b_hh), h),)


def tanh_step(x: Tensor, state: State, w_hh: Any, b_hh: Any = None) -> State:
    """Elman RNN with tanh: h ← tanh(x + W h + b)."""
    return (tanh(x + linear(state[0], w_hh, b_hh)),)


def relu_step(x: Tensor, state: State, w_hh: Any, b_hh: Any = None) -> State:
    """Elman RNN with ReLU: h ← max(0, x + W h + b)."""
    return (relu(x + linear(state[0], w_hh, b_hh)),)


# Sequences -----------------------------------------------------------------------------------


def run_layer(
    step: Step, reverse: bool, x: Tensor, sizes: list[int], state: State, weights: Sequence[Any]
) -> tuple[Tensor, State]:
    """Run one layer in one direction. Returns the outputs, packed as `x`, and the last states.

    Args:
        weights: w_ih, w_hh, b_ih, b_hh and w_hr, or None where absent.
    """
    if can_use_sequence_op(x, sizes, state, weights):
        outputs, end = run_sequence_op(step, reverse, x, len(sizes), state, *weights)
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
    step: Step, reverse: bool, x: Tensor, steps: int, state: State,
    w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None,
) -> tuple[Tensor, State]:  # fmt: skip
    """Run sequences of equal length by a single op. Returns the outputs and the last states."""
    last = 0 if reverse else -1
    if step is not gru_step and b_ih is not None:  # the biases are only added
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
    has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> tuple[Tensor, State]:  # fmt: skip
    """Run all layers, in one direction or both.

    Args:
        x: the inputs, packed time by time; `sizes` holds the number of active samples at each.
        states: the initial states, each (layers · directions, n, k).
        params: for each layer and direction w_ih, w_hh, b_ih, b_hh (and w_hr).
    """
    directions = (False, True) if bidirectional else (False,)
    count = num_layers * len(directions)
    check_states(states, params, count, sizes)
    per_run = len(params) // count
    last = []
    for layer in range(num_layers):
        layer_outputs = []
        for run, reverse in enumerate(directions, layer * len(directions)):
            weights = params[run * per_run : (run + 1) * per_run]
            if not has_biases:
                weights = (*weights[:2], None, None, *weights[2:])
            start = tuple(state[run] for state in states)
            outputs, end = run_layer(step, reverse, x, sizes, start, weights)
            layer_outputs.append(outputs)
            last.append(end)
        x = layer_outputs[0] if len(layer_outputs) == 1 else cat(layer_outputs, -1)
        if layer < num_layers - 1:
            x = drop(x, dropout, train)
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
