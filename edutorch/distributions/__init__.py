"""Probability distributions, with PyTorch's names: sampling, densities, divergences.

policy = Categorical(logits=network(state))
action = policy.sample()
loss = -policy.log_prob(action) * reward            # REINFORCE

z = Normal(mean, scale).rsample()                   # a sample with a gradient, as in a VAE
"""

from __future__ import annotations

import sys as _sys

from . import categorical as _categorical
from . import independent_mixture as _compound
from . import constraints, kl, transforms, utils
from . import discrete as _discrete
from . import distribution as _distribution
from . import gamma_family as _gamma_family
from . import location_scale as _location_scale
from . import multivariate as _multivariate
from . import wishart_lkj as _random_matrices
from . import relaxed as _relaxed
from . import transformed as _transformed
from . import von_mises_pareto as _unusual
from .categorical import (
    Categorical, Multinomial, OneHotCategorical, OneHotCategoricalStraightThrough,
)  # fmt: skip
from .independent_mixture import Independent, MixtureSameFamily, TransformedDistribution
from .constraint_registry import biject_to, transform_to
from .continuous_bernoulli import ContinuousBernoulli
from .discrete import Bernoulli, Binomial, Geometric, NegativeBinomial, Poisson
from .distribution import Distribution, ExponentialFamily
from .gamma_family import Beta, Chi2, Dirichlet, Exponential, FisherSnedecor, Gamma, StudentT
from .kl import kl_divergence, register_kl
from .location_scale import Cauchy, Laplace, Normal, Uniform
from .multivariate import LowRankMultivariateNormal, MultivariateNormal
from .wishart_lkj import LKJCholesky, Wishart
from .relaxed import (
    ExpRelaxedCategorical, LogitRelaxedBernoulli, RelaxedBernoulli, RelaxedOneHotCategorical,
)  # fmt: skip
from .transformed import (
    Gumbel, HalfCauchy, HalfNormal, InverseGamma, Kumaraswamy, LogisticNormal, LogNormal, Pareto,
    Weibull,
)  # fmt: skip
from .transforms import *
from .transforms import __all__ as _transforms
from .von_mises_pareto import GeneralizedPareto, VonMises

# PyTorch has a file per distribution: `from torch.distributions.normal import Normal`.
for _home, _files in {
    _location_scale: "cauchy laplace normal uniform",
    _discrete: "bernoulli binomial geometric negative_binomial poisson",
    _categorical: "multinomial one_hot_categorical",
    _gamma_family: "beta chi2 dirichlet exponential fishersnedecor gamma studentT",
    _transformed: "gumbel half_cauchy half_normal inverse_gamma kumaraswamy log_normal "
    "logistic_normal pareto weibull",
    _compound: "independent mixture_same_family transformed_distribution",
    _multivariate: "lowrank_multivariate_normal multivariate_normal",
    _random_matrices: "lkj_cholesky wishart",
    _relaxed: "relaxed_bernoulli relaxed_categorical",
    _unusual: "generalized_pareto von_mises",
    _distribution: "exp_family",
}.items():
    for _file in _files.split():
        globals()[_file] = _sys.modules[f"{__name__}.{_file}"] = _home

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ContinuousBernoulli",
    "Dirichlet", "Distribution", "ExpRelaxedCategorical", "Exponential", "ExponentialFamily",
    "FisherSnedecor", "Gamma", "GeneralizedPareto", "Geometric", "Gumbel", "HalfCauchy",
    "HalfNormal", "Independent", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace",
    "LogNormal", "LogisticNormal", "LogitRelaxedBernoulli", "LowRankMultivariateNormal",
    "MixtureSameFamily", "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal",
    "OneHotCategorical", "OneHotCategoricalStraightThrough", "Pareto", "Poisson",
    "RelaxedBernoulli", "RelaxedOneHotCategorical", "StudentT", "TransformedDistribution",
    "Uniform", "VonMises", "Weibull", "Wishart", "biject_to", "constraints", "kl",
    "kl_divergence", "register_kl", "transform_to", "transforms", "utils", *_transforms,
]  # fmt: skip
