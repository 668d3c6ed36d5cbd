"""Captured steps on a GPU: the same as `test_captured_step.py`, with the libraries themselves."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch as torch
from benchmarks import gpu_proofs
from tests.gpu.steps import NETWORKS, Training, batch

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("text", gpu_proofs.PROOFS)
def test_proof(text: str) -> None:
    gpu_proofs.PROOFS[text]("cuda")


@pytest.mark.parametrize("name", NETWORKS)
def test_step_is_captured_and_equals_eager(name: str) -> None:
    eager, compiled = Training(name, "cuda"), Training(name, "cuda")
    step = torch.compile(compiled.step)
    for number in range(7):
        x, y = (tensor.to("cuda") for tensor in batch(name, 4))
        expected, loss = eager.step(x, y), step(x, y)
        assert loss.item() == pytest.approx(expected.item(), abs=1e-4), number
        for value, wanted in zip(compiled.values(), eager.values(), strict=True):
            np.testing.assert_allclose(value, wanted, atol=1e-3, rtol=0, err_msg=str(number))
    assert not step.broken
    assert "one graph: captured" in step.explain()
