"""Histograms of one or more dimensions. No gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import backends
from ..backends.numpy import Array
from ..core import return_types
from ..core.out_variants import takes_out
from ..core.tensor import Tensor, wrap
from ..core.tensor_methods import as_method
from ..errors import DTypeError, InvalidValueError, ShapeError


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
