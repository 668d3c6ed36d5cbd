"""Planned memory: places are used again, and never one that somebody still needs."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import edutorch
from edutorch.compilation.pipeline import lower
from edutorch.fx.interpreter import run_on_arrays
from edutorch.ops.views import reshape
from tests.compilation.graphs import graph_of


def long_chain(call, x, w):
    for _ in range(6):
        x = call(edutorch.relu, call(edutorch.mm, x, w))
    return [x]


SPECS = [((64, 64), "float32"), ((64, 64), "float32")]


def arrays(seed=0):
    draw = np.random.default_rng(seed)
    return [draw.normal(size=shape).astype(dtype) / 8 for shape, dtype in SPECS]


def fusing(value):
    return pytest.param(value, marks=needs_numba if value else ())


needs_numba = pytest.mark.skipif(
    not __import__("importlib.util").util.find_spec("numba"), reason="numba is not installed"
)
both = pytest.mark.parametrize("fuse", [fusing(False), fusing(True)])


@both
def test_places_are_used_again(fuse):
    lowered = lower(graph_of(long_chain, SPECS), wait=True, fuse=fuse)
    assert lowered.plan.bytes <= 2 * 64 * 64 * 4
    before, after = lowered.explain().peak
    assert after <= before + 64 * 64 * 4  # the result is the caller's: it is no place
    np.testing.assert_allclose(
        lowered(arrays())[0], run_on_arrays(lowered.graph)(arrays())[0], rtol=1e-4, atol=1e-5
    )


@both
def test_results_of_two_calls_do_not_share_memory(fuse):
    lowered = lower(graph_of(long_chain, SPECS), wait=True, fuse=fuse)
    (one,), kept = lowered(arrays(0)), None
    kept = one.copy()
    (other,) = lowered(arrays(1))
    assert not np.shares_memory(one, other)
    np.testing.assert_array_equal(one, kept)


@both
def test_inputs_are_never_written(fuse):
    inputs = arrays()
    for array in inputs:
        array.flags.writeable = False
    lower(graph_of(long_chain, SPECS), wait=True, fuse=fuse)(inputs)


@both
def test_an_output_that_is_written_back_may_be_the_input_itself(fuse):
    def step(call, weight, g):
        new = call(edutorch.sub, weight, call(edutorch.mul, g, 0.5))
        return [new, call(edutorch.sum, weight, dim=(0, 1))]

    graph = graph_of(step, SPECS)
    graph.writes = {0: 0}
    weight, g = arrays()
    old = weight.copy()
    new, total = lower(graph, wait=True, fuse=fuse)([weight, g])
    np.testing.assert_allclose(new, old - g * np.float32(0.5), rtol=1e-6)
    np.testing.assert_allclose(total, old.sum(), rtol=1e-4, atol=1e-3)
    if new is not weight:
        np.testing.assert_array_equal(weight, old)


@needs_numba
def test_an_update_is_written_in_place():
    def step(call, weight, g):
        return [call(edutorch.sub, weight, call(edutorch.mul, g, 0.5))]

    graph = graph_of(step, SPECS)
    graph.writes = {0: 0}
    weight, g = arrays()
    old = weight.copy()
    (new,) = lower(graph, wait=True, fuse=True)([weight, g])
    assert new is weight
    np.testing.assert_allclose(new, old - g * np.float32(0.5), rtol=1e-6)
    turned = np.asfortranarray(old)  # a kernel cannot write there: the caller copies
    (new,) = lower(graph, wait=True, fuse=True)([turned, g])
    np.testing.assert_allclose(new, old - g * np.float32(0.5), rtol=1e-6)


@needs_numba
def test_a_value_that_is_read_later_is_not_written_over():
    def step(call, x, y):
        a = call(edutorch.exp, call(edutorch.mul, x, y))
        product = call(edutorch.mm, a, y)
        return [call(edutorch.add, call(edutorch.mul, product, 2.0), a)]

    graph = graph_of(step, SPECS)
    (result,) = lower(graph, wait=True, fuse=True)(arrays())
    np.testing.assert_allclose(result, run_on_arrays(graph)(arrays())[0], rtol=1e-4, atol=1e-4)


@both
def test_one_node_may_be_two_outputs_and_a_view_is_no_copy(fuse):
    def build(call, x, w):
        y = call(edutorch.mul, x, 2.0)
        z = call(edutorch.mul, x, 2.0)
        return [y, y, z, call(reshape, x, shape=(4096,))]

    inputs = arrays()
    one, same, other, view = lower(graph_of(build, SPECS), wait=True, fuse=fuse)(inputs)
    assert one is same
    assert not np.shares_memory(one, other)
    assert np.shares_memory(view, inputs[0])


@both
def test_threads_have_workspaces_of_their_own(fuse):
    lowered = lower(graph_of(long_chain, SPECS), wait=True, fuse=fuse)
    wanted = [lowered(arrays(seed))[0] for seed in range(4)]
    wrong = []

    def work(seed):
        for _ in range(20):
            if not np.array_equal(lowered(arrays(seed))[0], wanted[seed]):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
