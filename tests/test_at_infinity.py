"""Sums of logarithms where all are -∞, and quantiles beside an infinity: no NaN out of nothing."""

from __future__ import annotations

import itertools
import math

import pytest

import edutorch
from edutorch import autograd, tensor

INF = math.inf
LOG_SUMS = {
    "logsumexp": lambda x: edutorch.logsumexp(x, -1),
    "logsumexp of both axes": lambda x: edutorch.logsumexp(x, (0, 1)),
    "logcumsumexp": lambda x: edutorch.logcumsumexp(x, 1),
    "logaddexp": lambda x: edutorch.logaddexp(x, x * 2),
    "logaddexp2": lambda x: edutorch.logaddexp2(x, x),
}
TYPES = ["float16", "bfloat16", "float32", "float64", "complex64"]


@pytest.mark.parametrize(("name", "dtype"), itertools.product(LOG_SUMS, TYPES))
def test_nothing_has_no_gradient(name, dtype):
    if name == "logaddexp2" and dtype == "complex64":
        return  # not defined for complex numbers
    x = edutorch.full((2, 3), -INF, dtype=getattr(edutorch, dtype), requires_grad=True)
    y = LOG_SUMS[name](x) if dtype != "complex64" or "add" not in name else edutorch.logaddexp(x, x)
    real = edutorch.real(y) if y.is_complex() else y
    assert (real == -INF).all()
    (slope,) = autograd.grad(real.sum(), x, create_graph=True)
    assert (slope == 0).all()
    (second,) = autograd.grad(edutorch.real(slope).sum(), x)
    assert (second == 0).all()


@pytest.mark.parametrize("name", ["logsumexp", "logcumsumexp", "logaddexp"])
def test_some_numbers_beside_nothing(name):
    x = tensor([[-INF, 1.0, 2.0], [-INF, -INF, 3.0]], dtype=edutorch.float64, requires_grad=True)
    y = LOG_SUMS[name](x)
    y[y.isfinite()].sum().backward()
    assert x.grad.isfinite().all()
    assert (x.grad[x == -INF] == 0).all()


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_nothing_beside_nan_does_not_hide_it(name):
    nothing, nan = tensor(-INF, requires_grad=True), tensor(math.nan, requires_grad=True)
    function = getattr(edutorch, name)
    for y in (function(nothing, nan), function(nan, nothing)):
        assert all(math.isnan(slope) for slope in autograd.grad(y, (nothing, nan)))


QUANTILES = [
    ([1.0, 2.0, INF], 1.0, INF), ([1.0, 2.0, INF], 0.5, 2.0), ([1.0, 2.0, INF], 0.75, INF),
    ([-INF, 1.0, 2.0], 0.0, -INF), ([-INF, 1.0, 2.0], 0.25, -INF), ([INF, INF, INF], 0.3, INF),
    ([-INF, INF], 0.0, -INF), ([-INF, INF], 1.0, INF), ([1.0, INF, INF, INF, 2.0], 0.3, INF),
    ([-INF, 0.0, INF], 0.5, 0.0), ([-INF, INF], 0.5, math.nan),
]  # fmt: skip


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quantiles_reach_an_infinity_or_do_not(name, dtype):
    for values, share, expected in QUANTILES:
        x = tensor(values, dtype=getattr(edutorch, dtype), requires_grad=True)
        y = getattr(edutorch, name)(x, share)
        assert y.item() == expected or (math.isnan(y.item()) and math.isnan(expected)), (
            values,
            share,
        )
        y.backward()
        assert x.grad.sum().item() == pytest.approx(1.0), (values, share)


def test_quantiles_of_several_rows_and_of_a_batch():
    x = tensor([[1.0, 2.0, 3.0], [1.0, 2.0, INF], [-INF, 2.0, INF]])
    rows = edutorch.quantile(x, tensor([0.0, 0.5, 1.0]), 1)
    assert rows.tolist() == [[1.0, 1.0, -INF], [2.0, 2.0, 2.0], [3.0, INF, INF]]
    midpoints = edutorch.quantile(x, 0.25, 1, interpolation="midpoint")
    assert midpoints.tolist() == [1.5, 1.5, -INF]
