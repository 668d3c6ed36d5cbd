"""Schedulers that share an optimizer, and their errors."""

from __future__ import annotations

import warnings

import pytest

import edutorch
from edutorch import optim


def test_two_schedulers_share_an_optimizer(torch):
    def both(library):
        optimizer = library.optim.SGD([library.zeros(1, requires_grad=True)], lr=1.0)
        one = library.optim.lr_scheduler.LinearLR(optimizer, total_iters=4)
        two = library.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        results = []
        for _ in range(10):
            optimizer.step()
            one.step()
            two.step()
            results += two.get_last_lr()
        return results

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


def test_sequences_inside_sequences():
    """An inner scheduler yields the rates that it yields alone, wherever it starts."""
    lr_scheduler = edutorch.optim.lr_scheduler

    def rates(make, count=4):
        optimizer = edutorch.optim.SGD([edutorch.zeros(1, requires_grad=True)], lr=1.0)
        scheduler, results = make(optimizer), []
        for _ in range(count):
            results.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        return pytest.approx(results)

    def inner(optimizer):
        parts = [lr_scheduler.StepLR(optimizer, 1, 0.5), lr_scheduler.ExponentialLR(optimizer, 0.9)]
        return lr_scheduler.SequentialLR(optimizer, parts, [2])

    def chain(optimizer):
        parts = [
            lr_scheduler.ConstantLR(optimizer, 0.5, 2),
            lr_scheduler.ExponentialLR(optimizer, 0.9),
        ]
        return lr_scheduler.ChainedScheduler(parts, optimizer)

    def flat(optimizer):
        return lr_scheduler.ConstantLR(optimizer, 0.1, 100)

    for make in (inner, chain):
        alone = rates(make).expected
        last = rates(lambda o, make=make: lr_scheduler.SequentialLR(o, [flat(o), make(o)], [3]), 7)
        assert last.expected == pytest.approx([0.1, 0.1, 0.1, *alone])
        if make is chain:
            continue  # as the first one it steps once when it begins, as in PyTorch
        first = rates(lambda o, make=make: lr_scheduler.SequentialLR(o, [make(o), flat(o)], [4]), 6)
        assert first.expected == pytest.approx([*alone, 0.1, 0.1])
        deep = rates(
            lambda o, make=make: lr_scheduler.SequentialLR(
                o, [lr_scheduler.SequentialLR(o, [flat(o), make(o)], [1]), flat(o)], [5]
            ),
            6,
        )
        assert deep.expected == pytest.approx([0.1, *alone, 0.1])


def test_verbose_of_older_programs():
    optimizer = optim.SGD([edutorch.zeros(1, requires_grad=True)], lr=1.0)
    for value, count in ((True, 1), (False, 0), ("deprecated", 0)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            optim.lr_scheduler.StepLR(optimizer, 3, verbose=value)
        assert len(caught) == count


def test_an_unknown_setting_comes_with_the_nearest():
    optimizer = optim.SGD([edutorch.zeros(1, requires_grad=True)], lr=1.0)
    with pytest.raises(TypeError, match="did you mean `step_size`"):
        optim.lr_scheduler.StepLR(optimizer, stepsize=3)
    with pytest.raises(TypeError, match="did you mean `momentum`"):
        optim.SGD([edutorch.zeros(1, requires_grad=True)], lr=1.0, momentun=0.9)
    with pytest.raises(TypeError, match="did you mean `batch_size`"):
        edutorch.utils.data.DataLoader([1, 2], batchsize=2)
