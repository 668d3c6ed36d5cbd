"""Edge cases of losses (their values: tests/test_every_module.py)."""

from __future__ import annotations

import pytest

import edutorch
from edutorch import nn
from tests.nn.compare import assert_close, ours_of

REDUCTIONS = ["mean", "sum", "none"]


@pytest.fixture
def data(torch):
    torch.manual_seed(3)
    return {
        "x": torch.randn(6, 4, dtype=torch.float64),
        "y": torch.randn(6, 4, dtype=torch.float64),
        "p": torch.rand(6, 4, dtype=torch.float64),
        "q": torch.softmax(torch.randn(6, 4, dtype=torch.float64), 1),
        "image": torch.randn(2, 4, 3, 5, dtype=torch.float64),
        "classes": torch.tensor([0, 3, 2, 2, 1, 0]),
        "pixels": torch.randint(0, 4, (2, 3, 5)),
        "weight": torch.tensor([0.5, 1.0, 2.0, 0.1], dtype=torch.float64),
    }


def test_targets_that_are_all_ignored_give_nan(device):
    loss = nn.CrossEntropyLoss(ignore_index=1)(edutorch.zeros(2, 3), edutorch.tensor([1, 1]))
    assert bool(loss.isnan())


def test_an_empty_batch_gives_nan(device):
    target = edutorch.zeros(0, dtype=edutorch.int64)
    assert bool(nn.functional.cross_entropy(edutorch.zeros(0, 3), target).isnan())


def test_losses_of_losses(device, torch, data):
    """Second derivatives: a loss of the gradient can be differentiated."""
    x = ours_of(data["x"], device, requires_grad=True)
    other = data["x"].clone().requires_grad_()
    loss = nn.functional.cross_entropy(x, ours_of(data["classes"], device))
    expected = torch.nn.functional.cross_entropy(other, data["classes"])
    (g,) = edutorch.autograd.grad(loss, x, create_graph=True)
    (h,) = torch.autograd.grad(expected, other, create_graph=True)
    (g * g).sum().backward()
    (h * h).sum().backward()
    assert_close(x.grad, other.grad)


@pytest.mark.parametrize(("old", "reduction"), [
    ({"size_average": False}, "sum"), ({"reduce": False}, "none"), ({"reduce": True}, "mean"),
])  # fmt: skip
def test_the_old_arguments_still_work(old, reduction):
    assert nn.MSELoss(**old).reduction == reduction


def test_weights_are_part_of_the_state(device):
    assert list(nn.CrossEntropyLoss(edutorch.ones(3)).state_dict()) == ["weight"]


@pytest.mark.parametrize("score", [-0.5, 1.5])
def test_scores_are_no_probabilities(score):
    with pytest.raises(RuntimeError, match="between 0 and 1") as caught:
        nn.functional.binary_cross_entropy(edutorch.tensor([score]), edutorch.tensor([1.0]))
    assert "with_logits" in caught.value.hint


def test_the_warning_of_stretched_shapes_names_the_users_line():
    with pytest.warns(UserWarning, match="target size") as caught:
        nn.MSELoss()(edutorch.ones(2, 3), edutorch.ones(3))
    assert caught[0].filename == __file__
