"""Inverse and systems of linear equations; triangular systems."""

from __future__ import annotations

from typing import Any

from ..backends.numpy import Array, ArrayOrTensor, Namespace
from ..core import return_types
from ..core.composed import recorded_as, takes_out
from ..core.op import op
from ..core.shapes import broadcast_shapes
from ..core.tensor import Tensor
from ..errors import ShapeError
from .creation import eye
from .linalg import matmul
from .linalg_common import check_matrix, lapack, matrix_transpose, singular_error
from .rearrange import tril, triu
from .views import unsqueeze


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


def solve_backward(
    g: ArrayOrTensor, y: ArrayOrTensor, input: ArrayOrTensor
) -> tuple[ArrayOrTensor, ArrayOrTensor]:
    """The gradients of A and B: the first is a product of the second, which takes a system."""
    other = solve_forward(matrix_transpose(input), g)
    return matmul(other, -matrix_transpose(y)), other


solve_forward.vjp(
    joint_vjp=solve_backward,
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
    a, b = A._array.shape, B._array.shape
    if left and len(a) == len(b) == 2 and a[0] == a[1] == b[0]:  # as usual
        return solve_forward(A, B)
    check_matrix("linalg.solve", A, square=True)
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
    if vector:
        B = unsqueeze(B, -1)
    axis = -2 if left or vector else -1
    if not B.ndim or B.shape[axis] != A.shape[-1]:
        raise ShapeError(
            "linalg.solve", f"axis {axis} of `B` must have A's size, {A.shape[-1]}",
            {"A": tuple(A.shape), "B": tuple(B.shape)},
        )  # fmt: skip
    A, B = expand_batches(A, B)
    if not left and not vector:
        return matrix_transpose(solve_forward(matrix_transpose(A), matrix_transpose(B)))
    X = solve_forward(A if left else matrix_transpose(A), B)
    return X.squeeze(-1) if vector else X


def expand_batches(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """Expand two batches of matrices to one batch shape."""
    left, right = tuple(A.shape[:-2]), tuple(B.shape[:-2])
    if left == right:
        return A, B
    batch = tuple(broadcast_shapes(left, right))
    return A.expand((*batch, *A.shape[-2:])), B.expand((*batch, *B.shape[-2:]))


def eye_like(A: Tensor) -> Tensor:
    """The identity matrix, expanded to the shape of A."""
    return eye(A.shape[-1], dtype=A.dtype, device=A.device).expand(A.shape)


# Triangular systems --------------------------------------------------------------------------


@op(
    method=False,
    promotion="same",
    public="linalg.solve_triangular triangular_solve cholesky_solve",
    node="LinalgSolveTriangularBackward0",
)
def solve_triangular_forward(
    xp: Namespace, input: Array, other: Array, upper: bool, unitriangular: bool
) -> Array:
    """The X with A X = B for a triangular A, by substitution: see `linalg.solve_triangular`.

    Each row has one unknown more than the row before: x[i] = (b[i] - Σⱼ a[i, j] x[j]) / a[i, i].
    Of a large matrix the first half of the rows is solved, and then the others given those.
    """
    n = input.shape[-1]
    x = other.copy()
    if n > MAX_SUBSTITUTED_ROWS:
        head, tail = slice(None, n // 2), slice(n // 2, None)
        first, last = (tail, head) if upper else (head, tail)
        settings = upper, unitriangular
        solved = solve_triangular_forward(input[..., first, first], other[..., first, :], *settings)
        right = other[..., last, :] - xp.matmul(input[..., last, first], solved)
        x[..., first, :] = solved
        x[..., last, :] = solve_triangular_forward(input[..., last, last], right, *settings)
        return x
    for i in range(n - 1, -1, -1) if upper else range(n):
        known = slice(i + 1, None) if upper else slice(None, i)
        row = input[..., i : i + 1, known]
        right = other[..., i : i + 1, :] - xp.matmul(row, x[..., known, :])
        x[..., i : i + 1, :] = right if unitriangular else right / input[..., i : i + 1, i : i + 1]
    return x


MAX_SUBSTITUTED_ROWS = 32
"""Of so many rows a triangular system is solved row by row."""


def triangle_of(x: ArrayOrTensor, upper: bool, unitriangular: bool) -> Any:
    """The triangle of a matrix that is read."""
    first = int(unitriangular)
    return triu(x, first) if upper else tril(x, -first)


solve_triangular_forward.vjp(
    input=lambda g, y, input, upper, unitriangular: triangle_of(
        -matmul(
            solve_triangular_forward(matrix_transpose(input), g, not upper, unitriangular),
            matrix_transpose(y),
        ),
        upper,
        unitriangular,
    ),
    other=lambda g, input, upper, unitriangular: solve_triangular_forward(
        matrix_transpose(input), g, not upper, unitriangular
    ),
    latex={
        "input": r"-\mathrm{triangle}\left(A^{-\top} g\,X^\top\right)", "other": r"A^{-\top} g"
    },
)  # fmt: skip


@takes_out
@recorded_as("LinalgSolveTriangularBackward0")
def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """The X with A X = B for a triangular A; with `left=False`, X A = B.

    Args:
        upper: whether A is upper triangular; the other triangle is not read.
        unitriangular: whether the diagonal is assumed to be all 1.

    >>> edutorch.linalg.solve_triangular(
    ...     tensor([[2.0, 0.0], [1.0, 1.0]]), tensor([[4.0], [5.0]]), upper=False)
    tensor([[2.],
            [3.]])
    """
    name = "linalg.solve_triangular"
    check_matrix(name, A, square=True)
    check_matrix(name, B)
    axis = -2 if left else -1
    if B.shape[axis] != A.shape[-1]:
        raise ShapeError(
            name, f"axis {axis} of `B` must have A's size, {A.shape[-1]}",
            {"A": tuple(A.shape), "B": tuple(B.shape)},
        )  # fmt: skip
    A, B = expand_batches(A, B)
    if left:
        return solve_triangular_forward(A, B, upper, unitriangular)
    return matrix_transpose(
        solve_triangular_forward(matrix_transpose(A), matrix_transpose(B), not upper, unitriangular)
    )


@takes_out
@recorded_as("TriangularSolveBackward0")
def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> return_types.triangular_solve:
    """The old form of `linalg.solve_triangular`: X with A X = b (or Aᵀ X = b), and A's copy.

    >>> triangular_solve(tensor([[4.0], [5.0]]), tensor([[2.0, 1.0], [0.0, 1.0]])).solution
    tensor([[-0.5000],
            [ 5.0000]])
    """
    coefficients = matrix_transpose(A) if transpose else A
    X = solve_triangular(coefficients, b, upper=upper != transpose, unitriangular=unitriangular)
    # The matrices are returned as well, one for each solution.
    return return_types.triangular_solve(X, A.expand(*X.shape[:-2], *A.shape[-2:]).clone())
