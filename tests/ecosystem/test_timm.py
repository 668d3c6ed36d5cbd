"""The real timm on edutorch: outputs, gradients and a step of SGD as on PyTorch."""

from __future__ import annotations

import pytest

timm = pytest.importorskip("timm")

from tests.ecosystem.summaries import distance, gradient_distance, read_golden  # noqa: E402
from tests.ecosystem.timm_cases import CASES, IN_CI, train  # noqa: E402


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in IN_CI else pytest.mark.slow) for name in CASES],
)
def test_models_compute_what_they_do_on_pytorch(name):
    ours, theirs = train(name), read_golden("timm")[name]
    assert distance(ours["output"], theirs["output"]) < 1e-4
    difference, parameter = gradient_distance(ours["gradients"], theirs["gradients"])
    assert difference < 1e-3, parameter
    assert distance(ours["after a step"], theirs["after a step"]) < 1e-4
