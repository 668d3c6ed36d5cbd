"""Every scheduler against PyTorch's for a hundred steps."""

from __future__ import annotations

import pytest

import edutorch
from edutorch import optim

SETTINGS = [
    ("StepLR", {"step_size": 7, "gamma": 0.5}), ("MultiStepLR", {"milestones": [50, 3, 3]}),
    ("ExponentialLR", {"gamma": 0.97}), ("LambdaLR", {"lr_lambda": lambda step: 1 / (1 + step)}),
    ("ConstantLR", {"factor": 0.25, "total_iters": 9}), ("LinearLR", {"total_iters": 11}),
    ("LinearLR", {"start_factor": 1.0, "end_factor": 0.1, "total_iters": 30}),
    ("CosineAnnealingLR", {"T_max": 20}), ("CosineAnnealingLR", {"T_max": 13, "eta_min": 0.01}),
]  # fmt: skip


def shown(value):
    """Name a case: by the settings' names, because functions print their address."""
    return value if isinstance(value, str) else "-".join(value)


def rates(library, name, settings, steps):
    x = library.zeros(1, requires_grad=True)
    y = library.zeros(1, requires_grad=True)
    optimizer = library.optim.SGD([{"params": [x]}, {"params": [y], "lr": 0.3}], lr=0.1)
    scheduler = getattr(library.optim.lr_scheduler, name)(optimizer, **settings)
    found = [scheduler.get_last_lr()]
    for _ in range(steps):
        optimizer.step()
        scheduler.step()
        found.append(scheduler.get_last_lr())
    assert scheduler.get_last_lr() == [group["lr"] for group in optimizer.param_groups]
    return found


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=shown)
def test_a_hundred_steps_equal_pytorchs(name, settings, torch):
    for found, expected in zip(
        rates(edutorch, name, settings, 100), rates(torch, name, settings, 100), strict=True
    ):
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_two_schedulers_share_an_optimizer(torch):
    def both(library):
        optimizer = library.optim.SGD([library.zeros(1, requires_grad=True)], lr=1.0)
        one = library.optim.lr_scheduler.LinearLR(optimizer, total_iters=4)
        two = library.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        found = []
        for _ in range(10):
            optimizer.step()
            one.step()
            two.step()
            found += two.get_last_lr()
        return found

    assert both(edutorch) == pytest.approx(both(torch))


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=shown)
def test_a_scheduler_continues(name, settings):
    def make():
        optimizer = optim.SGD([edutorch.zeros(1, requires_grad=True)], lr=0.1)
        return optimizer, getattr(optim.lr_scheduler, name)(optimizer, **settings)

    _, whole = make()
    for _ in range(20):
        whole.step()
    optimizer, first = make()
    for _ in range(8):
        first.step()
    other, second = make()
    other.load_state_dict(optimizer.state_dict())
    second.load_state_dict(first.state_dict())
    for _ in range(12):
        second.step()
    assert second.get_last_lr() == pytest.approx(whole.get_last_lr())


def test_what_makes_no_sense():
    optimizer = optim.SGD([edutorch.zeros(1, requires_grad=True)])
    schedulers = optim.lr_scheduler
    with pytest.raises(TypeError, match="not an Optimizer"):
        schedulers.StepLR(3, 1)
    with pytest.raises(KeyError, match="initial_lr"):
        schedulers.StepLR(optimizer, 1, last_epoch=5)
    with pytest.raises(ValueError, match="Expected 1 lr_lambdas"):
        schedulers.LambdaLR(optimizer, [len, len])
    for make in (schedulers.LinearLR, schedulers.ConstantLR):
        with pytest.raises(ValueError, match="multiplicative factor"):
            make(optimizer, -1.0)
