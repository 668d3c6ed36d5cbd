"""Groups, closures, events and errors of optimizers."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import edutorch
from edutorch import nn, optim
from edutorch.events import Stepped, listening

START = {"a": [[1.0, -2.0, 0.5], [0.1, 3.0, -0.7]], "b": [0.3, -0.2], "unused": [1.0]}


def parameters(library, dtype):
    return {
        name: library.tensor(values, dtype=dtype, requires_grad=True)
        for name, values in START.items()
    }


def loss_of(p):
    return ((p["a"] ** 2).sum(1) * p["b"].exp()).sum() + (p["b"] ** 4).sum()


def train(library, optimizer, p, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(p).backward()
        optimizer.step()


def test_a_state_dict_of_pytorch_fits(torch):
    """Its format is the same, so it only has to be converted."""
    theirs = parameters(torch, torch.float32)
    other = torch.optim.Adam(theirs.values(), lr=0.01)
    train(torch, other, theirs, 3)
    state = copy.deepcopy(other.state_dict())
    for values in state["state"].values():
        for key, value in values.items():
            values[key] = edutorch.tensor(value.numpy())
    ours = {k: edutorch.tensor(v.tolist(), requires_grad=True) for k, v in theirs.items()}
    mine = optim.Adam(ours.values())
    mine.load_state_dict(state)
    train(torch, other, theirs, 3)
    train(edutorch, mine, ours, 3)
    np.testing.assert_allclose(ours["a"].tolist(), theirs["a"].tolist(), rtol=1e-5)


def test_groups_have_settings_of_their_own(device, torch):
    def run(library, optimizers):
        p = parameters(library, library.float64)
        optimizer = optimizers.SGD(
            [{"params": [p["a"]], "lr": 0.1}, {"params": p["b"], "momentum": 0.5}], lr=0.01
        )
        optimizer.add_param_group({"params": [p["unused"]]})
        train(library, optimizer, p, 5)
        return p, optimizer

    (ours, mine), (theirs, other) = run(edutorch, optim), run(torch, torch.optim)
    for key in START:
        np.testing.assert_allclose(ours[key].tolist(), theirs[key].tolist(), rtol=1e-9)
    assert repr(mine) == repr(other)


def test_named_parameters_are_taken(device):
    model = nn.Linear(2, 1)
    optimizer = optim.SGD(model.named_parameters(), lr=1.0)
    assert optimizer.param_groups[0]["params"] == [model.weight, model.bias]


def test_a_closure_computes_the_loss(device):
    x = edutorch.tensor(2.0, requires_grad=True)
    optimizer = optim.SGD([x], lr=0.25)

    def closure():
        optimizer.zero_grad()
        loss = x * x
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 4
    assert x.item() == 1


def test_a_step_is_not_recorded_but_noticed(device):
    x = edutorch.tensor([2.0], requires_grad=True)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    optim.SGD([x], lr=0.1).step()
    assert x.is_leaf and x.requires_grad
    with pytest.raises(RuntimeError, match="inplace"):
        y.backward()


def test_zero_grad(device):
    x = edutorch.tensor([2.0], requires_grad=True)
    optimizer = optim.SGD([x])
    (x * x).sum().backward()
    kept = x.grad
    optimizer.zero_grad(set_to_none=False)
    assert x.grad.tolist() == [0]
    assert kept is x.grad  # in place, as in PyTorch: a CUDA graph knows its address
    optimizer.zero_grad()
    assert x.grad is None


def test_an_optimizer_in_pytorchs_style(device):
    """A subclass that overrides `step`, as in tutorials."""

    class Plain(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @edutorch.no_grad()
        def step(self):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        p.add_(p.grad, alpha=-group["lr"])

    x = edutorch.tensor(2.0, requires_grad=True)
    (x * x).backward()
    heard = []
    with listening(heard.append):
        Plain([x], lr=0.25).step()
    assert x.item() == 1
    assert [type(event) for event in heard].count(Stepped) == 1


def test_hooks_and_events(device):
    x = edutorch.tensor(2.0, requires_grad=True)
    optimizer = optim.Adam([x])
    log = []
    optimizer.register_step_pre_hook(lambda o, args, kwargs: log.append("before"))
    handle = optimizer.register_step_post_hook(lambda o, args, kwargs: log.append("after"))
    with listening(lambda event: log.append(event) if isinstance(event, Stepped) else None):
        optimizer.step()
    assert log[:2] == ["before", "after"]
    assert log[2].optimizer is optimizer
    handle.remove()
    optimizer.step()
    assert log[3:] == ["before"]


def test_what_cannot_be_optimized():
    x = edutorch.tensor([1.0], requires_grad=True)
    for params, error, text in (
        ([], ValueError, "empty parameter list"), (x, TypeError, r"put the tensor into a list"),
        ([1.0], TypeError, "only optimize Tensors"), ([x * 2], RuntimeError, "non-leaf"),
        ([{"params": {x}}], TypeError, "not a set"),
        ([{"params": x}, {"params": [x]}], ValueError, "more than one parameter group"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            optim.SGD(params)
    for settings in ({"lr": -1}, {"momentum": -1}, {"weight_decay": -1}, {"nesterov": True}):
        with pytest.raises(ValueError, match=r"Invalid|Nesterov"):
            optim.SGD([x], **settings)
    for settings in ({"lr": -1}, {"eps": -1}, {"betas": (1.0, 0.9)}, {"weight_decay": -1}):
        with pytest.raises(ValueError, match="Invalid"):
            optim.Adam([x], **settings)


def test_a_state_of_another_size_is_refused():
    x, y = (edutorch.tensor([1.0], requires_grad=True) for _ in range(2))
    state = optim.SGD([x, y]).state_dict()
    with pytest.raises(ValueError, match="doesn't match the size"):
        optim.SGD([x]).load_state_dict(state)
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optim.SGD([{"params": x}, {"params": y}]).load_state_dict(state)


def test_gradients_of_any_layout(device):
    """A gradient may be a transposed view; its elements have to be matched correctly."""
    x = edutorch.arange(6.0).reshape(2, 3).requires_grad_()
    x.grad = edutorch.arange(6.0).reshape(3, 2).T
    optim.SGD([x], lr=1.0).step()
    assert x.tolist() == [[0, -1, -2], [2, 1, 0]]


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad"])
def test_the_count_of_steps_stays_on_the_cpu(name):
    """As in PyTorch: reading it must not synchronize with the device."""
    weight = edutorch.nn.Parameter(edutorch.ones(2, device="strict"))
    optimizer = getattr(edutorch.optim, name)([weight])
    (weight * 2).sum().backward()
    optimizer.step()
    state = optimizer.state[weight]
    assert state["step"].device.type == "cpu"
    assert {value.device.type for key, value in state.items() if key != "step"} <= {"strict", "cpu"}
