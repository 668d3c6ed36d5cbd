"""Distributions composed of others: Independent, TransformedDistribution, MixtureSameFamily."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..core.shapes import Size
from ..core.tensor import Tensor
from ..modes import no_grad
from . import constraints
from .categorical import Categorical
from .distribution import Distribution
from .transform import ComposeTransform, Transform
from .utils import sum_rightmost

__all__ = ["Independent", "MixtureSameFamily", "TransformedDistribution"]


class Independent(Distribution):
    """Reinterpret the last batch dimensions as event dimensions; log-probabilities are summed.

    Args:
        reinterpreted_batch_ndims: the number of dimensions.

    >>> normal = edutorch.distributions.Normal(zeros(3), ones(3))
    >>> edutorch.distributions.Independent(normal, 1).log_prob(zeros(3))
    tensor(-2.7568)
    """

    arg_constraints: ClassVar[Any] = {}
    base_dist: Any

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        n, batch = reinterpreted_batch_ndims, base_distribution.batch_shape
        if n > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {n} vs {len(batch)}"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, n
        cut = len(batch) - n
        event = (*batch[cut:], *base_distribution.event_shape)
        super().__init__(batch[:cut], event, validate_args=validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:  # type: ignore[override]
        base, n = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(base, n) if n else base

    @property
    def mean(self) -> Any:
        return self.base_dist.mean

    @property
    def mode(self) -> Any:
        return self.base_dist.mode

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Any:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Any:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """y = f(x) for random x: log p(y) = log p(x) - log |dy/dx|.

    Args:
        transforms: one, or a list of them, applied in this order.

    >>> normal = edutorch.distributions.Normal(0.0, 1.0)
    >>> exp_of_it = edutorch.distributions.transforms.ExpTransform()
    >>> edutorch.distributions.TransformedDistribution(normal, exp_of_it).log_prob(tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints: ClassVar[Any] = {}
    base_dist: Any

    def __init__(
        self, base_distribution: Distribution, transforms: Any,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self.transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(self.transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        if not all(isinstance(transform, Transform) for transform in self.transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        shape = Size((*base_distribution.batch_shape, *base_distribution.event_shape))
        composed, dim = ComposeTransform(self.transforms), len(base_distribution.event_shape)
        if len(shape) < composed.domain.event_dim:
            raise ValueError(
                "base_distribution needs to have shape with size at least "
                f"{composed.domain.event_dim}, but got {shape}."
            )
        after = composed.forward_shape(shape)
        before = composed.inverse_shape(after)
        if shape != before:  # parameters of the transforms have a larger shape
            base_distribution = base_distribution.expand(before[: len(before) - dim])
        extra_dims = composed.domain.event_dim - dim
        if extra_dims > 0:
            base_distribution = Independent(base_distribution, extra_dims)
        self.base_dist = base_distribution
        dim_change = composed.codomain.event_dim - composed.domain.event_dim
        cut = len(after) - max(composed.codomain.event_dim, dim + dim_change)
        super().__init__(after[:cut], after[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Any:
        new = self._get_checked_instance(type(self), _instance)
        vars(new).update(vars(self))
        shape: Any = Size((*batch_shape, *self.event_shape))
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        for name, value in vars(self).items():  # parameters that a subclass sets
            if isinstance(value, Tensor):
                setattr(new, name, value.expand(batch_shape))
        new._batch_shape = Size(batch_shape)
        return new

    def _codomain(self) -> Any:
        """The codomain of the last transform."""
        if not self.transforms:
            return self.base_dist.support
        codomain = self.transforms[-1].codomain
        missing = len(self.event_shape) - codomain.event_dim
        return constraints.independent(codomain, missing) if missing > 0 else codomain

    support: Any = constraints.dependent_property(_codomain, is_discrete=False)
    has_rsample: Any = property(lambda self: self.base_dist.has_rsample)

    def _forward(self, x: Tensor) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        dim, total, y = len(self.event_shape), 0.0, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            dim += transform.domain.event_dim - transform.codomain.event_dim
            log_det = transform.log_abs_det_jacobian(x, y)
            total = total - sum_rightmost(log_det, dim - transform.domain.event_dim)
            y = x
        base = self.base_dist
        return total + sum_rightmost(base.log_prob(y), dim - len(base.event_shape))

    def _orient(self, value: Tensor) -> Any:
        """Return 1 - value where the transforms are decreasing."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Any:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._orient(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Any:
        return self._forward(self.base_dist.icdf(self._orient(value)))


class MixtureSameFamily(Distribution):
    """A mixture of distributions of one family: p(x) = Σ πₖ pₖ(x).

    Args:
        mixture_distribution: a `Categorical` with the probabilities πₖ.
        component_distribution: the distributions pₖ, along its last batch dimension.

    >>> choice = edutorch.distributions.Categorical(tensor([0.5, 0.5]))
    >>> normals = edutorch.distributions.Normal(tensor([-1.0, 1.0]), tensor([1.0, 1.0]))
    >>> edutorch.distributions.MixtureSameFamily(choice, normals).mean
    tensor(0.)
    """

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        mixture, components = mixture_distribution, component_distribution
        if not isinstance(mixture, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an "
                " instance of torch.distributions.Categorical"
            )
        if not isinstance(components, Distribution):
            raise ValueError(
                "The Component distribution needs to be an "
                "instance of torch.distributions.Distribution"
            )
        self._mixture_distribution, self._component_distribution = mixture, components
        batch, mixture_batch = components.batch_shape[:-1], mixture.batch_shape
        for one, other in zip(reversed(mixture_batch), reversed(batch), strict=False):
            if one != 1 and other != 1 and one != other:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixture_batch}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch})"
                )
        count, other = mixture.param_shape[-1], components.batch_shape[-1]
        if count != other:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({other})"
            )
        self._num_component, self._event_ndims = count, len(components.event_shape)
        super().__init__(batch, components.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Any:
        new = self._get_checked_instance(type(self), _instance)
        vars(new).update(vars(self))
        components = (*batch_shape, self._num_component)
        new._component_distribution = self._component_distribution.expand(components)
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._batch_shape = Size(batch_shape)
        return new

    @constraints.dependent_property
    def support(self) -> Any:  # type: ignore[override]
        return constraints.mixture_same_family(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        """The distribution of the component index."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The distributions of the components."""
        return self._component_distribution

    def _mixture_probs(self) -> Any:
        """The probabilities of the components, in a shape that broadcasts with their values."""
        probs = self._mixture_distribution.probs
        return probs.reshape((*probs.shape, *[1] * self._event_ndims))

    @property
    def mean(self) -> Any:
        return (self._mixture_probs() * self._component_distribution.mean).sum(
            -1 - self._event_ndims
        )

    @property
    def variance(self) -> Any:
        """The mean variance of the components plus the variance of their means."""
        parts, dim = self._component_distribution, -1 - self._event_ndims
        inside = (self._mixture_probs() * parts.variance).sum(dim)
        between = (parts.mean - self.mean.unsqueeze(dim)).square()
        return inside + (self._mixture_probs() * between).sum(dim)

    def cdf(self, value: Tensor) -> Any:
        below = self._component_distribution.cdf(value.unsqueeze(-1 - self._event_ndims))
        return (below * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        inside = self._component_distribution.log_prob(value.unsqueeze(-1 - self._event_ndims))
        return (inside + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with no_grad():
            dim = len(sample_shape) + len(self.batch_shape)
            component = self._mixture_distribution.expand(self.batch_shape).sample(sample_shape)
            samples = self._component_distribution.sample(sample_shape)
            index = component.reshape((*component.shape, *[1] * (self._event_ndims + 1)))
            index = index.expand((*component.shape, 1, *self.event_shape))
            return samples.gather(dim, index).squeeze(dim)

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
        )
