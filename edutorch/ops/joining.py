"""Concatenating, stacking and splitting tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from weakref import ref

from numpy import empty, ndarray

from ..backends.kernel_registry import slot
from ..backends.numpy import Array, ArrayOrTensor, Namespace, undispatched
from ..core.composed import as_method, recorded_as, takes_out
from ..core.op import multi_view, op
from ..core.shapes import as_int, normal_dim
from ..core.tensor import Tensor
from ..errors import ArgumentError, ShapeError, ShapeValueError
from .shape import atleast_1d, atleast_3d
from .views import narrow, reshape, select

__all__ = [
    "cat", "chunk", "column_stack", "dsplit", "dstack", "hsplit", "hstack", "split",
    "split_with_sizes", "stack", "tensor_split", "unbind", "unsafe_chunk", "unsafe_split",
    "unsafe_split_with_sizes", "vsplit", "vstack",
]  # fmt: skip


def split_gradient(g: ArrayOrTensor, shapes: Sequence[tuple[int, ...]], dim: int) -> list[Any]:
    """Split the gradient of a concatenation into those of the inputs."""
    parts, start = [], 0
    if not isinstance(g, Tensor) and (0,) not in shapes:
        before = (slice(None),) * (dim % g.ndim)
        for shape in shapes:
            parts.append(g[(*before, slice(start, start + shape[dim]))])
            start += shape[dim]
        return parts
    for shape in shapes:
        length = 0 if shape == (0,) else shape[dim]
        part = narrow(g, dim, start, length)
        parts.append(reshape(part, shape) if shape == (0,) else part)
        start += length
    return parts


@op(promotion="promote", linear=True, out=True)
def cat(xp: Namespace, tensors: Sequence[Array], dim: int = 0) -> Array:
    """Concatenate tensors along an existing axis.

    >>> cat([tensor([1, 2]), tensor([3])])
    tensor([1, 2, 3])
    """
    if not tensors:
        raise ShapeValueError("cat", "expected a non-empty list of Tensors")
    first = tensors[0]
    try:
        if first.__class__ is ndarray and first.size < CONCATENATE.min_size:
            return np_concatenate(tensors, dim)
        return concatenate(xp, tensors, dim)
    except ValueError:
        filled = [
            tensor for tensor in tensors if tensor.shape != (0,)
        ]  # empty vectors are ignored, as in PyTorch
        if len(filled) == len(tensors):
            normal_dim("cat", dim, tensors[0].ndim)
            check_same_shape("cat", tensors, dim)
            raise
        return concatenate(xp, filled, dim)


def concatenate(xp: Namespace, arrays: Sequence[Array], dim: int) -> Array:
    """Return `xp.concatenate(arrays, dim)`."""
    first, y = arrays[0], None
    if first.__class__ is ndarray and first.size >= CONCATENATE.min_size:
        y = CONCATENATE(arrays, dim)
    return xp.concatenate(arrays, dim) if y is None else y


CONCATENATE = slot("CONCATENATE")
np_concatenate = undispatched("concatenate")


def check_same_shape(name: str, tensors: Sequence[Array], free: int | None) -> None:
    """Raise ShapeError unless all sizes are equal, those along `free` excepted."""
    first = tensors[0].shape
    for index, tensor in enumerate(tensors):
        if tensor.shape == first:
            continue
        if len(tensor.shape) != len(first):
            problem = (
                f"tensors[0] has {len(first)} axes, but tensors[{index}] has {len(tensor.shape)}"
            )
        else:
            skipped = None if free is None else free % max(len(first), 1)
            differ = [a for a in range(len(first)) if a != skipped and tensor.shape[a] != first[a]]
            if not differ:
                continue
            axis = differ[0]
            problem = (
                f"axis {axis} is {first[axis]} in tensors[0] but {tensor.shape[axis]} in "
                f"tensors[{index}]" + ("" if free is None else f"; only axis {skipped} may differ")
            )
        rows = {f"tensors[{i}]": tuple(tensor.shape) for i, tensor in enumerate(tensors)}
        raise ShapeError(name, problem, rows)


cat.vjp(
    tensors=lambda g, tensors_shape, dim: split_gradient(g, tensors_shape, dim),
    latex=r"\text{each gets its part of } g",
)


@op(promotion="promote", linear=True, out=True)
def stack(xp: Namespace, tensors: Sequence[Array], dim: int = 0) -> Array:
    """Stack tensors of one shape along a new axis.

    >>> stack([tensor([1, 2]), tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    if not len(tensors):
        raise ValueError("expected a non-empty list of Tensors")
    first = tensors[0]
    shape = first.shape
    axis = dim if dim.__class__ is int and 0 <= dim < len(shape) else None
    if axis is None:
        axis = normal_dim("stack", dim, len(shape) + 1)
    before: Any = (slice(None),) * axis
    if first.__class__ is not ndarray or first.size >= CONCATENATE.min_size:
        check_same_shape("stack", tensors, None)
        if first.__class__ is not ndarray:
            return xp.stack(tensors, axis=axis)
        before = (*before, None)
        return concatenate(xp, [tensor[before] for tensor in tensors], axis)
    size = (*shape[:axis], len(tensors), *shape[axis:]) if axis else (len(tensors), *shape)
    y = empty(size, first.dtype)
    for position, tensor in enumerate(tensors):
        if tensor.shape != shape:
            check_same_shape("stack", tensors, None)
        y[(*before, position) if before else position] = tensor
    return y


stack.vjp(
    tensors=lambda g, tensors_shape, dim: [
        select(g, dim, index) for index in range(len(tensors_shape))
    ],
    latex=r"\text{each gets its part of } g",
)


# Composed of the two above ------------------------------------------------------------------


@takes_out
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors horizontally: along axis 1, vectors along axis 0.

    >>> hstack([tensor([1]), tensor([2])])
    tensor([1, 2])
    """
    if not len(tensors):
        raise ShapeError("hstack", "expected a non-empty list of Tensors")
    tensors = atleast_1d(tensors)
    return cat(tensors, 0 if len(tensors[0].shape) < 2 else 1)


@takes_out
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors vertically, a vector as a row.

    >>> vstack([tensor([1, 2]), tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    rows = [tensor if len(tensor.shape) > 1 else reshape(tensor, (1, -1)) for tensor in tensors]
    return cat(rows, 0)


@takes_out
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors along the third axis.

    >>> dstack([tensor([1, 2]), tensor([3, 4])])
    tensor([[[1, 3],
             [2, 4]]])
    """
    return cat([atleast_3d(tensor) for tensor in tensors], 2)


@takes_out
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors as columns, a vector as one column.

    >>> column_stack([tensor([1, 2]), tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    return cat([tensor if tensor.ndim > 1 else tensor.reshape(-1, 1) for tensor in tensors], 1)


# Splitting ----------------------------------------------------------------------------------


@multi_view(name="split")
def split_views(xp: Namespace, input: Array, split_size: int, dim: int = 0) -> tuple[Array, ...]:
    """Split along an axis into chunks of one size; the last may be smaller.

    >>> split(tensor([1, 2, 3]), 2)
    (tensor([1, 2]), tensor([3]))
    """
    before = (slice(None),) * normal_dim("split", dim, input.ndim)
    total = input.shape[dim]
    if split_size < 0 or split_size == 0 < total:
        raise ShapeError("split", f"the size of a part must be positive, got {split_size}")
    starts = range(0, total or 1, split_size or 1)
    if not before:
        return tuple([input[start : start + split_size] for start in starts])
    return tuple([input[(*before, slice(start, start + split_size))] for start in starts])


split_views.vjp(input=lambda g, dim: cat(g, dim), latex=r"\mathrm{cat}(g_0, g_1, \dots)")


@multi_view(name="split_with_sizes", public="split split_with_sizes")
def split_views_with_sizes(
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
            split_views_with_sizes.op.title,
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


split_views_with_sizes.vjp(input=lambda g, dim: cat(g, dim), latex=r"\mathrm{cat}(g_0, g_1, \dots)")


@multi_view(name="unbind")
def unbind_views(xp: Namespace, input: Array, dim: int = 0) -> tuple[Array, ...]:
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


unbind_views.vjp(input=lambda g, dim: stack(g, dim), latex=r"\mathrm{stack}(g_0, g_1, \dots)")


@as_method
def split(
    tensor: Tensor, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None
) -> tuple[Tensor, ...]:
    """Split along an axis into chunks of one size (the last may be smaller) or of given sizes.

    >>> split(tensor([1, 2, 3]), 2)
    (tensor([1, 2]), tensor([3]))
    """
    sizes = split_size if split_size_or_sections is None else split_size_or_sections
    if sizes.__class__ is not int and not isinstance(sizes, int):
        return split_with_sizes(tensor, sizes, dim)
    return split_views(tensor, sizes, dim)


@as_method
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Split along an axis into chunks of the given sizes.

    >>> split_with_sizes(tensor([1, 2, 3]), [1, 2])
    (tensor([1]), tensor([2, 3]))
    """
    return split_views_with_sizes(input, tuple(split_sizes), dim)


@as_method
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Split along an axis into at most `chunks` chunks.

    >>> chunk(tensor([1, 2, 3]), 2)
    (tensor([1, 2]), tensor([3]))
    """
    if chunks < 1:
        raise ShapeError("chunk", f"expects a positive number of chunks, got {chunks}")
    size = -(-input.shape[normal_dim("chunk", dim, input.ndim)] // chunks)
    if size == 0:
        return split_views_with_sizes(input, (0,) * chunks, dim)
    return split_views(input, size, dim)


@as_method
def tensor_split(
    input: Tensor, indices_or_sections: Any = None, dim: int = 0, *, indices: Any = None,
    sections: int | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Split into nearly equal `sections`, or at the given `indices`.

    Raises: ShapeError: the number of sections is not positive.

    >>> tensor_split(arange(5), 2), tensor_split(arange(5), (1,))
    ((tensor([0, 1, 2]), tensor([3, 4])), (tensor([0]), tensor([1, 2, 3, 4])))
    """
    if indices_or_sections is None:
        indices_or_sections = indices if sections is None else sections
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = indices_or_sections.tolist()
    size = input.shape[dim]
    if isinstance(indices_or_sections, int):
        if indices_or_sections <= 0:
            raise ShapeError(
                "tensor_split", f"needs a positive number of parts, got {indices_or_sections}"
            )
        least, more = divmod(size, indices_or_sections)
        parts = range(1, indices_or_sections)
        edges = [part * least + min(part, more) for part in parts]
    else:
        edges = [
            slice(None, indices_or_section).indices(size)[1]
            for indices_or_section in indices_or_sections
        ]
    ends = [max(start, end) for start, end in zip([0, *edges], [*edges, size], strict=True)]
    return tuple(
        narrow(input, dim, start, end - start) for start, end in zip([0, *edges], ends, strict=True)
    )


@as_method
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """All slices along an axis, which disappears.

    >>> unbind(tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
    """
    return unbind_views(input, dim)


@as_method
def hsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Split into equal sections, or at indices, along axis 1 (of a vector: axis 0).

    >>> hsplit(tensor([[1, 2]]), 2)
    (tensor([[1]]), tensor([[2]]))
    """
    return _split_evenly("hsplit", input, indices_or_sections, 1 if input.ndim > 1 else 0, 1)


@as_method
def vsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Split into equal sections, or at indices, along axis 0.

    >>> vsplit(tensor([[1], [2]]), 2)
    (tensor([[1]]), tensor([[2]]))
    """
    return _split_evenly("vsplit", input, indices_or_sections, 0, 2)


@as_method
def dsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Split into equal sections, or at indices, along axis 2.

    >>> dsplit(tensor([[[1, 2]]]), 2)
    (tensor([[[1]]]), tensor([[[2]]]))
    """
    return _split_evenly("dsplit", input, indices_or_sections, 2, 3)


def _split_evenly(name: str, input: Tensor, where: Any, dim: int, least: int) -> tuple[Tensor, ...]:
    if input.ndim < least:
        raise ShapeError(
            name, f"requires a tensor with at least {least} dimension{'s' * (least > 1)}",
            {"input": tuple(input.shape)},
        )  # fmt: skip
    if isinstance(where, int) and (where <= 0 or input.shape[dim] % where):
        raise ShapeError(
            name, f"axis {dim} has size {input.shape[dim]}, which is not divisible by {where}",
            {"input": tuple(input.shape)}, "tensor_split allows parts of different sizes",
        )  # fmt: skip
    return tensor_split(input, where, dim)


@recorded_as("UnsafeSplitBackward0")
def unsafe_split(tensor: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """As `split`, but the results are not views to autograd: they may be written in place.

    >>> unsafe_split(tensor([1, 2, 3]), 2)
    (tensor([1, 2]), tensor([3]))
    """
    return detach_from_base(split(tensor, split_size, dim))


def unsafe_split_with_sizes(
    input: Tensor, split_sizes: Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """As `split_with_sizes`, but the results are not views to autograd.

    >>> unsafe_split_with_sizes(tensor([1, 2, 3]), [1, 2])
    (tensor([1]), tensor([2, 3]))
    """
    if isinstance(split_sizes, int):
        raise ArgumentError(
            "unsafe_split_with_sizes", f"expected a list of sizes, got {split_sizes}",
            hint="unsafe_split takes one size for all parts",
        )  # fmt: skip
    return detach_from_base(split_with_sizes(input, split_sizes, dim))


@recorded_as("UnsafeSplitBackward0")
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """As `chunk`, but the results are not views to autograd.

    >>> unsafe_chunk(tensor([1, 2, 3]), 2)
    (tensor([1, 2]), tensor([3]))
    """
    if not input.ndim:
        raise ShapeError("unsafe_chunk", "expects at least a 1-dimensional tensor", {"input": ()})
    chunks = as_int("unsafe_chunk", chunks, "chunks")
    return detach_from_base(chunk(input, chunks, dim))


def detach_from_base(parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Make views independent tensors to autograd, though they share memory."""
    for part in parts:
        writes: Any = part._writes  # never None: a view is linked to its base when it is made
        if writes.owner is None:
            writes.owner = ref(part._base)
        part._base = None
    return parts


for _name in ("unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes"):
    setattr(Tensor, _name, globals()[_name])


def _iterate_slices(self: Tensor) -> Iterator[Tensor]:
    """Iterate over the slices of the first axis."""
    if not self.ndim:
        raise TypeError("iteration over a 0-d tensor")
    return iter(unbind(self))


Tensor.__iter__ = _iterate_slices  # type: ignore[attr-defined]


for _public, _op in (
    (split, split_views), (split_with_sizes, split_views_with_sizes), (unbind, unbind_views),
):  # fmt: skip
    _public.op = _op.op  # type: ignore[attr-defined]
