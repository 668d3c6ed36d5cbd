"""Inverse, systems of linear equations, determinant."""

from __future__ import annotations

import math
from typing import Any

from .. import dtypes
from ..backends.numpy import Array, Namespace
from ..core import return_types
from ..core.autograd.node_names import recorded_as
from ..core.op import op
from ..core.out_variants import takes_out
from ..core.shapes import broadcast_shapes
from ..core.tensor import Tensor, array_of
from ..errors import LinAlgError, ShapeError
from .lapack import lapack
from .linalg_common import check_matrix, matrix_transpose, singular_error, zero_diagonal


@op(method=False, out=True, node="LinalgInvExBackward0")
def inv(xp: Namespace, A: Array) -> Array:
    """The inverse: A⁻¹ A = 1.

    Raises: LinAlgError: a matrix is singular.

    >>> edutorch.linalg.inv(tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    check_matrix("linalg.inv", A, square=True)
    try:
        return lapack(xp, "inv", A)
    except xp.linalg.LinAlgError:
        raise singular_error("linalg.inv", A) from None


inv.vjp(
    A=lambda g, y: -matmul(matmul(matrix_transpose(y), g), matrix_transpose(y)),
    latex=r"-A^{-\top}\,g\,A^{-\top}",
)


@op(method=False, promotion="same", public="linalg.solve linalg.inv", node="LinalgSolveExBackward0")
def solve_forward(xp: Namespace, input: Array, other: Array) -> Array:
    """The X with A X = B: see `linalg.solve`."""
    check_matrix("linalg.solve", input, square=True)
    try:
        return lapack(xp, "solve", input, other)
    except xp.linalg.LinAlgError:
        raise singular_error("linalg.solve", input) from None


solve_forward.vjp(
    input=lambda g, y, input: (
        -matmul(solve_forward(matrix_transpose(input), g), matrix_transpose(y))
    ),
    other=lambda g, input: solve_forward(matrix_transpose(input), g),
    latex={"input": r"-A^{-\top} g\,X^\top", "other": r"A^{-\top} g"},
)


@takes_out
@recorded_as("LinalgSolveExBackward0")
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """The X with A X = B; with `left=False`, X A = B.

    Args:
        B: matrices, or vectors: one (n,), or one for each matrix of A's batch.

    Raises: LinAlgError: a matrix is singular. ShapeError: the shapes do not match.

    >>> edutorch.linalg.solve(tensor([[2.0, 0.0], [0.0, 4.0]]), tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    batch = check_matrix("linalg.solve", A, square=True)
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
    if vector:
        B = unsqueeze(B, -1)
    axis = -2 if left or vector else -1
    if not B.ndim or B.shape[axis] != A.shape[-1]:
        raise ShapeError(
            "linalg.solve", f"axis {axis} of `B` must have A's size, {A.shape[-1]}",
            {"A": tuple(A.shape), "B": tuple(B.shape)},
        )  # fmt: skip
    batch = tuple(broadcast_shapes(batch, tuple(B.shape[:-2])))
    A = A.expand((*batch, *A.shape[-2:]))
    B = B.expand((*batch, *B.shape[-2:]))
    if not left and not vector:
        return matrix_transpose(solve_forward(matrix_transpose(A), matrix_transpose(B)))
    X = solve_forward(A if left else matrix_transpose(A), B)
    return X.squeeze(-1) if vector else X


# With an error code instead of an exception -------------------------------------------------------


def eye_like(A: Tensor) -> Tensor:
    """The identity matrix, expanded to the shape of A."""
    return eye(A.shape[-1], dtype=A.dtype, device=A.device).expand(A.shape)


def replace_singular(A: Tensor) -> tuple[Tensor, Tensor]:
    """Return A with singular matrices replaced by the identity, and their first zero pivots."""
    A_now = A.detach()
    info = lu_factor_ex(A_now).info
    for matrix in (A_now, matrix_transpose(A_now)):  # LAPACK may round a nonzero pivot to 0
        is_singular = logical_and(slogdet_forward(matrix)[1] == 0, info == 0)
        info = where(is_singular, A.shape[-1], info).to(info.dtype)
    return where((info > 0)[..., None, None], eye_like(A), A), info


@takes_out
def inv_ex(A: Tensor, *, check_errors: bool = False) -> return_types.linalg_inv_ex:
    """As `inv`, with an error code per matrix instead of an exception.

    `info` is 0, or the position of the first zero pivot: the inverse is infinite there.

    >>> edutorch.linalg.inv_ex(ones(2, 2)).info
    tensor(2, dtype=torch.int32)
    """
    batch = check_matrix("linalg.inv_ex", A, square=True)
    try:
        return return_types.linalg_inv_ex(inv(A), A.new_zeros(batch, dtype=dtypes.int32))
    except LinAlgError:
        if check_errors:
            raise
    regular, info = replace_singular(A)
    inverse = where((info > 0)[..., None, None], math.inf, inv(regular))
    return return_types.linalg_inv_ex(inverse, info)


@takes_out
@recorded_as("LinalgSolveExBackward0")
def solve_ex(
    A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False
) -> return_types.linalg_solve_ex:
    """As `solve`, with an error code per matrix instead of an exception; see `inv_ex`.

    >>> edutorch.linalg.solve_ex(ones(2, 2), ones(2)).info
    tensor(2, dtype=torch.int32)
    """
    batch = check_matrix("linalg.solve_ex", A, square=True)
    try:
        X = solve(A, B, left=left)
        return return_types.linalg_solve_ex(X, A.new_zeros(batch, dtype=dtypes.int32))
    except LinAlgError:
        if check_errors:
            raise
    regular, info = replace_singular(A)
    X = solve(regular, B, left=left)
    failed = (info > 0).reshape((*batch, *(1,) * (X.ndim - len(batch)))) if batch else info > 0
    return return_types.linalg_solve_ex(where(failed, math.inf, X), info)


# Determinants -----------------------------------------------------------------------------------


@op(method=False, out=True, node="LinalgDetBackward0")
def det(xp: Namespace, A: Array) -> Array:
    """The determinant.

    >>> edutorch.linalg.det(tensor([[2.0, 1.0], [0.0, 4.0]]))
    tensor(8.)
    """
    check_matrix("linalg.det", A, square=True)
    return lapack(xp, "det", A)


def adjugate(A: Tensor) -> Tensor:
    """det(A) A⁻¹ from products and traces only, so it is differentiable everywhere.

    Faddeev and LeVerrier: M₁ = 1, Mₖ₊₁ = A Mₖ - tr(A Mₖ) / k. Accurate for small matrices only.
    """
    unit = eye_like(A)
    M = unit
    for k in range(1, A.shape[-1]):
        product = matmul(A, M)
        trace = sum(diagonal(product, 0, -2, -1), -1)
        M = product - unsqueeze(unsqueeze(trace / k, -1), -1) * unit
    return M if A.shape[-1] % 2 else -M


SMALL = 8
"""Up to this size the rounding errors of `adjugate` stay small."""


def cofactor_matrix(A: Any) -> Any:
    """det(A) A⁻ᵀ, for singular matrices too: with A = U S Vᴴ, the product of all other s.

    It is accurate where the inverse is not. Where it has to be differentiable itself, small
    matrices use `adjugate`: U and V have no derivative where singular values are equal.
    """
    if isinstance(A, Tensor) and A.shape[-1] <= SMALL:
        return matrix_transpose(adjugate(A))
    u, s, vh = svd(A, full_matrices=False)
    n = s.shape[-1]
    grid = expand(unsqueeze(s, -2), (*s.shape[:-1], n, n))
    others = prod(zero_diagonal(grid) + diag_embed(s * 0 + 1), -1)
    sign = reshape(det(u) * det(vh), (*s.shape[:-1], 1, 1))
    return sign * conj(matmul(u * unsqueeze(others, -2), vh))


def det_gradient(y: Any, A: Any) -> Any:
    """The derivative of the determinant: y A⁻ᵀ where that is accurate, else the cofactors."""
    rows = vector_norm(A, 2, -1)
    tiny = math.sqrt(dtypes.finfo(dtypes.of(array_of(A).dtype)).eps)
    bound = prod(rows, -1)  # Hadamard's bound: the determinant for orthogonal rows
    flat = (abs(y) <= tiny * bound) & (bound < math.inf)
    column = reshape(y, (*y.shape, 1, 1))
    if not bool(flat.any()):
        return column * matrix_transpose(inv(A))
    flat, ones = reshape(flat, column.shape), rows * 0 + 1
    regular = where(flat, diag_embed(ones), A)  # regular placeholders for the other matrices
    others = where(flat, A, diag_embed(cumsum(ones, -1)))
    return where(flat, cofactor_matrix(others), column * matrix_transpose(inv(regular)))


det.vjp(
    A=lambda g, y, A: reshape(g, (*g.shape, 1, 1)) * det_gradient(y, A),
    latex=r"g\,y\,A^{-\top}",
)


@op(
    outputs=("logarithm", "sign"),
    method=False,
    public="linalg.slogdet linalg.det logdet det slogdet",
    node="LinalgSlogdetBackward0",
)
def slogdet_forward(xp: Namespace, input: Array) -> tuple[Array, Array]:
    """log det A = log |det A| + i · angle (real: without the angle), and the sign of det A."""
    check_matrix("linalg.slogdet", input, square=True)
    sign, logarithm = lapack(xp, "slogdet", input)
    if input.dtype.kind == "c":
        logarithm = (logarithm + 1j * xp.angle(sign)).astype(input.dtype)
    else:  # NumPy's sign of NaN is that of its factors
        sign = xp.where(xp.isnan(logarithm), logarithm, sign)
    return xp.asarray(logarithm), xp.asarray(sign)


def log_det_gradient(g: Any, input: Any, sign: Any) -> Any:
    """g A⁻ᵀ; for a singular matrix the cofactors over 0: infinite, or NaN."""
    column = reshape(g, (*g.shape, 1, 1))
    singular = reshape(sign == 0, column.shape)
    if not bool(singular.any()):
        return column * matrix_transpose(inv(input))
    ones = ones_like(diagonal(input, 0, -2, -1))
    slopes = matrix_transpose(inv(where(singular, diag_embed(ones), input)))
    regular = diag_embed(cumsum(ones, -1))  # distinct singular values for `cofactor_matrix`
    slopes = where(singular, cofactor_matrix(where(singular, input, regular)) * math.inf, slopes)
    return where(logical_and(singular, column == 0), 0.0, slopes * column)


slogdet_forward.vjp(
    input=lambda g, input, sign: log_det_gradient(g, input, sign), latex=r"g\,A^{-\top}"
)


@takes_out
@recorded_as("LinalgSlogdetBackward0")
def slogdet(A: Tensor) -> return_types.linalg_slogdet:
    """The determinant's sign and log |det A|, where the determinant itself would overflow.

    The sign of a complex determinant is det / |det|. Singular matrices have 0 and -inf, and
    infinite derivatives (NaN where a cofactor is 0). With NaN in a matrix both results are NaN.

    >>> edutorch.linalg.slogdet(tensor([[0.0, 1.0], [1.0, 0.0]])).sign
    tensor(-1.)
    """
    logarithm, sign = slogdet_forward(A)
    if not has_complex_dtype(A):
        if logarithm.requires_grad:  # so does PyTorch's sign; its gradient is 0
            sign = where(zeros_like(sign, dtype=dtypes.bool), logarithm, sign)
        return return_types.linalg_slogdet(sign, logarithm)
    size, angle = real(logarithm), imag(logarithm)
    sign = where(sign == 0, 0, polar(ones_like(angle), angle))
    return return_types.linalg_slogdet(sign, size)


from .comparison import logical_and  # noqa: E402
from .complex import conj, has_complex_dtype, imag, polar, real  # noqa: E402
from .creation import eye  # noqa: E402
from .cumulative import cumsum  # noqa: E402
from .decompositions import svd  # noqa: E402
from .elementwise import abs  # noqa: E402
from .like import ones_like, zeros_like  # noqa: E402
from .linalg import matmul  # noqa: E402
from .lu import lu_factor_ex  # noqa: E402
from .masking import where  # noqa: E402
from .rearrange import diag_embed  # noqa: E402  (rules may use any op)
from .reduction import prod, sum  # noqa: E402
from .statistics import vector_norm  # noqa: E402
from .views import diagonal, expand, reshape, unsqueeze  # noqa: E402
