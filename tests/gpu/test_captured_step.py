"""A training step as one graph, on the recording stream: it equals the eager step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import edutorch as torch
from edutorch.compilation import captured_step
from edutorch.compilation.captured_step import use_graph_driver
from edutorch.compilation.cuda_graphs import CupyGraphs

from tests.gpu.recording import GRAPHS, MemoryPool, recording
from tests.gpu.steps import NETWORKS, Training, batch

DEVICE = "strict"


@pytest.fixture
def recorded() -> Iterator[None]:
    with recording(), use_graph_driver(DEVICE, CupyGraphs):
        yield


@pytest.mark.parametrize("name", NETWORKS)
def test_step_is_captured_and_equals_eager(name: str, recorded: None) -> None:
    eager, compiled = Training(name, DEVICE), Training(name, DEVICE)
    step = torch.compile(compiled.step)
    for number in range(7):
        x, y = (tensor.to(DEVICE) for tensor in batch(name, 4))
        expected, loss = eager.step(x, y), step(x, y)
        assert loss.item() == pytest.approx(expected.item(), abs=1e-5), number
        for value, wanted in zip(compiled.values(), eager.values(), strict=True):
            np.testing.assert_allclose(value, wanted, atol=1e-5, rtol=0, err_msg=str(number))
    assert not step.broken
    assert "one graph: captured 1 times" in step.explain()
    (graph,) = GRAPHS
    assert graph.launches >= 4
