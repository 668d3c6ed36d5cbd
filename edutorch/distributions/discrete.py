"""Discrete distributions: Bernoulli, Binomial, Geometric, NegativeBinomial and Poisson."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..core.shapes import Size
from ..core.tensor import Tensor
from ..modes import no_grad
from ..nn.functional import binary_cross_entropy_with_logits, logsigmoid, softplus
from ..ops import arange, bernoulli, binomial, full_like, poisson, where, zeros_like
from . import constraints
from .distribution import Distribution, ExponentialFamily
from .gamma_family import Gamma
from .utils import (
    TensorLike,
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    uniform_like,
)

__all__ = ["Bernoulli", "Binomial", "Geometric", "NegativeBinomial", "Poisson"]


def check_exactly_one(probs: TensorLike | None, logits: TensorLike | None) -> None:
    """Raise ValueError unless exactly one of the two is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class BernoulliBased(Distribution):
    """The base of distributions with one probability: `probs`, or `logits` = log(p / (1 - p))."""

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.unit_interval, "logits": constraints.real
    }  # fmt: skip

    def _set_parameter(
        self, probs: TensorLike | None, logits: TensorLike | None, *others: Any
    ) -> list[Any]:
        """Set `probs` or `logits`, and return the other parameters broadcast with it."""
        check_exactly_one(probs, logits)
        tensors = broadcast_all(*others, probs if logits is None else logits)
        setattr(self, "probs" if logits is None else "logits", tensors[-1])
        return tensors[:-1]

    @lazy_property
    def logits(self) -> Any:
        """The logarithm of p / (1 - p)."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """The probability."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def _param(self) -> Tensor:
        attributes = vars(self)
        return self.probs if "probs" in attributes else self.logits

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._param.size()


class Bernoulli(BernoulliBased, ExponentialFamily):
    """The Bernoulli distribution: log p(x) = x log p + (1 - x) log(1 - p) for x = 0 or 1.

    Args:
        probs: the probability of 1.
        logits: instead, log(p / (1 - p)).

    >>> edutorch.distributions.Bernoulli(0.25).log_prob(tensor(1.0))
    tensor(-1.3863)
    """

    support = constraints.boolean
    has_enumerate_support = True

    def __init__(
        self,
        probs: TensorLike | None = None,
        logits: TensorLike | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set_parameter(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        return where(self.probs == 0.5, math.nan, (self.probs >= 0.5).to(self.probs.dtype))

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with no_grad():
            return bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Any:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Any:
        return enumerate_counts(2, self._param, self.batch_shape, expand)

    @property
    def _natural_params(self) -> tuple[Any]:
        return (self.probs.logit(),)

    def _log_normalizer(self, x: Tensor) -> Any:
        return x.exp().log1p()


def enumerate_counts(
    count: int, like: Tensor, batch_shape: Size, expand: bool, dtype: Any = None
) -> Any:
    """Return the values 0 … count-1 along a new first dimension."""
    values = arange(count, dtype=dtype or like.dtype, device=like.device)
    values = values.reshape((-1, *[1] * len(batch_shape)))
    return values.expand((count, *batch_shape)) if expand else values


class Geometric(BernoulliBased):
    """The number of failures before the first success: p(k) = (1 - p)ᵏ p.

    >>> edutorch.distributions.Geometric(0.5).log_prob(tensor(1.0))
    tensor(-1.3863)
    """

    support = constraints.nonnegative_integer

    def __init__(
        self,
        probs: TensorLike | None = None,
        logits: TensorLike | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set_parameter(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not bool((self.probs > 0).all()):
            value = self.probs
            raise ValueError(
                f"Expected parameter probs ({type(value).__name__} of shape {tuple(value.shape)}) "
                f"of distribution {self!r} to be positive but found invalid values:\n"
                f"{value.detach()[~(value > 0)]}"
            )

    @property
    def mean(self) -> Any:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Any:
        return zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with no_grad():
            u = uniform_like(self.probs, self._extended_shape(sample_shape))
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        is_certain = (probs == 1) & (value == 0)  # 0 · log 0 would be NaN
        return value * (-where(is_certain, 0.0, probs)).log1p() + self.probs.log()

    def entropy(self) -> Any:
        cross_entropy = binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
        return cross_entropy / self.probs


class Poisson(ExponentialFamily):
    """The Poisson distribution with the mean `rate`: p(k) = rateᵏ exp(-rate) / k!.

    >>> edutorch.distributions.Poisson(2.0).log_prob(tensor(0.0))
    tensor(-2.)
    """

    arg_constraints: ClassVar[Any] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: TensorLike, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate

    @property
    def mode(self) -> Any:
        return self.rate.floor()

    @property
    def variance(self) -> Any:
        return self.rate

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with no_grad():
            return poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    def entropy(self) -> Any:
        raise NotImplementedError("the entropy of a Poisson distribution has no closed form")

    @property
    def _natural_params(self) -> tuple[Any]:
        return (self.rate.log(),)

    def _log_normalizer(self, x: Tensor) -> Any:
        return x.exp()


class Binomial(BernoulliBased):
    """The number of successes in `total_count` trials: p(k) = C(n, k) pᵏ (1 - p)ⁿ⁻ᵏ.

    >>> edutorch.distributions.Binomial(2, tensor(0.5)).log_prob(tensor(1.0)).exp()
    tensor(0.5000)
    """

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.nonnegative_integer, **BernoulliBased.arg_constraints
    }  # fmt: skip
    has_enumerate_support = True

    def __init__(
        self, total_count: TensorLike = 1, probs: TensorLike | None = None,
        logits: TensorLike | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        (count,) = self._set_parameter(probs, logits, total_count)
        self.total_count = count.to(self._param.dtype)
        super().__init__(self._param.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        log_coefficient = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        # log(1 - p) = -softplus(logits), without cancellation
        return log_coefficient + value * self.logits - n * softplus(self.logits)

    def entropy(self) -> Any:
        count = int(self.total_count.max())
        if not bool((self.total_count.min() == count).all()):
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        count = int(self.total_count.max())
        if not bool((self.total_count.min() == count).all()):
            raise NotImplementedError(
                "Inhomogeneous total count not supported by `enumerate_support`."
            )
        return enumerate_counts(1 + count, self._param, self.batch_shape, expand)


class NegativeBinomial(BernoulliBased):
    """The number of successes before `total_count` failures; p is the probability of a success.

    p(k) = Γ(r + k) / (Γ(r) k!) (1 - p)ʳ pᵏ

    >>> edutorch.distributions.NegativeBinomial(1, tensor(0.5)).mean
    tensor(1.)
    """

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: TensorLike, probs: TensorLike | None = None,
        logits: TensorLike | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        (count,) = self._set_parameter(probs, logits, total_count)
        self.total_count = count.to(self._param.dtype)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self) -> Any:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Draw from a Poisson distribution with a gamma distributed rate."""
        with no_grad():
            rates = Gamma(self.total_count, (-self.logits).exp(), validate_args=False)
            return poisson(rates.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        r = self.total_count
        log_unnormalized = r * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        log_coefficient = -(r + value).lgamma() + (1 + value).lgamma() + r.lgamma()
        return log_unnormalized - where(
            r + value == 0, full_like(log_coefficient, 0), log_coefficient
        )
