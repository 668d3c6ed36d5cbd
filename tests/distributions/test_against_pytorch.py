"""Every distribution against PyTorch's: values, gradients, shapes, texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import edutorch
from tests.distributions.cases import CASES, build
from tests.oracle import require_torch

torch = require_torch()


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    """Set PyTorch's default dtype, with which its GeneralizedPareto compares, to float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


cases = pytest.mark.parametrize("name", CASES)


def build_pair(name: str) -> tuple[Any, list[Any], Any, list[Any]]:
    return (*build(edutorch, name), *build(torch, name))


def assert_close(ours: Any, theirs: Any, tolerance: float = 1e-9) -> None:
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1]
    expected = theirs.detach().numpy()
    np.testing.assert_allclose(ours.detach().numpy(), expected, tolerance, tolerance)


def compute_gradients(actual: Any, parameters: list[Any], grad: Any) -> list[Any]:
    if not actual.requires_grad:
        return []
    finite = actual[actual.isfinite()].sum()
    try:
        return grad(finite, parameters, allow_unused=True, retain_graph=True)
    except RuntimeError:  # the incomplete gamma function by its first argument
        return [None]


def compare(name: str, ask: Any, tolerance: float = 1e-7) -> None:
    """Compare values and gradients by the parameters, or the same refusal."""
    ours, own, theirs, their = build_pair(name)
    try:
        expected = ask(theirs, torch)
    except NotImplementedError:
        with pytest.raises(NotImplementedError):
            ask(ours, edutorch)
        return
    actual = ask(ours, edutorch)
    assert_close(actual, expected, tolerance)
    assert actual.requires_grad == expected.requires_grad
    found_slopes = compute_gradients(actual, own, edutorch.autograd.grad)
    for one, other in zip(
        found_slopes, compute_gradients(expected, their, torch.autograd.grad), strict=True
    ):
        if one is not None and other is not None:
            assert_close(one, other, tolerance)
        else:
            argument = one if other is None else other
            assert argument is None or not bool(argument.any())


def values(name: str) -> Any:
    torch.manual_seed(0)
    drawn = build(torch, name, grad=False)[0].sample((4,))
    return drawn.numpy()


TOLERANCES = {"VonMises": 1e-6}  # PyTorch's own Bessel function has 7 digits


@cases
def test_log_prob(name):
    x = values(name)
    dtype = "int64" if x.dtype.kind == "i" else "float64"
    tolerance = TOLERANCES.get(name, 1e-7)
    compare(
        name,
        lambda d, lib: d.log_prob(lib.tensor(x.tolist(), dtype=getattr(lib, dtype))),
        tolerance,
    )


@cases
@pytest.mark.parametrize("what", ["mean", "mode", "variance", "stddev"])
def test_figures(name, what):
    compare(name, lambda d, lib: getattr(d, what), TOLERANCES.get(name, 1e-7))


@cases
def test_entropy(name):
    compare(name, lambda d, lib: d.entropy())


@cases
def test_cdf_and_icdf(name):
    x, u = values(name), np.random.default_rng(1).uniform(size=values(name).shape)
    if x.dtype.kind == "i" or name in ("Bernoulli", "Poisson"):
        return
    compare(name, lambda d, lib: d.cdf(lib.tensor(x.tolist(), dtype=lib.float64)))
    compare(name, lambda d, lib: d.icdf(lib.tensor(u.tolist(), dtype=lib.float64)))


@cases
def test_support_can_be_listed(name):
    for expand in (True, False):
        compare(name, lambda d, lib: d.enumerate_support(expand))  # noqa: B023


@cases
def test_shapes_text_and_flags(name):
    ours, _, theirs, _ = build_pair(name)
    larger = (3, *ours.batch_shape)
    for one, other in ((ours, theirs), (ours.expand(larger), theirs.expand(larger))):
        assert one.batch_shape == tuple(other.batch_shape)
        assert one.event_shape == tuple(other.event_shape)
        for shape in ((), (2,), (2, 1)):
            assert one.sample(shape).shape == tuple(other.sample(shape).shape)
        x = other.sample()
        values = edutorch.from_numpy(x.numpy().copy())
        assert_close(one.log_prob(values), other.log_prob(x), 1e-6)
    assert type(ours).__name__ == type(theirs).__name__
    if name != "LogitRelaxedBernoulli":  # PyTorch's says no, and can
        assert ours.has_rsample == theirs.has_rsample
    assert ours.has_enumerate_support == theirs.has_enumerate_support
    if "grad_fn" not in repr(theirs) and "requires_grad" not in repr(theirs):
        assert repr(ours) == repr(theirs)
    assert ours.support.event_dim == theirs.support.event_dim
    assert ours.support.is_discrete == theirs.support.is_discrete
    assert set(ours.arg_constraints) == set(theirs.arg_constraints)


@cases
def test_samples_are_in_the_support_and_without_a_graph(name):
    edutorch.manual_seed(0)
    ours, _ = build(edutorch, name)
    drawn = ours.sample((50,))
    assert not drawn.requires_grad
    assert bool(ours.support.check(drawn).all())
    if ours.has_rsample:
        assert ours.rsample((2,)).requires_grad
    else:
        with pytest.raises(NotImplementedError):
            ours.rsample((2,))


def test_the_names_are_pytorchs():
    assert set(torch.distributions.__all__) <= set(edutorch.distributions.__all__)
    for part in ("transforms", "constraints"):
        missing = set(getattr(torch.distributions, part).__all__) - set(
            getattr(edutorch.distributions, part).__all__
        )
        assert not missing
