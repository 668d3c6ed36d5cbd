"""Distances and the cosine similarity of vectors."""

from __future__ import annotations

import functools
import math

import numpy

from ...core.composed import composed_in_float32, recorded_as
from ...core.tensor import Tensor
from ...dtypes import promote_types
from ...errors import DTypeError, InvalidValueError, ShapeError, refuse_complex
from ...modes import no_grad
from ...ops import abs as abs_
from ...ops import (
    amax,
    broadcast_tensors,
    clamp,
    index_select,
    maximum,
    norm,
    sum,
    triu_indices,
    where,
)
from ...ops.products import subtract_widened
from ...ops.statistics import vector_norm
from .op_decorators import can_read

__all__ = ["cosine_similarity", "pairwise_distance", "pdist"]


@composed_in_float32
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`: x1 · x2 / (|x1| |x2|).

    Args:
        eps: the minimum of the norms to divide by. A vector shorter than that has the gradient
            of the clamped formula; PyTorch's gradient ignores the clamp.

    >>> nn.functional.cosine_similarity(tensor([3.0, 4.0]), tensor([3.0, 0.0]), dim=0)
    tensor(0.6000)
    """
    if not is_real_pair(x1, x2):
        refuse_complex("cosine_similarity", x1=x1, x2=x2)
        if not (x1.is_floating_point() or x2.is_floating_point()):
            raise DTypeError(
                "cosine_similarity", "expected floating numbers",
                {"x1": x1.dtype, "x2": x2.dtype}, "use x1.float()",
            )  # fmt: skip
        x1, x2 = promote_pair(x1, x2)
    if x1._array.shape != x2._array.shape and x1.shape != x2.shape:
        x1, x2 = broadcast_tensors(x1, x2)  # broadcasting along `dim` changes the norms
    length1, length2 = vector_norm(x1, 2, dim), vector_norm(x2, 2, dim)
    least1, least2 = shortest(length1), shortest(length2)
    if math.isnan(least1) or math.isnan(least2):
        (x1, length1), (x2, length2) = scale_by_max(x1, 2, dim, eps), scale_by_max(x2, 2, dim, eps)
    else:
        length1, length2 = at_least(length1, eps, least1), at_least(length2, eps, least2)
    return sum(x1 * x2, dim) / (length1 * length2)


def is_real_pair(x1: Tensor, x2: Tensor) -> bool:
    """Return True if both have one dtype of floating numbers: the usual case."""
    dtype = x1._array.dtype
    return dtype is x2._array.dtype and dtype.kind == "f"


def promote_pair(x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    """Return both tensors in their common dtype: a 16-bit norm has few digits."""
    if x1.dtype is x2.dtype:
        return x1, x2
    common = promote_types(x1.dtype, x2.dtype)
    return x1.to(common), x2.to(common)


# Vectors whose squares leave the range of their dtype -------------------------------------------


def shortest(lengths: Tensor, p: float = 2.0) -> float:
    """Return the least of norms; 0 of none.

    NaN where |x|ᵖ may have overflowed or underflowed on the way to one, or they cannot be read.
    """
    array = lengths._array
    if not can_read(lengths):
        return math.nan
    if not array.size:
        return 0.0
    # Not the array's methods, which take twice as long.
    lowest, highest = numpy.minimum.reduce(array, None), numpy.maximum.reduce(array, None)
    # 16-bit lengths are computed in float32.
    minimum, maximum_norm = safe_norm_range(array.itemsize == 8, p)
    return lowest if lowest > minimum and highest < maximum_norm else math.nan  # with NaN, too


def at_least(lengths: Tensor, eps: float, least: float) -> Tensor:
    """Clamp norms to at least `eps`; where none is shorter, the graph has no step for it.

    Args:
        least: the shortest.
    """
    return lengths if least >= eps else clamp(lengths, min=eps)


@functools.cache
def safe_norm_range(is_double: bool, p: float) -> tuple[float, float]:
    """Return the range of norms in which |x|ᵖ neither overflows nor becomes subnormal."""
    limits = numpy.finfo("float64" if is_double else "float32")
    return float((limits.tiny / limits.eps) ** (1 / p)), float(limits.max ** (1 / p))


def max_abs(x: Tensor, dim: int | tuple[int, ...], minimum: float = 0.0) -> Tensor:
    """Return the largest |x| along `dim`, at least `minimum`, as a constant to divide by."""
    with no_grad():
        largest = clamp(amax(abs_(x), dim, True), min=minimum)
        return where((largest > 0) & (largest < float("inf")), largest, 1.0)


def scale_by_max(
    x: Tensor, p: float, dim: int | tuple[int, ...], eps: float, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """Return vectors divided by their largest element, and the norms of these, at least `eps`."""
    if not x.numel():
        return x, clamp(norm(x, p, dim, keepdim), min=eps)
    largest = max_abs(x, dim, eps)
    x = x / largest
    return x, maximum(norm(x, p, dim, keepdim), eps / (largest if keepdim else amax(largest, dim)))


def safe_norm(x: Tensor, p: float, dim: int, keepdim: bool = False) -> Tensor:
    """Return `norm(x, p, dim, keepdim)`, also where |x|ᵖ leaves the range of the dtype."""
    y = norm(x, p, dim, keepdim)
    if not 1 < p < float("inf") or not x.numel() or not math.isnan(shortest(y, p)):
        return y
    largest = max_abs(x, dim)
    y = norm(x / largest, p, dim, keepdim)
    return y * (largest if keepdim else amax(largest, dim))


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm distance of vectors along the last axis: y = (Σ |x1 - x2 + ε|ᵖ)^(1/p).

    Args:
        p: 2 for the Euclidean distance, 1 for the sum of absolute differences.
        eps: keeps the derivative finite where both are the same.

    >>> nn.functional.pairwise_distance(tensor([[3.0, 4.0]]), tensor([[0.0, 0.0]]))
    tensor([5.0000])
    """
    return safe_norm(subtract_widened(x1, x2) + float(eps), p, -1, keepdim)


@recorded_as("PdistBackward0")
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distances of all pairs of rows i < j, in row-major order.

    Raises: ShapeError: not a matrix. ValueError: p is negative.

    >>> nn.functional.pdist(tensor([[0.0], [3.0], [7.0]]))
    tensor([3., 7., 4.])
    """
    refuse_complex("pdist", input=input)
    if input.ndim != 2:
        raise ShapeError(
            "pdist", f"only supports 2D tensors, got: {input.ndim}D", {"input": tuple(input.shape)}
        )
    if p < 0:
        raise InvalidValueError("pdist", f"pdist only supports non-negative p values, got {p}")
    first, second = triu_indices(input.shape[0], input.shape[0], 1, device=input.device).unbind()
    difference = index_select(input, 0, first) - index_select(input, 0, second)
    return safe_norm(difference, p, -1)
