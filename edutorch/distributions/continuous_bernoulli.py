"""The continuous Bernoulli distribution: values in [0, 1] with an exponential density.

With the logit t = log(λ / (1 - λ)) the density is p(x) ∝ eᵗˣ. All its quantities are composed of
three functions of t that are smooth at 0, although their formulas are 0 / 0 there and cancel
nearby: (eᵗ - 1) / t, log(1 + z) / z, and the Langevin function L(x) = coth x - 1 / x. Near 0 each
is computed as a power series, so that derivatives are accurate, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.tensor import Tensor
from ..dtypes import finfo
from ..nn.functional import binary_cross_entropy_with_logits, logsigmoid
from ..ops import clamp, ones_like, where
from . import constraints
from .discrete import BernoulliBased, check_exactly_one
from .distribution import ExponentialFamily
from .utils import TensorLike, broadcast_all, clamp_probs, lazy_property, uniform_like

__all__ = ["ContinuousBernoulli"]

SERIES_TERMS = 20
"""Enough for float64: each term of a series is at most a tenth of the one before."""


class ContinuousBernoulli(BernoulliBased, ExponentialFamily):
    """The distribution on [0, 1] with the density p(x) ∝ λˣ (1 - λ)¹⁻ˣ.

    PyTorch is inaccurate near λ = 1/2 (its float32 variance at 0.5011 is 0.246, not 0.083), and its
    `cdf`, `icdf` and `rsample` have no gradient by λ between `lims`. The formulas here have neither
    problem.

    Args:
        probs: the parameter λ, which is not the mean.
        logits: instead, log(λ / (1 - λ)).
        lims: for compatibility with PyTorch; no formula here uses it.

    Paper: G. Loaiza-Ganem and J. P. Cunningham, The continuous Bernoulli, 2019.

    >>> edutorch.distributions.ContinuousBernoulli(0.5).mean
    tensor(0.5000)
    """

    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, probs: TensorLike | None = None, logits: TensorLike | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        check_exactly_one(probs, logits)
        self._set_parameter(probs, logits)
        if probs is not None:
            if validate_args and not bool(constraints.unit_interval.check(self.probs).all()):
                raise ValueError("The parameter probs has invalid values")
            vars(self)["probs"] = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(self._param.shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Any:  # type: ignore[override]
        """The parameter λ, not the mean."""
        return clamp_probs(self.logits.sigmoid())

    def _logit(self) -> Any:
        """The logit of the clamped `probs`, in float32 for 16-bit parameters."""
        logits = self.logits
        limit = -math.log(finfo(logits.dtype).eps)
        return clamp(logits, -limit, limit)

    def _cont_bern_log_norm(self) -> Any:
        half = self._logit() / 2
        return math.log(2) + (half.square() * langevin_ratio(half)).log1p()

    @property
    def mean(self) -> Any:
        logit = self._logit()
        return 0.5 + logit / 4 * langevin_ratio(logit / 2)

    @property
    def variance(self) -> Any:
        return langevin_slope(self._logit() / 2) / 4

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(uniform_like(self.probs, shape, open_at_0=False))

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        cross_entropy = binary_cross_entropy_with_logits(logits, value, reduction="none")
        return -cross_entropy + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Any:
        """(eᵗˣ - 1) / (eᵗ - 1)."""
        if self._validate_args:
            self._validate_sample(value)
        logit, value = broadcast_all(self._logit(), value)
        is_inside = (value > 0) & (value < 1)
        x = where(is_inside, value, 0.5)
        inside = x * expm1_ratio(logit * x) / expm1_ratio(logit)
        return where(is_inside, inside, where(value >= 1, 1.0, 0.0))

    def icdf(self, value: Tensor) -> Any:
        """log(1 + u (eᵗ - 1)) / t; mirrored for t < 0 and u > ½, for accuracy."""
        logit, value = broadcast_all(self._logit(), value)
        is_valid = (value >= 0) & (value <= 1)
        value = where(is_valid, value, 0.5)
        is_mirrored = (logit < 0) & (value > 0.5)
        logit, u = where(is_mirrored, -logit, logit), where(is_mirrored, 1 - value, value)
        is_small = logit.abs() < 0.5
        small = where(is_small, logit, 0.25)
        ratio = expm1_ratio(small)
        near = u * ratio * log1p_ratio(u * small * ratio)
        large = where(is_small, ones_like(logit), logit)
        y = where(is_small, near, (u * large.expm1()).log1p() / large)
        y = where(is_mirrored, 1 - y, y)
        rounding = (y - y.clamp(0, 1)).detach()  # a clamp would have no gradient
        return where(is_valid, y - rounding, math.nan)

    def entropy(self) -> Any:
        logit = self._logit()
        return -logit * self.mean - self._cont_bern_log_norm() - logsigmoid(-logit)


# Functions that are 0 / 0 at 0 -----------------------------------------------------------


def horner(coefficients: Sequence[float], x: Tensor) -> Any:
    """Return c₀ + c₁ x + c₂ x² + …."""
    y = coefficients[-1] * x
    for coefficient in coefficients[-2:0:-1]:
        y = (y + coefficient) * x
    return y + coefficients[0]


def langevin_series() -> list[float]:
    """Return the coefficients of L(x) / x in powers of x², from L' = 1 - L² - 2 L / x."""
    series: list[float] = []
    for n in range(SERIES_TERMS):
        products = sum(series[i] * series[n - 1 - i] for i in range(n))
        series.append(((n == 0) - products) / (2 * n + 3))
    return series


LANGEVIN = langevin_series()
LANGEVIN_SLOPE = [(2 * n + 1) * coefficient for n, coefficient in enumerate(LANGEVIN)]
EXPM1 = [1 / math.factorial(n + 1) for n in range(SERIES_TERMS)]
ATANH = [1 / (2 * n + 1) for n in range(SERIES_TERMS)]


def langevin_ratio(x: Tensor) -> Any:
    """Return (coth x - 1 / x) / x, which is 1/3 at 0."""
    is_small = x.abs() < 1
    small, large = where(is_small, x, 0.5), where(is_small, ones_like(x), x)
    return where(is_small, horner(LANGEVIN, small.square()), (1 / large.tanh() - 1 / large) / large)


def langevin_slope(x: Tensor) -> Any:
    """Return the derivative of coth x - 1 / x, which is 1 / x² - 1 / sinh² x."""
    is_small = x.abs() < 1
    small, large = where(is_small, x, 0.5), where(is_small, ones_like(x), x)
    far = 1 / large.square() - 1 / large.sinh().square()
    return where(is_small, horner(LANGEVIN_SLOPE, small.square()), far)


def expm1_ratio(x: Tensor) -> Any:
    """Return (eˣ - 1) / x, which is 1 at 0."""
    is_small = x.abs() < 0.5
    small, large = where(is_small, x, 0.25), where(is_small, ones_like(x), x)
    return where(is_small, horner(EXPM1, small), large.expm1() / large)


def log1p_ratio(z: Tensor) -> Any:
    """Return log(1 + z) / z for z between -0.4 and 0.7: 2 atanh(z / (2 + z)) / z."""
    return 2 / (2 + z) * horner(ATANH, (z / (2 + z)).square())
