"""Networks trained under autocast follow PyTorch's, from the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import edutorch

pytestmark = pytest.mark.oracle
RANDOM = np.random.default_rng(3)
ROWS = RANDOM.normal(size=(64, 10)).astype(np.float32)
IMAGES = RANDOM.normal(size=(16, 2, 8, 8)).astype(np.float32)
CLASSES = RANDOM.integers(0, 4, 64)
TOLERANCE = {"bfloat16": 2e-2, "float16": 3e-3}


def mlp(t: Any) -> Any:
    return t.nn.Sequential(t.nn.Linear(10, 32), t.nn.ReLU(), t.nn.LayerNorm(32), t.nn.Linear(32, 4))


def cnn(t: Any) -> Any:
    return t.nn.Sequential(
        t.nn.Conv2d(2, 8, 3, padding=1), t.nn.BatchNorm2d(8), t.nn.ReLU(), t.nn.MaxPool2d(2),
        t.nn.Conv2d(8, 8, 3), t.nn.Tanh(), t.nn.Flatten(), t.nn.Linear(32, 4),
    )  # fmt: skip


def losses(t: Any, net: Any, rows: np.ndarray, dtype: str, scaled: bool) -> list[float]:
    """Train 20 steps; return the losses."""
    x, classes = t.tensor(rows), t.tensor(CLASSES[: len(rows)])
    optimizer = t.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    scaler = t.amp.GradScaler("cpu", enabled=scaled)
    values = []
    for _ in range(20):
        optimizer.zero_grad()
        with t.autocast("cpu", dtype=getattr(t, dtype)):
            y = net(x)
            loss = t.nn.functional.cross_entropy(y, classes)
        assert y.dtype is getattr(t, dtype)
        assert loss.dtype is t.float32
        scaler.scale(loss).backward()
        assert all(parameter.grad.dtype is t.float32 for parameter in net.parameters())
        scaler.step(optimizer)
        scaler.update()
        values.append(loss.item())
    return values


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("make", "rows"), [(mlp, ROWS), (cnn, IMAGES)], ids=["mlp", "cnn"])
def test_losses_follow_pytorchs(torch, make, rows, dtype):
    theirs, ours = make(torch), make(edutorch)
    ours.load_state_dict({k: edutorch.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    scaled = dtype == "float16"
    expected = losses(torch, theirs, rows, dtype, scaled)
    result = losses(edutorch, ours, rows, dtype, scaled)
    assert expected[-1] < 0.7 * expected[0]
    np.testing.assert_allclose(result, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_an_overflow_leaves_out_a_step_and_halves_the_scale(torch):
    """A batch of huge values in the middle of a training loop."""
    records = []
    start = mlp(torch).state_dict()
    for t in (torch, edutorch):
        net = mlp(t)
        net.load_state_dict({key: t.tensor(value.numpy()) for key, value in start.items()})
        optimizer = t.optim.SGD(net.parameters(), lr=0.05)
        scaler = t.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=3)
        record = []
        for step in range(10):
            x = t.tensor(ROWS) * (1e6 if step == 4 else 1.0)
            before = net[0].weight.detach().clone()
            optimizer.zero_grad()
            with t.autocast("cpu", dtype=t.float16):
                loss = t.nn.functional.cross_entropy(net(x), t.tensor(CLASSES))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            moved = not t.equal(before, net[0].weight)
            record.append((moved, scaler.get_scale(), scaler.state_dict()["_growth_tracker"]))
        records.append(record)
    assert records[1] == records[0]
    assert records[1][4] == (False, 2.0**14, 0)  # it had doubled after three good steps
    assert [moved for moved, _, _ in records[1]].count(False) == 1
