"""Sparse tensors from indices and values, with checks of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import backends
from ...core.composed import recorded_as
from ...core.storage import layout as Layout
from ...core.storage import sparse_csc, sparse_csr, strided
from ...core.tensor import LEAF, Tensor
from ...dtypes import DTypeLike, int64
from ...errors import ArgumentError, DTypeError, ShapeError
from ..from_data import as_tensor, tensor
from .pattern import Pattern
from .tensor import SparseTensor, make_sparse

__all__ = [
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
]


def sparse_coo_tensor(
    indices: Any, values: Any = None, size: Sequence[int] | None = None, *,
    dtype: DTypeLike = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A sparse tensor of coordinates: element e is values[e] at indices[:, e].

    A position may occur twice: its values are added up (`coalesce`).

    Args:
        indices: of shape (sparse axes, n).
        values: of shape (n, *sizes of dense axes).
        size: of the tensor; by default the smallest that holds all indices.
        is_coalesced: whether the indices are known to be sorted and all different.

    Raises: ShapeError, DTypeError: the arguments do not fit each other.

    >>> sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    if values is None:  # PyTorch's form for an empty one: a size alone
        size = tuple(indices)
        indices, values = tensor([], dtype=int64).reshape(len(size), 0), tensor([], dtype=dtype)
    entries = as_values(values, dtype, device, requires_grad)
    index = as_indices("indices", indices, entries)
    if index.ndim != 2:
        raise ShapeError(
            "sparse_coo_tensor",
            f"indices must be sparse_dim x nnz, but got: {list(index.shape)}",
            {"indices": tuple(index.shape)},
        )
    if entries.ndim == 0 or index.shape[1] != entries.shape[0]:
        counted = entries.shape[0] if entries.ndim else 0
        raise ShapeError(
            "sparse_coo_tensor",
            f"indices and values must have same nnz, but got nnz from indices: {index.shape[1]}, "
            f"nnz from values: {counted}",
            {"indices": tuple(index.shape), "values": tuple(entries.shape)},
        )
    shape = coo_shape(index, entries, size)
    pattern = Pattern(index, shape[: index.shape[0]], bool(is_coalesced))
    return make_sparse(pattern, entries)


def coo_shape(index: Any, entries: Tensor, size: Sequence[int] | None) -> tuple[int, ...]:
    """Return the size of a tensor with these indices and values.

    Raises: ShapeError: an index lies outside of it.
    """
    sparse_dim, dense = index.shape[0], tuple(entries.shape[1:])
    lowest, highest = [0] * sparse_dim, [-1] * sparse_dim
    if index.shape[1]:
        lowest, highest = index.min(1).tolist(), index.max(1).tolist()
    shape = tuple(high + 1 for high in highest) + dense if size is None else tuple(size)
    if not all(isinstance(length, int) and length >= 0 for length in shape):
        raise ShapeError("sparse_coo_tensor", f"size must be of whole numbers from 0, got {shape}")
    if len(shape) != sparse_dim + len(dense):
        raise ShapeError(
            "sparse_coo_tensor",
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, "
            f"sparse_dim = {sparse_dim}, dense_dim = {len(dense)}",
            {"indices": tuple(index.shape), "values": tuple(entries.shape), "size": shape},
        )
    for axis in range(sparse_dim):
        if lowest[axis] < 0:
            raise ShapeError(
                "sparse_coo_tensor", f"found negative index {lowest[axis]} for dim {axis}",
                {"size": shape},
            )  # fmt: skip
        if highest[axis] >= shape[axis]:
            raise ShapeError(
                "sparse_coo_tensor",
                f"size is inconsistent with indices: for dim {axis}, size is {shape[axis]} but "
                f"found index {highest[axis]}",
                {"size": shape},
            )
    if shape[sparse_dim:] != dense:
        raise ShapeError(
            "sparse_coo_tensor", "the dense axes of values do not have the sizes given",
            {"values": tuple(entries.shape), "size": shape},
        )  # fmt: skip
    return shape


def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Sequence[int] | None = None, *,
    dtype: DTypeLike = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, check_invariants: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A sparse matrix by compressed rows: row i has the elements crow[i] to crow[i + 1].

    Args:
        crow_indices: where each row begins, of shape (rows + 1).
        col_indices: the column of each element, of shape (n), sorted within a row.
        values: of shape (n).
        size: (rows, columns); by default the smallest.

    Raises: ShapeError, DTypeError: the arguments do not fit each other.

    >>> sparse_csr_tensor([0, 1, 2], [2, 0], [3.0, 4.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    return sparse_compressed_tensor(
        crow_indices, col_indices, values, size, dtype=dtype, layout=sparse_csr, device=device,
        requires_grad=requires_grad,
    )  # fmt: skip


def sparse_csc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Sequence[int] | None = None, *,
    dtype: DTypeLike = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, check_invariants: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A sparse matrix by compressed columns: column j has the elements ccol[j] to ccol[j + 1].

    Args: as for `sparse_csr_tensor`, with rows and columns exchanged.

    >>> sparse_csc_tensor([0, 1, 2], [1, 0], [4.0, 3.0], (2, 2)).to_dense()
    tensor([[0., 3.],
            [4., 0.]])
    """
    return sparse_compressed_tensor(
        ccol_indices, row_indices, values, size, dtype=dtype, layout=sparse_csc, device=device,
        requires_grad=requires_grad,
    )  # fmt: skip


def sparse_compressed_tensor(
    compressed_indices: Any, plain_indices: Any, values: Any, size: Sequence[int] | None = None, *,
    dtype: DTypeLike = None, layout: Layout | None = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A sparse matrix by compressed rows or columns: see `sparse_csr_tensor`.

    Args:
        layout: `sparse_csr` or `sparse_csc`.

    >>> sparse_compressed_tensor([0, 1], [1], [3.0], layout=sparse_csr).to_dense()
    tensor([[0., 3.]])
    """
    if layout not in (sparse_csr, sparse_csc):
        raise ArgumentError(
            "sparse_compressed_tensor", f"expected layout to be torch.sparse_csr or "
            f"torch.sparse_csc, got {layout}",
        )  # fmt: skip
    by_row = layout is sparse_csr
    names = ("crow_indices", "col_indices") if by_row else ("ccol_indices", "row_indices")
    entries = as_values(values, dtype, device, requires_grad)
    pointers = as_indices(names[0], compressed_indices, entries)
    plain = as_indices(names[1], plain_indices, entries)
    if pointers.ndim != 1 or plain.ndim != 1 or entries.ndim != 1 or not pointers.size:
        raise ShapeError(
            str(layout)[6:] + "_tensor", "a matrix has indices and values of one axis",
            {
                names[0]: pointers.shape, names[1]: plain.shape, "values": tuple(entries.shape),
            },
        )  # fmt: skip
    lines, width = pointers.shape[0] - 1, int(plain.max()) + 1 if plain.size else 0
    if size is not None:
        sizes = tuple(size) if by_row else tuple(size)[::-1]
        if len(sizes) != 2:
            raise ShapeError(f"{layout}", "a compressed tensor has two axes", {"size": tuple(size)})
        check_compressed(names, pointers, plain, entries, sizes, by_row)
        lines, width = sizes
    else:
        check_compressed(names, pointers, plain, entries, (lines, width), by_row)
    xp = backends.of(pointers).xp
    line = xp.repeat(xp.arange(lines), xp.diff(pointers))
    indices = xp.stack((line, plain) if by_row else (plain, line))
    shape = (lines, width) if by_row else (width, lines)
    return make_sparse(Pattern(indices, shape, is_coalesced=by_row), entries, layout)


def check_compressed(
    names: tuple[str, str], pointers: Any, plain: Any, entries: Tensor, sizes: tuple[int, ...],
    by_row: bool,
) -> None:  # fmt: skip
    """Raise ShapeError if compressed indices do not describe a matrix of these sizes."""
    compressed_name, plain_name = names
    title = "sparse_csr_tensor" if by_row else "sparse_csc_tensor"
    lines, line_word, plain_word = (
        sizes[0], "rows" if by_row else "columns", "ncols" if by_row else "nrows",
    )  # fmt: skip
    count = entries.shape[0]
    steps = pointers[1:] - pointers[:-1]
    rising = bool((steps >= 0).all()) and int(pointers[0]) == 0 and int(pointers[-1]) == count
    new_line = backends.of(pointers).xp.zeros(max(count, 1), "bool")
    if rising and count:
        new_line[pointers[:-1][steps > 0]] = True
    problems = [
        (
            pointers.shape[0] != lines + 1,
            f"{compressed_name}.shape[-1] must be equal to the number of {line_word} + 1 "
            f"(={lines + 1}), but got {pointers.shape[0]}",
        ),
        (
            plain.shape[0] != count,
            f"{plain_name}.shape[-1] must be equal to nnz (={count}) as defined by "
            f"values.shape[0], but got {plain.shape[0]}",
        ),
        (int(pointers[0]) != 0, f"`{compressed_name}[..., 0] == 0` is not satisfied."),
        (int(pointers[-1]) != count, f"`{compressed_name}[..., -1] == nnz` is not satisfied."),
        (not rising, f"`{compressed_name}` must not decrease."),
        (
            bool(plain.size) and (int(plain.min()) < 0 or int(plain.max()) >= sizes[1]),
            f"`0 <= {plain_name} < {plain_word}` is not satisfied.",
        ),
    ]
    for is_wrong, message in problems:
        if is_wrong:
            raise ShapeError(title, message, {"size": sizes if by_row else sizes[::-1]})
    # Within a line each index is larger than the one before it.
    if bool(((plain[1:] <= plain[:-1]) & ~new_line[1 : max(count, 1)]).any()):
        raise ShapeError(
            title, f"`{plain_name}` of each line must be sorted and distinct.",
            {plain_name: tuple(plain.shape)}, "sparse_coo_tensor takes them in any order",
        )  # fmt: skip


def as_values(values: Any, dtype: DTypeLike, device: Any, requires_grad: bool) -> Tensor:
    """Return the values as a tensor of its own: a leaf, or one with a history."""
    if not isinstance(values, Tensor):
        return tensor(values, dtype=dtype, device=device, requires_grad=requires_grad)
    if values.layout is not strided:
        raise ArgumentError("sparse", "expected dense values", {"values": values.layout})
    entries = as_tensor(values, dtype=dtype, device=device)
    if requires_grad:  # as PyTorch does: a leaf, whatever the values were computed from
        return entries.detach().requires_grad_()
    return attach_values(entries) if entries._node is LEAF else entries


@recorded_as("SparseCooTensorWithDimsAndTensorsBackward0")
def attach_values(values: Tensor) -> Tensor:
    """Return the values of a sparse tensor that is computed from a leaf."""
    return values.view_as(values)  # type: ignore[attr-defined]


def as_indices(name: str, indices: Any, like: Tensor) -> Any:
    """Return indices as an array of int64, on the device of the values.

    Raises: DTypeError: they are not integers.
    """
    if not isinstance(indices, Tensor):
        indices = tensor(indices)
        if not indices.numel():
            indices = indices.long()
    if indices.dtype.category != 1:
        raise DTypeError(
            "sparse", f"{name} must be an int64 tensor", {name: indices.dtype}, "use x.long()"
        )
    return as_tensor(indices, device=like.device).long()._array


# From files -----------------------------------------------------------------------------


def from_coordinates(
    indices: Tensor, values: Tensor, size: Sequence[int], is_coalesced: bool, layout: str
) -> Tensor:
    """Return the sparse tensor that a file describes by its coordinates, whatever its layout.

    Raises: ShapeError: indices that are said to be sorted are not, or do not fit the size.
    """
    sparse = sparse_coo_tensor(indices, values, size)
    if is_coalesced:
        keys = sparse.pattern.keys
        if not bool((keys[1:] > keys[:-1]).all()):
            raise ShapeError("sparse", "indices that are said to be coalesced are not")
        sparse.pattern.is_coalesced = True
    return sparse.to_sparse(layout={"sparse_csr": sparse_csr, "sparse_csc": sparse_csc}.get(layout))


def from_torch_file(layout: str, data: Any) -> Tensor:
    """Return the sparse tensor that PyTorch has written: its layout and its parts."""
    if layout == "sparse_coo":
        indices, values, size, *flags = data
        return from_coordinates(indices, values, size, flags == [True], layout)
    compressed, plain, values, size = data
    chosen = sparse_csr if layout == "sparse_csr" else sparse_csc
    return sparse_compressed_tensor(compressed, plain, values, size, layout=chosen)
