"""Every optimizer converges, does not leak memory, and follows its paper."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

import edutorch
from edutorch import nn, optim
from edutorch.optim.lbfgs import Point, strong_wolfe
from edutorch.optim.muon import orthogonalize

DOWNHILL = {
    "SGD": {"lr": 0.1}, "Adam": {"lr": 0.1}, "AdamW": {"lr": 0.1}, "NAdam": {"lr": 0.1},
    "RAdam": {"lr": 0.1}, "Adamax": {"lr": 0.1}, "Adagrad": {"lr": 0.5}, "Adadelta": {"lr": 20.0},
    "RMSprop": {"lr": 0.01}, "Rprop": {"lr": 0.01}, "ASGD": {"lr": 0.1}, "LBFGS": {},
    "Adafactor": {"lr": 0.1}, "Muon": {"lr": 0.02, "weight_decay": 0.0},
}  # fmt: skip


def test_every_optimizer_is_tried():
    names = {name for name in optim.__all__ if name[0].isupper()}
    assert names - set(DOWNHILL) == {"Optimizer", "SparseAdam"}  # SparseAdam refuses to step


@pytest.mark.parametrize("name", DOWNHILL)
def test_it_fits_a_plane(name, device):
    edutorch.manual_seed(2)  # one of those where Adadelta gets there in 200 steps
    x = edutorch.randn(64, 3)
    target = x @ edutorch.tensor([[1.0, -2.0], [0.5, 0.3], [-0.7, 1.2]])
    weight = nn.Parameter(0.1 * edutorch.randn(3, 2))
    optimizer = getattr(optim, name)([weight], **DOWNHILL[name])

    def closure():
        optimizer.zero_grad()
        loss = ((x @ weight - target) ** 2).mean()
        loss.backward()
        return loss

    first = closure().item()
    steps, goal = (200, 0.01) if device == "cpu" else (20, 1.0)  # elsewhere it only has to run
    for _ in range(5 if name == "LBFGS" else steps):
        optimizer.step(closure)
    assert closure().item() < goal * first


@pytest.mark.parametrize("name", DOWNHILL)
def test_steps_leave_nothing_behind(name):
    """Steps leak neither objects nor memory blocks, and create no reference cycles."""
    x = edutorch.ones(4, 3, requires_grad=True)
    more = {"history_size": 3} if name == "LBFGS" else {}
    optimizer = getattr(optim, name)([x], **more)

    def closure():
        optimizer.zero_grad()
        loss = (x.sin() ** 2).sum()
        loss.backward()
        return loss

    def run(steps):
        for _ in range(steps):
            optimizer.step(closure)

    def growth():
        gc.collect()
        gc.disable()
        try:
            before = sys.getallocatedblocks()
            run(200)
            cycles = gc.collect()
            return sys.getallocatedblocks() - before, cycles
        finally:
            gc.enable()

    run(20)
    # All threads of the process are counted, and one may compile a kernel: not three times.
    grown, cycles = min(growth() for _ in range(3))
    assert grown < 150  # less than one for each step
    assert cycles == 0


def test_a_dropped_optimizer_is_freed_at_once():
    import weakref

    x = edutorch.ones(3, requires_grad=True)
    optimizer = optim.NAdam([x])
    scheduler = optim.lr_scheduler.StepLR(optimizer, 1)
    x.sum().backward()
    optimizer.step()
    scheduler.step()
    gone = weakref.ref(optimizer)
    del optimizer, scheduler
    assert gone() is None


def test_muon_turns_all_directions_alike(device):
    matrix = edutorch.randn(6, 4)
    turned = orthogonalize(matrix, (3.4445, -4.775, 2.0315), 5, 1e-7)
    sizes = np.linalg.svd(np.array(turned.tolist()), compute_uv=False)
    assert turned.shape == (6, 4)
    assert ((sizes > 0.5) & (sizes < 1.5)).all()


@pytest.mark.parametrize("settings", [
    {}, {"nesterov": False}, {"lr": 0.1, "adjust_lr_fn": "match_rms_adamw"}, {"weight_decay": 0.5},
    {"lr": 0.1, "momentum": 0.5, "ns_steps": 3}, {"ns_coefficients": (2.0, -1.5, 0.5)},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("shape", [(3, 5), (5, 3)], ids=str)
def test_muon_is_pytorchs_within_bfloat16(settings, shape, torch):
    start = np.sin(np.arange(15.0)).reshape(shape)
    results = []
    for library in (edutorch, torch):
        x = library.tensor(start, requires_grad=True)
        optimizer = library.optim.Muon([x], **settings)
        for step in range(5):
            x.grad = library.tensor(np.cos(step + start * 3))
            optimizer.step()
        results.append(x.tolist())
    lr = settings.get("lr", 1e-3)
    np.testing.assert_allclose(*results, atol=0.1 * lr)
    assert abs(np.subtract(results[0], start)).max() > 0.3 * lr


def test_adafactor_remembers_a_row_and_a_column():
    x = nn.Parameter(edutorch.randn(50, 40))
    optimizer = optim.Adafactor([x])
    x.square().sum().backward()
    optimizer.step()
    kept = optimizer.state[x]
    assert [kept[key].shape for key in ("row_var", "col_var")] == [(50, 1), (1, 40)]


def test_asgd_averages_where_it_has_been():
    x = edutorch.tensor([5.0], requires_grad=True)
    optimizer = optim.ASGD([x], lr=0.3, t0=20, lambd=0.0)
    for _ in range(400):
        optimizer.zero_grad()
        (x * x + edutorch.randn(1) * x).sum().backward()
        optimizer.step()
    assert abs(optimizer.state[x]["ax"].item()) < 0.1


def test_lbfgs_needs_few_steps_where_sgd_needs_many():
    """Rosenbrock's function, a narrow curved valley."""
    x = edutorch.tensor([-1.2, 1.0], dtype=edutorch.float64, requires_grad=True)
    optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=60)

    def closure():
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        return loss

    optimizer.step(closure)
    assert x.tolist() == pytest.approx([1, 1], abs=1e-3)
    assert optimizer.state[x]["func_evals"] < 80


@pytest.mark.parametrize("first", [1e-3, 0.1, 1.0, 30.0, 1e3])
def test_a_line_search_ends_at_a_good_point(first):
    def look(t):
        return Point(t, (t - 3) ** 4 - t, None, 4 * (t - 3) ** 3 - 1)

    start = look(0.0)
    point, evaluations = strong_wolfe(look, start, first, 1.0)
    assert point.loss <= start.loss + 1e-4 * point.t * start.slope
    assert abs(point.slope) <= 0.9 * abs(start.slope)
    assert evaluations <= 15
