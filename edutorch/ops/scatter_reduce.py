"""Scatter with a reduction: elements scattered to one position are combined."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import backends
from ..backends.numpy import Array, ArrayOrTensor, Namespace
from ..core.op import op
from ..core.shapes import normal_dim
from .comparison import where
from .creation import ones_like, zeros_like
from .gather_scatter import (
    check_fit,
    checked_range,
    gather,
    gather_source_gradient,
    index_along,
    index_array,
    scatter,
    scatter_add,
    used_part,
)  # fmt: skip
from .indexing import Index, index_put_forward
from .views import reshape

__all__ = ["scatter_reduce"]

REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


@op(promotion="same", accumulates=True, out=True)
def scatter_reduce(
    xp: Namespace, input: Array, dim: int, index: Index, src: Array, reduce: str, *,
    include_self: bool = True,
) -> Array:  # fmt: skip
    """A copy of `input` with src reduced at its positions: sum, prod, mean, amax, amin.

    With include_self=False the element of `input` is excluded from the reduction.

    >>> scatter_reduce(ones(2), 0, tensor([1, 1]), tensor([5.0, 6.0]), "amax")
    tensor([1., 6.])
    """
    if reduce not in REDUCTIONS:
        raise ValueError(f"reduce must be one of {', '.join(REDUCTIONS)}, got {reduce!r}")
    index = index_array("scatter_reduce", index)
    dim = normal_dim("scatter_reduce", dim, input.ndim)
    if not input.ndim:  # a 0-d tensor counts as a vector of one element
        row = (input.reshape(1), dim, index.reshape(-1), src.reshape(-1), reduce)
        return scatter_reduce.op.forward(xp, *row, include_self=include_self).reshape(())
    check_fit("scatter_reduce", dim, input, index, src)
    index = checked_range("scatter_reduce", index, input.shape[dim])
    where, src = index_along(index, dim), used_part(src, index.shape)
    y = input.copy()
    if not index.size or not backends.has_elements(y):
        return y
    if reduce in ("sum", "mean"):
        return scatter_sum(xp, y, where, src, reduce == "mean", include_self)
    combine = {"prod": xp.multiply, "amax": xp.maximum, "amin": xp.minimum}[reduce]
    flat_positions = xp.arange(input.size).reshape(input.shape)[where].reshape(-1)
    positions, values = combine_duplicates(xp, flat_positions, src.reshape(-1), combine)
    flat = y.reshape(-1)
    flat[positions] = combine(flat[positions], values) if include_self else values
    return flat.reshape(input.shape)


def scatter_sum(
    xp: Namespace, y: Array, index: Index, src: Array, average: bool, include_self: bool
) -> Array:
    """Sum `src` at its positions; for a mean, divide by the number of summands."""
    counts = xp.ones(y.shape, "int64")
    if not include_self:
        y[index] = xp.zeros((), y.dtype)
        counts[index] = 0
    backends.of(y).scatter_add(y, index, src)
    if not average:
        return y
    backends.of(y).scatter_add(counts, index, xp.ones(src.shape, "int64"))
    if y.dtype.kind in "iu":
        return (y // counts).astype(y.dtype)
    return (y / counts.astype(y.dtype)).astype(y.dtype)


def combine_duplicates(
    xp: Namespace, positions: Array, values: Array, combine: Any
) -> tuple[Array, Array]:
    """Combine the values of equal positions pairwise until the positions are unique."""
    order = xp.argsort(positions, kind="stable")
    positions, values = positions[order], values[order]
    while True:
        new = xp.concatenate([xp.ones(1, "bool"), positions[1:] != positions[:-1]])
        if bool(new.all()):
            return positions, values
        start = xp.nonzero(new)[0][xp.cumsum(new) - 1]
        first = (xp.arange(positions.size) - start) % 2 == 0  # first of its pair
        second = xp.nonzero(xp.logical_not(first))[0]
        values[second - 1] = combine(values[second - 1], values[second])
        positions, values = positions[first], values[first]


def treat_scalar_as_row(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a rule so that it treats 0-d tensors as vectors of one element, as the forward."""

    @functools.wraps(rule)
    def for_any(
        g: ArrayOrTensor, y: ArrayOrTensor, input: ArrayOrTensor, dim: int, index: Index,
        src: ArrayOrTensor, reduce: str, include_self: bool,
    ) -> Any:  # fmt: skip
        if g.ndim:
            return rule(g, y, input, dim, index, src, reduce, include_self)
        g, y, input, row = (reshape(tensor, (-1,)) for tensor in (g, y, input, src))
        gradient = rule(g, y, input, 0, index.reshape(-1), row, reduce, include_self)
        return reshape(gradient, ())

    return for_any


@treat_scalar_as_row
def input_gradient(
    g: ArrayOrTensor, y: ArrayOrTensor, input: ArrayOrTensor, dim: int, index: Index,
    src: ArrayOrTensor, reduce: str, include_self: bool,
) -> Any:  # fmt: skip
    """The gradient of `input`."""
    if not include_self:
        return scatter(g, dim, index, zeros_like(gather(g, dim, index)))
    if reduce == "prod":
        return g * scatter_reduce(ones_like(input), dim, index, src, "prod")
    if reduce == "mean":
        return g / count_combined(g, dim, index, True)
    if reduce == "sum":
        return g
    is_extreme, _, shares = extreme_masks(y, input, dim, index, src, True)
    return g * is_extreme / shares


@treat_scalar_as_row
def source_gradient(
    g: ArrayOrTensor, y: ArrayOrTensor, input: ArrayOrTensor, dim: int, index: Index,
    src: ArrayOrTensor, reduce: str, include_self: bool,
) -> Any:  # fmt: skip
    """The gradient of `src`; elements that the index does not use get 0."""
    shape = tuple(src.shape)
    if reduce == "sum":
        return gather_source_gradient(g, shape, index, dim)
    if reduce == "mean":
        return gather_source_gradient(
            g / count_combined(g, dim, index, include_self), shape, index, dim
        )
    used = used_part(src, tuple(index.shape))
    if reduce == "prod":
        part = gather(g, dim, index) * product_of_others(input, dim, index, used, include_self)
    else:
        _, is_extreme, shares = extreme_masks(y, input, dim, index, used, include_self)
        part = gather(g / shares, dim, index) * is_extreme
    if tuple(part.shape) == shape:
        return part
    return index_put_forward(part, tuple(slice(size) for size in part.shape), shape)


def count_combined(like: ArrayOrTensor, dim: int, index: Index, include_self: bool) -> Any:
    """Count the elements combined at each position; 1 where there is none."""
    counts = ones_like(like)
    source_ones = ones_like(gather(like, dim, index))
    if not include_self:
        counts = scatter(counts, dim, index, zeros_like(source_ones))
    return scatter_add(counts, dim, index, source_ones)


def extreme_masks(
    y: ArrayOrTensor, input: ArrayOrTensor, dim: int, index: Index, src: ArrayOrTensor,
    include_self: bool,
) -> Any:  # fmt: skip
    """Masks (1 or 0) of the elements equal to the extreme, and how many are."""
    input_mask = where(input == y, ones_like(y), zeros_like(y))
    src = used_part(src, tuple(index.shape))
    source_mask = where(src == gather(y, dim, index), ones_like(src), zeros_like(src))
    if not include_self:
        input_mask = scatter(input_mask, dim, index, zeros_like(source_mask))
    shares = scatter_add(input_mask, dim, index, source_mask)
    return input_mask, source_mask, where(shares == 0, ones_like(shares), shares)


def product_of_others(
    input: ArrayOrTensor, dim: int, index: Index, src: ArrayOrTensor, include_self: bool
) -> Any:
    """For each element of src, the product of all other factors of its position.

    That is product / element. An element that is the only 0 of its position is left out
    instead; where there are several zeros, each product of the others is 0.
    """
    zero = src == 0
    ones = ones_like(src)
    zero_counts = scatter_add(zeros_like(input), dim, index, where(zero, ones, zeros_like(src)))
    alone = where(zero, gather(zero_counts, dim, index), zeros_like(src)) == 1

    def product(factors: ArrayOrTensor) -> Any:
        total = scatter_reduce(input, dim, index, factors, "prod", include_self=include_self)
        return gather(total, dim, index)

    return where(alone, product(where(alone, ones, src)), product(src) / where(zero, ones, src))


scatter_reduce.vjp(
    input=input_gradient,
    src=source_gradient,
    latex={
        "input": r"g\,\frac{\partial y}{\partial x}",
        "src": r"\left(g\,\frac{\partial y}{\partial s}\right)[index]",
    },
)
