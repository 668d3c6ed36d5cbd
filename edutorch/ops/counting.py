"""How often numbers occur, and where others would stand among them. No gradients."""

from __future__ import annotations

from typing import Any

from .. import backends
from ..core.methods import as_method
from ..core.tensor import Tensor, wrap
from ..errors import DTypeError, ShapeError


@as_method
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often 0, 1, 2, … occur; with weights, the sum of each one's weights.

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
    xp = backends.of(array).xp
    if weights is None:
        return wrap(xp.bincount(array, minlength=minlength).astype("int64"))
    heavy = weights._array
    counted = xp.bincount(array, weights=heavy, minlength=minlength)
    return wrap(counted.astype(heavy.dtype if heavy.dtype == "float32" else "float64"))


@as_method
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many numbers fall into each of `bins` equal parts of [min, max].

    With min = max, from the smallest to the largest number; others are not counted.

    >>> histc(tensor([1.0, 2.0, 1.0]), 4, 0, 3)
    tensor([0., 2., 1., 0.])
    """
    xp, array = backends.of(input._array).xp, input._array.reshape(-1)
    if min == max and array.size:
        min, max = float(array.min()), float(array.max())
    if min == max:
        min, max = min - 1, max + 1
    array = array[xp.logical_and(array >= min, array <= max)]
    place = xp.floor((array - min) * (bins / (max - min))).astype("int64")
    place = xp.minimum(place, bins - 1)  # the last part has both its ends
    return wrap(xp.bincount(place, minlength=bins).astype(input._array.dtype))


def searchsorted(
    sorted_sequence: Tensor, input: Any, *, right: bool = False, side: str | None = None
) -> Tensor:
    """Where numbers would be inserted into an ordered row (each row by itself).

    Equal numbers: before them, or with `right` behind them.

    >>> searchsorted(tensor([1, 3, 5]), tensor([3, 6]))
    tensor([1, 3])
    """
    rows = sorted_sequence._array
    xp = backends.of(rows).xp
    wanted = input._array if isinstance(input, Tensor) else xp.asarray(input)
    side = side or ("right" if right else "left")
    if rows.ndim < 2:
        found = xp.searchsorted(rows, wanted.reshape(-1), side).reshape(wanted.shape)
        return wrap(found.astype("int64"))
    if rows.shape[:-1] != wanted.shape[:-1]:
        raise ShapeError(
            "searchsorted", "the axes before the last must agree",
            {"sorted_sequence": rows.shape, "input": wanted.shape},
        )  # fmt: skip
    pairs = zip(rows.reshape(-1, rows.shape[-1]), wanted.reshape(-1, wanted.shape[-1]), strict=True)
    found = xp.stack([xp.searchsorted(row, some, side) for row, some in pairs])
    return wrap(found.reshape(wanted.shape).astype("int64"))


def bucketize(input: Any, boundaries: Tensor, *, right: bool = False) -> Tensor:
    """Between which boundaries numbers fall: `searchsorted` with the arguments exchanged.

    >>> bucketize(tensor([0, 4]), tensor([1, 3]))
    tensor([0, 2])
    """
    return searchsorted(boundaries, input, right=right)
