"""Every scheduler against PyTorch's: sixty rates, states both ways, warnings and refusals."""

from __future__ import annotations

import copy
import math
import warnings

import pytest

import edutorch
from edutorch import optim
from tests.optim.problems import label

SETTINGS = [
    ("LambdaLR", {"lr_lambda": lambda step: 1 / (1 + step)}),
    ("LambdaLR", {"lr_lambda": [lambda step: 0.9**step, lambda step: 0.8**step]}),
    ("MultiplicativeLR", {"lr_lambda": lambda step: 0.95 if step % 2 else 1.01}),
    ("StepLR", {"step_size": 7, "gamma": 0.5}), ("StepLR", {"step_size": 1}),
    ("MultiStepLR", {"milestones": [50, 3, 3]}), ("MultiStepLR", {"milestones": (10, 20)}),
    ("ExponentialLR", {"gamma": 0.97}),
    ("ConstantLR", {"factor": 0.25, "total_iters": 9}), ("ConstantLR", {}),
    ("LinearLR", {"total_iters": 11}), ("LinearLR", {}),
    ("LinearLR", {"start_factor": 1.0, "end_factor": 0.1, "total_iters": 30}),
    ("PolynomialLR", {}), ("PolynomialLR", {"total_iters": 40, "power": 2.5}),
    ("CosineAnnealingLR", {"T_max": 20}), ("CosineAnnealingLR", {"T_max": 13, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 7}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.01}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.3, "step_size_up": 7}),
    ("CyclicLR", {"base_lr": [0.01, 0.1], "max_lr": 0.3, "step_size_up": 7, "step_size_down": 4,
                  "mode": "triangular2"}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": [0.3, 1.0], "step_size_up": 9, "mode": "exp_range",
                  "gamma": 0.98, "base_momentum": 0.5}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.3, "step_size_up": 9, "cycle_momentum": False,
                  "scale_fn": lambda x: 1 / (1 + x), "scale_mode": "iterations"}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 70}),
    ("OneCycleLR", {"max_lr": [0.5, 0.1], "epochs": 8, "steps_per_epoch": 10,
                    "anneal_strategy": "linear", "three_phase": True}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 61, "pct_start": 0.5, "cycle_momentum": False,
                    "div_factor": 3.0, "final_div_factor": 10.0, "three_phase": True}),
    ("SWALR", {"swa_lr": 0.05}), ("SWALR", {"swa_lr": [0.05, 0.5], "anneal_epochs": 0}),
    ("SWALR", {"swa_lr": 0.05, "anneal_strategy": "linear", "anneal_epochs": 25}),
    ("warm-up, then cosine", {}), ("three in a row", {}), ("chained", {}), ("nested", {}),
]  # fmt: skip


def make(library, name, settings, kind="SGD"):
    """Return an optimizer with two groups and its scheduler."""
    x, y = (library.zeros(1, requires_grad=True) for _ in range(2))
    more = {"momentum": 0.9} if kind == "SGD" else {}
    groups = [{"params": [x]}, {"params": [y], "lr": 0.3}]
    optimizer = getattr(library.optim, kind)(groups, lr=0.1, **more)
    if name in COMBINED:
        return optimizer, COMBINED[name](library.optim.lr_scheduler, optimizer)
    home = library.optim.swa_utils if name == "SWALR" else library.optim.lr_scheduler
    return optimizer, getattr(home, name)(optimizer, **settings)


COMBINED = {
    "warm-up, then cosine": lambda kinds, o: kinds.SequentialLR(
        o, [kinds.LinearLR(o, 0.1, total_iters=5), kinds.CosineAnnealingLR(o, 30)], [5]
    ),
    "three in a row": lambda kinds, o: kinds.SequentialLR(
        o, [kinds.ConstantLR(o, 0.1, 4), kinds.StepLR(o, 3), kinds.PolynomialLR(o, 9)], [10, 30]
    ),
    "chained": lambda kinds, o: kinds.ChainedScheduler(
        [kinds.LinearLR(o, 0.1, total_iters=5), kinds.ExponentialLR(o, 0.9)]
    ),
    "nested": lambda kinds, o: kinds.SequentialLR(
        o, [kinds.ChainedScheduler([kinds.ConstantLR(o), kinds.ExponentialLR(o, 0.9)]),
            kinds.CosineAnnealingWarmRestarts(o, 9, 2)], [12],
    ),
}  # fmt: skip


def settings_of(optimizer):
    return [
        [value for key, value in sorted(group.items()) if key in ("lr", "momentum", "betas")]
        for group in optimizer.param_groups
    ]


def go(optimizer, scheduler, steps):
    """Return all rates and momenta on the way."""
    found = []
    for _ in range(steps):
        optimizer.step()
        scheduler.step()
        assert scheduler.get_last_lr() == [group["lr"] for group in optimizer.param_groups]
        found += settings_of(optimizer)
    return found


def flat(values):
    for value in values:
        if isinstance(value, list | tuple):
            yield from flat(value)
        else:
            yield float(value)


def close(ours, theirs):
    assert list(flat(ours)) == pytest.approx(list(flat(theirs)), rel=1e-12, abs=1e-15)


@pytest.mark.filterwarnings("ignore::UserWarning")  # nested schedulers warn in both
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=label)
def test_sixty_steps_equal_pytorchs(name, settings, kind, torch):
    (mine, ours), (other, theirs) = (make(it, name, settings, kind) for it in (edutorch, torch))
    close(settings_of(mine), settings_of(other))
    close(ours.get_last_lr(), theirs.get_last_lr())
    close(go(mine, ours, 60), go(other, theirs, 60))
    assert repr(mine) == repr(other) or name != "StepLR"


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=label)
def test_a_state_is_continued_also_by_pytorch(name, settings, torch):
    mine, ours = make(edutorch, name, settings)
    go(mine, ours, 25)
    groups = [
        {key: value for key, value in group.items() if key != "params"}
        for group in mine.param_groups
    ]
    state = copy.deepcopy(ours.state_dict())
    expected = go(mine, ours, 20)
    for library in (edutorch, torch):
        optimizer, scheduler = make(library, name, settings)
        for group, saved in zip(optimizer.param_groups, groups, strict=True):
            group.update(saved)
        scheduler.load_state_dict(copy.deepcopy(state))
        close(go(optimizer, scheduler, 20), expected)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=label)
def test_states_have_pytorchs_names(name, settings, torch):
    (_, ours), (_, theirs) = (make(it, name, settings) for it in (edutorch, torch))
    assert set(ours.state_dict()) == set(theirs.state_dict())


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("name", "settings"), SETTINGS[:29], ids=label)
def test_a_given_epoch_is_gone_to(name, settings, torch):
    found = []
    for library in (edutorch, torch):
        optimizer, scheduler = make(library, name, settings)
        rates = []
        for epoch in (3, 10, 4, 12):
            optimizer.step()
            scheduler.step(epoch)
            rates += scheduler.get_last_lr()
        found.append(rates)
    close(*found)


LOSSES = [math.exp(-step / 9) + (0.3 if step > 20 else 0.1) * math.sin(step) for step in range(60)]

PLATEAUS = [
    {"patience": 2}, {"patience": 0, "factor": 0.5, "cooldown": 3}, {"mode": "max", "patience": 4},
    {"threshold": 0.1, "threshold_mode": "abs", "patience": 1}, {"min_lr": 0.02, "patience": 1},
    {"min_lr": [0.01, 0.2], "patience": 1, "eps": 1e-3},
    {"mode": "max", "threshold_mode": "abs", "threshold": 0.2, "patience": 2},
]  # fmt: skip


@pytest.mark.parametrize("settings", PLATEAUS, ids=label)
def test_a_plateau_is_seen_as_by_pytorch(settings, torch):
    found = []
    for library in (edutorch, torch):
        optimizer, scheduler = make(library, "ReduceLROnPlateau", settings)
        for step, loss in enumerate(LOSSES):
            if step == 30:
                state = copy.deepcopy(scheduler.state_dict())
                scheduler = library.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
                scheduler.load_state_dict(state)
            scheduler.step(library.tensor(loss))
            found.append((library.__name__, scheduler.get_last_lr(), scheduler.num_bad_epochs))
        found.append((library.__name__, sorted(state), 0))
    half = len(found) // 2
    for ours, theirs in zip(found[:half], found[half:], strict=True):
        assert ours[1:] == theirs[1:]


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
    return [str(each.message)[:60] for each in caught if each.category is UserWarning]


def test_the_order_of_steps_is_watched(torch):
    def run(library):
        kinds = library.optim.lr_scheduler
        said = []
        for wrong in (True, False):
            optimizer = library.optim.SGD([library.zeros(1, requires_grad=True)], lr=0.1)
            optimizer.step()  # before there was a scheduler: this does not count
            scheduler = kinds.StepLR(optimizer, 1)
            if not wrong:
                optimizer.step()
            said += [warned(scheduler.step), warned(scheduler.step)]
        optimizer, scheduler = make(library, "StepLR", {"step_size": 1})
        optimizer.step = lambda: None
        return [*said, warned(scheduler.step), warned(scheduler.get_lr), warned(
            lambda: scheduler.step(3)
        )]  # fmt: skip

    ours = run(edutorch)
    assert [len(each) for each in ours] == [1, 0, 0, 0, 1, 1, 1]
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
    kinds = optim.lr_scheduler
    optimizer, other = (optim.SGD([edutorch.zeros(1, requires_grad=True)]) for _ in range(2))
    step = kinds.StepLR(optimizer, 1)
    for schedulers, milestones, error, text in (
        ([], [], ValueError, "at least one scheduler"), ([3], [], TypeError, "should have"),
        ([step, kinds.ReduceLROnPlateau(optimizer)], [1], ValueError, "does not support"),
        ([step, kinds.StepLR(other, 1)], [1], ValueError, "same optimizer"),
    ):  # fmt: skip
        with pytest.raises(error, match=text):
            kinds.SequentialLR(optimizer, schedulers, milestones)
        with pytest.raises(error, match=text):
            kinds.ChainedScheduler(schedulers, optimizer)
    with pytest.raises(ValueError, match="one more than the number of milestone"):
        kinds.SequentialLR(optimizer, [step], [1])


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
