"""LU decomposition: A = P L U, and solving with it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import backends, dtypes
from ..backends.lapack import row_order
from ..backends.numpy import Array, ArrayOrTensor, Namespace
from ..core import return_types
from ..core.composed import recorded_as, takes_out
from ..core.error_messages import is_any_true
from ..core.op import op
from ..core.tensor import Tensor, array_of, wrap
from ..errors import DTypeError, LinAlgError, NotHereError, ShapeError, ValueRangeError
from .comparison import logical_and
from .creation import eye
from .joining import cat
from .linalg import matmul
from .linalg_common import adjoint_of, check_matrix, matrix_transpose
from .masking import where
from .matrix_functions import slogdet_forward
from .rearrange import tril, triu
from .solve import eye_like, inv, solve, solve_triangular, solve_triangular_forward


@op(
    outputs=("LU", "pivots", "info"), method=False,
    public="linalg.lu_factor linalg.lu linalg.lu_factor_ex", node="LinalgLuFactorExBackward0",
)  # fmt: skip
def lu_factor_forward(xp: Namespace, input: Array, pivot: bool) -> tuple[Array, Array, Array]:
    """L and U in one matrix, the pivots, and the first zero on the diagonal of U.

    Gaussian elimination with partial pivoting: column by column, the largest element is moved
    to the diagonal, and multiples of its row, stored as L, are subtracted from the rows below.
    """
    batch = check_matrix("linalg.lu_factor", input)
    m, n = input.shape[-2:]
    a = input.reshape((math.prod(batch), m, n)).copy()
    batch_index = xp.arange(a.shape[0])
    pivots = xp.zeros((a.shape[0], min(m, n)), "int32")
    info = xp.zeros(a.shape[0], "int32")
    for j in range(min(m, n)):
        largest = (
            xp.argmax(pivot_magnitude(xp, a[:, j:, j]), axis=-1) + j
            if pivot
            else batch_index * 0 + j
        )
        pivots[:, j] = largest + 1
        row = a[batch_index, largest]
        a[batch_index, largest] = a[:, j]
        a[:, j] = row
        on_diagonal = a[:, j, j][:, None]
        info = xp.where((info == 0) & (on_diagonal[:, 0] == 0), j + 1, info)
        divisor = xp.where(on_diagonal == 0, xp.ones_like(on_diagonal), on_diagonal)
        a[:, j + 1 :, j] = a[:, j + 1 :, j] / divisor
        a[:, j + 1 :, j + 1 :] -= a[:, j + 1 :, j, None] * a[:, None, j, j + 1 :]
    pivots, info = pivots.reshape((*batch, min(m, n))), info.reshape(batch)
    return a.reshape(input.shape), pivots, info.astype("int32")


def pivot_magnitude(xp: Namespace, x: Array) -> Array:
    """The magnitude by which pivots are chosen: |re| + |im|, as in LAPACK."""
    return xp.abs(x.real) + xp.abs(x.imag) if x.dtype.kind == "c" else xp.abs(x)


def lu_gradient(g: ArrayOrTensor, y: ArrayOrTensor, pivots: ArrayOrTensor) -> Any:
    """P L⁻ᵀ (tril(LᵀgL, -1) + triu(gU Uᵀ)) U⁻ᵀ; parts outside the square are handled first."""
    m, n = y.shape[-2:]
    k = min(m, n)
    square = y[..., :k, :k]
    g_l, g_u = tril(g[..., :k, :k], -1), triu(g[..., :k, :k])
    if n > k:  # A = [A1 A2], U = [U1 U2] with U2 = L⁻¹ A2
        right = solve_triangular_forward(matrix_transpose(square), g[..., k:], True, True)
        g_l = g_l - matmul(right, matrix_transpose(y[..., k:]))
    if m > k:  # A = [A1; A2], L = [L1; L2] with L2 = A2 U⁻¹
        below = matrix_transpose(
            solve_triangular_forward(square, matrix_transpose(g[..., k:, :]), True, False)
        )
        g_u = g_u - matmul(matrix_transpose(y[..., k:, :]), below)
    lower = tril(square, -1)
    inside = tril(matmul(matrix_transpose(lower), g_l) + g_l, -1) + triu(
        matmul(g_u, matrix_transpose(triu(square)))
    )
    inside = matrix_transpose(
        solve_triangular_forward(square, matrix_transpose(inside), True, False)
    )
    g_a = solve_triangular_forward(matrix_transpose(square), inside, True, True)
    if n > k:
        g_a = cat([g_a, right], -1)
    if m > k:
        g_a = cat([g_a, below], -2)
    return matmul(permutation_matrix(pivots, m, g_a), g_a)


lu_factor_forward.vjp(
    input=lambda g, y, pivots: lu_gradient(g, y, pivots),
    latex=r"P L^{-\top}\left(\mathrm{tril}(L^\top g_L) + \mathrm{triu}(g_U U^\top)\right)U^{-\top}",
)


def permutation_matrix(pivots: ArrayOrTensor, size: int, like: ArrayOrTensor) -> Any:
    """The permutation matrix P with P L U = A, from the sequence of row exchanges."""
    array = array_of(pivots)
    xp = backends.of(array).xp
    batch = array.shape[:-1]
    steps = array.reshape((math.prod(batch), array.shape[-1]))
    if steps.__class__ is np.ndarray and 0 < len(steps) <= MAX_LISTED and size:
        order = np.array([row_order(row, size) for row in steps], "int64").reshape(-1, size)
    else:
        order = row_orders(xp, steps, size)
    matrix = xp.arange(size)[:, None] == order[:, None, :]
    matrix = matrix.astype(array_of(like).dtype).reshape((*batch, size, size))
    return wrap(matrix) if isinstance(like, Tensor) else matrix


MAX_LISTED = 16
"""The exchanges of so many matrices are faster in lists than in arrays for the whole batch."""


def row_orders(xp: Namespace, steps: Array, size: int) -> Array:
    """The order of the rows of each matrix after the exchanges."""
    batch_index = xp.arange(steps.shape[0])
    order = xp.zeros((steps.shape[0], size), "int64") + xp.arange(size)
    for j in range(steps.shape[1]):
        other = steps[:, j] - 1
        row = order[batch_index, other]
        order[batch_index, other] = order[:, j]
        order[:, j] = row
    return order


def check_pivot(name: str, A: ArrayOrTensor, pivot: bool) -> None:
    """Raise NotHereError for pivot=False on the CPU, as PyTorch does."""
    if not pivot and not A.device.is_accelerator:
        raise NotHereError(name, "LU without pivoting is not implemented on the CPU")


@takes_out
def lu_factor_ex(
    A: Tensor, *, pivot: bool = True, check_errors: bool = False
) -> return_types.linalg_lu_factor_ex:
    """As `lu_factor`, with an error code per matrix instead of an exception.

    `info` is 0, or the position (from 1) of the first zero on the diagonal of U.

    >>> edutorch.linalg.lu_factor_ex(ones(2, 2)).info
    tensor(2, dtype=torch.int32)
    """
    check_matrix("linalg.lu_factor", A)
    check_pivot("linalg.lu_factor", A, pivot)
    LU, pivots, info = lu_factor_forward(A, pivot)
    if check_errors and is_any_true(info > 0):
        first = int(info[info > 0][0])
        raise LinAlgError(
            "linalg.lu_factor",
            f"U[{first},{first}] is zero and using it on lu_solve would divide by zero: "
            "a matrix is singular",
            {"A": tuple(A.shape)}, "linalg.lu and linalg.lu_factor_ex return the factors",
        )  # fmt: skip
    return return_types.linalg_lu_factor_ex(LU, pivots, info)


@takes_out
def lu_factor(A: Tensor, *, pivot: bool = True) -> return_types.linalg_lu_factor:
    """L and U of A = P L U in one matrix, and the pivots: exchanged rows, counted from 1.

    Raises: LinAlgError: a matrix is singular.

    >>> edutorch.linalg.lu_factor(tensor([[1.0, 1.0], [2.0, 4.0]])).LU
    tensor([[ 2.0000,  4.0000],
            [ 0.5000, -1.0000]])
    """
    LU, pivots, _ = lu_factor_ex(A, pivot=pivot, check_errors=True)
    return return_types.linalg_lu_factor(LU, pivots)


@takes_out
@recorded_as("LinalgLuBackward0")
def lu(A: Tensor, *, pivot: bool = True) -> return_types.linalg_lu:
    """A = P L U: P is a permutation, L unit lower triangular, U upper triangular.

    >>> edutorch.linalg.lu(tensor([[1.0, 1.0], [2.0, 4.0]])).L
    tensor([[1.0000, 0.0000],
            [0.5000, 1.0000]])
    """
    check_matrix("linalg.lu", A)
    check_pivot("linalg.lu", A, pivot)
    LU, pivots, _ = lu_factor_forward(A, pivot)
    return return_types.linalg_lu(*lu_unpack(LU, pivots))


@takes_out
@recorded_as("LuUnpackBackward0")
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> return_types.lu_unpack:
    """Unpack P, L and U from the result of `linalg.lu_factor`; what is not requested is empty.

    >>> lu_unpack(*edutorch.linalg.lu_factor(tensor([[1.0, 1.0], [2.0, 4.0]]))).P
    tensor([[0., 1.],
            [1., 0.]])
    """
    check_pivots("lu_unpack", LU_pivots)
    if unpack_pivots:
        check_pivot_rows("lu_unpack", LU_data, LU_pivots)
    P = L = U = LU_data.new_empty(0)
    m, n = LU_data.shape[-2:]
    if unpack_pivots:
        P = permutation_matrix(LU_pivots, m, LU_data)
    if unpack_data:
        k = min(m, n)
        lower = tril(LU_data[..., :, :k], -1)
        L = lower + eye(m, k, dtype=LU_data.dtype, device=LU_data.device)
        U = triu(LU_data[..., :k, :])
    return return_types.lu_unpack(P, L, U)


def check_pivots(name: str, pivots: Tensor) -> None:
    """Raise DTypeError unless the pivots are int32, as `lu_factor` returns them."""
    if pivots.dtype is not dtypes.int32:
        raise DTypeError(
            name, f"the pivots must be of dtype int32, got {pivots.dtype}",
            hint="take those that linalg.lu_factor returns",
        )  # fmt: skip


def check_pivot_rows(name: str, LU: Tensor, pivots: Tensor) -> None:
    """Raise ShapeError or ValueRangeError unless the pivots match the matrix."""
    if LU.ndim < 2:
        raise ShapeError(name, "expected a matrix", {"LU": tuple(LU.shape)})
    rows, columns = LU.shape[-2:]
    expected = (*LU.shape[:-2], min(rows, columns))
    shapes = {"LU": tuple(LU.shape), "pivots": tuple(pivots.shape)}
    hint = "take both from linalg.lu_factor"
    if tuple(pivots.shape) != expected:
        raise ShapeError(name, f"the pivots must be of shape {expected}", shapes, hint)
    if is_any_true((pivots < 1) | (pivots > rows)):
        raise ValueRangeError(name, f"the pivots must be between 1 and {rows}", shapes, hint)


@takes_out
@recorded_as("LinalgLuSolveBackward0")
def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """The X with A X = B, given `lu_factor` of A: two triangular systems.

    Args:
        left: False for X A = B.
        adjoint: take Aᴴ instead of A.

    >>> factors = edutorch.linalg.lu_factor(tensor([[1.0, 1.0], [2.0, 4.0]]))
    >>> edutorch.linalg.lu_solve(*factors, tensor([[2.0], [6.0]]))
    tensor([[1.],
            [1.]])
    """
    check_matrix("linalg.lu_solve", LU, square=True)
    check_matrix("linalg.lu_solve", B)
    check_pivots("linalg.lu_solve", pivots)
    check_pivot_rows("linalg.lu_solve", LU, pivots)
    if B.shape[-2 if left else -1] != LU.shape[-1]:
        raise ShapeError(
            "linalg.lu_solve", f"axis {-2 if left else -1} of `B` must have A's size",
            {"LU": tuple(LU.shape), "B": tuple(B.shape)},
        )  # fmt: skip
    if not left:  # X A = B is Aᴴ Xᴴ = Bᴴ
        return adjoint_of(lu_solve(LU, pivots, adjoint_of(B), adjoint=not adjoint))
    P = permutation_matrix(pivots, LU.shape[-1], LU)
    if adjoint:  # Aᴴ = Uᴴ Lᴴ Pᵀ
        intermediate = solve_triangular(adjoint_of(LU), B, upper=False)
        X = solve_triangular(adjoint_of(LU), intermediate, upper=True, unitriangular=True)
        return matmul(P, X)
    intermediate = solve_triangular(
        LU, matmul(matrix_transpose(P), B), upper=False, unitriangular=True
    )
    return solve_triangular(LU, intermediate, upper=True)


# With an error code instead of an exception --------------------------------------------------


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
