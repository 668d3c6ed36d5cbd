"""Linear algebra: what a student of matrices needs, differentiable twice.

    x = linalg.solve(A, b)
    U, S, Vh = linalg.svd(A, full_matrices=False)

The functions live in ops/: norms.py, decompositions.py, solving.py.
"""

from __future__ import annotations

from .core.tensor import Tensor
from .errors import LinAlgError
from .ops import cross as _cross
from .ops import diagonal as _diagonal
from .ops import matmul
from .ops.decompositions import cholesky, eigh, eigvalsh, qr, svd, svdvals
from .ops.norms import matrix_norm, norm
from .ops.solving import det, inv, lstsq, matrix_power, multi_dot, pinv, slogdet, solve
from .ops.statistics import vector_norm

__all__ = [
    "LinAlgError", "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "lstsq",
    "matmul", "matrix_norm", "matrix_power", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve",
    "svd", "svdvals", "vector_norm",
]  # fmt: skip


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The vector at right angles to two vectors with three numbers each along `dim`.

    >>> edutorch.linalg.cross(tensor([1.0, 0.0, 0.0]), tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    return _cross(input, other, dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal of each matrix, as a new last axis.

    >>> edutorch.linalg.diagonal(tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return _diagonal(A, offset, dim1, dim2)
