"""Graphs by XLA: as they are computed by the definitions on NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch.compilation.xla import Xla
from edutorch.fx.interpreter import run_on_arrays
from tests.compilation.graphs import Random, graph_of
from tests.compilation.test_lower import losses


@pytest.fixture
def jax():
    return pytest.importorskip("jax")


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_random_graphs(jax, seed, dtype):
    specs = [((4, 6), dtype), ((6,), dtype), ((4, 1), dtype)]
    graph = graph_of(Random(seed).build, specs)
    draw = np.random.default_rng(seed)
    arrays = [draw.normal(size=shape).astype(dtype) for shape, _ in specs]
    with np.errstate(all="ignore"):
        wanted = run_on_arrays(graph)(arrays)
    for result, right in zip(Xla(graph)(arrays), wanted, strict=True):
        assert result.dtype == np.asarray(right).dtype
        assert result.flags.writeable
        np.testing.assert_allclose(result, right, rtol=1e-4, atol=1e-4)


def test_definitions_that_write_into_what_they_made(jax):
    graph = graph_of(losses, [((6, 4), "float32"), ((6,), "int64")])
    x = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
    arrays = [x, np.array([0, 2, 3, 1, 1, 0])]
    lowered = Xla(graph)
    for result, wanted in zip(lowered(arrays), run_on_arrays(graph)(arrays), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5)
    assert "stablehlo" in lowered.code  # what XLA was given


def test_float64_stays_float64(jax):
    compiled = edutorch.compile(lambda x: (x * 1.1).cumsum(0), backend="jax")
    y = compiled(edutorch.ones(3, dtype=edutorch.float64))
    assert y.dtype == edutorch.float64
    assert y.tolist() == pytest.approx([1.1, 2.2, 3.3], rel=1e-15)
