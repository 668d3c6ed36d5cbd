"""Location-scale distributions: Normal, Laplace, Cauchy and Uniform."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.tensor import Tensor
from ..ops import atan2, full_like, ones_like, where
from ..ops.special import ndtr, ndtri
from . import constraints
from .distribution import Distribution, ExponentialFamily
from .utils import TensorLike, broadcast_all, normal_like, uniform_like

__all__ = ["Cauchy", "Laplace", "Normal", "Uniform"]

LOC_SCALE = {"loc": constraints.real, "scale": constraints.positive}


class Normal(ExponentialFamily):
    """The normal distribution: p(x) = exp(-((x - loc) / scale)² / 2) / (scale √(2π)).

    Args:
        loc: the mean.
        scale: the standard deviation.

    >>> edutorch.distributions.Normal(0.0, 1.0).log_prob(tensor(0.0))
    tensor(-0.9189)
    """

    arg_constraints = LOC_SCALE
    support = constraints.real
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self, loc: TensorLike, scale: TensorLike, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        return self.scale.square()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.loc + normal_like(self.loc, self._extended_shape(sample_shape)) * self.scale

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -z.square() / 2 - self.scale.log() - math.log(2 * math.pi) / 2

    def cdf(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return ndtr((value - self.loc) * self.scale.reciprocal())

    def icdf(self, value: Tensor) -> Any:
        return self.loc + self.scale * ndtri(value)

    def entropy(self) -> Any:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Any, Any]:
        return self.loc / self.variance, -0.5 / self.variance

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Any:
        return -0.25 * x.square() / y + 0.5 * (-math.pi / y).log()


class Laplace(Distribution):
    """The Laplace distribution: p(x) = exp(-|x - loc| / scale) / (2 scale).

    >>> edutorch.distributions.Laplace(0.0, 1.0).log_prob(tensor(1.0))
    tensor(-1.6931)
    """

    arg_constraints = LOC_SCALE
    support = constraints.real
    has_rsample = True

    def __init__(
        self, loc: TensorLike, scale: TensorLike, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return math.sqrt(2) * self.scale

    @property
    def variance(self) -> Any:
        return 2 * self.scale.square()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        uniform = uniform_like(self.loc, self._extended_shape(sample_shape))
        u = uniform - 0.5
        one_minus_2u = where(u < 0, 2 * uniform, (1 - u) * 2 - 1)  # 1 - 2|u|, never 0
        return self.loc - self.scale * u.sign() * one_minus_2u.log()

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        tail = 0.5 * (-z.abs()).exp()
        return where(z < 0, tail, 1 - tail)

    def icdf(self, value: Tensor) -> Any:
        log_tail = (2 * where(value < 0.5, value, 1 - value)).log()
        return self.loc + self.scale * where(value < 0.5, log_tail, -log_tail)

    def entropy(self) -> Any:
        return 1 + (2 * self.scale).log()


class Cauchy(Distribution):
    """The Cauchy distribution: p(x) = 1 / (π scale (1 + z²)) with z = (x - loc) / scale.

    Its mean does not exist.

    >>> edutorch.distributions.Cauchy(0.0, 1.0).cdf(tensor(1.0))
    tensor(0.7500)
    """

    arg_constraints = LOC_SCALE
    support = constraints.real
    has_rsample = True

    def __init__(
        self, loc: TensorLike, scale: TensorLike, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc.detach() * 0 + math.nan

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return full_like(self.loc.detach(), math.inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        angle = math.pi * (uniform_like(self.loc, self._extended_shape(sample_shape)) - 0.5)
        return self.loc + self.scale * angle.tan()

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - z.square().log1p()

    def cdf(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return atan2(ones_like(z), -z) / math.pi  # atan(z) / π + ½ would round the tails

    def icdf(self, value: Tensor) -> Any:
        near = (value - 0.5).abs() < 0.25  # tan is accurate here, 1 / tan beyond
        middle = (math.pi * where(near, value - 0.5, 0.0)).tan()
        side = where(near, 0.25, where(value < 0.5, value, 1 - value))
        tail = 1 / (math.pi * side).tan()
        return self.loc + self.scale * where(near, middle, where(value < 0.5, -tail, tail))

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()


class Uniform(Distribution):
    """The uniform distribution on [low, high): p(x) = 1 / (high - low).

    Raises: ValueError: low is not below high.

    >>> edutorch.distributions.Uniform(0.0, 2.0).log_prob(tensor(1.0))
    tensor(-0.6931)
    """

    has_rsample = True

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {
            "low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)
        }  # fmt: skip

    def __init__(
        self, low: TensorLike, high: TensorLike, validate_args: bool | None = None
    ) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Any:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Any:
        return math.nan * self.high

    @property
    def stddev(self) -> Any:
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Any:
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        u = uniform_like(self.low, self._extended_shape(sample_shape), open_at_0=False)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        inside = (self.low <= value) & (self.high > value)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        return (self.high - self.low).log()
