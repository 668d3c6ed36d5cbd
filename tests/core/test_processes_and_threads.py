"""Training for many steps, in many threads, and in a child process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

import edutorch
from edutorch.autograd import forward_ad, graph
from edutorch.modes import DEFAULT, current

STEPS = """
import gc, resource
import edutorch
from edutorch import nn, optim

gc.disable()
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = optim.Adam(model.parameters())
x, y = edutorch.randn(4, 8), edutorch.randint(0, 3, (4,))

def memory(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        h = loss * 1
        h[...] = loss
        h.backward()
        optimizer.step()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

before = memory(300)
print((memory(5000) - before) / 2**20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_steps_do_not_grow_memory_even_without_the_collector():
    done = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=True)
    assert float(done.stdout) <= 1


def test_eight_threads_add_to_the_same_leaves():
    w = edutorch.zeros(64, requires_grad=True)
    v = edutorch.ones(64, requires_grad=True)
    start = threading.Barrier(8)
    failed = []

    def run(number):
        try:
            start.wait()
            for step in range(100):
                with edutorch.no_grad():
                    assert not (w * 2).requires_grad
                with edutorch.set_grad_enabled(number % 2 == 0):
                    assert (w * 2).requires_grad == (number % 2 == 0)
                ((w * number).sum() + (v * v * 0.5).sum()).backward()
                assert current() is DEFAULT, step
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert w.grad.tolist() == [100.0 * sum(range(8))] * 64
    assert v.grad.tolist() == [800.0] * 64


CONTEXTS = [
    edutorch.no_grad, edutorch.inference_mode, forward_ad.dual_level, graph.save_on_cpu,
    edutorch.autograd.detect_anomaly, graph.allow_mutation_on_saved_tensors,
    lambda: graph.disable_saved_tensors_hooks("not here"),
    lambda: forward_ad.set_forward_grad_enabled(False),
]  # fmt: skip


@pytest.mark.parametrize("context", CONTEXTS)
def test_every_mode_ends_with_its_block(context):
    def generator():
        with context():
            yield 1

    with pytest.raises(ZeroDivisionError), context():
        raise ZeroDivisionError
    assert current() is DEFAULT
    with context():
        pass
    assert current() is DEFAULT
    running = generator()
    next(running)
    running.close()
    assert current() is DEFAULT

    @context()
    def decorated():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        decorated()
    assert current() is DEFAULT


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_computes_after_the_parent_has():
    """In a separate process: this one may have threads that cannot be forked."""
    code = """
import os, signal
import edutorch

x = edutorch.randn(500, 500, dtype=edutorch.float64)
first = (x @ x).sum().item()
child = os.fork()
if child == 0:
    signal.alarm(30)
    y = x.requires_grad_()
    (y @ y).sum().backward()
    same = abs((x @ x).sum().item() - first) < 1e-6
    os._exit(0 if same and y.grad.shape == (500, 500) else 1)
_, status = os.waitpid(child, 0)
assert abs((x @ x).sum().item() - first) < 1e-6
print("status", status)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "status 0", done.stderr
