"""Optimizers on each device, with complex parameters, recorded, and their errors.

Their steps and states are compared with PyTorch's in tests/test_every_optimizer.py.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest

import edutorch
from edutorch import optim
from tests.optim.problems import (
    COMPLEX,
    STATEFUL,
    all_close,
    both,
    compare_states,
    parameters,
    train,
)  # fmt: skip

SMALL = 1e-10


@pytest.mark.parametrize(("name", "settings"), STATEFUL, ids=str)
def test_on_every_device(name, settings, device, torch):
    (_, ours, mine), (_, theirs, other) = both(torch, name, settings, "float32")
    for p, optimizer in ((ours, mine), (theirs, other)):
        train(optimizer, p, 5)
    all_close(ours, theirs, 1e-4)


@pytest.mark.parametrize(("name", "settings"), COMPLEX, ids=str)
def test_complex_parameters(name, settings, torch):
    (_, ours, mine), (_, theirs, other) = both(torch, name, settings, "complex128")
    for p, optimizer in ((ours, mine), (theirs, other)):
        train(optimizer, p, 20)
    all_close(ours, theirs, SMALL)
    compare_states(mine.state_dict(), other.state_dict(), SMALL)


@pytest.mark.parametrize(("name", "settings"), STATEFUL, ids=str)
def test_ten_and_ten_steps_are_twenty(name, settings, device):
    whole = parameters(edutorch, "float32")
    train(getattr(optim, name)(list(whole.values()), **settings), whole, 20)
    half = parameters(edutorch, "float32")
    first = getattr(optim, name)(list(half.values()), **settings)
    train(first, half, 10)
    second = getattr(optim, name)(list(half.values()))
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    train(second, half, 10)
    for key, value in whole.items():
        assert half[key].tolist() == value.tolist()


@pytest.mark.parametrize(("name", "settings"), STATEFUL, ids=str)
def test_a_closure_is_called_with_gradients_on(name, settings):
    p = parameters(edutorch, "float64")
    optimizer = getattr(optim, name)(list(p.values()), **settings)
    calls = []

    def closure():
        calls.append(edutorch.is_grad_enabled())
        optimizer.zero_grad()
        loss = sum((param.square().sum() for param in p.values()), edutorch.tensor(0.0))
        loss.backward()
        return loss

    with edutorch.no_grad():
        first, second = optimizer.step(closure), optimizer.step(closure)
    assert all(calls)
    assert second.item() < first.item()


def refuse(torch, settings, name):
    for library in (edutorch, torch):
        x = library.ones(2, 2, requires_grad=True)
        with pytest.raises((ValueError, RuntimeError)) as error:
            getattr(library.optim, name)([x], **settings)
        yield type(error.value), str(error.value)


WRONG = [
    *((name, {"lr": -1.0}) for name in optim.__all__ if name[0].isupper() and
      name != "Optimizer"),
    *((name, {"eps": -1.0}) for name in ("NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta",
      "RMSprop", "SparseAdam")),
    *((name, {"betas": (0.1, 1.0)}) for name in ("NAdam", "RAdam", "Adamax", "SparseAdam")),
    *((name, {"betas": (-0.1, 0.5)}) for name in ("NAdam", "RAdam", "Adamax", "SparseAdam")),
    *((name, {"weight_decay": -0.1}) for name in ("NAdam", "RAdam", "Adamax", "Adagrad",
      "Adadelta", "RMSprop", "ASGD", "Adafactor", "Muon")),
    ("NAdam", {"momentum_decay": -1}), ("Adagrad", {"lr_decay": -1}), ("Adadelta", {"rho": 2.0}),
    ("Adagrad", {"initial_accumulator_value": -1}), ("RMSprop", {"alpha": -1.0}),
    ("Adagrad", {"fused": True, "differentiable": True}), ("RMSprop", {"momentum": -1.0}),
    ("Adagrad", {"fused": True, "foreach": True}), ("Rprop", {"etas": (1.5, 1.2)}),
    ("Adafactor", {"beta2_decay": 0.5}), ("Adafactor", {"eps": (-1.0, 1e-3)}),
    ("Adafactor", {"eps": (None, -1e-3)}), ("Adafactor", {"d": 0.5}), ("Muon", {"momentum": -1.0}),
    ("Muon", {"adjust_lr_fn": "best"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "settings"), WRONG, ids=str)
def test_what_makes_no_sense_is_refused_as_by_pytorch(name, settings, torch):
    ours, theirs = refuse(torch, settings, name)
    assert ours == theirs


@pytest.mark.parametrize("name", ["NAdam", "LBFGS", "Adafactor", "SparseAdam", "ASGD"])
def test_a_rate_has_one_element(name):
    x = edutorch.ones(2, 2, requires_grad=True)
    with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
        getattr(optim, name)([x], lr=edutorch.tensor([0.1, 0.2]))


def test_what_an_optimizer_cannot_train():
    x = edutorch.ones(2, 2, requires_grad=True)
    z = edutorch.ones(2, dtype=edutorch.complex64, requires_grad=True)
    vector = edutorch.ones(2, requires_grad=True)
    for wrong, text in (
        (lambda: optim.Muon([vector]), "only supports 2D parameters .* size"),
        (lambda: optim.SparseAdam([x, z]), r"Complex params at indices \[\[0, 1\]\]"),
        (lambda: optim.LBFGS([{"params": [x]}, {"params": [z]}]), "per-parameter options"),
    ):
        with pytest.raises(ValueError, match=text):
            wrong()
    for non_leaf in (x, z):
        non_leaf.grad = edutorch.ones_like(non_leaf)
    for optimizer, text in (
        (optim.SparseAdam([x]), "does not support dense gradients, please consider Adam"),
        (optim.Adafactor([z]), "does not support complex parameters"),
    ):
        with pytest.raises(RuntimeError, match=text):
            optimizer.step()
    with pytest.raises(AssertionError, match="If capturable=True"):
        optim.RAdam([x], capturable=True).step()
    x.grad = None
    optim.RAdam([x], capturable=True).step()  # nothing to do, nothing to refuse
    assert x.tolist() == [[1, 1], [1, 1]]


def test_an_lbfgs_with_an_unknown_line_search():
    x = edutorch.ones(2, requires_grad=True)
    optimizer = optim.LBFGS([x], line_search_fn="golden")
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        optimizer.step(lambda: backward(x.square().sum()))


def backward(loss):
    loss.backward()
    return loss


DIFFERENTIABLE = ["NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "RMSprop", "Rprop", "ASGD"]
DIFFERENTIABLE += ["SGD", "Adam", "AdamW"]
REFUSED_BY_PYTORCH = ["Adamax", "Rprop"]  # a second step writes over what the first has saved


def three_steps(library, name, start, pulls, **settings):
    """Return the parameters after three steps with given gradients."""
    x = start.clone()
    optimizer = getattr(library.optim, name)([x], lr=0.1, differentiable=True, **settings)
    optimizer.add_param_group({"params": [library.ones(1, requires_grad=True)]})
    for pull in pulls:
        x.grad = pull * 2
        optimizer.step()
    return x


def recorded(library):
    """Return initial values and three gradients."""
    return [
        library.tensor(values, dtype=library.float64, requires_grad=True)
        for values in ([1.0, -2.0, 0.5], [[0.3, -1.0, 0.7], [0.5, -0.2, 0.1], [0.1, -0.4, 0.9]])
    ]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_flow_through_the_steps(name):
    assert edutorch.autograd.gradcheck(
        lambda start, pulls: three_steps(edutorch, name, start, pulls), recorded(edutorch)
    )


@pytest.mark.parametrize("name", [n for n in DIFFERENTIABLE if n not in REFUSED_BY_PYTORCH])
def test_these_gradients_are_pytorchs(name, torch):
    results = []
    for library in (edutorch, torch):
        start, pulls = recorded(library)
        x = three_steps(library, name, start, pulls)
        (x * x).sum().backward()
        results.append([x, start.grad, pulls.grad])
    for mine, other in zip(*results, strict=True):
        np.testing.assert_allclose(mine.tolist(), other.tolist(), rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize(("name", "settings"), [
    ("SGD", {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "nesterov": True}), ("Adam", {"weight_decay": 0.1}),
    ("Adam", {"amsgrad": True, "maximize": True}), ("RMSprop", {"centered": True}),
], ids=str)  # fmt: skip
def test_gradients_flow_through_each_option(name, settings):
    """Recorded steps equal the others, and their gradients are correct."""
    start, pulls = recorded(edutorch)
    assert edutorch.autograd.gradcheck(
        lambda start, pulls: three_steps(edutorch, name, start, pulls, **settings), (start, pulls)
    )
    plain = start.detach().clone().requires_grad_()
    optimizer = getattr(optim, name)([plain], lr=0.1, **settings)
    for pull in pulls.detach():
        plain.grad = pull * 2
        optimizer.step()
    result = three_steps(edutorch, name, start, pulls, **settings)
    np.testing.assert_allclose(result.tolist(), plain.tolist(), rtol=1e-9)


def test_gradients_flow_to_the_rate():
    rate = edutorch.tensor(0.1, dtype=edutorch.float64, requires_grad=True)

    def after(lr):
        x = edutorch.tensor([1.0, -2.0], dtype=edutorch.float64, requires_grad=True).clone()
        optimizer = optim.RMSprop([x], lr=lr, differentiable=True)
        for pull in ([1.0, 3.0], [0.5, -0.7]):
            x.grad = edutorch.tensor(pull, dtype=edutorch.float64)
            optimizer.step()
        return (x * x).sum()

    assert edutorch.autograd.gradcheck(after, (rate,))


def test_a_rate_may_be_a_tensor(torch):
    for name in DIFFERENTIABLE:
        for lr in (0.05, [0.05]):
            (_, ours, mine), (_, theirs, other) = (
                (library, p, getattr(library.optim, name)(list(p.values()), lr=library.tensor(lr)))
                for library, p, _ in both(torch, "SGD", {})
            )
            for p, optimizer in ((ours, mine), (theirs, other)):
                train(optimizer, p, 3)
            all_close(ours, theirs, 1e-6)


@pytest.mark.parametrize(("name", "settings"), STATEFUL, ids=str)
def test_parameters_of_any_number_of_axes(name, settings, torch):
    """Adafactor treats the last two axes as rows and columns, and all others as a batch."""
    generator = np.random.default_rng(0)
    shapes = [(), (3,), (2, 3), (2, 3, 4), (2, 3, 2, 2)]
    starts = [generator.normal(size=shape) for shape in shapes]

    def run(library):
        params = [library.tensor(start, requires_grad=True) for start in starts]
        optimizer = getattr(library.optim, name)(params, **settings)

        def closure():
            optimizer.zero_grad()
            loss = sum((param**2).sum() + (param**3).mean() for param in params)
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        return [param.detach().numpy() for param in params]

    for ours, theirs in zip(run(edutorch), run(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
