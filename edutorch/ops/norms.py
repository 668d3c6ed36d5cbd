"""The size of matrices; that of vectors is `vector_norm` in statistics.py."""

from __future__ import annotations

import math
from typing import Any

from ..core.shapes import normal_dim
from ..core.tensor import Tensor
from ..errors import ShapeError
from .axes import movedim
from .decompositions import need_matrix, svdvals
from .elementwise import abs
from .reduction import amax, amin, sum
from .statistics import vector_norm


def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: tuple[int, int] = (-2, -1), keepdim: bool = False
) -> Tensor:
    """The size of matrices.

    Args:
        ord: "fro": √Σ x²; "nuc": the sum of the singular values; 2, -2: the largest, the
            smallest of them; 1, -1: the largest, the smallest sum of a column's |x|;
            inf, -inf: of a row's.

    >>> x = tensor([[1.0, -2.0], [3.0, 4.0]])
    >>> edutorch.linalg.matrix_norm(x, 1), edutorch.linalg.matrix_norm(x, math.inf)
    (tensor(6.), tensor(7.))
    """
    need_matrix("linalg.matrix_norm", A)
    row, column = (normal_dim("linalg.matrix_norm", each, A.ndim) for each in dim)
    if row == column:
        raise ShapeError("linalg.matrix_norm", f"the two axes of `dim` are the same, {dim}")
    if ord == "fro":
        return vector_norm(A, 2, (row, column), keepdim)
    A = movedim(A, (row, column), (-2, -1))
    if ord in (1, -1, math.inf, -math.inf):
        sums = sum(abs(A), -2 if ord in (1, -1) else -1)
        y = amax(sums, -1) if ord > 0 else amin(sums, -1)
    elif ord in ("nuc", 2, -2):
        s = svdvals(A)
        y = sum(s, -1) if ord == "nuc" else amax(s, -1) if ord == 2 else amin(s, -1)
    else:
        raise ValueError(
            f"linalg.matrix_norm: ord must be 'fro', 'nuc', ±1, ±2 or ±inf, got {ord!r}"
        )
    if keepdim:
        for axis in sorted((row, column)):
            y = y.unsqueeze(axis)
    return y


def norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The size of a vector, or of a matrix: `vector_norm` or `matrix_norm`.

    Without `ord` it is √Σ x² over `dim`, or over all. With it, two axes in `dim` (or a
    tensor with two axes) ask for the norm of matrices.

    >>> edutorch.linalg.norm(tensor([3.0, 4.0])), edutorch.linalg.norm(eye(2), "nuc")
    (tensor(5.), tensor(2.))
    """
    if ord is None:
        return vector_norm(A, 2, dim, keepdim)
    if dim is None and A.ndim > 2:
        raise ShapeError(
            "linalg.norm", "with `ord` and no `dim`, expected a vector or a matrix",
            {"A": tuple(A.shape)}, "say which axes: dim=-1 or dim=(-2, -1)",
        )  # fmt: skip
    axes = tuple(range(A.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if len(axes) == 2:
        return matrix_norm(A, ord, (axes[0], axes[1]), keepdim)
    return vector_norm(A, ord, dim, keepdim)
