"""Training for 10,000 steps needs no more memory than training for 500."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

import edutorch
from edutorch import nn
from tests.golden_scripts import FOLDER

STATM = Path("/proc/self/statm")
MEGABYTES = 5.0  # in 10,000 steps


def promised(loop, steps):
    return pytest.param(loop, steps, marks=pytest.mark.slow)


# 10,000 steps are the length that is promised; a thousand show a leak of each step as well.
@pytest.mark.skipif(not STATM.exists(), reason="resident memory is read from /proc")
@pytest.mark.parametrize(
    ("loop", "steps"),
    [
        *((loop, 1_200) for loop in ("mlp", "gru", "cnn", "kept")),
        *(promised(loop, 10_000) for loop in ("mlp", "gru", "cnn", "kept")),
    ],
)
def test_memory_stays_where_it_is_after_500_steps(loop, steps, tmp_path):
    out = tmp_path / "memory.json"
    command = [sys.executable, "-m", "edutorch", "run", str(FOLDER / "long_training.py"), loop]
    command += [f"--steps={steps}", f"--out={out}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    measured = json.loads(out.read_text())
    assert measured["step"][0] == 500
    assert measured["step"][-1] == steps
    growth = measured["memory"][-1] - measured["memory"][0]
    assert growth < MEGABYTES * steps / 10_000, measured


def training(steps: int, keep) -> list[weakref.ref]:
    """Train for some steps, `keep` each loss, and return weak references to all outputs."""
    model = nn.Linear(4, 1)
    optimizer = edutorch.optim.SGD(model.parameters(), lr=0.01)
    outputs = []
    for _ in range(steps):
        output = model(edutorch.randn(8, 4))
        outputs.append(weakref.ref(output.grad_fn))
        loss = output.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        keep(loss)
    return outputs


@pytest.mark.parametrize(
    ("what", "keeps"),
    [
        (lambda loss: loss.item(), False),
        (lambda loss: loss.detach(), False),
        (lambda loss: loss.detach().clone(), False),
        (lambda loss: loss.detach().numpy(), False),
        (lambda loss: loss, True),
    ],
    ids=["item", "detach", "clone", "numpy", "the loss itself"],
)
def test_only_a_loss_itself_keeps_its_graph(what, keeps):
    """The last case shows that the test can see a graph that is kept."""
    losses: list[object] = []
    graphs = training(5, lambda loss: losses.append(what(loss)))
    gc.collect()
    assert [graph() is not None for graph in graphs] == [keeps] * 5


def test_a_step_leaves_nothing_for_the_garbage_collector():
    """Graphs are freed by counting references: memory does not wait for a collection."""
    gc.collect()
    gc.disable()
    try:
        graphs = training(20, lambda loss: None)
        assert [graph() is not None for graph in graphs[:-1]] == [False] * 19
    finally:
        gc.enable()
