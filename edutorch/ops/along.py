"""Picking and putting along one axis, by a tensor of positions."""

from __future__ import annotations

from typing import Any

from .. import backends
from ..backends.numpy import Array
from ..core.methods import as_method
from ..core.op import op
from ..core.shapes import broadcast_shapes, normal_dim
from ..core.tensor import Tensor
from ..errors import DimError, DTypeError, ShapeError
from .indexing import Index, as_index, on_device, repeats_possible


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
def scatter(
    xp: Any, input: Array, dim: int, index: Index, src: Array | float | None = None, *,
    value: float | None = None,
) -> Array:  # fmt: skip
    """A copy of `input` with src put along `dim`: y[index[i, j], j] = src[i, j] for dim = 0.

    `src` may be one number; PyTorch calls it `value`.

    >>> scatter(zeros(2, 2), 1, tensor([[1], [0]]), tensor([[5.0], [6.0]]))
    tensor([[0., 5.],
            [6., 0.]])
    """
    src = value if src is None else src
    if src is None:
        raise TypeError("scatter: give `src`, a tensor, or `value`, a number")
    index = positions("scatter", index)
    dim = normal_dim("scatter", dim, input.ndim)
    check_range("scatter", index, input.shape[dim])
    y = input.copy()
    y[along(index, dim)] = taken(src, index.shape)
    return y


scatter.vjp(
    input=lambda g, dim, index: scatter(g, dim, index, zeros_like(gather(g, dim, index))),
    src=lambda g, src_shape, dim, index: spread_back(g, src_shape, index, dim),
    latex={"input": r"g\ \text{outside the index}", "src": r"g[index]"},
)


def taken(src: Any, shape: tuple[int, ...]) -> Any:
    """The part of `src` that an index of `shape` uses."""
    return src[tuple(slice(size) for size in shape)] if getattr(src, "ndim", 0) else src


def spread_back(g: Any, shape: tuple[int, ...], index: Any, dim: int) -> Any:
    """The gradient of `src`: g at the index, zeros for the part that was not used."""
    picked = gather(g, dim, index)
    if tuple(picked.shape) == tuple(shape):
        return picked
    return place(picked, tuple(slice(size) for size in picked.shape), shape)


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


@as_method
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """Pick along `dim`; the other axes broadcast. Undoes what argsort found.

    >>> x = tensor([[3, 1, 2]]); take_along_dim(x, argsort(x, 1), 1)
    tensor([[1, 2, 3]])
    """
    if dim is None:
        return gather(input.reshape(-1), 0, indices.reshape(-1))
    dim = normal_dim("take_along_dim", dim, input.ndim)
    one = [*input.shape[:dim], 1, *input.shape[dim + 1 :]]
    shape = broadcast_shapes(one, (*indices.shape[:dim], 1, *indices.shape[dim + 1 :]))

    def spread(x: Tensor) -> Tensor:
        return x.expand((*shape[:dim], x.shape[dim], *shape[dim + 1 :]))

    return gather(spread(input), dim, spread(indices))


@as_method
def take(input: Tensor, index: Tensor) -> Tensor:
    """Pick by position in the flattened tensor.

    >>> take(tensor([[1, 2], [3, 4]]), tensor([3, 0]))
    tensor([4, 1])
    """
    return input.reshape(-1)[index]


# Whole slices -------------------------------------------------------------------------------


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
        g,
        (slice(None),) * (dim % len(input_shape)) + (positions("index_select", index),),
        input_shape,
    ),
    latex=r"g\ \text{added where it was picked}",
)


def slices(dim: int, index: Any, ndim: int, name: str) -> tuple[Any, ...]:
    """The full index of whole slices along `dim`."""
    return (slice(None),) * (dim % max(ndim, 1)) + (positions(name, index),)


@op()
def index_add(
    xp: Any, input: Array, dim: int, index: Index, source: Array, *, alpha: float = 1
) -> Array:
    """A copy of `input` with the slices of alpha · source added along `dim` at `index`.

    >>> index_add(zeros(2), 0, tensor([1, 1]), tensor([5.0, 6.0]))
    tensor([ 0., 11.])
    """
    check_range("index_add", positions("index_add", index), input.shape[dim])
    y = input.copy()
    values = source if alpha == 1 else source * xp.asarray(alpha).astype(source.dtype)
    backends.of(y).scatter_add(y, slices(dim, index, y.ndim, "index_add"), values)
    return y


index_add.vjp(
    input=lambda g: g,
    source=lambda g, dim, index, alpha: index_select(g, dim, index) * alpha,
    latex={"input": r"g", "source": r"\alpha\,g[index]"},
)


@op()
def index_copy(xp: Any, input: Array, dim: int, index: Index, source: Array) -> Array:
    """A copy of `input` with the slices of `source` put along `dim` at `index`.

    >>> index_copy(zeros(2), 0, tensor([1]), tensor([5.0]))
    tensor([0., 5.])
    """
    check_range("index_copy", positions("index_copy", index), input.shape[dim])
    y = input.copy()
    y[slices(dim, index, y.ndim, "index_copy")] = source
    return y


index_copy.vjp(
    input=lambda g, dim, index: index_fill(g, dim, index, 0.0),
    source=lambda g, dim, index: index_select(g, dim, index),
    latex={"input": r"g\ \text{outside the index}", "source": r"g[index]"},
)


@op()
def index_fill(xp: Any, input: Array, dim: int, index: Index, value: Any) -> Array:
    """A copy of `input` with one number in the slices along `dim` at `index`.

    >>> index_fill(zeros(3), 0, tensor([0, 2]), 7.0)
    tensor([7., 0., 7.])
    """
    y = input.copy()
    y[slices(dim, index, y.ndim, "index_fill")] = (
        value.item() if isinstance(value, Tensor) else value
    )
    return y


index_fill.vjp(
    input=lambda g, dim, index: index_fill(g, dim, index, 0.0),
    latex=r"g\ \text{outside the index}",
)


@op()
def index_put(
    xp: Any, input: Array, indices: Index, values: Array, accumulate: bool = False
) -> Array:
    """A copy of `input` with `values` put at `indices`, one tensor per axis; or added there.

    >>> index_put(zeros(3), (tensor([0, 0]),), tensor([5.0, 6.0]), accumulate=True)
    tensor([11.,  0.,  0.])
    """
    y = input.copy()
    index = on_device(as_index(tuple(indices)), y)
    if not accumulate:
        y[index] = values
    elif repeats_possible(index):
        backends.of(y).scatter_add(y, index, values)
    else:
        y[index] += values
    return y


index_put.vjp(
    input=lambda g, indices, accumulate: (
        g if accumulate else index_put(g, indices, zeros_like(getitem(g, as_index(tuple(indices)))))
    ),
    values=lambda g, indices: getitem(g, as_index(tuple(indices))),
    latex={"input": r"g\ \text{outside the index}", "values": r"g[index]"},
)


from .indexing import getitem, place  # noqa: E402
from .like import zeros_like  # noqa: E402  (rules may use any op)
