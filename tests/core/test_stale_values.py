"""Backward raises if a saved value was overwritten, and only then."""

from __future__ import annotations

import pytest

from edutorch import tensor
from edutorch.errors import StaleValueError
from tests.devices import device  # noqa: F401

pytestmark = pytest.mark.usefixtures("device")


def leaf(*values: float):
    return tensor(values[0] if len(values) == 1 else list(values), requires_grad=True)


def test_an_overwritten_input_is_noticed():
    x, w = leaf(1.0, 2.0), tensor([3.0, 4.0])
    y = (x * w).sum()
    w += 1
    with pytest.raises(
        StaleValueError, match="modified by an inplace operation: its input `other`"
    ):
        y.backward()


def test_an_overwritten_result_is_noticed():
    x = leaf(1.0, 2.0)
    y = x.exp()
    z = y.sum()
    y *= 2
    with pytest.raises(StaleValueError, match="the result"):
        z.backward()


def test_a_write_through_a_view_is_noticed():
    x, w = leaf(1.0, 2.0), tensor([3.0, 4.0])
    y = (x * w).sum()
    w[:1].zero_()
    with pytest.raises(StaleValueError):
        y.backward()
    y = (x * w[1:]).sum()
    w.zero_()
    with pytest.raises(StaleValueError):
        y.backward()


def test_a_write_through_detach_is_noticed():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = (x * w).sum()
    w.detach().zero_()
    with pytest.raises(StaleValueError):
        y.backward()
    y = (x * w).sum()
    w.data.zero_()
    with pytest.raises(StaleValueError):
        y.backward()


def test_a_write_before_use_or_without_need_is_fine():
    x, w = leaf(1.0, 2.0), tensor([3.0, 4.0])
    w += 1
    y = (x * w).sum() + (x + w).sum()
    y.backward()
    assert x.grad.tolist() == [5, 6]
    z = (x + w).sum()  # a sum needs no value
    w.zero_()
    z.backward()
    assert x.grad.tolist() == [6, 7]


def test_versions_count_writes():
    x = tensor([1.0, 2.0])
    view = x[:1]
    assert x._version == 0
    x += 1
    view.zero_()
    assert (x._version, view._version) == (2, 2)
