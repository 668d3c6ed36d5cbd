"""A training step split over eight devices: it computes what it computes on one."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import jax, numpy as np
import edutorch as torch
from edutorch import nn
from tests.xla.steps import NETWORKS, OPTIMIZERS, example, training_step

assert len(jax.devices()) == 8

def trained(rows, **settings):
    torch.manual_seed(0)
    model, x, y = NETWORKS["MLP"][0](), torch.randn(rows, 6), torch.randn(rows, 3)
    step = training_step(model, OPTIMIZERS["Adam"](model))
    if settings:
        step = torch.compile(step, backend="jax", **settings)
    losses = [step(x, y).item() for _ in range(7)]
    return step, [losses, *(p.detach().numpy() for p in model.parameters())]

step, split = trained(32, options={"data_parallel": True})
for result, wanted in zip(split, trained(32)[1], strict=True):
    np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-5)
assert "split over 8 devices" in step.explain(), step.explain()
program = step.entries[0].forward._run
places = program.input_shardings[0][1][:2]
rows = [place.shard_shape((32, n)) for place, n in zip(places, (6, 3), strict=True)]
assert rows == [(4, 6), (4, 3)], rows
assert "all-reduce" in program.as_text()
trained(30, options={"data_parallel": True})
"""


def test_a_step_over_eight_devices():
    environment = {
        **os.environ,  "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "30 examples cannot be split over 8 devices" in done.stderr  # said, and run eagerly
