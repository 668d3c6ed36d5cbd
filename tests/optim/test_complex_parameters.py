"""Optimizers update the real and imaginary parts of parameters separately, as in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from tests.oracle import require_torch

torch = require_torch()

SETTINGS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.1}),
    ("Adam", {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.1, "maximize": True}),
    ("AdamW", {"lr": 0.1}),
]


@pytest.mark.parametrize(("name", "settings"), SETTINGS)
def test_steps_on_complex_parameters(name, settings):
    ends = []
    for library in (edutorch, torch):
        x = library.tensor([1 + 2j, -0.5j], dtype=library.complex128, requires_grad=True)
        target = library.tensor([0.5 - 1j, 3 + 1j], dtype=library.complex128)
        optimizer = getattr(library.optim, name)([x], **settings)
        for _ in range(5):
            optimizer.zero_grad()
            (x * x - target).abs().sum().backward()
            optimizer.step()
        ends.append(x.detach().numpy())
        state = optimizer.state_dict()["state"]
        ends.append([v.numpy() for v in state.get(0, {}).values() if isinstance(v, library.Tensor)])
    np.testing.assert_allclose(ends[0], ends[2], rtol=1e-10)
    for one, other in zip(ends[1], ends[3], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
