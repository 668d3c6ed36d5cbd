"""Tensors in Python's own syntax: conversions and operators."""

from __future__ import annotations

import pytest

import edutorch
from tests.devices import DEVICES
from tests.oracle import require_torch


@pytest.mark.oracle
def test_formats_are_pytorchs():
    torch = require_torch()
    for ours, theirs in ((edutorch.tensor(1.25), torch.tensor(1.25)),
                         (edutorch.tensor(7), torch.tensor(7))):  # fmt: skip
        assert f"{ours:.1f} {ours:8.3f} {ours}" == f"{theirs:.1f} {theirs:8.3f} {theirs}"
    assert f"{edutorch.ones(2)}" == f"{torch.ones(2)}"
    with pytest.raises(TypeError):
        format(edutorch.ones(2), ".1f")


@pytest.mark.parametrize("device", DEVICES)
def test_in(device):
    x = edutorch.tensor([[1, 2], [3, 4]], device=device)
    assert 3 in x
    assert 5 not in x
    assert edutorch.tensor([1, 9], device=device) in x
    assert 1.5 not in edutorch.tensor([], device=device)
