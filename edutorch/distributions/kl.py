"""The Kullback–Leibler divergence, with a registry of formulas for pairs of classes.

    KL(p ‖ q) = E[log p(x) - log q(x)] for x from p

First the pairs of one class, then those of two different classes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ..autograd import grad
from ..core.shapes import broadcast_shapes
from ..core.tensor import Tensor
from ..linalg import solve_triangular
from ..modes import enable_grad
from ..nn.functional import softplus
from ..ops import diag_embed, full_like, where
from .categorical import Categorical, OneHotCategorical
from .continuous_bernoulli import ContinuousBernoulli
from .discrete import Bernoulli, Binomial, Geometric, Poisson
from .distribution import Distribution, ExponentialFamily, compute_in_float32
from .gamma_family import Beta, Dirichlet, Exponential, Gamma
from .independent_mixture import Independent, TransformedDistribution
from .location_scale import Cauchy, Laplace, Normal, Uniform
from .multivariate import LowRankMultivariateNormal, MultivariateNormal, diagonal, mahalanobis
from .transformed import EULER, Gumbel, HalfNormal, Pareto
from .utils import TensorLike, sum_rightmost

__all__ = ["kl_divergence", "register_kl"]

REGISTRY: dict[tuple[type, type], Callable[[Any, Any], Any]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """Register a function as the divergence between two classes of distributions (a decorator).

    Raises: TypeError: not classes of distributions.

    >>> from edutorch.distributions import Normal, register_kl
    >>> class Own(Normal):
    ...     "A distribution of the user's."
    >>> register_kl(Own, Own)(lambda p, q: "own formula")(None, None)
    'own formula'
    """
    for cls in (type_p, type_q):
        # Pyro's distributions have a base class of their own: any class will do, as in PyTorch.
        if not isinstance(cls, type):
            raise TypeError(f"Expected a Distribution subclass, but got {cls}")

    def decorate(function: Any) -> Any:
        REGISTRY[type_p, type_q] = compute_in_float32(function)
        find_kl.cache_clear()
        return function

    return decorate


@functools.cache
def find_kl(type_p: type, type_q: type) -> Any:
    """Return the function for the nearest pair of base classes, or None; p takes precedence."""
    for p in type_p.__mro__:
        for q in type_q.__mro__:
            if (p, q) in REGISTRY:
                return REGISTRY[p, q]
    return None


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """Return KL(p ‖ q) = E[log p(x) - log q(x)], in closed form.

    Raises: NotImplementedError: no formula is known for the pair.

    >>> from edutorch.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(1.0, 1.0), Normal(0.0, 1.0))
    tensor(0.5000)
    """
    function = find_kl(type(p), type(q))
    if function is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} "
            f"and q type {type(q).__name__}"
        )
    return function(p, q)


# Pairs of one class ------------------------------------------------------------------------------


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli(p: Bernoulli, q: Bernoulli) -> Any:
    ones = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    zeros = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    ones = where(p.probs == 0, 0.0, where(q.probs == 0, math.inf, ones))
    return ones + where(p.probs == 1, 0.0, where(q.probs == 1, math.inf, zeros))


@register_kl(Binomial, Binomial)
def _kl_binomial(p: Binomial, q: Binomial) -> Any:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    one = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return where(p.total_count > q.total_count, math.inf, p.total_count * one)


@register_kl(Categorical, Categorical)
def _kl_categorical(p: Categorical, q: Categorical) -> Any:
    terms = p.probs * (p.logits - q.logits)
    return where(p.probs == 0, 0.0, where(q.probs == 0, math.inf, terms)).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Any:
    return _kl_categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _kl_geometric(p: Geometric, q: Geometric) -> Any:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _kl_poisson(p: Poisson, q: Poisson) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Any:
    p_term = p._cont_bern_log_norm() + (-p.probs).log1p()
    q_term = q._cont_bern_log_norm() + (-q.probs).log1p()
    # Rounding may give a negative value for nearly equal distributions.
    return (p.mean * (p.logits - q.logits) + p_term - q_term).clamp(min=0)


@register_kl(Beta, Beta)
def _kl_beta(p: Beta, q: Beta) -> Any:
    return _kl_dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet(p: Dirichlet, q: Dirichlet) -> Any:
    a, b = p.concentration, q.concentration
    log_norm = a.sum(-1).lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    digamma_difference = a.digamma() - a.sum(-1, keepdim=True).digamma()
    return log_norm + ((a - b) * digamma_difference).sum(-1)


@register_kl(Exponential, Exponential)
def _kl_exponential(p: Exponential, q: Exponential) -> Any:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Gamma, Gamma)
def _kl_gamma(p: Gamma, q: Gamma) -> Any:
    a, b = p.concentration, q.concentration
    log_norm = b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma()
    return log_norm + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)


@register_kl(Gumbel, Gumbel)
def _kl_gumbel(p: Gumbel, q: Gumbel) -> Any:
    ratio, shift = p.scale / q.scale, (q.loc - p.loc) / q.scale
    moment = (shift + (1 + ratio).lgamma()).exp()
    return -ratio.log() - shift + ratio * EULER + moment - (1 + EULER)


@register_kl(Normal, Normal)
def _kl_normal(p: Normal, q: Normal) -> Any:
    ratio = (p.scale / q.scale).square()
    squared_distance = ((p.loc - q.loc) / q.scale).square()
    return 0.5 * (ratio + squared_distance - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _kl_half_normal(p: HalfNormal, q: HalfNormal) -> Any:
    return _kl_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _kl_laplace(p: Laplace, q: Laplace) -> Any:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _kl_cauchy(p: Cauchy, q: Cauchy) -> Any:
    """Paper: F. Chyzak and F. Nielsen, A closed-form formula for the Kullback-Leibler divergence
    between Cauchy distributions, 2019."""
    numerator = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return numerator.log() - (4 * p.scale * q.scale).log()


@register_kl(Pareto, Pareto)
def _kl_pareto(p: Pareto, q: Pareto) -> Any:
    ratio = q.alpha / p.alpha
    kl = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return where(p.scale < q.scale, math.inf, kl)


@register_kl(Uniform, Uniform)
def _kl_uniform(p: Uniform, q: Uniform) -> Any:
    kl = ((q.high - q.low) / (p.high - p.low)).log()
    return where((q.low > p.low) | (q.high < p.high), math.inf, kl)


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_exponential_family(p: ExponentialFamily, q: ExponentialFamily) -> Any:
    """By the Bregman divergence of the log normalizer: F(θq) - F(θp) - (θq - θp) · F'(θp)."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed "
            "using Bregman divergences"
        )
    with enable_grad():
        p_params = [natural_param.detach().requires_grad_() for natural_param in p._natural_params]
        normalizer = p._log_normalizer(*p_params)
    means = grad(normalizer.sum(), p_params, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - normalizer
    for p_param, q_param, mean in zip(p_params, q._natural_params, means, strict=True):
        result = result - sum_rightmost((q_param - p_param) * mean, len(q.event_shape))
    return result


# Multivariate normal -----------------------------------------------------------------------------


def check_same_event(p: Distribution, q: Distribution) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot "
            f"be computed: {p.event_shape} and {q.event_shape}"
        )


def squared_norm(matrix: Tensor) -> Any:
    """tr(X Xᵀ)."""
    return matrix.square().sum((-2, -1))


def log_determinant(normal: LowRankMultivariateNormal | MultivariateNormal) -> Any:
    if isinstance(normal, LowRankMultivariateNormal):
        return normal.log_determinant()
    return 2 * diagonal(normal._tril).log().sum(-1)


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _kl_to_multivariate(
    p: LowRankMultivariateNormal | MultivariateNormal, q: MultivariateNormal
) -> Any:
    """(log det Σq - log det Σp + tr(Σq⁻¹ Σp) + distance² - n) / 2."""
    check_same_event(p, q)
    n = p.event_shape[0]
    shape = (*broadcast_shapes(p.batch_shape, q.batch_shape), n, n)
    if isinstance(p, LowRankMultivariateNormal):
        parts = [p.cov_factor, diag_embed(p.cov_diag.sqrt())]
    else:
        parts = [p._tril]
    lower, trace = q._tril.expand(shape), 0.0
    for part in parts:
        full = part.expand((*shape[:-1], part.shape[-1]))
        trace = trace + squared_norm(solve_triangular(lower, full, upper=False))
    squared_distance = mahalanobis(q._tril, q.loc - p.loc)
    determinants = log_determinant(q) - log_determinant(p)
    return 0.5 * (determinants + trace + squared_distance - n)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _kl_to_low_rank(
    p: LowRankMultivariateNormal | MultivariateNormal, q: LowRankMultivariateNormal
) -> Any:
    """As above, with Σq⁻¹ = D⁻¹ - AᵀA by Woodbury's identity, A = C⁻¹ᐟ² Wᵀ D⁻¹."""
    check_same_event(p, q)
    scaled = q.cov_factor.mT / q.cov_diag.unsqueeze(-2)
    a = solve_triangular(q._capacitance_tril, scaled, upper=False)
    inverse = q.cov_diag.rsqrt().unsqueeze(-1)
    if isinstance(p, LowRankMultivariateNormal):
        trace = (p.cov_diag / q.cov_diag).sum(-1) + squared_norm(p.cov_factor * inverse)
        trace = (
            trace
            - squared_norm(a * p.cov_diag.sqrt().unsqueeze(-2))
            - squared_norm(a @ p.cov_factor)
        )
    else:
        trace = squared_norm(p._tril * inverse) - squared_norm(a @ p._tril)
    determinants = log_determinant(q) - log_determinant(p)
    return 0.5 * (determinants + trace + q.distance(q.loc - p.loc) - p.event_shape[0])


# Composites --------------------------------------------------------------------------------------


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed(p: TransformedDistribution, q: TransformedDistribution) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("the transforms of p and q are not the same")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _kl_independent(p: Independent, q: Independent) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("p and q take other numbers of dimensions together")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


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


def _kl_to_normal(p: Distribution, q: Normal) -> Any:
    """E[(x - loc)²] = variance + (mean - loc)²."""
    square = p.variance + (p.mean - q.loc).square()
    log_norm = q.scale.log() + 0.5 * math.log(2 * math.pi)
    return log_norm + square / (2 * q.scale.square()) - p.entropy()


for _p in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform):
    register_kl(_p, Normal)(_kl_to_normal)


@register_kl(Pareto, Normal)
def _kl_pareto_normal(p: Pareto, q: Normal) -> Any:
    return where(p.alpha <= 2, math.inf, _kl_to_normal(p, q))


def _kl_to_exponential(p: Distribution, q: Exponential) -> Any:
    return q.rate * p.mean - q.rate.log() - p.entropy()


for _p in (Beta, ContinuousBernoulli, Gamma):
    register_kl(_p, Exponential)(_kl_to_exponential)


@register_kl(Pareto, Exponential)
def _kl_pareto_exponential(p: Pareto, q: Exponential) -> Any:
    return where(p.alpha <= 1, math.inf, _kl_to_exponential(p, q))


@register_kl(Uniform, Exponential)
def _kl_uniform_exponential(p: Uniform, q: Exponential) -> Any:
    return where(p.low < 0, math.inf, _kl_to_exponential(p, q))


def _x_log_x(x: Tensor) -> Any:
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


def _kl_to_gamma(p: Distribution, q: Gamma) -> Any:
    log_norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    return log_norm - (q.concentration - 1) * _mean_log(p) + q.rate * p.mean - p.entropy()


for _p in (Beta, Exponential):
    register_kl(_p, Gamma)(_kl_to_gamma)


@register_kl(Pareto, Gamma)
def _kl_pareto_gamma(p: Pareto, q: Gamma) -> Any:
    return where(p.alpha <= 1, math.inf, _kl_to_gamma(p, q))


@register_kl(Uniform, Gamma)
def _kl_uniform_gamma(p: Uniform, q: Gamma) -> Any:
    return where(p.low < 0, math.inf, _kl_to_gamma(p, q))


def _mean_exp(p: Any, scale: TensorLike) -> Any:
    """E[exp(-x / scale)]."""
    if isinstance(p, Exponential):
        return p.rate * scale / (p.rate * scale + 1)
    if isinstance(p, Gamma):
        return (1 + (p.rate * scale).reciprocal()) ** -p.concentration
    if isinstance(p, Normal):
        return (-p.loc / scale + 0.5 * (p.scale / scale).square()).exp()
    return scale / (p.high - p.low) * ((-p.low / scale).exp() - (-p.high / scale).exp())


def _kl_to_gumbel(p: Distribution, q: Gumbel) -> Any:
    """-log q = log scale + z + exp(-z), z = (x - loc) / scale."""
    z_mean = (p.mean - q.loc) / q.scale
    return q.scale.log() + z_mean + (q.loc / q.scale).exp() * _mean_exp(p, q.scale) - p.entropy()


for _p in (Exponential, Gamma, Normal, Uniform):
    register_kl(_p, Gumbel)(_kl_to_gumbel)


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p: Bernoulli, q: Poisson) -> Any:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _kl_beta_continuous_bernoulli(p: Beta, q: ContinuousBernoulli) -> Any:
    return -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm()


@register_kl(Uniform, ContinuousBernoulli)
def _kl_uniform_continuous_bernoulli(p: Uniform, q: ContinuousBernoulli) -> Any:
    outside = (p.high > 1) | (p.low < 0)
    return where(outside, math.inf, _kl_beta_continuous_bernoulli(p, q))


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _kl_unit_uniform(p: Beta | ContinuousBernoulli, q: Uniform) -> Any:
    kl = -p.entropy() + (q.high - q.low).log()
    return where((q.low > 0) | (q.high < 1), math.inf, kl)


@register_kl(Uniform, Beta)
def _kl_uniform_beta(p: Uniform, q: Beta) -> Any:
    a, b = q.concentration1, q.concentration0
    mirrored = _x_log_x(1 - p.low) - _x_log_x(1 - p.high)
    log_rest = mirrored / (p.high - p.low) - 1  # E[log(1 - x)]
    log_norm = a.lgamma() + b.lgamma() - (a + b).lgamma()
    kl = log_norm - (a - 1) * _mean_log(p) - (b - 1) * log_rest - p.entropy()
    return where((p.high > 1) | (p.low < 0), math.inf, kl)


@register_kl(Uniform, Pareto)
def _kl_uniform_pareto(p: Uniform, q: Pareto) -> Any:
    kl = (q.alpha + 1) * _mean_log(p) - (q.alpha * q.scale**q.alpha).log() - p.entropy()
    return where(p.low < q.scale, math.inf, kl)


@register_kl(Normal, Laplace)
def _kl_normal_laplace(p: Normal, q: Laplace) -> Any:
    """E|x - loc| is the mean of a folded normal distribution."""
    shift, z = p.loc - q.loc, (p.loc - q.loc) / p.scale
    folded = math.sqrt(2 / math.pi) * p.scale * (-0.5 * z.square()).exp()
    folded = folded + shift * (math.sqrt(0.5) * z).erf()
    return (2 * q.scale).log() + folded / q.scale - p.entropy()
