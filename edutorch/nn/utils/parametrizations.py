"""Ready-made parametrizations: weight norm, spectral norm, orthogonal matrices."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...dtypes import finfo
from ...errors import DimError
from ...linalg import householder_product, solve
from ...modes import no_grad
from ...ops import (
    allclose,
    cat,
    dot,
    eye,
    geqrf,
    matmul,
    matrix_exp,
    mv,
    ones_like,
    randn,
    sgn,
    sign,
    tril,
    unsqueeze,
    where,
    zeros_like,
)  # fmt: skip
from .. import functional as F
from ..modules.module import Module
from .parametrize import ParametrizationError, register_parametrization
from .spectral_norm import as_matrix, check_iterations, output_dim, random_direction
from .weight_norm import norm_except_dim

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def get_tensor(module: Module, name: str) -> Tensor:
    """Return a module's parameter or buffer. Raises: ParametrizationError: there is none."""
    tensor = getattr(module, name, None)
    if not isinstance(tensor, Tensor):
        raise ParametrizationError(
            None, f"Module '{module}' has no parameter or buffer with name '{name}'"
        )
    return tensor


class _WeightNorm(Module):
    """Weight normalisation: weight = g · v / |v|, with trainable g and v."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, g: Tensor, v: Tensor) -> Tensor:
        """Compute the weight."""
        return v * (g / norm_except_dim(v, 2, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return g and v: norm and direction."""
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Any:
    """Separate the norm and the direction of a weight: weight = g · v / |v|.

    Args:
        dim: the axis whose slices have a norm each; None for a single norm.

    Paper: Salimans and Kingma, Weight normalization, 2016.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> layer.parametrizations.weight.original0.shape
    torch.Size([2, 1])
    """
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _SpectralNorm(Module):
    """Spectral normalisation: w / σ(w), with the largest singular value σ by power iteration."""

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise DimError(
                "spectral_norm", "Dimension out of range (expected to be in range of "
                f"[-{weight.ndim}, {weight.ndim - 1}] but got {dim})",
            )  # fmt: skip
        check_iterations(n_power_iterations)
        self.dim, self.eps = dim % weight.ndim, eps
        if weight.ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight.detach(), self.dim)
            self.register_buffer("_u", random_direction(weight, matrix.shape[0], eps))
            self.register_buffer("_v", random_direction(weight, matrix.shape[1], eps))
            # The weight moves little in a step, so later one iteration is enough; here it starts at
            # random.
            self._power_method(matrix, 15)

    def _power_method(self, matrix: Tensor, steps: int) -> None:
        with no_grad():
            for _ in range(steps):
                self._u.copy_(F.normalize(mv(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(mv(matrix.mH, self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        """Divide a matrix by its largest singular value, a vector by its norm."""
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the buffers may change before backward
        return weight / dot(u.conj(), mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        """Return the value itself."""
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """Divide a weight by its largest singular value, so that the layer has Lipschitz constant 1.

    Args:
        n_power_iterations: steps of power iteration in each training call.
        eps: the minimum of the norms to divide by.
        dim: the axis of the outputs.

    Raises: ValueError: no such tensor. DimError: no such axis.

    Paper: Miyato et al., Spectral normalization for generative adversarial networks, 2018.

    >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))
    >>> abs(linalg.matrix_norm(layer.weight, 2) - 1).item() < 0.01
    True
    """
    weight = get_tensor(module, name)
    parametrization = _SpectralNorm(weight, n_power_iterations, output_dim(module, dim), eps)
    return register_parametrization(module, name, parametrization)


# Orthogonal matrices -----------------------------------------------------------------------


class _Orthogonal(Module):
    """A matrix with orthonormal columns (rows, if it is wide) as a function of any matrix.

    For a triangular X, A = X - Xᵀ is skew-symmetric, and exp(A) (matrix_exp) and
    (1 - A/2)⁻¹ (1 + A/2) (cayley) are orthogonal; or X holds Householder vectors.
    """

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ParametrizationError(
                None, "The householder parametrization does not support complex tensors."
            )
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        self.with_base = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        """Compute the orthogonal matrix."""
        wide = X.shape[-2] < X.shape[-1]
        Q = self.map_tall(X.mT if wide else X)
        if self.with_base:
            Q = matmul(self.base, Q)
        return Q.mT if wide else Q

    def map_tall(self, X: Tensor) -> Tensor:
        """Compute the orthogonal matrix for an X that is not wide."""
        n, k = X.shape[-2:]
        if self.orthogonal_map == "householder":
            A = tril(X, -1)
            Q = householder_product(A, 2.0 / (1.0 + (A * A).sum(-2)))
            # Reflections fix all signs; the diagonal, which `tril` leaves free, stores them.
            return Q * unsqueeze(X.detach().diagonal(dim1=-2, dim2=-1).int(), -2)
        X = tril(X)
        if n != k:
            X = cat([X, X.new_zeros((*X.shape[:-2], n, n - k))], -1)
        # Skew-symmetric: the generator of rotations, whatever X is.
        A = X - X.mH
        if self.orthogonal_map == "matrix_exp":
            return matrix_exp(A)[..., :k]
        identity = eye(n, dtype=A.dtype, device=A.device)
        # 1 - A/2 is never singular: the eigenvalues of A are imaginary.
        return solve(identity - A / 2, identity + A / 2)[..., :k]

    def right_inverse(self, Q: Tensor) -> Tensor:
        """Return an X for which `forward` gives Q (or an orthogonal matrix near it)."""
        if Q.shape != self.shape:
            raise ParametrizationError(
                None, f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor "
                f"of shape {Q.shape}.",
            )  # fmt: skip
        with no_grad():
            wide = Q.shape[-2] < Q.shape[-1]
            tall = Q.mT if wide else Q
            if self.with_base:
                self.base = complete_basis(tall)
                rows, columns = Q.shape[-2:]
                identity = eye(rows, columns, dtype=Q.dtype, device=Q.device)
                return zeros_like(Q) - identity
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley "
                    "parametrizations when use_trivialization=False."
                )
            A, tau = geqrf(tall)
            diagonal = A.diagonal(dim1=-2, dim2=-1)
            diagonal.copy_(sign(diagonal) * where(tau == 0, -ones_like(tau), ones_like(tau)))
            return A.mT if wide else A


def complete_basis(Q: Tensor) -> Tensor:
    """Extend the columns of Q, made orthonormal, to a square orthogonal matrix."""
    # The exact values are kept where possible: a QR would change signs.
    n, k = Q.shape[-2:]
    if n == k and is_orthogonal(Q):
        return Q.clone()
    if n != k:
        new = randn((*Q.shape[:-2], n, n - k), dtype=Q.dtype, device=Q.device)
        Q = cat([Q, new], -1)
    X, tau = geqrf(Q)
    return householder_product(X, tau) * unsqueeze(sgn(X.diagonal(dim1=-2, dim2=-1)), -2)


def is_orthogonal(Q: Tensor) -> bool:
    """Return True if the columns are orthonormal, up to rounding."""
    n, k = Q.shape[-2:]
    identity = eye(k, dtype=Q.dtype, device=Q.device)
    product = matmul(Q.mH, Q)
    return bool(allclose(product, identity.expand(product.shape), atol=10 * n * finfo(Q.dtype).eps))


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *,
    use_trivialization: bool = True,
) -> Any:  # fmt: skip
    """Keep a weight orthogonal: with orthonormal columns (rows, if it is wide).

    Args:
        orthogonal_map: "matrix_exp", "cayley" or "householder"; by default the first for
            square matrices, the last for others.
        use_trivialization: parametrize relative to the current weight, not to the identity.

    Raises: ValueError: no such tensor, not a matrix, or no such map.

    Paper: Lezcano-Casado, Trivializations for gradient-based optimization on manifolds, 2019.

    >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(3, 3))
    >>> layer.weight.mm(layer.weight.T).allclose(eye(3), atol=1e-5)
    True
    """
    weight = get_tensor(module, name)
    if weight.ndim < 2:
        raise ParametrizationError(
            None, "Expected a matrix or batch of matrices. Got a tensor of "
            f"{weight.ndim} dimensions.",
        )  # fmt: skip
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1] or weight.is_complex()
        orthogonal_map = "matrix_exp" if square else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ParametrizationError(
            None, 'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: '
            f"{orthogonal_map}",
        )  # fmt: skip
    parametrization = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return register_parametrization(module, name, parametrization, unsafe=True)
