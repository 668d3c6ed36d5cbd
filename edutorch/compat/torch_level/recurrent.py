"""Recurrent networks as `torch.<name>`: one step, or whole sequences.

The steps and the loops over time are in [functional](../functional/rnn.py); the functions here
have PyTorch's argument lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from edutorch.core.tensor import Tensor
from edutorch.errors import ShapeError
from edutorch.nn import functional as F
from edutorch.nn.functional.rnn import (
    LayerSettings,
    State,
    Step,
    cell_step,
    gru_step,
    lstm_step,
    relu_step,
    run_recurrent,
    tanh_step,
)  # fmt: skip
from edutorch.ops import reshape, transpose

__all__ = [
    "gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh",
    "rnn_tanh_cell",
]  # fmt: skip


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
    h, c = cell_step(lstm_step, input, tuple(hx), w_ih, w_hh, b_ih, b_hh)
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
    """One step of an Elman RNN: h ← tanh(W_ih x + b_ih + W_hh h + b_hh).

    >>> rnn_tanh_cell(ones(1, 2), ones(1, 1), zeros(1, 2), ones(1, 1))
    tensor([[0.7616]])
    """
    return tanh_step(F.linear(input, w_ih, b_ih), (hx,), w_hh, b_hh)[0]


def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """One step of an Elman RNN with ReLU: h ← max(0, W_ih x + b_ih + W_hh h + b_hh).

    >>> rnn_relu_cell(ones(1, 2), ones(1, 1), zeros(1, 2), ones(1, 1))
    tensor([[1.]])
    """
    return relu_step(F.linear(input, w_ih, b_ih), (hx,), w_hh, b_hh)[0]


Argument = Tensor | Sequence[Tensor] | float
"""An argument that stands for another thing in each of PyTorch's two argument lists."""


# Sequences -----------------------------------------------------------------------------------


def run_sequences(
    step: Step, packed: bool, arguments: tuple[Any, ...], to_states: Callable[[Any], State]
) -> tuple[Tensor, State]:
    """Read either of PyTorch's two argument lists, and run the network."""
    if packed:
        data, sizes, hx, params, *settings = arguments
        return run_recurrent(
            step, data, sizes.tolist(), to_states(hx), params, LayerSettings(*settings)
        )
    # The five settings between are the same in both lists.
    input, hx, params, *settings, batch_first = arguments
    x = transpose(input, 0, 1) if batch_first else input
    if x.ndim != 3:
        raise ShapeError("rnn", "expected (time, n, k)", {"input": tuple(input.shape)})
    steps, batch, features = x.shape
    if not steps:
        raise ShapeError("rnn", "Expected sequence length to be larger than 0 in RNN")
    flat = reshape(x, (steps * batch, features))
    y, last = run_recurrent(
        step, flat, [batch] * steps, to_states(hx), params, LayerSettings(*settings)
    )
    y = reshape(y, (steps, batch, y.shape[-1]))
    return (transpose(y, 0, 1) if batch_first else y), last


def lstm(
    input: Tensor, hx: Tensor | Sequence[Tensor], params: Tensor | Sequence[Tensor],
    has_biases: Argument, num_layers: Argument, dropout: Argument, train: Argument,
    bidirectional: Argument, batch_first: Argument,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Run an LSTM over sequences. Returns the outputs and the last h and c.

    Args:
        input: (time, n, k), or (n, time, k) with `batch_first`.
        hx: the initial states (h, c), each (layers · directions, n, k).
        params: the weights w_ih, w_hh, b_ih, b_hh of each layer and direction, in order.
        dropout: the dropout probability between layers in training.

    For packed sequences the arguments are: data, batch_sizes, hx, params,
    has_biases, num_layers, dropout, train, bidirectional.

    Raises: ShapeError: states or weights do not fit.

    >>> weights = [zeros(4, 2), zeros(4, 1)]
    >>> start = (zeros(1, 1, 1), ones(1, 1, 1))
    >>> y, h, c = lstm(ones(3, 1, 2), start, weights, False, 1, 0.0, False, False, False)
    >>> c
    tensor([[[0.1250]]])
    """
    arguments = (
        input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first,
    )  # fmt: skip
    # In the packed list the second argument is `batch_sizes`, a tensor; else it is the pair (h, c).
    y, (h, c) = run_sequences(lstm_step, isinstance(hx, Tensor), arguments, tuple)
    return y, h, c


def make_single_state(step: Step, name: str, formula: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """Make the function of a network with a single state."""

    def run(
        input: Tensor, hx: Tensor | Sequence[Tensor], params: Tensor | Sequence[Tensor],
        has_biases: Argument, num_layers: Argument, dropout: Argument, train: Argument,
        bidirectional: Argument, batch_first: Argument,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        arguments = (
            input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first,
        )  # fmt: skip
        y, (h,) = run_sequences(step, isinstance(params, Tensor), arguments, lambda state: (state,))
        return y, h

    run.__name__ = run.__qualname__ = name
    run.__doc__ = (
        f"Run {formula} over sequences. Returns the outputs and the last h.\n\n"
        "The arguments are those of `lstm`; `hx` is one tensor."
    )
    return run


gru = make_single_state(gru_step, "gru", "a GRU")
rnn_tanh = make_single_state(tanh_step, "rnn_tanh", "a network with h ← tanh(W_ih x + W_hh h + b)")
rnn_relu = make_single_state(
    relu_step, "rnn_relu", "a network with h ← max(0, W_ih x + W_hh h + b)"
)
