"""Samples follow their distribution, and have the right reparameterized gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest

import edutorch
from edutorch.distributions import (
    Beta,
    Categorical,
    Dirichlet,
    Gamma,
    Independent,
    MixtureSameFamily,
    Normal,
    StudentT,
    TransformedDistribution,
)
from edutorch.distributions.gamma_family import log_gamma_derivative
from edutorch.distributions.transforms import ExpTransform
from tests.distributions.cases import CASES, build
from tests.simulation import simulated

MANY = 4000
HEAVY_TAILS = {"Cauchy", "HalfCauchy", "InverseGamma", "FisherSnedecor", "Pareto", "StudentT"}


def known_moments(name):
    """Return mean and variance, where they can be tested with samples."""
    ours, _ = build(edutorch, name, grad=False)
    try:
        return ours, ours.mean, ours.variance
    except NotImplementedError:
        return ours, None, None


@pytest.mark.parametrize("name", [n for n in CASES if n not in HEAVY_TAILS])
def test_moments(name):
    edutorch.manual_seed(1)
    ours, mean, variance = known_moments(name)
    if mean is None or not bool(mean.isfinite().all()):
        return
    x = ours.sample((MANY,)).double()
    if name == "VonMises":
        # on the circle: the mean direction, and 1 - the length of the mean vector
        away = x - mean
        np.testing.assert_allclose(away.sin().mean(0).tolist(), [0, 0], atol=0.1)
        np.testing.assert_allclose((1 - away.cos().mean(0)).tolist(), variance.tolist(), atol=0.05)
        return
    spread = variance.sqrt()
    assert bool(((x.mean(0) - mean).abs() < 5 * spread / math.sqrt(MANY) + 1e-9).all())
    squares = (x - mean).square().mean(0)
    assert bool(((squares / variance - 1).abs() < 0.4).all())


@pytest.mark.parametrize("name", CASES)
def test_distribution_function(name):
    """The Kolmogorov–Smirnov distance of the empirical distribution from the cdf."""
    edutorch.manual_seed(2)
    ours, _ = build(edutorch, name, grad=False)
    if len(ours.event_shape) or ours.support.is_discrete:
        return
    x = ours.sample((MANY,)).sort(0).values
    try:
        expected = ours.cdf(x)
    except NotImplementedError:
        return
    observed = (edutorch.arange(MANY, dtype=edutorch.float64) + 0.5) / MANY
    distance = (expected.T - observed).abs().amax(1)
    assert float(distance.max()) < 2.2 / math.sqrt(MANY), "expected of 1 draw in 10,000 at most"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_type_of_samples_is_that_of_the_parameters(dtype):
    for cls in (Normal, Gamma, Beta):
        made = cls(*(edutorch.ones(3, dtype=getattr(edutorch, dtype)) for _ in range(2)))
        assert made.sample().dtype is getattr(edutorch, dtype)


# Gradients of samples ------------------------------------------------------------------------


def test_slope_of_gamma_numbers():
    """dz/dα = -(∂P/∂α) / p(z), against central differences of the incomplete gamma function."""
    rng = np.random.default_rng(0)
    alpha = np.concatenate([rng.uniform(0.05, 5, 300), rng.uniform(5, 500, 300)])
    z = rng.gamma(alpha)
    actual = log_gamma_derivative(np, alpha, np.log(z)) * z

    def below(a):
        return edutorch.igamma(edutorch.from_numpy(a), edutorch.from_numpy(z)).numpy()

    h = 1e-4 * alpha
    log_density = (alpha - 1) * np.log(z) - z - [math.lgamma(value) for value in alpha]
    expected = -(below(alpha + h) - below(alpha - h)) / (2 * h) / np.exp(log_density)
    np.testing.assert_allclose(actual, expected, rtol=2e-5)


def test_slope_of_numbers_that_round_to_zero():
    alpha, log_z = np.array([1e-3, 0.5]), np.array([-2000.0, -800.0])
    actual = log_gamma_derivative(np, alpha, log_z)
    # z is small: P = zᵅ / Γ(α + 1), so ln z = (ln u + ln Γ(α + 1)) / α
    psi = edutorch.digamma(edutorch.from_numpy(alpha + 1)).numpy()
    np.testing.assert_allclose(actual, (psi - log_z) / alpha, rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "at", "of", "expected"),
    [
        # the mean of f(x) is known, hence its derivative too
        (lambda t: Gamma(t, 2.0), 1.7, lambda x: x, 0.5),
        (lambda t: Gamma(3.0, t), 2.0, lambda x: x, -0.75),
        (lambda t: Beta(t, 2.0), 1.5, lambda x: x, 2 / 3.5**2),
        (lambda t: Dirichlet(edutorch.stack([t, t * 0 + 2.0])), 1.5, lambda x: x[:, 0], 2 / 3.5**2),
        (lambda t: Normal(1.0, t), 2.0, lambda x: x.square(), 4.0),
        # variance s² · df / (df - 2): slope -2 s² / (df - 2)²
        (lambda t: StudentT(t, 0.0, 1.0), 9.0, lambda x: x.square(), -2 / 49),
    ],
)
def test_gradients_of_means(make, at, of, expected):
    edutorch.manual_seed(3)
    at = edutorch.tensor(at, dtype=edutorch.float64, requires_grad=True)
    of(make(at).rsample((40_000,))).mean().backward()
    assert float(at.grad) == pytest.approx(expected, rel=0.1, abs=0.01)


def test_second_derivatives_are_refused():
    a = edutorch.tensor(2.0, requires_grad=True)
    (slope,) = edutorch.autograd.grad(Gamma(a, 1.0).rsample(), a, create_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        slope.backward()


# Programs from PyTorch's examples ---------------------------------------------------------------


def test_a_step_of_reinforce():
    import edutorch as torch
    from edutorch import nn, optim
    from edutorch.distributions import Categorical

    torch.manual_seed(543)
    policy = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2), nn.Softmax(dim=-1))
    optimizer = optim.Adam(policy.parameters(), lr=1e-2)
    before = policy[0].weight.detach().clone()
    saved_log_probs, rewards = [], [1.0, 0.0, 2.0]
    for _ in rewards:
        state = torch.randn(1, 4)
        m = Categorical(policy(state))
        action = m.sample()
        assert action.item() in (0, 1)
        saved_log_probs.append(m.log_prob(action))
    policy_loss = [-log_prob * R for log_prob, R in zip(saved_log_probs, rewards, strict=True)]
    optimizer.zero_grad()
    policy_loss = torch.cat(policy_loss).sum()
    policy_loss.backward()
    optimizer.step()
    assert not torch.equal(before, policy[0].weight)


def test_the_loss_of_a_vae():
    import edutorch as torch
    from edutorch import nn
    from edutorch.distributions import Bernoulli, Independent, Normal, kl_divergence

    torch.manual_seed(0)
    encoder, decoder = nn.Linear(8, 4), nn.Linear(2, 8)
    x = torch.rand(5, 8).round()
    mu, logvar = encoder(x).chunk(2, dim=-1)
    q = Independent(Normal(mu, torch.exp(0.5 * logvar)), 1)
    prior = Independent(Normal(torch.zeros(2), torch.ones(2)), 1)
    z = q.rsample()
    likelihood = Independent(Bernoulli(logits=decoder(z)), 1)
    kl = kl_divergence(q, prior)
    by_hand = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=-1)
    assert torch.allclose(kl, by_hand, atol=1e-5)
    loss = (kl - likelihood.log_prob(x)).mean()
    loss.backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in encoder.parameters())


def composed(device):
    """Return distributions made of others, whose samples take several draws."""

    def vector(*values):
        return edutorch.tensor(values, device=device, dtype=edutorch.float64)

    weights = Categorical(vector(0.3, 0.7))
    yield MixtureSameFamily(weights, Normal(vector(0, 5), vector(1, 2)))
    yield MixtureSameFamily(weights, Gamma(vector(1, 5), vector(1, 2)))
    yield Independent(StudentT(vector(3, 4)), 1)
    yield TransformedDistribution(Gamma(vector(2, 3), vector(1, 1)), [ExpTransform()])


COMPOSED = {f"composed {number}": number for number in range(4)}


@pytest.mark.parametrize("device", ["strict", "cuda"])
@pytest.mark.parametrize("name", [*CASES, *COMPOSED])
def test_a_seed_makes_the_same_samples_on_every_device(name, device):
    """What is computed on the host, and what on the device, is drawn from one stream."""
    results = []
    with simulated(1):
        for place in ("cpu", device):
            if name in COMPOSED:
                ours = [*composed(place)][COMPOSED[name]]
            else:
                ours, _ = build(edutorch, name, grad=False, device=place)
            edutorch.manual_seed(3)
            samples = [ours.sample((5,)), ours.sample()]
            samples += [ours.rsample((3,))] if ours.has_rsample else []
            assert all(x.device.type == place for x in samples)
            samples.append(edutorch.rand(2, device=place))  # it goes on at the same number
            results.append([x.cpu().numpy() for x in samples])
    for first, second in zip(*results, strict=True):  # LAPACK's kernels round in another way
        np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-6)
