"""Writes that are not recorded: a shorter path with the same result."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch.errors import DTypeError, GradientError, ShapeError
from edutorch.modes import listening

WRITES = {
    "add_": lambda x, y: x.add_(y, alpha=0.5),
    "add_ itself": lambda x, y: x.add_(x),
    "add_ a part of itself": lambda x, y: x.add_(x[1]),
    "mul_": lambda x, y: x.mul_(2),
    "clamp_": lambda x, y: x.clamp_(-0.5, max=0.5),
    "lerp_": lambda x, y: x.lerp_(y, 0.25),
    "zero_": lambda x, y: x.zero_(),
    "fill_": lambda x, y: x.fill_(3),
    "copy_": lambda x, y: x.copy_(y),
    "copy_ one row": lambda x, y: x.copy_(y[0]),
    "of another type": lambda x, y: x.add_(y.double()),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_without_history_is_like_any_other(name):
    """A write that is not recorded takes a shorter path, and with a listener the general one."""
    results = []
    for way in (edutorch.enable_grad(), edutorch.no_grad(), listening(lambda event: None)):
        edutorch.manual_seed(0)
        x, y = edutorch.randn(3, 4), edutorch.randn(3, 4)
        row = x[1]
        with way:
            assert WRITES[name](x, y) is x
        assert row._version == x._version == 1
        assert (row == x[1]).all()
        results.append(x.numpy())
    assert np.array_equal(results[0], results[2])
    assert np.array_equal(results[1], results[2])


def test_a_write_that_has_a_history_is_recorded_all_the_same():
    w = edutorch.ones(3, requires_grad=True)
    x = edutorch.zeros(3)
    x.add_(w)
    x.mul_(3).copy_(x + w)
    x.sum().backward()
    assert w.grad.tolist() == [4, 4, 4]
    with pytest.raises(GradientError, match="leaf"):
        w.zero_()
    with pytest.raises(GradientError, match="leaf"):
        w[0].fill_(1)
    with edutorch.no_grad():
        assert w.zero_().tolist() == [0, 0, 0]
        assert w[1:].fill_(2)._version == w._version


def test_what_cannot_be_written_is_said_on_the_short_way_too():
    for way in (edutorch.enable_grad(), edutorch.no_grad()):
        with way:
            x = edutorch.zeros(2)
            for write in (lambda x: x.add_(1), lambda x: x.fill_(1), lambda x: x.copy_(x + 1)):
                with pytest.raises(ShapeError, match="single memory location"):
                    write(x[:1].expand(3))
            with pytest.raises(ShapeError, match="does not have the shape"):
                x.add_(edutorch.zeros(3, 2))
            with pytest.raises(DTypeError, match="can't be cast"):
                edutorch.zeros(2, dtype=edutorch.int64).add_(0.5)
            assert x._version == 0
