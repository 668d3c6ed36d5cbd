"""Accumulation of gradients: the arrays that backward shares, copies and writes to."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pytest

import edutorch
from edutorch.core.fast import lazy_gradients
from edutorch.core.registry import REGISTRY


def test_the_callers_gradient_stays_the_callers():
    """`leaf.backward(g)` copies g: neither later passes nor `zero_grad` may write into it."""
    leaf = edutorch.ones(3, requires_grad=True)
    gradient = edutorch.tensor([1.0, 2.0, 3.0])
    leaf.backward(gradient)
    leaf.backward(gradient)
    assert leaf.grad.tolist() == [2, 4, 6]
    assert gradient.tolist() == [1, 2, 3]
    leaf.grad.zero_()
    assert gradient.tolist() == [1, 2, 3]
    gradient.fill_(7)
    assert leaf.grad.tolist() == [0, 0, 0]


def test_accumulating_raises_the_version_of_a_gradient():
    """A graph that saved `.grad` for another backward raises that it has changed."""
    x = edutorch.ones(2, requires_grad=True)
    w = edutorch.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    before = x.grad._version
    saved = (w * x.grad).sum()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5, 5]
    assert x.grad._version > before
    with pytest.raises(RuntimeError, match="modified"):
        saved.backward()


@pytest.mark.parametrize("make", [
    lambda x: x.sum(), lambda x: x.mean(), lambda x: x.expand(4, 3).sum(),
    lambda x: x[0] + x[1] + x[2], lambda x: x.reshape(3, 1).sum(), lambda x: x.t().sum(),
])  # fmt: skip
def test_a_gradient_can_be_written_to(make):
    """The gradient of a sum is a broadcast view of one element, unless it is copied for `.grad`."""
    x = edutorch.ones(3, requires_grad=True)
    make(x).backward()
    other = x.grad.clone()
    x.grad[0] = 5.0
    x.grad.mul_(2.0)
    other[0] = 5.0
    assert x.grad.tolist() == (other * 2).tolist()
    assert x.grad.numpy().flags.writeable


@pytest.mark.parametrize("count", [1000, 1001, 1025, 4099, 70_001])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_mean_of_many_elements(count, dtype):
    elements = np.random.default_rng(count).standard_normal(count)
    x = edutorch.tensor(elements).to(getattr(edutorch, dtype)).requires_grad_()
    mean = x.mean()
    mean.backward()
    tolerance = 1e-6 if dtype == "float32" else 1e-14
    assert abs(mean.item() - elements.mean()) < tolerance
    np.testing.assert_allclose(x.grad.numpy(), 1 / count, rtol=1e-6)


def test_large_gradients_are_added_up_by_the_kernels(monkeypatch):
    """The sum is the result of a kernel; NumPy computes it only without one."""
    g = np.ones((2, lazy_gradients.SUM_KERNEL_MIN_SIZE), np.float32)
    calls = {
        "ADD": lambda: lazy_gradients.add_large(g, g), "SUM": lambda: lazy_gradients.sum_over(g, 0),
        "ADD_ONTO": lambda: lazy_gradients.add_in_place(g, g),
    }  # fmt: skip
    for name, call in calls.items():
        answer = object()
        slot = Mock(return_value=answer, min_size=1)
        # That of the op: a slot by its name would stay empty, as its kernel is generated.
        owner = (REGISTRY["add"], "slot") if name == "ADD" else (lazy_gradients, name)
        monkeypatch.setattr(*owner, slot)
        before = g.copy()
        assert call() is (None if name == "ADD_ONTO" else answer)
        slot.assert_called_once()
        assert np.array_equal(g, before), "the kernel has done it"
        slot.return_value = None
        y = call()
        expected = {"ADD": 2 * before, "SUM": before.sum(0), "ADD_ONTO": 2 * before}[name]
        assert np.array_equal(g if y is None else y, expected)
