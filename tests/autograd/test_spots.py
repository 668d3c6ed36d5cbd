"""`OneHotGradient`: the lazy gradient of a loss that reads one class of each row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import edutorch as torch
from edutorch.backends import reference_only
from edutorch.core.fast import lazy_gradients
from edutorch.core.fast.lazy_gradients import OneHotGradient
from edutorch.kernels import is_available, make
from edutorch.nn import functional as F
from edutorch.nn.functional.loss import definitions
from edutorch.ops.reduction import LOG_SOFTMAX_KERNEL

SHAPES = [(5, 4), (60, 70)]  # one too small for a kernel, and one that is not


@pytest.fixture(autouse=True)
def all_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "ONE_HOT_MIN_SIZE", 0)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[OneHotGradient]:
    """Record which of them were materialized."""
    materialized: list[OneHotGradient] = []
    as_it_was = OneHotGradient.materialize

    def noted(self: OneHotGradient) -> Any:
        materialized.append(self)
        return as_it_was(self)

    monkeypatch.setattr(OneHotGradient, "materialize", noted)
    return materialized


def scores(shape: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    generator = np.random.default_rng(0)
    x = torch.tensor(generator.normal(size=shape), requires_grad=True)
    return x, torch.tensor(generator.integers(0, shape[1], shape[0]))


def exact(x: torch.Tensor, target: torch.Tensor) -> np.ndarray:
    """The gradient of the mean: (softmax - 1 at the target class) / n."""
    odds = np.exp(x.detach().numpy())
    odds /= odds.sum(1, keepdims=True)
    odds[np.arange(len(odds)), target.numpy()] -= 1
    return odds / len(odds)


@pytest.mark.parametrize("shape", SHAPES)
def test_no_array_in_between(shape: tuple[int, int], computed: list[OneHotGradient]) -> None:
    if is_available():
        make(LOG_SOFTMAX_KERNEL)
    x, target = scores(shape)
    F.cross_entropy(x, target).backward()
    assert not computed
    np.testing.assert_allclose(x.grad.numpy(), exact(x, target), rtol=1e-12, atol=1e-15)
    again, x.grad = x.grad, None
    with reference_only():
        F.cross_entropy(x, target).backward()
    np.testing.assert_allclose(x.grad.numpy(), again.numpy(), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignored", [-100, 1])
def test_all_settings(
    reduction: str, weighted: bool, ignored: int, computed: list[OneHotGradient]
) -> None:
    """With `create_graph`, the dense gradient is computed instead."""
    x, target = scores((5, 4))
    weight = torch.tensor([1.0, 2.0, 0.5, 3.0], dtype=torch.float64) if weighted else None
    g = torch.tensor([1.0, -2.0, 3.0, 0.5, 2.0], dtype=torch.float64)

    def gradient(recorded: bool) -> np.ndarray:
        losses = F.cross_entropy(x, target, weight, ignore_index=ignored, reduction=reduction)
        total = (losses * g).sum() if reduction == "none" else losses
        x.grad = None
        total.backward(create_graph=recorded)
        return x.grad.detach().numpy()

    result = gradient(False)
    assert not computed
    np.testing.assert_allclose(result, gradient(True), rtol=1e-12, atol=1e-15)


def test_hooks_see_an_array() -> None:
    x, target = scores((5, 4))
    logs, seen = F.log_softmax(x, 1), []
    logs.register_hook(seen.append)
    logs.retain_grad()
    F.nll_loss(logs, target).backward()
    assert seen[0].shape == (5, 4) and logs.grad is not None
    assert (seen[0] != 0).sum() == 5
    np.testing.assert_allclose(x.grad.numpy(), exact(x, target), rtol=1e-12, atol=1e-15)


def test_two_losses_of_the_same_logarithms(computed: list[OneHotGradient]) -> None:
    x, target = scores((5, 4))
    logs = F.log_softmax(x, 1)
    (F.nll_loss(logs, target) + 2 * F.nll_loss(logs, target)).backward()
    assert computed
    np.testing.assert_allclose(x.grad.numpy(), 3 * exact(x, target), rtol=1e-12, atol=1e-15)


def test_other_ops_get_an_array(computed: list[OneHotGradient]) -> None:
    x, target = scores((5, 4))
    F.nll_loss(x * 1.0, target).backward()
    assert len(computed) == 1
    assert (x.grad != 0).sum() == 5 and float(x.grad.sum()) == pytest.approx(-1)
    x.grad = None
    F.nll_loss(F.log_softmax(x, 0), target).backward()  # along the other axis
    assert len(computed) == 2
    result = x.grad.numpy()
    logs = F.log_softmax(x, 0)
    picked = torch.zeros(5, 4, dtype=torch.float64)
    picked[torch.arange(5), target] = -0.2
    (wanted,) = torch.autograd.grad(logs, x, picked)
    np.testing.assert_allclose(result, wanted.numpy(), rtol=1e-12, atol=1e-15)


def test_functions_of_users_get_an_array(computed: list[OneHotGradient]) -> None:
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            assert g.shape == (5, 4)
            return g

    x, target = scores((5, 4))
    F.nll_loss(Same.apply(x), target).backward()
    F.nll_loss(x.chunk(1)[0], target).backward()
    y = x * 1.0
    y[0] = 1.0
    F.nll_loss(y, target).backward()
    assert len(computed) == 3 and float(x.grad.sum()) == pytest.approx(-2.8)


def test_what_waits_is_computed_before_a_hook_runs(computed: list[OneHotGradient]) -> None:
    """The hook is in a later branch; it may write into the operands of the loss."""
    x, target = scores((5, 4))
    wanted = exact(x, target)
    logs = F.log_softmax(x, 1)
    side = torch.ones(1, dtype=torch.float64, requires_grad=True) * 1.0
    side.register_hook(lambda g: target.numpy().fill(0))
    loss = F.nll_loss(logs, target) + side.sum()
    loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-12, atol=1e-15)
    assert not lazy_gradients._PENDING.__dict__.get("edges")


def test_it_needs_no_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    x, target = scores((5, 4))
    loss = F.cross_entropy(x, target)
    monkeypatch.setattr(np, "zeros", None)
    loss.backward()
