"""Elements by their positions: gather, scatter, the largest, those that are not 0."""

from __future__ import annotations

from typing import Any

from ..table import onnx_op
from ..values import (
    Outputs,
    Value,
    dtype_of,
    facts,
    ints,
    is_unsigned_storage,
    literal,
    number,
    positive,
    rank_of,
    torch,
)  # fmt: skip
from .elementwise import ordered

REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def integer_indices(indices: Value) -> Value:
    """Return positions as int64."""
    return indices if facts(indices).dtype == torch.int64 else indices.to(torch.int64)


def wrapped(indices: Value, size: Any) -> Value:
    """Return positions counted from the front."""
    constant = facts(indices).constant
    indices = integer_indices(indices)
    if constant is not None and (constant >= 0).all():
        return indices
    return torch.where(indices < 0, indices + size, indices)


@onnx_op("Gather")
def gather(data: Value, indices: Value, *, axis: int = 0) -> Value:
    """Take slices along an axis by their positions."""
    position = literal(indices)
    if axis < 0:
        axis = positive(axis, rank_of(data))
    chosen = position if isinstance(position, int) else integer_indices(indices)
    return data[chosen] if axis == 0 else data[(*[slice(None)] * axis, chosen)]


@onnx_op("GatherElements")
def gather_elements(data: Value, indices: Value, *, axis: int = 0) -> Value:
    """Take single elements: each position is one along an axis."""
    return torch.gather(data, axis, wrapped(indices, data.shape[axis]))


@onnx_op("GatherND")
def gather_nd(data: Value, indices: Value, *, batch_dims: int = 0) -> Value:
    """Take slices by their positions along several axes."""
    count, rank = indices.shape[-1], rank_of(indices)
    columns = [integer_indices(indices[..., i]) for i in range(int(count))]
    for dim in range(batch_dims):
        shape = [1] * (rank - 1)
        shape[dim] = -1
        columns.insert(dim, torch.reshape(torch.arange(data.shape[dim]), shape))
    return data[tuple(columns)]


@onnx_op("ScatterElements", "Scatter")
def scatter_elements(
    data: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none"
) -> Value:
    """Write single elements: each position is one along an axis."""
    positions = wrapped(indices, data.shape[axis])
    if reduction == "none":
        return torch.scatter(data, axis, positions, updates)
    how = REDUCTIONS[reduction]
    return torch.scatter_reduce(data, axis, positions, updates, reduce=how)


@onnx_op("ScatterND")
def scatter_nd(data: Value, indices: Value, updates: Value, *, reduction: str = "none") -> Value:
    """Write slices by their positions along several axes."""
    count = int(indices.shape[-1])
    columns = tuple(integer_indices(indices[..., i]) for i in range(count))
    if reduction in ("none", "add"):
        return torch.index_put(data, columns, updates, accumulate=reduction == "add")
    sizes = data.shape[:count]
    flat = torch.zeros_like(columns[0])
    for column, length in zip(columns, sizes, strict=True):
        flat = flat * length + torch.where(column < 0, column + length, column)
    rows = torch.reshape(data, [-1, *data.shape[count:]])
    news = torch.reshape(updates, [flat.numel(), *data.shape[count:]])
    index = torch.reshape(flat, [-1] + [1] * (news.dim() - 1)).expand(news.shape)
    result = torch.scatter_reduce(rows, 0, index, news, reduce=REDUCTIONS[reduction])
    return torch.reshape(result, data.shape)


@onnx_op("TensorScatter")
def tensor_scatter(
    past_cache: Value, update: Value, write_indices: Value = None, *, axis: int = -2,
    mode: str = "linear",
) -> Value:  # fmt: skip
    """Write new steps into a cache of earlier ones, from a position on, per sample."""
    axis = positive(axis, past_cache.dim())
    length, steps = past_cache.shape[axis], update.shape[axis]
    starts = [0] * past_cache.shape[0] if write_indices is None else ints(write_indices)
    rows = []
    for row, new, start in zip(past_cache.unbind(0), update.unbind(0), starts, strict=True):
        positions = [start + i for i in range(steps)]
        if mode == "circular":
            positions = [position % length for position in positions]
        rows.append(torch.index_copy(row, axis - 1, torch.tensor(positions), new))
    return torch.stack(rows)


@onnx_op("Compress")
def compress(input: Value, condition: Value, *, axis: int | None = None) -> Value:
    """Keep the slices at which a condition holds."""
    data, axis = (torch.flatten(input), 0) if axis is None else (input, axis)
    return torch.index_select(data, axis, torch.nonzero(condition).flatten())


@onnx_op("NonZero")
def non_zero(X: Value) -> Value:
    """The positions of all elements that are not 0, a column each."""
    return torch.nonzero(X).t()


@onnx_op("OneHot")
def one_hot(indices: Value, depth: Value, values: Value, *, axis: int = -1) -> Value:
    """Write each position as a row with one value at it, and another elsewhere."""
    count = int(number(depth))
    positions = integer_indices(indices)
    positions = torch.where(positions < 0, positions + count, positions)
    axis = positive(axis, rank_of(indices) + 1)
    classes = torch.arange(count).reshape([-1] + [1] * (rank_of(indices) - axis))
    return torch.where(torch.unsqueeze(positions, axis) == classes, values[1], values[0])


@onnx_op("TopK")
def top_k(X: Value, K: Value, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Outputs:
    """The largest (or smallest) elements along an axis, and where they are."""
    if is_unsigned_storage(X):
        values, indices = top_k(ordered(X), K, axis=axis, largest=largest)
        return ordered(values, dtype_of(X)).to(dtype_of(X)), indices
    # Of equal elements ONNX takes the first: a stable sort does, too.
    order = torch.argsort(X, dim=axis, descending=bool(largest), stable=True)
    indices = order.narrow(axis, 0, int(number(K)))
    return torch.gather(X, axis, indices), indices


@onnx_op("Unique")
def unique(X: Value, *, axis: int | None = None, sorted: int = 1) -> Outputs:
    """The different elements: they, where they come first, which is where, how often."""
    data = torch.flatten(X) if axis is None else X
    dim = 0 if axis is None else positive(axis, X.dim())
    values, inverse, counts = torch.unique(data, return_inverse=True, return_counts=True, dim=dim)
    everywhere = torch.arange(inverse.numel())
    first = torch.full_like(counts, inverse.numel())
    first = torch.scatter_reduce(first, 0, inverse, everywhere, reduce="amin")
    if not sorted:
        order = torch.argsort(first)
        values = torch.index_select(values, dim, order)
        first, counts, inverse = first[order], counts[order], torch.argsort(order)[inverse]
    return values, first, inverse, counts


@onnx_op("ArrayFeatureExtractor")
def array_feature_extractor(X: Value, Y: Value) -> Value:
    """Take columns by their positions."""
    return X[..., torch.flatten(Y)]
