"""The polynomials of the kernels against functions with 40 digits."""

import math

import numpy as np
import pytest

pytest.importorskip("numba", reason="needs numba: the extra `fast`")
mpmath = pytest.importorskip("mpmath", reason="needs mpmath, which has all digits")

from edutorch.kernels.cpu import vector_math  # noqa: E402
from edutorch.kernels.cpu.jit import ARRAY_1D, compile_kernel  # noqa: E402

FORMATS = [np.float32, np.float64]
EXACT = {
    "exp": mpmath.exp, "exp_nonpositive": mpmath.exp, "expm1_nonpositive": mpmath.expm1,
    "log": mpmath.log, "log1p_small": mpmath.log1p, "tanh": mpmath.tanh, "erf": mpmath.erf,
}  # fmt: skip
ULPS = {"exp": 1, "exp_nonpositive": 1.5, "log": 1, "expm1_nonpositive": 1.5}
"""Units in the last place that each may be wrong by; the others 4."""

_kernels = {}


def apply(name, x):
    if name not in _kernels:
        function = getattr(vector_math, name)

        def kernel(start, stop, x, y):
            for i in range(start, stop):
                y[i] = function(x[i])

        _kernels[name] = compile_kernel(kernel, ARRAY_1D, ARRAY_1D)
    y = np.empty_like(x)
    _kernels[name](0, x.size, x, y)
    return y


def sample_values(name, dtype):
    """Return numbers of every size for which a function is made, each size as often."""
    limits = np.finfo(dtype)
    top, bottom = math.log(float(limits.max)), math.log(float(limits.tiny))
    random = np.random.default_rng(0)
    sizes = np.exp(random.uniform(bottom, 3, 600)) * random.choice([-1.0, 1.0], 600)
    some = np.concatenate([sizes, random.normal(size=600) * 2])
    subnormal = np.exp(random.uniform(bottom - 10, bottom, 100))
    samples = {
        "exp": [some, random.uniform(bottom - 15, top, 800)],
        "exp_nonpositive": [-abs(some), random.uniform(bottom, 0, 800)],
        "expm1_nonpositive": [-abs(some), random.uniform(-50, 0, 800)],
        "log": [np.exp(random.uniform(bottom, top, 800)), random.uniform(0.5, 2, 800), subnormal],
        "log1p_small": [random.uniform(0, 1, 800), np.exp(random.uniform(bottom / 2, 0, 400))],
        "tanh": [some, subnormal, -subnormal],
        "erf": [some, random.uniform(0.9, 1.1, 300), subnormal],
    }[name]
    return np.concatenate(samples).astype(dtype)


def wrong(y, x, exact, dtype):
    """Return how many units in the last place each result is away from the exact one."""
    with mpmath.workdps(40):
        truths = [exact(mpmath.mpf(float(value))) for value in x]
        steps = np.spacing(np.abs(np.array([float(truth) for truth in truths]).astype(dtype)))
        return [
            abs(float((mpmath.mpf(float(result)) - truth) / float(step)))
            for result, truth, step in zip(y, truths, steps, strict=True)
            if math.isfinite(step)
        ]


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", EXACT)
def test_the_last_digits(name, dtype):
    x = sample_values(name, dtype)
    assert max(wrong(apply(name, x), x, EXACT[name], dtype)) <= ULPS.get(name, 4)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", ["exp", "log", "tanh"])
def test_the_ends_are_those_of_numpy(name, dtype):
    limits = np.finfo(dtype)
    ends = [0.0, np.inf, np.nan, limits.max, limits.tiny, limits.smallest_subnormal, 1.0]
    x = np.array([*ends, *(-end for end in ends)], dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x)
    result = apply(name, x)
    np.testing.assert_allclose(result, expected, rtol=4 * limits.eps)
    same = ~np.isnan(expected)
    assert (np.signbit(result) == np.signbit(expected))[same].all()


@pytest.mark.parametrize("dtype", FORMATS)
def test_the_ends_of_erf(dtype):
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 30.0, -30.0], dtype)
    np.testing.assert_array_equal(apply("erf", x), [0, -0.0, 1, -1, np.nan, 1, -1])


@pytest.mark.parametrize("dtype", FORMATS)
def test_results_next_to_zero_and_overflow(dtype):
    limits = np.finfo(dtype)
    edge = math.log(float(limits.max))
    x = np.array([edge * (1 - 1e-7), edge * (1 + 1e-6), math.log(float(limits.tiny)) - 5], dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(apply("exp", x), np.exp(x), rtol=1e-4)
    assert apply("exp_nonpositive", x[2:])[0] == 0
    assert apply("exp_nonpositive", np.array([-np.inf], dtype))[0] == 0
    assert np.isnan(apply("exp_nonpositive", np.array([np.nan], dtype)))[0]


@pytest.mark.parametrize("dtype", FORMATS)
def test_the_tail_is_exact_enough_for_what_it_is_multiplied_by(dtype):
    a = np.linspace(0, 7, 300).astype(dtype)
    exact = [mpmath.exp(mpmath.mpf(float(value)) ** 2) * mpmath.erfc(float(value)) for value in a]
    share = np.exp(-np.square(a.astype(float)))
    error = np.abs(apply("erfcx", a) - np.array([float(value) for value in exact])) * share
    assert error.max() < 8 * np.finfo(dtype).eps


def test_outside_a_kernel_it_says_what_to_use():
    with pytest.raises(TypeError, match=r"exp is for compiled kernels only: elsewhere use NumPy's"):
        vector_math.exp(1.0)
