"""Continuous relaxations of Bernoulli and categorical distributions (Gumbel-softmax).

Samples have gradients; the lower the temperature, the closer they are to discrete values.

Papers: C. J. Maddison, A. Mnih and Y. W. Teh, The concrete distribution, 2017;
E. Jang, S. Gu and B. Poole, Categorical reparameterization with Gumbel-softmax, 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.shapes import Size
from ..core.tensor import Tensor
from ..ops import full_like, tensor
from . import constraints
from .categorical import CATEGORICAL_CONSTRAINTS, Categorical, CategoricalBased
from .discrete import BernoulliBased
from .distribution import Distribution
from .independent_mixture import TransformedDistribution
from .transforms import ExpTransform, SigmoidTransform
from .utils import TensorLike, broadcast_all, clamp_probs, uniform_like

__all__ = [
    "ExpRelaxedCategorical", "LogitRelaxedBernoulli", "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
]  # fmt: skip


def as_temperature(value: TensorLike) -> Tensor:
    """Return the temperature as a tensor."""
    return value if isinstance(value, Tensor) else tensor(float(value))


class LogitRelaxedBernoulli(BernoulliBased):
    """The logit of a `RelaxedBernoulli`: (logits + logistic noise) / temperature.

    >>> edutorch.distributions.LogitRelaxedBernoulli(tensor(1.0), 0.5).log_prob(tensor(0.0))
    tensor(-1.3863)
    """

    support = constraints.real
    has_rsample = True

    def __init__(
        self, temperature: TensorLike, probs: TensorLike | None = None,
        logits: TensorLike | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self.temperature = as_temperature(temperature)
        self._set_parameter(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Any:
        new = self._get_checked_instance(type(self), _instance)
        vars(new).update(vars(self))  # the temperature is not expanded
        name = "probs" if "probs" in vars(self) else "logits"
        setattr(new, name, self._param.expand(batch_shape))
        vars(new).pop("logits" if name == "probs" else "probs", None)
        new._batch_shape = Size(batch_shape)
        return new

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        probs = clamp_probs(self.probs.expand(self._extended_shape(sample_shape)))
        u = clamp_probs(uniform_like(probs, probs.shape))
        noise = u.log() - (-u).log1p()
        return (noise + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value * self.temperature
        return self.temperature.log() + difference - 2 * difference.exp().log1p()


class RelaxedDistribution(TransformedDistribution):
    """The base of relaxed distributions, with the parameters of the base distribution."""

    has_rsample = True

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        """The logits."""
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self.base_dist.probs


class RelaxedBernoulli(RelaxedDistribution):
    """The relaxed Bernoulli distribution on (0, 1), near 0 and 1 for a low temperature.

    >>> edutorch.distributions.RelaxedBernoulli(tensor(1.0), 0.5).log_prob(tensor(0.5))
    tensor(0.)
    """

    arg_constraints = BernoulliBased.arg_constraints
    support = constraints.unit_interval

    def __init__(
        self, temperature: TensorLike, probs: TensorLike | None = None,
        logits: TensorLike | None = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)


class ExpRelaxedCategorical(CategoricalBased):
    """The logarithm of a `RelaxedOneHotCategorical`.

    >>> edutorch.distributions.ExpRelaxedCategorical(tensor(1.0), tensor([0.5, 0.5])).event_shape
    torch.Size([2])
    """

    arg_constraints = CATEGORICAL_CONSTRAINTS
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, temperature: TensorLike, probs: Tensor | None = None,
        logits: Tensor | None = None, validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._categorical = Categorical(probs, logits)
        self.temperature = as_temperature(temperature)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Any:
        new = self._get_checked_instance(type(self), _instance)
        vars(new).update(vars(self))
        new._categorical = self._categorical.expand(batch_shape)
        new._batch_shape = Size(batch_shape)
        return new

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        u = clamp_probs(uniform_like(self.logits, self._extended_shape(sample_shape)))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        count = self.event_shape[0]
        logits, value = broadcast_all(self.logits, value)
        log_norm = full_like(self.temperature, float(count)).lgamma()
        log_norm = log_norm + (count - 1) * self.temperature.log()
        score = logits - value * self.temperature
        return (score - score.logsumexp(-1, keepdim=True)).sum(-1) + log_norm


class RelaxedOneHotCategorical(RelaxedDistribution):
    """The relaxed one-hot categorical distribution on the simplex: the Gumbel-softmax.

    >>> edutorch.distributions.RelaxedOneHotCategorical(tensor(1.0), ones(3)).sample().shape
    torch.Size([3])
    """

    arg_constraints = CATEGORICAL_CONSTRAINTS
    support = constraints.simplex

    def __init__(
        self, temperature: TensorLike, probs: Tensor | None = None,
        logits: Tensor | None = None, validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
