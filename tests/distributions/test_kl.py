"""KL divergences: PyTorch's closed forms, and the mean of log p - log q over samples."""

from __future__ import annotations

import pytest

import edutorch
from tests.distributions.cases import CASES, build
from tests.oracle import require_torch

torch = require_torch()

CASE_NAMES = {cls: name for name, (cls, _) in reversed(CASES.items())}
PAIRS = sorted(
    (p.__name__, q.__name__)
    for p, q in torch.distributions.kl._KL_REGISTRY
    if p.__name__ in CASE_NAMES and q.__name__ in CASE_NAMES
)


def build_narrow(library, name):
    """Build two distributions (one of vectors); uniform ones lie inside the unit interval."""
    if name == "Uniform":
        return library.distributions.Uniform(
            library.tensor([0.1, 0.2], dtype=library.float64),
            library.tensor([0.9, 0.7], dtype=library.float64),
        )
    return build(library, CASE_NAMES[name], grad=False, most=2)[0]


@pytest.mark.parametrize(("p", "q"), PAIRS, ids=lambda name: name)
def test_pairs(p, q):
    actual, expected = (
        library.distributions.kl_divergence(build_narrow(library, p), build_narrow(library, q))
        for library in (edutorch, torch)
    )
    if (p, q) == ("Uniform", "ContinuousBernoulli"):
        assert bool((expected > 0).all())
    assert actual.tolist() == pytest.approx(expected.tolist(), rel=1e-7, abs=1e-9)


def test_gradients():
    expected = {}
    for library in (edutorch, torch):
        for name in ("Normal", "Gamma", "Beta", "Categorical", "MultivariateNormal", "Dirichlet"):
            p, own = build(library, CASE_NAMES[name])
            q, others = build(library, CASE_NAMES[name])
            (library.distributions.kl_divergence(p, q) + p.entropy()).sum().backward()
            slopes = [parameter.grad.numpy() for parameter in (*own, *others)]
            for one, other in zip(slopes, expected.setdefault(name, slopes), strict=True):
                assert one == pytest.approx(other, rel=1e-6, abs=1e-8)


def test_what_is_made_of_others():
    for library in (edutorch, torch):
        d = library.distributions
        zeros, ones = library.zeros(2, 3), library.ones(2, 3)
        p, q = d.Independent(d.Normal(zeros, ones), 1), d.Independent(d.Normal(ones, ones), 1)
        assert d.kl_divergence(p, q).tolist() == [1.5, 1.5]
        p, q = d.LogNormal(zeros, ones), d.LogNormal(ones, ones)
        assert d.kl_divergence(p, q).tolist() == [[0.5] * 3] * 2
        with pytest.raises(NotImplementedError, match=r"No KL\(p \|\| q\) is implemented"):
            d.kl_divergence(d.Normal(0.0, 1.0), d.StudentT(1.0))
        with pytest.raises(NotImplementedError):
            d.kl_divergence(d.Independent(d.Normal(zeros, ones), 1), d.Independent(q, 0))


def test_a_formula_of_the_users():
    from edutorch.distributions import Normal, kl_divergence, register_kl

    class Own(Normal):
        pass

    assert kl_divergence(Own(0.0, 1.0), Own(0.0, 1.0)).item() == 0, "that of the base class"
    register_kl(Own, Own)(lambda p, q: "own")
    assert kl_divergence(Own(0.0, 1.0), Own(0.0, 1.0)) == "own"
    with pytest.raises(TypeError, match="Expected a Distribution subclass"):
        register_kl(1, Own)
