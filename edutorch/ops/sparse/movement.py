"""Functions that move elements: their indices change, their values stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.shapes import normal_dim
from ...core.storage import sparse_coo, sparse_csc, sparse_csr
from ...core.tensor import Tensor, array_of
from ...errors import DimError, ShapeError
from ..joining import cat as cat_dense
from .conversion import coalesced
from .pattern import Pattern
from .tensor import SparseTensor, make_sparse, not_for_sparse

OTHER_WAY = {sparse_csr: sparse_csc, sparse_csc: sparse_csr, sparse_coo: sparse_coo}
"""The layout of the transposed matrix, which has the same arrays."""


def transpose(input: SparseTensor, dim0: int, dim1: int) -> SparseTensor:
    """Return the tensor with two sparse axes exchanged."""
    order = list(range(input.ndim))
    dim0, dim1 = (normal_dim("transpose", dim, input.ndim) for dim in (dim0, dim1))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return permute(input, order)


def t(input: SparseTensor) -> SparseTensor:
    """Return the transposed matrix.

    Raises: ShapeError: it has more than two axes.
    """
    if input.ndim > 2:
        raise ShapeError(
            "t", f"expects a tensor with <= 2 sparse and 0 dense dimensions, but self is "
            f"{input.ndim}D", {"input": tuple(input.shape)},
        )  # fmt: skip
    return input if input.ndim < 2 else permute(input, (1, 0))


def permute(input: SparseTensor, dims: Sequence[int]) -> SparseTensor:
    """Return the tensor with its sparse axes in another order.

    Raises: SparseLayoutError: a sparse axis would become a dense one.
    """
    order = [normal_dim("permute", dim, input.ndim) for dim in dims]
    count = input.sparse_dim()
    if sorted(order) != list(range(input.ndim)):
        raise DimError("permute", f"expected each of the {input.ndim} axes once, got {order}")
    if sorted(order[:count]) != list(range(count)) or order[count:] != sorted(order[count:]):
        raise not_for_sparse("permute")
    if order == sorted(order):
        return input
    pattern = input.pattern.transposed(order[:count])
    layout = OTHER_WAY[input._layout]
    # A CSC tensor is sorted by columns, so its transpose is sorted by rows.
    pattern.is_coalesced = pattern.is_coalesced or layout is sparse_csr
    return make_sparse(pattern, input.entries, layout)


def index_select(input: SparseTensor, dim: int, index: Tensor) -> SparseTensor:
    """Return the slices at an index along one axis; a slice may be asked for several times.

    Raises: DimError: an index is out of range.
    """
    dim = normal_dim("index_select", dim, input.ndim)
    input = coalesced(input)
    wanted = array_of(index).reshape(-1)
    size = input._array.shape[dim]
    if wanted.size and (int(wanted.min()) < 0 or int(wanted.max()) >= size):
        raise DimError(
            "index_select", f"index out of range: valid indices are 0 to {size - 1}",
            {"input": tuple(input.shape), "index": tuple(index.shape)},
        )  # fmt: skip
    if dim >= input.sparse_dim():
        axis = dim - input.sparse_dim() + 1
        return input.with_entries(input.entries.index_select(axis, index))
    xp = input.pattern.xp
    # Elements by their index along `dim`: those of one slice lie next to each other.
    along = input.pattern.indices[dim]
    order = xp.argsort(along, kind="stable")
    begins = xp.searchsorted(along[order], wanted, side="left")
    counts = xp.searchsorted(along[order], wanted, side="right") - begins
    taken = order[ranges(xp, begins, counts)]
    indices = input.pattern.indices[:, taken]
    indices[dim] = xp.repeat(xp.arange(wanted.size), counts)
    shape = list(input.pattern.shape)
    shape[dim] = wanted.size
    return make_sparse(Pattern(indices, shape), input.entries[taken])


def ranges(xp: Any, begins: Any, counts: Any) -> Any:
    """Return the ranges begin, begin + 1, …, of so many numbers each, one behind the other.

    >>> import numpy
    >>> from edutorch.ops.sparse.movement import ranges
    >>> ranges(numpy, numpy.array([5, 2]), numpy.array([2, 3]))
    array([5, 6, 2, 3, 4])
    """
    ends = xp.cumsum(counts)
    total = int(ends[-1]) if counts.size else 0
    return xp.arange(total) + xp.repeat(begins - (ends - counts), counts)


def select(input: SparseTensor, dim: int, index: int) -> Tensor:
    """Return one slice along an axis: sparse, or dense if no sparse axis is left.

    Raises: DimError: there is no such slice.
    """
    dim = normal_dim("select", dim, input.ndim)
    size = input._array.shape[dim]
    if not -size <= index < size:
        raise DimError(
            "select", f"index {index} out of range for tensor of size {list(input.shape)} at "
            f"dimension {dim}", {"input": tuple(input.shape)},
        )  # fmt: skip
    input, index = coalesced(input), index % size
    if dim >= input.sparse_dim():
        return input.with_entries(input.entries.select(dim - input.sparse_dim() + 1, index))
    taken = (input.pattern.indices[dim] == index).nonzero()[0]
    entries = input.entries[taken]
    rest = [axis for axis in range(input.sparse_dim()) if axis != dim]
    if not rest:
        return entries.sum(0)
    pattern = Pattern(
        input.pattern.indices[rest][:, taken], [input.pattern.shape[axis] for axis in rest], True
    )
    return make_sparse(pattern, entries)


def getitem(input: SparseTensor, index: Any) -> Tensor:
    """Return `x[i]` or `x[i, j]`, of integers.

    Raises: SparseLayoutError: for slices and index tensors.
    """
    result: Any = input
    for position in index if isinstance(index, tuple) else (index,):
        if not isinstance(position, int | np.integer) or isinstance(position, bool):
            raise not_for_sparse("slice" if isinstance(position, slice) else "index")
        result = select(result, 0, int(position))
    return result


def cat(tensors: Sequence[Any], dim: int = 0) -> SparseTensor:
    """Concatenate sparse tensors along a sparse axis.

    Raises: ShapeError: the other axes differ, or a tensor is dense.
    """
    if not all(isinstance(tensor, SparseTensor) for tensor in tensors):
        raise ShapeError("cat", "Concatenating sparse tensors, but a dense one was found")
    parts = [coalesced(tensor) if not tensor.is_sparse else tensor for tensor in tensors]
    first = parts[0]
    dim = normal_dim("cat", dim, first.ndim)
    for part in parts:
        sizes = [
            (a, b) for axis, (a, b) in enumerate(zip(first.shape, part.shape, strict=False))
            if axis != dim
        ]  # fmt: skip
        if part.ndim != first.ndim or any(a != b for a, b in sizes):
            raise ShapeError(
                "cat", "all tensors must have the same sizes except along dim",
                {"first": tuple(first.shape), "other": tuple(part.shape)},
            )  # fmt: skip
    if dim >= first.sparse_dim():
        raise not_for_sparse("cat")
    shape, start, indices = list(first.pattern.shape), 0, []
    for part in parts:
        moved = part.pattern.indices.copy()
        moved[dim] += start
        indices.append(moved)
        start += part.pattern.shape[dim]
    shape[dim] = start
    joined = first.pattern.xp.concatenate(indices, axis=1)
    return make_sparse(Pattern(joined, shape), cat_dense([part.entries for part in parts]))


def unsqueeze(input: SparseTensor, dim: int) -> SparseTensor:
    """Return the tensor with a sparse axis of size 1 more."""
    dim = normal_dim("unsqueeze", dim, input.ndim + 1)
    if dim > input.sparse_dim():
        axis = dim - input.sparse_dim() + 1
        return input.with_entries(input.entries.unsqueeze(axis))
    xp, pattern = input.pattern.xp, coalesced(input).pattern
    before, behind = pattern.indices[:dim], pattern.indices[dim:]
    indices = xp.concatenate([before, xp.zeros_like(pattern.indices[:1]), behind])
    shape = (*pattern.shape[:dim], 1, *pattern.shape[dim:])
    return make_sparse(Pattern(indices, shape, True), coalesced(input).entries)


def stack(tensors: Sequence[Any], dim: int = 0) -> SparseTensor:
    """Stack sparse tensors of one shape along a new axis."""
    return cat([unsqueeze(tensor, dim) for tensor in tensors], dim)


def unbind(input: SparseTensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Return all slices along an axis."""
    return tuple(select(input, dim, index) for index in range(input.shape[dim]))
