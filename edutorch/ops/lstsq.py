"""Pseudoinverse, rank, least squares and condition number."""

from __future__ import annotations

import math
from typing import Any

from ..backends.numpy import Array, ArrayOrTensor, Namespace, Number
from ..core import return_types
from ..core.composed import recorded_as, takes_out
from ..core.error_messages import is_any_true
from ..core.op import op
from ..core.shapes import broadcast_shapes
from ..core.tensor import Tensor, array_of
from ..errors import LinAlgError, ShapeError
from .complex import conj
from .decompositions import svdvals
from .linalg import matmul
from .linalg_common import adjoint_of, check_matrix, lapack, real_part, with_conjugate_gradients
from .lu import inv_ex
from .masking import where
from .norms import matrix_norm
from .reduction import sum
from .views import unsqueeze


def singular_value_cutoff(xp: Namespace, input: Array, s: Array, atol: Any, rtol: Any) -> Array:
    """max(atol, rtol · the largest singular value): values not above it are treated as 0.

    By default `rtol` is max(m, n) times the machine epsilon, or 0 if `atol` is given.
    """
    default = max(input.shape[-2:]) * float(xp.finfo(input.dtype).eps)
    largest = xp.max(s, axis=-1)
    absolute = xp.zeros_like(largest) + (0.0 if atol is None else atol)
    if rtol is None:
        rtol = xp.where(absolute > 0, xp.zeros_like(absolute), xp.full_like(absolute, default))
    return xp.maximum(absolute, rtol * largest)[..., None]


def hermitian_from_lower(xp: Namespace, input: Array, hermitian: bool) -> Array:
    """With `hermitian`, the Hermitian matrix with this lower triangle; else the input."""
    if not hermitian:
        return input
    lower = xp.tril(input, -1)
    on_diagonal = (xp.tril(input) - lower).real
    return lower + xp.conj(xp.swapaxes(lower, -1, -2)) + on_diagonal


@op(method=False, public="linalg.pinv")
def pinv_forward(xp: Namespace, input: Array, atol: Any, rtol: Any, hermitian: bool) -> Array:
    """V S⁻¹ Uᴴ without the singular values that are treated as 0: see `linalg.pinv`."""
    check_matrix("linalg.pinv", input, square=hermitian)
    u, s, vh = lapack(xp, "svd", hermitian_from_lower(xp, input, hermitian), False)
    if not s.shape[-1]:
        return xp.zeros((*input.shape[:-2], input.shape[-1], input.shape[-2]), input.dtype)
    counts = s > singular_value_cutoff(xp, input, s, atol, rtol)
    inverse = xp.where(counts, 1 / xp.where(counts, s, 1), 0).astype(s.dtype)
    v, uh = xp.conj(xp.swapaxes(vh, -1, -2)), xp.conj(xp.swapaxes(u, -1, -2))
    return xp.matmul(v * inverse[..., None, :], uh)


@with_conjugate_gradients
def pinv_gradient(g: ArrayOrTensor, y: ArrayOrTensor, input: ArrayOrTensor) -> Any:
    """-PᴴgPᴴ + (1 - A P) gᴴ P Pᴴ + PᴴP gᴴ (1 - P A)."""
    y_adjoint, gt = adjoint_of(y), adjoint_of(g)
    outside = matmul(matmul(gt, y), y_adjoint)  # in the row space
    inside = matmul(matmul(y_adjoint, y), gt)
    first = matmul(matmul(y_adjoint, g), y_adjoint)
    second = outside - matmul(input, matmul(y, outside))
    third = inside - matmul(matmul(inside, y), input)
    return second + third - first


pinv_forward.vjp(
    input=lambda g, y, input: pinv_gradient(g, y, input),
    latex=r"-P^H g P^H + (1 - AP)\,g^H P P^H + P^H P\,g^H (1 - PA)",
)


@takes_out
def pinv(
    A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """The Moore-Penrose pseudoinverse.

    Args:
        atol, rtol: singular values not above max(atol, rtol · the largest) are treated
            as 0. By default rtol is max(m, n) times the machine epsilon.
        rcond: the old name of `rtol`.
        hermitian: A is symmetric (complex: Hermitian); only its lower triangle is read.

    >>> edutorch.linalg.pinv(tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    return pinv_forward(A, _threshold(atol), _threshold(rcond if rtol is None else rtol), hermitian)


def _threshold(value: Tensor | Number) -> Any:
    """Return a scalar threshold, or an array with one per matrix."""
    return array_of(value) if isinstance(value, Tensor) else value


@op(method=False, public="linalg.matrix_rank")
def matrix_rank_forward(
    xp: Namespace, input: Array, atol: Any, rtol: Any, hermitian: bool
) -> Array:
    """The number of nonzero singular values: see `linalg.matrix_rank`."""
    batch = check_matrix("linalg.matrix_rank", input, square=hermitian)
    if not min(input.shape[-2:]):
        return xp.zeros(batch, "int64")
    s = lapack(xp, "svd", hermitian_from_lower(xp, input, hermitian), False)[1]
    is_large = s > singular_value_cutoff(xp, input, s, atol, rtol)
    return xp.sum(is_large, axis=-1, dtype="int64")


@takes_out
def matrix_rank(
    A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """The rank: the number of singular values that are not treated as 0.

    Args:
        atol, rtol: singular values not above max(atol, rtol · the largest) are treated
            as 0. By default rtol is max(m, n) times the machine epsilon.
        tol: the old name of `atol`.

    >>> edutorch.linalg.matrix_rank(tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    if tol is not None:
        atol, rtol = tol, 0.0
    return matrix_rank_forward(A, _threshold(atol), _threshold(rtol), hermitian)


@takes_out
def cond(A: Tensor, p: Any = None) -> Tensor:
    """The condition number ‖A‖ ‖A⁻¹‖: how much A x = b may amplify relative errors.

    Args:
        p: the norm. None or 2: the largest over the smallest singular value, -2: the
            inverse of that; else one of `linalg.matrix_norm`, for square A; infinite
            where A is singular.

    >>> edutorch.linalg.cond(tensor([[4.0, 0.0], [0.0, 0.5]]))
    tensor(8.)
    """
    batch = check_matrix("linalg.cond", A, square=p not in (None, 2, -2))
    if not A.shape[-1] or not A.shape[-2]:
        return A.new_zeros(batch, dtype=A.real.dtype)
    if p in (None, 2, -2):
        s = svdvals(A)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    inverse, info = inv_ex(A)
    y = matrix_norm(A, p) * matrix_norm(where((info > 0)[..., None, None], 1.0, inverse), p)
    return where((info > 0) | (y != y), math.inf, y)  # inf instead of NaN, as PyTorch


@takes_out
@recorded_as("LinalgLstsqBackward0")
def lstsq(
    A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> return_types.linalg_lstsq:
    """The least-squares solution: the X of minimal norm that minimizes Σ |A X - B|².

    Only the solution and the residuals have gradients. Residuals are returned if A has more
    rows than columns and full rank, and the driver is not "gelsy".

    Args:
        B: matrices, or one vector for each matrix of A's batch.
        rcond: singular values below `rcond` times the largest are treated as 0.
        driver: one of PyTorch's names: "gelsy" (the default), "gelsd", "gelss", "gels".
            The solution is the same; the other results are those of PyTorch's driver.

    >>> edutorch.linalg.lstsq(tensor([[2.0], [0.0]]), tensor([[4.0], [1.0]])).solution
    tensor([[2.]])
    """
    check_matrix("linalg.lstsq", A)
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise LinAlgError(
            "linalg.lstsq", f"no driver is named {driver!r}",
            hint="parameter `driver` should be one of (gels, gelsy, gelsd, gelss)",
        )  # fmt: skip
    m, n = A.shape[-2:]
    vector = B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1])
    B = unsqueeze(B, -1) if vector else B
    if B.ndim < 2 or B.shape[-2] != m:
        raise ShapeError(
            "linalg.lstsq", f"axis -2 of `B` must have as many rows as A, {m}",
            {"A (... m n)": tuple(A.shape), "B (... m k)": tuple(B.shape)},
        )  # fmt: skip
    broadcast_shapes(tuple(A.shape[:-2]), tuple(B.shape[:-2]))
    X = matmul(pinv(A, rcond), B)
    rank = matrix_rank(A.detach(), rtol=rcond)
    if driver == "gels" and is_any_true((rank > 0) & (rank < min(m, n))):
        raise LinAlgError(
            "linalg.lstsq", "the least squares solution could not be computed because the input "
            "matrix does not have full rank", {"A (... m n)": tuple(A.shape)},
            'the drivers "gelsy", "gelsd" and "gelss" take any rank',
        )  # fmt: skip
    empty = real_part(A.detach()).new_empty(0)
    residuals = real_part(X).reshape(-1)[:0]  # empty, but it requires grad as in PyTorch
    if m > n and driver not in (None, "gelsy") and not is_any_true(rank != n):
        error = matmul(A, X) - B
        residuals = sum(real_part(error * conj(error)), -2)
    return return_types.linalg_lstsq(
        X.squeeze(-1) if vector else X,
        residuals,
        rank.new_empty(0) if driver == "gels" else rank,
        svdvals(A).detach() if driver in ("gelsd", "gelss") else empty,
    )
