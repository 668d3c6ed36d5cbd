"""Pruning against PyTorch: the same masks from the same weights."""

from __future__ import annotations

import importlib

import pytest

import edutorch
from edutorch import nn
from edutorch.nn.utils import prune
from tests.nn.compare import assert_close, carry, ours_of

STEPS = {
    "l1": lambda prune, m, p: prune.l1_unstructured(m, "weight", 0.4),
    "count": lambda prune, m, p: prune.l1_unstructured(m, "weight", 3),
    "none": lambda prune, m, p: prune.l1_unstructured(m, "weight", 0),
    "identity": lambda prune, m, p: prune.identity(m, "bias"),
    "l2": lambda prune, m, p: prune.ln_structured(m, "weight", 0.5, n=2, dim=0),
    "l1 channels": lambda prune, m, p: prune.ln_structured(m, "weight", 1, 1, -1),
    "mask": lambda prune, m, p: prune.custom_from_mask(m, "bias", p(m.bias > 0)),
    "twice": lambda prune, m, p: prune.l1_unstructured(
        prune.l1_unstructured(m, "weight", 0.4), "weight", 0.5
    ),
    "channels, then numbers": lambda prune, m, p: prune.l1_unstructured(
        prune.ln_structured(m, "weight", 1, 2, 1), "weight", 2
    ),
    "numbers, then channels": lambda prune, m, p: prune.ln_structured(
        prune.l1_unstructured(m, "weight", 0.3), "weight", 1, 2, 0
    ),
    "scores": lambda prune, m, p: prune.l1_unstructured(
        m, "weight", 4, importance_scores=1 / m.weight
    ),
    "global": lambda prune, m, p: prune.global_unstructured(
        [(m, "weight"), (m, "bias")], prune.L1Unstructured, amount=0.3
    ),
}  # fmt: skip


@pytest.mark.parametrize("step", STEPS)
def test_masks(step, device, torch):
    torch.manual_seed(0)
    theirs_prune = importlib.import_module("torch.nn.utils.prune")

    theirs = torch.nn.Linear(5, 4).double()
    ours = nn.Linear(5, 4).double().to(device)
    ours.load_state_dict(carry(theirs.state_dict(), device))
    STEPS[step](theirs_prune, theirs, lambda mask: mask)
    STEPS[step](prune, ours, lambda mask: mask)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for name, tensor in theirs.state_dict().items():
        assert_close(ours.state_dict()[name].to(edutorch.float64), tensor.double(), name)
    x = torch.randn(2, 5, dtype=torch.float64)
    expected, actual = theirs(x), ours(ours_of(x, device))
    assert_close(actual, expected)
    expected.sum().backward()
    actual.sum().backward()
    for a, (name, b) in zip(ours.parameters(), theirs.named_parameters(), strict=True):
        assert_close(a.grad, b.grad, name)
    assert prune.is_pruned(ours) and prune.is_pruned(nn.Sequential(ours))
    for name in [key.removesuffix("_mask") for key in dict(ours.named_buffers())]:
        prune.remove(ours, name)
    assert_close(ours(ours_of(x, device)), expected)
    assert not prune.is_pruned(ours)
    assert set(ours.state_dict()) == {"weight", "bias"}


def test_at_random():
    edutorch.manual_seed(0)
    layer = prune.random_unstructured(nn.Linear(10, 10), "weight", 0.3)
    assert layer.weight_mask.sum().item() == 70
    layer = prune.random_structured(nn.Linear(10, 10), "weight", 3, dim=1)
    assert sorted(layer.weight_mask.sum(0).tolist()) == [0.0] * 3 + [10.0] * 7


def test_the_mask_holds_while_training():
    layer = prune.l1_unstructured(nn.Linear(4, 4), "weight", 0.5)
    optimizer = edutorch.optim.SGD(layer.parameters(), lr=0.1)
    off = layer.weight == 0
    for _ in range(3):
        layer(edutorch.ones(1, 4)).sum().backward()
        optimizer.step()
    layer(edutorch.ones(1, 4))
    assert (layer.weight[off] == 0).all().item()


def test_mistakes():
    layer = nn.Linear(4, 4)
    for amount, error in ((-1, ValueError), (1.5, ValueError), ("x", TypeError), (17, ValueError)):
        with pytest.raises(error, match="amount"):
            prune.l1_unstructured(layer, "weight", amount)
    with pytest.raises(ValueError, match="multidimensional tensors"):
        prune.ln_structured(layer, "bias", 1, 2, 0)
    with pytest.raises(IndexError, match="Invalid index 2"):
        prune.ln_structured(layer, "weight", 1, 2, 2)
    with pytest.raises(ValueError, match="has to be pruned before"):
        prune.remove(layer, "weight")
    with pytest.raises(AssertionError, match="same shape as parameter weight"):
        prune.l1_unstructured(layer, "weight", 1, edutorch.ones(2))
    with pytest.raises(AssertionError, match="must match"):
        prune.custom_from_mask(layer, "weight", edutorch.ones(2))
    with pytest.raises(TypeError, match="is not an Iterable"):
        prune.global_unstructured(3, prune.L1Unstructured)
    with pytest.raises(TypeError, match="must be of type dict"):
        prune.global_unstructured([], prune.L1Unstructured, importance_scores=[1], amount=1)
    with pytest.raises(TypeError, match='Only "unstructured" PRUNING_TYPE'):
        prune.global_unstructured([(layer, "weight")], prune.LnStructured, amount=1, n=2)
    assert set(layer.state_dict()) == {"weight", "bias"}, "nothing was done"


def test_hooks_say_which_parameter_they_prune():
    layer = prune.l1_unstructured(nn.Linear(3, 2), "weight", amount=0.5)
    (hook,) = layer._forward_pre_hooks.values()
    assert hook._tensor_name == "weight" and hook.PRUNING_TYPE == "unstructured"
    with pytest.raises(AttributeError):
        _ = hook.no_such_name
