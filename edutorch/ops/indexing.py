"""Indexing: reading and writing elements with `x[index]`.

Reading and writing are each other's derivative: the gradient of `x[index]` is scattered
into zeros, accumulating where an element was selected more than once.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import backends
from ..backends.batching_rules import in_place_error
from ..backends.numpy import (
    Array,
    Namespace,
    Number,
    as_plain_array,
    put_at,
    take_at,
)
from ..core.autograd.forward_mode import propagate, update_tangents
from ..core.autograd.graph import Node, record
from ..core.autograd.view_tracking import notify_recorded, notify_write
from ..core.error_messages import valid_indices
from ..core.numpy_aliasing import copy_mutable
from ..core.op import movement, op
from ..core.shapes import Size
from ..core.tensor import Tensor, wrap
from ..core.tensor_methods import alias_with_history, refuse_leaf, set_history, write
from ..errors import DimError, DTypeError, InvalidValueError, ShapeError, warn
from ..events import OpApplied
from ..modes import current
from .conversion import lift_to_level
from .creation import zeros_like
from .from_data import host_array, scalar_like
from .index_checks import check_index_parts

__all__ = ["unravel_index"]

Index = Any


def as_index(index: Index) -> Any:
    """Convert tensors inside an index to arrays, and lists and ranges to index arrays."""
    cls = index.__class__
    if cls is int:
        return index
    if cls is slice:
        return check_slice(index)
    array = getattr(index, "_array", index)
    if array.__class__ is np.ndarray and array.ndim and array.dtype in USUAL_TYPES:
        return array
    if isinstance(index, tuple):
        return index if is_view_index(index) else tuple([as_index(part) for part in index])
    index = as_plain_array(array)
    if isinstance(index, list | range):
        index = host_array(list(index)) if index else np.zeros(0, np.int64)
    if not hasattr(index, "dtype"):
        return index
    if index.dtype.kind not in "iub":
        raise DimError(
            "index", "tensors used as indices must be integers or bools",
            {"index": index.dtype}, "use x.long()",
        )  # fmt: skip
    if index.dtype.char == "B" and not isinstance(index, np.generic):
        index = bytes_as_mask(index)
    # Inside vmap it is one per example, and on `meta` it has no value; on a simulated card it has.
    backend: Any = getattr(index, "backend", None)
    is_known = backend is None or (getattr(backend, "is_simulated", False) and not backend.level)
    if index.ndim == 0 and is_known and backends.has_elements(index):
        return bool(index) if index.dtype.kind == "b" else int(index)
    return index


def bytes_as_mask(index: Array) -> Array:
    """Return a uint8 index as the mask that it is: masks had this type before there were bools."""
    if index.ndim:
        warn("indexing with dtype torch.uint8 is deprecated: it is a mask; use torch.bool instead")
    return index != 0


USUAL_TYPES = {np.dtype(np.int64), np.dtype(bool)}
"""The dtypes of ordinary index arrays and of masks."""

BOUNDS = {int, type(None)}
"""The classes of the bounds of ordinary slices."""

VIEW_PARTS = {int, slice, type(None), type(...)}
"""The classes of the parts of an index that selects a view."""


def is_view_index(index: Index) -> bool:
    """Return True for a tuple of ints, slices with a positive step, None and `...` only."""
    if index.__class__ is not tuple:
        return False
    for part in index:
        if part.__class__ is slice:
            start, stop, step = part.start, part.stop, part.step
            if start is not None and start.__class__ is not int:
                return False
            if stop is not None and stop.__class__ is not int:
                return False
            if step is not None and (step.__class__ is not int or step <= 0):
                return False
        elif part.__class__ is not int and part is not None and part is not ...:
            return False
    return True


def check_slice(index: slice) -> slice:
    """Return a slice with integer bounds.

    Raises: ValueError: the step is not positive; strides are never negative here.
    """
    if index.start.__class__ in BOUNDS and index.stop.__class__ in BOUNDS:
        step = index.step
        if step is None or (step.__class__ is int and step > 0):
            return index
    if index.step is not None and operator.index(index.step) <= 0:
        raise ValueError("step must be greater than zero; use x.flip(dim) to go backwards")
    bounds = (index.start, index.stop, index.step)
    return slice(*(None if bound is None else operator.index(bound) for bound in bounds))


def apply_integers(array: Array, index: Index) -> tuple[Array, Index]:
    """Apply the integers of an index that also has arrays; return the rest of the index.

    Next to arrays NumPy would treat an integer as an array too, and move axes.
    """
    if not isinstance(index, tuple):
        return array, index
    has_array = has_integer = False
    for part in index:  # a loop: generators of `any` take longer, at each backward of an index
        if getattr(part, "ndim", 0):
            has_array = True
        elif isinstance(part, int) and not isinstance(part, bool):
            has_integer = True
    if not has_array:
        return array, index
    index = drop_empty_ellipsis(index, array.ndim)
    if not has_integer:
        return array, index
    first: list[Any] = []
    rest: list[Any] = []
    for part in index:
        if isinstance(part, int) and not isinstance(part, bool):
            first.append(part)
            continue
        rest.append(part)
        if part is Ellipsis:
            first.append(part)
        elif part is not None and not isinstance(part, bool):
            first += [slice(None)] * (part.ndim if is_mask(part) else 1)
    return array[tuple(first)], tuple(rest)


def is_arrays(index: Index) -> bool:
    """Return True for an index of arrays alone, the usual case of one that selects no view."""
    for part in index if index.__class__ is tuple else (index,):
        if part.__class__ is not np.ndarray:
            return False
    return True


def is_mask(part: object) -> bool:
    """Return True for an array of bools, or a tensor of them, as exported programs have."""
    return str(getattr(part, "dtype", None)) in ("bool", "torch.bool")


def drop_empty_ellipsis(index: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    """Drop a `...` that stands for no axis: NumPy would treat the arrays as separated by it."""
    for part in index:
        if part is Ellipsis:
            break
    else:
        return index
    indexed_axes = 0
    for part in index:
        if part is not None and part is not Ellipsis and not isinstance(part, bool):
            indexed_axes += part.ndim if is_mask(part) else 1
    if indexed_axes < ndim or sum(part is Ellipsis for part in index) > 1:
        return index
    return tuple(part for part in index if part is not Ellipsis)


@movement(
    method=False,
    public="index",
    node="SelectBackward0 if index.__class__ is int else index_node(index)",
)
def getitem(xp: Namespace, input: Array, index: Index) -> Array:
    """The elements at `index`: ints, slices, None, ..., bool masks and integer tensors.

    >>> getitem(tensor([[1, 2], [3, 4]]), (slice(None), 0))
    tensor([1, 3])
    """
    try:
        cls = index.__class__
        if cls is int:
            return input[index, ...]  # with `...` it is a view even if 0-d
        if cls is slice:
            return input[index]
        if cls is tuple:
            for part in index:
                if part.__class__ not in VIEW_PARTS:
                    break
            else:
                y = input[index]
                return input[(*index, ...)] if isinstance(y, np.generic) else y
        if input.__class__ is np.ndarray and is_arrays(index):
            # Several arrays are left to NumPy: a kernel takes as long.
            several = cls is tuple and len(index) > 1
            y = input[index] if several else take_at(input, index)
            if y.__class__ is np.ndarray:
                return y
        part, rest = apply_integers(input, index)
        y = take_at(part, checked_on_device(rest, part))
        return part[(*rest, ...)] if isinstance(y, np.generic) else y
    except IndexError as error:
        rows, hint = {"input": input.shape}, valid_indices(str(error))
        raise DimError("index", translate_index_error(error), rows, hint) from None


def index_node(index: Index) -> type[Node]:
    """Return the node class that PyTorch records for the last part of an index."""
    parts = index if index.__class__ is tuple else (index,)
    node = SLICE if len(parts) == 1 and parts[0] is not ... else ALIAS
    for part in parts:
        cls = part.__class__
        if cls is slice:
            if part.start is not None or part.stop is not None or part.step is not None:
                node = SLICE
        elif cls is int:
            node = SELECT
        elif part is None:
            node = UNSQUEEZE
        elif part is not ...:  # a mask or an array: one step for the whole index
            return INDEX
    return node


SELECT, SLICE, UNSQUEEZE, ALIAS, INDEX = (
    getitem.op.node_type_named(f"{name}Backward0")
    for name in ("Select", "Slice", "Unsqueeze", "Alias", "Index")
)


def translate_index_error(error: Exception) -> str:
    """Return NumPy's message about an invalid index in this library's terms."""
    text = str(error).replace("numpy.newaxis (`None`)", "None").replace("array is", "tensor is")
    text = text.replace("axis", "dimension").replace("Index ", "index ")
    text = text.replace("for array:", "for tensor:").replace("arrays", "tensors")
    return OTHER_BROADCAST.sub(
        r"could not broadcast input tensor from shape \1 into shape \2", text
    )


OTHER_BROADCAST = re.compile(r"operands could not be broadcast .* shapes (\(.*?\)) (\(.*?\))$")
"""CuPy's message about a value that does not fit into the elements at an index."""


getitem.vjp(
    input=lambda g, input_shape, index: index_put_forward(g, index, input_shape),
    latex=r"g\ \text{added where it was picked}",
)


def on_device(index: Index, array: Array) -> Any:
    """Move NumPy arrays inside an index to the device of the indexed array."""
    backend = backends.of(array)
    if backend is backends.CPU:
        return index
    if isinstance(index, tuple):
        parts = tuple(on_device(part, array) for part in index)
        return masks_to_positions(backend.xp, parts)
    return backend.from_numpy(index) if isinstance(index, np.ndarray) else index


def checked_on_device(index: Index, array: Array, reports: bool = True) -> Any:
    """Move an index to the device of the indexed array; one that is wrong raises there, too.

    Args:
        reports: False for an index that was checked before.

    Raises: IndexError: out of range, or no index at all.
    """
    backend = backends.of(array)
    if backend is backends.CPU:
        return index
    if not backend.checks_access:
        parts = index if isinstance(index, tuple) else (index,)
        index = check_index_parts(parts, array.shape, reports)
    return on_device(index, array)


def masks_to_positions(xp: Namespace, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Convert masks to index arrays where there are several: CuPy accepts only one."""
    masks = [part for part in parts if getattr(part, "ndim", 0) and part.dtype.kind == "b"]
    if len(masks) < 2:
        return parts
    groups = [
        xp.nonzero(part) if any(part is mask for mask in masks) else (part,) for part in parts
    ]
    return tuple(index for group in groups for index in group)


@op(linear=True, method=False, public="index_put")
def index_put_forward(xp: Namespace, input: Array, index: Index, shape: Sequence[int]) -> Array:
    """Zeros of `shape` with `input` added at `index`: the transpose of indexing.

    >>> index_put_forward(tensor([1.0, 2.0]), (tensor([0, 0]),), (3,))
    tensor([3., 0., 0.])
    """
    y = xp.zeros(tuple(shape), input.dtype)
    if index.__class__ is int or is_view_index(index):
        y[index] = input
        return y
    part, index = apply_integers(y, on_device(as_index(index), y))
    index = checked_on_device(index, part, reports=False)
    if can_repeat(index):
        backends.of(y).scatter_add(part, index, input)
    else:
        put_at(part, index, input)
    return y


index_put_forward.vjp(input=lambda g, index: getitem(g, as_index(index)), latex=r"g[index]")


def can_repeat(index: Index) -> bool:
    """Return True if an index can select an element twice: only integer arrays can."""
    parts = index if isinstance(index, tuple) else (index,)
    for part in parts:  # noqa: SIM110  (the generator of `any` takes longer)
        if getattr(part, "ndim", 0) and part.dtype.kind in "iu":
            return True
    return False


def _getitem(self: Tensor, index: Index) -> Tensor:
    if index.__class__ is tuple and not is_view_index(index):
        index = tuple([as_index(part) for part in index])
    elif index.__class__ is not int and index.__class__ is not tuple:
        index = as_index(index)
    return getitem(self, index)


def _setitem(self: Tensor, index: Index, value: Tensor | Number) -> None:
    """Write `value` (broadcast) to the elements at `index`."""
    refuse_leaf(self, "__setitem__")
    index, backend = as_index(index), backends.of(self._array)
    if backend.cards is not None and backend.cards.is_elsewhere(backend.index):
        return backend.on_card(_setitem, self, index, value)
    before, operand = alias_with_history(self), value
    if isinstance(value, Tensor):
        check_value_dtype(self, value, index)
    else:
        value = wrap(scalar_like("__setitem__", value, self._array))
    if backend.level:
        value = lift_to_level(value, backend)
    elif backends.of(value._array).level:
        raise in_place_error()
    assigned = value._array
    if backends.of(assigned) is not backend:
        assigned = to_same_device(value, self)
    try:
        part, rest = apply_integers(self._array, index)
        write(self, "__setitem__", assigned, checked_on_device(rest, part), part)
    except (ValueError, IndexError) as error:
        if isinstance(error, ValueError) and value.ndim and value.numel() == 1:
            # NumPy takes no array for one element: x[0] = ones(1, 1)
            return _setitem(self, index, value.reshape(()))
        error_class = DimError if isinstance(error, IndexError) else ShapeError
        rows = {"input": tuple(self.shape), "value": tuple(value.shape)}
        raise error_class(
            "__setitem__", translate_index_error(error), rows, valid_indices(str(error))
        ) from None
    result = wrap(self._array)
    if backend is not backends.CPU:
        index = on_device(index, self._array)
    if needs_recording(before, value):
        values = {"input": before, "value": value, "index": copy_mutable(index)}
        record(setitem.op, result, values)
        result._writes = self._writes
    if not isinstance(operand, int | float):
        operand = value
    notify_recorded(
        OpApplied(setitem.op, (before, operand), {"index": index}, result, result._node)
    )
    if current().grad:
        set_history(self, result)
    if current().levels:
        propagate(setitem.op, (before, value), {"index": index}, result)
        update_tangents(self, result)
    notify_write(self, result)


def check_value_dtype(target: Tensor, value: Tensor, index: Index) -> None:
    """Raise DTypeError for a value of another dtype written by tensor indices, as in PyTorch.

    (A single element written by a single mask may have any dtype.)
    """
    if value.dtype is target.dtype:
        return
    parts = index if isinstance(index, tuple) else (index,)
    arrays = [part for part in parts if getattr(part, "ndim", 0)]
    alone = len(arrays) == 1 and arrays[0].dtype.kind == "b"
    if arrays and not (alone and value.numel() == 1):
        raise DTypeError(
            "__setitem__", "Index put requires the source and destination dtypes match",
            {"input": str(target.dtype), "value": str(value.dtype)},
            f"convert the value: value.to({target.dtype})",
        )  # fmt: skip


def to_same_device(value: Tensor, target: Tensor) -> Array:
    if value._array.ndim:
        raise DimError(
            "__setitem__", "Expected all tensors to be on the same device",
            {"input": str(target.device), "value": str(value.device)},
        )  # fmt: skip
    return backends.of(target._array).asarray(value.item(), target._array.dtype)


def needs_recording(*tensors: Tensor) -> bool:
    return current().grad and any(tensor._node is not None for tensor in tensors)


@op(linear=True, method=False, public="__setitem__", node="CopySlices")
def setitem(xp: Namespace, input: Array, value: Array, index: Index) -> Array:
    """A copy of `input` with `value` at `index`.

    >>> setitem(zeros(3), tensor(5.0), 1)
    tensor([0., 5., 0.])
    """
    y = input.copy()
    part, index = apply_integers(y, on_device(as_index(index), y))
    put_at(part, checked_on_device(index, part, reports=False), value)
    return y


setitem.vjp(
    input=lambda g, index: setitem(g, zeros_like(getitem(g, as_index(index))), index),
    value=lambda g, index: getitem(g, as_index(index)),
    latex={"input": r"g\ \text{outside the index}", "value": r"g[index]"},
)

Tensor.__getitem__ = _getitem  # type: ignore[attr-defined]
Tensor.__setitem__ = _setitem  # type: ignore[attr-defined]


def unravel_index(indices: Tensor, shape: int | Sequence[int] | Size) -> tuple[Tensor, ...]:
    """Convert flat indices to coordinates, one index tensor per axis.

    Raises: DTypeError: not integers. ValueError: a size is negative.

    >>> unravel_index(tensor([4, 5]), (2, 3))
    (tensor([1, 1]), tensor([1, 2]))
    """
    if indices.dtype.category != 1:
        rows = {"indices": str(indices.dtype)}
        raise DTypeError("unravel_index", "expected integers", rows, "indices.long()")
    sizes = [shape] if isinstance(shape, int) else list(shape)
    if any(size < 0 for size in sizes):
        raise InvalidValueError("unravel_index", f"a size cannot be negative, got {tuple(sizes)}")
    indices, coordinates = indices.long(), []
    for size in reversed(sizes):
        coordinates.append(indices % size)
        indices = indices // size
    return tuple(reversed(coordinates))
