"""`autograd.grad`, higher derivatives, `create_graph`."""

from __future__ import annotations

import math

import numpy as np
import pytest

import edutorch
from edutorch import autograd, tensor
from edutorch.errors import GradientError
from tests.devices import device  # noqa: F401

pytestmark = pytest.mark.usefixtures("device")


def leaf(*values: float):
    return tensor(values[0] if len(values) == 1 else list(values), requires_grad=True)


def values(*gradients):
    return [gradient if gradient is None else gradient.tolist() for gradient in gradients]


def test_grad_returns_and_touches_nothing():
    x, y = leaf(2.0), leaf(5.0)
    gradients = autograd.grad(x * y, [x, y])
    assert values(*gradients) == [5, 2]
    assert (x.grad, y.grad) == (None, None)


def test_grad_of_a_middle_tensor():
    x = leaf(2.0)
    y = x * 3
    z = y * y
    assert values(*autograd.grad(z, [y, x], retain_graph=True)) == [12, 36]
    assert values(*autograd.grad(z, z)) == [1]


def test_grad_runs_only_what_is_on_the_way():
    x, w = leaf(2.0), leaf(3.0)
    side = w * w
    side.register_hook(lambda g: pytest.fail("not on the way to x"))
    autograd.grad(x * 2 + side, x)


def test_grad_with_weights():
    x = leaf(1.0, 2.0)
    (gradient,) = autograd.grad([x * 2, x * x], x, [tensor([1.0, 1.0]), tensor([0.0, 1.0])])
    assert gradient.tolist() == [2, 6]


def test_unused_inputs():
    x, unused = leaf(1.0), leaf(1.0)
    with pytest.raises(GradientError, match="input 1 appears to not have been used"):
        autograd.grad(x * 2, [x, unused])
    assert values(*autograd.grad(x * 2, [x, unused], allow_unused=True)) == [2, None]
    assert values(*autograd.grad(x * 2, [x, unused], materialize_grads=True)) == [2, 0]


def test_higher_derivatives():
    x = leaf(2.0)
    y = x**4
    expected = [4 * 8, 12 * 4, 24 * 2, 24]
    for derivative in expected:
        (y,) = autograd.grad(y, x, create_graph=True)
        assert y.item() == derivative


def test_create_graph_in_backward():
    x = leaf(3.0)
    (x**3).backward(create_graph=True)
    first = x.grad
    assert first.requires_grad
    (second,) = autograd.grad(first, x)
    assert second.item() == 18


def test_create_graph_implies_retain_graph():
    x = leaf(3.0)
    y = x * x
    autograd.grad(y, x, create_graph=True)
    y.backward()
    assert x.grad.item() == 6


def test_a_penalty_on_the_gradient():
    """The use of second derivatives in training: the loss contains a gradient."""
    x, w = tensor([1.0, 2.0]), leaf(0.5, -1.0)
    (slope,) = autograd.grad(((w * x) ** 2).sum(), w, create_graph=True)
    (slope**2).sum().backward()
    # slope = 2 w x², so Σ slope² = Σ 4 w² x⁴, whose gradient is 8 w x⁴
    assert w.grad.tolist() == [4.0, -128.0]


@pytest.mark.oracle
def test_many_gradients_at_once(torch):
    gradients = []
    for lib in (edutorch, torch):
        x = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
        w = lib.ones(2, requires_grad=True)
        (rows, none) = lib.autograd.grad(
            x * x, (x, w), lib.eye(3), is_grads_batched=True, allow_unused=True, only_inputs=True
        )
        gradients.append((rows.tolist(), none))
    assert gradients[0] == gradients[1]


def others_up_to(x, g):
    """Σ over j ≥ i of g_j times the product of all factors up to j except i, in float64."""
    x, g = np.asarray(x, float), np.asarray(g, float)
    rows = range(len(x))
    return [sum(g[j] * np.prod(np.delete(x[: j + 1], i)) for j in rows[i:]) for i in rows]


@pytest.mark.parametrize("factors", [
    [0.5, -2.0, 3.0, 1.5],
    [0.5, 0.0, 3.0, 1.5],
    [0.5, 0.0, 3.0, 0.0],
    [1e-25, 1e-20, 2.0, 1.0],  # whose products leave the range of float32, but not all that is
    [1e25, 1e20, 2.0, 1.0],  # asked for
], ids=str)  # fmt: skip
def test_the_gradient_of_a_running_product(factors):
    """By a division where that is exact enough, and by products of the others elsewhere."""
    x = edutorch.tensor(factors, requires_grad=True)
    g = edutorch.tensor([1.0, -0.5, 2.0, 0.25])
    with np.errstate(over="ignore"):
        (gradient,) = edutorch.autograd.grad(x.cumprod(0), x, g)
    gradient, expected = np.array(gradient.tolist()), np.array(others_up_to(x.tolist(), g.tolist()))
    range_of = np.finfo("f4")
    fits = (expected == 0) | (abs(expected) > range_of.tiny) & (abs(expected) < range_of.max)
    assert fits[:2].all()
    np.testing.assert_allclose(gradient[fits], expected[fits], rtol=1e-5)


@pytest.mark.parametrize("terms", [
    [0.5, -2.0, 3.0],
    [math.inf, 1.0, 2.0],
    [1.0, math.inf, 2.0],
    [-math.inf, 1.0, 2.0],
], ids=str)  # fmt: skip
def test_the_gradient_of_a_running_logsumexp(terms):
    """Where no infinities cancel, each later total contributes its share of the gradient."""
    x = edutorch.tensor(terms, requires_grad=True, dtype=edutorch.float64)
    g = edutorch.tensor([1.0, -0.5, 2.0], dtype=edutorch.float64)
    y = x.logcumsumexp(0)
    (gradient,) = edutorch.autograd.grad(y, x, g)
    with np.errstate(invalid="ignore"):
        shares = np.exp(np.array(terms)[:, None] - np.array(y.tolist())) * np.array(g.tolist())
    expected = np.triu(shares).sum(1)
    known = np.isfinite(expected)
    assert known.sum() >= 2
    np.testing.assert_allclose(np.array(gradient.tolist())[known], expected[known], rtol=1e-12)


def test_the_largest_of_many():
    """The largest elements are found without sorting; equal ones at the border keep their order."""
    chance = np.random.default_rng(0)
    elements = chance.permutation(12_000).reshape(40, 300).astype("f4")
    for array in (elements, elements // 100, np.where(elements == 7, np.nan, elements)):
        for dim, largest in ((1, True), (0, False), (1, False)):
            x = edutorch.tensor(array, requires_grad=True)
            values, indices = x.topk(4, dim, largest)
            ordered, order = x.sort(dim, largest)
            for chosen, whole in ((values, ordered), (indices, order)):
                np.testing.assert_array_equal(chosen.tolist(), whole.narrow(dim, 0, 4).tolist())
            (slope,) = edutorch.autograd.grad(values.sum(), x)
            assert slope.sum().item() == values.numel()
            assert (slope.gather(dim, indices) == 1).all()
