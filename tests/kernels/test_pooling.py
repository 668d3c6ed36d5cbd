"""Pooling one axis after the other finds what the definition finds in whole windows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

import edutorch
from edutorch.backends import reference_only
from edutorch.backends.kernel_registry import slot_of
from edutorch.kernels import make
from edutorch.kernels.cpu import pooling
from edutorch.nn.functional import pooling as definitions

TYPES = st.sampled_from([np.float32, np.float64])
KEYS = ("max_pool", "max_pool/input", "max_pool_indices", "avg_pool", "avg_pool_grad")


@pytest.fixture(scope="module")
def kernels():
    return {
        "max_pool": pooling.max_pool(),
        "max_pool_input": pooling.max_pool_input(),
        "max_pool_indices": pooling.max_pool_indices(),
        "avg_pool": pooling.avg_pool(),
        "avg_pool_grad": pooling.avg_pool_grad(),
    }


def defined(name, *arguments):
    with reference_only():
        return getattr(definitions, name).op.forward(np, *arguments)


def back(g, input, *settings):
    with reference_only():
        return definitions.max_pool_backward(g, input, *settings)


@st.composite
def cases(draw):
    """Draw an image's shape and the settings of a pooling that fits."""
    rank = draw(st.integers(1, 3))
    axes = []
    for _ in range(rank):
        kernel, stride, dilation = (draw(st.integers(1, limit)) for limit in (4, 3, 2))
        reach = dilation * (kernel - 1) + 1
        padding = draw(st.integers(0, reach // 2))
        size = draw(st.integers(max(1, reach - 2 * padding), 13))
        axes.append((size, kernel, stride, padding, dilation))
    size, *window = map(tuple, zip(*axes, strict=True))
    lead = draw(st.lists(st.integers(1, 9), min_size=1, max_size=2))
    return (*lead, *size), (*window, draw(st.booleans()))


@settings(max_examples=40, deadline=None)
@given(
    case=cases(), dtype=TYPES, seed=st.integers(0, 99),
    low=st.sampled_from([0.0, -np.inf, np.nan]),
)  # fmt: skip
def test_the_largest_and_the_way_back(kernels, case, dtype, seed, low):
    shape, settings = case
    generator = np.random.default_rng(seed)
    x = generator.integers(-3, 4, shape).astype(dtype)  # several are equal
    x.reshape(-1)[generator.integers(0, x.size, 3)] = np.nan, np.inf, -np.inf
    if low != 0:  # most windows see nothing else
        x[generator.uniform(size=shape) < 0.9] = low
    y = kernels["max_pool"](x, *settings)
    if y is None:  # a window may see nothing but border: left to the definition
        assert defined("max_pool_indices", x, settings).min() == -1
        return
    np.testing.assert_array_equal(y, defined("max_pool", x, *settings), strict=True)
    tap = kernels["max_pool_indices"](x, settings)
    np.testing.assert_array_equal(tap, defined("max_pool_indices", x, settings))
    g = generator.normal(size=y.shape).astype(dtype)
    result, expected = kernels["max_pool_input"](g, x, *settings), back(g, x, *settings)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, expected, rtol=0, atol=100 * np.finfo(dtype).eps)


@settings(max_examples=40, deadline=None)
@given(case=cases(), dtype=TYPES, include=st.booleans(), override=st.sampled_from([None, 3]))
def test_the_average_and_the_way_back(kernels, case, dtype, include, override):
    shape, (kernel, stride, padding, _, ceil) = case
    padding = tuple(min(p, k // 2) for p, k in zip(padding, kernel, strict=True))
    settings = kernel, stride, padding, ceil, include, override
    generator = np.random.default_rng(0)
    x = generator.normal(size=shape).astype(dtype)
    near = {"rtol": 0, "atol": 100 * np.finfo(dtype).eps}
    y = kernels["avg_pool"](x, *settings)
    assert y.dtype == dtype
    np.testing.assert_allclose(y, defined("avg_pool", x, *settings), **near)
    g = generator.normal(size=y.shape).astype(dtype)
    result = kernels["avg_pool_grad"](g, shape, settings)
    assert result.dtype == dtype
    np.testing.assert_allclose(result, defined("avg_pool_grad", g, shape, settings), **near)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("shape", "window"), [((7, 31, 28, 28), (2, 2, 0)), ((3, 5, 113, 112), (3, 2, 1))]
)
def test_cut_among_threads(kernels, shape, window, threads):
    kernel, stride, padding = ((length, length) for length in window)
    x = np.random.default_rng(0).normal(size=shape).astype("f").transpose(0, 1, 3, 2)
    settings = kernel, stride, padding, (1, 1), False
    before = edutorch.get_num_threads()
    edutorch.set_num_threads(threads)
    try:
        y = kernels["max_pool"](x, *settings)
        np.testing.assert_array_equal(y, defined("max_pool", x, *settings))
        g = np.broadcast_to(np.float32(2), y.shape)
        result = kernels["max_pool_input"](g, x, *settings)
        np.testing.assert_array_equal(result, back(g, x, *settings))
        settings = kernel, stride, padding, False, True, None
        y = kernels["avg_pool"](x, *settings)
        np.testing.assert_allclose(y, defined("avg_pool", x, *settings), atol=1e-6)
        result = kernels["avg_pool_grad"](g, x.shape, settings)
        np.testing.assert_allclose(
            result, defined("avg_pool_grad", g, x.shape, settings), atol=1e-6
        )
    finally:
        edutorch.set_num_threads(before)


def test_what_is_left_to_the_definition(kernels):
    once = (1, 1), (0, 0), (1, 1), False
    assert kernels["max_pool"](np.zeros((1, 9, 9), int), (2, 2), *once) is None
    assert kernels["max_pool"](np.zeros((1, 9, 9), "f2"), (2, 2), *once) is None
    assert kernels["max_pool"](np.zeros((1, 60, 60), "f"), (20, 20), *once) is None
    settings = (20, 20), (1, 1), (0, 0), False, True, None
    assert kernels["avg_pool"](np.zeros((1, 60, 60), "f"), *settings) is None


def test_layers_run_on_them():
    for key in KEYS:
        slot = slot_of(key)
        assert slot is not None
        make(slot)
    image = edutorch.randn(4, 6, 20, 20)

    def results():
        x = image.clone().requires_grad_()
        y, result = edutorch.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True)
        (y.sum() + edutorch.nn.functional.avg_pool2d(x, 2).square().sum()).backward()
        return y, result, x.grad

    fast = results()
    with reference_only():
        slow = results()
    for one, other in zip(fast, slow, strict=True):
        assert edutorch.allclose(one, other, atol=1e-5)
