"""Distributions defined as transforms of simpler ones."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from ..core.tensor import Tensor
from ..dtypes import finfo
from ..ops import full_like, ones_like, where, zeros_like
from . import constraints
from .gamma_family import Exponential, Gamma
from .independent_mixture import TransformedDistribution
from .location_scale import LOC_SCALE, Cauchy, Normal, Uniform
from .transforms import (
    AbsTransform,
    AffineTransform,
    ExpTransform,
    PowerTransform,
    StickBreakingTransform,
)  # fmt: skip
from .utils import TensorLike, broadcast_all

__all__ = [
    "Gumbel", "HalfCauchy", "HalfNormal", "InverseGamma", "Kumaraswamy", "LogNormal",
    "LogisticNormal", "Pareto", "Weibull",
]  # fmt: skip

EULER = float(np.euler_gamma)


class LogNormal(TransformedDistribution):
    """The log-normal distribution: exp(x) of a normal x.

    >>> edutorch.distributions.LogNormal(0.0, 1.0).mode
    tensor(0.3679)
    """

    arg_constraints = LOC_SCALE
    support = constraints.positive
    has_rsample = True

    def __init__(
        self, loc: TensorLike, scale: TensorLike, validate_args: bool | None = None
    ) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Any:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Any:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Any:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Any:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Any:
        square = self.scale.square()
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Any:
        return self.base_dist.entropy() + self.loc


class LogisticNormal(TransformedDistribution):
    """The logistic-normal distribution: stick-breaking of a normal vector.

    >>> edutorch.distributions.LogisticNormal(zeros(2), ones(2)).event_shape
    torch.Size([3])
    """

    arg_constraints = LOC_SCALE
    support = constraints.simplex
    has_rsample = True

    def __init__(
        self, loc: TensorLike, scale: TensorLike, validate_args: bool | None = None
    ) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        base = base if base.batch_shape else base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Any:
        """The means of the normal vector."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Any:
        """The standard deviations of the normal vector."""
        return self.base_dist.base_dist.scale


class HalfDistribution(TransformedDistribution):
    """The base of HalfNormal and HalfCauchy: |x| of a symmetric distribution around 0."""

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    @property
    def scale(self) -> Any:
        """The scale."""
        return self.base_dist.scale

    @property
    def mode(self) -> Any:
        return zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self._cdf(value / self.scale)

    def icdf(self, value: Tensor) -> Any:
        return self.scale * self._icdf(value)

    @staticmethod
    def _cdf(z: Tensor) -> Any:
        """The cdf for scale 1, 2 F(z) - 1, without cancellation near 0."""
        raise NotImplementedError

    @staticmethod
    def _icdf(value: Tensor) -> Any:
        """The inverse of `_cdf`."""
        raise NotImplementedError

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(HalfDistribution):
    """The half-normal distribution: |x| of a normal x with the mean 0.

    >>> edutorch.distributions.HalfNormal(1.0).mean
    tensor(0.7979)
    """

    @staticmethod
    def _cdf(z: Tensor) -> Any:
        return (z * math.sqrt(0.5)).erf()

    @staticmethod
    def _icdf(value: Tensor) -> Any:
        return value.erfinv() * math.sqrt(2)

    def __init__(self, scale: TensorLike, validate_args: bool | None = None) -> None:
        base = Normal(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        return self.scale.square() * (1 - 2 / math.pi)


class HalfCauchy(HalfDistribution):
    """The half-Cauchy distribution: |x| of a Cauchy x around 0.

    >>> edutorch.distributions.HalfCauchy(1.0).cdf(tensor(1.0))
    tensor(0.5000)
    """

    @staticmethod
    def _cdf(z: Tensor) -> Any:
        return z.atan() * (2 / math.pi)

    @staticmethod
    def _icdf(value: Tensor) -> Any:
        low = value < 0.5  # above, 1 / tan of the rest is accurate, also at 1
        near = (where(low, value, 0.0) * (math.pi / 2)).tan()
        return where(low, near, 1 / (where(low, 0.5, 1 - value) * (math.pi / 2)).tan())

    def __init__(self, scale: TensorLike, validate_args: bool | None = None) -> None:
        base = Cauchy(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return full_like(self.scale.detach(), math.inf)

    @property
    def variance(self) -> Any:
        return self.base_dist.variance


class Gumbel(TransformedDistribution):
    """The Gumbel (extreme value) distribution: P(X ≤ x) = exp(-exp(-(x - loc) / scale)).

    >>> edutorch.distributions.Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    arg_constraints = LOC_SCALE
    support = constraints.real

    def __init__(
        self, loc: TensorLike, scale: TensorLike, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        info = finfo(self.loc.dtype)
        base = Uniform(
            full_like(self.loc.detach(), info.tiny), full_like(self.loc.detach(), 1 - info.eps),
            validate_args=validate_args,
        )  # fmt: skip
        steps = [
            ExpTransform().inv, AffineTransform(0, -ones_like(self.scale)),
            ExpTransform().inv, AffineTransform(self.loc, -self.scale),
        ]  # fmt: skip
        super().__init__(base, steps, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * EULER

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Any:
        return self.stddev.square()

    def entropy(self) -> Any:
        return self.scale.log() + (1 + EULER)


class Pareto(TransformedDistribution):
    """The Pareto distribution: p(x) = alpha · scale^alpha / x^(alpha + 1) for x ≥ scale.

    >>> edutorch.distributions.Pareto(1.0, 2.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar[Any] = {
        "alpha": constraints.positive,
        "scale": constraints.positive,
    }

    def __init__(
        self, scale: TensorLike, alpha: TensorLike, validate_args: bool | None = None
    ) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        steps = [ExpTransform(), AffineTransform(0, self.scale)]
        super().__init__(base, steps, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Any:
        a = self.alpha.clamp(min=1)
        return self.scale + self.scale / (a - 1)  # at the pole the slope is -∞, not ∞ - ∞

    @property
    def mode(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        a = self.alpha.clamp(min=2)
        excess = (a - 1).reciprocal()  # a / (a - 1)² = excess (1 + excess)
        return self.scale.square() * excess * (1 + excess) / (a - 2)

    def entropy(self) -> Any:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(TransformedDistribution):
    """The Weibull distribution: P(X ≤ x) = 1 - exp(-(x / scale)^concentration).

    >>> edutorch.distributions.Weibull(1.0, 1.0).mean
    tensor(1.)
    """

    arg_constraints: ClassVar[Any] = {
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    support = constraints.positive

    def __init__(
        self, scale: TensorLike, concentration: TensorLike, validate_args: bool | None = None
    ) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(ones_like(self.scale.detach()), validate_args=validate_args)
        steps = [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]
        super().__init__(base, steps, validate_args=validate_args)

    def _moment(self, n: int) -> Any:
        return (1 + n * self.concentration_reciprocal).lgamma().exp()

    @property
    def mean(self) -> Any:
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Any:
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Any:
        return self.scale.square() * (self._moment(2) - self._moment(1).square())

    def entropy(self) -> Any:
        inverse = self.concentration_reciprocal
        return EULER * (1 - inverse) + (self.scale * inverse).log() + 1


class Kumaraswamy(TransformedDistribution):
    """The Kumaraswamy distribution: P(X ≤ x) = 1 - (1 - xᵃ)ᵇ, similar to a Beta.

    >>> edutorch.distributions.Kumaraswamy(1.0, 1.0).mean
    tensor(0.5000)
    """

    arg_constraints: ClassVar[Any] = {
        "concentration1": constraints.positive, "concentration0": constraints.positive
    }  # fmt: skip
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        concentration1: TensorLike,
        concentration0: TensorLike,
        validate_args: bool | None = None,
    ) -> None:
        a, b = self.concentration1, self.concentration0 = broadcast_all(
            concentration1, concentration0
        )
        base = Uniform(zeros_like(b.detach()), ones_like(b.detach()), validate_args=validate_args)
        steps = [
            PowerTransform(b.reciprocal()), AffineTransform(1.0, -1.0),
            PowerTransform(a.reciprocal()),
        ]  # fmt: skip
        super().__init__(base, steps, validate_args=validate_args)

    def _moment(self, n: int) -> Any:
        above, b = 1 + n / self.concentration1, self.concentration0
        return b * (above.lgamma() + b.lgamma() - (above + b).lgamma()).exp()

    @property
    def mean(self) -> Any:
        return self._moment(1)

    @property
    def mode(self) -> Any:
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        return where((a < 1) | (b < 1), math.nan, log_mode).exp()

    @property
    def variance(self) -> Any:
        return self._moment(2) - self.mean.square()

    def entropy(self) -> Any:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + EULER
        return 1 - b.reciprocal() + (1 - a.reciprocal()) * harmonic - a.log() - b.log()


class InverseGamma(TransformedDistribution):
    """The inverse gamma distribution: 1 / x of a gamma x.

    >>> edutorch.distributions.InverseGamma(2.0, 1.0).mean
    tensor(1.)
    """

    arg_constraints: ClassVar[Any] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.positive
    has_rsample = True

    def __init__(
        self, concentration: TensorLike, rate: TensorLike, validate_args: bool | None = None
    ) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        inverse = PowerTransform(-ones_like(base.rate.detach()))
        super().__init__(base, inverse, validate_args=validate_args)

    @property
    def concentration(self) -> Any:
        """The shape of the gamma distribution."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Any:
        """The rate of the gamma distribution."""
        return self.base_dist.rate

    @property
    def mean(self) -> Any:
        a = where(self.concentration > 1, self.concentration, 2)  # without a division by 0
        return where(self.concentration > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Any:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        a = where(self.concentration > 2, self.concentration, 3)
        variance = self.rate.square() / ((a - 1).square() * (a - 2))
        return where(self.concentration > 2, variance, math.inf)

    def entropy(self) -> Any:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
