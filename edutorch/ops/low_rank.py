"""Randomized low-rank SVD and PCA.

Paper: Halko, Martinsson, Tropp 2011, Finding Structure with Randomness: Probabilistic Algorithms
for Constructing Approximate Matrix Decompositions, https://doi.org/10.1137/090771806
"""

from __future__ import annotations

from ..core.tensor import Tensor
from ..errors import InvalidValueError
from .decompositions import qr, svd
from .linalg import matmul
from .linalg_common import adjoint_of, check_matrix
from .random import randn


def range_basis(A: Tensor, q: int, niter: int) -> Tensor:
    """Orthonormal columns that approximately span the range of A, from q random vectors.

    Products with A Aᴴ amplify the large singular values (subspace iteration). QR in between
    keeps the directions of the small ones from being lost to rounding.
    """
    directions = randn((*A.shape[:-2], A.shape[-1], q), dtype=A.dtype, device=A.device)
    Q = qr(matmul(A, directions)).Q
    for _ in range(niter):
        Q = qr(matmul(adjoint_of(A), Q)).Q
        Q = qr(matmul(A, Q)).Q
    return Q


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The q largest singular values and their vectors, A ≈ U diag(S) Vᴴ, at less cost than `svd`.

    They are accurate if the others are much smaller, and exact if A has at most q rows or
    columns. The random directions follow `manual_seed`.

    Args:
        q: slightly more than the expected rank.
        niter: the number of subspace iterations, for slowly decaying singular values.
        M: subtracted from A first, such as the means of its columns.

    Returns (U, S, V); V itself, not its adjoint.

    Raises: LinAlgError: an element is NaN or infinite. InvalidValueError: q or niter is negative.

    >>> U, S, V = svd_lowrank(tensor([[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]]), q=2)
    >>> allclose(S, tensor([3.0, 2.0]))
    True
    """
    check_matrix("svd_lowrank", A)
    q, niter = 6 if q is None else q, 2 if niter is None else niter
    check_counts("svd_lowrank", q, niter)
    A = A if M is None else A - M
    wide = A.shape[-2] < A.shape[-1]
    A = adjoint_of(A) if wide else A
    Q = range_basis(A, q, niter)
    U, S, Vh = svd(matmul(adjoint_of(Q), A), full_matrices=False)
    U, V = matmul(Q, U), adjoint_of(Vh)
    return (V, S, U) if wide else (U, S, V)


def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """The principal components of rows of observations, by `svd_lowrank` of A minus its means.

    The columns of V are the directions in which the rows vary most; `A @ V[:, :k]` are their
    coordinates, and S² / (m - 1) the variances, of m rows.

    Args:
        q: the number of components, at most min(m, n); by default 6 at most.
        center: whether to subtract the column means.
        niter: as in `svd_lowrank`.

    Raises: InvalidValueError: q or niter is out of range. DTypeError: not floating or complex.

    >>> U, S, V = pca_lowrank(tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]), 1)
    >>> V.abs()
    tensor([[0.7071],
            [0.7071]])
    """
    check_matrix("pca_lowrank", A)
    smaller = min(A.shape[-2:])
    q = min(6, smaller) if q is None else q
    if not 0 <= q <= smaller:
        raise InvalidValueError(
            "pca_lowrank", f"q must be between 0 and the smaller size of A, {smaller}, got {q}",
            {"A": tuple(A.shape)},
        )  # fmt: skip
    check_counts("pca_lowrank", q, niter)
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


def check_counts(name: str, q: int, niter: int) -> None:
    """Raise InvalidValueError if a count is negative."""
    for label, count in (("q", q), ("niter", niter)):
        if count < 0:
            raise InvalidValueError(name, f"{label} must be a non-negative integer, got {count}")
