"""Every scheduler against PyTorch over a hundred steps: rates, momenta, states both ways.

The names come from `torch.optim.lr_scheduler`: one without settings and without a reason fails.
"""

from __future__ import annotations

import copy
import inspect
import math
from typing import Any

import pytest

import edutorch
from tests.optim.problems import label
from tests.optim.schedules import PLATEAUS, SETTINGS, close, go, make, settings_of

EXCLUDED = {
    "LRScheduler": "the base of all; a subclass of one's own is in its docstring",
    "_LRScheduler": "the older name of the base",
}
STEPS = 100

# Schedulers inside others warn in both libraries that the optimizer has not stepped.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def schedulers_of(library: Any) -> set[str]:
    """Return the names of all schedulers of a library, that of `swa_utils` too."""
    base = library.optim.lr_scheduler.LRScheduler
    names = {**vars(library.optim.lr_scheduler), **vars(library.optim.swa_utils)}
    return {
        name for name, value in names.items() if inspect.isclass(value) and issubclass(value, base)
    }


TRIED = {name for name, _ in SETTINGS} | {"ReduceLROnPlateau"}


def test_every_scheduler_of_pytorch_is_tried(torch):
    assert schedulers_of(torch) - TRIED - set(EXCLUDED) == set()


def test_every_scheduler_is_tried():
    assert schedulers_of(edutorch) - TRIED - set(EXCLUDED) == set()
    names = [name for name, _ in SETTINGS]
    assert {name for name in TRIED if names.count(name) < 2} <= {
        "ReduceLROnPlateau", "MultiplicativeLR", "ExponentialLR",  # each with few settings
    }  # fmt: skip


@pytest.mark.parametrize("optimizer_name", ["SGD", "Adam"])
@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=label)
def test_a_hundred_steps_equal_pytorchs(name, settings, optimizer_name, torch):
    (mine, ours), (other, theirs) = (
        make(it, name, settings, optimizer_name) for it in (edutorch, torch)
    )
    close(settings_of(mine), settings_of(other))
    close(ours.get_last_lr(), theirs.get_last_lr())
    close(go(mine, ours, STEPS), go(other, theirs, STEPS))
    assert set(ours.state_dict()) == set(theirs.state_dict())


@pytest.mark.parametrize("first", ["edutorch", "torch"])
@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=label)
def test_a_schedule_is_continued_in_the_middle(name, settings, first, torch):
    """Both libraries resume from the state of either, with the same rates."""
    begun, schedule = make(edutorch if first == "edutorch" else torch, name, settings)
    go(begun, schedule, STEPS // 2)
    groups = [
        {key: value for key, value in group.items() if key != "params"}
        for group in begun.param_groups
    ]
    state = copy.deepcopy(schedule.state_dict())
    expected = go(begun, schedule, STEPS // 2)
    for library in (edutorch, torch):
        optimizer, scheduler = make(library, name, settings)
        for group, saved in zip(optimizer.param_groups, groups, strict=True):
            group.update(saved)
        scheduler.load_state_dict(copy.deepcopy(state))
        close(go(optimizer, scheduler, STEPS // 2), expected)


LOSSES = [
    math.exp(-step / 9) + (0.3 if step > 20 else 0.1) * math.sin(step) for step in range(STEPS)
]


@pytest.mark.parametrize("settings", PLATEAUS, ids=label)
def test_a_plateau_is_seen_as_by_pytorch(settings, torch):
    results = []
    for library in (edutorch, torch):
        optimizer, scheduler = make(library, "ReduceLROnPlateau", settings)
        seen = []
        for step, loss in enumerate(LOSSES):
            if step == STEPS // 2:
                state = copy.deepcopy(scheduler.state_dict())
                scheduler = library.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
                scheduler.load_state_dict(state)
            scheduler.step(library.tensor(loss))
            seen.append((scheduler.get_last_lr(), scheduler.num_bad_epochs, scheduler.last_epoch))
        results.append((seen, sorted(state)))
    assert results[0] == results[1]
