"""An infinite gradient that comes in: 0 · ∞ is NaN, but where an op is flat nothing comes back."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch import nn

INF = float("inf")
POINTS = [-INF, -7.0, -3.0, -1.0, -0.5, 0.25, 0.5, 0.75, 1.0, 3.0, 6.0, 7.0, INF]

FLAT_IN_PARTS = {
    "relu": edutorch.relu,
    "relu6": nn.functional.relu6,
    "hardtanh": nn.functional.hardtanh,
    "hardshrink": nn.functional.hardshrink,
    "softshrink": nn.functional.softshrink,
    "hardsigmoid": nn.functional.hardsigmoid,
    "threshold": lambda x: nn.functional.threshold(x, 0.6, 2.0),
    "clamp": lambda x: x.clamp(-1, 2),
    "maximum": lambda x: edutorch.maximum(x, edutorch.full_like(x, 0.6)),
    "minimum": lambda x: edutorch.minimum(x, edutorch.full_like(x, 0.6)),
    "fmax": lambda x: edutorch.fmax(x, edutorch.full_like(x, 0.6)),
    "fmin": lambda x: edutorch.fmin(x, edutorch.full_like(x, 0.6)),
    "where": lambda x: edutorch.where(x > 0, x, 1.0),
    "masked_fill": lambda x: x.masked_fill(x > 0, 1.0),
    "max": lambda x: x.max(),
    "amin": lambda x: x.amin(0),
    "median": lambda x: x.median(),
    "kthvalue": lambda x: x.kthvalue(3).values,
    "largest size": lambda x: edutorch.linalg.vector_norm(x[1:-1], INF),
    "nextafter": lambda x: edutorch.nextafter(x, edutorch.ones_like(x)),
    "sign": edutorch.sign,
    "sgn": edutorch.sgn,
    "angle": edutorch.angle,
    "floor": edutorch.floor,
    "ceil": edutorch.ceil,
    "round": edutorch.round,
    "trunc": edutorch.trunc,
    "heaviside": lambda x: edutorch.heaviside(x, edutorch.ones_like(x)),
    "div": lambda x: edutorch.div(x, 2.0, rounding_mode="floor"),
}

STEEP = {"tanh": edutorch.tanh, "sigmoid": edutorch.sigmoid, "exp": edutorch.exp}


def gradient(function, value, dtype, repeats=1):
    x = edutorch.tensor(POINTS * repeats, dtype=dtype, requires_grad=True)
    y = function(x)
    if not y.requires_grad:
        return np.zeros(len(POINTS) * repeats)
    return edutorch.autograd.grad(y, x, edutorch.full_like(y.detach(), value))[0].double().numpy()


@pytest.mark.filterwarnings("ignore::edutorch.core.autograd.engine.NonFiniteGradientWarning")
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", FLAT_IN_PARTS)
def test_where_an_op_is_flat_nothing_comes_back(name, dtype):
    function, dtype = FLAT_IN_PARTS[name], getattr(edutorch, dtype)
    slope = gradient(function, 1.0, dtype)
    for value in (INF, -INF):
        expected = np.where(slope == 0, 0, value * np.where(slope == 0, 1, slope))
        np.testing.assert_array_equal(gradient(function, value, dtype), expected)


@pytest.mark.filterwarnings("ignore::edutorch.core.autograd.engine.NonFiniteGradientWarning")
@pytest.mark.parametrize("name", STEEP)
def test_where_it_is_steep_it_stays_infinite(name):
    slope = gradient(STEEP[name], 1.0, edutorch.float64)
    is_steep = slope != 0
    for value in (INF, -INF):
        returned = gradient(STEEP[name], value, edutorch.float64)
        np.testing.assert_array_equal(returned[is_steep], value * slope[is_steep])


@pytest.mark.filterwarnings("ignore::edutorch.core.autograd.engine.NonFiniteGradientWarning")
def test_large_arrays_and_compiled_code_do_the_same():
    function = FLAT_IN_PARTS["relu"]
    small = gradient(function, INF, edutorch.float32)
    large = gradient(function, INF, edutorch.float32, repeats=1000)
    np.testing.assert_array_equal(large, np.tile(small, 1000))
    compiled = edutorch.compile(lambda x: edutorch.relu(x) + 0)
    np.testing.assert_array_equal(gradient(compiled, INF, edutorch.float32), small)
