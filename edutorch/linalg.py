"""Linear algebra on real and complex matrices, twice differentiable.

    x = linalg.solve(A, b)
    U, S, Vh = linalg.svd(A, full_matrices=False)

The functions live in ops/: products and norms in linalg.py, norms.py, matrix_functions.py;
decompositions in decompositions.py, eigen.py, cholesky.py, lu.py, ldl.py, householder.py;
systems of equations in solve.py, lstsq.py.
"""

from __future__ import annotations

from .core.composed import recorded_as, takes_out
from .core.composed import wrap_functions as _guard
from .core.tensor import Tensor
from .errors import LinAlgError, ShapeError
from .ops import cross as _cross
from .ops import diagonal as _diagonal
from .ops import matmul
from .ops.cholesky import cholesky, cholesky_ex
from .ops.decompositions import eigh, eigvalsh, qr, svd, svdvals
from .ops.eigen import eig, eigvals
from .ops.householder import householder_product
from .ops.ldl import ldl_factor, ldl_factor_ex, ldl_solve
from .ops.lstsq import cond, lstsq, matrix_rank, pinv
from .ops.lu import inv_ex, lu, lu_factor, lu_factor_ex, lu_solve, solve_ex
from .ops.matrix_functions import (
    det,
    matrix_exp,
    matrix_power,
    multi_dot,
    slogdet,
    tensorinv,
    tensorsolve,
    vander,
    vecdot,
)  # fmt: skip
from .ops.norms import matrix_norm, norm, vector_norm
from .ops.solve import inv, solve, solve_triangular

__all__ = [
    "LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh",
    "eigvals", "eigvalsh", "householder_product", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex",
    "ldl_solve", "lstsq", "lu", "lu_factor", "lu_factor_ex", "lu_solve", "matmul", "matrix_exp",
    "matrix_norm", "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet",
    "solve", "solve_ex", "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve", "vander",
    "vecdot", "vector_norm",
]  # fmt: skip


@takes_out
@recorded_as("LinalgCrossBackward0")
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product of vectors with three elements along `dim`.

    >>> edutorch.linalg.cross(tensor([1.0, 0.0, 0.0]), tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    if input.ndim != other.ndim:
        raise ShapeError(
            "linalg.cross", "inputs must have the same number of dimensions",
            {"input": tuple(input.shape), "other": tuple(other.shape)},
        )  # fmt: skip
    return _cross(input, other, dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal of each matrix, as a new last axis.

    >>> edutorch.linalg.diagonal(tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return _diagonal(A, offset, dim1, dim2)


_guard(globals())
