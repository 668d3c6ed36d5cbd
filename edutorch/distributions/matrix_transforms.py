"""Transforms onto probability vectors, triangular matrices and correlation matrices."""

from __future__ import annotations

import math
from typing import Any

from ..core.shapes import Size
from ..dtypes import finfo
from ..nn.functional import logsigmoid, pad, softplus
from ..ops import arange, diag_embed, eye, tril, tril_indices, zeros
from . import constraints
from .distribution import clamp_probs
from .transform import Transform

__all__ = [
    "CorrCholeskyTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform",
    "SoftmaxTransform", "StickBreakingTransform",
]  # fmt: skip


class SoftmaxTransform(Transform):
    """Softmax: y = exp(x) / Σ exp(x). Not bijective, since x + 1 gives the same result.

    >>> edutorch.distributions.transforms.SoftmaxTransform()(zeros(2))
    tensor([0.5000, 0.5000])
    """

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x: Any) -> Any:
        return x.softmax(-1)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
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

    def _remaining(self, x: Any, count: int) -> Any:
        return count - arange(count, dtype=x.dtype, device=x.device)

    def _call(self, x: Any) -> Any:
        share = clamp_probs((x - self._remaining(x, x.shape[-1]).log()).sigmoid())
        left = (1 - share).cumprod(-1)
        return pad(share, (0, 1), value=1.0) * pad(left, (1, 0), value=1.0)

    def _inverse(self, y: Any) -> Any:
        pieces = y[..., :-1]
        left = (1 - pieces.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return pieces.log() - left.log() + self._remaining(y, pieces.shape[-1]).log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        x = x - self._remaining(x, x.shape[-1]).log()
        return (-x + logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        return Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(Transform):
    """Map a square matrix to a lower triangular one with a positive diagonal.

    >>> edutorch.distributions.transforms.LowerCholeskyTransform()(zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain, bijective = constraints.lower_cholesky, True

    def _call(self, x: Any) -> Any:
        return tril(x, -1) + diag_embed(x.diagonal(dim1=-2, dim2=-1).exp())

    def _inverse(self, y: Any) -> Any:
        return tril(y, -1) + diag_embed(y.diagonal(dim1=-2, dim2=-1).log())


class PositiveDefiniteTransform(Transform):
    """Map a square matrix to a positive definite one: L Lᵀ with `LowerCholeskyTransform`'s L.

    >>> edutorch.distributions.transforms.PositiveDefiniteTransform()(zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite
    bijective = True

    def _call(self, x: Any) -> Any:
        lower = LowerCholeskyTransform()(x)
        return lower @ lower.mT

    def _inverse(self, y: Any) -> Any:
        from ..linalg import cholesky

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

    def _call(self, x: Any) -> Any:
        n, eps = self._size(x.shape[-1]), finfo(x.dtype).eps
        r = x.tanh().clamp(min=-1 + eps, max=1 - eps)
        rows, columns = tril_indices(n, n, -1, device=x.device)
        at = (rows * n + columns).expand(r.shape)
        flat = zeros((*x.shape[:-1], n * n), dtype=x.dtype, device=x.device)
        full = flat.scatter(-1, at, r).reshape((*x.shape[:-1], n, n))
        left = (1 - full.square()).cumprod(-1).sqrt()
        full = full + eye(n, dtype=x.dtype, device=x.device)
        return full * pad(left[..., :-1], (1, 0), value=1.0)

    def _inverse(self, y: Any) -> Any:
        n = y.shape[-1]
        rows, columns = tril_indices(n, n, -1, device=y.device)
        left = 1 - y.square().cumsum(-1)
        left = pad(left[..., :-1], (1, 0), value=1.0)
        r = (y / left.clamp(min=finfo(y.dtype).tiny).sqrt())[..., rows, columns]
        return (r.log1p() - (-r).log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        n = y.shape[-1]
        rows, columns = tril_indices(n, n, -1, device=y.device)
        left = 1 - y.square().cumsum(-1)
        inner = columns + 1 < rows  # the last column of a row is not divided
        stick = 0.5 * left[..., rows[inner], columns[inner]].log().sum(-1)
        return stick - 2 * (x + softplus(-2 * x) - math.log(2)).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        n = self._size(shape[-1])
        return Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Any) -> Any:
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))
