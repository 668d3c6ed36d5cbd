"""Distributions of covariance and correlation matrices: Wishart and LKJ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..core.shapes import broadcast_shapes
from ..core.tensor import Tensor
from ..dtypes import finfo
from ..errors import warn
from ..linalg import slogdet
from ..modes import no_grad
from ..ops import arange, cat, cholesky_solve, diag_embed, mvlgamma, tensor, where, zeros_like
from . import constraints
from .distribution import Distribution
from .gamma_family import Beta, Chi2
from .multivariate import CovarianceBased, diagonal
from .utils import TensorLike, broadcast_all, normal_like

__all__ = ["LKJCholesky", "Wishart"]


class Wishart(CovarianceBased):
    """The Wishart distribution: Σ x xᵀ of `df` normal vectors with a covariance matrix V.

    log p(X) = (df - n - 1)/2 log det X - tr(V⁻¹ X)/2 - df/2 (n log 2 + log det V) - log Γₙ(df/2)

    Samples by Bartlett's decomposition: L A Aᵀ Lᵀ, A triangular with roots of χ² variables on the
    diagonal and normal variables below it.

    Raises: ValueError: df is not above n - 1.

    >>> edutorch.distributions.Wishart(3.0, eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self, df: TensorLike, covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None, validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        arguments = [covariance_matrix, precision_matrix, scale_tril]
        matrices = [value for value in arguments if value is not None]
        if len(matrices) != 1:
            raise AssertionError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril "
                "may be specified."
            )
        (matrix,) = matrices
        if matrix.dim() < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        df = df if isinstance(df, Tensor) else tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch, n = broadcast_shapes(matrix.shape[:-2], df.shape), matrix.shape[-1]
        self.df = df.expand(batch)
        if bool((self.df <= n - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        if bool((self.df < n).any()):
            warn(
                "Low df values detected. Singular samples are highly likely to occur for "
                "ndim - 1 < df < ndim."
            )
        self._set_matrix(covariance_matrix, precision_matrix, scale_tril, batch)
        self._event_shape = matrix.shape[-2:]  # needed by the constraint of df
        super().__init__(batch, matrix.shape[-2:], validate_args=validate_args)
        self._tril = self._factor()
        steps = arange(n, dtype=matrix.dtype, device=matrix.device)
        self._dist_chi2 = Chi2(self.df.unsqueeze(-1) - steps)

    def _as_matrix(self, value: Tensor) -> Any:
        return value.reshape((*value.shape, 1, 1))

    @property
    def mean(self) -> Any:
        return self._as_matrix(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Any:
        factor = self.df - self.event_shape[-1] - 1
        return self._as_matrix(where(factor <= 0, math.nan, factor)) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        v = self.covariance_matrix
        d = diagonal(v)
        return self._as_matrix(self.df) * (v.square() + d.unsqueeze(-1) * d.unsqueeze(-2))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        roots = self._dist_chi2.rsample(sample_shape).sqrt()
        noise = normal_like(self.df, shape).tril(-1)
        factor = self._tril @ (noise + diag_embed(roots.clamp(min=finfo(roots.dtype).eps)))
        return factor @ factor.mT

    def _half_log_norm(self) -> Any:
        """(n log 2 + log det V) / 2."""
        return self.event_shape[-1] * math.log(2) / 2 + diagonal(self._tril).log().sum(-1)

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        df, n = self.df, self.event_shape[-1]
        batch = broadcast_shapes(value.shape, self._tril.shape)
        solved = cholesky_solve(value.expand(batch), self._tril.expand(batch))
        log_kernel = (df - n - 1) / 2 * slogdet(value).logabsdet - diagonal(solved).sum(-1) / 2
        return log_kernel - df * self._half_log_norm() - mvlgamma(df / 2, n)

    def entropy(self) -> Any:
        df, n = self.df, self.event_shape[-1]
        steps = arange(n, dtype=df.dtype, device=df.device) / 2
        digamma_sum = ((df / 2).unsqueeze(-1) - steps).digamma().sum(-1)
        log_norm = (n + 1) * self._half_log_norm() + mvlgamma(df / 2, n)
        return log_norm - (df - n - 1) / 2 * digamma_sum + df * n / 2


class LKJCholesky(Distribution):
    """The Cholesky factor of a random correlation matrix R with p(R) ∝ det R^(concentration - 1).

    Args:
        dim: the size of the matrix.
        concentration: 1 for the uniform distribution; the larger, the closer to the identity.

    Paper: D. Lewandowski, D. Kurowicka and H. Joe, Generating random correlation matrices based
    on vines and extended onion method, 2009.

    >>> edutorch.distributions.LKJCholesky(2, 1.0).log_prob(eye(2))
    tensor(-0.6931)
    """

    arg_constraints: ClassVar[Any] = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: TensorLike = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        steps = arange(dim - 1, dtype=self.concentration.dtype, device=self.concentration.device)
        steps = cat([zeros_like(steps[:1]), steps])
        marginal = self.concentration + 0.5 * (dim - 2)
        self._beta = Beta(steps + 0.5, marginal.unsqueeze(-1) - 0.5 * steps)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Any:
        new = self._get_checked_instance(type(self), _instance)
        vars(new).update(vars(self))
        new.concentration = self.concentration.expand(batch_shape)
        new._beta = self._beta.expand((*batch_shape, self.dim))
        new._batch_shape = new.concentration.shape
        return new

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Draw by the onion method: a norm and a direction for each row."""
        with no_grad():
            squares = self._beta.sample(sample_shape).unsqueeze(-1)
            directions = normal_like(squares, self._extended_shape(sample_shape)).tril(-1)
            length = directions.square().sum(-1, keepdim=True).sqrt()
            rows = squares.sqrt() * directions / where(length == 0, 1.0, length)
            left = (1 - rows.square().sum(-1)).clamp(min=finfo(rows.dtype).tiny)
            return rows + diag_embed(left.sqrt())

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n, c = self.dim, self.concentration
        order = 2 * (c - 1).unsqueeze(-1) + n - arange(2, n + 1, device=c.device)
        log_kernel = (order * diagonal(value)[..., 1:].log()).sum(-1)
        alpha = c + 0.5 * (n - 1)
        log_norm = 0.5 * (n - 1) * math.log(math.pi) + mvlgamma(alpha - 0.5, n - 1)
        return log_kernel - (log_norm - alpha.lgamma() * (n - 1))
