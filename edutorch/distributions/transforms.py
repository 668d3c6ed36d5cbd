"""Transforms of random variables: elementwise ones, and separate ones for parts of a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.shapes import broadcast_shapes
from ..dtypes import finfo
from ..nn.functional import softplus
from ..ops import cat, stack
from . import constraints
from .matrix_transforms import (
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SoftmaxTransform,
    StickBreakingTransform,
)  # fmt: skip
from .transform import (
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    Transform,
    log_abs_scale,
)  # fmt: skip

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform",
    "LowerCholeskyTransform", "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform",
    "StickBreakingTransform", "TanhTransform", "Transform", "identity_transform",
]  # fmt: skip

identity_transform = ComposeTransform([])


class ExpTransform(Transform):
    """y = exp(x); log dy/dx = x.

    >>> edutorch.distributions.transforms.ExpTransform()(tensor(0.0))
    tensor(1.)
    """

    domain, codomain = constraints.real, constraints.positive
    bijective, sign = True, +1

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class PowerTransform(Transform):
    """y = x^exponent for positive x; dy/dx = exponent · y / x.

    >>> edutorch.distributions.transforms.PowerTransform(2.0)(tensor(3.0))
    tensor(9.)
    """

    domain, codomain = constraints.positive, constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent

    @property
    def sign(self) -> Any:
        exponent = self.exponent
        return exponent.sign() if hasattr(exponent, "sign") else math.copysign(1, exponent)

    def _call(self, x: Any) -> Any:
        return x**self.exponent

    def _inverse(self, y: Any) -> Any:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return broadcast_shapes(shape, getattr(self.exponent, "shape", ()))

    inverse_shape = forward_shape


class SigmoidTransform(Transform):
    """y = 1 / (1 + exp(-x)); log dy/dx = -softplus(-x) - softplus(x).

    >>> edutorch.distributions.transforms.SigmoidTransform()(tensor(0.0))
    tensor(0.5000)
    """

    domain, codomain = constraints.real, constraints.unit_interval
    bijective, sign = True, +1

    def _call(self, x: Any) -> Any:
        info = finfo(x.dtype)
        return x.sigmoid().clamp(min=info.tiny, max=1 - info.eps)

    def _inverse(self, y: Any) -> Any:
        info = finfo(y.dtype)
        y = y.clamp(min=info.tiny, max=1 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(Transform):
    """y = log(1 + exp(x)); log dy/dx = -softplus(-x).

    >>> edutorch.distributions.transforms.SoftplusTransform()(tensor(0.0))
    tensor(0.6931)
    """

    domain, codomain = constraints.real, constraints.positive
    bijective, sign = True, +1

    def _call(self, x: Any) -> Any:
        return softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x)


class TanhTransform(Transform):
    """y = tanh(x); log dy/dx = 2 (log 2 - x - softplus(-2x)), which is never log 0.

    >>> edutorch.distributions.transforms.TanhTransform()(tensor(0.0))
    tensor(0.)
    """

    domain, codomain = constraints.real, constraints.interval(-1.0, 1.0)
    bijective, sign = True, +1

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return 2 * (math.log(2) - x - softplus(-2 * x))


class AbsTransform(Transform):
    """y = |x|, which is not bijective: the inverse returns y.

    >>> edutorch.distributions.transforms.AbsTransform()(tensor(-2.0))
    tensor(2.)
    """

    domain, codomain = constraints.real, constraints.positive

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class AffineTransform(Transform):
    """y = loc + scale · x.

    Args:
        event_dim: the number of trailing dimensions of one value.

    >>> edutorch.distributions.transforms.AffineTransform(1.0, 2.0)(tensor(3.0))
    tensor(7.)
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        """The number of trailing dimensions of one value."""
        return self._event_dim

    @property
    def domain(self) -> Any:
        n = self._event_dim
        return constraints.independent(constraints.real, n) if n else constraints.real

    codomain = domain

    @property
    def sign(self) -> Any:
        if hasattr(self.scale, "sign"):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        log_det = log_abs_scale(self.scale, x)
        n = self._event_dim
        return log_det.reshape((*log_det.shape[: log_det.dim() - n], -1)).sum(-1) if n else log_det

    def forward_shape(self, shape: Any) -> Any:
        shapes = (getattr(setting, "shape", ()) for setting in (self.loc, self.scale))
        return broadcast_shapes(shape, *shapes)

    inverse_shape = forward_shape


class CatTransform(Transform):
    """Separate transforms for the parts of a tensor along a dimension.

    Args:
        lengths: the lengths of the parts.

    >>> parts = edutorch.distributions.transforms
    >>> both = parts.CatTransform([parts.ExpTransform(), parts.AbsTransform()])
    >>> both(tensor([0.0, -2.0]))
    tensor([1., 2.])
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(cache_size)
        self.transforms = [transform.with_cache(cache_size) for transform in tseq]
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        self.dim = dim

    @property
    def event_dim(self) -> int:
        """The number of trailing dimensions of one value."""
        return max(transform.domain.event_dim for transform in self.transforms)

    @property
    def length(self) -> int:
        """The total length of the parts."""
        return sum(self.lengths)

    def _parts(self, x: Any) -> Any:
        return zip(self.transforms, x.split(self.lengths, self.dim), strict=True)

    def _call(self, x: Any) -> Any:
        return cat([transform(part) for transform, part in self._parts(x)], self.dim)

    def _inverse(self, y: Any) -> Any:
        return cat([transform.inv(part) for transform, part in self._parts(y)], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        ys = y.split(self.lengths, self.dim)
        log_dets = []
        for (transform, part), y_part in zip(self._parts(x), ys, strict=True):
            log_det = transform.log_abs_det_jacobian(part, y_part)
            extra = self.event_dim - transform.domain.event_dim
            shape = (*log_det.shape[: log_det.dim() - extra], -1)
            log_dets.append(log_det.reshape(shape).sum(-1) if extra else log_det)
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        if dim + self.event_dim < 0:
            return cat(log_dets, dim + self.event_dim)
        return stack(log_dets).sum(0)

    @property
    def bijective(self) -> bool:
        return all(transform.bijective for transform in self.transforms)

    @property
    def domain(self) -> Any:
        return constraints.cat(
            [transform.domain for transform in self.transforms], self.dim, self.lengths
        )

    @property
    def codomain(self) -> Any:
        return constraints.cat(
            [transform.codomain for transform in self.transforms], self.dim, self.lengths
        )


class StackTransform(Transform):
    """Separate transforms for the slices of a tensor along a dimension.

    >>> parts = edutorch.distributions.transforms
    >>> both = parts.StackTransform([parts.ExpTransform(), parts.AbsTransform()], dim=1)
    >>> both(tensor([[0.0, -2.0]]))
    tensor([[1., 2.]])
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms = [transform.with_cache(cache_size) for transform in tseq]
        self.dim = dim

    def _slices(self, x: Any) -> Any:
        return zip(self.transforms, x.unbind(self.dim), strict=True)

    def _call(self, x: Any) -> Any:
        return stack([transform(part) for transform, part in self._slices(x)], self.dim)

    def _inverse(self, y: Any) -> Any:
        return stack([transform.inv(part) for transform, part in self._slices(y)], self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        pairs = zip(self._slices(x), y.unbind(self.dim), strict=True)
        log_dets = [
            transform.log_abs_det_jacobian(part, y_part) for (transform, part), y_part in pairs
        ]
        return stack(log_dets, self.dim)

    @property
    def bijective(self) -> bool:
        return all(transform.bijective for transform in self.transforms)

    @property
    def domain(self) -> Any:
        return constraints.stack([transform.domain for transform in self.transforms], self.dim)

    @property
    def codomain(self) -> Any:
        return constraints.stack([transform.codomain for transform in self.transforms], self.dim)


class CumulativeDistributionTransform(Transform):
    """y = P(X ≤ x) of a distribution, which maps its samples to uniform ones.

    >>> normal = edutorch.distributions.Normal(0.0, 1.0)
    >>> edutorch.distributions.transforms.CumulativeDistributionTransform(normal)(tensor(0.0))
    tensor(0.5000)
    """

    bijective, sign, codomain = True, +1, constraints.unit_interval

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)
