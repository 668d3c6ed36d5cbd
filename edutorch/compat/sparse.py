"""Functions of sparse tensors under PyTorch's names: `torch.sparse`.

They are defined in `edutorch/ops/sparse/`, whose README says how sparse tensors work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edutorch.core.storage import sparse_csr, strided
from edutorch.core.tensor import Tensor
from edutorch.errors import ArgumentError, InvalidValueError
from edutorch.ops.sparse import matmul, reductions
from edutorch.ops.sparse.matmul import sampled_addmm
from edutorch.ops.sparse.public import sparse_coo_tensor
from edutorch.ops.sparse.tensor import SparseTensor

__all__ = [
    "addmm", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm", "softmax",
    "spdiags", "sum",
]  # fmt: skip


def mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Any:
    """The product of two matrices, at least one of which is sparse.

        y[i, :] = Σ a[i, j] · x[j, :]   over the stored elements of row i

    Args:
        mat1: of shape (n, m), sparse or dense.
        mat2: of shape (m, k). If both are sparse, so is the product.
        reduce: what is made of the terms a[i, j] · x[j, k]: "sum" (also without this argument),
            "mean", "amax" or "amin". Where it is given, `mat1` has the layout `sparse_csr`, and
            `mat2` is dense.

    Raises: ShapeError, DTypeError: they cannot be multiplied.
        InvalidValueError: there is no such `reduce`, or it does not take these matrices.

    >>> a = sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2))
    >>> sparse.mm(a, tensor([[1.0], [10.0]]))
    tensor([[20.],
            [ 3.]])
    """
    if reduce is not None:
        check_reduce(mat1, mat2, reduce)
        return matmul.reduced_product(mat1, mat2, reduce)
    if not any(isinstance(matrix, SparseTensor) for matrix in (mat1, mat2)):
        return mat1 @ mat2
    return matmul.multiply("sparse.mm", mat1, mat2)


def check_reduce(mat1: Tensor, mat2: Tensor, reduce: str) -> None:
    """Raise InvalidValueError if the terms of a product cannot be reduced in this way."""
    if reduce not in ("sum", "mean", "amax", "amin"):
        raise InvalidValueError(
            "sparse.mm",
            "reduce argument must be either sum, mean, amax or amin",
            {"reduce": reduce},
        )
    if mat1.layout is not sparse_csr or mat2.layout is not strided:
        raise InvalidValueError(
            "sparse.mm", f"reduce={reduce!r} expects mat1 to be sparse csr and mat2 to be dense",
            {"mat1": mat1.layout, "mat2": mat2.layout}, "use mat1.to_sparse_csr()",
        )  # fmt: skip


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Any:
    """A product with a sparse matrix added to `mat`: beta · mat + alpha · mat1 @ mat2.

    >>> a = sparse_coo_tensor([[0], [1]], [2.0], (1, 2))
    >>> sparse.addmm(ones(1, 1), a, tensor([[1.0], [10.0]]))
    tensor([[21.]])
    """
    return matmul.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sum(input: Tensor, dim: int | Sequence[int] | None = None, dtype: Any = None) -> Tensor:
    """The sum of a sparse tensor, along some axes: dense if no sparse axis is left.

    >>> a = sparse_coo_tensor([[0, 1], [1, 1]], [2.0, 3.0], (2, 2))
    >>> sparse.sum(a), sparse.sum(a, 0).to_dense()
    (tensor(5.), tensor([0., 5.]))
    """
    return reductions.sum(check_sparse("sum", input), dim, dtype=dtype)


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Softmax over the stored elements along an axis; the others stay 0.

    >>> a = sparse_coo_tensor([[0, 0], [0, 2]], [1.0, 1.0], (1, 3))
    >>> sparse.softmax(a, 1).to_dense()
    tensor([[0.5000, 0.0000, 0.5000]])
    """
    return reductions.softmax(check_sparse("softmax", input), dim, dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of `softmax`, of the stored elements.

    >>> a = sparse_coo_tensor([[0], [1]], [1.0], (1, 3))
    >>> sparse.log_softmax(a, 1).values()
    tensor([0.])
    """
    return reductions.log_softmax(check_sparse("log_softmax", input), dim, dtype)


def spdiags(
    diagonals: Tensor, offsets: Tensor, shape: tuple[int, int], layout: Any = None
) -> Tensor:
    """A sparse matrix with the rows of `diagonals` along its diagonals.

    Args:
        diagonals: of shape (number of diagonals, columns): y[j - offset, j] = diagonals[d, j].
        offsets: the offset of each diagonal; positive ones lie above the main diagonal.

    Raises: ArgumentError: the arguments do not fit each other.

    >>> sparse.spdiags(tensor([[1.0, 2.0]]), tensor([0]), (2, 2)).to_dense()
    tensor([[1., 0.],
            [0., 2.]])
    """
    diagonals = diagonals.reshape(1, -1) if diagonals.ndim == 1 else diagonals
    offsets = offsets.reshape(-1)
    if diagonals.ndim != 2 or len(offsets) != len(diagonals):
        raise ArgumentError(
            "spdiags", "Number of diagonals does not match the number of offsets",
            {"diagonals": tuple(diagonals.shape), "offsets": tuple(offsets.shape)},
        )  # fmt: skip
    columns = offsets.new_tensor(range(min(diagonals.shape[1], shape[1])))
    rows = columns - offsets.reshape(-1, 1)
    inside = (rows >= 0) & (rows < shape[0])
    row, column = rows[inside], columns.expand(rows.shape)[inside]
    indices = row.new_tensor([row.tolist(), column.tolist()]).reshape(2, -1)
    values = diagonals[:, : len(columns)][inside]
    matrix = sparse_coo_tensor(indices, values, shape)
    return matrix if layout is None else matrix.to_sparse(layout=layout)


def check_sparse(name: str, input: Tensor) -> SparseTensor:
    """Return a tensor that is sparse. Raises: ArgumentError: it is dense."""
    if not isinstance(input, SparseTensor):
        raise ArgumentError(
            name, "expected a sparse tensor", {"input": getattr(input, "layout", input)},
            "use x.to_sparse()",
        )  # fmt: skip
    return input


class check_sparse_tensor_invariants:
    """Whether the indices of new sparse tensors are checked: always, here.

    PyTorch leaves the checks out by default; its switch is accepted.

    >>> with sparse.check_sparse_tensor_invariants():
    ...     sparse_coo_tensor([[0]], [1.0], (1,)).to_dense()
    tensor([1.])
    """

    def __init__(self, enable: bool = True) -> None:
        self.enabled = enable

    @staticmethod
    def is_enabled() -> bool:
        """Return True."""
        return True

    @staticmethod
    def enable() -> None:
        """Do nothing: they are checked."""

    @staticmethod
    def disable() -> None:
        """Do nothing: they are checked all the same."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass
