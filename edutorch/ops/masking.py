"""Selecting, finding and replacing elements by a boolean mask."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import backends, dtypes
from ..backends.numpy import (
    PUT_MASKED,
    Array,
    ArrayOrTensor,
    Namespace,
    Number,
    put_at,
    undispatched,
)
from ..core.composed import as_method, recorded_as, takes_out
from ..core.op import op
from ..core.shapes import broadcast_shapes
from ..core.tensor import Tensor, array_of, wrap
from ..errors import DTypeError, InvalidValueError, ShapeError, refuse_complex
from .comparison import logical_not
from .comparison import where as choose
from .conversion import scalar_array
from .indexing import Index, as_index, getitem, index_put_forward
from .joining import cat, stack
from .views import expand, narrow, reshape

__all__ = [
    "argwhere", "isin", "masked_fill", "masked_scatter", "masked_select", "nonzero",
    "nonzero_static", "where",
]  # fmt: skip


@op(node="MaskedFillBackward1 if value.__class__ is Tensor else MaskedFillBackward0")
def masked_fill(xp: Namespace, input: Array, mask: Index, value: Array | float) -> Array:
    """A copy of `input` with `value` wherever `mask` is true.

    >>> masked_fill(tensor([1.0, 2.0]), tensor([True, False]), -1.0)
    tensor([-1.,  2.])
    """
    mask = mask._array if isinstance(mask, Tensor) else mask
    if mask.dtype.kind != "b":
        raise DTypeError("masked_fill", "only supports boolean masks", {"mask": mask.dtype})
    hint = "use where(mask, value, x) for a number of its own at each place"
    return xp.where(mask, scalar_array(xp, "masked_fill", input, value, hint), input)


masked_fill.vjp(
    input=lambda g, mask: masked_fill(g, mask, 0),
    value=lambda g, mask: masked_fill(g, logical_not(mask), 0),
    latex={"input": r"g\,[not\ mask]", "value": r"\sum g\,[mask]"},
)


@op(linear=True)
def masked_scatter(xp: Namespace, input: Array, mask: Index, source: Array) -> Array:
    """A copy of `input` where elements with a true `mask` take the elements of source in order.

    Raises: ShapeError: there are too few elements. DTypeError: mask is not bool.

    >>> masked_scatter(zeros(3), tensor([True, False, True]), tensor([5.0, 6.0]))
    tensor([5., 0., 6.])
    """
    mask = mask._array if isinstance(mask, Tensor) else mask
    if mask.dtype.kind != "b":
        raise DTypeError("masked_scatter", "only supports boolean masks", {"mask": mask.dtype})
    if source.dtype != input.dtype:
        raise DTypeError(
            "masked_scatter", "expected input and source to have the same type",
            {"input": input.dtype, "source": source.dtype},
        )  # fmt: skip
    if mask.shape != input.shape:
        try:
            shape = broadcast_shapes(input.shape, mask.shape)
        except ShapeError:
            rows = {"input": input.shape, "mask": mask.shape}
            raise ShapeError("masked_scatter", "the mask does not fit the input", rows) from None
        input, mask = xp.broadcast_to(input, shape), xp.broadcast_to(mask, shape)
    values, backend = source.reshape(-1), backends.of(input)
    count = len(values)
    if backend.has_elements and not backend.level:
        on_host = mask.__class__ is np.ndarray
        count = int(count_nonzero(mask) if on_host else xp.count_nonzero(mask))
        if count > len(values):
            text = f"the mask is true {count} times, more often than source has numbers"
            rows = {"mask": mask.shape, "source": source.shape}
            raise ShapeError("masked_scatter", text, rows)
    if input.__class__ is np.ndarray:
        y = input.copy()
        if count and y.size < PUT_MASKED.min_size:
            place(y, mask, values)
        else:
            put_at(y, mask, values[:count])
        return y
    if not len(values):
        return input.copy()
    taken = xp.take(values, element_positions(xp, mask, len(values))).reshape(mask.shape)
    return xp.where(mask, taken, input)  # no size depends on the mask


count_nonzero, place = undispatched("count_nonzero"), undispatched("place")

masked_scatter.vjp(
    input=lambda g, mask: masked_fill(g, mask, 0),
    source=lambda g, mask, source_shape: gather_source(g, mask, source_shape),
    latex={"input": r"g\,[not\ mask]", "source": r"g\,[mask]"},
)


def gather_source(g: ArrayOrTensor, mask: Index, shape: tuple[int, ...]) -> ArrayOrTensor:
    """Return the elements of `g` with a true mask, and 0 for the elements that were not used."""
    mask, backend, count = array_of(mask), backends.of(array_of(g)), math.prod(shape)
    if mask.shape != g.shape:
        mask = backend.broadcast_to(mask, tuple(g.shape))
    if array_of(g).__class__ is np.ndarray:
        picked = getitem(g, as_index(mask))
        if picked.shape[0] != count:
            picked = index_put_forward(picked, slice(picked.shape[0]), (count,))
    else:  # in vmap or a capture, where no size depends on the mask
        values = reshape(masked_fill(g, backend.xp.logical_not(mask), 0), (-1,))
        positions = element_positions(backend.xp, mask, count)
        picked = index_put_forward(values, (positions,), (count,)) if count else values[:0]
    return reshape(picked, shape)


def element_positions(xp: Namespace, mask: Array, count: int) -> Array:
    """Return for each element of a mask how many before it are true: at most `count - 1`."""
    return xp.clip(xp.cumsum(mask.reshape(-1)) - 1, 0, count - 1)


@as_method
@takes_out
@recorded_as("MaskedSelectBackward0")
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where `mask` is true, as a vector.

    >>> masked_select(tensor([1, 2, 3]), tensor([True, False, True]))
    tensor([1, 3])
    """
    if mask.dtype is not dtypes.bool:
        raise DTypeError(
            "masked_select", "only supports boolean masks", {"mask": mask.dtype},
            hint="use mask.bool(), or a comparison such as x > 0",
        )  # fmt: skip
    if input._array.shape != mask._array.shape:
        shape = broadcast_shapes(input.shape, mask.shape)
        input, mask = (x if x.shape == shape else expand(x, shape) for x in (input, mask))
    return getitem(input, as_index(mask))


def where(
    condition: Tensor, input: Tensor | Number = None, other: Tensor | Number = None, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """Choose per element: y = input where `condition` is true, else other.

    With the condition alone: the indices where it is true, one tensor per axis.

    >>> where(tensor([True, False]), tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    """
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if out is None:
        return choose(condition, input, other)
    return choose(condition, input, other, out=out)


where.op = choose.op  # type: ignore[attr-defined]


@as_method
@takes_out
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of nonzero elements, one row per element.

    >>> nonzero(tensor([0, 5, 6]))
    tensor([[1],
            [2]])
    """
    xp = backends.of(input._array).xp
    indices = [wrap(axis_indices) for axis_indices in xp.nonzero(xp.atleast_1d(input._array))]
    if as_tuple:
        return tuple(indices)
    return stack(indices, 1) if input.ndim else wrap(xp.zeros((len(indices[0]), 0), "int64"))


@as_method
def argwhere(input: Tensor) -> Tensor:
    """The indices of nonzero elements, one row per element.

    >>> argwhere(tensor([0, 5]))
    tensor([[1]])
    """
    return nonzero(input)


@takes_out
def isin(
    elements: Tensor | Number, test_elements: Tensor | Number, *, assume_unique: bool = False,
    invert: bool = False,
) -> Tensor:  # fmt: skip
    """Whether each element occurs in `test_elements`. (`assume_unique` is ignored.)

    >>> isin(tensor([1, 2, 3]), tensor([2, 5]))
    tensor([False,  True, False])
    """
    refuse_complex("isin", elements=elements, test_elements=test_elements)
    tensors = [operand for operand in (elements, test_elements) if isinstance(operand, Tensor)]
    backend = backends.of(tensors[0]._array)
    arrays = [
        operand._array if isinstance(operand, Tensor) else backend.asarray(operand)
        for operand in (elements, test_elements)
    ]
    is_member = backend.xp.isin(*arrays)
    return wrap(backend.xp.logical_not(is_member) if invert else is_member)


@as_method
@takes_out
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The indices of nonzero elements, truncated or padded to `size` rows.

    >>> nonzero_static(tensor([0, 5, 7]), size=3)
    tensor([[ 1],
            [ 2],
            [-1]])
    """
    if size < 0:
        raise InvalidValueError("nonzero_static", f"size cannot be negative, got {size}")
    indices = nonzero(input)
    missing = max(size - indices.shape[0], 0)
    filling = indices.new_full((missing, indices.shape[1]), fill_value)
    return cat([narrow(indices, 0, 0, size - missing), filling])
