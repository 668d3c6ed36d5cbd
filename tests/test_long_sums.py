"""A sum of 20,000 elements along a leading axis is as accurate as a short one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import edutorch
from edutorch.nn import functional

ROWS, COLUMNS = 20_000, 16
MOST = 1.5e-6  # of the largest result; added one to the other, the rows are off by 5e-6

Reduction = Callable[[Any], Any]
SUMS: dict[str, Reduction] = {
    "sum": lambda x: x.sum(0),
    "sum of a transposed": lambda x: x.t().sum(1),
    "sum of two axes": lambda x: x.reshape(20, 1000, COLUMNS).sum((1, 0)),
    "sum of two axes, kept": lambda x: x.reshape(20, 1000, COLUMNS).sum((0, 1), keepdim=True),
    "sum of axes apart": lambda x: x.reshape(20, COLUMNS, 1000).sum((0, 2)),
    "mean": lambda x: x.mean(0),
    "nansum": lambda x: x.nansum(0),
    "var": lambda x: x.var(0),
    "cumsum": lambda x: x.cumsum(0),
    "cumprod": lambda x: (1 + (x * 8).floor() * 2**-20).cumprod(0),
    "logcumsumexp": lambda x: x.logcumsumexp(0),
    "logsumexp": lambda x: x.logsumexp(0),
    "einsum": lambda x: edutorch.einsum("ij->j", x),
    "batch_norm": lambda x: functional.batch_norm(x, None, None, training=True),
    "instance_norm": lambda x: functional.instance_norm(x.t()[None]),
}
COMPLEX = ("sum", "sum of two axes", "mean", "cumsum", "einsum")

GRADIENTS: dict[str, Reduction] = {
    "add": lambda w: w + edutorch.zeros(ROWS, COLUMNS),
    "add to two axes": lambda w: (w + edutorch.zeros(20, 1000, COLUMNS)).reshape(ROWS, COLUMNS),
    "expand": lambda w: w.expand(ROWS, COLUMNS),
    "repeat": lambda w: w[None].repeat(ROWS, 1),
    "bias of linear": lambda w: functional.linear(
        edutorch.zeros(ROWS, 1), edutorch.zeros(COLUMNS, 1), w
    ),
}


def random_values(seed: int = 0) -> numpy.ndarray:
    return numpy.random.default_rng(seed).random((ROWS, COLUMNS)).astype("float32")


def distance(result: Any, reference: Any) -> float:
    return float(numpy.abs(result - reference).max() / numpy.abs(reference).max())


@pytest.mark.parametrize("name", SUMS)
def test_a_long_sum_is_right(name: str) -> None:
    array = random_values()
    reference = SUMS[name](edutorch.tensor(array.astype("float64"))).numpy()
    result = SUMS[name](edutorch.tensor(array))
    assert result.dtype is edutorch.float32 and result.shape == reference.shape
    assert distance(result.numpy(), reference) < MOST


@pytest.mark.parametrize("name", COMPLEX)
def test_a_long_sum_of_complex_numbers_is_right(name: str) -> None:
    array = random_values() + 1j * random_values(1)
    reference = SUMS[name](edutorch.tensor(array.astype("complex128"))).numpy()
    result = SUMS[name](edutorch.tensor(array.astype("complex64")))
    assert result.dtype is edutorch.complex64
    assert distance(result.numpy(), reference) < MOST


@pytest.mark.parametrize("name", GRADIENTS)
def test_the_gradient_of_what_was_broadcast_is_right(name: str) -> None:
    g, weight = random_values(), edutorch.ones(COLUMNS, requires_grad=True)
    GRADIENTS[name](weight).backward(edutorch.tensor(g))
    assert weight.grad is not None
    assert distance(weight.grad.numpy(), g.astype("float64").sum(0)) < MOST


def test_the_gradient_of_a_broadcast_factor_is_right() -> None:
    x, weight = random_values(), edutorch.ones(COLUMNS, requires_grad=True)
    (weight * edutorch.tensor(x)).backward(edutorch.ones(ROWS, COLUMNS))
    assert weight.grad is not None
    assert distance(weight.grad.numpy(), x.astype("float64").sum(0)) < MOST
