"""The mode along an axis, and cumulative maxima and minima."""

from __future__ import annotations

from typing import Any

from ..backends.numpy import Array, Namespace
from ..core import return_types
from ..core.op import op
from ..core.out_variants import takes_out
from ..core.shapes import normal_dim
from ..core.tensor import Tensor
from ..core.tensor_methods import as_method
from ..errors import ShapeError
from .gather_scatter import index_along
from .sorting import extreme_gradient, scatter_gradient


@op(outputs=("values", "indices"), method=False, dtypes="bif", public="mode")
def mode_dim(xp: Namespace, input: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """The most frequent value along `dim` and the index of its last occurrence: see `mode`."""
    dim = normal_dim("mode", dim, input.ndim)
    if not input.ndim:
        return input.copy(), xp.zeros((), "int64")
    if not input.shape[dim]:
        raise ShapeError("mode", f"axis {dim} has size 0", {"input": input.shape})
    rows = xp.moveaxis(input, dim, -1)
    order = xp.argsort(rows, axis=-1, kind="stable")
    rows = rows[index_along(order, rows.ndim - 1)]
    repeats, step = xp.zeros(rows.shape, "int64"), 1
    while step < rows.shape[-1]:  # how many equal elements follow in the sorted row
        equal = rows[..., step:] == rows[..., :-step]
        if not bool(equal.any()):
            break
        repeats[..., :-step] += equal
        step += 1
    first = xp.expand_dims(xp.argmax(repeats, axis=-1), -1)
    last = first + repeats[index_along(first, rows.ndim - 1)]
    indices = xp.moveaxis(order[index_along(last, rows.ndim - 1)], -1, dim)
    values = input[index_along(indices, dim)]
    return (values, indices) if keepdim else (xp.squeeze(values, dim), xp.squeeze(indices, dim))


mode_dim.vjp(
    input=lambda g, input_shape, dim, keepdim, indices: extreme_gradient(
        g, input_shape, dim, keepdim, indices
    ),
    latex=r"g\ \text{to where it was found}",
)


@as_method
@takes_out
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent value along `dim` (the smallest of several) and its last index.

    >>> mode(tensor([2, 1, 2])).values
    tensor(2)
    """
    return return_types.mode(*mode_dim(input, dim, keepdim))


# Cumulative extremes ----------------------------------------------------------------------------


@op(
    outputs=("values", "indices"),
    method=False,
    dtypes="bif",
    public="cummax cummin",
    node="CummaxBackward0 if largest else CumminBackward0",
)
def cum_minmax(xp: Namespace, input: Array, dim: int, largest: bool) -> tuple[Array, Array]:
    """The cumulative maximum or minimum along `dim`: see `cummax`, `cummin`."""
    dim = normal_dim("cummax" if largest else "cummin", dim, input.ndim)
    if not input.ndim or not input.size:
        return input.copy(), xp.zeros(input.shape, "int64")
    if input.size <= 32 * input.shape[dim]:  # long and narrow: Python's loop would take longest
        return scan_by_doubling(xp, input, dim, largest)
    best = xp.take(input, [0], axis=dim)
    best_index = xp.zeros(best.shape, "int64")
    values, indices = [best], [best_index]
    for position in range(1, input.shape[dim]):
        current = xp.take(input, [position], axis=dim)
        better = is_extreme(xp, current, best, largest)
        best = xp.where(better, current, best)
        best_index = xp.where(better, xp.asarray(position), best_index)
        values.append(best)
        indices.append(best_index)
    return xp.concatenate(values, axis=dim), xp.concatenate(indices, axis=dim)


def scan_by_doubling(xp: Namespace, values: Array, dim: int, largest: bool) -> tuple[Array, Array]:
    """Compare each element with those 1, 2, 4, … before it: log₂ n steps instead of n.

    After the step over a distance d, each element is the extreme of the last 2d elements.
    """

    def part(array: Array, start: int | None, stop: int | None) -> Array:
        return array[(slice(None),) * dim + (slice(start, stop),)]

    length, distance = values.shape[dim], 1
    positions = xp.reshape(xp.arange(length), (length,) + (1,) * (values.ndim - dim - 1))
    indices = xp.broadcast_to(positions, values.shape)
    while distance < length:
        current, best = part(values, distance, None), part(values, None, -distance)
        better = is_extreme(xp, current, best, largest)
        values = xp.concatenate(
            [part(values, None, distance), xp.where(better, current, best)], axis=dim
        )
        index = xp.where(better, part(indices, distance, None), part(indices, None, -distance))
        indices = xp.concatenate([part(indices, None, distance), index], axis=dim)
        distance *= 2
    return values, indices


def is_extreme(xp: Namespace, current: Array, best: Array, largest: bool) -> Array:
    """Where an element replaces the extreme of those before it: of equal ones the last counts.

    The first NaN propagates, with the index of the last one.
    """
    better = current >= best if largest else current <= best
    if current.dtype.kind in "iub":
        return better
    return xp.logical_or(xp.logical_and(better, best == best), current != current)


cum_minmax.vjp(
    input=lambda g, input_shape, dim, indices: scatter_gradient(g, input_shape, dim, indices),
    latex=r"g\ \text{added where it was found}",
)


@as_method
@takes_out
def cummax(input: Tensor, dim: int) -> Any:
    """The cumulative maximum along `dim`, and its indices.

    >>> cummax(tensor([1, 3, 2]), 0).values
    tensor([1, 3, 3])
    """
    return return_types.cummax(*cum_minmax(input, dim, True))


@as_method
@takes_out
def cummin(input: Tensor, dim: int) -> Any:
    """The cumulative minimum along `dim`, and its indices.

    >>> cummin(tensor([2, 1, 3]), 0).values
    tensor([2, 1, 1])
    """
    return return_types.cummin(*cum_minmax(input, dim, False))
