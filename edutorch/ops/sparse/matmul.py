"""Matrix products with one or two sparse factors."""

from __future__ import annotations

from typing import Any

from ...core.composed import recorded_as
from ...core.storage import sparse_coo, sparse_csr, strided
from ...core.tensor import Tensor, wrap
from ...errors import ArgumentError, DTypeError, ShapeError
from ..creation import arange, full, zeros
from ..joining import cat
from ..masking import where
from ..scatter_reduce import scatter_reduce
from .conversion import change_layout, coalesced
from .movement import ranges, t
from .pattern import Pattern
from .products import sampled_mm, sparse_mm
from .tensor import SparseTensor, make_sparse, not_for_sparse


def sparse_times_dense(name: str, input: Any, other: Tensor) -> Tensor:
    """Return a sparse matrix times a dense one."""
    check_factors(name, input, other)
    return sparse_mm(input.entries, other, input.pattern)


def multiply(name: str, input: Any, other: Any) -> Any:
    """Return the product of two matrices, at least one of which is sparse."""
    if not isinstance(other, SparseTensor):
        return sparse_times_dense(name, input, other)
    if not isinstance(input, SparseTensor):  # x a = (aᵀ xᵀ)ᵀ
        check_factors(name, input, other)
        return sparse_mm(other.entries, input.t(), other.pattern, True).t()
    return sparse_times_sparse(name, input, other)


multiply_matrices = recorded_as("MmBackward0")(multiply)


@recorded_as("SparseMmReduceImplBackward0")
def reduced_product(input: Any, other: Tensor, reduce: str) -> Tensor:
    """Return what `reduce` makes of the terms of each element of a product, in place of their sum.

        y[i, k] = reduce over the stored (i, j) of a[i, j] · x[j, k], and 0 for a row without any

    With "amax" and "amin" the first of equal terms gets the gradient.
    """
    if reduce == "sum":
        return sparse_times_dense("sparse.mm", input, other)
    check_factors("sparse.mm", input, other)
    rows, columns = (wrap(indices) for indices in input.pattern.indices)
    terms = input.entries[:, None] * other[columns]
    slots = rows[:, None].expand(terms.shape)
    empty = zeros((input.shape[0], other.shape[1]), dtype=terms.dtype, device=terms.device)
    if reduce == "mean":
        return scatter_reduce(empty, 0, slots, terms, reduce, include_self=False)
    fixed = terms.detach()
    extremes = scatter_reduce(empty, 0, slots, fixed, reduce, include_self=False)
    positions = arange(len(terms), device=terms.device)[:, None].expand(terms.shape)
    candidates = where(fixed == extremes[rows], positions, len(terms))
    first = scatter_reduce(
        full(tuple(empty.shape), len(terms), device=terms.device), 0, slots, candidates, "amin"
    )
    padded = cat([terms, empty[:1]]) if len(empty) else terms  # its last row is that of no terms
    return padded.gather(0, first)


def sparse_times_sparse(name: str, input: SparseTensor, other: SparseTensor) -> SparseTensor:
    """Return the product of two sparse matrices: y[i, j] = Σₖ a[i, k] · b[k, j].

    Each element (i, k) of the first meets all elements (k, j) of row k of the second; what belongs
    to the same (i, j) is added up.
    """
    check_factors(name, input, other)
    left, right = coalesced(input), coalesced(other)
    xp = left.pattern.xp
    begins, inner = right.pattern.pointers(), left.pattern.indices[1]
    counts = begins[inner + 1] - begins[inner]
    at_left = xp.repeat(xp.arange(left.pattern.count), counts)
    at_right = ranges(xp, begins[inner], counts)
    indices = xp.stack((left.pattern.indices[0][at_left], right.pattern.indices[1][at_right]))
    pattern = Pattern(indices, (left.pattern.shape[0], right.pattern.shape[1]))
    products = make_sparse(pattern, left.entries[at_left] * right.entries[at_right])
    layout = input._layout if input._layout is other._layout else sparse_csr
    return change_layout(coalesced(products), layout)


def check_factors(name: str, input: Tensor, other: Tensor) -> None:
    """Raise ShapeError or DTypeError if two matrices cannot be multiplied."""
    shapes = {"input": tuple(input.shape), "other": tuple(other.shape)}
    if len(input.shape) != 2 or len(other.shape) != 2:
        raise ShapeError(name, "both factors must be matrices", shapes)
    if input.shape[1] != other.shape[0]:
        raise ShapeError(
            name, f"Argument #3 (dense): Expected dim 0 size {input.shape[1]}, got "
            f"{other.shape[0]}", shapes,
        )  # fmt: skip
    for matrix in (input, other):
        if isinstance(matrix, SparseTensor) and matrix.dense_dim():
            raise ShapeError(name, "a factor has dense axes", shapes)
    if input.dtype is not other.dtype:
        raise DTypeError(
            name, "expected both factors to have the same dtype",
            {"input": input.dtype, "other": other.dtype}, "convert one of them: x.to(y.dtype)",
        )  # fmt: skip


def mm(input: Any, mat2: Any) -> Any:
    """Return the product of two matrices: see `torch.mm`."""
    return multiply_matrices("mm", input, mat2)


def matmul(input: Any, other: Any) -> Any:
    """Return the product of matrices or vectors: see `torch.matmul`."""
    if len(input.shape) == 2 and len(other.shape) == 2:
        return multiply_matrices("matmul", input, other)
    if len(input.shape) == 2 and len(other.shape) == 1 and not isinstance(other, SparseTensor):
        return mv(input, other)
    raise not_for_sparse("expand")


def mv(input: Any, vec: Any) -> Tensor:
    """Return a sparse matrix times a vector: see `torch.mv`."""
    if isinstance(vec, SparseTensor) or not isinstance(input, SparseTensor):
        raise not_for_sparse("mv")
    if vec.ndim != 1:
        raise ShapeError("mv", "expected a vector", {"vec": tuple(vec.shape)})
    return sparse_times_dense("mv", input, vec.reshape(-1, 1)).reshape(-1)


def linear(input: Any, weight: Any, bias: Any = None) -> Tensor:
    """Return x Wᵀ + b of a sparse x: see `nn.functional.linear`."""
    if isinstance(bias, SparseTensor):
        raise not_for_sparse("linear")
    y = multiply("linear", input, t(weight) if isinstance(weight, SparseTensor) else weight.t())
    return y if bias is None else y + bias


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return beta · input + alpha · mat1 @ mat2: see `torch.addmm`."""
    product = multiply("addmm", mat1, mat2)
    scaled = product if alpha == 1 else product * alpha
    return (input if beta == 1 else input * beta) + scaled


@recorded_as("SparseSampledAddmmBackward0")
def sampled_addmm(
    input: Any, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0
) -> SparseTensor:
    """Return alpha · (mat1 @ mat2) at the pattern of `input`, plus beta · input.

    Args:
        input: sparse (CSR), of shape (n, m).
        mat1: of shape (n, k).
        mat2: of shape (k, m).
    """
    if not isinstance(input, SparseTensor) or input._layout is sparse_coo:
        raise ArgumentError(
            "sampled_addmm", "Expected self to have sparse csr layout",
            {"input": getattr(input, "layout", strided)}, "use x.to_sparse_csr()",
        )  # fmt: skip
    shape = (mat1.shape[0], mat2.shape[1]) if mat1.ndim == mat2.ndim == 2 else ()
    if shape != tuple(input.shape) or mat1.shape[1] != mat2.shape[0]:
        raise ShapeError(
            "sampled_addmm", "the product does not have the shape of input",
            {"input": tuple(input.shape), "mat1": tuple(mat1.shape), "mat2": tuple(mat2.shape)},
        )  # fmt: skip
    product = sampled_mm(mat1, mat2.t(), input.pattern)
    return input.with_entries(input.entries * beta + product * alpha)
