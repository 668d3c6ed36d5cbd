"""Arithmetic by all threads is NumPy's to the last digit, and sums of columns are better."""

import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

pytest.importorskip("numba", reason="needs numba: the extra `fast`")

import edutorch as torch
from edutorch.backends import kernel_registry, reference_only
from edutorch.kernels.cpu import elementwise, reductions

OPERATIONS = {
    "add": (operator.add, 1), "sub": (operator.sub, 1), "mul": (operator.mul,),
    "div": (operator.truediv, None),
}  # fmt: skip
FORMATS = some.sampled_from([np.float32, np.float64])
SHAPES = some.lists(some.integers(0, 50), min_size=0, max_size=3)
LARGE = (401, 513)
_made = {}


def kernel(name):
    if name not in _made:
        is_op = name in OPERATIONS
        _made[name] = elementwise.formula_kernel(name) if is_op else elementwise.add_onto()
    return _made[name]


def array(shape, dtype, seed=0):
    return np.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


def same(result, expected):
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("name", OPERATIONS)
@settings(max_examples=8, deadline=None)
@given(dtype=FORMATS, shape=SHAPES)
def test_each_operation_is_numpys(name, dtype, shape):
    operation, *usual = OPERATIONS[name]
    x, y = array(shape, dtype), array(shape, dtype, 1)
    same(kernel(name)(x, y, *usual), np.asarray(operation(x, y)))
    number = np.asarray(-2.5, dtype)
    same(kernel(name)(x, number, *usual), np.asarray(operation(x, number)))


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_is_not_finite_or_divided_by_zero(name):
    operation, *usual = OPERATIONS[name]
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e38, 1e-40], np.float32)
    x, y = (grid_values.ravel() for grid_values in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        result, expected = kernel(name)(x, y, *usual), operation(x, y)
    same(result, expected)
    real = ~np.isnan(expected)
    same(np.signbit(result[real]), np.signbit(expected[real]))


def test_operands_broadcast_and_have_any_strides():
    x, add = array((8, 6), np.float32), kernel("add")
    others = [
        x[0], x[:, :1], x[:1, :1], array((8, 12), np.float32)[:, ::2], array((6, 8), np.float32).T,
        array((3, 8, 6), np.float32), array((5, 1, 6), np.float32), np.broadcast_to(x[0], (8, 6)),
        x[::-1], np.asarray(1.5, np.float32),
    ]  # fmt: skip
    for y in others:
        for first, second in ((x, y), (y, x), (x[::-1, ::2], y[..., ::2] if y.ndim else y)):
            result, expected = add(first, second, 1), first + second
            same(result, expected)
            assert result.strides == expected.strides
    same(add(x, x, 2), x + 2 * x)  # alpha


def test_other_cases_are_left_to_numpy():
    x, add = array((8, 6), np.float32), kernel("add")
    others = {
        "another type": x.astype(float), "a wider number": np.asarray(1.0),
        "another shape": x[:5], "integers": np.ones((8, 6), int),
    }  # fmt: skip
    for case, y in others.items():
        assert add(x, y, 1) is None, case
    half = x.astype(np.float16)
    same(add(half, half, 1), half + half)
    assert add(x.astype(int), x.astype(int), 1) is None
    assert kernel("div")(x, x, "trunc") is None


@settings(max_examples=8, deadline=None)
@given(dtype=FORMATS, shape=SHAPES)
def test_adding_onto_a_sum_changes_that_alone(dtype, shape):
    x, y = array(shape, dtype), array(shape, dtype, 1)
    expected, before = x + y, y.copy()
    assert kernel("add_onto")(x, y) is x
    same(x, np.asarray(expected))
    same(y, before)


def test_adding_what_does_not_fit_changes_nothing():
    x = array((4, 6), np.float32)
    before = x.copy()
    for y in (x[0], x.astype(float), x.T):
        assert kernel("add_onto")(x, y) is None
    same(x, before)


# Sums of columns ---------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(
    dtype=FORMATS, first=some.lists(some.integers(1, 30), min_size=1, max_size=2),
    width=some.integers(32, 90), keepdim=some.booleans(),
)  # fmt: skip
def test_columns(dtype, first, width, keepdim):
    x = array((*first, width), dtype) + dtype(5)
    dim = 0 if len(first) == 1 else (0, 1)
    result = reductions.sum_or_mean("sum")(x, dim, keepdim, None)
    expected = x.astype(float).sum(dim, keepdims=keepdim)
    assert result.dtype == dtype
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=32 * np.finfo(dtype).eps)


def test_a_column_of_many_numbers_loses_few_digits():
    x = np.abs(array((50_001, 40), np.float32))
    exact = x.astype(float).sum(0)
    error = np.abs(reductions.sum_or_mean("sum")(x, 0, False, None) - exact).max()
    assert error < 0.01 * np.abs(x.sum(0) - exact).max()


# In use ------------------------------------------------------------------------------------------


def learned():
    """Gradients that meet, a bias that was stretched, and numbers."""
    x = torch.tensor(array(LARGE, np.float32), requires_grad=True)
    bias = torch.tensor(array(LARGE[1:], np.float32, 1), requires_grad=True)
    y = (x * 1.5 + x) * (x - 0.25) / (x * x + 2)
    y = y + bias + x.exp() / 3
    y.backward(torch.ones_like(y))
    return y.detach().numpy(), x.grad.numpy(), bias.grad.numpy()


def test_in_use_the_results_are_those_of_the_definitions():
    names = {*OPERATIONS, "mul/input", "mul/other", "div/input", "sum"}
    fast = learned()
    assert {place.name for place in kernel_registry.slots() if place.run} >= names
    with reference_only():
        slow = learned()
    for one, other in zip(fast, slow, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-4)
