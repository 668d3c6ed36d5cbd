"""Training never makes the host wait for the GPU: one wait per step would halve its speed."""

from __future__ import annotations

import edutorch
from edutorch.backends import strict


def test_a_training_step_does_not_wait():
    with edutorch.device("strict"):
        x, target = edutorch.randn(8, 4), edutorch.randn(8, 3)
        weight = edutorch.randn(4, 3, requires_grad=True)
        bias = edutorch.zeros(3, requires_grad=True)

    def step() -> edutorch.Tensor:
        loss = ((edutorch.relu(x @ weight + bias) - target) ** 2).mean()
        loss.backward()
        with edutorch.no_grad():
            for parameter in (weight, bias):
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
        return loss

    first = step().item()
    with strict.no_synchronisation():
        for _ in range(20):
            loss = step()
    assert loss.item() < first
