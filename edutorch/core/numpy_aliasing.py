"""Memory shared with NumPy arrays, through which it is written without any tensor noticing.

An array from outside (`from_numpy`) is held as `Shared` as long as other references to it may
exist. Memory of our own that `.numpy()` has returned is held as `Exported` until the last array
of it is gone. Ops look at the class of the array: an ordinary one takes the fast path at no cost.
A node that is recorded with a shared tensor saves a copy of its elements, so its gradient is right
whatever happens outside.

There remain the nodes that had saved a tensor before `.numpy()` was called. For them
`ExportedVersionCounter` computes a checksum at that moment, once per version, and compares it when
backward reads the time of the last write. Memory that no node has saved is not read.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable, Sequence
from threading import RLock
from typing import Any
from weakref import ref

import numpy as np

from ..backends.numpy import (
    Array,
    Exported,
    Shared,
    Stored,
    as_plain_array,
    has_same_layout,
    mark_shared,
)  # fmt: skip
from ..dtypes import STORED
from ..errors import CodeLocation
from ..modes import DEFAULT, NO_GRAD, current
from .autograd.graph import LEAF, record
from .autograd.tangents import with_tangents
from .autograd.versions import InferenceVersionCounter, VersionCounter, clock
from .registry import REGISTRY
from .shapes import Index
from .tensor import Tensor, fill, wrap, writes_of

# Arrays from outside without other references -------------------------------------------


def count_references(array: Array) -> int:
    """Return the largest number of references to an array or to one that it is a view of."""
    most = sys.getrefcount(array)
    while array.base is not None:
        array = array.base
        if array.__class__ is not np.ndarray:
            return sys.maxsize
        most = max(most, sys.getrefcount(array))
    return most


def _count_own_references() -> int:
    array = mark_shared(np.zeros(1))
    return count_references(array.base)


MIN_REFERENCES = _count_own_references()
"""What `count_references` returns for an array that only our own one refers to."""


def restore_ordinary(tensor: Tensor) -> None:
    """Make a tensor ordinary again if nothing else refers to the array it came from."""
    array = tensor._array
    if array.__class__ is Exported:
        writes: Any = tensor._writes
        if writes.__class__ is ExportedVersionCounter and not writes.export_count:
            tensor._array = as_plain_array(array)
            writes.restored.append(ref(tensor))
        return
    if array.__class__ is not Shared or array.base.__class__ is not np.ndarray:
        return
    if count_references(array.base) <= MIN_REFERENCES and has_same_layout(array.base, array):
        tensor._array = array.view(Stored) if array.dtype in STORED else array.base


def plain_operands(op: Any, operands: Sequence[Any]) -> Sequence[Any] | None:
    """Return inputs of ordinary tensors, for a call that neither records nor makes views.

    None: it may do one of both, the modes are unusual, an operand is not of NumPy's memory, or none
    is shared.
    """
    mode = current()
    if op.family.makes_view or op.family.makes_views:
        return None
    if mode is not DEFAULT and mode is not NO_GRAD:
        return None
    plain, is_any_shared = [], False
    for operand in operands:
        if isinstance(operand, Tensor):
            if operand._array.__class__ not in PLAIN_ARRAYS:
                return None
            if mode.grad and operand._node is not None:
                return None
            if operand._array.__class__ is not np.ndarray:
                restore_ordinary(operand)
                is_any_shared = True
                operand = fill(object.__new__(Tensor), as_plain_array(operand._array))
        plain.append(operand)
    if not is_any_shared:
        return None
    return (plain,) if op.variadic else plain


PLAIN_ARRAYS = {np.ndarray, Shared, Exported}


# What a node saves of a shared tensor ---------------------------------------------------


def copy_if_shared(value: object) -> Any:
    """Return a copy with the same history if `value` is a shared tensor, else `value`."""
    if not isinstance(value, Tensor) or not isinstance(value._array, Shared):
        return value
    copied = fill(object.__new__(Tensor), as_plain_array(value._array).copy("K"))
    if value._node is LEAF:  # one step away from it, for second derivatives
        record(REGISTRY["convert_dtype"], copied, {"input": value, "dtype": value.dtype})
    else:
        copied._node = value._node
    return with_tangents(copied, value) if current().levels else copied


def copy_saved_shared(node: Any) -> None:
    """Replace the shared tensors that a new node has saved by copies."""
    if node is not None and node.saved:
        node.saved = tuple(
            tuple(copy_if_shared(item) for item in value)
            if value.__class__ is tuple
            else copy_if_shared(value)
            for value in node.saved
        )


UNCHANGING = {int, slice, bool, type(None), type(...)}
"""Classes of immutable indices."""


def copy_mutable(value: Any) -> Any:
    """Return an index, a mask or a second result as a node saves it: arrays are copied.

    A tensor is saved itself: where it was written to, backward says so (`refuse_stale_index`).
    """
    cls = value.__class__
    if cls in UNCHANGING:
        return value
    if cls is np.ndarray:
        return value.copy()
    if cls is tuple or cls is list:
        for part in value:
            if part.__class__ not in UNCHANGING:
                break
        else:
            return tuple(value)
        return tuple(
            [part.copy() if part.__class__ is np.ndarray else copy_mutable(part) for part in value]
        )
    if isinstance(value, Tensor):
        array = value._array
        if array.__class__ is np.ndarray and value._writes.__class__ is not InferenceVersionCounter:
            value._saved_at = clock()
            return value
        return fill(object.__new__(Tensor), as_plain_array(array).copy())
    return as_plain_array(value).copy() if hasattr(value, "dtype") else value


# Memory of our own, exported to NumPy ---------------------------------------------------


FEW_VIEWS = 8
"""Up to so many tensors are made ordinary when the last exported array is gone, more when they are
used: exporting n views one by one would otherwise visit all of them n times."""


EXPORTS = RLock()
"""Two threads may export one tensor, or one may while another lets its array go."""


class ExportedVersionCounter(VersionCounter):
    """The version counter of exported memory: it also detects writes by NumPy.

    It is the `VersionCounter` that the memory had, whose class is changed for a while: `time` and
    `count` stay in its dict, behind the properties.

    Attributes:
        export_count: the number of exported arrays of the memory that exist.
        released: when the last one was gone; infinite while there are some.
        watched: those that a node may have saved, with the checksum of the present version.
        watched_since: when all of these checksums were right.
        restored: tensors that are ordinary again although others are not yet.
        marked: how many of the views in `marked_views` are held as `Exported`.
    """

    export_count = 0
    released = float("inf")
    watched: dict[Any, tuple[np.ndarray, int]]
    watched_since: float = 0
    restored: list[Any]
    marked = 0
    marked_views: Any = None

    @property
    def time(self) -> float:  # type: ignore[override]
        """The time of the last write, or when it was detected."""
        if self.watched:
            self.compare()
        return vars(self).get("time", 0)

    @time.setter
    def time(self, value: float) -> None:
        # What was saved before is stale from now on, and what is saved later is a copy.
        self.watched.clear()
        vars(self)["time"] = value

    @property
    def count(self) -> int:  # type: ignore[override]
        """The number of writes."""
        if self.watched:
            self.compare()
        return vars(self).get("count", 0)

    @count.setter
    def count(self, value: int) -> None:
        vars(self)["count"] = value

    def bump(
        self, location: CodeLocation | None = None, array: Array = None, index: Index = ...
    ) -> None:
        """Record a write by a tensor.

        While memory is exported it counts as one into all of it: writes by NumPy are not located.
        """
        if self.watched and not self.export_count:
            self.compare()
        if self.export_count:
            super().bump(location)
        else:
            super().bump(location, array, index)

    def count_from_now(self, array: Array) -> int:
        """Return the number of writes, to be compared later with that of then."""
        if self.export_count:
            with EXPORTS:
                self.watch(as_plain_array(array))
        return self.count

    def compare(self) -> None:
        """Record a write if the elements differ from those at the export."""
        for array, noted in tuple(self.watched.values()):
            if checksum(array) != noted:
                self.record_outside_write()
                return
        self.watched_since = clock()
        if not self.export_count:  # nothing can write unnoticed any more
            self.watched.clear()

    def record_outside_write(self) -> None:
        """Record a write that no tensor has made: what was saved since the release has seen it."""
        self.outside = self.time = self.released if not self.export_count else clock()
        self.count += 1

    def watch(self, array: np.ndarray) -> None:
        """Note the checksum of memory that becomes exported, if a node may have saved it."""
        saved_at = last_saved(self)
        if not saved_at:
            return
        if self.watched and not self.export_count and saved_at > self.watched_since:
            self.compare()
        key = array.ctypes.data, array.shape, array.strides, array.dtype
        if not self.watched:
            self.watched_since = clock()
        if key not in self.watched:
            self.watched[key] = array, checksum(array)

    def mark_exported(self) -> None:
        """Hold the arrays of all tensors of this memory as `Exported`."""
        views = self.views
        fresh = views[self.marked :] if views is self.marked_views else views
        for tensor in living_tensors(self, (*self.restored, *fresh) if self.restored else fresh):
            if tensor._array.__class__ is np.ndarray:
                tensor._array = tensor._array.view(Exported)
        self.marked_views, self.marked, self.restored = views, len(views), []

    def release_export(self) -> None:
        """Count one exported array less; after the last one the tensors are ordinary."""
        with EXPORTS:
            self.export_count -= 1
            if self.export_count:
                return
            self.released = clock()
            views = self.views
            if len(views) > FEW_VIEWS:
                if self.watched:
                    self.compare()
                return
            for tensor in living_tensors(self, views):
                if tensor._array.__class__ is Exported:
                    tensor._array = tensor._array.view(np.ndarray)
            self.marked_views = None
            if not self.watched:
                self.__class__ = VersionCounter  # type: ignore[assignment]


def last_saved(writes: VersionCounter) -> float:
    """Return when a node last saved this memory, as far as one knows; 0 if none has."""
    views = writes.views
    if len(views) > FEW_VIEWS:
        return float("inf")
    order: float = 0
    for tensor in living_tensors(writes, views):
        order = max(order, saved_at(tensor))
    return order


def saved_at(tensor: Tensor) -> int:
    """Return the order of the last node that saved a tensor, as an input or as its result."""
    order, node = getattr(tensor, "_saved_at", 0), tensor._node
    if node is None or node is LEAF or node.saved is None or "y" not in node.op.saved:
        return order
    return max(order, node._order)


def checksum(array: np.ndarray) -> int:
    """Return the CRC-32 of an array's elements."""
    array = array[tuple(slice(None) if step else slice(1) for step in array.strides)]
    data: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return zlib.crc32(data)


def living_tensors(writes: VersionCounter, references: Iterable[Any]) -> list[Tensor]:
    """Return the owner and the referenced tensors, those that exist and share this counter."""
    owner = writes.owner()
    tensors = [] if owner is None or owner._writes is not writes else [owner]
    for reference in references:
        tensor = reference()
        if tensor is not None and tensor._writes is writes:
            tensors.append(tensor)
    return tensors


class ExportHandle(np.ndarray):
    """The array that exported ones are views of: it lives as long as one of them does.

    NumPy makes a view of a view one of the first array, but not beyond a base of another class. So
    the bases of exported arrays, and of their views, lead to this one.
    """

    __slots__ = ("writes",)

    writes: ExportedVersionCounter

    def __del__(self) -> None:
        if (writes := getattr(self, "writes", None)) is not None:  # a view of this class has none
            writes.release_export()


def export_array(tensor: Tensor) -> np.ndarray:
    """Return a NumPy array of a tensor's memory, and watch that memory while the array exists."""
    # The last array may be gone by now: then there is nothing to share.
    if tensor._array.__class__ is not np.ndarray:
        restore_ordinary(tensor)
    array = tensor._array
    if array.__class__ is Shared:
        base = array.base  # perhaps the very array it was made from
        return (
            base
            if base.__class__ is np.ndarray and has_same_layout(array, base)
            else as_plain_array(array)
        )
    if array.__class__ is not np.ndarray:
        array = as_plain_array(array)
    if not array.size or tensor._writes.__class__ is InferenceVersionCounter:
        return array
    # The counter is shared by all views: one checksum serves them all.
    with EXPORTS:
        writes: Any = writes_of(tensor)
        if writes.owner is None:
            writes.owner = ref(tensor if tensor._base is None else tensor._base)
        if writes.__class__ is VersionCounter:
            writes.watched, writes.restored = {}, []
            writes.__class__ = ExportedVersionCounter
        has_views = bool(writes.views)
        if has_views or saved_at(tensor):
            writes.watch(array)
        writes.export_count += 1  # from here on no other array that goes makes it ordinary
        # By way of one more class: the base of a view is never one of its own class's base.
        exported = array.view(Exported)
        if has_views or writes.restored:
            if writes.export_count == 1:
                writes.mark_exported()
        elif tensor._array.__class__ is np.ndarray:  # it is the only one of its memory
            tensor._array = exported
        holder = exported.view(ExportHandle)
        holder.writes = writes
    return holder.view(np.ndarray)


def array_wrap(
    tensor: Tensor, array: np.ndarray, context: object = None, return_scalar: bool = False
) -> Tensor:
    """Return the result of a NumPy function as a tensor: `np.sin(x)`."""
    return wrap(np.asarray(array))


Tensor._export_array = export_array  # type: ignore[method-assign]
Tensor.__array_wrap__ = array_wrap  # type: ignore[attr-defined]
