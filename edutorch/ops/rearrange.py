"""Flips, rolls, repeats, triangles, diagonals and grids: copies, not views."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import backends, dtypes
from ..backends.device import DeviceLike, backend_for
from ..backends.numpy import Array, Namespace
from ..core.composed import as_method, recorded_as, takes_out
from ..core.error_messages import check_memory
from ..core.op import op
from ..core.shapes import broadcast_shapes, distinct_dims, normal_dim
from ..core.storage import layout
from ..core.tensor import Tensor
from ..dtypes import DTypeLike
from ..errors import InvalidValueError, ShapeError
from .creation import require_strided, wrap_new
from .from_data import tensor
from .gather_scatter import index_select
from .indexing import index_put_forward
from .joining import stack
from .reduction import sum
from .views import as_strided, diagonal, diagonal_index, reshape

__all__ = [
    "broadcast_tensors", "cartesian_prod", "combinations", "diag", "diag_embed", "diagflat", "flip",
    "fliplr", "flipud", "meshgrid", "repeat_interleave", "roll", "rot90", "tile", "tril",
    "tril_indices", "triu", "triu_indices",
]  # fmt: skip


@op(linear=True)
def flip(xp: Namespace, input: Array, dims: Sequence[int]) -> Array:
    """The order along some axes reversed.

    >>> flip(tensor([1, 2, 3]), (0,))
    tensor([3, 2, 1])
    """
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    row = input if input.ndim else input.reshape(1)  # 0-d counts as a vector of one element
    return xp.flip(row, dims).copy().reshape(input.shape)


flip.vjp(input=lambda g, dims: flip(g, dims), latex=r"\mathrm{flip}(g)")


@op(linear=True)
def roll(xp: Namespace, input: Array, shifts: Any, dims: Any = None) -> Array:
    """Elements shifted cyclically along axes.

    >>> roll(tensor([1, 2, 3]), 1)
    tensor([3, 1, 2])
    """
    shift_list = shifts if isinstance(shifts, tuple | list) else (shifts,)
    count = 1 if dims is None else len(dims) if isinstance(dims, tuple | list) else 1
    if len(shift_list) != count:
        raise ShapeError(
            "roll", "needs a shift for each dim, or one shift and no dims",
            {"shifts": shifts, "dims": dims},
        )  # fmt: skip
    return xp.roll(input, shifts, dims)


roll.vjp(
    input=lambda g, shifts, dims: roll(
        g, -shifts if isinstance(shifts, int) else tuple(-shift for shift in shifts), dims
    ),
    latex=r"\mathrm{roll}(g, -s)",
)


@op(linear=True, out=True)
def tril(xp: Namespace, input: Array, diagonal: int = 0) -> Array:
    """The lower triangle of each matrix; zeros above the diagonal.

    >>> tril(tensor([[1, 2], [3, 4]]))
    tensor([[1, 0],
            [3, 4]])
    """
    check_at_least_matrix("tril", input)
    return xp.tril(input, diagonal)


def check_at_least_matrix(name: str, input: Array) -> None:
    if input.ndim < 2:
        raise ShapeError(name, "needs at least 2 dimensions", {"input": tuple(input.shape)})


tril.vjp(input=lambda g, diagonal: tril(g, diagonal), latex=r"\mathrm{tril}(g)")


@op(linear=True, out=True)
def triu(xp: Namespace, input: Array, diagonal: int = 0) -> Array:
    """The upper triangle of each matrix; zeros below the diagonal.

    >>> triu(tensor([[1, 2], [3, 4]]))
    tensor([[1, 2],
            [0, 4]])
    """
    check_at_least_matrix("triu", input)
    return xp.triu(input, diagonal)


triu.vjp(input=lambda g, diagonal: triu(g, diagonal), latex=r"\mathrm{triu}(g)")


@op(linear=True)
def repeat(xp: Namespace, input: Array, repeats: Sequence[int]) -> Array:
    """The tensor repeated along each axis (new axes come first).

    >>> repeat(tensor([1, 2]), (2, 2))
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    if len(repeats) < input.ndim:
        raise ShapeError(
            "repeat", "needs a number for each dimension",
            {"input": input.shape, "repeats": tuple(repeats)},
        )  # fmt: skip
    added = len(repeats) - input.ndim
    sizes = (1,) * added + tuple(input.shape)
    check_memory(
        "repeat", [size * times for size, times in zip(sizes, repeats, strict=True)], input,
        xp,
    )  # fmt: skip
    return xp.tile(input, tuple(repeats))


repeat.vjp(
    input=lambda g, input_shape, repeats: sum(
        reshape(g, interleave(repeats, pad_shape(input_shape, len(repeats)))),
        tuple(range(0, 2 * len(repeats), 2)),
    ),
    latex=r"\textstyle\sum g\ \text{over copies}",
)


def pad_shape(shape: Sequence[int], ndim: int) -> tuple[int, ...]:
    """Prepend sizes of 1 up to `ndim`."""
    return (1,) * (ndim - len(shape)) + tuple(shape)


def interleave(first: Sequence[int], second: Sequence[int]) -> tuple[int, ...]:
    return tuple(value for pair in zip(first, second, strict=True) for value in pair)


@as_method
def tile(input: Tensor, dims: Sequence[int]) -> Tensor:
    """The tensor repeated along each axis; missing leading repeats are 1.

    >>> tile(tensor([[1, 2]]), (2,))
    tensor([[1, 2, 1, 2]])
    """
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    return repeat(input, (1,) * (input.ndim - len(dims)) + dims)


@as_method
def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element (or slice along `dim`) repeated consecutively.

    `repeats` is an integer, or a tensor with one per element; given alone, it is how often
    each of 0, 1, 2, … occurs. `output_size` is ignored: PyTorch needs it on the GPU.

    >>> repeat_interleave(tensor([1, 2]), 2), repeat_interleave(tensor([1, 2]), tensor([0, 3]))
    (tensor([1, 1, 2, 2]), tensor([2, 2, 2]))
    """
    if repeats is None:
        input, repeats = _positions_like(input, np.arange(input.numel(), dtype=np.int64)), input
    if dim is None:
        input, dim = input.reshape(-1), 0
    shape = input._array.shape
    dim = normal_dim("repeat_interleave", dim, len(shape))
    counts = repeats.tolist() if isinstance(repeats, Tensor) else repeats
    total = int(np.sum(counts)) if isinstance(counts, list) else counts * shape[dim]
    if input.is_meta:
        return input.index_select(dim, input.new_empty(total, dtype=dtypes.int64))
    check_memory("repeat_interleave", (total,), np.dtype(np.int64))
    positions = np.arange(shape[dim], dtype=np.int64).repeat(counts)
    return input.index_select(dim, _positions_like(input, positions))


def _positions_like(input: Tensor, positions: np.ndarray) -> Tensor:
    """Move positions computed on the host to the device of a tensor."""
    return wrap_new(backends.of(input._array).from_numpy(positions))


def check_min_dims(name: str, input: Tensor, least: int) -> None:
    if input.ndim < least:
        raise ShapeError(
            name, f"needs at least {least} dimension{'s' * (least > 1)}",
            {"input": tuple(input.shape)},
        )  # fmt: skip


@as_method
def fliplr(input: Tensor) -> Tensor:
    """The order along axis 1 reversed.

    >>> fliplr(tensor([[1, 2], [3, 4]]))
    tensor([[2, 1],
            [4, 3]])
    """
    check_min_dims("fliplr", input, 2)
    return flip(input, (1,))


@as_method
def flipud(input: Tensor) -> Tensor:
    """The order along axis 0 reversed.

    >>> flipud(tensor([[1, 2], [3, 4]]))
    tensor([[3, 4],
            [1, 2]])
    """
    check_min_dims("flipud", input, 1)
    return flip(input, (0,))


@as_method
@recorded_as("Rot90Backward0")
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Rotate by k · 90° in the plane of two axes, from the first towards the second.

    >>> rot90(tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    check_min_dims("rot90", input, 2)
    plane = distinct_dims("rot90", dims, input.ndim)
    if len(plane) != 2:
        raise ShapeError("rot90", f"needs 2 dims, those of the plane, got {len(plane)}")
    first, second = plane
    if k % 4 == 0:
        return input.clone()
    if k % 4 == 2:
        return flip(input, (first, second))
    flipped = flip(input, (second if k % 4 == 1 else first,))
    return flipped.transpose(first, second)


@as_method
@recorded_as("UnfoldBackward0")
def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Sliding windows along an axis, `step` apart, as a new last axis (`Tensor.unfold`).

    The result is a view; windows may overlap.

    >>> unfold(arange(5), 0, 3, 2)
    tensor([[0, 1, 2],
            [2, 3, 4]])
    """
    dim = normal_dim("unfold", dimension, input.ndim)
    axis_size = input.shape[dim] if input.ndim else 1
    if step <= 0 or not 0 <= size <= axis_size:
        raise ShapeError(
            "unfold", f"windows of {size}, {step} apart, do not fit into axis {dim}",
            {"input": tuple(input.shape)},
        )  # fmt: skip
    if not input.ndim:
        return as_strided(input, (size,), (1,))
    shape, steps = list(input.shape), list(input.stride())
    shape[dim] = (axis_size - size) // step + 1
    steps.append(steps[dim])
    steps[dim] *= step
    return as_strided(input, (*shape, size), steps)


# Diagonals and grids ---------------------------------------------------------------------


@op(linear=True)
def diag_embed(
    xp: Namespace, input: Array, offset: int = 0, dim1: int = -2, dim2: int = -1
) -> Array:
    """Matrices of zeros with the last axis of `input` on their diagonals.

    >>> diag_embed(tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    dim1, dim2 = distinct_dims("diag_embed", (dim1, dim2), input.ndim + 1)
    size = input.shape[-1] + abs(offset)
    shape = list(input.shape[:-1])
    for axis in sorted((dim1, dim2)):
        shape.insert(axis, size)
    return index_put_forward.op.forward(
        xp, input, diagonal_index(shape, offset, dim1, dim2), tuple(shape)
    )


diag_embed.vjp(
    input=lambda g, offset, dim1, dim2: diagonal(g, offset, dim1, dim2),
    latex=r"\mathrm{diagonal}(g)",
)


@as_method
@takes_out
@recorded_as(
    lambda input, *_, **__: "DiagEmbedBackward0" if input.ndim == 1 else "DiagonalBackward0_copy"
)
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix, or the matrix with a vector on its diagonal.

    >>> diag(tensor([[1, 2], [3, 4]])), diag(tensor([5]), 1)
    (tensor([1, 4]), tensor([[0, 5],
            [0, 0]]))
    """
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise ShapeError("diag", "expects a vector or a matrix", {"input": tuple(input.shape)})
    return input.diagonal(diagonal).clone()


@as_method
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix of zeros with the elements of a tensor on one of its diagonals.

    >>> diagflat(tensor([[1], [2]]))
    tensor([[1, 0],
            [0, 2]])
    """
    return diag_embed(input.reshape(-1), offset)


def _triangle_indices(
    function_name: str, row: int, col: int, offset: int, dtype: DTypeLike, layout: layout | None,
    device: DeviceLike,
) -> Tensor:  # fmt: skip
    require_strided(function_name, layout)
    rows, columns = getattr(np, function_name)(row, offset, col)
    array_dtype = np.int64 if dtype is None else dtypes.array_type(dtype)
    return wrap_new(backend_for(device).from_numpy(np.stack([rows, columns]).astype(array_dtype)))


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: DTypeLike = None, layout: layout | None = None,
    device: DeviceLike = None,
) -> Tensor:  # fmt: skip
    """The row and column indices of the lower triangle of a matrix.

    >>> tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return _triangle_indices("tril_indices", row, col, offset, dtype, layout, device)


def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: DTypeLike = None, layout: layout | None = None,
    device: DeviceLike = None,
) -> Tensor:  # fmt: skip
    """The row and column indices of the upper triangle of a matrix.

    >>> triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return _triangle_indices("triu_indices", row, col, offset, dtype, layout, device)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Grid coordinates: each vector expanded along the axes of the others.

    `indexing="xy"` exchanges the first two axes, as in plots.

    >>> meshgrid(tensor([1, 2]), tensor([3, 4]))[0]
    tensor([[1, 1],
            [2, 2]])
    """
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
    if indexing not in ("ij", "xy"):
        raise InvalidValueError("meshgrid", f"indexing must be 'ij' or 'xy', got {indexing!r}")
    shape = tuple(tensor.numel() for tensor in tensors)
    grids = [
        tensor.reshape((1,) * axis + (-1,) + (1,) * (len(shape) - axis - 1)).expand(shape)
        for axis, tensor in enumerate(tensors)
    ]
    if indexing == "xy" and len(shape) > 1:
        grids = [grid.transpose(0, 1) for grid in grids]
    return tuple(grids)


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All tensors expanded to their broadcast shape.

    >>> broadcast_tensors(tensor([1, 2]), tensor([[3]]))[1]
    tensor([[3, 3]])
    """
    shape = broadcast_shapes(*(tensor.shape for tensor in tensors))
    return tuple(tensor.expand(shape) for tensor in tensors)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of r elements of a vector, in its order, one per row.

    >>> combinations(tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    if input.ndim != 1:
        raise ShapeError("combinations", "expects a vector", {"input": tuple(input.shape)})
    if r < 0:
        raise InvalidValueError("combinations", f"r cannot be negative, got {r}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(input.shape[0]), r))
    positions = np.array(rows, np.int64).reshape(len(rows), r)
    if not r:
        return input.new_empty(0)
    elements = index_select(input, 0, tensor(positions.reshape(-1), device=input.device))
    return elements.reshape(len(rows), r)


def cartesian_prod(*tensors: Any) -> Tensor:
    """The Cartesian product of vectors, one combination per row.

    >>> cartesian_prod(tensor([1, 2]), tensor([5, 6]))
    tensor([[1, 5],
            [1, 6],
            [2, 5],
            [2, 6]])
    """
    vectors: Sequence[Tensor] = tensors[0] if isinstance(tensors[0], list | tuple) else tensors
    if any(vector.ndim != 1 for vector in vectors):
        rows = {f"tensor {i}": tuple(vector.shape) for i, vector in enumerate(vectors)}
        raise ShapeError("cartesian_prod", "expects vectors", rows)
    if len(vectors) == 1:
        return vectors[0]
    return stack(meshgrid(*vectors, indexing="ij"), -1).reshape(-1, len(vectors))
