"""Sorting, top-k, maxima and minima with indices, unique values and the mode."""

from __future__ import annotations

from typing import Any

from numpy import count_nonzero, flatnonzero, moveaxis, ndarray, partition

from .. import backends
from ..backends.kernel_registry import Slot, slot
from ..backends.numpy import Array, ArrayOrTensor, Namespace
from ..core import return_types
from ..core.autograd.graph import edge_of
from ..core.autograd.versions import clock
from ..core.composed import as_method, name_node, recorded_as, takes_out, write_into
from ..core.op import Op, op
from ..core.precision import to_float32
from ..core.return_types import ValuesIndices
from ..core.shapes import normal_dim
from ..core.tensor import LEAF, PLAIN_TENSORS, Tensor, wrap
from ..dtypes import bfloat16
from ..errors import ShapeError, refuse_complex
from ..modes import DEFAULT, NO_GRAD, current
from .comparison import refuse_bools
from .gather_scatter import gather, index_along
from .indexing import index_put_forward
from .minmax import maximum, minimum
from .reduction import amax, amin
from .views import narrow, reshape

__all__ = [
    "argsort", "kthvalue", "max", "min", "mode", "msort", "sort", "topk", "unique",
    "unique_consecutive",
]  # fmt: skip


KTH_SMALLEST, TOP_K = slot("KTH_SMALLEST"), slot("TOP_K")
"""Kernels that find elements along an axis and their indices: the k-th smallest, the k largest."""


def pick(
    kernel: Slot, op: Op, input: Tensor, arguments: tuple[Any, ...], settings: tuple[Any, ...]
) -> tuple[Tensor, Tensor] | None:
    """Return the elements that a kernel finds along an axis, and their indices.

    None: there is no kernel for this tensor, or for these modes.

    Args:
        op: as a call of which they are recorded: its rule is the same.
        arguments: of the kernel, after the array.
        settings: what a node of the op saves between the shape of the input and the indices.
    """
    x, modes = input._array, current()
    if (modes is not DEFAULT and modes is not NO_GRAD) or input.__class__ not in PLAIN_TENSORS:
        return None
    # A slot without its kernel requests it.
    pair = (kernel.run or kernel)(x, *arguments) if x.__class__ is ndarray and x.size else None
    if pair is None:
        return None
    values, indices = pair
    result = wrap(values)
    if modes.grad and input._node is not None:
        result._node = node = op.node_type()
        node._order, node.edges = clock(), (edge_of(input),)
        node.saved = (x.shape, *settings, indices.copy())
        node.shape, node.dtype, node.hooks, node.writes = values.shape, values.dtype, None, None
    return result, wrap(indices)


def scatter_gradient(
    g: ArrayOrTensor, shape: tuple[int, ...], dim: int, indices: ArrayOrTensor
) -> Any:
    """Scatter the gradient of each value to the index it was taken from."""
    dim = dim % len(shape) if shape else 0
    return index_put_forward(g, index_along(indices, dim), shape) if shape else g


@op(
    outputs=("values", "indices"), method=False, dtypes="bif", public="sort argsort msort",
    node="SortBackward0",
)  # fmt: skip
def sort_forward(
    xp: Namespace, input: Array, dim: int = -1, descending: bool = False, stable: bool = True
) -> tuple[Array, Array]:
    """The sorted elements along `dim`, and their indices: see `sort`."""
    dim = normal_dim("sort", dim, input.ndim)
    if not input.ndim:
        return input.copy(), xp.zeros((), "int64")
    backward = (slice(None),) * dim + (slice(None, None, -1),)
    source = input[backward] if descending else input
    indices = xp.argsort(sortable(source), axis=dim, kind="stable")
    if descending:  # stable in both directions
        indices = (input.shape[dim] - 1 - indices)[backward]
    return input[index_along(indices, dim)], indices


def sortable(array: Array) -> Array:
    """Return an array, bfloat16 as float32: ml_dtypes does not sort NaN last, CuPy not at all."""
    return array.astype("float32") if array.dtype == bfloat16.numpy else array


sort_forward.vjp(
    input=lambda g, input_shape, dim, indices: scatter_gradient(g, input_shape, dim, indices),
    latex=r"g\ \text{back in its place}",
)


@op(
    outputs=("values", "indices"), method=False, dtypes="bif", public="max min",
    node="MaxBackward0 if largest else MinBackward0",
)  # fmt: skip
def minmax_dim(
    xp: Namespace, input: Array, dim: int, keepdim: bool, largest: bool
) -> tuple[Array, Array]:
    """The maximum or minimum along `dim`, and its index: see `max` and `min`."""
    name = "max" if largest else "min"
    dim = normal_dim(name, dim, input.ndim)
    if not input.ndim:
        return input.copy(), xp.zeros((), "int64")
    if not input.shape[dim]:
        raise ShapeError(
            name, f"axis {dim} has size 0, so there is no {name}", {"input": input.shape}
        )
    reduce, place = (amax, input.argmax) if largest else (amin, input.argmin)
    # The method: NumPy's function of this name takes a microsecond more.
    value = reduce.op.forward(xp, input, dim, keepdim)
    return value, place(axis=dim, keepdims=keepdim)


def extreme_gradient(
    g: ArrayOrTensor, shape: tuple[int, ...], dim: int, keepdim: bool, indices: ArrayOrTensor
) -> Any:
    if shape and not keepdim:
        dim = dim % len(shape)
        kept_shape = (*shape[:dim], 1, *shape[dim + 1 :])
        g, indices = reshape(g, kept_shape), indices.reshape(kept_shape)
    return scatter_gradient(g, shape, dim, indices)


minmax_dim.vjp(
    input=lambda g, input_shape, dim, keepdim, indices: extreme_gradient(
        g, input_shape, dim, keepdim, indices
    ),
    latex=r"g\ \text{to where it was found}",
)


WHOLE_NODES = {"max": "MaxBackward1", "min": "MinBackward1"}
"""PyTorch's node names for the maximum and the minimum of all elements."""


def _minmax(name: str, input: Tensor, dim: Any, keepdim: bool, other: Any, out: Any) -> Any:
    if isinstance(dim, Tensor):
        dim, other = None, dim
    if other is not None:
        return (maximum if name == "max" else minimum)(input, other, out=out)
    values_indices = minmax_dim(input, dim, keepdim, name == "max")
    result = getattr(return_types, name)(*values_indices)
    return result if out is None else write_into(name, out, result)


def reduce_whole(name: str, input: Tensor, out: Any) -> Any:
    """Return the maximum or minimum of all elements."""
    if not input._array.size:
        raise ShapeError(
            name, "an empty tensor has none; give a `dim`", {"input": tuple(input.shape)}
        )
    result = (amax if name == "max" else amin)(input, None, out=out)
    node = result._node
    if node is not None and node is not LEAF:
        name_node(node, WHOLE_NODES[name])
    return result


@as_method
def max(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None, out: Any = None
) -> Any:
    """The maximum; with `dim`, also its indices; with a second tensor, elementwise.

    >>> max(tensor([[1, 5], [7, 3]]), 1).indices
    tensor([1, 0])
    """
    if dim is None and other is None:
        return reduce_whole("max", input, out)
    return _minmax("max", input, dim, keepdim, other, out)


@as_method
def min(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None, out: Any = None
) -> Any:
    """The minimum; with `dim`, also its indices; with a second tensor, elementwise.

    >>> min(tensor([[1, 5], [7, 3]]), 1).values
    tensor([1, 3])
    """
    if dim is None and other is None:
        return reduce_whole("min", input, out)
    return _minmax("min", input, dim, keepdim, other, out)


@as_method
@takes_out
def sort(
    input: Tensor, dim: int = -1, descending: bool = False, stable: bool = True
) -> ValuesIndices:
    """The elements sorted along `dim`, and their indices. The sort is stable.

    >>> sort(tensor([3, 1, 2])).values
    tensor([1, 2, 3])
    """
    return return_types.sort(*sort_forward(input, dim, descending, stable))


@as_method
@takes_out
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices that sort the elements along `dim`.

    >>> argsort(tensor([3, 1, 2]))
    tensor([1, 2, 0])
    """
    return sort(input, dim, descending, stable).indices


@as_method
@takes_out
@recorded_as("TopkBackward0")
def topk(
    input: Tensor, k: int, dim: int | None = -1, largest: bool = True, sorted: bool = True
) -> ValuesIndices:
    """The k largest (or smallest) elements along `dim`, and their indices.

    >>> topk(tensor([3, 1, 2]), 2).values
    tensor([3, 2])
    """
    refuse_bools("topk", input)
    dim = -1 if dim is None else dim
    shape = input._array.shape
    if not 0 <= k <= (shape[dim] if shape else 1):
        raise ShapeError(
            "topk", f"k = {k} is out of range for axis {dim}", {"input": tuple(input.shape)}
        )
    top = pick(TOP_K, sort_forward.op, input, (k, dim, largest), (dim,))
    if top is not None:
        return return_types.topk(*top)
    candidates = partial_topk(input, k, dim, largest)
    if candidates is not None:
        values, order = sort(gather(input, dim, candidates), dim, largest)
        return return_types.topk(values, gather(candidates, dim, order))
    values, indices = sort(input, dim, largest)
    if not input.ndim:
        return return_types.topk(values, indices)
    return return_types.topk(narrow(values, dim, 0, k), narrow(indices, dim, 0, k))


FEW, MANY = 8, 10_000
"""Up to 1 / `FEW` of at least `MANY` elements are found by a partition, not by a sort."""


def partial_topk(input: Tensor, k: int, dim: int, largest: bool) -> Tensor | None:
    """Return the increasing indices of the k largest (or smallest) elements.

    None where they are not unique: ties with the last one, or NaN.
    """
    x = input._array
    if x.__class__ is not ndarray or not x.ndim or x.dtype.kind not in "fiu":
        return None
    if x.size < MANY or not 0 < k * FEW <= x.shape[dim]:
        return None
    rows = moveaxis(x, dim, -1)
    n = rows.shape[-1]
    pivot = n - k if largest else k - 1
    last = partition(rows, pivot)[..., pivot : pivot + 1]
    mask = rows >= last if largest else rows <= last
    if (count_nonzero(mask, -1) != k).any():
        return None
    positions = flatnonzero(mask) % n
    return wrap(moveaxis(positions.reshape(*rows.shape[:-1], k), -1, dim))


@as_method
@takes_out
@recorded_as("SortBackward0")
def msort(input: Tensor) -> Tensor:
    """The elements sorted along the first axis.

    >>> msort(tensor([3, 1, 2]))
    tensor([1, 2, 3])
    """
    return sort(input, 0).values


@as_method
@takes_out
@recorded_as("KthvalueBackward0")
def kthvalue(input: Tensor, k: int, dim: int | None = -1, keepdim: bool = False) -> ValuesIndices:
    """The k-th smallest along `dim` (counted from 1), and its index.

    >>> kthvalue(tensor([3, 1, 2]), 2).values
    tensor(2)
    """
    refuse_bools("kthvalue", input)
    dim = -1 if dim is None else dim
    shape = input._array.shape
    if not 1 <= k <= (shape[dim] if shape else 1):
        raise ShapeError(
            "kthvalue", f"k = {k} is out of range for axis {dim}", {"input": tuple(input.shape)}
        )
    arguments = (k - 1, dim, keepdim, False)
    kth = pick(KTH_SMALLEST, minmax_dim.op, input, arguments, (dim, keepdim))
    if kth is not None:
        return return_types.kthvalue(*kth)
    ordered = sort(input, dim)
    if not input.ndim:
        return return_types.kthvalue(*ordered)
    parts = (narrow(part, dim, k - 1, 1) for part in ordered)
    return return_types.kthvalue(*(part if keepdim else part.squeeze(dim) for part in parts))


# Unique values -------------------------------------------------------------------------------


@as_method
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """The sorted unique elements, and on request the inverse indices and the counts.

    With `dim`, the unique slices along it.

    >>> unique(tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    refuse_complex("unique", input=input)
    xp, array = backends.of(input._array).xp, input._array
    if dim is None:
        if not (return_inverse or return_counts):  # NumPy does not sort NaN of bfloat16
            values = xp.unique(to_float32(array), equal_nan=False)
            return wrap(values.astype(array.dtype))
        values, inverse, counts = xp.unique(
            to_float32(array), return_inverse=True, return_counts=True, equal_nan=False
        )
        values = values.astype(array.dtype)
        inverse = inverse.reshape(array.shape)
    else:
        dim = normal_dim("unique", dim, input.ndim)
        if not array.size and array.shape[dim]:
            rows = {"input": array.shape}
            raise ShapeError("unique", "slices must not be empty: other axes have size 0", rows)
        order = sort_slices(xp, to_float32(array), dim)
        starts, run_index, counts = find_runs(xp, xp.take(array, order, axis=dim), dim)
        values = xp.take(array, order[starts], axis=dim)
        inverse = xp.zeros(order.shape, "int64")
        inverse[order] = run_index
    return pack_results(values, inverse, counts, return_inverse, return_counts)


@as_method
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """The first element of each run of equal ones, or the first slice along `dim`.

    >>> unique_consecutive(tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    refuse_complex("unique_consecutive", input=input)
    xp, array = backends.of(input._array).xp, input._array
    rows = array.reshape(-1) if dim is None else array
    axis = 0 if dim is None else normal_dim("unique_consecutive", dim, input.ndim)
    starts, inverse, counts = find_runs(xp, rows, axis)
    if dim is None:
        inverse = inverse.reshape(array.shape)
    values = xp.take(rows, starts, axis=axis)
    return pack_results(values, inverse, counts, return_inverse, return_counts)


def sort_slices(xp: Namespace, array: Array, dim: int) -> Array:
    """Return the indices that sort the slices along `dim` lexicographically."""
    n = array.shape[dim]
    columns = xp.moveaxis(array, dim, 0).reshape(n, array.size // n if n else 0)
    order = xp.arange(n)
    for column in range(
        columns.shape[1] - 1, -1, -1
    ):  # least significant column first: the sort is stable
        order = order[xp.argsort(columns[order, column], kind="stable")]
    return order


def find_runs(xp: Namespace, array: Array, dim: int) -> tuple[Array, Array, Array]:
    """Return the start of each run of equal slices, the run of each slice, and the run lengths."""
    n = array.shape[dim]
    rows = xp.moveaxis(array, dim, 0).reshape(n, array.size // n if n else 0)
    new = xp.ones(n, "bool")
    new[1:] = xp.any(rows[1:] != rows[:-1], axis=1)
    starts = xp.nonzero(new)[0]
    ends = xp.concatenate([starts[1:], xp.asarray([n] if n else [], "int64")])
    return starts, xp.cumsum(new) - 1, ends - starts


def pack_results(values: Array, inverse: Array, counts: Array, *requested: bool) -> Any:
    """Return the values alone, or a tuple with the other requested results."""
    extras = [
        wrap(array.astype("int64"))
        for array, is_wanted in zip((inverse, counts), requested, strict=True)
        if is_wanted
    ]
    return (wrap(values), *extras) if extras else wrap(values)


# The mode ------------------------------------------------------------------------------------


@op(outputs=("values", "indices"), method=False, dtypes="bif", public="mode")
def mode_dim(xp: Namespace, input: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """The most frequent value along `dim` and the index of its last occurrence: see `mode`."""
    dim = normal_dim("mode", dim, input.ndim)
    if not input.ndim:
        return input.copy(), xp.zeros((), "int64")
    if not input.shape[dim]:
        raise ShapeError("mode", f"axis {dim} has size 0", {"input": input.shape})
    rows = xp.moveaxis(input, dim, -1)
    order = xp.argsort(sortable(rows), axis=-1, kind="stable")
    rows = rows[index_along(order, rows.ndim - 1)]
    repeats, step = xp.zeros(rows.shape, "int64"), 1
    while step < rows.shape[-1]:  # how many equal elements follow in the sorted row
        equal = rows[..., step:] == rows[..., :-step]
        if not bool(equal.any()):
            break
        repeats[..., :-step] += equal
        step += 1
    first = xp.expand_dims(xp.argmax(repeats, axis=-1), -1)
    last = first + repeats[index_along(first, rows.ndim - 1)]
    indices = xp.moveaxis(order[index_along(last, rows.ndim - 1)], -1, dim)
    values = input[index_along(indices, dim)]
    return (values, indices) if keepdim else (xp.squeeze(values, dim), xp.squeeze(indices, dim))


mode_dim.vjp(
    input=lambda g, input_shape, dim, keepdim, indices: extreme_gradient(
        g, input_shape, dim, keepdim, indices
    ),
    latex=r"g\ \text{to where it was found}",
)


@as_method
@takes_out
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent value along `dim` (the smallest of several) and its last index.

    >>> mode(tensor([2, 1, 2])).values
    tensor(2)
    """
    return return_types.mode(*mode_dim(input, dim, keepdim))
