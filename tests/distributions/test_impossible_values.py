"""Values outside the support: -∞, or a ValueError with validation; and tails of `cdf`."""

from __future__ import annotations

import math

import numpy as np
import pytest

import edutorch
from edutorch import distributions, tensor
from tests.distributions.cases import CASES, build

cases = pytest.mark.parametrize("name", CASES)


def out_of_support(value):
    """Return values of the same shape, most likely outside the support."""
    value = value.detach()
    return [
        value - 1000.5,
        value + 1000.5,
        edutorch.full_like(value, math.inf),
        -value.abs() - 0.25,
    ]


def build_unchecked(name):
    """Build a case's distribution without validation, also of inner distributions."""
    distribution, parameters = build(edutorch, name)
    inner = distribution
    while inner is not None:
        inner._validate_args = False
        inner = getattr(inner, "base_dist", None)
    return distribution, parameters


@cases
def test_an_impossible_value_has_no_probability(name):
    edutorch.manual_seed(0)
    distribution, parameters = build_unchecked(name)
    support = distribution.support
    for value in out_of_support(distribution.sample()):
        event = tuple(range(-support.event_dim, 0))
        finite = ~value.isinf()
        is_possible = support.check(value) & (finite.all(event) if event else finite)
        log_prob = distribution.log_prob(value)
        assert not log_prob.isnan().any()
        assert bool((log_prob[~is_possible] == -math.inf).all())
        for slope in edutorch.autograd.grad(
            log_prob[is_possible].sum() + log_prob[~is_possible].exp().sum(), parameters,
            allow_unused=True, materialize_grads=True, retain_graph=True,
        ):  # fmt: skip
            assert not slope.isnan().any()


@cases
def test_possible_values_are_as_with_checks(name):
    edutorch.manual_seed(0)
    checked, _ = build(edutorch, name)
    value = checked.sample((5,))
    assert bool((build_unchecked(name)[0].log_prob(value) == checked.log_prob(value)).all())


def test_with_checks_it_is_refused():
    with pytest.raises(ValueError, match="within the support"):
        distributions.Poisson(2.0).log_prob(tensor(1.5))


def test_counts_that_do_not_add_up_are_impossible():
    three = distributions.Multinomial(3, tensor([0.3, 0.7]), validate_args=False)
    values = tensor([[1.0, 1.0], [1.5, 1.5], [1.0, 2.0]])
    assert three.log_prob(values).isinf().tolist() == [True, True, False]


def test_nan_stays_nan():
    assert distributions.Gamma(2.0, 3.0, validate_args=False).log_prob(tensor(math.nan)).isnan()


TAILS = {
    "Normal": (-10.0, 7.619853024160526e-24),
    "Laplace": (-50.0, 0.5 * math.exp(-50)),
    "Cauchy": (-1e12, 1 / (math.pi * 1e12)),
    "HalfNormal": (1e-12, 1e-12 * math.sqrt(2 / math.pi)),
    "HalfCauchy": (1e-12, 1e-12 * 2 / math.pi),
    "LogNormal": (math.exp(-10), 7.619853024160526e-24),
    "Exponential": (1e-12, 1e-12),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", TAILS)
def test_tails_keep_their_digits(name, dtype):
    dtype_object = getattr(edutorch, dtype)
    location = {"Normal", "Laplace", "Cauchy", "LogNormal"}
    one = tensor(1.0, dtype=dtype_object)
    distribution = getattr(distributions, name)(*([0 * one, one] if name in location else [one]))
    value, right = TAILS[name]
    actual = distribution.cdf(tensor(value, dtype=dtype_object, requires_grad=True))
    np.testing.assert_allclose(actual.item(), right, rtol=2e-5 if dtype == "float32" else 1e-12)
    np.testing.assert_allclose(distribution.icdf(actual).item(), value, rtol=1e-5)
    (slope,) = edutorch.autograd.grad(distribution.cdf(one.requires_grad_()), one)
    np.testing.assert_allclose(slope.item(), distribution.log_prob(one).exp().item(), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_divergence_is_negative(dtype):
    dtype_object = getattr(edutorch, dtype)
    edutorch.manual_seed(0)
    p = edutorch.rand(2000, dtype=dtype_object).clamp(1e-4, 1 - 1e-4)
    q = (p + 1e-3 * (edutorch.rand(2000, dtype=dtype_object) - 0.5)).clamp(1e-4, 1 - 1e-4)
    pair = [distributions.ContinuousBernoulli(probability) for probability in (p, q)]
    assert bool((distributions.kl_divergence(*pair) >= 0).all())
    assert distributions.kl_divergence(pair[0], pair[0]).max() == 0
