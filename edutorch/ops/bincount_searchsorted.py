"""Counting values (bincount, histc) and binary search (searchsorted, bucketize). No gradients."""

from __future__ import annotations

import math
from typing import Any

from .. import backends
from ..backends.numpy import Namespace
from ..core.out_variants import takes_out
from ..core.precision import to_float32
from ..core.tensor import Tensor, wrap
from ..core.tensor_methods import as_method
from ..errors import DTypeError, InvalidValueError, ShapeError, refuse_complex


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
    sorted_sequence: Tensor, input: Any, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Tensor | None = None,
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
    return wrap(
        find_insertion_positions(
            xp, rows, values, side or ("right" if right else "left"), out_int32
        )
    )


def find_insertion_positions(
    xp: Namespace, rows: Any, values: Any, side: str, out_int32: bool
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
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
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


from .gather_scatter import gather  # noqa: E402
