"""Triangular systems of equations, solved by substitution."""

from __future__ import annotations

from typing import Any

from ..backends.numpy import Array, Namespace
from ..core import return_types
from ..core.autograd.node_names import recorded_as
from ..core.op import op
from ..core.out_variants import takes_out
from ..core.shapes import broadcast_shapes
from ..core.tensor import Tensor
from ..errors import ShapeError
from .linalg_common import check_matrix, matrix_transpose


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
    """
    n = input.shape[-1]
    x = other.copy()
    for i in range(n - 1, -1, -1) if upper else range(n):
        solved = slice(i + 1, None) if upper else slice(None, i)
        row = input[..., i : i + 1, solved]
        right = other[..., i : i + 1, :] - xp.matmul(row, x[..., solved, :])
        x[..., i : i + 1, :] = right if unitriangular else right / input[..., i : i + 1, i : i + 1]
    return x


def triangle_of(x: Any, upper: bool, unitriangular: bool) -> Any:
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
    batch = check_matrix(name, A, square=True)
    rest = check_matrix(name, B)
    axis = -2 if left else -1
    if B.shape[axis] != A.shape[-1]:
        raise ShapeError(
            name, f"axis {axis} of `B` must have A's size, {A.shape[-1]}",
            {"A": tuple(A.shape), "B": tuple(B.shape)},
        )  # fmt: skip
    both = tuple(broadcast_shapes(batch, rest))
    A, B = A.expand((*both, *A.shape[-2:])), B.expand((*both, *B.shape[-2:]))
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


from .linalg import matmul  # noqa: E402
from .rearrange import tril, triu  # noqa: E402  (rules may use any op)
