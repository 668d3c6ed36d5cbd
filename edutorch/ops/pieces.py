"""Ops that split a tensor into several views with one node for all of them.

The gradient of the input is the concatenation of the gradients of the views.
(`joining.py` has the public functions.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..backends.numpy import Array, Namespace
from ..core.op import multi_view
from ..core.shapes import normal_dim
from ..errors import ShapeError


@multi_view
def split(xp: Namespace, input: Array, split_size: int, dim: int = 0) -> tuple[Array, ...]:
    """Split along an axis into chunks of one size; the last may be smaller.

    >>> split(tensor([1, 2, 3]), 2)
    (tensor([1, 2]), tensor([3]))
    """
    before = (slice(None),) * normal_dim("split", dim, input.ndim)
    total = input.shape[dim]
    if split_size < 0 or split_size == 0 < total:
        raise ShapeError("split", f"the size of a part must be positive, got {split_size}")
    starts = range(0, max(total, 1), split_size or 1)
    return tuple([input[(*before, slice(start, start + split_size))] for start in starts])


split.vjp(input=lambda g, dim: cat(g, dim), latex=r"\mathrm{cat}(g_0, g_1, \dots)")


@multi_view(public="split split_with_sizes")
def split_with_sizes(
    xp: Namespace, input: Array, split_sizes: Sequence[int], dim: int = 0
) -> tuple[Array, ...]:
    """Split along an axis into chunks of the given sizes.

    >>> split_with_sizes(tensor([1, 2, 3]), (1, 2))
    (tensor([1]), tensor([2, 3]))
    """
    before = (slice(None),) * normal_dim("split", dim, input.ndim)
    total = input.shape[dim]
    if sum(split_sizes) != total or min(split_sizes, default=0) < 0:
        raise ShapeError(
            split_with_sizes.op.title,
            f"the parts add up to {sum(split_sizes)}, but axis {dim} is {total}"
            if sum(split_sizes) != total
            else "the size of a part must not be negative",
            {"input": input.shape, "split_size_or_sections": list(split_sizes)},
        )
    parts, start = [], 0
    for size in split_sizes:
        parts.append(input[(*before, slice(start, start + size))])
        start += size
    return tuple(parts)


split_with_sizes.vjp(input=lambda g, dim: cat(g, dim), latex=r"\mathrm{cat}(g_0, g_1, \dots)")


@multi_view
def unbind(xp: Namespace, input: Array, dim: int = 0) -> tuple[Array, ...]:
    """All slices along an axis, which disappears.

    >>> unbind(tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
    """
    before = (slice(None),) * normal_dim("unbind", dim, input.ndim)
    return tuple([input[(*before, index, ...)] for index in range(input.shape[dim])])


def single_view_ops(
    name: str, shapes: Sequence[Any], dim: int, **settings: Any
) -> list[tuple[str, Any]]:
    """Return for each view of a split the op that returns it alone, and that op's settings."""
    if name == "unbind":
        return [("select", {"dim": dim, "index": index}) for index in range(len(shapes))]
    parts, start = [], 0
    for shape in shapes:
        parts.append(("narrow", {"dim": dim, "start": start, "length": shape[dim]}))
        start += shape[dim]
    return parts


unbind.vjp(input=lambda g, dim: stack(g, dim), latex=r"\mathrm{stack}(g_0, g_1, \dots)")

from .joining import cat, stack  # noqa: E402  (rules may use any op)
