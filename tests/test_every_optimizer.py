"""Every optimizer against PyTorch over twenty steps: values, states both ways, groups, closures.

The names come from `torch.optim`: one without settings and without a reason below fails.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any

import pytest

import edutorch
from edutorch import optim
from tests.optim.problems import (
    OPTIONS,
    SETTINGS,
    all_close,
    both,
    compare_states,
    label,
    loss_of,
    parameters,
    to_edutorch,
    to_torch,
    train,
)  # fmt: skip

EXCLUDED = {
    "Optimizer": "the base of all; a subclass of one's own is in tests/optim/test_optimizers.py",
    "SparseAdam": "takes sparse gradients only; dense ones are refused: tests/optim",
}
WITHOUT_GROUPS = {"LBFGS": "takes no groups, in PyTorch too"}
SMALL = 1e-10
ROUGH = {
    "Muon": (1e-4, "orthogonalises in bfloat16, whose rounding depends on the order of sums"),
    "ASGD": (1e-7, "PyTorch rounds a loaded rate to float32"),
}


def near(name: str, loaded: bool = True) -> float:
    """Return the tolerance of the comparison with PyTorch."""
    return ROUGH[name][0] if name == "Muon" or (loaded and name in ROUGH) else SMALL


def optimizers_of(library: Any) -> set[str]:
    """Return the names of all optimizers of a library."""
    return {
        name
        for name, value in vars(library.optim).items()
        if inspect.isclass(value) and issubclass(value, library.optim.Optimizer)
    }


def test_every_optimizer_of_pytorch_is_tried(torch):
    assert optimizers_of(torch) - set(OPTIONS) - set(EXCLUDED) == set()


def test_every_optimizer_is_tried():
    assert optimizers_of(edutorch) == set(OPTIONS) | set(EXCLUDED)
    assert min(map(len, OPTIONS.values())) > 1
    assert set(optim.__all__) >= set(OPTIONS)


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=label)
def test_twenty_steps_equal_pytorchs(name, settings, torch):
    (_, ours, mine), (_, theirs, other) = both(torch, name, settings)
    assert repr(mine) == repr(other)
    for p, optimizer in ((ours, mine), (theirs, other)):
        train(optimizer, p, 20)
    all_close(ours, theirs, near(name, loaded=False))
    compare_states(mine.state_dict(), other.state_dict(), near(name, loaded=False))
    assert repr(mine) == repr(other)


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=label)
def test_a_state_of_pytorch_is_continued(name, settings, torch):
    (_, ours, mine), (_, theirs, other) = both(torch, name, settings)
    train(other, theirs, 10)
    with edutorch.no_grad():
        for key, value in theirs.items():
            ours[key].copy_(edutorch.tensor(value.detach().numpy()))
    mine.load_state_dict(to_edutorch(other.state_dict()))
    other.load_state_dict(other.state_dict())  # loading rounds less: to the parameter's dtype
    for p, optimizer in ((ours, mine), (theirs, other)):
        train(optimizer, p, 10)
    all_close(ours, theirs, near(name))


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=label)
def test_pytorch_continues_our_state(name, settings, torch):
    (_, ours, mine), (_, theirs, other) = both(torch, name, settings)
    train(mine, ours, 10)
    with torch.no_grad():
        for key, value in ours.items():
            theirs[key].copy_(torch.tensor(value.detach().numpy()))
    other.load_state_dict(to_torch(torch, mine.state_dict()))
    mine.load_state_dict(mine.state_dict())  # loading rounds less: to the parameter's dtype
    for p, optimizer in ((ours, mine), (theirs, other)):
        train(optimizer, p, 10)
    all_close(ours, theirs, near(name))


@pytest.mark.parametrize("name", sorted(set(OPTIONS) - set(WITHOUT_GROUPS)))
def test_groups_have_settings_of_their_own(name, torch):
    results = []
    for library in (edutorch, torch):
        p = parameters(library, "float64")
        p["b"] = p["b"].detach()[None].repeat(2, 1).requires_grad_() if name == "Muon" else p["b"]
        groups = [{"params": [p["a"]], "lr": 0.03}, {"params": [p["b"]]}]
        groups[1] |= {} if name == "Rprop" else {"weight_decay": 0.2}
        optimizer = getattr(library.optim, name)(groups)
        for _ in range(20):
            optimizer.zero_grad()
            loss_of(p if name != "Muon" else p | {"b": p["b"].sum(0)}).backward()
            optimizer.step()
        results.append((p, optimizer))
    (ours, mine), (theirs, other) = results
    all_close(ours, theirs, near(name, loaded=False))
    assert repr(mine) == repr(other)
    compare_states(mine.state_dict(), other.state_dict(), near(name, loaded=False))


@pytest.mark.parametrize("name", OPTIONS)
def test_a_closure_is_called_as_often_as_by_pytorch(name, torch):
    results = []
    for _, p, optimizer in both(torch, name, OPTIONS[name][1]):
        losses: list[float] = []

        def closure(optimizer=optimizer, p=p, losses=losses):
            optimizer.zero_grad()
            loss = loss_of(p)
            loss.backward()
            losses.append(loss.item())
            return loss

        returned = [float(optimizer.step(closure)) for _ in range(3)]
        results.append((losses, returned))
    (ours, mine), (theirs, other) = results
    assert ours == pytest.approx(theirs, rel=near(name, loaded=False))
    assert mine == pytest.approx(other, rel=near(name, loaded=False))


@pytest.mark.parametrize("name", OPTIONS)
def test_a_copy_goes_its_own_way(name):
    p = parameters(edutorch, "float64")
    model = [p["a"]] if name == "Muon" else list(p.values())
    optimizer = getattr(optim, name)(model)
    train(optimizer, p, 5)
    twin = copy.deepcopy(optimizer)
    assert repr(twin) == repr(optimizer)
    own = twin.param_groups[0]["params"][0]
    assert own is not p["a"] and own.tolist() == p["a"].tolist()
    assert twin.state_dict().keys() == optimizer.state_dict().keys()


def test_duplicates_in_a_group_warn_as_pytorch(torch):
    for library in (edutorch, torch):
        x = library.tensor([1.0], requires_grad=True)
        with pytest.warns(UserWarning, match="parameter group with duplicate parameters; in fut"):
            optimizer = library.optim.SGD([x, x], lr=0.5)
        x.grad = library.ones(1)
        optimizer.step()
        assert x.tolist() == [0.0]
        assert len(optimizer.param_groups[0]["params"]) == 2


def test_adagrad_shares_its_sums():
    x = edutorch.ones(2, requires_grad=True)
    optimizer = optim.Adagrad([x])
    optimizer.share_memory()
    assert optimizer.state[x]["sum"].tolist() == [0, 0]
