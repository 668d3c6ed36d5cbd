"""Quantiles and medians."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from .. import backends
from ..backends.numpy import Array, Namespace, Number
from ..core import return_types
from ..core.composed import as_method, recorded_as, takes_out
from ..core.error_messages import is_any_true
from ..core.op import op
from ..core.shapes import normal_dim
from ..core.tensor import Tensor
from ..dtypes import bfloat16, iinfo, of
from ..errors import DTypeError, InvalidValueError, ShapeError
from ..modes import DEFAULT, NO_GRAD, current
from .arithmetic import lerp
from .comparison import isinf, isnan, logical_and, refuse_bools, where
from .creation import full_like, zeros_like
from .elementwise import ceil, floor, round
from .from_data import tensor
from .gather_scatter import gather
from .reduction import share_evenly, sum
from .shape import atleast_1d, movedim
from .sorting import KTH_SMALLEST, minmax_dim, pick, sort
from .views import narrow

__all__ = ["median", "nanmedian", "nanquantile", "quantile"]

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")
"""The interpolation modes between two neighbouring elements."""


@as_method
@takes_out
def quantile(
    input: Tensor, q: Tensor | Number, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear",
) -> Tensor:  # fmt: skip
    """The q-quantiles along `dim`, interpolated between neighbouring elements.

    With a vector q there is a result for each, along a new first axis. NaN among the elements
    gives NaN; an infinite neighbour with weight 0 is ignored. (PyTorch returns NaN where a
    neighbour is infinite.)

    Raises: ValueError: q is not in [0, 1]. DTypeError: not float32 or float64.

    >>> quantile(tensor([1.0, 2.0, 4.0]), 0.75)
    tensor(3.)
    """
    return compute_quantile("quantile", input, q, dim, keepdim, interpolation)


@as_method
@takes_out
def nanquantile(
    input: Tensor, q: Tensor | Number, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear",
) -> Tensor:  # fmt: skip
    """As `quantile`, ignoring NaN.

    >>> nanquantile(tensor([1.0, math.nan, 4.0]), 0.5)
    tensor(2.5000)
    """
    return compute_quantile("nanquantile", input, q, dim, keepdim, interpolation)


def compute_quantile(
    name: str, input: Tensor, q: Tensor | Number, dim: int | None, keepdim: bool, interpolation: str
) -> Tensor:
    """Sort each row and interpolate at position q · (n - 1)."""
    is_number = q.__class__ is float and 0 <= q <= 1 and input.dtype.name in PRECISE
    q = q if is_number else check_quantiles(name, input, q)
    if interpolation not in INTERPOLATIONS:
        raise InvalidValueError(
            name, f"interpolation must be one of {INTERPOLATIONS}, got {interpolation!r}"
        )
    rows = input.reshape(-1) if dim is None else to_last(atleast_1d(input), dim)
    if not rows.numel():
        raise ShapeError(name, "an empty tensor has none", {"input": tuple(input.shape)})
    ordered = sort(rows, -1).values  # NaN comes last
    if is_number and may_read(ordered) and not np.isnan(ordered._array[..., -1]).any():
        q_shape, y = (), select_quantile(ordered, q, interpolation).squeeze(-1)
    else:
        q = check_quantiles(name, input, q)
        q_shape, y = q.shape, quantiles_of_rows(name, ordered, q, interpolation)
    if not keepdim:
        return y
    if dim is None:
        return y.reshape((*q_shape, *[1] * input.ndim))
    return y.unsqueeze(dim if dim < 0 else dim + len(q_shape)) if input.ndim else y.reshape(q_shape)


PRECISE = ("float32", "float64")


def to_last(x: Tensor, dim: int) -> Tensor:
    """Move an axis to the end."""
    return x if dim in (-1, x.ndim - 1) else movedim(x, dim, -1)


def may_read(x: Tensor) -> bool:
    """Whether a function may be chosen by the elements: on the host, where nothing is traced."""
    return x._array.__class__ is ndarray and (current() is DEFAULT or current() is NO_GRAD)


def quantiles_of_rows(name: str, ordered: Tensor, q: Tensor, interpolation: str) -> Tensor:
    """Interpolate in sorted rows, of which some may end with NaN; a vector q makes a new axis."""
    n, valid_count = ordered.shape[-1], sum(~isnan(ordered), -1, True)
    last = (n if name == "quantile" else valid_count.clamp(min=1)) - 1
    position = (q.reshape(-1) * last).expand(*ordered.shape[:-1], -1)
    if name == "quantile":
        position = where(valid_count == n, position, last)
    y = interpolate_sorted(ordered, position.to(ordered.dtype), interpolation)
    return y.squeeze(-1) if not q.ndim else movedim(y, -1, 0)


def select_quantile(ordered: Tensor, q: float, interpolation: str) -> Tensor:
    """Interpolate in sorted rows without NaN: all between the same two of their elements."""
    number = ordered._array.dtype.type
    position = number(q) * number(ordered.shape[-1] - 1)
    if interpolation in ROUNDED:
        return narrow(ordered, -1, int(ROUNDED[interpolation](position)), 1)
    low = int(position)
    below, above = (narrow(ordered, -1, at, 1) for at in (low, low + (position > low)))
    weight = float(position - low) if interpolation == "linear" else 0.5
    if np.isinf(below._array).any() or np.isinf(above._array).any():
        return interpolate_between(below, above, full_like(below, weight))
    return lerp(below, above, weight)


ROUNDED = {"lower": np.floor, "higher": np.ceil, "nearest": np.rint}


def check_quantiles(name: str, input: Tensor, q: Tensor | Number) -> Tensor:
    """Return q as a tensor of the dtype of `input`; see `quantile` for the errors."""
    if input.dtype.name not in PRECISE:
        raise DTypeError(
            name, "expected numbers of float32 or float64", {"input": str(input.dtype)},
            "convert the numbers first: x.float()",
        )  # fmt: skip
    shares = q if isinstance(q, Tensor) else tensor(q, dtype=input.dtype, device=input.device)
    if shares.ndim > 1 or not shares.numel():
        raise ShapeError(name, "q must be a number or a vector", {"q": tuple(shares.shape)})
    if shares.dtype is not input.dtype:
        rows = {"input": str(input.dtype), "q": str(shares.dtype)}
        raise DTypeError(name, "q must have the type of the input", rows, "q.to(x.dtype)")
    if is_any_true(~logical_and(shares >= 0, shares <= 1)):
        raise InvalidValueError(name, f"q must be between 0 and 1, got {shares.tolist()}")
    return shares


def interpolate_sorted(ordered: Tensor, position: Tensor, interpolation: str) -> Tensor:
    """Interpolate at fractional positions along a sorted last axis."""
    rounded = {"lower": floor, "higher": ceil, "nearest": round}
    if interpolation in rounded:
        return gather(ordered, -1, rounded[interpolation](position).long())
    low = floor(position)
    below, above = (gather(ordered, -1, index.long()) for index in (low, ceil(position)))
    weight = position - low if interpolation == "linear" else full_like(position, 0.5)
    return interpolate_between(below, above, weight)


def interpolate_between(below: Tensor, above: Tensor, weight: Tensor) -> Tensor:
    """Interpolate between neighbours, of which some may be infinite."""
    is_endless = isinf(below) | isinf(above)
    if not backends.of(is_endless._array).level and not is_any_true(is_endless._array):
        return lerp(below, above, weight)
    # With an infinite neighbour: weight 0 ignores it (no 0 · ∞), any other weight gives ∞.
    endless = where(weight == 0, below, below * (1 - weight) + above * weight)
    inside = (where(is_endless, 0.0, neighbor) for neighbor in (below, above))
    return where(is_endless, endless, lerp(*inside, weight))


# The median --------------------------------------------------------------------------------------


@as_method
@takes_out
@recorded_as(lambda input, dim=None, *_, **__: f"MedianBackward{int(dim is not None)}")
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median (the lower of two); with `dim`, also its index.

    NaN propagates. Without `dim` equal elements share the gradient evenly; with it, the element
    at the returned index gets it (which of several equal ones that is, is unspecified).

    >>> median(tensor([3.0, 1.0, 2.0, 9.0]))
    tensor(2.)
    """
    return compute_median("median", input, dim, keepdim)


@as_method
@takes_out
@recorded_as(lambda input, dim=None, *_, **__: f"NanmedianBackward{int(dim is not None)}")
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median (the lower of two), ignoring NaN; with `dim`, also its index.

    >>> nanmedian(tensor([1.0, math.nan, 3.0, 2.0]))
    tensor(2.)
    """
    return compute_median("nanmedian", input, dim, keepdim)


def compute_median(name: str, input: Tensor, dim: int | None, keepdim: bool) -> Any:
    """Sort (NaN comes last) and take the middle element."""
    refuse_bools(name, input)
    if dim is None:
        return median_forward(input, name == "nanmedian")
    shape = input._array.shape
    axis = normal_dim(name, dim, len(shape))
    n = shape[axis] if shape else 1
    if not n:
        raise ShapeError(name, f"axis {dim} has size 0", {"input": tuple(input.shape)})
    if name == "median":
        arguments = ((n - 1) // 2, axis, keepdim, True)
        middle = pick(KTH_SMALLEST, minmax_dim.op, input, arguments, (axis, keepdim))
        if middle is not None:
            return return_types.median(*middle)
    rows = atleast_1d(input)
    ordered = sort(rows, axis)
    valid_count = sum(~isnan(rows), axis, True)
    position = (valid_count - 1).clamp(min=0) // 2
    if name == "median":
        position = where(valid_count == n, position, valid_count.clamp(max=n - 1))
    values, indices = (gather(part, axis, position) for part in ordered)
    if not keepdim or not input.ndim:
        values, indices = values.squeeze(axis), indices.squeeze(axis)
    return getattr(return_types, name)(values, indices)


@op(
    method=False, dtypes="bif", public="median nanmedian",
    node="NanmedianBackward0 if skips_nan else MedianBackward0",
)  # fmt: skip
def median_forward(xp: Namespace, input: Array, skips_nan: bool) -> Array:
    """The median of all elements: see `median`. NaN for an empty tensor."""
    if not input.size:
        return xp.full((), empty_median(input.dtype)).astype(input.dtype)
    sortable = input.astype("float32") if input.dtype == bfloat16.numpy else input  # NaN comes last
    flat = sortable.reshape(-1)
    is_plain = flat.__class__ is ndarray and flat.dtype.kind in "fiu"
    if is_plain and not xp.any(xp.isnan(flat)):  # a partition is enough
        middle = (flat.size - 1) // 2
        return xp.partition(flat, middle)[middle].astype(input.dtype)
    ordered = xp.sort(flat)
    valid_count = xp.sum(ordered == ordered)
    position = xp.maximum(valid_count - 1, 0) // 2
    if not skips_nan:
        position = xp.where(
            valid_count == input.size, position, xp.minimum(valid_count, input.size - 1)
        )
    return xp.take(ordered, position).astype(input.dtype)


median_forward.vjp(
    input=lambda g, y, input: (
        zeros_like(input) if 0 in input.shape else share_evenly(g, y, input, None)
    ),
    latex=r"\frac{g}{k}\,[x = y]",
)


def empty_median(dtype: Any) -> Any:
    """The median of an empty tensor: NaN, or for integers the result of casting NaN."""
    if dtype.kind not in "iub":
        return float("nan")
    return 0 if dtype.itemsize < 4 else iinfo(of(dtype)).min
