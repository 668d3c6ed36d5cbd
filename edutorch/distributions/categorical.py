"""Categorical distributions: class indices, one-hot vectors, and multinomial counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.shapes import Size
from ..core.tensor import Tensor
from ..dtypes import finfo, int64
from ..modes import no_grad
from ..nn.functional import one_hot
from ..ops import broadcast_tensors, eye, full_like, multinomial, where
from . import constraints
from .discrete import Binomial, check_exactly_one, enumerate_counts
from .distribution import Distribution
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits

__all__ = ["Categorical", "Multinomial", "OneHotCategorical", "OneHotCategoricalStraightThrough"]

CATEGORICAL_CONSTRAINTS = {"probs": constraints.simplex, "logits": constraints.real_vector}


class Categorical(Distribution):
    """The categorical distribution over the integers 0 … n-1.

    Args:
        probs: the probabilities along the last dimension; normalized to the sum 1.
        logits: instead, the logarithms of the probabilities up to a constant.

    >>> edutorch.distributions.Categorical(tensor([1.0, 3.0])).log_prob(tensor(1)).exp()
    tensor(0.7500)
    """

    arg_constraints = CATEGORICAL_CONSTRAINTS
    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        check_exactly_one(probs, logits)
        name, parameter = ("probs", probs) if logits is None else ("logits", logits)
        assert parameter is not None
        if parameter.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if logits is None:
            self.probs = parameter / parameter.sum(-1, keepdim=True)
        else:
            self.logits = parameter - parameter.logsumexp(-1, keepdim=True)
        self._num_events = parameter.shape[-1]
        super().__init__(parameter.shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Any:
        """The logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Any:
        """The probabilities."""
        return logits_to_probs(self.logits)

    @property
    def _param(self) -> Tensor:
        attributes = vars(self)
        return self.probs if "probs" in attributes else self.logits

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._param.size()

    @property
    def mean(self) -> Any:
        return full_like(self.probs[..., 0].detach(), math.nan)

    @property
    def mode(self) -> Any:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Any:
        return self.mean

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        sample_shape = Size(sample_shape)
        with no_grad():
            rows = self.probs.reshape((-1, self._num_events))
            samples = multinomial(rows, sample_shape.numel(), True).T
            return samples.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        value, log_probs = broadcast_tensors(value.to(int64).unsqueeze(-1), self.logits)
        return log_probs.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Any:
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        return enumerate_counts(self._num_events, self._param, self.batch_shape, expand, int64)


class CategoricalBased(Distribution):
    """The base of distributions that wrap a `Categorical`."""

    _categorical: Categorical

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._categorical.param_shape


class OneHotCategorical(CategoricalBased):
    """A one-hot vector with a `Categorical` index.

    >>> edutorch.distributions.OneHotCategorical(tensor([0.0, 1.0])).sample()
    tensor([0., 1.])
    """

    arg_constraints = CATEGORICAL_CONSTRAINTS
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        return one_hot(self.probs.argmax(-1), self.probs.shape[-1]).to(self.probs.dtype)

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        indices = self._categorical.sample(sample_shape)
        return one_hot(indices, self.event_shape[0]).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        n, batch = self.event_shape[0], self.batch_shape
        values = eye(n, dtype=self.probs.dtype, device=self.probs.device)
        values = values.reshape((n, *[1] * len(batch), n))
        return values.expand((n, *batch, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` with the straight-through gradient: that of the probabilities.

    Paper: Bengio, Léonard and Courville, Estimating or propagating gradients through stochastic
    neurons for conditional computation, 2013.

    >>> edutorch.distributions.OneHotCategoricalStraightThrough(tensor([0.0, 1.0])).rsample()
    tensor([0., 1.])
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(CategoricalBased):
    """The counts of each class in `total_count` draws.

    p(k) = n! Π pᵢ^kᵢ / kᵢ!

    >>> edutorch.distributions.Multinomial(4, tensor([0.25, 0.75])).mean
    tensor([1., 3.])
    """

    arg_constraints = CATEGORICAL_CONSTRAINTS

    def __init__(
        self, total_count: int = 1, probs: Tensor | None = None, logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        self._binomial = Binomial(total_count, probs=self.probs)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.multinomial(self.total_count)

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Any:
        new = self._get_checked_instance(type(self), _instance)
        n = self.event_shape[0]
        vars(new).update(vars(self))
        new._categorical = self._categorical.expand(batch_shape)
        new._binomial = self._binomial.expand((*batch_shape, n))
        new._batch_shape = Size(batch_shape)
        return new

    @property
    def mean(self) -> Any:
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        indices = self._categorical.sample((self.total_count, *sample_shape))
        return one_hot(indices, self.event_shape[0]).sum(0).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = where((value == 0) & (logits == -math.inf), 0.0, logits)
        log_coefficient = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        result = log_coefficient + (logits * value).sum(-1)
        if self._validate_args:
            return result
        is_count = ((value == value.floor()).all(-1)) & (value.sum(-1) == self.total_count)
        return where(is_count, result, -math.inf)

    def entropy(self) -> Any:
        n = self.total_count
        n_factorial = math.lgamma(n + 1)
        counts = self._binomial.enumerate_support(expand=False)[1:]
        weights = self._binomial.log_prob(counts).exp()
        repeated = (weights * (counts + 1).lgamma()).sum((0, -1))
        return n * self._categorical.entropy() - n_factorial + repeated
