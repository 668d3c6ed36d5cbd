"""Each type of layer is trained by XLA as it is trained eagerly."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import edutorch as torch
from tests.xla.steps import LAYERS, Case, example, training_step

STEPS = 5
"""Of XLA's; the calls before them are eager: they capture, and make an optimizer's state."""


def trained(case: Case, backend: str | None):
    """Return what a layer has become after some steps: its loss, parameters and buffers."""
    model, x, y = example(*case)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    step = training_step(model, optimizer)
    if backend is not None:
        step = torch.compile(step, backend=backend)
    torch.manual_seed(1)
    losses = [step(x, y).item() for _ in range(STEPS + 2)]
    if backend is not None:
        assert len(step.entries) == 1 and not step.entries[0].reasons, step.explain()
    tensors = [*model.parameters(), *model.buffers()]
    return [np.array(losses), *(tensor.detach().numpy().copy() for tensor in tensors)]


NAMES = (
    "linear", "relu", "tanh and sigmoid", "softmax", "gelu", "gelu by tanh", "embedding",
    "batch norm", "layer norm", "group norm", "dropout", "conv1d", "conv2d", "conv and max pool",
    "conv and average pool", "transposed conv", "upsample", "RNN", "LSTM", "GRU", "attention",
    "Transformer",
)  # fmt: skip


def test_there_are_22():
    assert tuple(LAYERS) == NAMES and len(NAMES) == 22


@pytest.mark.parametrize("name", LAYERS)
def test_is_trained_as_eagerly(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it says if it runs uncompiled
        results = trained(LAYERS[name], "jax")
    for result, wanted in zip(results, trained(LAYERS[name], None), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-5)
