"""Recurrent layers, cells and packed sequences against PyTorch."""

from __future__ import annotations

import math

import numpy as np
import pytest

import edutorch
from edutorch import nn
from edutorch.nn.utils import rnn
from tests.nn.compare import assert_close, carry, ours_of
from tests.trials import tried

SETTINGS = [
    {}, {"num_layers": 2, "bias": False}, {"bidirectional": True}, {"batch_first": True},
    {"num_layers": 2, "bidirectional": True, "batch_first": True},
]  # fmt: skip
LAYERS = [
    *((name, setting) for name in ("RNN", "LSTM", "GRU") for setting in SETTINGS),
    ("RNN", {"nonlinearity": "relu"}), ("LSTM", {"proj_size": 2}),
    ("LSTM", {"proj_size": 2, "num_layers": 2, "bidirectional": True}),
]  # fmt: skip
SIZE, HIDDEN, TIMES, BATCH = 3, 4, 5, 2


def pair(torch, name, device, *args, **settings):
    """Return our layer and PyTorch's, with the same weights."""
    theirs = getattr(torch.nn, name)(*args, **settings).double()
    ours = getattr(nn, name)(*args, **settings).double()
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(carry(theirs.state_dict(), device))
    return ours.to(device), theirs


def random_tensor(torch, *shape):
    return torch.randn(*shape, dtype=torch.float64)


def initial_states(torch, name, settings, *batch):
    runs = settings.get("num_layers", 1) * (2 if settings.get("bidirectional") else 1)
    h = random_tensor(torch, runs, *batch, settings.get("proj_size") or HIDDEN)
    return (h, random_tensor(torch, runs, *batch, HIDDEN)) if name == "LSTM" else h


def to_ours(states, device):
    return (
        tuple(ours_of(state, device, True) for state in states)
        if isinstance(states, tuple)
        else ours_of(states, device, True)
    )


def assert_same_gradients(ours, theirs, mine, x, actual, expected):
    """Backpropagate an asymmetric gradient through both, and compare the results."""
    for outputs, library in ((actual, edutorch), (expected, None)):
        total = 0
        for output in outputs:
            weights = np.cos(np.arange(math.prod(output.shape))).reshape(tuple(output.shape))
            made = output.new_tensor(weights) if library is None else edutorch.tensor(weights)
            total = total + (output * made.to(output.device)).sum()
        total.backward()
    for a, b in zip(mine, x, strict=True):
        assert_close(a.grad, b.grad, "input")
    for a, (name, b) in zip(ours.parameters(), theirs.named_parameters(), strict=True):
        assert_close(a.grad, b.grad, name)


@tried("case", ["states", "no states", "one sequence"])
@pytest.mark.parametrize(("name", "settings"), LAYERS, ids=str)
def test_layers(name, settings, case, device, torch):
    torch.manual_seed(0)
    ours, theirs = pair(torch, name, device, SIZE, HIDDEN, **settings)
    batch = () if case == "one sequence" else (BATCH,)
    shape = (*batch, TIMES) if settings.get("batch_first") else (TIMES, *batch)
    x = random_tensor(torch, *shape, SIZE).requires_grad_()
    mine = ours_of(x, device, True)
    states = None if case == "no states" else initial_states(torch, name, settings, *batch)
    expected = theirs(x, states)
    actual = ours(mine, None if states is None else to_ours(states, device))
    assert_close(actual, expected)
    last = (expected[1],) if not isinstance(expected[1], tuple) else expected[1]
    own = (actual[1],) if not isinstance(actual[1], tuple) else actual[1]
    assert_same_gradients(ours, theirs, [mine], [x], (actual[0], *own), (expected[0], *last))


@tried("ordered", [True, False])
@tried("states", [True, False])
@pytest.mark.parametrize(("name", "settings"), LAYERS, ids=str)
def test_packed_sequences(name, settings, states, ordered, device, torch):
    torch.manual_seed(1)
    ours, theirs = pair(torch, name, device, SIZE, HIDDEN, **settings)
    lengths = [4, 3, 3, 1] if ordered else [3, 1, 4, 3]
    x = random_tensor(torch, 4, 4, SIZE).requires_grad_()
    mine = ours_of(x, device, True)
    hx = initial_states(torch, name, settings, 4) if states else None
    pack = torch.nn.utils.rnn.pack_padded_sequence
    y, last = theirs(pack(x, lengths, enforce_sorted=ordered), hx)
    own, end = ours(
        rnn.pack_padded_sequence(mine, lengths, enforce_sorted=ordered),
        to_ours(hx, device) if states else None,
    )
    assert isinstance(own, rnn.PackedSequence)
    assert_close(own.data, y.data)
    assert_close(end, last)
    expected, sizes = torch.nn.utils.rnn.pad_packed_sequence(y)
    actual, own_sizes = rnn.pad_packed_sequence(own)
    assert_close(actual, expected)
    assert own_sizes.tolist() == sizes.tolist()
    assert_same_gradients(ours, theirs, [mine], [x], [actual], [expected])


@pytest.mark.parametrize("batch", [(), (BATCH,)])
@pytest.mark.parametrize(
    ("name", "settings"),
    [("RNNCell", {}), ("RNNCell", {"nonlinearity": "relu"}), ("RNNCell", {"bias": False}),
     ("LSTMCell", {}), ("LSTMCell", {"bias": False}), ("GRUCell", {}),
     ("GRUCell", {"bias": False})],
    ids=str,
)  # fmt: skip
def test_cells(name, settings, batch, device, torch):
    torch.manual_seed(2)
    ours, theirs = pair(torch, name, device, SIZE, HIDDEN, **settings)
    x = random_tensor(torch, *batch, SIZE).requires_grad_()
    mine = ours_of(x, device, True)
    h = random_tensor(torch, *batch, HIDDEN)
    hx = (h, random_tensor(torch, *batch, HIDDEN)) if name == "LSTMCell" else h
    assert_close(ours(mine), theirs(x))
    actual, expected = ours(mine, to_ours(hx, device)), theirs(x, hx)
    assert_close(actual, expected)
    if name != "LSTMCell":
        actual, expected = (actual,), (expected,)
    assert_same_gradients(ours, theirs, [mine], [x], actual, expected)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "LSTMCell"])
def test_start_is_uniform(name):
    edutorch.manual_seed(0)
    layer = getattr(nn, name)(50, 100)
    for weight in layer.parameters():
        assert weight.abs().max().item() <= 0.1
        assert abs(weight.std().item() - 0.1 / math.sqrt(3)) < 0.006
        assert abs(weight.mean().item()) < 0.012


def test_dropout_acts_between_layers_and_only_in_training():
    edutorch.manual_seed(0)
    layer, x = nn.GRU(3, 50, 2, dropout=0.5), edutorch.randn(4, 2, 3)
    assert not edutorch.equal(layer(x)[0], layer(x)[0])
    layer.eval()
    assert edutorch.equal(layer(x)[0], layer(x)[0])
    with pytest.warns(UserWarning, match="num_layers greater than 1, but got dropout=0.5"):
        nn.GRU(3, 4, dropout=0.5)


def test_differentiable_twice(device):
    edutorch.manual_seed(0)
    layer = nn.LSTM(2, 2, bidirectional=True).double().to(device)
    x = edutorch.randn(3, 1, 2, dtype=edutorch.float64, device=device, requires_grad=True)
    assert edutorch.autograd.gradgradcheck(lambda x: layer(x)[0], (x,))


def test_the_parts_of_a_layer():
    layer = nn.LSTM(3, 4, 2)
    assert [len(weight) for weight in layer.all_weights] == [4, 4]
    assert layer.flatten_parameters() is None
    assert nn.RNNBase("LSTM", 3, 4).extra_repr() == "3, 4"


def test_the_functions_take_the_weights_of_a_layer(device):
    edutorch.manual_seed(0)
    layer = nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True).to(device)
    x, h = edutorch.randn(2, 5, 3, device=device), edutorch.zeros(4, 2, 4, device=device)
    y, (a, b) = layer(x)
    settings = (True, 2, 0.0, True, True, True)
    again = edutorch.lstm(x, (h, h), layer._flat_weights, *settings)
    for one, other in zip((y, a, b), again, strict=True):
        assert edutorch.equal(one, other)


MISTAKES = [
    (lambda: nn.LSTM(0, 3), ValueError, "input_size must be greater than zero"),
    (lambda: nn.LSTM(3, 0), ValueError, "hidden_size must be greater than zero"),
    (lambda: nn.LSTM(3, 3, 0), ValueError, "num_layers must be greater than zero"),
    (lambda: nn.LSTM(3, 3, proj_size=3), ValueError, "has to be smaller than hidden_size"),
    (lambda: nn.LSTM(3, 3, proj_size=-1), ValueError, "positive integer or zero"),
    (lambda: nn.GRU(3, 3, proj_size=1), ValueError, "only supported for LSTM"),
    (lambda: nn.GRU(3, 3, depth=1), TypeError, "unexpected keyword argument 'depth'"),
    (lambda: nn.LSTM(3, 3, dropout=2), ValueError, "dropout should be a number in range"),
    (lambda: nn.LSTM(3, 3, bias=1), TypeError, "bias should be of type bool, got: int"),
    (lambda: nn.LSTM(3.0, 3), TypeError, "argument `input_size` must be int, not float"),
    (lambda: nn.RNN(3, 3, nonlinearity="sin"), ValueError, "Unknown nonlinearity 'sin'"),
    (lambda: nn.RNNBase("CNN", 3, 3), ValueError, "Unrecognized RNN mode: CNN"),
    (lambda: nn.LSTM(3, 4)(edutorch.ones(2)), ValueError, "2D or 3D, got 1D instead"),
    (lambda: nn.LSTM(3, 4)(edutorch.ones(2, 2, 5)), RuntimeError, "Expected 3, got 5"),
    (lambda: nn.LSTM(3, 4)(edutorch.ones(0, 2, 3)), RuntimeError, "to be larger than 0"),
    (lambda: nn.LSTM(3, 4)(edutorch.ones(2, 2, 3).double()), ValueError, "does not match weight"),
    (lambda: nn.GRU(3, 4)(edutorch.ones(2, 2, 3), edutorch.ones(1, 1, 4)), RuntimeError,
     r"size \(1, 2, 4\), got \[1, 1, 4\]"),
    (lambda: nn.GRU(3, 4)(edutorch.ones(2, 3), edutorch.ones(1, 1, 4)), RuntimeError,
     "hx should also be 2-D"),
    (lambda: nn.LSTM(3, 4)(edutorch.ones(1, 2, 3), [edutorch.ones(1, 2, n) for n in (4, 5)]),
     RuntimeError, r"hidden\[1\] size \(1, 2, 4\), got \[1, 2, 5\]"),
    (lambda: nn.GRUCell(3, 4)(edutorch.ones(1, 1, 3)), ValueError, "1D or 2D, got 3D instead"),
    (lambda: nn.GRUCell(3, 4)(edutorch.ones(2, 5)), RuntimeError, "got 5 expected 3"),
    (lambda: nn.GRUCell(3, 4)(edutorch.ones(2, 3), edutorch.ones(1, 4)), RuntimeError,
     "batch size 2 doesn't match hidden0 batch size 1"),
    (lambda: nn.GRUCell(3, 4)(edutorch.ones(2, 3), edutorch.ones(2, 5)), RuntimeError,
     "inconsistent hidden_size: got 5, expected 4"),
    (lambda: nn.RNNCell(3, 4, nonlinearity="sin")(edutorch.ones(3)), RuntimeError,
     "Unknown nonlinearity: sin"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), MISTAKES)
def test_mistakes(call, error, text):
    with pytest.raises(error, match=text):
        call()


# Packing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("trailing", [(), (3,), (2, 3)])
@pytest.mark.parametrize("batch_first", [True, False])
def test_packing_and_padding(batch_first, trailing, device, torch):
    torch.manual_seed(3)
    theirs = torch.nn.utils.rnn
    x = random_tensor(torch, 3, 3, *trailing)
    mine = ours_of(x, device)
    for lengths in ([3, 2, 2], torch.tensor([2, 1, 2]), [1, 3, 3]):
        settings = {"batch_first": batch_first, "enforce_sorted": False}
        own = lengths if isinstance(lengths, list) else ours_of(lengths, "cpu")
        expected = theirs.pack_padded_sequence(x, lengths, **settings)
        actual = rnn.pack_padded_sequence(mine, own, **settings)
        for a, b in zip(actual, expected, strict=True):
            assert_close(a, b)
        assert str(actual.batch_sizes.device) == "cpu"
        for how in ({}, {"padding_value": -1.0, "total_length": 5}):
            back = rnn.pad_packed_sequence(actual, batch_first, **how)
            assert_close(back, theirs.pad_packed_sequence(expected, batch_first, **how))
        assert_close(rnn.unpack_sequence(actual), theirs.unpack_sequence(expected))


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_padding_sequences(batch_first, side, device, torch):
    theirs = torch.nn.utils.rnn
    for trailing in ((), (2,)):
        x = [random_tensor(torch, n, *trailing) for n in (2, 4, 0, 1)]
        mine = [ours_of(sequence, device) for sequence in x]
        settings = {"padding_value": 7.0, "padding_side": side}
        expected = theirs.pad_sequence(x, batch_first, **settings)
        actual = rnn.pad_sequence(mine, batch_first, **settings)
        assert_close(actual, expected)
        if side == "right":
            cut = rnn.unpad_sequence(actual, edutorch.tensor([2, 4, 0, 1]), batch_first)
            assert_close(cut, x)
    whole = [edutorch.tensor([1, 2]), edutorch.tensor([3])]
    assert rnn.pad_sequence(whole, True).tolist() == [[1, 2], [3, 0]]
    packed = rnn.pack_sequence(
        [sequence.double() for sequence in reversed(whole)], enforce_sorted=False
    )
    assert packed.data.tolist() == [1, 3, 2]


def test_a_packed_sequence_moves(device):
    packed = rnn.pack_sequence([edutorch.ones(1), edutorch.ones(2)], enforce_sorted=False)
    moved = packed.to(device)
    assert str(moved.data.device).startswith(device)
    assert str(moved.batch_sizes.device) == "cpu"
    assert moved.cpu().data.tolist() == packed.data.tolist()
    assert packed.to(edutorch.float32) is packed
    assert packed.is_cuda == (device == "cuda")
    for name in ("double", "float", "half", "long", "int", "short"):
        assert getattr(packed, name)().data.dtype is getattr(edutorch, name)
    assert packed.char().data.dtype is edutorch.int8
    assert packed.byte().data.dtype is edutorch.uint8
    assert packed.is_pinned() is packed.data.is_pinned()
    pairs = rnn.PackedSequence((packed.data, packed.batch_sizes))
    assert pairs.data is packed.data and pairs.sorted_indices is None


PACKING_MISTAKES = [
    (lambda x: rnn.pack_padded_sequence(x, [1, 2, 3, 3]), RuntimeError, "enforce_sorted=False"),
    (lambda x: rnn.pack_padded_sequence(x, [3, 2, 1]), RuntimeError,
     r"got 3 \(batch_size=4\)[\s\S]*batch_first=True"),
    (lambda x: rnn.pack_padded_sequence(x, []), RuntimeError, r"got 0 \(batch_size=4\)"),
    (lambda x: rnn.pack_padded_sequence(x, [3, 2, 1, 0]), RuntimeError, "greater than 0"),
    (lambda x: rnn.pack_padded_sequence(x, [4, 2, 1, 1]), RuntimeError, "only 3 times"),
    (lambda x: rnn.pad_packed_sequence(rnn.pack_padded_sequence(x, [3] * 4), total_length=1),
     ValueError, "total_length=1 and max sequence length being 3"),
    (lambda x: rnn.pad_sequence([]), RuntimeError, "empty list of sequences"),
    (lambda x: rnn.pad_sequence(3), RuntimeError, "Expected iterable"),
    (lambda x: rnn.pad_sequence([x, x[0]]), RuntimeError, "all axes but the first"),
    (lambda x: rnn.pad_sequence([x], padding_side="top"), RuntimeError, "left or right"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), PACKING_MISTAKES)
def test_packing_mistakes(call, error, text):
    with pytest.raises(error, match=text):
        call(edutorch.ones(3, 4))


@pytest.mark.parametrize(
    "settings", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False}]
)
def test_names_of_the_weights(settings, torch):
    ours, theirs = nn.LSTM(3, 4, **settings), torch.nn.LSTM(3, 4, **settings)
    assert ours._flat_weights_names == theirs._flat_weights_names
    assert [w.shape for w in ours._flat_weights] == [tuple(w.shape) for w in theirs._flat_weights]
