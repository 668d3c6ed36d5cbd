"""State dicts of models, all optimizers, all schedulers, averages and generators."""

from __future__ import annotations

import collections
import io
import random

import numpy as np
import pytest

import edutorch
from edutorch import nn, optim
from edutorch.optim import lr_scheduler, swa_utils

OPTIMIZERS = sorted(set(optim.__all__) - {"Optimizer", "SparseAdam", "lr_scheduler", "swa_utils",
                                          "swap_in_optimizer_params_and_state"})  # fmt: skip

SCHEDULES = {
    "ConstantLR": {}, "CosineAnnealingLR": {"T_max": 5}, "ExponentialLR": {"gamma": 0.9},
    "CosineAnnealingWarmRestarts": {"T_0": 3}, "CyclicLR": {"base_lr": 0.01, "max_lr": 0.1},
    "LambdaLR": {"lr_lambda": lambda step: 0.9**step}, "LinearLR": {}, "PolynomialLR": {},
    "MultiStepLR": {"milestones": [2, 5, 5]}, "MultiplicativeLR": {"lr_lambda": lambda step: 0.9},
    "OneCycleLR": {"max_lr": 0.1, "total_steps": 20}, "ReduceLROnPlateau": {"patience": 1},
    "StepLR": {"step_size": 2},
}  # fmt: skip


def round_trip(obj):
    file = io.BytesIO()
    edutorch.save(obj, file)
    return edutorch.load(io.BytesIO(file.getvalue()))


def train(model, optimizer, steps, schedule=None):
    for _ in range(steps):

        def closure():
            optimizer.zero_grad()
            loss = (model(edutorch.ones(3, 2)) - 1).square().sum()
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        if schedule is not None:
            plateau = isinstance(schedule, lr_scheduler.ReduceLROnPlateau)
            schedule.step(loss.item()) if plateau else schedule.step()


def numbers(model):
    return [parameter.tolist() for parameter in model.parameters()]


def make_model():
    edutorch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3, bias=False), nn.Linear(3, 1, bias=False))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_goes_on_exactly(name, device):
    def make():
        model = make_model()
        settings = {"max_iter": 3} if name == "LBFGS" else {}
        return model, getattr(optim, name)(model.parameters(), lr=0.05, **settings)

    model, optimizer = make()
    train(model, optimizer, 2)
    loaded = round_trip({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    twin, other = make()
    twin.load_state_dict(loaded["model"])
    other.load_state_dict(loaded["optimizer"])
    train(model, optimizer, 2)
    train(twin, other, 2)
    assert numbers(twin) == numbers(model)


@pytest.mark.parametrize("name", [*SCHEDULES, "ChainedScheduler", "SequentialLR", "SWALR"])
def test_every_schedule_goes_on_exactly(name):
    def make():
        model = make_model()
        optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        parts = [lr_scheduler.StepLR(optimizer, 2), lr_scheduler.ExponentialLR(optimizer, 0.9)]
        if name == "ChainedScheduler":
            schedule = lr_scheduler.ChainedScheduler(parts)
        elif name == "SequentialLR":
            schedule = lr_scheduler.SequentialLR(optimizer, parts, milestones=[2])
        elif name == "SWALR":
            schedule = swa_utils.SWALR(optimizer, swa_lr=0.05, anneal_epochs=4)
        else:
            schedule = getattr(lr_scheduler, name)(optimizer, **SCHEDULES[name])
        return model, optimizer, schedule

    ours = make()
    train(*ours[:2], 4, ours[2])
    states = round_trip([our.state_dict() for our in ours])
    twins = make()
    for twin, state in zip(twins, states, strict=True):
        twin.load_state_dict(state)
    train(*ours[:2], 5, ours[2])
    train(*twins[:2], 5, twins[2])
    assert twins[1].param_groups[0]["lr"] == ours[1].param_groups[0]["lr"]
    assert numbers(twins[0]) == numbers(ours[0])


def test_the_list_of_schedules_is_complete():
    combined = {"ChainedScheduler", "SequentialLR", "LRScheduler"}
    assert {*SCHEDULES, *combined} == set(lr_scheduler.__all__)


@pytest.mark.parametrize("average", [None, swa_utils.get_ema_multi_avg_fn(0.9)])
def test_averaged_models(average):
    model = nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1))
    averaged = swa_utils.AveragedModel(model, multi_avg_fn=average, use_buffers=True)
    for _ in range(3):
        model(edutorch.randn(4, 2))
        averaged.update_parameters(model)
    twin = swa_utils.AveragedModel(model, multi_avg_fn=average, use_buffers=True)
    twin.load_state_dict(round_trip(averaged.state_dict()))
    assert twin.n_averaged == averaged.n_averaged
    assert numbers(twin) == numbers(averaged)


def test_all_random_generators_go_on_where_they_were():
    states = round_trip({
        "edutorch": edutorch.get_rng_state(), "numpy": np.random.get_state(),
        "python": random.getstate(), "generator": np.random.default_rng(1).bit_generator.state,
    })  # fmt: skip
    expected = edutorch.rand(3).tolist(), np.random.rand(3).tolist(), random.random()
    edutorch.set_rng_state(states["edutorch"])
    np.random.set_state(states["numpy"])
    random.setstate(states["python"])
    assert (edutorch.rand(3).tolist(), np.random.rand(3).tolist(), random.random()) == expected
    generator = np.random.default_rng(7)
    generator.bit_generator.state = states["generator"]
    assert generator.random() == np.random.default_rng(1).random()


def test_the_state_of_a_scaler_and_of_metrics():
    scaler = edutorch.amp.GradScaler("cpu")
    seen = collections.deque([0.5, 0.25], maxlen=10)
    saved = {"scaler": scaler.state_dict(), "losses": seen, "best": (3, np.float64(0.1))}
    loaded = round_trip(saved)
    scaler.load_state_dict(loaded["scaler"])
    assert loaded == saved
    assert loaded["losses"].maxlen == 10
