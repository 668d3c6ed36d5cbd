"""Layers, losses and recurrent networks as `torch.<name>`, with PyTorch's argument lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch import torch_level
from tests.nn.compare import assert_close

RANDOM = np.random.default_rng(0)


def rand(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape)


def positive(*shape: int) -> np.ndarray:
    return RANDOM.uniform(0.1, 0.9, size=shape)


def make_tensors(library: Any, value: Any, place: dict[str, str]) -> Any:
    """Convert arrays, also those in lists, to tensors."""
    if isinstance(value, np.ndarray):
        return library.tensor(value, **place)
    if isinstance(value, tuple | list):
        return type(value)(make_tensors(library, item, place) for item in value)
    return value


def leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in leaves(item)]
    return [value] if hasattr(value, "requires_grad_") and value.is_floating_point() else []


def as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def compare(torch: Any, name: str, *values: Any, device: str = "cpu", gradients: bool = True,
            count: int | None = None, **settings: Any) -> None:  # fmt: skip
    """Compare the results (the first `count`) and all gradients with PyTorch's."""
    results = []
    for library, place in ((torch, {}), (edutorch, {"device": device})):
        arguments = [make_tensors(library, value, place) for value in values]
        inputs = leaves(arguments) if gradients else []
        for input_ in inputs:
            input_.requires_grad_()
        outputs = as_tuple(getattr(library, name)(*arguments, **settings))[:count]
        total = 0.0
        for y in outputs:
            if y.requires_grad:
                weights = np.cos(np.arange(y.numel())).reshape(tuple(y.shape))
                total = total + (y * make_tensors(library, weights, place)).sum()
        if inputs:
            total.backward()  # type: ignore[union-attr]
        results.append((outputs, [input_.grad for input_ in inputs]))
    (expected, wanted), (actual, slopes) = results
    assert_close(actual, expected, name)
    for i, (slope, other) in enumerate(zip(slopes, wanted, strict=True)):
        if other is not None:
            assert_close(slope, other, f"gradient {i} of {name}")


def test_every_name_is_one_of_pytorchs(torch):
    for name in torch_level.__all__:
        assert hasattr(torch, name)
        assert hasattr(edutorch, name)


X, NUMBERS, STARTS = rand(4, 6), np.array([1, 2, 2, 0, 3, 1]), np.array([0, 2, 2])
SEQUENCE, FILTERS = rand(2, 4, 9), rand(6, 4, 3)
IMAGE, VOLUME = rand(2, 4, 5, 5), rand(1, 2, 4, 4, 4)
NORM = (0.1, 1e-5, False)

CALLS: list[tuple[Any, ...]] = [
    ("celu", X), ("selu", X), ("hardshrink", X, 0.3), ("prelu", X, np.array([0.3])),
    ("rrelu", X), ("threshold", X, 0.2, 3.0), ("dropout", X, 0.5, False),
    ("alpha_dropout", X, 0.0, True), ("feature_dropout", X, 1.0, True),
    ("feature_alpha_dropout", X, 1.0, True), ("native_dropout", X, 0.5, False),
    ("embedding", X, NUMBERS), ("embedding", X, NUMBERS, 2),
    ("layer_norm", X, (6,), rand(6), rand(6)), ("rms_norm", X, (6,), rand(6)),
    ("group_norm", SEQUENCE, 2, rand(4), rand(4)),
    ("batch_norm", X, rand(6), rand(6), None, None, True, *NORM),
    ("instance_norm", SEQUENCE, rand(4), rand(4), None, None, True, *NORM),
    ("norm_except_dim", VOLUME, 2, 0), ("norm_except_dim", VOLUME, 2, 2),
    ("norm_except_dim", VOLUME, 1, 4), ("norm_except_dim", VOLUME, 2, -1),
    ("constant_pad_nd", X, (1, 2), 3.0), ("conv1d", SEQUENCE, FILTERS),
    ("conv2d", IMAGE, rand(6, 4, 3, 3), None, 1, "same"), ("conv3d", VOLUME, rand(3, 2, 2, 2, 2)),
    ("conv_transpose1d", rand(2, 6, 5), FILTERS),
    ("conv_transpose2d", rand(1, 2, 4, 4), rand(2, 3, 2, 2)),
    ("conv_transpose3d", rand(1, 2, 3, 3, 3), rand(2, 3, 2, 2, 2)),
    ("conv_tbc", rand(9, 2, 4), rand(3, 4, 6), rand(6), 1),
    ("convolution", SEQUENCE, FILTERS, rand(6), (2,), (1,), (1,), False, (0,), 1),
    ("convolution", rand(2, 6, 9), FILTERS, rand(4), [2], [1], [1], True, [1], 1),
    ("convolution", IMAGE, rand(6, 4, 3, 3), None, (2, 1), (1, 0), (1, 1), False, (0, 0), 1),
    ("convolution", VOLUME, rand(3, 2, 2, 2, 2), None, (1, 1, 1), (0, 0, 0), (1, 1, 1), False,
     (0, 0, 0), 1),
    ("max_pool1d", SEQUENCE, 3, 1, 1, 1, True), ("max_pool1d_with_indices", SEQUENCE, 2),
    ("max_pool2d", IMAGE, 2), ("max_pool3d", VOLUME, 2), ("avg_pool1d", SEQUENCE, 2),
    ("adaptive_avg_pool1d", SEQUENCE, 2), ("adaptive_max_pool1d", SEQUENCE, 4),
    ("pixel_shuffle", rand(1, 8, 2, 2), 2), ("pixel_unshuffle", rand(1, 2, 4, 4), 2),
    ("channel_shuffle", rand(1, 8, 2, 2), 2), ("cosine_similarity", X, rand(4, 6)),
    ("pairwise_distance", X, rand(4, 6)), ("pdist", X), ("pdist", X, 1.0),
    ("bilinear", rand(2, 3), rand(2, 4), rand(5, 3, 4), rand(5)),
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[0])
def test_layers(call, device, torch):
    compare(torch, *call, device=device)


WITHOUT_GRADIENTS: list[tuple[Any, ...]] = [
    ("native_channel_shuffle", rand(1, 8, 2, 2), 2), ("celu_", X), ("selu_", X), ("relu_", X),
    ("rrelu_", X), ("threshold_", X, 0.2, 3.0), ("dropout_", X, 1.0, True),
    ("alpha_dropout_", X, 1.0, True), ("feature_dropout_", X, 1.0, True),
    ("feature_alpha_dropout_", X, 0.5, False), ("native_dropout", X, 1.0, True),
    ("embedding_renorm_", X, NUMBERS, 1.5, 2.0),
    ("batch_norm", X, None, None, np.zeros(6), np.ones(6), False, *NORM),
    ("instance_norm", SEQUENCE, None, None, np.zeros(4), np.ones(4), False, *NORM),
    ("native_layer_norm", X, (6,), rand(6), rand(6), 1e-5),
    ("native_group_norm", SEQUENCE, rand(4), rand(4), 2, 4, 9, 2, 1e-5),
    ("native_batch_norm", X, rand(6), rand(6), np.zeros(6), np.ones(6), True, 0.1, 1e-5),
    ("native_batch_norm", X, rand(6), rand(6), np.zeros(6), np.ones(6), False, 0.1, 1e-5),
]  # fmt: skip


@pytest.mark.parametrize("call", WITHOUT_GRADIENTS, ids=lambda call: call[0])
def test_what_has_no_gradient_to_compare(call, device, torch):
    tolerance = {"gradients": False, "device": device}
    if call[0] == "embedding_renorm_":
        ours, theirs = (make_tensors(lib, X, {}) for lib in (edutorch, torch))
        edutorch.embedding_renorm_(ours, edutorch.tensor(NUMBERS), 1.5, 2.0)
        torch.embedding_renorm_(theirs, torch.tensor(NUMBERS), 1.5, 2.0)
        assert_close(ours, theirs, rtol=1e-6)
        return
    compare(torch, *call, **tolerance)


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_embedding_bag(mode, device, torch):
    compare(torch, "embedding_bag", X, NUMBERS, STARTS, False, mode, device=device, count=2)
    y, _, sizes, rows = edutorch.embedding_bag(
        *(edutorch.tensor(argument, device=device) for argument in (X, NUMBERS, STARTS)),
        False,
        mode,
    )
    assert sizes.tolist() == [2, 0, 4]
    if mode == 2:
        assert rows.shape == y.shape
        assert rows[1].tolist() == [0] * 6
        picked = edutorch.tensor(X, device=device).gather(0, rows)
        assert (picked[0] == y[0]).all()


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_losses(reduction, device, torch):
    signs = np.sign(rand(4))
    calls: list[tuple[Any, ...]] = [
        ("poisson_nll_loss", X, positive(4, 6), True, True, 1e-8, reduction),
        ("hinge_embedding_loss", X[:, 0], signs, 1.0, reduction),
        ("cosine_embedding_loss", X, rand(4, 6), signs.astype("int64"), 0.1, reduction),
        ("margin_ranking_loss", X[:, 0], X[:, 1], signs, 0.2, reduction),
        ("triplet_margin_loss", X, rand(4, 6), rand(4, 6), 1.0, 2.0, 1e-6, True, reduction),
        ("binary_cross_entropy_with_logits", X, positive(4, 6), None, None, reduction),
        ("kl_div", X, positive(4, 6), reduction),
    ]
    for call in calls:
        compare(torch, *call, device=device)
    compare(torch, "kl_div", X, rand(4, 6), reduction, log_target=True, device=device)
    steps = np.log(np.full((5, 2, 3), 1 / 3))
    labels, sizes = np.array([[1, 2], [1, 1]]), (2, 2)
    for times in ((5, 4), [5, 4]):
        compare(torch, "ctc_loss", steps, labels, times, sizes, 0, reduction, device=device)


def test_a_reduction_without_a_name():
    with pytest.raises(ValueError, match="not a reduction"):
        edutorch.kl_div(edutorch.ones(2), edutorch.ones(2), 3)


# Recurrent networks --------------------------------------------------------------------------

BATCH, SIZE, HIDDEN = 3, 4, 5
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def weights(name: str, layers: int, directions: int, biases: bool, proj: int = 0) -> list[Any]:
    rows, state, made = GATES[name] * HIDDEN, proj or HIDDEN, []
    for layer in range(layers):
        for _ in range(directions):
            made += [rand(rows, state * directions if layer else SIZE) * 0.4]
            made += [rand(rows, state) * 0.4]
            made += [rand(rows), rand(rows)] if biases else []
            made += [rand(proj, HIDDEN)] if proj else []
    return made


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("name", GATES)
def test_sequences(name, directions, layers, biases, device, torch):
    h = rand(layers * directions, BATCH, HIDDEN)
    hx = (h, rand(*h.shape)) if name == "lstm" else h
    params = weights(name, layers, directions, biases)
    settings = (biases, layers, 0.0, False, directions == 2)
    for shape, batch_first in (((6, BATCH, SIZE), False), ((BATCH, 6, SIZE), True)):
        compare(torch, name, rand(*shape), hx, params, *settings, batch_first, device=device)


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("name", GATES)
def test_sequences_of_different_lengths(name, directions, device, torch):
    h, going = rand(2 * directions, BATCH, HIDDEN), np.array([3, 3, 2, 1])
    hx = (h, rand(*h.shape)) if name == "lstm" else h
    params = weights(name, 2, directions, True)
    data = rand(int(going.sum()), SIZE)
    compare(torch, name, data, going, hx, params, True, 2, 0.0, False, directions == 2)


@pytest.mark.parametrize("biases", [True, False])
def test_a_projected_lstm(biases, device, torch):
    hx = (rand(2, BATCH, 2), rand(2, BATCH, HIDDEN))
    params = weights("lstm", 1, 2, biases, proj=2)
    settings = (biases, 1, 0.0, False, True, False)
    compare(torch, "lstm", rand(6, BATCH, SIZE), hx, params, *settings, device=device)


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("name", GATES)
def test_cells(name, biases, device, torch):
    rows, h = GATES[name] * HIDDEN, rand(BATCH, HIDDEN)
    hx = (h, rand(BATCH, HIDDEN)) if name == "lstm" else h
    more = [rand(rows), rand(rows)] if biases else []
    arguments = (rand(BATCH, SIZE), hx, rand(rows, SIZE), rand(rows, HIDDEN), *more)
    compare(torch, f"{name}_cell", *arguments, device=device)


def test_mistakes_of_networks():
    w = [edutorch.zeros(5, 4), edutorch.zeros(5, 5)]
    settings = (False, 1, 0.0, False, False, False)
    with pytest.raises(RuntimeError, match="Expected hidden size"):
        edutorch.rnn_tanh(edutorch.ones(6, 3, 4), edutorch.zeros(1, 2, 5), w, *settings)
    with pytest.raises(RuntimeError, match="weights of 1 layers"):
        edutorch.rnn_tanh(edutorch.ones(6, 3, 4), edutorch.zeros(1, 3, 5), [], *settings)
    with pytest.raises(RuntimeError, match="larger than 0"):
        edutorch.rnn_tanh(edutorch.ones(0, 3, 4), edutorch.zeros(1, 3, 5), w, *settings)
    with pytest.raises(RuntimeError, match=r"time, n, k"):
        edutorch.rnn_tanh(edutorch.ones(3, 4), edutorch.zeros(1, 3, 5), w, *settings)


def test_dropout_between_layers():
    edutorch.manual_seed(0)
    params = [edutorch.tensor(weight) for weight in weights("gru", 2, 1, True)]
    x, h = edutorch.tensor(rand(6, BATCH, SIZE)), edutorch.zeros(2, BATCH, HIDDEN).double()
    calm = edutorch.gru(x, h, params, True, 2, 0.5, False, False, False)[0]
    wild = edutorch.gru(x, h, params, True, 2, 0.5, True, False, False)[0]
    assert not edutorch.allclose(calm, wild)


def test_random_faces():
    edutorch.manual_seed(0)
    x = edutorch.full((400,), -1.0)
    y = edutorch.rrelu(x, 0.2, 0.4, True, generator=edutorch.Generator().manual_seed(1))
    assert -y.max().item() >= 0.2 and -y.min().item() <= 0.4
    z, kept = edutorch.native_dropout(edutorch.ones(400), 0.25, True)
    assert (z == kept.float() / 0.75).all()
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        edutorch.feature_dropout(x, 0.5, True)
