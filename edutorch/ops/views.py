"""Views: tensors with other shapes and strides that share the memory.

A view is linear, so its gradient is the transposed mapping: elements that occur several
times in the result accumulate their gradients.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import backends
from ..backends.numpy import Array, ArrayOrTensor, Namespace, make_full
from ..core.autograd.view_tracking import Layout, layout_of
from ..core.op import movement, op
from ..core.shapes import as_int, normal_dim
from ..core.tensor import Tensor, array_of
from ..errors import DimError, DTypeError, ShapeError
from .creation import zeros_like
from .indexing import getitem, index_put_forward

__all__ = [
    "as_strided", "as_strided_scatter", "diagonal", "narrow", "permute", "reshape", "select",
    "squeeze", "t", "transpose", "unsqueeze",
]  # fmt: skip


@movement(node="ViewBackward0")
def reshape(xp: Namespace, input: Array, shape: Sequence[int]) -> Array:
    """The elements in row-major order in another shape; one size may be -1 (inferred).

    >>> reshape(arange(6), (2, -1))
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    try:
        return input.reshape(shape)
    except ValueError:
        raise size_mismatch("reshape", input, shape) from None


reshape.vjp(input=lambda g, input_shape: reshape(g, input_shape), latex=r"\mathrm{reshape}(g)")


def size_mismatch(name: str, input: Array, shape: Sequence[int]) -> ShapeError:
    """Make the error for a shape with another number of elements."""
    known_size = math.prod(size for size in shape if size != -1)
    hint = None
    if list(shape).count(-1) > 1:
        hint = "only one size can be worked out: leave one -1"
    elif input.ndim and known_size and input.size % known_size == 0:
        hint = f"the batch axis may be meant: ({input.shape[0]}, -1) keeps it"
    return ShapeError(
        name,
        f"shape {list(shape)} is invalid for input of size {input.size}",
        {"input": input.shape, "shape": tuple(shape)},
        hint,
    )


@movement
def view(xp: Namespace, input: Array, shape: Sequence[int]) -> Array:
    """Like `reshape`, but never a copy.

    Raises: ShapeError: the strides do not allow it; `reshape` would copy.

    >>> view(arange(4), (2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    try:
        return input.reshape(shape) if input.flags.c_contiguous else reshape_view(input, shape)
    except ValueError:
        raise size_mismatch("view", input, shape) from None


view.vjp(input=lambda g, input_shape: reshape(g, input_shape), latex=r"\mathrm{reshape}(g)")


def reshape_view(input: Array, shape: Sequence[int]) -> Array:
    """Reshape a non-contiguous array, refusing to copy."""
    y = input.reshape(shape)
    if y.size and not (y.base is input or y.base is input.base is not None):
        raise ShapeError(
            "view",
            "view size is not compatible with input tensor's size and stride",
            {"input": input.shape, "shape": tuple(shape)},
            "use .reshape(...) instead, which copies when it has to",
        )
    return y


@movement
def permute(xp: Namespace, input: Array, dims: Sequence[int]) -> Array:
    """The axes in another order: y's axis i is x's axis dims[i].

    >>> permute(zeros(2, 3, 4), (2, 0, 1)).shape
    torch.Size([4, 2, 3])
    """
    try:
        return input.transpose(dims)
    except ValueError:
        for dim in dims:
            normal_dim("permute", dim, input.ndim)
        raise ShapeError(
            "permute", f"dims {tuple(dims)} is not an order of the {input.ndim} axes",
            {"input": input.shape}, f"name each axis from 0 to {input.ndim - 1} once",
        ) from None  # fmt: skip


permute.vjp(
    input=lambda g, dims: permute(g, inverse_permutation(dims)), latex=r"\mathrm{permute}^{-1}(g)"
)


def inverse_permutation(dims: Sequence[int]) -> tuple[int, ...]:
    """Return the inverse of a permutation."""
    positions = [dim % len(dims) for dim in dims]
    return tuple(positions.index(axis) for axis in range(len(dims)))


@movement
def transpose(xp: Namespace, input: Array, dim0: int, dim1: int) -> Array:
    """Two axes exchanged.

    >>> transpose(tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([[1, 3],
            [2, 4]])
    """
    if not input.ndim:
        normal_dim("transpose", dim0, 0)
        normal_dim("transpose", dim1, 0)
        return input[...]
    return input.swapaxes(dim0, dim1)


transpose.vjp(input=lambda g, dim0, dim1: transpose(g, dim0, dim1), latex=r"g^\top")


@movement
def t(xp: Namespace, input: Array) -> Array:
    """The transpose of a matrix; a vector stays as it is.

    >>> t(tensor([[1, 2], [3, 4]]))
    tensor([[1, 3],
            [2, 4]])
    """
    if input.ndim > 2:
        raise ShapeError(
            "t", "expects a tensor with at most 2 dimensions", {"input": input.shape},
            "use x.mT to exchange the last two axes",
        )  # fmt: skip
    return input.T


t.vjp(input=lambda g: t(g), latex=r"g^\top")


@movement
def unsqueeze(xp: Namespace, input: Array, dim: int) -> Array:
    """A new axis of size 1 at `dim`.

    >>> unsqueeze(tensor([1, 2]), 0)
    tensor([[1, 2]])
    """
    dim = normal_dim("unsqueeze", dim, input.ndim + 1)
    return input.reshape((*input.shape[:dim], 1, *input.shape[dim:]))


unsqueeze.vjp(input=lambda g, input_shape: reshape(g, input_shape), latex=r"\mathrm{squeeze}(g)")


@movement(
    node="SqueezeBackward0 if dim is None else "
    "SqueezeBackward1 if dim.__class__ is int else SqueezeBackward2"
)
def squeeze(xp: Namespace, input: Array, dim: int | tuple[int, ...] | None = None) -> Array:
    """Axes of size 1 removed: all of them, or those in `dim` that have size 1.

    >>> squeeze(zeros(1, 2, 1)).shape
    torch.Size([2])
    """
    if dim is None:
        return xp.squeeze(input)
    dims = (dim,) if isinstance(dim, int) else dim
    dims = tuple(normal_dim("squeeze", dim, input.ndim) for dim in dims)
    return xp.squeeze(input, axis=tuple(a for a in dims if input.ndim and input.shape[a] == 1))


squeeze.vjp(input=lambda g, input_shape: reshape(g, input_shape), latex=r"\mathrm{unsqueeze}(g)")


@movement
def expand(xp: Namespace, input: Array, size: Sequence[int]) -> Array:
    """Expand axes of size 1 (and add leading axes) without copying.

    >>> expand(tensor([[1], [2]]), (2, 3))
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    if -1 in size:
        added = len(size) - input.ndim
        size = [
            input.shape[axis - added] if n == -1 and axis >= added else n
            for axis, n in enumerate(size)
        ]
    try:
        backend = backends.CPU if input.__class__ is np.ndarray else backends.of(input)
        return backend.broadcast_to(input, tuple(size))
    except ValueError:
        raise ShapeError(
            "expand",
            "only axes of size 1 can be stretched, and new axes come in front",
            {"input": input.shape, "size": tuple(size)},
            "add an axis first: x.unsqueeze(-1)",
        ) from None


# The engine sums a gradient over broadcast axes.
expand.vjp(input=lambda g: g, latex=r"\textstyle\sum g\ \text{over stretched axes}")


@movement(node="SliceBackward0")
def narrow(xp: Namespace, input: Array, dim: int, start: int, length: int) -> Array:
    """The slice of an axis from `start` with `length` elements.

    >>> narrow(tensor([1, 2, 3, 4]), 0, 1, 2)
    tensor([2, 3])
    """
    dim = normal_dim("narrow", dim, input.ndim)
    if getattr(getattr(start, "dtype", None), "name", "") == "bool":
        raise DTypeError("narrow", "argument `start` must be an int, not a bool tensor")
    size = input.shape[dim]
    start = start + size if start < 0 else start
    if length < 0 or not 0 <= start <= size - length:
        raise DimError(
            "narrow", f"start ({start}) + length ({length}) exceeds dimension size ({size})",
            {"input": input.shape, "dim": dim},
        )  # fmt: skip
    return input[(slice(None),) * dim + (slice(start, start + length),)]


narrow.vjp(
    input=lambda g, input_shape, dim, start, length: scatter_slice(
        g, input_shape, dim % len(input_shape), start % max(input_shape[dim], 1), length
    ),
    latex=r"g\ \text{in its place, 0 elsewhere}",
)


def scatter_slice(g: ArrayOrTensor, shape: Sequence[int], dim: int, start: int, length: int) -> Any:
    """Zeros of `shape` with `g` in the slice that was taken."""
    return index_put_forward(
        g, (slice(None),) * dim + (slice(start, start + length),), tuple(shape)
    )


@movement
def select(xp: Namespace, input: Array, dim: int, index: int) -> Array:
    """One slice of an axis; the axis disappears.

    >>> select(tensor([[1, 2], [3, 4]]), 1, 0)
    tensor([1, 3])
    """
    dim = normal_dim("select", dim, input.ndim)
    if index.__class__ is not int:
        index = as_int("select", index, "index")
    return input[(*(slice(None),) * dim, index, ...)]  # with `...` it is a view even if 0-d


select.vjp(
    input=lambda g, input_shape, dim, index: index_put_forward(
        g, (slice(None),) * (dim % len(input_shape)) + (index,), input_shape
    ),
    latex=r"g\ \text{in its place, 0 elsewhere}",
)


@movement
def diagonal(xp: Namespace, input: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """The diagonal of the matrices formed by two axes, as a new last axis.

    >>> diagonal(tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    if input.__class__ is np.ndarray and dim1.__class__ is dim2.__class__ is int:
        try:
            y = input.diagonal(offset, dim1, dim2)
        except ValueError:  # there is no such dim, which the next line says
            pass
        else:
            y.setflags(input.flags.writeable)  # NumPy returns it read-only
            return y
    dim1, dim2 = normal_dim("diagonal", dim1, input.ndim), normal_dim("diagonal", dim2, input.ndim)
    return backends.of(input).diagonal(input, offset, dim1, dim2)


diagonal.vjp(
    input=lambda g, input_shape, offset, dim1, dim2: spread_on_diagonal(
        g, input_shape, offset, dim1, dim2
    ),
    latex=r"\mathrm{diag}(g)",
)


def spread_on_diagonal(
    g: ArrayOrTensor, shape: tuple[int, ...], offset: int, dim1: int, dim2: int
) -> ArrayOrTensor:
    """Return zeros of a shape with `g` on a diagonal."""
    if g.__class__ is not np.ndarray:
        return index_put_forward(g, diagonal_index(shape, offset, dim1, dim2), shape)
    y = make_full(np, shape, 0, g.dtype)
    backends.CPU.diagonal(y, offset, dim1, dim2)[...] = g
    return y


def diagonal_index(shape: Sequence[int], offset: int, dim1: int, dim2: int) -> tuple[Any, ...]:
    """Return the index that selects a diagonal with its axis last, as `diagonal` does."""
    dim1, dim2 = dim1 % len(shape), dim2 % len(shape)
    length = max(0, min(shape[dim1] + min(offset, 0), shape[dim2] - max(offset, 0)))
    steps = np.arange(length)
    others = [axis for axis in range(len(shape)) if axis not in (dim1, dim2)]
    index: list[Any] = [None] * len(shape)
    for position, axis in enumerate(others):
        index[axis] = np.arange(shape[axis]).reshape((-1,) + (1,) * (len(others) - position))
    index[dim1], index[dim2] = steps - min(offset, 0), steps + max(offset, 0)
    return tuple(index)


# Views with arbitrary sizes and strides --------------------------------------------------------
#
# A tensor occupies a storage: memory that it may share with other tensors. Its `layout` gives
# the stride of each axis and the storage offset of its first element. The rules invert that
# mapping, from storage positions to elements, so that a gradient also reaches a tensor that is
# transposed or has gaps.


def strided_positions(size: Sequence[int], stride: Sequence[int], offset: int) -> np.ndarray:
    """Return the storage positions that a strided view covers, in row-major order."""
    positions = np.full(tuple(size), offset, np.int64)
    for axis, (n, step) in enumerate(zip(size, stride, strict=True)):
        positions += (np.arange(n) * step).reshape((-1,) + (1,) * (len(size) - axis - 1))
    return positions.reshape(-1)


def elements_at(
    positions: np.ndarray, shape: Sequence[int], layout: Layout
) -> tuple[np.ndarray, np.ndarray]:
    """Return the flat indices of the elements at storage positions, and a mask of positions
    that hold no element.

    From the largest stride to the smallest, each axis takes as many steps as fit.
    """
    rows = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    steps, start = (rows, 0) if layout is None else layout
    remaining, indices = positions - start, np.zeros_like(positions)
    outside = (remaining < 0) | (0 in shape)
    for axis in sorted(range(len(shape)), key=lambda axis: -steps[axis]):
        if shape[axis] > 1 and steps[axis]:
            step_count = np.clip(remaining // steps[axis], 0, shape[axis] - 1)
            remaining = remaining - step_count * steps[axis]
            indices += step_count * rows[axis]
    return indices, outside | (remaining != 0)


def check_strides(
    xp: Namespace, input: Array, size: Sequence[int], stride: Sequence[int], storage_offset: int
) -> None:
    """Raise ShapeError for a view that would exceed the storage of `input`."""
    if len(size) != len(stride) or min((*size, *stride, storage_offset, 0)) < 0:
        raise ShapeError(
            "as_strided", "needs one non-negative stride for each size",
            {"size": tuple(size), "stride": tuple(stride)},
        )  # fmt: skip
    last = storage_offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    capacity = backends.of(input).storage(input)[1] // input.dtype.itemsize
    if math.prod(size) and last >= capacity:
        raise ShapeError(
            "as_strided", f"would reach number {last} of memory that holds {capacity}",
            {"input": input.shape, "size": tuple(size), "stride": tuple(stride)},
        )  # fmt: skip


@movement(name="as_strided", method=False)
def strided_view(
    xp: Namespace, input: Array, size: Sequence[int], stride: Sequence[int],
    storage_offset: int = 0, layout: Layout = None,
) -> Array:  # fmt: skip
    """A view with the given size and stride per axis; `layout` is that of the input.

    >>> as_strided(arange(4), (2, 2), (1, 1), 1)
    tensor([[1, 2],
            [2, 3]])
    """
    if layout is None and not input.flags.c_contiguous:
        input = xp.ascontiguousarray(input)
    check_strides(xp, input, size, stride, storage_offset)
    backend, itemsize = backends.of(input), input.dtype.itemsize
    start = backend.address(input) - backend.storage(input)[0]
    steps = [step * itemsize for step in stride]
    return backend.as_strided(input, tuple(size), steps, storage_offset * itemsize - start)


def in_shape(g: ArrayOrTensor, shape: Sequence[int]) -> Any:
    """A gradient in another shape: on the device `meta`, where positions have no meaning."""
    flat, count = reshape(g, (-1,)), math.prod(shape)
    common = slice(0, min(count, math.prod(g.shape)))
    return reshape(index_put_forward(getitem(flat, common), common, (count,)), tuple(shape))


def _as_strided_rule(
    g: ArrayOrTensor, input_shape: Sequence[int], size: Sequence[int], stride: Sequence[int],
    storage_offset: int, layout: Layout,
) -> Any:  # fmt: skip
    if not backends.has_elements(array_of(g)):
        return in_shape(g, input_shape)
    positions = strided_positions(size, stride, storage_offset)
    index, outside = elements_at(positions, input_shape, layout)
    count = math.prod(input_shape)
    needs_slot = bool(outside.any())  # for the positions without an element of the input
    index = np.where(outside, count, index) if needs_slot else index
    scattered = index_put_forward(reshape(g, (-1,)), (index,), (count + needs_slot,))
    return reshape(scattered[:count] if needs_slot else scattered, input_shape)


strided_view.vjp(input=_as_strided_rule, latex=r"g\ \text{added where it came from}")


@op(name="as_strided_scatter", method=False)
def scatter_strided(
    xp: Namespace, input: Array, src: Array, size: Sequence[int], stride: Sequence[int],
    storage_offset: int = 0, layout: Layout = None,
) -> Array:  # fmt: skip
    """A copy of `input` with the elements of `src` in a strided region of its storage.

    >>> as_strided_scatter(zeros(4), ones(2), (2,), (1,), 1)
    tensor([0., 1., 1., 0.])
    """
    values = xp.broadcast_to(src, tuple(size)).reshape(-1)
    if not backends.has_elements(input):
        return input.copy()
    index, outside = elements_at(
        strided_positions(size, stride, storage_offset), input.shape, layout
    )
    y = input.reshape(-1).copy()
    if outside.any():
        values = values[xp.asarray(np.nonzero(~outside)[0])]
        index = index[~outside]
    y[xp.asarray(index)] = values
    return y.reshape(input.shape)


def _outside_region(
    g: ArrayOrTensor, size: Sequence[int], stride: Sequence[int], storage_offset: int,
    layout: Layout,
) -> Any:  # fmt: skip
    none = zeros_like(_in_region(g, size, stride, storage_offset, layout))
    return scatter_strided(g, none, size, stride, storage_offset, layout)


def _in_region(
    g: ArrayOrTensor, size: Sequence[int], stride: Sequence[int], storage_offset: int,
    layout: Layout,
) -> Any:  # fmt: skip
    if not backends.has_elements(array_of(g)):
        return in_shape(g, size)
    positions = strided_positions(size, stride, storage_offset)
    index, outside = elements_at(positions, tuple(g.shape), layout)
    picked = getitem(reshape(g, (-1,)), (index[~outside],))
    if outside.any():
        picked = index_put_forward(picked, (np.nonzero(~outside)[0],), (len(index),))
    return reshape(picked, tuple(size))


scatter_strided.vjp(
    input=_outside_region,
    src=_in_region,
    latex={"input": r"g\ \text{outside the region}", "src": r"g\ \text{in the region}"},
)


def as_strided(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A view with the given size and stride per axis, in elements.

    `storage_offset` counts from the start of the storage, not of the tensor.

    Raises: ShapeError: the view would exceed the storage.

    >>> as_strided(arange(5), (3, 2), (1, 1))
    tensor([[0, 1],
            [1, 2],
            [2, 3]])
    """
    offset = input.storage_offset() if storage_offset is None else storage_offset
    return strided_view(input, tuple(size), tuple(stride), offset, layout_of(input))


def as_strided_scatter(
    input: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:  # fmt: skip
    """A copy of `input` in which the strided region holds the elements of `src`.

    >>> as_strided_scatter(zeros(4), ones(2), (2,), (2,))
    tensor([1., 0., 1., 0.])
    """
    offset = input.storage_offset() if storage_offset is None else storage_offset
    if tuple(src.shape) != tuple(size):
        raise ShapeError(
            "as_strided_scatter", "expected src to have the shape of the region",
            {"src": tuple(src.shape), "size": tuple(size)},
        )  # fmt: skip
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    count = input.untyped_storage().nbytes() // input.itemsize
    if src.numel() and last >= count:
        raise ShapeError(
            "as_strided_scatter", f"the region leaves the storage, which holds {count} elements",
            {"size": tuple(size), "stride": tuple(stride), "storage_offset": offset},
        )  # fmt: skip
    return scatter_strided(input, src, tuple(size), tuple(stride), offset, layout_of(input))


for _public, _block in (
    (as_strided, strided_view), (as_strided_scatter, scatter_strided),
):  # fmt: skip
    _public.op = _block.op  # type: ignore[attr-defined]
    setattr(Tensor, _public.__name__, _public)
