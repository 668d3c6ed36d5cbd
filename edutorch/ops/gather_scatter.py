"""Gather and scatter along one axis by an index tensor."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from numpy import maximum, ndarray, uint64

from .. import backends, dtypes
from ..backends.numpy import Array, ArrayOrTensor, Namespace, put_at
from ..backends.pending_checks import check_later, clamped
from ..core.composed import as_method, recorded_as, takes_out
from ..core.op import op
from ..core.shapes import broadcast_shapes, normal_dim
from ..core.tensor import Tensor
from ..errors import ArgumentError, DimError, DTypeError, ShapeError
from .conversion import scalar_array
from .creation import ones_like, zeros_like
from .from_data import scalar_like
from .indexing import (
    Index,
    as_index,
    can_repeat,
    checked_on_device,
    getitem,
    index_put_forward,
    is_mask,
)
from .masking import masked_fill, where
from .reduction import sum
from .views import expand, reshape

__all__ = [
    "gather", "index_add", "index_copy", "index_fill", "index_put", "index_select", "scatter_add",
    "take", "take_along_dim",
]  # fmt: skip


def index_array(name: str, index: Index) -> Array:
    """Return the array of an index tensor.

    Raises: DTypeError: it is not of an integer dtype.
    """
    array = index._array if isinstance(index, Tensor) else index
    if array.dtype.kind not in "iu":
        raise DTypeError(
            name, "expected the index to be int64", {"index": array.dtype}, "use index.long()"
        )
    return array


def index_along(index: Array, dim: int) -> tuple[Array, ...]:
    """Return the full index that gathers `index` along `dim`, and the other axes in place."""
    if index.__class__ is ndarray and max(index.shape, default=0) <= SMALL:
        grid = grid_of(index.shape)
    else:
        grid = make_grid(backends.of(index).xp, index.shape)
    return (*grid[:dim], index, *grid[dim + 1 :])


SMALL = 256
"""Up to this size of an axis, the positions along it are kept for the next call."""


@functools.lru_cache(maxsize=64)
def grid_of(shape: tuple[int, ...]) -> tuple[Array, ...]:
    """Return `make_grid` of NumPy, kept; its arrays are read-only."""
    grid = make_grid(backends.CPU.xp, shape)
    for positions in grid:
        positions.flags.writeable = False
    return grid


def make_grid(xp: Namespace, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """Return the positions along each axis, in shapes that broadcast to `shape`."""
    return tuple(
        xp.arange(size).reshape((-1,) + (1,) * (len(shape) - axis - 1))
        for axis, size in enumerate(shape)
    )


def is_below(index: Array, size: int) -> bool:
    """Return True if the elements of an int64 index of the host are from 0 to size - 1.

    One pass checks both ends: a negative integer, viewed as unsigned, is huge.
    """
    return not index.size or bool(maximum.reduce(index.view(uint64), axis=None) < size)


def checked_range(name: str, index: Array, size: int, lowest: int = 0) -> Array:
    """Return an index whose elements are in range; negative ones are not, unlike in NumPy.

    On a device that computes beside the host it is only known later (`pending_checks.py`).

    Args:
        lowest: the lowest valid index.

    Raises: DimError: one is out of range.
    """

    def error(wrong: int) -> DimError:
        return DimError(
            name, f"index {wrong} is out of bounds for a dimension of size {size}",
            hint=f"valid indices are {lowest} to {size - 1}" if size else "it has no elements",
        )  # fmt: skip

    if index.__class__ is ndarray and index.dtype == dtypes.int64.numpy and not lowest:
        if is_below(index, size):
            return index
    elif not index.size or not backends.has_elements(index):
        return index
    backend = backends.of(index)
    if size and backend.checks_later:
        return check_later(backend, name, index, lowest, size - 1, error)
    if not lowest <= index.min() <= index.max() < size:
        raise error(int(index.max() if int(index.min()) >= lowest else index.min()))
    return index


def kept_in_range(index: Array, size: int) -> Array:
    """Return an index that was checked before; what a device has still to report is clamped."""
    backend = backends.of(index)
    if not size or not backend.checks_later:
        return index
    return clamped(backend, index, 0, size - 1)


@op(out=True)
def gather(
    xp: Namespace, input: Array, dim: int, index: Index, *, sparse_grad: bool = False
) -> Array:
    """Gather along `dim`: y[i, j] = input[index[i, j], j] for dim = 0, and so on.

    (`sparse_grad` is accepted; every gradient is dense here.)

    >>> gather(tensor([[1, 2], [3, 4]]), 1, tensor([[0], [1]]))
    tensor([[1],
            [4]])
    """
    if 0 in getattr(index, "shape", ()):  # of any dtype and ndim, as in PyTorch
        return input.reshape(-1)[:0].reshape(index.shape)
    index = index_array("gather", index)
    dim = normal_dim("gather", dim, input.ndim)
    if input.ndim < 2 > index.ndim:  # a 0-d tensor counts as a vector of one element
        row = input.reshape(-1)
        return row[checked_range("gather", index, row.shape[0])]
    check_fit("gather", dim, input, index)
    index = checked_range("gather", index, input.shape[dim])
    return input[index_along(index, dim)]


def _gather_rule(g: ArrayOrTensor, input_shape: tuple[int, ...], dim: int, index: Index) -> Any:
    if 0 in index.shape:
        return expand(sum(g), input_shape)
    index = index_array("gather", index)
    if len(input_shape) < 2:
        return reshape(index_put_forward(g, (index,), (math.prod(input_shape),)), input_shape)
    return index_put_forward(g, index_along(index, dim % len(input_shape)), input_shape)


gather.vjp(
    input=_gather_rule,
    latex=r"g\ \text{added where it was picked}",
)


@op(promotion="same", node="ScatterBackward0 if src.__class__ is Tensor else ScatterBackward1")
def scatter(
    xp: Namespace, input: Array, dim: int, index: Index, src: Array | float | None = None, *,
    value: float | None = None,
) -> Array:  # fmt: skip
    """A copy of `input` with src scattered along `dim`: y[index[i, j], j] = src[i, j] for dim = 0.

    `src` may be a scalar, in PyTorch the argument `value`.

    >>> scatter(zeros(2, 2), 1, tensor([[1], [0]]), tensor([[5.0], [6.0]]))
    tensor([[0., 5.],
            [6., 0.]])
    """
    src = value if src is None else src
    if src is None:
        raise ArgumentError("scatter", "give `src`, a tensor, or `value`, a number")
    index = index_array("scatter", index)
    dim = normal_dim("scatter", dim, input.ndim)
    y = input.copy()
    row = y if y.ndim else y.reshape(1)
    check_fit("scatter", dim, input, index, src)
    index = checked_range("scatter", index, row.shape[dim])
    if not hasattr(src, "dtype"):
        src = scalar_like("scatter", src, y)
    row[index_along(index, dim) if y.ndim else index] = used_part(src, index.shape)
    return y


scatter.vjp(
    input=lambda g, dim, index: scatter(g, dim, index, zeros_like(gather(g, dim, index))),
    src=lambda g, src_shape, dim, index: gather_source_gradient(g, src_shape, index, dim),
    latex={"input": r"g\ \text{outside the index}", "src": r"g[index]"},
)


def check_fit(name: str, dim: int, input: Array, index: Array, src: Any = None) -> None:
    """Raise ShapeError unless an index fits: as many dimensions, and no larger than src and input.

    Along `dim` it may be larger than `input`. A 0-d tensor counts as a vector of one element, and
    a 0-d `src` is one value for all positions.
    """
    if input.shape == index.shape and getattr(src, "shape", ()) in ((), index.shape):
        return  # the usual case, without its rows of an error
    arrays = {"input": input, "index": index} | ({"src": src} if getattr(src, "ndim", 0) else {})
    shapes = {label: tuple(array.shape) or (1,) for label, array in arrays.items()}
    wanted = shapes.pop("index")
    if not index.size or all(shape == wanted for shape in shapes.values()):
        return
    rows = {label: tuple(array.shape) for label, array in arrays.items()}
    if any(len(shape) != len(wanted) for shape in shapes.values()):
        both = "index must have as many dimensions as input"
        all_of_them = f"{', '.join(rows)} must have as many dimensions"
        raise ShapeError(name, all_of_them if len(rows) > 2 else both, rows)
    for label, shape in shapes.items():
        for axis, (size, most) in enumerate(zip(wanted, shape, strict=True)):
            if size > most and not (label == "input" and axis == dim):
                raise ShapeError(
                    name, f"index must be no larger than {label} along dim {axis}: "
                    f"it has {size} rows there, {label} has {most}", rows,
                )  # fmt: skip


def used_part(src: ArrayOrTensor, shape: tuple[int, ...]) -> Any:
    """The part of `src` that an index of `shape` uses."""
    return src[tuple(slice(size) for size in shape)] if getattr(src, "ndim", 0) else src


def gather_source_gradient(g: ArrayOrTensor, shape: tuple[int, ...], index: Index, dim: int) -> Any:
    """The gradient of `src`: g at the index, zeros for elements that were not used."""
    picked = gather(g, dim, index)
    if tuple(picked.shape) == tuple(shape):
        return picked
    return index_put_forward(picked, tuple(slice(size) for size in picked.shape), shape)


@op(promotion="same", out=True)
def scatter_add(xp: Namespace, input: Array, dim: int, index: Index, src: Array) -> Array:
    """A copy of `input` with src added along `dim`; repeated indices accumulate.

    >>> scatter_add(zeros(2), 0, tensor([1, 1]), tensor([5.0, 6.0]))
    tensor([ 0., 11.])
    """
    index = index_array("scatter_add", index)
    dim = normal_dim("scatter_add", dim, input.ndim)
    y = input.copy()
    row = y if y.ndim else y.reshape(1)
    check_fit("scatter_add", dim, input, index, src)
    index = checked_range("scatter_add", index, row.shape[dim])
    where = index_along(index, dim) if y.ndim else (index,)
    backends.of(y).scatter_add(row, where, used_part(src, index.shape))
    return y


scatter_add.vjp(
    input=lambda g: g,
    src=lambda g, src_shape, dim, index: gather_source_gradient(g, src_shape, index, dim),
    latex={"input": r"g", "src": r"g[index]"},
)


@as_method
@takes_out
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """Gather along `dim`; the other axes broadcast. Applies the indices of argsort.

    Negative indices count from the end. (Indices out of range are errors; PyTorch wraps them.)

    >>> x = tensor([[3, 1, 2]]); take_along_dim(x, argsort(x, 1), 1)
    tensor([[1, 2, 3]])
    """
    if dim is None:
        return take_along_dim(input.reshape(-1), indices.reshape(-1), 0)
    dim = normal_dim("take_along_dim", dim, input.ndim)
    index_array("take_along_dim", indices)
    if indices.numel():
        indices = where(indices < 0, indices + input.shape[dim], indices)
    one = [*input.shape[:dim], 1, *input.shape[dim + 1 :]]
    shape = broadcast_shapes(one, (*indices.shape[:dim], 1, *indices.shape[dim + 1 :]))

    def spread(x: Tensor) -> Tensor:
        full = (*shape[:dim], x.shape[dim], *shape[dim + 1 :])
        return x if tuple(x.shape) == full else x.expand(full)

    return gather(spread(input), dim, spread(indices))


@as_method
@takes_out
@recorded_as("TakeBackward0")
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements at indices into the flattened tensor.

    >>> take(tensor([[1, 2], [3, 4]]), tensor([3, 0]))
    tensor([4, 1])
    """
    return input.reshape(-1)[index]


# Whole slices -------------------------------------------------------------------------------


@op(out=True)
def index_select(xp: Namespace, input: Array, dim: int, index: Index) -> Array:
    """Slices along `dim`, in the order of `index`.

    >>> index_select(tensor([10, 20, 30]), 0, tensor([2, 0]))
    tensor([30, 10])
    """
    index = index_array("index_select", index)
    dim = normal_dim("index_select", dim, input.ndim)
    if index.ndim > 1:
        raise ShapeError(
            "index_select", "index is supposed to be a vector", {"index": index.shape},
            "use x[index] to pick by a tensor of any shape",
        )  # fmt: skip
    row = input if input.ndim else input.reshape(1)
    index = checked_range("index_select", index, row.shape[dim])
    y = row.take(index if index.ndim else index.reshape(1), axis=dim)
    return y if input.ndim else y.reshape(())


def _index_select_rule(
    g: ArrayOrTensor, input_shape: tuple[int, ...], dim: int, index: Index
) -> Any:
    if not input_shape:
        return g
    where = reshape(index_array("index_select", index), (-1,))
    return index_put_forward(g, (slice(None),) * (dim % len(input_shape)) + (where,), input_shape)


index_select.vjp(
    input=_index_select_rule,
    latex=r"g\ \text{added where it was picked}",
)


def slice_index(
    dim: int, index: Index, input: Array, name: str, from_end: bool = False
) -> tuple[Array, tuple[Any, ...]]:
    """Return the array (0-d as a vector of one element) and the full index of slices along `dim`.

    Args:
        from_end: whether negative indices count from the end.

    Raises: ShapeError: the index is not a vector. DimError: no such dim, no such slice.
    """
    row = input if input.ndim else input.reshape(1)
    dim = normal_dim(name, dim, row.ndim)
    index = index_array(name, index)
    if index.ndim > 1:
        raise ShapeError(name, "index is supposed to be a vector", {"index": index.shape})
    index = index.reshape(-1)
    size = row.shape[dim]
    index = checked_range(name, index, size, -size if from_end else 0)
    return row, (slice(None),) * dim + (index,)


def check_source(name: str, input: Array, source: Array, dim: int, index: Index) -> None:
    """Raise ShapeError unless `source` has a slice for each element of the index."""
    if (
        source.ndim != input.ndim
        and (source.ndim or input.ndim > 1)
        and source.ndim + input.ndim > 1
    ):
        raise ShapeError(
            name, "source and input must have as many dimensions",
            {"input": input.shape, "source": source.shape},
        )  # fmt: skip
    count = index_array(name, index).size
    if source.ndim and source.shape[dim] != count:
        raise ShapeError(
            name, f"index has {count} numbers, source {source.shape[dim]} slices along dim {dim}",
            {"input": input.shape, "source": source.shape},
        )  # fmt: skip
    check_slices(name, tuple(input.shape), tuple(source.shape), dim)


def check_slices(name: str, input_shape: Sequence[int], shape: Sequence[int], dim: int) -> None:
    """Raise ShapeError unless the slices of `source` along `dim` are as those of `input`."""
    pairs = enumerate(zip(input_shape, shape, strict=False))
    if any(a != b for axis, (a, b) in pairs if axis != dim % max(len(shape), 1)):
        raise ShapeError(
            name, f"but for dim {dim} the shapes of source and input must be equal",
            {"input": tuple(input_shape), "source": tuple(shape)},
        )  # fmt: skip


@op(out=True, promotion="same")
def index_add(
    xp: Namespace, input: Array, dim: int, index: Index, source: Array, *, alpha: float = 1
) -> Array:
    """A copy of `input` with the slices of alpha · source added along `dim` at `index`.

    >>> index_add(zeros(2), 0, tensor([1, 1]), tensor([5.0, 6.0]))
    tensor([ 0., 11.])
    """
    y = input.copy()
    row, where = slice_index(dim, index, y, "index_add")
    check_source("index_add", y, source, dim, index)
    values = source if alpha == 1 else source * xp.asarray(alpha).astype(source.dtype)
    backends.of(y).scatter_add(row, where, values)
    return y


index_add.vjp(
    input=lambda g: g,
    source=lambda g, dim, index, alpha: scaled(index_select(g, dim, index), alpha),
    latex={"input": r"g", "source": r"\alpha\,g[index]"},
)


def scaled(values: ArrayOrTensor, factor: float) -> Any:
    return values if factor == 1 else values * factor


@op(out=True, promotion="same")
def index_copy(xp: Namespace, input: Array, dim: int, index: Index, source: Array) -> Array:
    """A copy of `input` with the slices of `source` along `dim` at `index`.

    >>> index_copy(zeros(2), 0, tensor([1]), tensor([5.0]))
    tensor([0., 5.])
    """
    y = input.copy()
    row, where = slice_index(dim, index, y, "index_copy")
    check_source("index_copy", y, source, dim, index)
    row[where] = source
    return y


index_copy.vjp(
    input=lambda g, dim, index: index_fill(g, dim, index, 0.0),
    source=lambda g, dim, index: index_select(g, dim, index),
    latex={"input": r"g\ \text{outside the index}", "source": r"g[index]"},
)


@op(node="IndexFillBackward1 if value.__class__ is Tensor else IndexFillBackward0")
def index_fill(xp: Namespace, input: Array, dim: int, index: Index, value: Array | float) -> Array:
    """A copy of `input` with `value` in the slices along `dim` at `index`.

    >>> index_fill(zeros(3), 0, tensor([0, 2]), 7.0)
    tensor([7., 0., 7.])
    """
    hint = "index_copy takes a slice of its own for each position"
    y = input.copy()
    row, where = slice_index(dim, index, y, "index_fill", from_end=True)
    row[where] = scalar_array(xp, "index_fill", input, value, hint)
    return y


def _index_fill_value_rule(g: ArrayOrTensor, dim: int, index: Index) -> Any:
    """g at the index and 0 elsewhere; a repeated index counts once."""
    outside = index_fill(ones_like(g, dtype=dtypes.bool), dim, index, False)
    return masked_fill(g, outside, 0)


index_fill.vjp(
    input=lambda g, dim, index: index_fill(g, dim, index, 0.0),
    value=_index_fill_value_rule,
    latex={"input": r"g\ \text{outside the index}", "value": r"\sum g[index]"},
)


@op()
def index_put(
    xp: Namespace, input: Array, indices: Index, values: Array, accumulate: bool = False
) -> Array:
    """A copy of `input` with `values` at `indices`, one tensor per axis; or added there.

    >>> index_put(zeros(3), (tensor([0, 0]),), tensor([5.0, 6.0]), accumulate=True)
    tensor([11.,  0.,  0.])
    """
    if type(None) in map(type, indices):
        raise TypeError("expected a tensor for each axis; leave out the last axes, not the first")
    if values.dtype != input.dtype:
        raise DTypeError(
            "index_put", "Index put requires the source and destination dtypes match",
            {"input": str(input.dtype), "values": str(values.dtype)},
            "convert the values, for example with .to(x.dtype)",
        )  # fmt: skip
    y = input.copy()
    index = checked_on_device(as_index(tuple(indices)), y)
    if not accumulate:
        put_at(y, index, values)
    elif can_repeat(index):
        backends.of(y).scatter_add(y, index, values)
    else:
        y[index] += values
    return y


def clear_at(g: ArrayOrTensor, indices: Index) -> ArrayOrTensor:
    """Return a copy of `g` with 0 at indices, one for each axis."""
    if len(indices) == 1 and is_mask(indices[0]) and indices[0].ndim == g.ndim:
        return masked_fill(g, indices[0], 0)
    return index_put(g, indices, zeros_like(getitem(g, as_index(tuple(indices)))))


index_put.vjp(
    input=lambda g, indices, accumulate: g if accumulate else clear_at(g, indices),
    values=lambda g, indices: getitem(g, as_index(tuple(indices))),
    latex={"input": r"g\ \text{outside the index}", "values": r"g[index]"},
)
