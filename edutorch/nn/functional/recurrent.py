"""Recurrent networks: one step of each, and the loop through time that serves them all.

A step makes a new state from the old one and the input. All that depends on the input
alone is computed for the whole sequence at once, as one large product (`linear`).

Sequences of different lengths lie in memory time by time, the longest ones first: at each
time the samples that still go on are the first ones (see `nn.utils.rnn`). A batch of equal
lengths is the case in which none stops. So one pair of loops serves both.

`nn.LSTM` and its kind (modules), and `torch.lstm` and its kind (torch_level), are faces of
what is here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.tensor import Tensor
from ...core.tensors_only import tensors_only
from ...errors import ShapeError
from ...ops import cat, chunk, relu, sigmoid, split, stack, tanh
from .dropout import dropout as drop
from .linear import linear

State = tuple[Tensor, ...]
"""What a step hands to the next: (h) or (h, c)."""
Step = Callable[..., State]


# The steps: `x` is W_ih input + b_ih already ------------------------------------------------


def lstm_step(x: Tensor, state: State, w_hh: Any, b_hh: Any = None, w_hr: Any = None) -> State:
    """c ← σ(f) · c + σ(i) · tanh(g);  h = σ(o) · tanh(c), projected by w_hr if there is one."""
    h, c = state
    i, f, g, o = chunk(x + linear(h, w_hh, b_hh), 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    h = sigmoid(o) * tanh(c)
    return (h if w_hr is None else linear(h, w_hr)), c


def gru_step(x: Tensor, state: State, w_hh: Any, b_hh: Any = None) -> State:
    """n = tanh(xₙ + σ(r) · hₙ);  h ← n + σ(z) · (h - n)."""
    (h,) = state
    reset, update, new = chunk(x, 3, -1)
    h_reset, h_update, h_new = chunk(linear(h, w_hh, b_hh), 3, -1)
    candidate = tanh(new + sigmoid(reset + h_reset) * h_new)
    return (candidate + sigmoid(update + h_update) * (h - candidate),)


def tanh_step(x: Tensor, state: State, w_hh: Any, b_hh: Any = None) -> State:
    """h ← tanh(x + W h + b)."""
    return (tanh(x + linear(state[0], w_hh, b_hh)),)


def relu_step(x: Tensor, state: State, w_hh: Any, b_hh: Any = None) -> State:
    """h ← max(0, x + W h + b)."""
    return (relu(x + linear(state[0], w_hh, b_hh)),)


# Sequences -----------------------------------------------------------------------------------


def forwards(step: Step, parts: Sequence[Tensor], state: State, *weights: Any) -> Any:
    """Run through time; samples that end hand in their state. Returns outputs, last states."""
    outputs, ended = [], []
    for part in parts:
        going = part.shape[0]
        if going < state[0].shape[0]:
            ended.append(tuple(each[going:] for each in state))
            state = tuple(each[:going] for each in state)
        state = step(part, state, *weights)
        outputs.append(state[0])
    ended.append(state)
    return outputs, tuple(cat(pieces[::-1]) for pieces in zip(*ended, strict=True))


def backwards(step: Step, parts: Sequence[Tensor], start: State, *weights: Any) -> Any:
    """Run against time; samples join where they end. Returns outputs, last states."""
    outputs = []
    state = tuple(each[: parts[-1].shape[0]] for each in start)
    for part in reversed(parts):
        have, going = state[0].shape[0], part.shape[0]
        if going > have:
            state = tuple(
                cat([old, new[have:going]]) for old, new in zip(state, start, strict=True)
            )
        state = step(part, state, *weights)
        outputs.append(state[0])
    return outputs[::-1], state


@tensors_only
def network(
    step: Step, x: Tensor, sizes: list[int], states: State, params: Sequence[Tensor],
    has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> tuple[Tensor, State]:  # fmt: skip
    """Run all layers, in one direction or both.

    Args:
        x: the inputs, all times one after the other; `sizes` says how many go on at each.
        states: the first states, each (layers · directions, n, k).
        params: for each layer and direction w_ih, w_hh, b_ih, b_hh (and w_hr) in a row.
    """
    directions = (forwards, backwards) if bidirectional else (forwards,)
    runs = num_layers * len(directions)
    check_states(states, params, runs, sizes)
    per_run = len(params) // runs
    last = []
    for layer in range(num_layers):
        seen = []
        for number, direction in enumerate(directions, layer * len(directions)):
            w_ih, w_hh, *rest = params[number * per_run : (number + 1) * per_run]
            b_ih, b_hh, *projection = rest if has_biases else (None, None, *rest)
            parts = split(linear(x, w_ih, b_ih), sizes)
            start = tuple(each[number] for each in states)
            outputs, end = direction(step, parts, start, w_hh, b_hh, *projection)
            seen.append(cat(outputs))
            last.append(end)
        x = seen[0] if len(seen) == 1 else cat(seen, -1)
        if layer < num_layers - 1:
            x = drop(x, dropout, train)
    return x, tuple(stack(each) for each in zip(*last, strict=True))


def check_states(states: State, params: Sequence[Tensor], runs: int, sizes: Sequence[int]) -> None:
    """Raise ShapeError unless there is a first state for each run and sample."""
    for state in states:
        if state.ndim != 3 or tuple(state.shape[:2]) != (runs, sizes[0]):
            raise ShapeError(
                "rnn", f"Expected hidden size ({runs}, {sizes[0]}, …), one state for each layer "
                "(and direction) and sample", {"hx": tuple(state.shape)},
            )  # fmt: skip
    if not params or len(params) % runs:
        raise ShapeError(
            "rnn", f"expected the weights of {runs} layers (and directions)",
            {"params": f"{len(params)} tensors"},
        )  # fmt: skip
