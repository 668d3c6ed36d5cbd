"""Between dense and sparse, and between the sparse layouts."""

from __future__ import annotations

from typing import Any

from ... import backends
from ...core.composed import recorded_as
from ...core.storage import layout as Layout
from ...core.storage import sparse_coo, sparse_csc, sparse_csr
from ...core.tensor import Tensor
from ...errors import ArgumentError, ShapeError
from ..indexing import getitem, index_put_forward
from .pattern import Pattern
from .tensor import SparseTensor, make_sparse

LAYOUTS = (sparse_coo, sparse_csr, sparse_csc)


def dense_to_sparse(input: Tensor, sparse_dim: int | None, layout: Layout | None) -> SparseTensor:
    """Return the nonzero elements of a dense tensor and their indices.

    Raises: ArgumentError, ShapeError: there is no such layout of this tensor.
    """
    layout = sparse_coo if layout is None else layout
    axes = input.ndim if sparse_dim is None else sparse_dim
    if layout not in LAYOUTS:
        raise ArgumentError("to_sparse", "expected a sparse layout", {"layout": layout})
    if not 0 < axes <= input.ndim:
        raise ShapeError(
            "to_sparse", f"sparse_dim must be from 1 to {input.ndim}, got {axes}",
            {"input": tuple(input.shape)},
        )  # fmt: skip
    if layout is not sparse_coo:
        check_matrix("to_sparse", input)
    array = input._array
    xp = backends.of(array).xp
    is_stored = array != 0
    for _ in range(input.ndim - axes):
        is_stored = is_stored.any(-1)
    pattern = Pattern(xp.stack(is_stored.nonzero()), array.shape[:axes], is_coalesced=True)
    node = "ToSparseBackward1" if sparse_dim is None else "ToSparseBackward0"
    sparse = make_sparse(pattern, values_at(input, pattern, node))
    return sparse if layout is sparse_coo else change_layout(sparse, layout)


@recorded_as(lambda input, pattern, node: node)
def values_at(input: Tensor, pattern: Pattern, node: str) -> Tensor:
    """Return the elements of a dense tensor at the positions of a pattern.

    Args:
        node: the name of the node that is recorded.
    """
    return getitem(input, tuple(pattern.indices))


def take_pattern(input: Tensor, mask: Any) -> SparseTensor:
    """Return the elements of a dense tensor at the positions of a sparse one.

    Raises: ShapeError: the shapes differ.
    """
    if input.shape != mask.shape:
        raise ShapeError(
            "sparse_mask", "operands have incompatible sizes",
            {"input": tuple(input.shape), "mask": tuple(mask.shape)},
        )  # fmt: skip
    if mask.is_sparse:
        mask = mask.coalesce()
    return mask.with_entries(values_at(input, mask.pattern, "SparseMaskBackward0"))


@recorded_as("ToDenseBackward0")
def to_dense(input: SparseTensor) -> Tensor:
    """Return the dense tensor: values at the same position are added up."""
    return index_put_forward(input.entries, tuple(input.pattern.indices), input._array.shape)


@recorded_as("CoalesceBackward0")
def sum_entries(entries: Tensor, slots: Any, count: int) -> Tensor:
    """Return the sums of the entries that belong to the same slot."""
    return index_put_forward(entries, (slots,), (count, *entries.shape[1:]))


def coalesce(input: SparseTensor) -> SparseTensor:
    """Return the tensor with its positions sorted, and the values at one position added up.

    Raises: RuntimeError: it is not of the layout COO.
    """
    input._check_layout("coalesce", sparse_coo)
    return coalesced(input)


def coalesced(input: SparseTensor) -> SparseTensor:
    """Return the tensor as a coalesced one of coordinates, whatever its layout."""
    if input.pattern.is_coalesced:
        same = input._layout is sparse_coo
        return input if same else make_sparse(input.pattern, input.entries)
    pattern, slots = input.pattern.coalesced()
    return make_sparse(pattern, sum_entries(input.entries, slots, pattern.count))


def change_layout(input: SparseTensor, layout: Layout) -> SparseTensor:
    """Return a sparse tensor in another layout.

    Raises: ShapeError: only a matrix has compressed rows or columns.
    """
    if layout is input._layout:
        return input
    if layout not in LAYOUTS:
        raise ArgumentError("to_sparse", "expected a sparse layout", {"layout": layout})
    rows = coalesced(input)
    if layout is sparse_coo:
        return rows
    check_matrix("to_sparse", input)
    if input.dense_dim():
        raise ShapeError(
            "to_sparse", "a compressed layout has no dense axes", {"input": tuple(input.shape)}
        )
    if layout is sparse_csr:
        return make_sparse(rows.pattern, rows.entries, layout)
    columns, slots = rows.pattern.transposed().coalesced()
    entries = sum_entries(rows.entries, slots, columns.count)
    return make_sparse(columns.transposed(), entries, sparse_csc)


def check_matrix(name: str, input: Tensor) -> None:
    """Raise ShapeError if a tensor is not a matrix."""
    if input.ndim != 2:
        raise ShapeError(
            name, "a compressed sparse layout needs two axes", {"input": tuple(input.shape)}
        )


def to_sparse(
    self: SparseTensor, sparse_dim: int | None = None, *, layout: Layout | None = None
) -> SparseTensor:
    """Return the tensor in another sparse layout (COO by default); itself if it is the same."""
    if sparse_dim not in (None, self.sparse_dim()):
        raise ArgumentError("to_sparse", "sparse_dim of a sparse tensor cannot be changed")
    return change_layout(self, sparse_coo if layout is None else layout)


def _to_dense(self: SparseTensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """Return the dense tensor. `masked_grad` is accepted: gradients keep the pattern."""
    dense = to_dense(self)
    return dense if dtype is None else dense.to(dtype)


SparseTensor.to_sparse = to_sparse  # type: ignore[assignment]
SparseTensor.to_dense = _to_dense  # type: ignore[attr-defined]
SparseTensor.coalesce = coalesce  # type: ignore[attr-defined]
