"""Elementwise kernels compute what their definitions do: the tables say how closely.

A kernel is written from the definition or the rule (`kernels/formulas.py`), with a polynomial where
NumPy calls the C library (`vector_math.py`), and one rounding for a product and a sum (FMA). This
is where the two are held together, on all magnitudes.
"""

import numpy as np
import pytest

pytest.importorskip("numba", reason="needs numba: the extra `fast`")

from edutorch.core.registry import REGISTRY
from edutorch.kernels.cpu.elementwise import formula_kernel
from tests.trials import tried

SETTINGS = {
    "softplus": (1.0, 20.0), "leaky_relu_forward": (0.2,), "elu_forward": (1.5,),
    "hardtanh_forward": (-1.0, 0.5), "gelu": ("none",),
}  # fmt: skip
BY_RESULT = {"exp", "tanh", "sigmoid", "relu"}  # their rules name the result, not the input
EXACT = {
    "relu", "relu/input", "exp/input", "leaky_relu_forward", "leaky_relu_forward/input",
    "hardtanh_forward", "hardtanh_forward/input",
}  # fmt: skip
"""Bit for bit the definition's result for the same dtype."""

ULPS = {
    "exp": 2,
    "log": 2,
    "erf": 4,
    "tanh": 3,
    "sigmoid": 4,
    "softplus": 4,
    "elu_forward": 4,
    "mish_forward/input": 20,
}
"""By how many units in the last place a result may differ from the exact one; 12 if not listed."""

NAMES = [
    *EXACT, *ULPS, "silu_forward", "gelu", "exp/input", "tanh/input", "sigmoid/input",
    "softplus/input", "silu_forward/input", "gelu/input", "elu_forward/input", "hardswish_forward",
    "hardswish_forward/input", "mish_forward", "square/input",
]  # fmt: skip


def values(dtype):
    """Return values of all magnitudes up to 80 and of both signs, many of them near 1."""
    generator = np.random.default_rng(0)
    scales = np.exp(generator.uniform(-20, np.log(80), 120_000))
    signed = scales * generator.choice([-1, 1], scales.size)
    return np.concatenate([signed, generator.normal(size=80_000)]).astype(dtype)


def arguments_of(key, dtype):
    """Return the arguments of a kernel's definition, and the definition."""
    name, _, rule = key.partition("/")
    op, x, settings = REGISTRY[name], values(dtype), SETTINGS.get(name, ())
    x = abs(x) if name == "log" else x
    if not rule:
        return lambda *values_: op.forward(np, *values_), (x, *settings)
    saved = op.forward(np, x, *settings) if name in BY_RESULT else x
    return op.rules[rule].function, (np.roll(x, 1), saved, *settings)


@tried("key", NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_formula_is_that_of_the_definition(key, dtype):
    run = formula_kernel(key)
    with np.errstate(all="ignore"):
        definition, arguments = arguments_of(key, dtype)
        result = run(*arguments)
        if key in EXACT:
            np.testing.assert_array_equal(result, definition(*arguments))
            return
        wide = [x.astype(float) if isinstance(x, np.ndarray) else x for x in arguments]
        exact = np.asarray(definition(*wide))
    # Where terms cancel, the digits of the terms count: in a derivative, and in gelu's definition.
    scale = np.maximum(abs(exact), abs(arguments[0]) if "/" in key or key == "gelu" else 0)
    unit = np.finfo(dtype).eps * np.maximum(scale, np.finfo(dtype).tiny)
    limit = ULPS.get(key, 12) * (2 if dtype == np.float64 else 1)  # there, `exact` is as inexact
    assert result.dtype == dtype
    assert np.nanmax(abs(result - exact) / unit) <= limit
