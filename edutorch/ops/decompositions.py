"""Matrix decompositions: QR, symmetric eigenvalues, SVD.

An op here returns its results joined in one array: see `linalg_common.py`. The Cholesky
factor is in cholesky.py, LU and LDL factors in lu.py and ldl.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backends.numpy import Array, ArrayOrTensor, Namespace
from ..core import return_types
from ..core.composed import recorded_as, takes_out
from ..core.error_messages import is_any_true
from ..core.op import op
from ..core.tensor import Tensor
from ..dtypes import of as dtype_of
from ..errors import GradientError, InvalidValueError
from ..modes import current
from .complex import has_complex_dtype, imag
from .joining import cat
from .linalg import matmul
from .linalg_common import (
    adjoint_of,
    check_matrix,
    check_phase_invariance,
    divide_by_gap,
    join_matrices,
    lapack,
    matrix_transpose,
    real_part,
    safe_divide,
    split_matrices,
    used_vectors,
    with_conjugate_gradients,
    zero_diagonal,
)  # fmt: skip
from .random import randn
from .rearrange import diag_embed, tril, triu
from .solve import solve_triangular_forward
from .views import diagonal, unsqueeze

__all__ = ["pca_lowrank", "svd_lowrank"]

# QR ----------------------------------------------------------------------------------------------


def qr_shapes(shape: Sequence[int], complete: bool) -> list[tuple[int, ...]]:
    m, n = shape[-2:]
    k = m if complete else min(m, n)
    return [(m, k), (k, n)]


@op(method=False, public="linalg.qr")
def qr_forward(xp: Namespace, input: Array, complete: bool) -> Array:
    """Q and R, joined: see `linalg.qr`."""
    batch = check_matrix("linalg.qr", input)
    return join_matrices(xp, batch, *lapack(xp, "qr", input, "complete" if complete else "reduced"))


@with_conjugate_gradients
def qr_gradient(g: ArrayOrTensor, y: ArrayOrTensor, input: ArrayOrTensor, complete: bool) -> Any:
    """(gQ + Q M) R⁻ᴴ, where M mirrors the lower triangle of R gRᴴ - gQᴴ Q."""
    m, n = input.shape[-2:]
    if complete and m > n:
        raise GradientError(
            "linalg.qr", "mode 'complete' has no derivative for more rows than columns",
            {"A": tuple(input.shape)}, "use mode 'reduced'",
        )  # fmt: skip
    shapes = qr_shapes(input.shape, complete)
    (q, r), (g_q, g_r) = split_matrices(y, shapes), split_matrices(g, shapes)
    k = min(m, n)
    if n > k:  # A = [X Y] and R = [U W] with X = Q U, Y = Q W
        g_rest = g_r[..., :, k:]
        g_q = g_q + matmul(input[..., :, k:], adjoint_of(g_rest))
        r, g_r = r[..., :, :k], g_r[..., :, :k]
    g_r = triu(g_r)  # the lower triangle of R is constant 0: its gradient is ignored
    product = matmul(r, adjoint_of(g_r)) - matmul(adjoint_of(g_q), q)
    lower = tril(product, -1)
    symmetrized = lower + adjoint_of(lower) + diag_embed(real_part(diagonal(product, 0, -2, -1)))
    right = adjoint_of(g_q + matmul(q, symmetrized))
    g_a = adjoint_of(solve_triangular_forward(r, right, True, False))
    return cat([g_a, matmul(q, g_rest)], -1) if n > k else g_a


qr_forward.vjp(
    input=lambda g, y, input, complete: qr_gradient(g, y, input, complete),
    latex=r"(g_Q + Q\,M)\,R^{-H}",
)


@takes_out
@recorded_as("LinalgQrBackward0")
def qr(A: Tensor, mode: str = "reduced") -> return_types.linalg_qr:
    """A = Q R: Q has orthonormal columns, R is an upper triangle.

    Args:
        mode: "reduced" (Q is m × min(m, n)), "complete" (m × m), or "r" (Q is left empty).

    >>> Q, R = edutorch.linalg.qr(tensor([[3.0, 1.0], [4.0, 2.0]]))
    >>> allclose(Q @ R, tensor([[3.0, 1.0], [4.0, 2.0]]), atol=1e-6)
    True
    """
    if mode not in ("reduced", "complete", "r"):
        raise InvalidValueError(
            "linalg.qr", f"mode must be 'reduced', 'complete' or 'r', got {mode!r}"
        )
    complete = mode == "complete"
    q, r = split_matrices(qr_forward(A, complete), qr_shapes(A.shape, complete))
    return return_types.linalg_qr(q.new_empty(0) if mode == "r" else q, r)


# Eigenvectors ------------------------------------------------------------------------------------


@op(method=False, public="linalg.eigh linalg.eigvalsh", node="LinalgEighBackward0")
def eigh_forward(xp: Namespace, input: Array, UPLO: str) -> Array:
    """Eigenvalues and eigenvectors, joined: see `linalg.eigh`."""
    batch = check_matrix("linalg.eigh", input, square=True)
    w, v = lapack(xp, "eigh", input, UPLO)
    return join_matrices(xp, batch, w.astype(input.dtype), v)


@with_conjugate_gradients
def eigh_gradient(g: ArrayOrTensor, y: ArrayOrTensor, input_shape: tuple[int, ...]) -> Any:
    """V (diag(gw) + VᴴgV / E) Vᴴ with E[i, j] = w[j] - w[i]."""
    n = input_shape[-1]
    (w, v), (g_w, g_v) = split_matrices(y, [(n,), (n, n)]), split_matrices(g, [(n,), (n, n)])
    turning = matmul(adjoint_of(v), g_v)
    if has_complex_dtype(v):
        check_phase_invariance("linalg.eigh", imag(diagonal(turning, 0, -2, -1)))
    gap = unsqueeze(w, -2) - unsqueeze(w, -1)
    inside = divide_by_gap(zero_diagonal(turning), real_part(gap), used_vectors(g, g_v))
    return matmul(matmul(v, inside + diag_embed(g_w)), adjoint_of(v))


@op(method=False, public="linalg.eigvalsh", node="LinalgEighBackward0")
def eigvalsh_forward(xp: Namespace, input: Array, UPLO: str) -> Array:
    """The eigenvalues without their vectors, which only a gradient needs."""
    check_matrix("linalg.eigh", input, square=True)
    return lapack(xp, "eigvalsh", input, UPLO).astype(dtype_of(input.dtype).to_real().numpy)


eigh_forward.vjp(
    input=lambda g, y, input_shape: eigh_gradient(g, y, input_shape),
    latex=r"V\left(\mathrm{diag}(g_w) + \tfrac{V^H g_V}{w_j - w_i}\right)V^H",
)


@takes_out
@recorded_as("LinalgEighBackward0")
def eigh(A: Tensor, UPLO: str = "L") -> return_types.linalg_eigh:
    """A = V diag(w) Vᴴ for a symmetric (complex: Hermitian) A, eigenvalues w ascending.

    Only the lower triangle is read (with `UPLO="U"` the upper). The sign (complex: the
    phase) of each column of V is arbitrary, so only a loss that does not depend on it has
    a meaningful gradient.

    >>> edutorch.linalg.eigh(tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    if UPLO not in ("L", "U", "l", "u"):
        raise InvalidValueError("linalg.eigh", f"expected UPLO to be 'L' or 'U', got {UPLO!r}")
    n = A.shape[-1] if A.ndim else 0
    w, v = split_matrices(eigh_forward(A, UPLO.upper()), [(n,), (n, n)])
    return return_types.linalg_eigh(real_part(w), v)


@takes_out
@recorded_as("LinalgEighBackward0")
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of symmetric (complex: Hermitian) matrices, ascending.

    >>> edutorch.linalg.eigvalsh(tensor([[0.0, 1.0], [1.0, 0.0]]))
    tensor([-1.,  1.])
    """
    if needs_vectors(A) or UPLO not in ("L", "U"):
        return eigh(A, UPLO).eigenvalues
    return eigvalsh_forward(A, UPLO)


def needs_vectors(A: Tensor) -> bool:
    """Return True if a derivative may be asked for: that of values contains the vectors."""
    modes = current()
    is_recorded = A._node is not None and modes.grad
    return bool(modes.levels) or is_recorded or not isinstance(A._array, np.ndarray)


# Singular values ---------------------------------------------------------------------------------


def svd_shapes(shape: Sequence[int], full_matrices: bool) -> list[tuple[int, ...]]:
    m, n = shape[-2:]
    k = min(m, n)
    return [(m, m), (k,), (n, n)] if full_matrices else [(m, k), (k,), (k, n)]


@op(method=False, public="linalg.svd linalg.svdvals", node="LinalgSvdBackward0")
def svd_forward(xp: Namespace, input: Array, full_matrices: bool) -> Array:
    """U, S and Vh, joined: see `linalg.svd`."""
    batch = check_matrix("linalg.svd", input)
    u, s, vh = lapack(xp, "svd", input, full_matrices)
    return join_matrices(xp, batch, u, s.astype(input.dtype), vh)


@op(method=False, public="linalg.svdvals", node="LinalgSvdBackward0")
def svdvals_forward(xp: Namespace, input: Array) -> Array:
    """The singular values without their vectors, which only a gradient needs."""
    check_matrix("linalg.svd", input)
    s = lapack(xp, "svd", input, False, False)
    return s.astype(dtype_of(input.dtype).to_real().numpy)


@with_conjugate_gradients
def svd_gradient(
    g: ArrayOrTensor, y: ArrayOrTensor, input_shape: tuple[int, ...], full_matrices: bool
) -> Any:
    """U (skew(UᴴgU)/E S + S skew(VᴴgV)/E + diag(gS)) Vᴴ with E[i, j] = s[j]² - s[i]²,
    and the part outside the column spaces of U and V."""
    m, n = input_shape[-2:]
    k = min(m, n)
    shapes = svd_shapes(input_shape, full_matrices)
    (u, s, vh), (g_u, g_s, g_vh) = split_matrices(y, shapes), split_matrices(g, shapes)
    beyond = (g_u[..., :, k:] != 0, g_vh[..., k:, :] != 0)
    if full_matrices and any(map(is_any_true, beyond)):
        raise GradientError(
            "linalg.svd", f"the columns of U and V beyond the first {k} have no derivative",
            {"A": tuple(input_shape)}, "use full_matrices=False",
        )  # fmt: skip
    u, g_u, vh, g_vh = u[..., :, :k], g_u[..., :, :k], vh[..., :k, :], g_vh[..., :k, :]
    s = real_part(s)
    row, column = unsqueeze(s, -2), unsqueeze(s, -1)
    of_u, of_v = matmul(adjoint_of(u), g_u), matmul(vh, adjoint_of(g_vh))
    skew_u, skew_v = of_u - adjoint_of(of_u), of_v - adjoint_of(of_v)
    on_diagonal = g_s
    if has_complex_dtype(u):  # u and v share one arbitrary phase
        phase_u, phase_v = (imag(diagonal(projection, 0, -2, -1)) for projection in (of_u, of_v))
        check_phase_invariance("linalg.svd", phase_u + phase_v)
        on_diagonal = g_s + 1j * safe_divide(phase_u, s)
    used = used_vectors(g, g_u) | used_vectors(g, matrix_transpose(g_vh))
    # Written without squares of s, which over- and underflow long before s does.
    inside = divide_by_gap(zero_diagonal(skew_u + skew_v), 2 * (row - column), used)
    inside = inside + safe_divide(zero_diagonal(skew_u - skew_v), 2 * (row + column))
    g_a = matmul(matmul(u, inside + diag_embed(on_diagonal)), vh)
    if m > k:
        g_a = g_a + matmul(safe_divide(g_u - matmul(u, of_u), row), vh)
    if n > k:
        g_a = g_a + matmul(u, safe_divide(g_vh - matmul(adjoint_of(of_v), vh), column))
    return g_a


svd_forward.vjp(
    input=lambda g, y, input_shape, full_matrices: svd_gradient(g, y, input_shape, full_matrices),
    latex=r"U\left(\tfrac{\mathrm{skew}(U^H g_U)}{s_j^2 - s_i^2}S"
    r" + S\tfrac{\mathrm{skew}(V^H g_V)}{s_j^2 - s_i^2} + \mathrm{diag}(g_S)\right)V^H",
)


@takes_out
@recorded_as("LinalgSvdBackward0")
def svd(
    A: Tensor, full_matrices: bool = True, *, driver: str | None = None
) -> return_types.linalg_svd:
    """A = U diag(S) Vh: U and V have orthonormal columns, S descends and is not negative.

    The signs (complex: phases) of the columns are arbitrary, and so are the columns of U and V
    beyond min(m, n): only a loss that does not depend on them has a meaningful gradient.

    Args:
        driver: the cuSOLVER algorithm in PyTorch; as there, an error on other devices.

    >>> edutorch.linalg.svd(tensor([[0.0, 2.0], [3.0, 0.0]])).S
    tensor([3., 2.])
    """
    check_matrix("linalg.svd", A)
    if driver is not None and not A.device.is_accelerator:
        raise InvalidValueError(
            "linalg.svd", "keyword argument `driver=` is only supported on CUDA inputs"
        )
    u, s, vh = split_matrices(svd_forward(A, full_matrices), svd_shapes(A.shape, full_matrices))
    return return_types.linalg_svd(u, real_part(s), vh)


@takes_out
@recorded_as("LinalgSvdBackward0")
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values of matrices, descending.

    >>> edutorch.linalg.svdvals(tensor([[0.0, 2.0], [3.0, 0.0]]))
    tensor([3., 2.])
    """
    if needs_vectors(A) or driver is not None:
        return svd(A, full_matrices=False, driver=driver).S
    return svdvals_forward(A)


# Of low rank: only the largest singular values -----------------------------------------------
#
# Paper: Halko, Martinsson, Tropp 2011, Finding Structure with Randomness: Probabilistic Algorithms
# for Constructing Approximate Matrix Decompositions, https://doi.org/10.1137/090771806


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
