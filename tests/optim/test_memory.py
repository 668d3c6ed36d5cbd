"""Training steps reuse the memory of earlier ones."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from edutorch.utils.process import keep_freed_memory

STEPS = """
import resource
import edutorch
from edutorch import nn, optim

model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = optim.Adam(model.parameters())
x, y = edutorch.randn(64, 784), edutorch.randint(0, 10, (64,))

def faults(steps):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / steps

faults(20)
print(faults(100))
"""


@pytest.mark.skipif(not keep_freed_memory(), reason="needs glibc's malloc")
def test_a_step_asks_the_kernel_for_no_new_pages():
    """A gradient of 784 x 128 elements has a hundred pages, which would fault again if freed."""
    command = [sys.executable, "-c", STEPS]
    # A compiler beside the steps would take pages of its own.
    environment = {**os.environ, "EDUTORCH_KERNELS": "wait"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert float(done.stdout) < 10
