"""Kullback–Leibler divergences between distributions of two classes.

Most are -entropy(p) - E[log q(x)]: log q is a sum of simple terms whose means under p are known.
Where p has values outside the support of q, the divergence is infinite.
"""

from __future__ import annotations

import math
from typing import Any

from ..ops import full_like, where
from .continuous_bernoulli import ContinuousBernoulli
from .discrete import Bernoulli, Binomial, Poisson
from .gamma_family import Beta, Exponential, Gamma
from .kl import register_kl
from .location_scale import Laplace, Normal, Uniform
from .transformed import EULER, Gumbel, Pareto

__all__: list[str] = []

# Pairs in which p has values outside the support of q.
IMPOSSIBLE: dict[type, tuple[str, list[type]]] = {
    Beta: ("concentration1", [Pareto]),
    ContinuousBernoulli: ("probs", [Pareto]),
    Exponential: ("rate", [Beta, ContinuousBernoulli, Pareto, Uniform]),
    Gamma: ("concentration", [Beta, ContinuousBernoulli, Pareto, Uniform]),
    Gumbel: ("loc", [Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform]),
    Laplace: ("loc", [Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform]),
    Normal: ("loc", [Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform]),
    Pareto: ("scale", [Beta, ContinuousBernoulli, Uniform]),
    Poisson: ("rate", [Bernoulli, Binomial]),
}


def _kl_infinite(name: str) -> Any:
    return lambda p, q: full_like(getattr(p, name).detach(), math.inf)


for _p, (_name, _qs) in IMPOSSIBLE.items():
    for _q in _qs:
        register_kl(_p, _q)(_kl_infinite(_name))


# By q: the terms of E[log q(x)] ------------------------------------------------------------------


def _kl_to_normal(p: Any, q: Any) -> Any:
    """E[(x - loc)²] = variance + (mean - loc)²."""
    square = p.variance + (p.mean - q.loc).square()
    log_norm = q.scale.log() + 0.5 * math.log(2 * math.pi)
    return log_norm + square / (2 * q.scale.square()) - p.entropy()


for _p in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform):
    register_kl(_p, Normal)(_kl_to_normal)


@register_kl(Pareto, Normal)
def _kl_pareto_normal(p: Any, q: Any) -> Any:
    return where(p.alpha <= 2, math.inf, _kl_to_normal(p, q))


def _kl_to_exponential(p: Any, q: Any) -> Any:
    return q.rate * p.mean - q.rate.log() - p.entropy()


for _p in (Beta, ContinuousBernoulli, Gamma):
    register_kl(_p, Exponential)(_kl_to_exponential)


@register_kl(Pareto, Exponential)
def _kl_pareto_exponential(p: Any, q: Any) -> Any:
    return where(p.alpha <= 1, math.inf, _kl_to_exponential(p, q))


@register_kl(Uniform, Exponential)
def _kl_uniform_exponential(p: Any, q: Any) -> Any:
    return where(p.low < 0, math.inf, _kl_to_exponential(p, q))


def _x_log_x(x: Any) -> Any:
    return x.xlogy(x)


def _mean_log(p: Any) -> Any:
    """E[log x]."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Exponential):
        return -EULER - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return (_x_log_x(p.high) - _x_log_x(p.low)) / (p.high - p.low) - 1  # Uniform


def _kl_to_gamma(p: Any, q: Any) -> Any:
    log_norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    return log_norm - (q.concentration - 1) * _mean_log(p) + q.rate * p.mean - p.entropy()


for _p in (Beta, Exponential):
    register_kl(_p, Gamma)(_kl_to_gamma)


@register_kl(Pareto, Gamma)
def _kl_pareto_gamma(p: Any, q: Any) -> Any:
    return where(p.alpha <= 1, math.inf, _kl_to_gamma(p, q))


@register_kl(Uniform, Gamma)
def _kl_uniform_gamma(p: Any, q: Any) -> Any:
    return where(p.low < 0, math.inf, _kl_to_gamma(p, q))


def _mean_exp(p: Any, scale: Any) -> Any:
    """E[exp(-x / scale)]."""
    if isinstance(p, Exponential):
        return p.rate * scale / (p.rate * scale + 1)
    if isinstance(p, Gamma):
        return (1 + (p.rate * scale).reciprocal()) ** -p.concentration
    if isinstance(p, Normal):
        return (-p.loc / scale + 0.5 * (p.scale / scale).square()).exp()
    return scale / (p.high - p.low) * ((-p.low / scale).exp() - (-p.high / scale).exp())


def _kl_to_gumbel(p: Any, q: Any) -> Any:
    """-log q = log scale + z + exp(-z), z = (x - loc) / scale."""
    z_mean = (p.mean - q.loc) / q.scale
    return q.scale.log() + z_mean + (q.loc / q.scale).exp() * _mean_exp(p, q.scale) - p.entropy()


for _p in (Exponential, Gamma, Normal, Uniform):
    register_kl(_p, Gumbel)(_kl_to_gumbel)


# The rest ----------------------------------------------------------------------------------------


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p: Any, q: Any) -> Any:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _kl_beta_continuous_bernoulli(p: Any, q: Any) -> Any:
    return -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm()


@register_kl(Uniform, ContinuousBernoulli)
def _kl_uniform_continuous_bernoulli(p: Any, q: Any) -> Any:
    outside = (p.high > 1) | (p.low < 0)
    return where(outside, math.inf, _kl_beta_continuous_bernoulli(p, q))


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _kl_unit_uniform(p: Any, q: Any) -> Any:
    kl = -p.entropy() + (q.high - q.low).log()
    return where((q.low > 0) | (q.high < 1), math.inf, kl)


@register_kl(Uniform, Beta)
def _kl_uniform_beta(p: Any, q: Any) -> Any:
    a, b = q.concentration1, q.concentration0
    mirrored = _x_log_x(1 - p.low) - _x_log_x(1 - p.high)
    log_rest = mirrored / (p.high - p.low) - 1  # E[log(1 - x)]
    log_norm = a.lgamma() + b.lgamma() - (a + b).lgamma()
    kl = log_norm - (a - 1) * _mean_log(p) - (b - 1) * log_rest - p.entropy()
    return where((p.high > 1) | (p.low < 0), math.inf, kl)


@register_kl(Uniform, Pareto)
def _kl_uniform_pareto(p: Any, q: Any) -> Any:
    kl = (q.alpha + 1) * _mean_log(p) - (q.alpha * q.scale**q.alpha).log() - p.entropy()
    return where(p.low < q.scale, math.inf, kl)


@register_kl(Normal, Laplace)
def _kl_normal_laplace(p: Any, q: Any) -> Any:
    """E|x - loc| is the mean of a folded normal distribution."""
    shift, z = p.loc - q.loc, (p.loc - q.loc) / p.scale
    folded = math.sqrt(2 / math.pi) * p.scale * (-0.5 * z.square()).exp()
    folded = folded + shift * (math.sqrt(0.5) * z).erf()
    return (2 * q.scale).log() + folded / q.scale - p.entropy()
