"""Each recurrent cell has one formula: all that steps through time computes it, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch import nn
from edutorch.backends import reference_only
from edutorch.nn.functional import rnn

N, K, INPUTS, TIMES = 3, 4, 5, 6

CELLS = {
    "lstm": (4, lambda x, hidden, h, c: tuple(rnn.lstm_gates(x + hidden, c))),
    "gru": (3, lambda x, hidden, h: (rnn.gru_gates(x, hidden, h),)),
    "rnn_tanh": (1, lambda x, hidden, h: (rnn.elman_cell(x, hidden, "tanh"),)),
    "rnn_relu": (1, lambda x, hidden, h: (rnn.elman_cell(x, hidden, "relu"),)),
}
"""For each network the number of gates, and its cell: (W_ih x + b, W_hh h + b, states)."""


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def exact(*shape):
    """Return eighths, whose products and sums are exact: no order of adding changes them."""
    return edutorch.randint(-8, 9, shape).double() / 8


@pytest.fixture(params=CELLS)
def network(request):
    """Return its name, its cell, an input at each time, states and weights, all exact."""
    edutorch.manual_seed(3)
    gates, cell = CELLS[request.param]
    states = [exact(N, K) for _ in range(2 if request.param == "lstm" else 1)]
    weights = [exact(gates * K, INPUTS), exact(gates * K, K), exact(gates * K), exact(gates * K)]
    with reference_only():
        yield request.param, cell, exact(TIMES, N, INPUTS), states, weights


def step(cell, x, states, w_ih, w_hh, b_ih, b_hh):
    return cell(x @ w_ih.T + b_ih, states[0] @ w_hh.T + b_hh, *states)


def assert_same(results, expected):
    for result, other in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result.detach().numpy(), other.detach().numpy())


def as_tuple(states):
    return states if isinstance(states, tuple) else (states,)


def module_of(name, suffix, weights):
    """Return the module of a network, `nn.LSTMCell` or `nn.LSTM`, with these weights."""
    settings = {"nonlinearity": name[4:]} if name.startswith("rnn") else {}
    module = getattr(nn, name[:4].rstrip("_").upper() + suffix)(INPUTS, K, **settings).double()
    for parameter, weight in zip(module.parameters(), weights, strict=True):
        parameter.data = weight
    return module


def as_argument(name, states):
    """Return states in the form in which a user passes them."""
    return tuple(states) if name == "lstm" else states[0]


def test_a_step_of_a_module_and_of_torch_level(network):
    name, cell, x, states, weights = network
    expected = step(cell, x[0], states, *weights)
    hx = as_argument(name, states)
    assert_same(as_tuple(module_of(name, "Cell", weights)(x[0], hx)), expected)
    assert_same(as_tuple(getattr(edutorch, f"{name}_cell")(x[0], hx, *weights)), expected)


@pytest.mark.parametrize("form", ["equal lengths", "packed", "torch level"])
def test_a_sequence_is_a_loop_of_steps(network, form):
    name, cell, x, states, weights = network
    weights[3] = weights[3] * 0  # the op adds both biases to x at once: another order
    outputs, now = [], tuple(states)
    for t in range(TIMES):
        now = step(cell, x[t], now, *weights)
        outputs.append(now[0])
    starts = as_argument(name, [state[None] for state in states])
    layer = module_of(name, "", weights)
    if form == "torch level":
        y, *last = getattr(edutorch, name)(x, starts, weights, True, 1, 0.0, False, False, False)
    elif form == "packed":
        packed = nn.utils.rnn.pack_padded_sequence(x, edutorch.tensor([TIMES] * N))
        y, last = layer(packed, starts)
        y, _ = nn.utils.rnn.pad_packed_sequence(y)
    else:
        y, last = layer(x, starts)
    last = last if isinstance(last, list | tuple) else [last]
    assert_same([y], [edutorch.stack(outputs)])
    assert_same([state[0] for state in last], now)


def test_the_loops_and_the_op_have_the_same_gradients(network, monkeypatch):
    name, _, x, states, weights = network

    def gradients():
        layer = module_of(name, "", weights)
        inputs = x.clone().requires_grad_()
        y, _ = layer(inputs, as_argument(name, [state[None] for state in states]))
        return edutorch.autograd.grad((y * y.cos()).sum(), [inputs, *layer.parameters()])

    by_op = gradients()
    monkeypatch.setattr(rnn, "can_use_sequence_op", lambda *_: False)
    for one, other in zip(by_op, gradients(), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-14)


def test_the_formula_of_an_lstm():
    edutorch.manual_seed(0)
    x, c = exact(N, 4 * K).numpy(), exact(N, K).numpy()
    i, f, u, o = np.split(x, 4, axis=-1)
    new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(u)
    expected = sigmoid(o) * np.tanh(new_c), new_c
    np.testing.assert_allclose(rnn.lstm_gates(x, c), expected, rtol=1e-14)
