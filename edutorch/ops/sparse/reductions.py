"""Sums, norms and softmax over the stored elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.registry import op_function
from ...core.shapes import normal_dim
from ...core.tensor import Tensor, wrap
from ..indexing import index_put_forward
from .conversion import coalesced
from .pattern import Pattern
from .tensor import SparseTensor, make_sparse, not_for_sparse


def sum(
    input: SparseTensor, dim: int | Sequence[int] | None = None, keepdim: bool = False,
    dtype: Any = None,
) -> Tensor:  # fmt: skip
    """Add up along some axes (all by default): dense if no sparse axis is left, else sparse."""
    entries = input.entries if dtype is None else input.entries.to(dtype)
    if dim is None or dim in ((), []):
        return entries.sum()
    if keepdim:
        raise not_for_sparse("sum with keepdim")
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    dims = tuple(normal_dim("sum", axis, input.ndim) for axis in dims)
    count = input.sparse_dim()
    dense_dims = [axis - count + 1 for axis in dims if axis >= count]
    if dense_dims:
        entries = entries.sum(dense_dims)
    rest = [axis for axis in range(count) if axis not in dims]
    if not rest:
        return entries.sum(0)
    # Without the axes that are summed, several elements share a position: they are added up.
    pattern = Pattern(input.pattern.indices[rest], [input.pattern.shape[axis] for axis in rest])
    return coalesced(make_sparse(pattern, entries))


def norm(
    input: SparseTensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Tensor:
    """Return the norm of all elements: those that are not stored add nothing."""
    if dim is not None:
        raise not_for_sparse("norm with dim")
    return coalesced(input).entries.reshape(-1).norm(2 if p in ("fro", None) else p, dtype=dtype)


def vector_norm(input: SparseTensor, ord: Any = 2, dim: Any = None, **named: Any) -> Tensor:
    """Return the norm of all elements: see `norm`."""
    return norm(input, ord, dim)


def any(input: SparseTensor) -> Tensor:
    """Return whether an element is not 0."""
    return op_function("any")(input.entries)


def softmax(input: SparseTensor, dim: int, dtype: Any = None) -> SparseTensor:
    """Softmax along an axis over the stored elements: the others count as -∞, and stay 0.

    y[i] = exp(x[i]) / Σⱼ exp(x[j])   over the stored elements j of the same row
    """
    return normalize(input, dim, dtype, in_logarithms=False)


def log_softmax(input: SparseTensor, dim: int, dtype: Any = None) -> SparseTensor:
    """The logarithm of `softmax`."""
    return normalize(input, dim, dtype, in_logarithms=True)


def normalize(input: SparseTensor, dim: int, dtype: Any, in_logarithms: bool) -> SparseTensor:
    """Compute softmax or its logarithm."""
    if not input.is_sparse:
        raise not_for_sparse("_sparse_softmax", "SparseCsr")
    input = coalesced(input if dtype is None else input.to(dtype))
    dim = normal_dim("softmax", dim, input.ndim)
    entries, pattern = input.entries, input.pattern
    if dim >= input.sparse_dim():
        function = op_function("log_softmax" if in_logarithms else "softmax")
        return input.with_entries(function(entries, dim - input.sparse_dim() + 1))
    rest = [axis for axis in range(input.sparse_dim()) if axis != dim]
    xp = pattern.xp
    keys, group = xp.unique(pattern.keys_along(rest), return_inverse=True)
    group, shape = group.reshape(-1), (len(keys), *entries.shape[1:])
    # Without the largest of each group no exponential overflows, and the result is the same.
    largest = wrap(xp.full(shape, -xp.inf, entries._array.dtype))
    rows = wrap(group).reshape(-1, *(1,) * (entries.ndim - 1)).expand(entries.shape)
    largest = largest.scatter_reduce(0, rows, entries.detach(), "amax")
    shifted = entries - largest[group]
    exponentials = shifted.exp()
    totals = index_put_forward(exponentials, (group,), shape)
    if in_logarithms:
        return input.with_entries(shifted - totals.log()[group])
    return input.with_entries(exponentials / totals[group])
