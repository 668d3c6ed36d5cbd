"""Gamma and related distributions: Chi2, Beta, Dirichlet, StudentT, FisherSnedecor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .. import backends
from ..autograd import Function
from ..autograd.function import once_differentiable
from ..backends.numpy import Array, Namespace
from ..core.tensor import Tensor, wrap
from ..dtypes import finfo
from ..nn.functional import one_hot
from ..ops import exp, stack, tensor, where, xlogy, zeros_like
from ..ops.gamma import LARGE, digamma, igamma, stirling_correction, temme_coefficients
from ..ops.random import host_source
from ..ops.special import power_series
from . import constraints
from .distribution import Distribution, ExponentialFamily
from .utils import TensorLike, broadcast_all, normal_like, uniform_like

__all__ = ["Beta", "Chi2", "Dirichlet", "Exponential", "FisherSnedecor", "Gamma", "StudentT"]


class Exponential(ExponentialFamily):
    """The exponential distribution: p(x) = rate · exp(-rate · x).

    >>> edutorch.distributions.Exponential(2.0).mean
    tensor(0.5000)
    """

    arg_constraints: ClassVar[Any] = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate: TensorLike, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Any:
        return zeros_like(self.rate)

    @property
    def stddev(self) -> Any:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Any:
        return self.rate**-2

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        u = uniform_like(self.rate, self._extended_shape(sample_shape))
        return -u.log() / self.rate

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Any:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Any:
        return 1 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Any]:
        return (-self.rate,)

    def _log_normalizer(self, x: Tensor) -> Any:
        return -(-x).log()


class Gamma(ExponentialFamily):
    """The gamma distribution with the shape a = `concentration`: p(x) ∝ xᵃ⁻¹ exp(-rate · x).

    Samples have gradients by both parameters: see `gamma_sampling.py`.

    >>> edutorch.distributions.Gamma(2.0, 1.0).log_prob(tensor(1.0))
    tensor(-1.)
    """

    arg_constraints: ClassVar[Any] = {
        "concentration": constraints.positive, "rate": constraints.positive
    }  # fmt: skip
    support = constraints.nonnegative
    has_rsample = True

    def __init__(
        self, concentration: TensorLike, rate: TensorLike, validate_args: bool | None = None
    ) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Any:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        log_z = log_gamma_sample(self.concentration, self._extended_shape(sample_shape))
        z = exp(log_z) / self.rate
        tiny = finfo(z.dtype).tiny
        return where(z < tiny, z - z.detach() + tiny, z)  # clamped above 0, with its own gradient

    def log_prob(self, value: Tensor) -> Any:
        value = value if isinstance(value, Tensor) else tensor(value, dtype=self.rate.dtype)
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return xlogy(a, self.rate) + xlogy(a - 1, value) - self.rate * value - a.lgamma()

    def cdf(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return igamma(self.concentration, self.rate * value)

    def entropy(self) -> Any:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()

    @property
    def _natural_params(self) -> tuple[Any, Any]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Any:
        return (x + 1).lgamma() + (x + 1) * (-y.reciprocal()).log()


class Chi2(Gamma):
    """The sum of `df` squared standard normal variables: Gamma(df / 2, 1/2).

    >>> edutorch.distributions.Chi2(3.0).mean
    tensor(3.)
    """

    arg_constraints: ClassVar[Any] = {"df": constraints.positive}

    def __init__(self, df: TensorLike, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Any:
        """The degrees of freedom."""
        return self.concentration * 2


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution: p(x) ∝ Π xᵢ^(aᵢ - 1) over vectors with the sum 1.

    A sample is z / Σz for gamma variables z with the shapes a: the softmax of their logarithms.

    >>> edutorch.distributions.Dirichlet(tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """

    arg_constraints: ClassVar[Any] = {
        "concentration": constraints.independent(constraints.positive, 1)
    }
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Any:
        excess = (self.concentration - 1).clamp(min=0)
        mode = excess / excess.sum(-1, True)
        corners = one_hot(mode.argmax(-1), mode.shape[-1]).to(mode.dtype)
        return where((self.concentration < 1).all(-1).unsqueeze(-1), corners, mode)

    @property
    def variance(self) -> Any:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return log_gamma_sample(self.concentration, self._extended_shape(sample_shape)).softmax(-1)

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return xlogy(a - 1, value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Any:
        a = self.concentration
        k, total = a.shape[-1], a.sum(-1)
        digamma_terms = (k - total) * total.digamma() + ((a - 1) * a.digamma()).sum(-1)
        return a.lgamma().sum(-1) - total.lgamma() - digamma_terms

    @property
    def _natural_params(self) -> tuple[Any]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Any:
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()


class Beta(ExponentialFamily):
    """The beta distribution: p(x) ∝ x^(a - 1) (1 - x)^(b - 1) on [0, 1].

    Args:
        concentration1: the parameter a.
        concentration0: the parameter b.

    >>> edutorch.distributions.Beta(2.0, 1.0).log_prob(tensor(0.5))
    tensor(0.)
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
        both = stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    @property
    def concentration1(self) -> Any:
        """The parameter a."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Any:
        """The parameter b."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Any:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Any:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Any:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self._dirichlet.log_prob(stack([value, 1 - value], -1))

    def entropy(self) -> Any:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Any, Any]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Any:
        return x.lgamma() + y.lgamma() - (x + y).lgamma()


class StudentT(Distribution):
    """Student's t-distribution, shifted by `loc` and scaled by `scale`.

    p(x) ∝ (1 + z² / df)^(-(df + 1) / 2) with z = (x - loc) / scale.

    >>> edutorch.distributions.StudentT(3.0).variance
    tensor(3.)
    """

    arg_constraints: ClassVar[Any] = {
        "df": constraints.positive, "loc": constraints.real, "scale": constraints.positive
    }  # fmt: skip
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        df: TensorLike,
        loc: TensorLike = 0.0,
        scale: TensorLike = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return where(self.df <= 1, math.nan, self.loc)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        wide = where(self.df > 1, math.inf, math.nan).to(self.df.dtype)
        df = where(self.df > 2, self.df, 3)  # without 1 / 0, whose gradient is 0 · ∞
        return where(self.df > 2, self.scale.square() * df / (df - 2), wide)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        x = normal_like(self.df, self._extended_shape(sample_shape))
        return self.loc + self.scale * x * (self._chi2.rsample(sample_shape) / self.df).rsqrt()

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z, df = (value - self.loc) / self.scale, self.df
        log_norm = self.scale.log() + 0.5 * df.log() + 0.5 * math.log(math.pi)
        log_norm = log_norm + (0.5 * df).lgamma() - (0.5 * (df + 1)).lgamma()
        return -0.5 * (df + 1) * (z.square() / df).log1p() - log_norm

    def entropy(self) -> Any:
        half, half_plus = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = half.lgamma() + math.lgamma(0.5) - half_plus.lgamma()
        digamma_difference = half_plus.digamma() - half.digamma()
        return self.scale.log() + half_plus * digamma_difference + 0.5 * self.df.log() + log_beta


class FisherSnedecor(Distribution):
    """The F-distribution: the ratio of two sample variances with df1 and df2 degrees of freedom.

    >>> edutorch.distributions.FisherSnedecor(2.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints: ClassVar[Any] = {
        "df1": constraints.positive,
        "df2": constraints.positive,
    }
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: TensorLike, df2: TensorLike, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        df2 = where(self.df2 <= 2, math.nan, self.df2)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Any:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return where(self.df1 <= 2, math.nan, mode)

    @property
    def variance(self) -> Any:
        df2 = where(self.df2 <= 4, math.nan, self.df2)
        top = 2 * df2.square() * (self.df1 + df2 - 2)
        return top / (self.df1 * (df2 - 2).square() * (df2 - 4))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        quotient = self._gamma1.rsample(sample_shape) / self._gamma2.rsample(sample_shape)
        return quotient.clamp(min=finfo(quotient.dtype).tiny)

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        log_norm = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        log_kernel = half1 * ratio.log() + (half1 - 1) * value.log()
        return log_norm + log_kernel - (half1 + half2) * (ratio * value).log1p()


def draw_log_gamma(alpha: Array, backend: backends.Backend) -> Array:
    """Draw ln z for gamma variables z with the shapes α, on the host, in a device's stream.

    For α ≥ 1, z = d (1 + c x)³ with a normal x is nearly gamma distributed; a rejection step
    corrects it. Below 1: z(α) = z(α + 1) · U^(1/α).
    """
    normal, uniform = (host_source(name, None, backend) for name in ("normal", "uniform"))
    is_small = alpha < 1
    d = np.where(is_small, alpha + 1, alpha) - 1 / 3
    c = 1 / np.sqrt(9 * d)
    log_z, remaining = np.empty(alpha.shape), np.arange(alpha.size)
    while remaining.size:
        x = normal((remaining.size,))
        u = 1 - uniform((remaining.size,))
        v = (1 + c[remaining] * x) ** 3
        log_v = np.log(np.maximum(v, 1e-300))
        accepted = (v > 0) & (np.log(u) < 0.5 * x * x + d[remaining] * (1 - v + log_v))
        log_z[remaining[accepted]] = (np.log(d[remaining]) + log_v)[accepted]
        remaining = remaining[~accepted]
    u = 1 - uniform(alpha.shape)
    return log_z + np.where(is_small, np.log(u) / alpha, 0.0)


def derivative_by_series(xp: Namespace, a: Array, x: Array, log_x: Array) -> Array:
    """d ln z / dα from the power series of P, for x up to about α + 1.

    P = h Σ tₙ with tₙ = xⁿ / ((α+1) … (α+n)), and each h tₙ has the derivative
    h tₙ (ln x - ψ(α + n + 1)).
    """
    psi = digamma.op.forward(xp, a + 1)
    term = xp.ones_like(x)
    total = log_x - psi
    for n in range(1, 65):
        term = term * (x / (a + n))
        psi = psi + 1 / (a + n)
        total = total + term * (log_x - psi)
    return -total / a


def derivative_by_fraction(xp: Namespace, a: Array, x: Array, log_x: Array) -> Array:
    """d ln z / dα from the continued fraction of Q = h α / f and its derivative, for larger x."""
    steps = 80
    f, slope = x + (2 * steps + 1) - a, -xp.ones_like(x)
    for n in range(steps, 0, -1):
        slope = n / f - 1 + n * (n - a) / (f * f) * slope
        f = x + (2 * n - 1) - a - n * (n - a) / f
    share = a / f
    share_derivative = 1 / f - share / f * slope
    return ((log_x - digamma.op.forward(xp, a + 1)) * share + share_derivative) / a


def derivative_by_temme(xp: Namespace, a: Array, x: Array) -> Array:
    """d ln z / dα from Temme's expansion, for a large α and x within α/2 … 2α.

    P = ½ erfc(-η √(α/2)) - E S, E = exp(-α η²/2) / √(2πα), S = Σ Cₖ(η) α⁻ᵏ. With x fixed
    ∂η/∂α = -(μ/η)/α and ∂E/∂α = E (ln(1+μ) - 1/(2α)); the density is E e⁻ˢ α/x, where s is
    Stirling's correction.
    """
    mu = (x - a) / a
    r = mu / (2 + mu)
    odd = [1 / (2 * k + 3) for k in range(18)]
    eta = xp.copysign(xp.sqrt(2 * r * (mu - 2 * r * r * power_series(r * r, odd))), mu)
    flat = xp.abs(mu) < 1e-8
    eta_slope = -xp.where(flat, 1 + eta / 3, mu / xp.where(flat, 1.0, eta)) / a
    correction, by_eta, by_a = xp.zeros_like(a), xp.zeros_like(a), xp.zeros_like(a)
    for k, coefficients in reversed(list(enumerate(temme_coefficients()))):
        value = power_series(eta, coefficients)
        slope = power_series(eta, [n * c for n, c in enumerate(coefficients)][1:])
        correction = correction / a + value
        by_eta = by_eta / a + slope
        by_a = by_a / a - k * value / a
    decay = xp.log1p(mu) - 1 / (2 * a)
    numerator = a * eta_slope + eta / 2 - decay * correction - by_eta * eta_slope - by_a
    return -xp.exp(stirling_correction(a)) * numerator / a


def log_gamma_derivative(xp: Namespace, a: Array, log_z: Array) -> Array:
    """d ln z / dα of a gamma variable z with the shape α, for a fixed uniform variable."""
    x = xp.exp(log_z)
    peak = (a > LARGE) & (x > a / 2) & (x < 2 * a)
    tail = ~peak & (x > 2) & (x > a + 1)
    by_series = derivative_by_series(xp, a, xp.where(peak | tail, 0.5 * a, x), log_z)
    far = xp.where(tail, x, a + 4)
    by_fraction = derivative_by_fraction(xp, a, far, xp.log(far))
    big = xp.where(peak, a, LARGE)
    by_peak = derivative_by_temme(xp, big, xp.where(peak, x, LARGE))
    return xp.where(peak, by_peak, xp.where(tail, by_fraction, by_series))


class LogGammaSample(Function):
    """Draw ln z for gamma variables z, differentiable once by the shape parameter.

    A sample z solves P(α, z) = u for a uniform u, with the distribution function P. With u fixed,
    the derivative of z is

        dz/dα = - (∂P/∂α) / (∂P/∂z)

    (implicit reparameterization). With the formulas of `ops/gamma.py` for P the common factor
    zᵅ e⁻ᶻ / Γ(α + 1) cancels, so no part of the quotient overflows. All is computed for ln z: for
    a small α, z itself would often round to 0.

    Papers: G. Marsaglia and W. W. Tsang, A simple method for generating gamma variables, 2000;
    M. Figurnov, S. Mohamed and A. Mnih, Implicit reparameterization gradients, 2018.
    """

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        backend = backends.of(concentration._array)
        alpha = np.asarray(backend.to_numpy(concentration._array)).astype(np.float64)
        log_z = draw_log_gamma(alpha.reshape(-1), backend).reshape(alpha.shape)
        ctx.save_for_backward(concentration, wrap(backend.from_numpy(log_z)))
        return wrap(backend.from_numpy(log_z.astype(concentration._array.dtype)))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        concentration, log_z = ctx.saved_tensors
        backend = backends.of(log_z._array)
        derivative = log_gamma_derivative(
            backend.xp, concentration._array.astype("float64"), log_z._array
        )
        return grads[0] * wrap(derivative.astype(concentration._array.dtype))


def log_gamma_sample(concentration: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Draw ln z for standard gamma variables z of a given tensor shape; see `LogGammaSample`."""
    return LogGammaSample.apply(concentration.expand(shape))
