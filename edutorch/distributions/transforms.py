"""Transforms: elementwise, for parts of a tensor, and onto probabilities and matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.shapes import Size, broadcast_shapes
from ..core.tensor import Tensor
from ..dtypes import finfo
from ..linalg import cholesky
from ..nn.functional import logsigmoid, pad, softplus
from ..ops import arange, cat, diag_embed, eye, stack, tril, tril_indices, zeros
from . import constraints
from .transform import (
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    Transform,
    log_abs_scale,
)  # fmt: skip
from .utils import Shape, TensorLike, clamp_probs

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

    def _call(self, x: Tensor) -> Any:
        return x.exp()

    def _inverse(self, y: Tensor) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        return x


class PowerTransform(Transform):
    """y = x^exponent for positive x; dy/dx = exponent · y / x.

    >>> edutorch.distributions.transforms.PowerTransform(2.0)(tensor(3.0))
    tensor(9.)
    """

    domain, codomain = constraints.positive, constraints.positive
    bijective = True

    def __init__(self, exponent: TensorLike, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent

    @property
    def sign(self) -> Any:
        exponent = self.exponent
        return exponent.sign() if isinstance(exponent, Tensor) else math.copysign(1, exponent)

    def _call(self, x: Tensor) -> Any:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Any:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Shape) -> Any:
        return broadcast_shapes(shape, getattr(self.exponent, "shape", ()))

    inverse_shape = forward_shape


class SigmoidTransform(Transform):
    """y = 1 / (1 + exp(-x)); log dy/dx = -softplus(-x) - softplus(x).

    >>> edutorch.distributions.transforms.SigmoidTransform()(tensor(0.0))
    tensor(0.5000)
    """

    domain, codomain = constraints.real, constraints.unit_interval
    bijective, sign = True, +1

    def _call(self, x: Tensor) -> Any:
        info = finfo(x.dtype)
        return x.sigmoid().clamp(min=info.tiny, max=1 - info.eps)

    def _inverse(self, y: Tensor) -> Any:
        info = finfo(y.dtype)
        y = y.clamp(min=info.tiny, max=1 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(Transform):
    """y = log(1 + exp(x)); log dy/dx = -softplus(-x).

    >>> edutorch.distributions.transforms.SoftplusTransform()(tensor(0.0))
    tensor(0.6931)
    """

    domain, codomain = constraints.real, constraints.positive
    bijective, sign = True, +1

    def _call(self, x: Tensor) -> Any:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        return -softplus(-x)


class TanhTransform(Transform):
    """y = tanh(x); log dy/dx = 2 (log 2 - x - softplus(-2x)), which is never log 0.

    >>> edutorch.distributions.transforms.TanhTransform()(tensor(0.0))
    tensor(0.)
    """

    domain, codomain = constraints.real, constraints.interval(-1.0, 1.0)
    bijective, sign = True, +1

    def _call(self, x: Tensor) -> Any:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Any:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        return 2 * (math.log(2) - x - softplus(-2 * x))


class AbsTransform(Transform):
    """y = |x|, which is not bijective: the inverse returns y.

    >>> edutorch.distributions.transforms.AbsTransform()(tensor(-2.0))
    tensor(2.)
    """

    domain, codomain = constraints.real, constraints.positive

    def _call(self, x: Tensor) -> Any:
        return x.abs()

    def _inverse(self, y: Tensor) -> Any:
        return y


class AffineTransform(Transform):
    """y = loc + scale · x.

    Args:
        event_dim: the number of trailing dimensions of one value.

    >>> edutorch.distributions.transforms.AffineTransform(1.0, 2.0)(tensor(3.0))
    tensor(7.)
    """

    bijective = True

    def __init__(
        self, loc: TensorLike, scale: TensorLike, event_dim: int = 0, cache_size: int = 0
    ) -> None:
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
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        log_det = log_abs_scale(self.scale, x)
        n = self._event_dim
        return log_det.reshape((*log_det.shape[: log_det.dim() - n], -1)).sum(-1) if n else log_det

    def forward_shape(self, shape: Shape) -> Any:
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

    def _parts(self, x: Tensor) -> Any:
        return zip(self.transforms, x.split(self.lengths, self.dim), strict=True)

    def _call(self, x: Tensor) -> Any:
        return cat([transform(part) for transform, part in self._parts(x)], self.dim)

    def _inverse(self, y: Tensor) -> Any:
        return cat([transform.inv(part) for transform, part in self._parts(y)], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
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

    def _slices(self, x: Tensor) -> Any:
        return zip(self.transforms, x.unbind(self.dim), strict=True)

    def _call(self, x: Tensor) -> Any:
        return stack([transform(part) for transform, part in self._slices(x)], self.dim)

    def _inverse(self, y: Tensor) -> Any:
        return stack([transform.inv(part) for transform, part in self._slices(y)], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
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

    def _call(self, x: Tensor) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        return self.distribution.log_prob(x)


class SoftmaxTransform(Transform):
    """Softmax: y = exp(x) / Σ exp(x). Not bijective, since x + 1 gives the same result.

    >>> edutorch.distributions.transforms.SoftmaxTransform()(zeros(2))
    tensor([0.5000, 0.5000])
    """

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x: Tensor) -> Any:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Any:
        return y.log()

    def forward_shape(self, shape: Shape) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(Transform):
    """Stick-breaking: n real values to n + 1 probabilities, each a share of the remaining stick.

    The shares are sigmoid(x - log(number of remaining pieces)), so zeros give equal pieces.

    >>> edutorch.distributions.transforms.StickBreakingTransform()(zeros(1))
    tensor([0.5000, 0.5000])
    """

    domain, codomain, bijective = constraints.real_vector, constraints.simplex, True

    def _remaining(self, x: Tensor, count: int) -> Any:
        return count - arange(count, dtype=x.dtype, device=x.device)

    def _call(self, x: Tensor) -> Any:
        share = clamp_probs((x - self._remaining(x, x.shape[-1]).log()).sigmoid())
        left = (1 - share).cumprod(-1)
        return pad(share, (0, 1), value=1.0) * pad(left, (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Any:
        pieces = y[..., :-1]
        left = (1 - pieces.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return pieces.log() - left.log() + self._remaining(y, pieces.shape[-1]).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        x = x - self._remaining(x, x.shape[-1]).log()
        return (-x + logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Shape) -> Any:
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Shape) -> Any:
        return Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(Transform):
    """Map a square matrix to a lower triangular one with a positive diagonal.

    >>> edutorch.distributions.transforms.LowerCholeskyTransform()(zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain, bijective = constraints.lower_cholesky, True

    def _call(self, x: Tensor) -> Any:
        return tril(x, -1) + diag_embed(x.diagonal(dim1=-2, dim2=-1).exp())

    def _inverse(self, y: Tensor) -> Any:
        return tril(y, -1) + diag_embed(y.diagonal(dim1=-2, dim2=-1).log())


class PositiveDefiniteTransform(Transform):
    """Map a square matrix to a positive definite one: L Lᵀ with `LowerCholeskyTransform`'s L.

    >>> edutorch.distributions.transforms.PositiveDefiniteTransform()(zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite
    bijective = True

    def _call(self, x: Tensor) -> Any:
        lower = LowerCholeskyTransform()(x)
        return lower @ lower.mT

    def _inverse(self, y: Tensor) -> Any:
        return LowerCholeskyTransform().inv(cholesky(y))


class CorrCholeskyTransform(Transform):
    """Map n (n - 1) / 2 real values to the Cholesky factor of a correlation matrix.

    tanh gives partial correlations r between -1 and 1; stick-breaking of the squares gives rows of
    norm 1: Lᵢⱼ = rᵢⱼ √(Π (1 - rᵢₖ²) over k < j).

    >>> edutorch.distributions.transforms.CorrCholeskyTransform()(zeros(1))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain, codomain, bijective = constraints.real_vector, constraints.corr_cholesky, True

    def _size(self, count: int) -> int:
        n = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return n

    def _call(self, x: Tensor) -> Any:
        n, eps = self._size(x.shape[-1]), finfo(x.dtype).eps
        r = x.tanh().clamp(min=-1 + eps, max=1 - eps)
        rows, columns = tril_indices(n, n, -1, device=x.device)
        at = (rows * n + columns).expand(r.shape)
        flat = zeros((*x.shape[:-1], n * n), dtype=x.dtype, device=x.device)
        full = flat.scatter(-1, at, r).reshape((*x.shape[:-1], n, n))
        left = (1 - full.square()).cumprod(-1).sqrt()
        full = full + eye(n, dtype=x.dtype, device=x.device)
        return full * pad(left[..., :-1], (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Any:
        n = y.shape[-1]
        rows, columns = tril_indices(n, n, -1, device=y.device)
        left = 1 - y.square().cumsum(-1)
        left = pad(left[..., :-1], (1, 0), value=1.0)
        r = (y / left.clamp(min=finfo(y.dtype).tiny).sqrt())[..., rows, columns]
        return (r.log1p() - (-r).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Any:
        n = y.shape[-1]
        rows, columns = tril_indices(n, n, -1, device=y.device)
        left = 1 - y.square().cumsum(-1)
        inner = columns + 1 < rows  # the last column of a row is not divided
        stick = 0.5 * left[..., rows[inner], columns[inner]].log().sum(-1)
        return stick - 2 * (x + softplus(-2 * x) - math.log(2)).sum(-1)

    def forward_shape(self, shape: Shape) -> Any:
        n = self._size(shape[-1])
        return Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Shape) -> Any:
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))
