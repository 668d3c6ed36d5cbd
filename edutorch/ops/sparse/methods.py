"""What every tensor has for sparse ones: conversions, and errors for questions to dense tensors.

The files that do the work are imported at the first call: most programs never make a sparse tensor.
"""

from __future__ import annotations

from typing import Any

from ...core.fast.lazy_gradients import RowGradient
from ...core.storage import sparse_csc, sparse_csr, strided
from ...core.tensor import Tensor
from ...errors import ArgumentError
from . import products, row_gradient  # noqa: F401  (ops are registered when edutorch is imported)


def to_sparse(self: Tensor, sparse_dim: int | None = None, *, layout: Any = None) -> Tensor:
    """Return the tensor in a sparse layout: the nonzero elements and their indices.

    Args:
        sparse_dim: so many of the first axes are sparse (COO only); all by default.
        layout: `sparse_coo` by default, `sparse_csr` or `sparse_csc`.

    >>> tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse()
    tensor(indices=tensor([[0],
                           [1]]),
           values=tensor([2.]),
           size=(2, 2), nnz=1, layout=torch.sparse_coo)
    """
    from .public import dense_to_sparse

    return dense_to_sparse(self, sparse_dim, layout)


def to_sparse_coo(self: Tensor) -> Tensor:
    """Return the tensor in the layout `sparse_coo`."""
    return self.to_sparse()


def to_sparse_csr(self: Tensor) -> Tensor:
    """Return the matrix in the layout `sparse_csr`.

    >>> tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse_csr().crow_indices()
    tensor([0, 1, 1])
    """
    return self.to_sparse(layout=sparse_csr)


def to_sparse_csc(self: Tensor) -> Tensor:
    """Return the matrix in the layout `sparse_csc`."""
    return self.to_sparse(layout=sparse_csc)


def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """Return the elements at the positions of a sparse tensor, as a sparse tensor.

    >>> pattern = tensor([[0.0, 1.0], [1.0, 0.0]]).to_sparse()
    >>> tensor([[1.0, 2.0], [3.0, 4.0]]).sparse_mask(pattern).values()
    tensor([2., 3.])
    """
    from .public import take_pattern

    if not isinstance(mask, Tensor) or mask.layout is strided:
        raise ArgumentError("sparse_mask", "expected mask to be sparse", {"mask": mask})
    return take_pattern(self, mask)


def refuse_dense(name: str, wanted: str) -> Any:
    """Make the method of a dense tensor that only sparse ones answer."""

    def method(self: Tensor) -> Tensor:
        raise RuntimeError(f"{name} expected {wanted} tensor layout but got Strided")

    method.__name__, method.__doc__ = name, "Defined for sparse tensors only."
    return method


COO = "sparse coordinate"
ONLY_SPARSE = {
    "values": "sparse", "_values": COO, "indices": COO, "_indices": COO, "coalesce": COO,
    "_nnz": "sparse", "crow_indices": "sparse row compressed",
    "col_indices": "sparse row compressed", "ccol_indices": "sparse column compressed",
    "row_indices": "sparse column compressed",
}  # fmt: skip

for _name, _wanted in ONLY_SPARSE.items():
    setattr(Tensor, _name, refuse_dense(_name, _wanted))
for _method in (to_sparse, to_sparse_coo, to_sparse_csr, to_sparse_csc, sparse_mask):
    setattr(Tensor, _method.__name__, _method)


def row_gradient_tensor(gradient: RowGradient) -> Tensor:
    """Return the gradient of some rows as the sparse tensor that users see."""
    from .public import sparse_rows

    return sparse_rows(gradient.rows, gradient.values, gradient.shape)


RowGradient.to_tensor = row_gradient_tensor  # type: ignore[method-assign]
