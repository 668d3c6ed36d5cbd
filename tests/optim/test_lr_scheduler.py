"""Schedulers that share an optimizer, and what they refuse."""

from __future__ import annotations

import pytest

import edutorch
from edutorch import optim


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
