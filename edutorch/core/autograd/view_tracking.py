"""View tracking: the graph after an in-place write into memory that several tensors share.

A tensor and its views share their elements. After a recorded write into one of them, the base
consists of the result in one region and of its former value elsewhere; and each existing view is
recorded anew as a view of that base. Regions are described as in PyTorch, by size, strides and
offset within the storage, independent of the strides of the base.

A view may show complex elements as pairs of real ones, or vice versa. Then both sides are treated
as pairs.
"""

from __future__ import annotations

from typing import Any

from ... import dtypes
from ...errors import GradientError, user_location
from ...events import OpApplied, TensorAliased, TensorWritten, ViewRebased, emit
from ...modes import current
from ..registry import REGISTRY, op_function
from ..tensor import Tensor, fill, move_retain_hooks, wrap
from .graph import record
from .tangents import with_tangents
from .versions import VersionCounter, clock

Layout = tuple[tuple[int, ...], int] | None
"""The strides of a tensor and its offset in the storage; None: row-major from 0."""


def layout_of(tensor: Tensor) -> Layout:
    """Return the strides and the offset of a tensor in its storage."""
    offset = tensor.storage_offset()
    return (tensor.stride(), offset) if offset or not tensor.is_contiguous() else None


def region(tensor: Tensor) -> tuple[Any, ...]:
    """Return the size, the strides and the offset of a tensor in its storage."""
    return tuple(tensor._array.shape), tensor.stride(), tensor.storage_offset()


def alias_with_history(target: Tensor) -> Tensor:
    """Return a second tensor object of the same memory and history.

    A view that was created without a history, in `no_grad`, is recorded as a view of its base.
    """
    if current().op_recorder is not None:
        current().op_recorder.before_write()
    base = target._base
    if (
        base is not None
        and base._node is not None
        and target._node is None
        and current().grad
        and target._array.dtype in dtypes.DIFFERENTIABLE
    ):
        rebase_view(base, target)
    before = fill(object.__new__(Tensor), target._array)
    before._node, before._writes, before._base = target._node, target._writes, target._base
    modes = current()
    if modes.listeners:
        emit(TensorAliased(target, before))
    if modes.levels:
        with_tangents(before, target)
    if modes.saving is not None:  # hooks that keep the elements must not see them overwritten
        before._array, before._writes = target._array.copy(), VersionCounter()
    return before


def set_history(target: Tensor, result: Tensor) -> None:
    """Give `target` the history of `result` after a recorded write, and rebase the views."""
    base = target._base
    base_is_recorded = base is not None and base._node is not None
    if result._node is None and target._node is None and not base_is_recorded:
        return
    if result._node is not None:
        result._node._order = clock()  # younger than the write itself
    if base is None:
        history, target._node = target._node, result._node
        move_retain_hooks(target, history)
        base = target
    else:
        write_back(base, target, result)
    rebase_views(base)


def as_pairs(tensor: Tensor, other: Tensor) -> Tensor:
    """Return a complex tensor as pairs if `other` is real, else the tensor itself."""
    if tensor.dtype.is_complex and not other.dtype.is_complex:
        return op_function("view_as_real")(tensor)
    return tensor


def region_settings(view: Tensor, base: Tensor) -> dict[str, Any]:
    """Return the settings by which `as_strided` and its scatter find a view in its base."""
    size, stride, storage_offset = region(view)
    return {
        "size": size, "stride": stride, "storage_offset": storage_offset, "layout": layout_of(base),
    }  # fmt: skip


def write_back(base: Tensor, view: Tensor, result: Tensor) -> None:
    """Give `base` the history of a write of `result` through one of its views.

    Raises: GradientError: the view has another dtype.
    """
    whole, part = as_pairs(alias_with_history(base), view), as_pairs(wrap(view._array), base)
    if view.dtype.is_complex and not result.dtype.is_complex and not base.dtype.is_complex:
        result = op_function("convert_dtype")(result, view.dtype)
    values = as_pairs(result, base)
    # bytes of a float have no derivative with respect to it.
    if whole.dtype is not part.dtype:
        raise GradientError(
            "in-place", "cannot follow a write through a view of another type",
            {"base": str(base.dtype), "view": str(view.dtype)}, "write into a copy, x.clone()",
        )  # fmt: skip
    is_itself = whole.dtype == base.dtype
    written = base if is_itself else wrap(whole._array)
    history = base._node
    scatter = REGISTRY["as_strided_scatter"]
    record(scatter, written, {"input": whole, "src": values, **region_settings(part, whole)})
    written._node.__class__ = scatter.node_type_named("CopySlices")
    notify_recorded(OpApplied(scatter, (whole, values), {}, written, written._node))
    if not is_itself:
        as_complex = REGISTRY["view_as_complex"]
        record(as_complex, base, {"input": written})
        notify_recorded(OpApplied(as_complex, (written,), {}, base, base._node))
    move_retain_hooks(base, history)


def notify_recorded(event: OpApplied | ViewRebased) -> None:
    """Report an op that a write has recorded to the op recorder and the listeners."""
    modes = current()
    rebased = isinstance(event, ViewRebased)
    output = event.view if rebased else event.output
    if modes.op_recorder is not None and output._node is not None:
        modes.op_recorder.recorded.extend((output, (event.base,) if rebased else event.inputs))
    if modes.listeners:
        if event.node is not None:
            event.node.notes["location"] = user_location()
        emit(event)


def notify_write(target: Tensor, result: Tensor | None = None) -> None:
    """Emit the event of a write of `result` (None: not the result of an op) into `target`."""
    if current().listeners:
        emit(TensorWritten(target, result))


def rebase_views(base: Tensor) -> None:
    """Record each existing view of `base` anew, from the base's new node."""
    writes = base._writes or VersionCounter()
    # A copy: recording one anew may drop references that are dead.
    for reference in tuple(writes.views):
        view = reference()
        if view is not None and view is not base and view._base is base:
            history, view._node = view._node, None
            if base._node is not None and view._array.dtype in dtypes.DIFFERENTIABLE:
                rebase_view(base, view)
            move_retain_hooks(view, history)


def rebase_view(base: Tensor, view: Tensor) -> None:
    """Record `view` as a view of `base`."""
    whole, part = as_pairs(base, view), as_pairs(wrap(view._array), base)
    if whole.dtype is not part.dtype:
        return  # a view of another dtype has no derivative
    is_itself = part.dtype == view.dtype
    strided = view if is_itself else wrap(part._array)
    as_strided = REGISTRY["as_strided"]
    record(as_strided, strided, {"input": whole, **region_settings(part, whole)})
    notify_recorded(ViewRebased(as_strided, whole, strided, strided._node))
    if not is_itself:
        as_complex = REGISTRY["view_as_complex"]
        record(as_complex, view, {"input": strided})
        notify_recorded(ViewRebased(as_complex, strided, view, view._node))
