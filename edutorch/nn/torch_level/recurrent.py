"""Recurrent networks as `torch.<name>`: one step, or whole sequences.

A step makes a new state from the old one and the input. All that depends on the input
alone is computed for the whole sequence at once, as one large product (`linear`).

Sequences of different lengths lie in memory time by time, the longest ones first: at each
time the samples that still go on are the first ones (see `nn.utils.rnn`). A batch of equal
lengths is the case in which none stops. So one pair of loops serves both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops import cat, chunk, relu, reshape, sigmoid, split, stack, tanh, transpose
from .. import functional as F

__all__ = [
    "gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh",
    "rnn_tanh_cell",
]  # fmt: skip

State = tuple[Tensor, ...]
"""What a step hands to the next: (h) or (h, c)."""
Step = Callable[..., State]


# The steps: `x` is W_ih input + b_ih already ------------------------------------------------


def lstm_step(x: Tensor, state: State, w_hh: Any, b_hh: Any = None, w_hr: Any = None) -> State:
    """c ← σ(f) · c + σ(i) · tanh(g);  h = σ(o) · tanh(c), projected by w_hr if there is one."""
    h, c = state
    i, f, g, o = chunk(x + F.linear(h, w_hh, b_hh), 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    h = sigmoid(o) * tanh(c)
    return (h if w_hr is None else F.linear(h, w_hr)), c


def gru_step(x: Tensor, state: State, w_hh: Any, b_hh: Any = None) -> State:
    """n = tanh(xₙ + σ(r) · hₙ);  h ← n + σ(z) · (h - n)."""
    (h,) = state
    reset, update, new = chunk(x, 3, -1)
    h_reset, h_update, h_new = chunk(F.linear(h, w_hh, b_hh), 3, -1)
    candidate = tanh(new + sigmoid(reset + h_reset) * h_new)
    return (candidate + sigmoid(update + h_update) * (h - candidate),)


def tanh_step(x: Tensor, state: State, w_hh: Any, b_hh: Any = None) -> State:
    """h ← tanh(x + W h + b)."""
    return (tanh(x + F.linear(state[0], w_hh, b_hh)),)


def relu_step(x: Tensor, state: State, w_hh: Any, b_hh: Any = None) -> State:
    """h ← max(0, x + W h + b)."""
    return (relu(x + F.linear(state[0], w_hh, b_hh)),)


def lstm_cell(
    input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """One step of an LSTM: from (n, k) and (h, c) to the new (h, c).

    Paper: Hochreiter and Schmidhuber, Long short-term memory, 1997.

    >>> h, c = lstm_cell(ones(1, 2), (zeros(1, 1), ones(1, 1)), zeros(4, 2), zeros(4, 1))
    >>> c
    tensor([[0.5000]])
    """
    h, c = lstm_step(F.linear(input, w_ih, b_ih), tuple(hx), w_hh, b_hh)
    return h, c


def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """One step of a GRU: from (n, k) and h to the new h.

    Paper: Cho et al., Learning phrase representations using RNN encoder-decoder, 2014.

    >>> gru_cell(ones(1, 2), ones(1, 1), zeros(3, 2), zeros(3, 1))
    tensor([[0.5000]])
    """
    return gru_step(F.linear(input, w_ih, b_ih), (hx,), w_hh, b_hh)[0]


def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """One step of the simplest network: h ← tanh(W_ih x + b_ih + W_hh h + b_hh).

    >>> rnn_tanh_cell(ones(1, 2), ones(1, 1), zeros(1, 2), ones(1, 1))
    tensor([[0.7616]])
    """
    return tanh_step(F.linear(input, w_ih, b_ih), (hx,), w_hh, b_hh)[0]


def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The same with a ReLU: h ← max(0, W_ih x + b_ih + W_hh h + b_hh).

    >>> rnn_relu_cell(ones(1, 2), ones(1, 1), zeros(1, 2), ones(1, 1))
    tensor([[1.]])
    """
    return relu_step(F.linear(input, w_ih, b_ih), (hx,), w_hh, b_hh)[0]


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
            parts = split(F.linear(x, w_ih, b_ih), sizes)
            start = tuple(each[number] for each in states)
            outputs, end = direction(step, parts, start, w_hh, b_hh, *projection)
            seen.append(cat(outputs))
            last.append(end)
        x = seen[0] if len(seen) == 1 else cat(seen, -1)
        if layer < num_layers - 1:
            x = F.dropout(x, dropout, train)
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


def sequences(
    step: Step, packed: bool, arguments: tuple[Any, ...], states_of: Callable[[Any], State]
) -> tuple[Tensor, State]:
    """Read either of PyTorch's two lists of arguments, and run the network."""
    if packed:
        data, batch_sizes, hx, *settings = arguments
        return network(step, data, batch_sizes.tolist(), states_of(hx), *settings)
    input, hx, *settings, batch_first = arguments
    x = transpose(input, 0, 1) if batch_first else input
    if x.ndim != 3:
        raise ShapeError("rnn", "expected (time, n, k)", {"input": tuple(input.shape)})
    times, batch = x.shape[:2]
    if not times:
        raise ShapeError("rnn", "Expected sequence length to be larger than 0 in RNN")
    flat = reshape(x, (times * batch, -1))
    y, last = network(step, flat, [batch] * times, states_of(hx), *settings)
    y = reshape(y, (times, batch, -1))
    return (transpose(y, 0, 1) if batch_first else y), last


def lstm(
    input: Tensor, hx: Any, params: Any, has_biases: Any, num_layers: Any, dropout: Any,
    train: Any, bidirectional: Any, batch_first: Any,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Run an LSTM over sequences. Returns the outputs and the last h and c.

    Args:
        input: (time, n, k), or (n, time, k) with `batch_first`.
        hx: the first states (h, c), each (layers · directions, n, k).
        params: all weights in a row: w_ih, w_hh, b_ih, b_hh of each layer and direction.
        dropout: how much to leave out between layers while training.

    For sequences of different lengths the arguments are: data, batch_sizes, hx, params,
    has_biases, num_layers, dropout, train, bidirectional.

    Raises: ShapeError: states or weights do not fit.

    >>> weights = [zeros(4, 2), zeros(4, 1)]
    >>> start = (zeros(1, 1, 1), ones(1, 1, 1))
    >>> y, h, c = lstm(ones(3, 1, 2), start, weights, False, 1, 0.0, False, False, False)
    >>> c
    tensor([[[0.1250]]])
    """
    given = (
        input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first,
    )  # fmt: skip
    y, (h, c) = sequences(lstm_step, isinstance(hx, Tensor), given, tuple)
    return y, h, c


def one_state(step: Step, name: str, formula: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """Make the function of a network that has one state only."""

    def run(
        input: Tensor, hx: Any, params: Any, has_biases: Any, num_layers: Any, dropout: Any,
        train: Any, bidirectional: Any, batch_first: Any,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        given = (
            input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first,
        )  # fmt: skip
        y, (h,) = sequences(step, isinstance(params, Tensor), given, lambda state: (state,))
        return y, h

    run.__name__ = run.__qualname__ = name
    run.__doc__ = (
        f"Run {formula} over sequences. Returns the outputs and the last h.\n\n"
        "The arguments are those of `lstm`; `hx` is one tensor."
    )
    return run


gru = one_state(gru_step, "gru", "a GRU")
rnn_tanh = one_state(tanh_step, "rnn_tanh", "a network with h ← tanh(W_ih x + W_hh h + b)")
rnn_relu = one_state(relu_step, "rnn_relu", "a network with h ← max(0, W_ih x + W_hh h + b)")
