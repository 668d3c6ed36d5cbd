"""Unique elements or slices. No gradients."""

from __future__ import annotations

from typing import Any

from .. import backends
from ..backends.numpy import Array, Namespace
from ..core.precision import to_float32
from ..core.shapes import normal_dim
from ..core.tensor import Tensor, wrap
from ..core.tensor_methods import as_method
from ..errors import ShapeError, refuse_complex


@as_method
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """The sorted unique elements, and on request the inverse indices and the counts.

    With `dim`, the unique slices along it.

    >>> unique(tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    refuse_complex("unique", input=input)
    xp, array = backends.of(input._array).xp, input._array
    if dim is None:
        values, inverse, counts = xp.unique(
            to_float32(array), return_inverse=True, return_counts=True, equal_nan=False
        )  # NumPy does not sort NaN of bfloat16
        values = values.astype(array.dtype)
        inverse = inverse.reshape(array.shape)
    else:
        dim = normal_dim("unique", dim, input.ndim)
        if not array.size and array.shape[dim]:
            rows = {"input": array.shape}
            raise ShapeError("unique", "slices must not be empty: other axes have size 0", rows)
        order = sort_slices(xp, to_float32(array), dim)
        starts, run_index, counts = find_runs(xp, xp.take(array, order, axis=dim), dim)
        values = xp.take(array, order[starts], axis=dim)
        inverse = xp.zeros(order.shape, "int64")
        inverse[order] = run_index
    return pack_results(values, inverse, counts, return_inverse, return_counts)


@as_method
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """The first element of each run of equal ones, or the first slice along `dim`.

    >>> unique_consecutive(tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    refuse_complex("unique_consecutive", input=input)
    xp, array = backends.of(input._array).xp, input._array
    rows = array.reshape(-1) if dim is None else array
    axis = 0 if dim is None else normal_dim("unique_consecutive", dim, input.ndim)
    starts, inverse, counts = find_runs(xp, rows, axis)
    if dim is None:
        inverse = inverse.reshape(array.shape)
    values = xp.take(rows, starts, axis=axis)
    return pack_results(values, inverse, counts, return_inverse, return_counts)


def sort_slices(xp: Namespace, array: Array, dim: int) -> Array:
    """Return the indices that sort the slices along `dim` lexicographically."""
    n = array.shape[dim]
    columns = xp.moveaxis(array, dim, 0).reshape(n, array.size // n if n else 0)
    order = xp.arange(n)
    for column in range(
        columns.shape[1] - 1, -1, -1
    ):  # least significant column first: the sort is stable
        order = order[xp.argsort(columns[order, column], kind="stable")]
    return order


def find_runs(xp: Namespace, array: Array, dim: int) -> tuple[Array, Array, Array]:
    """Return the start of each run of equal slices, the run of each slice, and the run lengths."""
    n = array.shape[dim]
    rows = xp.moveaxis(array, dim, 0).reshape(n, array.size // n if n else 0)
    new = xp.ones(n, "bool")
    new[1:] = xp.any(rows[1:] != rows[:-1], axis=1)
    starts = xp.nonzero(new)[0]
    ends = xp.concatenate([starts[1:], xp.asarray([n] if n else [], "int64")])
    return starts, xp.cumsum(new) - 1, ends - starts


def pack_results(values: Array, inverse: Array, counts: Array, *requested: bool) -> Any:
    """Return the values alone, or a tuple with the other requested results."""
    extras = [
        wrap(array.astype("int64"))
        for array, is_wanted in zip((inverse, counts), requested, strict=True)
        if is_wanted
    ]
    return (wrap(values), *extras) if extras else wrap(values)
