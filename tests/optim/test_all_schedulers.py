"""Schedulers against PyTorch's: given epochs, plateaus, warnings and errors.

Their rates and states are compared in tests/test_every_scheduler.py.
"""

from __future__ import annotations

import warnings

import pytest

import edutorch
from edutorch import optim
from tests.optim.problems import label
from tests.optim.schedules import SETTINGS, close, go, make


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("name", "settings"), SETTINGS[:29], ids=label)
def test_a_given_epoch_is_gone_to(name, settings, torch):
    results = []
    for library in (edutorch, torch):
        optimizer, scheduler = make(library, name, settings)
        rates = []
        for epoch in (3, 10, 4, 12):
            optimizer.step()
            scheduler.step(epoch)
            rates += scheduler.get_last_lr()
        results.append(rates)
    close(*results)


def test_a_rate_that_is_a_tensor_stays_that_tensor(torch):
    def run(library):
        rate = library.tensor(0.1, dtype=library.float64)
        optimizer = library.optim.SGD([library.zeros(1, requires_grad=True)], lr=rate)
        scheduler = library.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
        rates = []
        for _ in range(8):
            optimizer.step()
            scheduler.step()
            rates.append(rate.item())
        assert optimizer.param_groups[0]["lr"] is rate
        return rates

    close(run(edutorch), run(torch))


def warned(act):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act()
    return [str(warning.message)[:60] for warning in caught if warning.category is UserWarning]


def test_the_order_of_steps_is_watched(torch):
    def run(library):
        lr_scheduler = library.optim.lr_scheduler
        said = []
        for wrong in (True, False):
            optimizer = library.optim.SGD([library.zeros(1, requires_grad=True)], lr=0.1)
            optimizer.step()  # before there was a scheduler: this does not count
            scheduler = lr_scheduler.StepLR(optimizer, 1)
            if not wrong:
                optimizer.step()
            said += [warned(scheduler.step), warned(scheduler.step)]
        optimizer, scheduler = make(library, "StepLR", {"step_size": 1})
        optimizer.step = lambda: None
        return [*said, warned(scheduler.step), warned(scheduler.get_lr), warned(
            lambda: scheduler.step(3)
        )]  # fmt: skip

    ours = run(edutorch)
    assert [len(our) for our in ours] == [1, 0, 0, 0, 1, 1, 1]
    assert ours == run(torch)


WRONG = [
    ("LambdaLR", {"lr_lambda": [len]}), ("MultiplicativeLR", {"lr_lambda": [1, 2]}),
    ("MultiplicativeLR", {"lr_lambda": [len]}), ("ConstantLR", {"factor": 1.5}),
    ("LinearLR", {"start_factor": 0}), ("LinearLR", {"end_factor": -1}),
    ("CosineAnnealingWarmRestarts", {"T_0": 0}),
    ("CosineAnnealingWarmRestarts", {"T_0": 2, "T_mult": 0}),
    ("CosineAnnealingWarmRestarts", {"T_0": 2, "eta_min": "0"}),
    ("CyclicLR", {"base_lr": [0.1], "max_lr": 1.0}), ("OneCycleLR", {"max_lr": 1.0}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 1.0, "mode": "square"}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 0}), ("SWALR", {"swa_lr": [0.1]}),
    ("OneCycleLR", {"max_lr": 1.0, "epochs": -1, "steps_per_epoch": 1}),
    ("OneCycleLR", {"max_lr": 1.0, "epochs": 1, "steps_per_epoch": 0}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 9, "pct_start": 2.0}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 9, "anneal_strategy": "exp"}),
    ("ReduceLROnPlateau", {"factor": 1.0}), ("ReduceLROnPlateau", {"mode": "best"}),
    ("ReduceLROnPlateau", {"threshold_mode": "far"}), ("ReduceLROnPlateau", {"min_lr": [1.0]}),
    ("SWALR", {"swa_lr": 0.1, "anneal_strategy": "exp"}),
    ("SWALR", {"swa_lr": 0.1, "anneal_epochs": -1}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "settings"), WRONG, ids=label)
def test_what_makes_no_sense_is_refused_as_by_pytorch(name, settings, torch):
    said = []
    for library in (edutorch, torch):
        with pytest.raises((ValueError, TypeError)) as error:
            make(library, name, settings)
        said.append((type(error.value), str(error.value)))
    assert said[0] == said[1]


@pytest.mark.parametrize("name", ["CyclicLR", "OneCycleLR"])
def test_an_optimizer_without_momentum_has_none_to_change(name):
    optimizer = optim.Adagrad([edutorch.zeros(1, requires_grad=True)])
    more = {"base_lr": 0.1} if name == "CyclicLR" else {"total_steps": 5}
    with pytest.raises(ValueError, match="must support momentum or beta1"):
        getattr(optim.lr_scheduler, name)(optimizer, max_lr=1.0, **more)


def test_what_cannot_be_combined():
    lr_scheduler = optim.lr_scheduler
    optimizer, other = (optim.SGD([edutorch.zeros(1, requires_grad=True)]) for _ in range(2))
    step = lr_scheduler.StepLR(optimizer, 1)
    for schedulers, milestones, error, text in (
        ([], [], ValueError, "at least one scheduler"), ([3], [], TypeError, "should have"),
        ([step, lr_scheduler.ReduceLROnPlateau(optimizer)], [1], ValueError, "does not support"),
        ([step, lr_scheduler.StepLR(other, 1)], [1], ValueError, "same optimizer"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            lr_scheduler.SequentialLR(optimizer, schedulers, milestones)
        with pytest.raises(error, match=text):
            lr_scheduler.ChainedScheduler(schedulers, optimizer)
    with pytest.raises(ValueError, match="one more than the number of milestone"):
        lr_scheduler.SequentialLR(optimizer, [step], [1])


def test_a_sequence_of_one_is_that_schedule():
    rates = []
    for in_sequence in (False, True):
        optimizer, scheduler = make(edutorch, "ExponentialLR", {"gamma": 0.5})
        if in_sequence:
            scheduler = optim.lr_scheduler.SequentialLR(optimizer, [scheduler], [])
        rates.append(go(optimizer, scheduler, 4))
    assert rates[0] == rates[1]


def test_other_refusals():
    optimizer, scheduler = make(edutorch, "OneCycleLR", {"max_lr": 1.0, "total_steps": 3})
    with pytest.raises(ValueError, match="Tried to step 4 times"):
        go(optimizer, scheduler, 4)
    _, scheduler = make(edutorch, "CosineAnnealingWarmRestarts", {"T_0": 3})
    with pytest.raises(ValueError, match="non-negative epoch"):
        scheduler.step(-1)
    optimizer, scheduler = make(
        edutorch, "ReduceLROnPlateau", {"min_lr": [0.1, 0.1], "patience": 0}
    )
    optimizer.add_param_group({"params": edutorch.ones(1, requires_grad=True)})
    with pytest.raises(RuntimeError, match="new param group"):
        [scheduler.step(1.0) for _ in range(2)]


def test_callable_objects_are_saved_with_a_schedule():
    class Falling:
        def __init__(self, by):
            self.by = by

        def __call__(self, step):
            return self.by**step

    optimizer = optim.SGD([edutorch.zeros(1, requires_grad=True)], lr=1.0)
    saved = optim.lr_scheduler.LambdaLR(optimizer, Falling(0.5)).state_dict()
    assert saved["lr_lambdas"] == [{"by": 0.5}]
    other = optim.lr_scheduler.LambdaLR(optimizer, Falling(0.9))
    other.load_state_dict(saved)
    assert other.lr_lambdas[0].by == 0.5


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("name", "settings"), [*SETTINGS[:29], ("CosineAnnealingLR", {"T_max": 1})], ids=label
)
def test_a_rate_asked_for_between_steps(name, settings, torch):
    """`get_lr` is public: outside a step it returns the next rate, as in PyTorch."""
    asked = []
    for library in (edutorch, torch):
        optimizer, scheduler = make(library, name, settings)
        rates = [scheduler.get_lr()]
        go(optimizer, scheduler, 2)
        rates.append(scheduler.get_lr())
        asked.append([*rates, go(optimizer, scheduler, 1)])
    close(*asked)
