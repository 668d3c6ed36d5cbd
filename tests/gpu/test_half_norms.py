"""In a compiled step batch norm of 16-bit images is cuDNN's, without casts around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import edutorch as torch
from edutorch import nn
from edutorch.backends.cupy import CupyBackend
from edutorch.backends.strict import StrictBackend
from edutorch.compilation.captured_step import use_graph_driver
from edutorch.compilation.cuda_graphs import CupyGraphs
from edutorch.kernels.gpu.cudnn import use_cudnn
from tests.gpu.cudnn_stand_in import Cudnn, cudnn
from tests.gpu.libraries import use_libraries
from tests.gpu.recording import recording

DEVICE = "strict"


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cudnn]:
    monkeypatch.setattr(StrictBackend, "half_products", CupyBackend.half_products)
    module = cudnn()
    with recording(), use_graph_driver(DEVICE, CupyGraphs), use_libraries(), use_cudnn(module):
        yield module


def step_of(model: nn.Module, autocast: bool) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=autocast):
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


@pytest.mark.parametrize("is_refused", [False, True])
@pytest.mark.parametrize("autocast", [True, False])
def test_steps_equal_eager_ones(autocast: bool, is_refused: bool, library: Cudnn) -> None:
    torch.manual_seed(0)
    models = [
        nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 1))
        for _ in range(2)
    ]
    models[1].load_state_dict(models[0].state_dict())
    for model in models:
        model.to(DEVICE).to(torch.float32 if autocast else torch.bfloat16)
    eager, compiled = step_of(models[0], autocast), torch.compile(step_of(models[1], autocast))
    if is_refused:
        library.refused |= {"batchnorm", "batchnorm_backward"}
    for _ in range(4):
        x = torch.randn(3, 2, 6, 6).to(DEVICE)
        x = x if autocast else x.bfloat16()
        assert compiled(x).item() == pytest.approx(eager(x).item(), rel=3e-2)
    assert compiled.broken == []
    assert "half_batch_norm(" in compiled.code
    assert "half_batch_norm_gradients(" in compiled.code
    pairs = zip(models[0].state_dict().items(), models[1].state_dict().values(), strict=True)
    for (name, first), second in pairs:
        values = [tensor.float().cpu().numpy() for tensor in (first, second)]
        np.testing.assert_allclose(*values, atol=2e-2, err_msg=name)
    for first, second in zip(*(model.parameters() for model in models), strict=True):
        values = [parameter.grad.float().cpu().numpy() for parameter in (first, second)]
        np.testing.assert_allclose(*values, atol=3e-2)
    types = {
        graph.nodes[0].inputs["input"].data_type.name
        for graph in library.graphs if graph.nodes[0].name.startswith("batchnorm")
    }  # fmt: skip
    assert ("BFLOAT16" in types) == (not is_refused)  # eager ones are of float32
