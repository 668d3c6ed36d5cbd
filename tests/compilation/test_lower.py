"""The generated function: readable, right without numba, kernels beside it and kept on the disk."""

from __future__ import annotations

import importlib.util
import math
import operator
import os
import subprocess
import sys

import numpy as np
import pytest

import edutorch
from edutorch import fx
from edutorch.compilation import kernel_cache
from edutorch.compilation.pipeline import lower
from edutorch.fx import primitives
from edutorch.fx.interpreter import run_on_arrays
from edutorch.nn.functional.loss.definitions import nll_grad, nll_loss
from tests.compilation.graphs import graph_of

needs_numba = pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="numba is not installed"
)


def scores(call, x, w, b):
    y = call(edutorch.add, call(edutorch.mm, x, w), b)
    return [call(edutorch.softmax, call(edutorch.relu, y), dim=1)]


SPECS = [((8, 5), "float32"), ((5, 3), "float32"), ((3,), "float32")]


def arrays():
    draw = np.random.default_rng(0)
    return [draw.normal(size=shape).astype(dtype) for shape, dtype in SPECS]


def test_code_is_straight_line_python():
    code = lower(graph_of(scores, SPECS), fuse=False).code
    assert code.startswith("def run(inputs):\n    x0, x1, x2, = inputs\n")
    assert "np.maximum(add, 0.0)" in code
    assert "for " not in code
    compile(code, "code", "exec")


def test_without_numba_it_works_and_says_so(monkeypatch):
    monkeypatch.setattr(kernel_cache, "is_available", lambda: False)
    lowered = lower(graph_of(scores, SPECS))
    assert not lowered.fused
    assert lowered.ready
    assert "without numba" in str(lowered.explain())
    result, wanted = lowered(arrays())[0], run_on_arrays(lowered.graph)(arrays())[0]
    np.testing.assert_allclose(result, wanted, rtol=1e-6)


def test_kernels_can_be_switched_off(monkeypatch):
    monkeypatch.setenv("EDUTORCH_KERNELS", "off")
    assert not lower(graph_of(scores, SPECS)).fused
    monkeypatch.delenv("EDUTORCH_KERNELS")
    with edutorch.backends.reference_only():
        assert not lower(graph_of(scores, SPECS)).fused


@needs_numba
def test_until_a_kernel_is_ready_numpy_computes(monkeypatch):
    waiting = []
    monkeypatch.setattr(kernel_cache.compiler, "submit", waiting.append)
    monkeypatch.setattr(kernel_cache, "_kernels", {})
    lowered = lower(graph_of(scores, SPECS), wait=False, fuse=True)
    assert not lowered.ready
    assert "being compiled" in str(lowered.explain())
    before = lowered(arrays())[0]
    for make in waiting:
        make()
    assert lowered.wait().ready
    assert "compiled" in str(lowered.explain())
    np.testing.assert_allclose(before, lowered(arrays())[0], rtol=1e-5)


@needs_numba
@pytest.mark.parametrize(("rows", "shared"), [(8, False), (20_000, True)])
def test_a_compiled_kernel_is_what_runs(rows, shared):
    """Itself, or, where there is enough to do, by all threads."""
    specs = [((rows, 5), "float32"), *SPECS[1:]]
    lowered = lower(graph_of(scores, specs), wait=True, fuse=True)
    (kernel,), (fused,) = lowered._kernels.values(), lowered.fused
    assert kernel.run is not None
    assert (lowered._scope[fused.name] is kernel.run) != shared
    assert (lowered._scope[fused.name].__name__ == "run_parallel") == shared


@needs_numba
def test_a_kernel_that_cannot_be_compiled_is_left_to_numpy(monkeypatch):
    monkeypatch.setattr(kernel_cache, "_kernels", {})
    monkeypatch.setattr(kernel_cache, "OPTIONS", "no_such_option=True")
    with pytest.warns(UserWarning, match="slower, the same results"):
        lowered = lower(graph_of(scores, SPECS), wait=True, fuse=True)
    wanted = run_on_arrays(lowered.graph)(arrays())[0]
    np.testing.assert_allclose(lowered(arrays())[0], wanted, rtol=1e-5)
    assert "no_such_option" in str(lowered.explain())


SECOND = """
import numpy as np
import edutorch
from edutorch.compilation.pipeline import lower
from tests.compilation.graphs import graph_of
from tests.compilation.test_lower import SPECS, arrays, scores
lowered = lower(graph_of(scores, SPECS), wait=True, fuse=True)
lowered(arrays())
for kernel in lowered._kernels.values():
    print("loaded:", sum(kernel.run.stats.cache_hits.values()), kernel.run.stats.cache_misses)
"""


@needs_numba
def test_a_second_process_starts_warm(tmp_path):
    settings = {**os.environ, "EDUTORCH_CACHE": str(tmp_path), "PYTHONPATH": os.getcwd()}
    for expected in ("loaded: 0", "loaded: 1"):
        done = subprocess.run(
            [sys.executable, "-c", SECOND],
            env=settings,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert expected in done.stdout, done.stderr


def test_numbers_are_computed_in_each_call():
    graph = fx.Graph()
    x, step, rate = (graph.placeholder(name) for name in ("x", "step", "rate"))
    x.meta.update(shape=(4,), dtype=np.dtype("float32"))
    step.meta.update(shape=(), dtype=np.dtype("float32"))
    rate.meta["number"] = True
    count = graph.call_function(primitives.item, (step,))
    power = graph.call_function(operator.pow, (0.9, count))
    root = graph.call_function(math.sqrt, (graph.call_function(operator.sub, (1, power)),))
    for node in graph.nodes:
        if node.op == "call_function":
            node.meta["number"] = True
    y = graph.call_function(edutorch.mul, (x, root))
    z = graph.call_function(edutorch.sub, (y, rate), {"alpha": 1})
    for node in (y, z):
        node.meta.update(x.meta)
    graph.output((z, root))
    for fuse in (False, kernel_cache.is_available()):
        lowered = lower(graph, wait=True, fuse=fuse)
        for count in (1.0, 5.0):
            inputs = [np.arange(4, dtype="float32"), np.array(count, "float32"), 0.25]
            result, number = lowered(inputs)
            assert number == math.sqrt(1 - 0.9**count)
            wanted = inputs[0] * np.float32(number) - np.float32(0.25)
            np.testing.assert_allclose(result, wanted, rtol=1e-6)
            assert result.dtype == np.float32


def losses(call, x, target):
    loss = call(nll_loss, x, target, None, reduction="mean", ignore_index=2)
    back = call(
        nll_grad, loss, target=target, weight=None, shape=(6, 4), reduction="mean", ignore_index=2
    )
    unreduced = call(nll_loss, x, target, None, reduction="none")
    return [loss, back, unreduced, call(nll_loss, x, target, None, reduction="sum")]


@pytest.mark.parametrize("fuse", [False, pytest.param(True, marks=needs_numba)])
def test_losses_of_classes(fuse):
    graph = graph_of(losses, [((6, 4), "float32"), ((6,), "int64")])
    x = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
    x[0, 3] = -np.inf  # not the right class: it does not count
    target = np.array([0, 2, 3, 1, 1, 0])
    lowered = lower(graph, wait=True, fuse=fuse)
    assert not [kernel.failed for kernel in lowered._kernels.values() if kernel.failed]
    for result, wanted in zip(lowered([x, target]), run_on_arrays(graph)([x, target]), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5)
    with pytest.raises(IndexError, match="Target 4 is out of bounds"):
        lowered([x, np.array([0, 1, 4, 0, 0, 0])])


@pytest.mark.filterwarnings("error")  # NumPy's own warning of 0 / 0 would say nothing to a user
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_of_empty_batches(reduction):
    def loss(x, target):
        y = edutorch.nn.functional.cross_entropy(x, target, reduction=reduction)
        return y, edutorch.autograd.grad(y.sum(), x)[0]

    compiled = edutorch.compile(loss)
    x = edutorch.zeros(0, 3, requires_grad=True)
    target = edutorch.zeros(0, dtype=edutorch.int64)
    for _ in range(3):
        for result, wanted in zip(compiled(x, target), loss(x, target), strict=True):
            np.testing.assert_array_equal(result.detach().numpy(), wanted.detach().numpy())


@needs_numba
def test_random_ops_stay_what_they_are():
    def step(x):
        return edutorch.nn.functional.dropout(x, 0.5) * 2

    edutorch.manual_seed(1)
    wanted = step(edutorch.ones(50))
    compiled = edutorch.compile(step)
    for _ in range(2):
        edutorch.manual_seed(1)
        assert edutorch.equal(compiled(edutorch.ones(50)), wanted)


@needs_numba
@pytest.mark.parametrize("optimizer_name", ["Adam", "SGD"])
def test_a_whole_step_of_training_is_that_of_eager(optimizer_name, monkeypatch):
    monkeypatch.setenv("EDUTORCH_KERNELS", "wait")
    nn = edutorch.nn
    draw = np.random.default_rng(0)
    x = edutorch.tensor(draw.normal(size=(16, 12)).astype("float32"))
    y = edutorch.tensor(draw.integers(0, 3, 16))

    def stepper():
        edutorch.manual_seed(0)
        model = nn.Sequential(nn.Linear(12, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))
        optimizer = getattr(edutorch.optim, optimizer_name)(model.parameters(), lr=0.1)

        def step(x, y):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return step

    eager, compiled = stepper(), edutorch.compile(stepper())
    assert compiled.code == ""
    for _ in range(5):
        assert compiled(x, y).item() == pytest.approx(eager(x, y).item(), rel=1e-4)
    assert compiled.code.startswith("# version 0, function\n\ndef run(inputs):")
    assert "fused_0" in compiled.code
    assert "layer_norm" in str(compiled.explain())
