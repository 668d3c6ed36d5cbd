"""Recurrent networks: RNN, GRU, LSTM, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..table import onnx_op
from ..values import F, NotKnownError, Outputs, Proxy, Value, ints, torch

Function = Callable[[Value], Value]
States = tuple[Value, ...]
Step = Callable[[Value, States], States]

NEED_ALPHA = {
    "affine": 1.0, "leakyrelu": 0.01, "thresholdedrelu": 1.0, "scaledtanh": 1.0,
    "hardsigmoid": 0.2, "elu": 1.0,
}  # fmt: skip
NEED_BETA = {"affine": 0.0, "scaledtanh": 1.0, "hardsigmoid": 0.5}
"""Activations with constants of their own, and what these are by default."""


def activation(name: str, alpha: float, beta: float) -> Function:
    """Return an activation by ONNX's name."""
    table: dict[str, Function] = {
        "relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
        "softsign": F.softsign, "softplus": F.softplus,
        "affine": lambda x: x * alpha + beta,
        "leakyrelu": lambda x: F.leaky_relu(x, alpha),
        "thresholdedrelu": lambda x: torch.where(x > alpha, x, torch.zeros_like(x)),
        "scaledtanh": lambda x: torch.tanh(x * beta) * alpha,
        "hardsigmoid": lambda x: torch.clamp(x * alpha + beta, 0, 1),
        "elu": lambda x: F.elu(x, alpha),
    }  # fmt: skip
    return table[name]


def activations_of(
    names: Sequence[str] | None, default: list[str], count: int,
    constants: tuple[Sequence[float] | None, Sequence[float] | None],
) -> list[list[Function]]:  # fmt: skip
    """Return the activations of each direction.

    Args:
        constants: alpha and beta of those that have them, in order.
    """
    alphas, betas = (list(values or []) for values in constants)
    chosen = []
    for name in names or default * count:
        key = name.lower()
        alpha = alphas.pop(0) if key in NEED_ALPHA and alphas else NEED_ALPHA.get(key, 0.0)
        beta = betas.pop(0) if key in NEED_BETA and betas else NEED_BETA.get(key, 0.0)
        chosen.append(activation(key, alpha, beta))
    size = len(default)
    return [chosen[i * size : (i + 1) * size] for i in range(count)]


def run_direction(
    step: Step, X: Value, states: States, lengths: list[int] | None, backwards: bool
) -> tuple[Value, States]:
    """Run a cell over all times; a sample whose length is reached keeps its state.

    Args:
        X: inputs, of shape (time, batch, features).

    Returns: the first state at all times, and the last states.
    """
    steps = X.shape[0]
    rows: list[Any] = [None] * steps
    ends = None if lengths is None else torch.tensor(lengths).unsqueeze(-1)
    for t in reversed(range(steps)) if backwards else range(steps):
        news = step(X[t], states)
        if ends is None:
            states, rows[t] = news, news[0]
            continue
        running = ends > t
        states = tuple(
            torch.where(running, new, old) for new, old in zip(news, states, strict=True)
        )
        rows[t] = torch.where(running, news[0], torch.zeros_like(news[0]))
    return torch.stack(rows), states


def run_layer(
    cells: list[Step], X: Value, states: States, sequence_lens: Value, options: tuple[str, int]
) -> tuple[Value, ...]:
    """Run one or two directions.

    Args:
        cells: of each direction.
        states: initial states, of shape (directions, batch, hidden).
        options: direction, layout.

    Returns: the outputs at all times, and the last states, in the layout.
    """
    direction, layout = options
    if layout:
        X, states = X.transpose(0, 1), tuple(state.transpose(0, 1) for state in states)
    lengths = None if sequence_lens is None else ints(sequence_lens)
    if lengths is not None and all(length == X.shape[0] for length in lengths):
        lengths = None
    outputs, lasts = [], []
    for i, step in enumerate(cells):
        backwards = direction == "reverse" or i == 1
        rows, last = run_direction(step, X, tuple(s[i] for s in states), lengths, backwards)
        outputs.append(rows)
        lasts.append(last)
    Y = torch.stack(outputs, 1)
    finals = [torch.stack(list(column)) for column in zip(*lasts, strict=True)]
    if layout:
        return Y.permute(2, 0, 1, 3), *(final.transpose(0, 1) for final in finals)
    return Y, *finals


def initial(state: Value, X: Value, R: Value, layout: int) -> Value:
    """Return an initial state; zeros where there is none."""
    if state is not None:
        return state
    count, hidden, batch = R.shape[0], R.shape[-1], X.shape[0 if layout else 1]
    sizes = [batch, count, hidden] if layout else [count, batch, hidden]
    return torch.zeros(sizes, dtype=X.dtype)


def only_tensors(X: Value) -> None:
    """Raise NotKnownError for a proxy: a recurrent network is one node, not one for each time."""
    if isinstance(X, Proxy):
        raise NotKnownError


def limited(function: Function, clip: float | None) -> Function:
    """Return an activation whose input is kept between -clip and clip."""
    return function if clip is None else lambda x: function(torch.clamp(x, -clip, clip))


@onnx_op("RNN")
def rnn(
    X: Value, W: Value, R: Value, B: Value = None, sequence_lens: Value = None,
    initial_h: Value = None, *, activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None, activations: Sequence[str] | None = None,
    clip: float | None = None, direction: str = "forward", hidden_size: int | None = None,
    layout: int = 0,
) -> Outputs:  # fmt: skip
    """A plain recurrent network: h = f(W x + R h + b)."""
    only_tensors(X)
    functions = activations_of(activations, ["Tanh"], len(W), (activation_alpha, activation_beta))

    def cell(i: int) -> Step:
        f = limited(functions[i][0], clip)
        bias = 0 if B is None else sum(torch.chunk(B[i], 2))
        return lambda x, states: (f(x @ W[i].t() + states[0] @ R[i].t() + bias),)

    states = (initial(initial_h, X, R, layout),)
    cells = [cell(i) for i in range(len(W))]
    return run_layer(cells, X, states, sequence_lens, (direction, layout))


@onnx_op("GRU")
def gru(
    X: Value, W: Value, R: Value, B: Value = None, sequence_lens: Value = None,
    initial_h: Value = None, *, activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None, activations: Sequence[str] | None = None,
    clip: float | None = None, direction: str = "forward", hidden_size: int | None = None,
    layout: int = 0, linear_before_reset: int = 0,
) -> Outputs:  # fmt: skip
    """A gated recurrent unit: gates z (update) and r (reset), candidate h."""
    only_tensors(X)
    constants = (activation_alpha, activation_beta)
    functions = activations_of(activations, ["Sigmoid", "Tanh"], len(W), constants)

    def cell(i: int) -> Step:
        f, g = (limited(function, clip) for function in functions[i])
        bias = torch.zeros([6 * R.shape[-1]], dtype=X.dtype) if B is None else B[i]
        input_bias, hidden_bias = torch.chunk(bias, 2)
        recurrent = R[i].t()
        zr, candidate = recurrent.split([2 * R.shape[-1], R.shape[-1]], -1)
        zr_bias, candidate_bias = hidden_bias.split([2 * R.shape[-1], R.shape[-1]])

        def step(x: Value, states: States) -> States:
            h = states[0]
            x_z, x_r, x_h = torch.chunk(x @ W[i].t() + input_bias, 3, -1)
            h_z, h_r = torch.chunk(h @ zr + zr_bias, 2, -1)
            z, r = f(x_z + h_z), f(x_r + h_r)
            if linear_before_reset:
                new = g(x_h + r * (h @ candidate + candidate_bias))
            else:
                new = g(x_h + (r * h) @ candidate + candidate_bias)
            return ((1 - z) * new + z * h,)

        return step

    states = (initial(initial_h, X, R, layout),)
    cells = [cell(i) for i in range(len(W))]
    return run_layer(cells, X, states, sequence_lens, (direction, layout))


@onnx_op("LSTM")
def lstm(
    X: Value, W: Value, R: Value, B: Value = None, sequence_lens: Value = None,
    initial_h: Value = None, initial_c: Value = None, P: Value = None, *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None, activations: Sequence[str] | None = None,
    clip: float | None = None, direction: str = "forward", hidden_size: int | None = None,
    input_forget: int = 0, layout: int = 0,
) -> Outputs:  # fmt: skip
    """Long short-term memory: gates i, o, f and the candidate c; P lets gates look at the cell."""
    only_tensors(X)
    constants = (activation_alpha, activation_beta)
    functions = activations_of(activations, ["Sigmoid", "Tanh", "Tanh"], len(W), constants)

    def cell(i: int) -> Step:
        f_gate, g, h_out = (limited(function, clip) for function in functions[i])
        bias = 0 if B is None else sum(torch.chunk(B[i], 2))
        p_i, p_o, p_f = (0, 0, 0) if P is None else torch.chunk(P[i], 3)

        def step(x: Value, states: States) -> States:
            h, c = states
            gates = x @ W[i].t() + h @ R[i].t() + bias
            i_gate, o_gate, forget, new = torch.chunk(gates, 4, -1)
            i_gate = f_gate(i_gate + p_i * c)
            forget = 1 - i_gate if input_forget else f_gate(forget + p_f * c)
            c = forget * c + i_gate * g(new)
            return f_gate(o_gate + p_o * c) * h_out(c), c

        return step

    states = (initial(initial_h, X, R, layout), initial(initial_c, X, R, layout))
    cells = [cell(i) for i in range(len(W))]
    return run_layer(cells, X, states, sequence_lens, (direction, layout))
