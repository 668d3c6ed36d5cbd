"""A kernel's step is that of its definition, to the last bit."""

import itertools
import os
import queue
import subprocess
import sys

import numpy as np
import pytest

import edutorch
from edutorch import kernels, optim
from edutorch.backends import reference_only
from edutorch.backends.stand_in import slots
from edutorch.kernels import available, warm_up

pytestmark = pytest.mark.skipif(not available(), reason="needs numba: the extra `fast`")

SIZES = [32_769, 250_000]
ADAMS = [
    {},
    {"weight_decay": 0.1},
    {"weight_decay": 0.1, "decoupled_weight_decay": True},
    {"betas": (0.5, 0.9), "eps": 1e-3, "lr": 0.1},
    {"maximize": True},
    {"amsgrad": True},
]
SGDS = [
    {"momentum": 0.9},
    {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    {"momentum": 0.5, "dampening": 0.3, "maximize": True},
    {},
]
CASES = [*itertools.product(["Adam"], ADAMS), *itertools.product(["SGD"], SGDS)]


@pytest.fixture(autouse=True)
def _warm():
    warm_up()


def trained(name, settings, size, dtype, steps=3):
    generator = np.random.default_rng(0)
    w = edutorch.tensor(generator.normal(size=size), dtype=dtype, requires_grad=True)
    optimizer = getattr(optim, name)([w], **{"lr": 0.01, **settings})
    for _ in range(steps):
        w.grad = edutorch.tensor(generator.normal(size=size), dtype=dtype)
        optimizer.step()
    return [w, *(value for state in optimizer.state.values() for value in state.values())]


@pytest.mark.parametrize("dtype", [edutorch.float32, edutorch.float64])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("name", "settings"), CASES)
def test_the_same_bits(name, settings, size, dtype):
    fast = trained(name, settings, size, dtype)
    with reference_only():
        assert all(each.run is None for each in slots())
        slow = trained(name, settings, size, dtype)
    for one, other in zip(fast, slow, strict=True):
        if isinstance(one, edutorch.Tensor):
            assert one.detach().numpy().tobytes() == other.detach().numpy().tobytes()
        else:
            assert one == other


def test_the_kernel_really_runs(monkeypatch):
    calls = []
    for each in slots():
        monkeypatch.setattr(each, "run", lambda *given: calls.append(len(given)) or False)
    trained("Adam", {}, 32_768, edutorch.float32)
    trained("SGD", {"momentum": 0.9}, 32_768, edutorch.float32)
    assert calls == [11] * 3 + [8] * 2
    trained("Adam", {}, 32_767, edutorch.float32)
    assert len(calls) == 5


def test_other_layouts_and_types_are_left_to_the_definition():
    w = edutorch.zeros(256, 128).T.requires_grad_()
    half = edutorch.zeros(32768, dtype=edutorch.bfloat16, requires_grad=True)
    optimizer = optim.Adam([w, half])
    w.grad, half.grad = edutorch.ones(128, 256), edutorch.ones_like(half)
    optimizer.step()
    assert w.detach().numpy().flatten() == pytest.approx(np.full(32768, -1e-3))
    assert half.float()[0].item() == pytest.approx(-1e-3, rel=0.01)


def test_nobody_waits_for_the_compiler_and_the_second_process_starts_warm(tmp_path):
    program = """
import time, edutorch
from edutorch.backends.stand_in import slots
w = edutorch.zeros(40_000, requires_grad=True)
optimizer = edutorch.optim.Adam([w])
w.grad = edutorch.ones(40_000)
adam = next(each for each in slots() if each.name == "optimizers.adam")
optimizer.step()
end = time.monotonic() + 120
while adam.run is None and time.monotonic() < end:
    time.sleep(0.01)
kernel = adam.run.__closure__[0].cell_contents
print(sum(kernel.stats.cache_hits.values()), sum(kernel.stats.cache_misses.values()))
"""
    outputs = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True, text=True, check=True,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        )  # fmt: skip
        outputs.append(done.stdout.split())
    assert outputs == [["0", "2"], ["2", "0"]]


def test_a_forked_process_has_kernels_too():
    trained("Adam", {}, 250_000, edutorch.float32)  # makes the pool
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        found = trained("Adam", {}, 250_000, edutorch.float32)[0].sum().item()
        os.write(writer, str(found).encode())
        os._exit(0)
    os.waitpid(child, 0)
    here = trained("Adam", {}, 250_000, edutorch.float32)[0].sum().item()
    assert float(os.read(reader, 100)) == here


def test_a_compiler_that_fails_is_said_and_the_definition_goes_on(monkeypatch):
    told = queue.SimpleQueue()

    def broken(slot):
        raise ImportError("Numba needs another NumPy")

    monkeypatch.setattr(kernels, "make", broken)
    monkeypatch.setattr(kernels, "warn", told.put)
    kernels.make_beside(slots()[0])
    text = told.get(timeout=60)
    assert "Numba needs another NumPy" in text
    assert "try `doctor`" in text
    monkeypatch.setattr(slots()[0], "run", None)
    assert trained("Adam", {}, 32_769, edutorch.float32)[0].isfinite().all()
