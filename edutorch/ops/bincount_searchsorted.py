"""Counting (bincount, histograms) and binary search (searchsorted). No gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import backends
from ..backends.numpy import Array, ArrayOrTensor, Namespace, Number
from ..core import return_types
from ..core.composed import as_method, takes_out
from ..core.precision import to_float32
from ..core.tensor import Tensor, wrap
from ..errors import DTypeError, InvalidValueError, ShapeError, refuse_complex
from .gather_scatter import gather

__all__ = ["bincount", "bucketize", "histc", "histogram", "histogramdd", "searchsorted"]


@as_method
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """The number of occurrences of 0, 1, 2, …; with weights, the sum of the weights of each.

    >>> bincount(tensor([0, 2, 2]))
    tensor([1, 0, 2])
    """
    array = input._array
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise DTypeError(
            "bincount", "expects a vector of non-negative integers",
            {"input": f"{tuple(array.shape)} {input.dtype}"},
        )  # fmt: skip
    if array.size and int(array.min()) < 0:
        raise ShapeError("bincount", "negative numbers cannot be counted")
    if minlength < 0:
        raise InvalidValueError("bincount", f"minlength cannot be negative, got {minlength}")
    xp = backends.of(array).xp
    if weights is None:
        return wrap(xp.bincount(array, minlength=minlength).astype("int64"))
    weight_array = weights._array
    if weight_array.shape != array.shape:
        rows = {"input": array.shape, "weights": weight_array.shape}
        raise ShapeError("bincount", "needs one weight for each number", rows)
    counts = xp.bincount(array, weights=weight_array, minlength=minlength)
    return wrap(counts.astype(weight_array.dtype if weight_array.dtype == "float32" else "float64"))


@as_method
@takes_out
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """The number of elements in each of `bins` equal bins of [min, max].

    With min = max the range is that of the elements; elements outside are not counted.

    >>> histc(tensor([1.0, 2.0, 1.0]), 4, 0, 3)
    tensor([0., 2., 1., 0.])
    """
    if not input.is_floating_point():
        raise DTypeError(
            "histc", "expected floating numbers", {"input": str(input.dtype)}, "x.float()"
        )
    if bins < 1 or min > max:
        raise InvalidValueError(
            "histc", f"needs bins > 0 and min <= max, got {bins}, {min} and {max}"
        )
    xp, array = backends.of(input._array).xp, to_float32(input._array.reshape(-1))
    if input.is_meta:
        return wrap(xp.zeros(bins, array.dtype))
    if min == max and array.size:
        min, max = float(array.min()), float(array.max())
    if min == max:
        min, max = min - 1, max + 1
    if not math.isfinite(max - min):
        raise InvalidValueError("histc", f"the range [{min}, {max}] is not finite")
    if max - min < 1e-30:  # the bins may be narrower than the spacing of float32
        array = array.astype("float64")
    array = array[xp.logical_and(array >= min, array <= max)]
    bin_index = xp.floor((array - min) * (bins / (max - min))).astype("int64")
    bin_index = xp.minimum(bin_index, bins - 1)  # the last bin includes both edges
    return wrap(xp.bincount(bin_index, minlength=bins).astype(input._array.dtype))


@takes_out
def searchsorted(
    sorted_sequence: Tensor, input: Tensor | Number, *, out_int32: bool = False,
    right: bool = False, side: str | None = None, sorter: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The positions at which values would be inserted into sorted rows to keep them sorted.

    Before equal elements, or after them with `right` (`side="right"`).

    Args:
        sorter: the indices that sort `sorted_sequence`, if it is not sorted.
        out_int32: return the positions as int32.

    Raises: ShapeError: the rows do not match. ValueError: `side` and `right` contradict.

    >>> searchsorted(tensor([1, 3, 5]), tensor([3, 6]))
    tensor([1, 3])
    """
    if side not in (None, "left", "right"):
        raise InvalidValueError("searchsorted", f"side must be 'left' or 'right', got {side!r}")
    if right and side == "left":
        raise InvalidValueError("searchsorted", "side='left' and right=True contradict each other")
    if sorter is not None:
        if tuple(sorter.shape) != tuple(sorted_sequence.shape):
            rows = {"sorted_sequence": sorted_sequence.shape, "sorter": sorter.shape}
            raise ShapeError("searchsorted", "`sorter` must have the shape of the rows", rows)
        sorted_sequence = gather(sorted_sequence, -1, sorter)
    rows = sorted_sequence._array
    refuse_complex("searchsorted", sorted_sequence=rows, input=input)
    values = input._array if isinstance(input, Tensor) else backends.of(rows).xp.asarray(input)
    xp = max(backends.of(rows), backends.of(values), key=lambda backend: backend.level).xp
    rows, values = to_float32(rows), to_float32(values)  # CuPy does not search in bfloat16
    return wrap(
        find_insertion_positions(
            xp, rows, values, side or ("right" if right else "left"), out_int32
        )
    )


def find_insertion_positions(
    xp: Namespace, rows: ArrayOrTensor, values: ArrayOrTensor, side: str, out_int32: bool
) -> Any:
    """The insertion positions of `wanted` in one sorted row, or of each row in its own."""
    dtype = "int32" if out_int32 else "int64"
    if not rows.ndim:
        raise ShapeError("searchsorted", "the ordered numbers must be a vector or rows of them")
    if rows.ndim == 1:
        positions = xp.searchsorted(rows, values.reshape(-1), side)
        return positions.reshape(values.shape).astype(dtype)
    if rows.shape[:-1] != values.shape[:-1]:
        raise ShapeError(
            "searchsorted", "the axes before the last must agree",
            {"sorted_sequence": rows.shape, "input": values.shape},
        )  # fmt: skip
    if not values.size:
        return xp.zeros(values.shape, dtype)
    pairs = zip(rows.reshape(-1, rows.shape[-1]), values.reshape(-1, values.shape[-1]), strict=True)
    positions = xp.stack([xp.searchsorted(row, row_values, side) for row, row_values in pairs])
    return positions.reshape(values.shape).astype(dtype)


@takes_out
def bucketize(
    input: Tensor | Number, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """The index of the bucket of each value: `searchsorted` with the arguments exchanged.

    >>> bucketize(tensor([0, 4]), tensor([1, 3]))
    tensor([0, 2])
    """
    if boundaries.ndim != 1:
        raise ShapeError(
            "bucketize", "boundaries must be a vector", {"boundaries": boundaries.shape}
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


# Histograms ----------------------------------------------------------------------------------


@as_method
@takes_out
def histogram(
    input: Tensor, bins: Any = 100, *, range: Sequence[float] | None = None,
    weight: Tensor | None = None, density: bool = False,
) -> return_types.histogram:  # fmt: skip
    """The number of elements in each bin, and the bin edges.

    Each bin includes its lower edge but not its upper one; only the last includes both.

    Args:
        bins: the number of equal bins, or a tensor of increasing edges.
        range: the lowest and the highest edge; by default those of the elements.
        weight: the weight of each element.
        density: whether to normalize the histogram to an area of 1.

    Raises: DTypeError: not floating-point. ShapeError: edges or weights do not match.

    >>> histogram(tensor([1.0, 2.0, 1.0]), 3, range=(0.0, 3.0)).hist
    tensor([0., 2., 1.])
    """
    if isinstance(bins, Tensor) and bins.ndim != 1:
        raise ShapeError("histogram", "the bounds must be a vector", {"bins": tuple(bins.shape)})
    points = input._array.reshape(-1, 1)
    counts, edges = count_points("histogram", points, [bins], range, weight, input, density)
    return return_types.histogram(counts, edges[0])


def histogramdd(
    input: Tensor, bins: Any, *, range: Sequence[float] | None = None,
    weight: Tensor | None = None, density: bool = False,
) -> return_types.histogramdd:  # fmt: skip
    """The number of points in each cell of a grid, and the edges along each axis.

    Args:
        input: one point per row, its coordinates along the last axis.
        bins: the number of bins for all axes or for each, or the edges of each.
        range: the lowest and the highest edge of each axis, in one flat sequence.
        weight, density: as in `histogram`.

    >>> histogramdd(tensor([[0.0, 1.0], [1.0, 0.0]]), bins=[2, 2]).hist
    tensor([[0., 1.],
            [1., 0.]])
    """
    if input.ndim < 2:
        raise ShapeError("histogramdd", "needs points in rows", {"input": tuple(input.shape)})
    axes = input.shape[-1]
    bins = [bins] * axes if isinstance(bins, int) else list(bins)
    if len(bins) != axes:
        raise ShapeError("histogramdd", f"needs bins for {axes} axes, got {len(bins)}")
    points = input._array.reshape(-1, axes)
    return return_types.histogramdd(
        *count_points("histogramdd", points, bins, range, weight, input, density)
    )


def count_points(
    name: str, points: Array, bins: Sequence[Any], range: Sequence[float] | None,
    weight: Tensor | None, input: Tensor, density: bool,
) -> tuple[Tensor, tuple[Tensor, ...]]:  # fmt: skip
    """Return the weighted number of points in each cell of a grid, and the edges."""
    if not input.is_floating_point():
        raise DTypeError(
            name, "expected floating numbers", {"input": str(input.dtype)}, "x.float()"
        )
    expected = tuple(input.shape if name == "histogram" else input.shape[:-1])
    if weight is not None and tuple(weight.shape) != expected:
        rows = {"input": tuple(input.shape), "weight": tuple(weight.shape)}
        raise ShapeError(name, "needs one weight for each that is counted", rows)
    if range is not None and len(range) != 2 * len(bins):
        raise ShapeError(name, f"range needs {2 * len(bins)} bounds, got {len(range)}")
    xp = backends.of(points).xp
    flat_index = xp.zeros(points.shape[0], "int64")
    inside, edges = xp.ones(points.shape[0], "bool"), []
    for axis, bin_ in enumerate(bins):
        column = points[:, axis]
        ends = None if range is None else range[2 * axis : 2 * axis + 2]
        bounds = bin_._array if isinstance(bin_, Tensor) else equal_bins(name, column, bin_, ends)
        last = bounds.shape[0] - 1
        bin_index = xp.searchsorted(bounds, column, "right") - 1
        bin_index = xp.where(column == bounds[last], last - 1, bin_index)
        inside = xp.logical_and(inside, xp.logical_and(bin_index >= 0, bin_index < last))
        flat_index = flat_index * last + bin_index
        edges.append(bounds)
    shape = tuple(edge.shape[0] - 1 for edge in edges)
    size = 1
    for count in shape:
        size *= count
    weights = (
        xp.ones(points.shape[0], points.dtype) if weight is None else weight._array.reshape(-1)
    )
    counts = xp.bincount(flat_index[inside], weights=weights[inside], minlength=size)
    counts = counts.reshape(shape).astype(points.dtype)
    if density:
        counts = counts / xp.sum(counts)
        for axis, edge in enumerate(edges):
            counts = counts / xp.diff(edge).reshape(-1, *[1] * (len(shape) - axis - 1))
    return wrap(counts), tuple(map(wrap, edges))


def equal_bins(name: str, column: Array, count: int, ends: Sequence[float] | None) -> Array:
    """The edges of `count` equal bins of the range `ends`, or of the range of `column`."""
    xp = backends.of(column).xp
    if count < 1:
        raise ShapeError(name, f"needs at least 1 bin, got {count}")
    if ends is not None:
        low, high = map(float, ends)
    elif column.shape[0]:
        low, high = float(xp.min(column)), float(xp.max(column))
    else:
        low, high = 0.0, 1.0
    if not low <= high or high - low == float("inf"):
        raise InvalidValueError(
            name, f"the range [{low}, {high}] is not finite, or the wrong way round"
        )
    if low == high:
        low, high = low - 0.5, high + 0.5
    return xp.linspace(low, high, count + 1).astype(column.dtype)
