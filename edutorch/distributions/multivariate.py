"""Multivariate normal distributions, with a full or a low-rank covariance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..core.shapes import broadcast_shapes
from ..core.tensor import Tensor
from ..linalg import cholesky, solve_triangular
from ..ops import cholesky_solve, diag_embed, eye, flip
from . import constraints
from .distribution import Distribution
from .utils import lazy_property, normal_like

__all__ = ["LowRankMultivariateNormal", "MultivariateNormal"]


def diagonal(matrix: Tensor) -> Tensor:
    """Return the diagonals of a batch of matrices."""
    return matrix.diagonal(dim1=-2, dim2=-1)


def mahalanobis(scale_tril: Tensor, difference: Tensor) -> Tensor:
    """Return the squared Mahalanobis distance dᵀ (L Lᵀ)⁻¹ d of a difference d."""
    shape = broadcast_shapes(scale_tril.shape[:-1], difference.shape)
    full = scale_tril.expand((*shape, scale_tril.shape[-1]))
    solved = solve_triangular(full, difference.expand(shape).unsqueeze(-1), upper=False)
    return solved.squeeze(-1).square().sum(-1)


def precision_to_scale_tril(precision: Tensor) -> Tensor:
    """Return the lower L with (L Lᵀ)⁻¹ = P, from the Cholesky factor of the flipped P."""
    factor = cholesky(flip(precision, (-2, -1)))
    upper = flip(factor, (-2, -1)).mT
    return solve_triangular(upper, identity_like(precision), upper=False)


def identity_like(matrix: Tensor) -> Tensor:
    """Return identity matrices in the shape of a batch of matrices."""
    return eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device).expand(matrix.shape)


class CovarianceBased(Distribution):
    """The base of distributions with a covariance matrix, its inverse or its Cholesky factor L."""

    _tril: Tensor

    def _set_matrix(
        self,
        covariance: Tensor | None,
        precision: Tensor | None,
        scale_tril: Tensor | None,
        batch: Any,
    ) -> None:
        """Store the given matrix, expanded to the batch shape, under its name."""
        arguments = {
            "covariance_matrix": covariance, "precision_matrix": precision,
            "scale_tril": scale_tril,
        }  # fmt: skip
        ((name, matrix),) = [(key, value) for key, value in arguments.items() if value is not None]
        matrix = matrix.expand((*batch, *matrix.shape[-2:]))
        setattr(self, name, matrix)

    def _factor(self) -> Tensor:
        if "scale_tril" in vars(self):
            return vars(self)["scale_tril"]
        if "covariance_matrix" in vars(self):
            return cholesky(vars(self)["covariance_matrix"])
        return precision_to_scale_tril(vars(self)["precision_matrix"])

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower triangular L with covariance L Lᵀ."""
        return self._tril

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance matrix."""
        return self._tril @ self._tril.mT

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance matrix."""
        return cholesky_solve(identity_like(self._tril), self._tril)


class MultivariateNormal(CovarianceBased):
    """Multivariate normal: log p(x) = -(n log 2π + log det Σ + (x - μ)ᵀ Σ⁻¹ (x - μ)) / 2.

    Args:
        loc: the mean μ.
        covariance_matrix: Σ; or
        precision_matrix: its inverse; or
        scale_tril: its lower triangular Cholesky factor, the cheapest.

    Raises: ValueError: not exactly one of the three is given.

    >>> normal = edutorch.distributions.MultivariateNormal(zeros(2), eye(2))
    >>> normal.log_prob(zeros(2))
    tensor(-1.8379)
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Tensor, covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None, validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        arguments = {
            "covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }  # fmt: skip
        present = {name: value for name, value in arguments.items() if value is not None}
        if len(present) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril "
                "may be specified."
            )
        ((name, matrix),) = present.items()
        if matrix.dim() < 2:
            raise ValueError(
                f"{name} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch = broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand((*batch, loc.shape[-1]))
        self._set_matrix(covariance_matrix, precision_matrix, scale_tril, batch)
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        self._tril = self._factor()

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return self._tril.square().sum(-1)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        noise = normal_like(self.loc, self._extended_shape(sample_shape))
        return self.loc + (self._tril @ noise.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        half_log_det = diagonal(self._tril).log().sum(-1)
        n = self.event_shape[0]
        squared_distance = mahalanobis(self._tril, value - self.loc)
        return -0.5 * (n * math.log(2 * math.pi) + squared_distance) - half_log_det

    def entropy(self) -> Any:
        half_log_det = diagonal(self._tril).log().sum(-1)
        return 0.5 * self.event_shape[0] * (1 + math.log(2 * math.pi)) + half_log_det


class LowRankMultivariateNormal(Distribution):
    """Multivariate normal with the covariance W Wᵀ + D, for a narrow W and a diagonal D.

    The matrix determinant lemma and Woodbury's identity need only the small matrix
    C = I + Wᵀ D⁻¹ W: det Σ = det C · det D and Σ⁻¹ = D⁻¹ - D⁻¹ W C⁻¹ Wᵀ D⁻¹.

    Args:
        cov_factor: W, one column per direction.
        cov_diag: the diagonal of D.

    >>> normal = edutorch.distributions.LowRankMultivariateNormal(zeros(2), ones(2, 1), ones(2))
    >>> normal.variance
    tensor([2., 2.])
    """

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if cov_factor.shape[-2:-1] != event:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
        if cov_diag.shape[-1:] != event:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event}")
        shape = broadcast_shapes(loc.shape, cov_diag.shape, cov_factor.shape[:-1])
        self.loc, self.cov_diag = loc.expand(shape), cov_diag.expand(shape)
        self.cov_factor = cov_factor.expand((*shape, cov_factor.shape[-1]))
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        small = scaled @ self.cov_factor
        self._capacitance_tril = cholesky(small + identity_like(small))
        super().__init__(shape[:-1], event, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return self.cov_factor.square().sum(-1) + self.cov_diag

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance matrix W Wᵀ + D."""
        return self.cov_factor @ self.cov_factor.mT + diag_embed(self.cov_diag)

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower triangular L with covariance L Lᵀ."""
        return cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance matrix, by Woodbury's identity."""
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        solved = solve_triangular(self._capacitance_tril, scaled, upper=False)
        return diag_embed(self.cov_diag.reciprocal()) - solved.mT @ solved

    def log_determinant(self) -> Any:
        """Return log det Σ = log det C + log det D."""
        small = 2 * diagonal(self._capacitance_tril).log().sum(-1)
        return small + self.cov_diag.log().sum(-1)

    def distance(self, difference: Any) -> Any:
        """Return the squared Mahalanobis distance dᵀ Σ⁻¹ d, by Woodbury's identity."""
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        inner = (scaled @ difference.unsqueeze(-1)).squeeze(-1)
        plain = (difference.square() / self.cov_diag).sum(-1)
        return plain - mahalanobis(self._capacitance_tril, inner)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        factor_noise = normal_like(self.loc, (*shape[:-1], self.cov_factor.shape[-1]))
        noise = normal_like(self.loc, shape)
        low_rank = (self.cov_factor @ factor_noise.unsqueeze(-1)).squeeze(-1)
        return self.loc + low_rank + self.cov_diag.sqrt() * noise

    def log_prob(self, value: Tensor) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        log_norm = self.event_shape[0] * math.log(2 * math.pi) + self.log_determinant()
        return -0.5 * (log_norm + self.distance(value - self.loc))

    def entropy(self) -> Any:
        constant = self.event_shape[0] * (1 + math.log(2 * math.pi))
        return 0.5 * (constant + self.log_determinant())
