"""Norms of vectors and matrices; the op behind vector norms is in statistics.py."""

from __future__ import annotations

import math
from typing import Any

from .. import dtypes
from ..core.composed import takes_out
from ..core.shapes import normal_dim
from ..core.tensor import Tensor
from ..dtypes import DTypeLike
from ..errors import DTypeError, ShapeError, ValueRangeError
from .complex import abs
from .decompositions import svdvals
from .linalg_common import check_floating_or_complex
from .reduction import amax, amin, sum
from .shape import movedim
from .statistics import vector_norm as length


def cast_for_norm(A: Tensor, dtype: DTypeLike) -> Tensor:
    """Return A in the dtype that a norm is computed in.

    Raises: DTypeError: one of the dtypes is complex and the other is not.
    """
    dtype = dtypes.as_dtype(dtype)
    if dtype.category < 2 or dtype.is_complex != A.is_complex():
        raise DTypeError(
            "linalg.norm", "dtype must be floating for real numbers, complex for complex ones",
            {"A": str(A.dtype), "dtype": str(dtype)},
        )  # fmt: skip
    return A.to(dtype)


@takes_out
def vector_norm(
    x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: DTypeLike = None
) -> Tensor:
    """The p-norm of vectors: (Σ |x|ᵖ)^(1/p), p = ord; ∞: the largest |x|, 0: the number of x ≠ 0.

    Args:
        dim: the axes of the vectors; by default all elements form one vector.
        dtype: the dtype to compute in.

    >>> x = tensor([3.0, -4.0])
    >>> edutorch.linalg.vector_norm(x), edutorch.linalg.vector_norm(x, math.inf)
    (tensor(5.), tensor(4.))
    """
    check_floating_or_complex("linalg.vector_norm", x)
    x = x if dtype is None else cast_for_norm(x, dtype)
    return length(x, ord, tuple(dim) if isinstance(dim, list) else dim, keepdim)


@takes_out
def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: tuple[int, int] = (-2, -1), keepdim: bool = False, *,
    dtype: DTypeLike = None,
) -> Tensor:  # fmt: skip
    """The norm of matrices.

    Args:
        ord: "fro": √Σ x²; "nuc": the sum of the singular values; 2, -2: the largest, the
            smallest of them; 1, -1: the largest, the smallest column sum of |x|;
            inf, -inf: row sum.
        dtype: the dtype to compute in.

    >>> x = tensor([[1.0, -2.0], [3.0, 4.0]])
    >>> edutorch.linalg.matrix_norm(x, 1), edutorch.linalg.matrix_norm(x, math.inf)
    (tensor(6.), tensor(7.))
    """
    check_floating_or_complex("linalg.matrix_norm", A)
    A = A if dtype is None else cast_for_norm(A, dtype)
    if A.ndim < 2:
        raise ShapeError(
            "linalg.matrix_norm", "expected a matrix or a batch of matrices", {"A": tuple(A.shape)}
        )
    if isinstance(dim, int) or len(dim) != 2:
        raise ShapeError("linalg.matrix_norm", f"dim must be a 2-tuple, got {dim}")
    row, column = (normal_dim("linalg.matrix_norm", axis, A.ndim) for axis in dim)
    if row == column:
        raise ShapeError("linalg.matrix_norm", f"the two axes of `dim` are the same, {dim}")
    if ord == "fro":
        return length(A, 2, (row, column), keepdim)
    A = movedim(A, (row, column), (-2, -1))
    if ord in (1, -1, math.inf, -math.inf):
        sums = sum(abs(A), -2 if ord in (1, -1) else -1)
        y = _extreme(sums, ord > 0)
    elif ord in ("nuc", 2, -2):
        s = svdvals(A)
        y = sum(s, -1) if ord == "nuc" else _extreme(s, ord > 0)
    else:
        raise ValueRangeError(
            "linalg.matrix_norm", f"ord must be 'fro', 'nuc', ±1, ±2 or ±inf, got {ord!r}"
        )
    if keepdim:
        for axis in sorted((row, column)):
            y = y.unsqueeze(axis)
    return y


def _extreme(x: Tensor, largest: bool) -> Tensor:
    """The maximum or minimum along the last axis; the maximum of an empty axis is 0."""
    if not x.shape[-1] and largest:
        return sum(x, -1)
    return amax(x, -1) if largest else amin(x, -1)


@takes_out
def norm(
    A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: DTypeLike = None
) -> Tensor:
    """The norm of a vector or a matrix: `vector_norm` or `matrix_norm`.

    Without `ord` it is √Σ x² over `dim`, or over all. With it, two axes in `dim` (or a
    tensor with two axes) give the norm of matrices.

    >>> edutorch.linalg.norm(tensor([3.0, 4.0])), edutorch.linalg.norm(eye(2), "nuc")
    (tensor(5.), tensor(2.))
    """
    check_floating_or_complex("linalg.norm", A)
    A = A if dtype is None else cast_for_norm(A, dtype)
    if ord is None:
        return length(A, 2, dim, keepdim)
    if dim is None and A.ndim > 2:
        raise ShapeError(
            "linalg.norm", "with `ord` and no `dim`, expected a vector or a matrix",
            {"A": tuple(A.shape)}, "say which axes: dim=-1 or dim=(-2, -1)",
        )  # fmt: skip
    axes = tuple(range(A.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if len(axes) == 2:
        return matrix_norm(A, ord, (axes[0], axes[1]), keepdim)
    return length(A, ord, dim, keepdim)
