"""Finite differences, numerical gradients and the trapezoidal rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import dtypes
from ..core.composed import as_method, composed_in_float32, takes_out, with_aliases
from ..core.shapes import distinct_dims, normal_dim
from ..core.tensor import Tensor
from ..errors import ArgumentError, DTypeError, InvalidValueError, ShapeError
from .comparison import refuse_bools
from .conversion import to
from .cumulative import cumsum
from .joining import cat
from .reduction import sum
from .views import narrow, reshape

__all__ = ["cumulative_trapezoid", "diff", "gradient", "trapezoid"]


@as_method
@takes_out
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The n-th difference of neighbouring elements along `dim`; for bools, their xor.

    Args:
        prepend, append: values added before and after the input; ignored for n = 0.

    Raises: ShapeError: the input is 0-d. ValueError: n is negative.

    >>> diff(tensor([1, 4, 9]))
    tensor([3, 5])
    """
    if not input.ndim:
        raise ShapeError("diff", "needs at least one axis", {"input": ()})
    if n < 0:
        raise InvalidValueError("diff", f"n cannot be negative, got {n}")
    if n and (prepend is not None or append is not None):
        parts = (prepend, input, append)
        input = cat([part for part in parts if part is not None], dim)
    for _ in range(min(n, input.shape[dim])):
        after, before = adjacent_pairs(input, dim)
        input = after ^ before if input.dtype.name == "bool" else after - before
    return input


def adjacent_pairs(input: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """All but the first along `dim`, and all but the last."""
    count = max(input.shape[dim] - 1, 0)
    return narrow(input, dim, input.shape[dim] - count, count), narrow(input, dim, 0, count)


# Areas -------------------------------------------------------------------------------------------


@with_aliases
@composed_in_float32
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The area under a curve through points, by trapezoids: Σ (xᵢ₊₁ - xᵢ) (yᵢ + yᵢ₊₁) / 2.

    Args:
        x: the coordinates of the points; without it they are `dx` (1) apart.

    >>> trapezoid(tensor([1.0, 5.0, 10.0]))
    tensor(10.5000)
    """
    dim = normal_dim("trapezoid", dim, y.ndim) - y.ndim  # from the end, where y and x align
    return sum(trapezoid_areas("trapezoid", y, x, dx, dim), dim) / 2


@with_aliases
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1
) -> Tensor:
    """The area under a curve up to each point but the first; see `trapezoid`.

    >>> cumulative_trapezoid(tensor([1.0, 5.0, 10.0]))
    tensor([ 3.0000, 10.5000])
    """
    dim = normal_dim("cumulative_trapezoid", dim, y.ndim) - y.ndim
    return cumsum(trapezoid_areas("cumulative_trapezoid", y, x, dx, dim) / 2, dim)


def widen_integers(points: Tensor | None) -> Tensor | None:
    """Convert integers to int64, so that sums and differences do not wrap around."""
    if points is None or points.dtype.category != 1:
        return points
    return to(points, dtypes.int64)


def trapezoid_areas(name: str, y: Tensor, x: Tensor | None, dx: Any, dim: int) -> Tensor:
    """Twice the area of each trapezoid between neighbouring points along `dim` < 0."""
    if x is not None and dx is not None:
        raise ArgumentError(name, "give the points by `x` or their distance by `dx`, not both")
    refuse_bools(name, y)
    y, x = widen_integers(y), widen_integers(x)
    after, before = adjacent_pairs(y, dim)
    if x is None:
        return (after + before) * (1 if dx is None else dx)
    points = x
    if x.ndim == 1:
        if x.shape[0] != y.shape[dim]:
            rows = {"y": tuple(y.shape), "x": tuple(x.shape)}
            raise ShapeError(
                name, f"there must be one `x` for each `y` along axis {dim + y.ndim}", rows
            )
        points = reshape(x, (-1, *[1] * (-dim - 1)))
    right, left = adjacent_pairs(
        reshape(points, (*[1] * (y.ndim - points.ndim), *points.shape)), dim
    )
    return (right - left) * (after + before)


# Slopes ------------------------------------------------------------------------------------------


def gradient(
    input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """The numerical gradient along each axis, by central differences.

    Inside (yᵢ₊₁ - yᵢ₋₁) / 2h; at the boundary from the nearest two points, or three with
    `edge_order=2`.

    Args:
        spacing: the distance h, one per axis, or the coordinates of the points along each axis.

    Raises: ShapeError: too few points, or not one spacing per axis.

    >>> gradient(tensor([1.0, 4.0, 9.0]))
    (tensor([3., 4., 5.]),)
    """
    if edge_order not in (1, 2):
        raise InvalidValueError("gradient", f"edge_order must be 1 or 2, got {edge_order}")
    if input.dtype is dtypes.uint8:
        rows = {"input": str(input.dtype)}
        raise DTypeError("gradient", "bytes cannot hold a negative slope", rows, "x.float()")
    dims = distinct_dims("gradient", range(input.ndim) if dim is None else dim, input.ndim)
    spacing = 1 if spacing is None else spacing
    is_sequence = isinstance(spacing, Sequence)
    steps = list(spacing) if is_sequence else [spacing] * len(dims)
    if len(steps) != len(dims):
        raise ShapeError("gradient", f"needs {len(dims)} spacings, got {len(steps)}")
    if any(input.shape[dim] <= edge_order for dim in dims):
        raise ShapeError(
            "gradient", f"each axis needs more than {edge_order} points",
            {"input": tuple(input.shape)},
        )  # fmt: skip
    return tuple(gradient_along(input, *pair, edge_order) for pair in zip(dims, steps, strict=True))


def gradient_along(y: Tensor, dim: int, spacing: Any, edge_order: int) -> Tensor:
    """The gradient along one axis; `spacing` is a distance, or the points' coordinates."""
    n = y.shape[dim]
    if isinstance(spacing, Tensor) and spacing.ndim:
        if tuple(spacing.shape) != (n,):
            rows = {"input": tuple(y.shape), "spacing": tuple(spacing.shape)}
            raise ShapeError("gradient", f"axis {dim} needs one coordinate per point", rows)
        steps = reshape(diff(spacing), (-1, *[1] * (y.ndim - dim - 1)))
    else:
        steps = None

    def at(start: int, size: int = 1) -> Tensor:
        return narrow(y, dim, start, size)

    def step(start: int, size: int = 1) -> Any:
        return spacing if steps is None else narrow(steps, 0, start, size)

    parts = []
    if n > 2:
        after, here, before = at(2, n - 2), at(1, n - 2), at(0, n - 2)
        if steps is None:
            parts = [(after - before) / (2 * spacing)]
        else:
            a, b = step(0, n - 2), step(1, n - 2)
            parts = [
                a / (b * (a + b)) * after + (b - a) / (a * b) * here - b / (a * (a + b)) * before
            ]
    if edge_order == 1:
        first, last = (at(1) - at(0)) / step(0), (at(n - 1) - at(n - 2)) / step(n - 2)
    else:
        first = parabola_slope(at(0), at(1), at(2), step(0), step(1))
        last = -parabola_slope(at(n - 1), at(n - 2), at(n - 3), step(n - 2), step(n - 3))
    return cat([first, *parts, last], dim)


def parabola_slope(y0: Tensor, y1: Tensor, y2: Tensor, a: Any, b: Any) -> Tensor:
    """The slope at the first of three points that are a and b apart."""
    return -(2 * a + b) / (a * (a + b)) * y0 + (a + b) / (a * b) * y1 - a / (b * (a + b)) * y2
