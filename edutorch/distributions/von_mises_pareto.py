"""The von Mises and the generalized Pareto distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..core.tensor import Tensor
from ..dtypes import float64
from ..modes import no_grad
from ..ops import isclose, ones_like, rand, where, zeros_like
from ..special import i0e, i1e
from . import constraints
from .distribution import Distribution
from .utils import TensorLike, broadcast_all, uniform_like

__all__ = ["GeneralizedPareto", "VonMises"]


class VonMises(Distribution):
    """The von Mises distribution of angles: p(x) = exp(k cos(x - loc)) / (2π I₀(k)).

    Paper: D. J. Best and N. I. Fisher, Efficient simulation of the von Mises distribution, 1979.

    >>> edutorch.distributions.VonMises(0.0, 1.0).log_prob(tensor(0.0))
    tensor(-1.0738)
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real,
        "concentration": constraints.positive,
    }
    support = constraints.real

    def __init__(
        self, loc: TensorLike, concentration: TensorLike, validate_args: bool | None = None
    ) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        """The circular variance 1 - I₁(k) / I₀(k)."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        k = self.concentration
        log_bessel = i0e(k).log() + k
        return k * (value - self.loc).cos() - math.log(2 * math.pi) - log_bessel

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Draw by rejection from a wrapped Cauchy distribution."""
        with no_grad():
            loc, k = self.loc.to(float64), self.concentration.to(float64)
            tau = 1 + (1 + 4 * k.square()).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            r = where(k < 1e-5, 1 / k + k, (1 + rho.square()) / (2 * rho))
            x = zeros_like(loc).expand(self._extended_shape(sample_shape))
            done = x != 0
            while not bool(done.all()):
                u1, u2, u3 = rand((3, *x.shape), dtype=float64, device=x.device).unbind()
                z = (math.pi * u1).cos()
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                accepted = (c * (2 - c) > u2) | ((c / u2).log() + 1 - c >= 0)
                x = where(accepted & ~done, (u3 - 0.5).sign() * f.clamp(-1, 1).acos(), x)
                done = done | accepted
            wrapped = (x + math.pi + loc) % (2 * math.pi) - math.pi
            return wrapped.to(self.loc.dtype)


class GeneralizedPareto(Distribution):
    """The generalized Pareto distribution: P(X > x) = (1 + c (x - loc) / scale)^(-1/c).

    For a concentration c of 0 it is exponential.

    >>> edutorch.distributions.GeneralizedPareto(0.0, 1.0, 0.0).log_prob(tensor(1.0))
    tensor(-1.)
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real
    }  # fmt: skip
    has_rsample = True

    def __init__(
        self,
        loc: TensorLike,
        scale: TensorLike,
        concentration: TensorLike,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        ends = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, where(self.concentration < 0, ends, math.inf))

    def _split_zero(self) -> tuple[Any, Any]:
        """Return a mask of c = 0, and c with 1 in these positions."""
        is_zero = isclose(self.concentration, zeros_like(self.concentration))
        return is_zero, where(is_zero, ones_like(self.concentration), self.concentration)

    @property
    def mean(self) -> Any:
        valid = self.concentration < 1
        c = where(valid, self.concentration, 0.5)
        return where(valid, self.loc + self.scale / (1 - c), math.nan)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        valid = self.concentration < 0.5
        c = where(valid, self.concentration, 0.25)
        variance = self.scale.square() / ((1 - c).square() * (1 - 2 * c))
        return where(valid, variance, math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(uniform_like(self.loc, shape, open_at_0=False))

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z, (is_zero, c) = (value - self.loc) / self.scale, self._split_zero()
        power = 1 / c + 1 + zeros_like(z)
        log_kernel = where(power == 0, power, power * (c * z).log1p())
        return -self.scale.log() - where(is_zero, z, log_kernel)

    def log_survival_function(self, value: Tensor) -> Any:
        """Return log P(X > value)."""
        if self._validate_args:
            self._validate_sample(value)
        z, (is_zero, c) = (value - self.loc) / self.scale, self._split_zero()
        return where(is_zero, -z, -(c * z).log1p() / c)

    def log_cdf(self, value: Tensor) -> Any:
        """Return log P(X ≤ value)."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Any:
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Any:
        is_zero, c = self._split_zero()
        log_u = (-value).log1p()
        curve = self.loc + self.scale / c * (-c * log_u).expm1()
        return where(is_zero, self.loc - self.scale * log_u, curve)

    def entropy(self) -> Any:
        return self.scale.log() + self.concentration + 1
