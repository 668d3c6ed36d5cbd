"""Picking numbers by position, and putting numbers into positions.

Picking and putting are each other's derivative: the gradient of `x[index]` is put
back into zeros, adding up where an element was picked more than once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import backends
from ..backends.numpy import Array
from ..core.methods import as_method, refuse_leaf, same_past, set_history, write
from ..core.op import movement, op
from ..core.shapes import Size, normal_dim
from ..core.tensor import Tensor, wrap
from ..errors import DimError, DTypeError, ShapeError

Index = Any


def as_index(index: Any) -> Any:
    """Turn tensors inside an index into arrays, and lists into arrays of positions."""
    if isinstance(index, tuple):
        return tuple(as_index(each) for each in index)
    if isinstance(index, Tensor):
        if index._array.dtype.kind not in "iub":
            raise DTypeError(
                "index", "tensors used as indices must be integers or bools",
                {"index": index.dtype}, "use x.long()",
            )  # fmt: skip
        return index._array
    if isinstance(index, list):
        return np.asarray([as_index(each) for each in index], dtype=None if index else np.int64)
    return index


@movement
def getitem(xp: Any, input: Array, index: Index) -> Array:
    """The numbers at `index`: ints, slices, None, ..., bool masks and integer tensors.

    >>> getitem(tensor([[1, 2], [3, 4]]), (slice(None), 0))
    tensor([1, 3])
    """
    try:
        return input[on_device(index, input)]
    except IndexError as error:
        raise DimError("index", str(error), {"input": input.shape}) from None


getitem.vjp(
    input=lambda g, input_shape, index: place(g, index, input_shape),
    latex=r"g\ \text{added where it was picked}",
)


def on_device(index: Any, array: Array) -> Any:
    """Bring NumPy arrays inside an index to the device of the array it is for."""
    backend = backends.of(array)
    if backend is backends.CPU:
        return index
    if isinstance(index, tuple):
        return tuple(on_device(each, array) for each in index)
    return backend.from_numpy(index) if isinstance(index, np.ndarray) else index


@op(linear=True)
def place(xp: Any, input: Array, index: Index, shape: Sequence[int]) -> Array:
    """Zeros of `shape` with `input` added at `index`: the other way of picking.

    >>> place(tensor([1.0, 2.0]), (tensor([0, 0]),), (3,))
    tensor([3., 0., 0.])
    """
    y = xp.zeros(tuple(shape), input.dtype)
    index = on_device(as_index(index), y)
    if repeats_possible(index):
        backends.of(y).scatter_add(y, index, input)
    else:
        y[index] = input
    return y


place.vjp(input=lambda g, index: getitem(g, as_index(index)), latex=r"g[index]")


def repeats_possible(index: Any) -> bool:
    """Say whether an index can pick one element twice: only arrays of integers can."""
    parts = index if isinstance(index, tuple) else (index,)
    return any(getattr(part, "ndim", 0) and part.dtype.kind in "iu" for part in parts)


def _getitem(self: Tensor, index: Any) -> Tensor:
    return getitem(self, as_index(index))


def _setitem(self: Tensor, index: Any, value: Any) -> None:
    """Write `value` (broadcast) into the numbers at `index`."""
    refuse_leaf(self, "__setitem__")
    index = on_device(as_index(index), self._array)
    before = same_past(self)
    if not isinstance(value, Tensor):
        value = wrap(backends.of(self._array).asarray(value, self._array.dtype))
    assigned = value._array
    if backends.of(assigned) is not backends.of(self._array):
        assigned = as_same_device(value, self)
    try:
        write(self, "__setitem__", assigned, index)
    except (ValueError, IndexError) as error:
        kind = DimError if isinstance(error, IndexError) else ShapeError
        raise kind(
            "__setitem__", str(error), {"input": tuple(self.shape), "value": tuple(value.shape)}
        ) from None
    result = wrap(self._array)
    if needs_recording(before, value):
        setitem.op.record(result, self._array, before, value, index)
    set_history(self, result) if needs_recording(before, value) else None


def as_same_device(value: Tensor, target: Tensor) -> Array:
    if value._array.ndim:
        raise DimError(
            "__setitem__", "Expected all tensors to be on the same device",
            {"input": str(target.device), "value": str(value.device)},
        )  # fmt: skip
    return backends.of(target._array).asarray(value.item(), target._array.dtype)


def needs_recording(*tensors: Tensor) -> bool:
    from ..modes import current

    return current().grad and any_(each._node is not None for each in tensors)


any_ = any


@op()
def setitem(xp: Any, input: Array, value: Array, index: Index) -> Array:
    """A copy of `input` with `value` at `index`.

    >>> setitem(zeros(3), tensor(5.0), 1)
    tensor([0., 5., 0.])
    """
    y = input.copy()
    y[on_device(as_index(index), y)] = value
    return y


setitem.vjp(
    input=lambda g, index: setitem(g, zeros_like(getitem(g, index)), index),
    value=lambda g, index: getitem(g, index),
    latex={"input": r"g\ \text{outside the index}", "value": r"g[index]"},
)

Tensor.__getitem__ = _getitem  # type: ignore[attr-defined]
Tensor.__setitem__ = _setitem  # type: ignore[attr-defined]


# Along one axis ----------------------------------------------------------------------------


def positions(name: str, index: Any) -> Array:
    """Return an index tensor's array, refusing anything but integers."""
    array = index._array if isinstance(index, Tensor) else index
    if array.dtype.kind not in "iu":
        raise DTypeError(
            name, "expected the index to be int64", {"index": array.dtype}, "use index.long()"
        )
    return array


def along(index: Array, dim: int) -> tuple[Array, ...]:
    """Return the full index that picks `index` along `dim`, each other axis at its place."""
    xp = backends.of(index).xp
    grid = [
        xp.arange(size).reshape((-1,) + (1,) * (index.ndim - axis - 1))
        for axis, size in enumerate(index.shape)
    ]
    return (*grid[:dim], index, *grid[dim + 1 :])


def check_range(name: str, index: Array, size: int) -> None:
    """Raise DimError if a position lies outside; NumPy would count negative ones backwards."""
    if index.size and (int(index.min()) < 0 or int(index.max()) >= size):
        raise DimError(
            name, f"index {int(index.max() if int(index.min()) >= 0 else index.min())} is out of "
            f"bounds for a dimension of size {size}",
        )  # fmt: skip


@op()
def gather(xp: Any, input: Array, dim: int, index: Index) -> Array:
    """Pick along `dim`: y[i, j] = input[index[i, j], j] for dim = 0, and so on.

    >>> gather(tensor([[1, 2], [3, 4]]), 1, tensor([[0], [1]]))
    tensor([[1],
            [4]])
    """
    index = positions("gather", index)
    dim = normal_dim("gather", dim, input.ndim)
    if index.ndim != input.ndim:
        raise ShapeError(
            "gather", "index must have as many dimensions as input",
            {"input": input.shape, "index": index.shape},
        )  # fmt: skip
    check_range("gather", index, input.shape[dim])
    return input[along(index, dim)]


gather.vjp(
    input=lambda g, input_shape, dim, index: place(
        g, along(positions("gather", index), dim % len(input_shape)), input_shape
    ),
    latex=r"g\ \text{added where it was picked}",
)


@op()
def scatter(xp: Any, input: Array, dim: int, index: Index, src: Array) -> Array:
    """A copy of `input` with src put along `dim`: y[index[i, j], j] = src[i, j] for dim = 0.

    >>> scatter(zeros(2, 2), 1, tensor([[1], [0]]), tensor([[5.0], [6.0]]))
    tensor([[0., 5.],
            [6., 0.]])
    """
    index = positions("scatter", index)
    dim = normal_dim("scatter", dim, input.ndim)
    check_range("scatter", index, input.shape[dim])
    y = input.copy()
    y[along(index, dim)] = taken(src, index.shape)
    return y


def taken(src: Any, shape: tuple[int, ...]) -> Any:
    """The part of `src` that an index of `shape` uses."""
    return src[tuple(slice(size) for size in shape)] if getattr(src, "ndim", 0) else src


def spread_back(g: Any, shape: tuple[int, ...], index: Any, dim: int) -> Any:
    """The gradient of `src`: g at the index, zeros for the part that was not used."""
    picked = gather(g, dim, index)
    if tuple(picked.shape) == tuple(shape):
        return picked
    return place(picked, tuple(slice(size) for size in picked.shape), shape)


scatter.vjp(
    input=lambda g, dim, index: scatter(g, dim, index, zeros_like(gather(g, dim, index))),
    src=lambda g, src_shape, dim, index: spread_back(g, src_shape, index, dim),
    latex={"input": r"g\ \text{outside the index}", "src": r"g[index]"},
)


@op()
def scatter_add(xp: Any, input: Array, dim: int, index: Index, src: Array) -> Array:
    """A copy of `input` with src added along `dim`, as often as a position occurs.

    >>> scatter_add(zeros(2), 0, tensor([1, 1]), tensor([5.0, 6.0]))
    tensor([ 0., 11.])
    """
    index = positions("scatter_add", index)
    dim = normal_dim("scatter_add", dim, input.ndim)
    check_range("scatter_add", index, input.shape[dim])
    y = input.copy()
    backends.of(y).scatter_add(y, along(index, dim), taken(src, index.shape))
    return y


scatter_add.vjp(
    input=lambda g: g,
    src=lambda g, src_shape, dim, index: spread_back(g, src_shape, index, dim),
    latex={"input": r"g", "src": r"g[index]"},
)


@op()
def index_select(xp: Any, input: Array, dim: int, index: Index) -> Array:
    """Slices along `dim`, in the order of `index`.

    >>> index_select(tensor([10, 20, 30]), 0, tensor([2, 0]))
    tensor([30, 10])
    """
    index = positions("index_select", index)
    dim = normal_dim("index_select", dim, input.ndim)
    check_range("index_select", index, input.shape[dim])
    return xp.take(input, index, axis=dim)


index_select.vjp(
    input=lambda g, input_shape, dim, index: place(
        g, (slice(None),) * (dim % len(input_shape)) + (positions("index_select", index),), input_shape
    ),
    latex=r"g\ \text{added where it was picked}",
)


@op()
def masked_fill(xp: Any, input: Array, mask: Index, value: Any) -> Array:
    """A copy of `input` with one number wherever `mask` is true.

    >>> masked_fill(tensor([1.0, 2.0]), tensor([True, False]), -1.0)
    tensor([-1.,  2.])
    """
    mask = mask._array if isinstance(mask, Tensor) else mask
    if mask.dtype.kind != "b":
        raise DTypeError("masked_fill", "only supports boolean masks", {"mask": mask.dtype})
    value = value.item() if isinstance(value, Tensor) else value
    return xp.where(mask, xp.asarray(value, dtype=input.dtype), input)


masked_fill.vjp(
    input=lambda g, mask: masked_fill(g, mask, 0), latex=r"g\,[not\ mask]"
)


@as_method
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The numbers where `mask` is true, in a row.

    >>> masked_select(tensor([1, 2, 3]), tensor([True, False, True]))
    tensor([1, 3])
    """
    shape = broadcast_shapes(input.shape, mask.shape)
    return getitem(expand(input, shape), as_index(expand(mask, shape)))


@as_method
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Where the numbers are not zero: a row of indices for each.

    >>> nonzero(tensor([0, 5, 6]))
    tensor([[1],
            [2]])
    """
    xp = backends.of(input._array).xp
    found = [wrap(each) for each in xp.nonzero(xp.atleast_1d(input._array))]
    if as_tuple:
        return tuple(found)
    return stack(found, 1) if input.ndim else wrap(xp.zeros((len(found[0]), 0), "int64"))


from ..core.shapes import broadcast_shapes  # noqa: E402
from .creation import zeros_like  # noqa: E402  (rules may use any op)
from .movement import expand, stack  # noqa: E402

__all__ = ["Size"]
