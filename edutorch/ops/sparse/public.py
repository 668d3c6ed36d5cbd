"""The public functions of sparse tensors that PyTorch has in `torch` itself.

Whoever makes a sparse tensor comes by here: this file imports all of the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...backends.numpy import Array
from ...core.tensor import Tensor, wrap
from ..linalg import mm
from . import overrides
from .conversion import dense_to_sparse, take_pattern
from .creation import (
    from_coordinates,
    from_torch_file,
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
)
from .pattern import Pattern
from .tensor import SparseTensor, make_sparse

__all__ = [
    "dense_to_sparse", "from_coordinates", "from_torch_file", "hspmm", "overrides", "smm",
    "sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor", "sparse_csr_tensor",
    "spmm", "take_pattern",
]  # fmt: skip


def spmm(input: Tensor, mat2: Tensor) -> Any:
    """The product of two matrices, of which the first may be sparse: the same as `mm`.

    >>> adjacency = tensor([[0.0, 1.0], [1.0, 0.0]]).to_sparse()
    >>> spmm(adjacency, tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    return mm(input, mat2)


def smm(input: Tensor, mat: Tensor) -> SparseTensor:
    """The product of a sparse and a dense matrix, as a sparse matrix.

    >>> smm(tensor([[0.0, 1.0]]).to_sparse(), tensor([[1.0], [3.0]])).to_dense()
    tensor([[3.]])
    """
    return mm(input, mat).to_sparse()


def hspmm(mat1: Tensor, mat2: Tensor) -> SparseTensor:
    """The product of a sparse and a dense matrix, sparse along the rows only.

    >>> hspmm(tensor([[0.0, 1.0]]).to_sparse(), tensor([[1.0, 2.0], [3.0, 4.0]])).values()
    tensor([[3., 4.]])
    """
    return mm(mat1, mat2).to_sparse(1)


def sparse_rows(rows: Array, values: Array, shape: Sequence[int]) -> SparseTensor:
    """Return a matrix of which only some rows are stored: one sparse axis, one dense axis."""
    return make_sparse(Pattern(rows.reshape(1, -1), shape[:1]), wrap(values))


def rebuild_sparse(parts: Any, entries: Tensor, layout: Any, requires_grad: bool) -> SparseTensor:
    """Rebuild what `pickle` keeps of a sparse tensor."""
    return make_sparse(Pattern(*parts), entries, layout).requires_grad_(requires_grad)
