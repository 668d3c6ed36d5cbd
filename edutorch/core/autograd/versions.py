"""The version of a memory: when it was written, and where.

A saved value is stale only if a later write overlaps it. Rows of a buffer are a usual case: each
step of a loop reads what earlier ones wrote and writes the next row, and what was saved of the
earlier rows is unchanged.
"""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import backends
from ...backends.numpy import Array, ArrayOrTensor
from ...errors import CodeLocation, GradientError, ShapeError, StaleValueError, read_line
from ..error_messages import has_overlap, overlap_error
from ..shapes import Index

if TYPE_CHECKING:
    from ..tensor import Tensor
    from .graph import Node

MIN_LIMIT, MAX_REGIONS = 1024, 1 << 17
MAX_WORK = 10_000
"""The effort of NumPy to decide whether two views overlap: see `numpy.shares_memory`."""

clock = itertools.count(1).__next__
"""The one clock of the graph: each call returns a later time."""


class VersionCounter:
    """The version of a memory: when it was last written. Shared by all tensors that view it."""

    time: float = 0
    count = 0
    location: CodeLocation | None = None  # of the user's line that made the last write
    views: Any = ()  # weak references; a list from the first view on
    owner: Any = None  # a weak reference to the tensor of which the views are, once needed
    outside: float = -1  # when a write by NumPy was detected (see `numpy_aliasing.py`)
    views_limit = 0
    regions: WrittenRegions | None = None  # writes into parts since the last one into all of it

    def bump(
        self, location: CodeLocation | None = None, array: Array = None, index: Index = ...
    ) -> None:
        """Record a write at the present time.

        Args:
            array, index: what is written, `array[index]`; None: all of the memory.
        """
        if array is not None and self.regions is None:
            self.regions = WrittenRegions(self.time)
        self.time = clock()
        self.count += 1
        if location is None:  # inlined: each optimizer step calls this
            frame: Any = sys._getframe(2)  # that of the caller of a function of edutorch's
            while frame.f_globals.get("__name__", "").startswith("edutorch.") and frame.f_back:
                frame = frame.f_back
            location = frame.f_code, frame.f_lasti
        self.location = location
        if array is not None:
            self.regions.add((array, index, self.time, location))  # type: ignore[union-attr]
        elif self.regions is not None:
            self.regions = None

    def count_from_now(self, array: Array) -> int:
        """Return the number of writes, to be compared later with that of then."""
        return self.count

    def may_have_changed(self, array: Array, since: float) -> bool:
        """Return True if `array` may have been written after `since`."""
        regions = self.regions
        if regions is None or regions.whole > since or self.outside > since:
            return True
        write = regions.last_into(array, since)
        if write is not None:
            (self.location,) = write  # for the error
        return write is not None


class InferenceVersionCounter(VersionCounter):
    """The version counter of an inference tensor: newer than every graph."""

    time = float("inf")

    def bump(
        self, location: CodeLocation | None = None, array: Array = None, index: Index = ...
    ) -> None:
        self.count += 1


class WrittenRegions:
    """The writes into parts of a memory since the last one into all of it, at `whole`.

    Each is (array, index, time, location): `array[index]` was written. In the order of time.
    """

    __slots__ = ("bounds", "limit", "whole", "writes")

    def __init__(self, whole: float) -> None:
        self.whole = whole
        self.writes: list[tuple[Any, Any, float, Any]] = []
        self.limit = MIN_LIMIT
        self.bounds: Any = (0,)  # of how many writes; first and last addresses, and the times

    def add(self, write: tuple[Any, Any, float, Any]) -> None:
        """Add a write."""
        self.writes.append(write)
        if len(self.writes) > self.limit:
            self._drop_repeated()

    def _drop_repeated(self) -> None:
        """Keep only the last write into each part; too many parts count as the whole memory."""
        latest = {}
        for array, index, time, location in self.writes:
            part = written_view(array, index)
            key = (backends.of(part).address(part), part.shape, part.strides)
            latest.pop(key, None)
            latest[key] = part, ..., time, location
        if len(latest) > MAX_REGIONS:
            self.whole = self.writes[-1][2]
            latest = {}
        self.writes = list(latest.values())
        self.limit = max(MIN_LIMIT, 4 * len(self.writes))
        self.bounds = (-1,)

    def last_into(self, array: Array, since: float) -> Any:
        """Return the location of the last write after `since` that overlaps `array`, in a tuple."""
        count = len(self.writes)
        if self.bounds[0] != count:
            ends = [byte_bounds(written_view(*write[:2])) for write in self.writes]
            first, last = np.array(ends, dtype=np.int64).reshape(-1, 2).T
            self.bounds = count, first, last, np.array([write[2] for write in self.writes])
        elif not count:
            return None
        _, first, last, times = self.bounds
        begin, end = byte_bounds(array)
        near = np.flatnonzero((times > since) & (first < end) & (last > begin))
        for position in near[::-1]:
            written, index, _, location = self.writes[position]
            if may_overlap(array, written_view(written, index)):
                return (location,)
        return None


def written_view(array: Array, index: Index) -> Any:
    """Return the view that was written, of a single element too."""
    if index is ...:
        return array
    return array[index if index.__class__ is tuple and ... in index else (*as_tuple(index), ...)]


def as_tuple(index: Index) -> tuple[Any, ...]:
    return index if index.__class__ is tuple else (index,)


VIEW_INDEX_TYPES = {int, slice, type(None), type(...)}


def region_index(index: Index) -> Any:
    """Return an index that selects a view; `...`, the whole array, for any other."""
    if index.__class__ in VIEW_INDEX_TYPES:
        return index
    if index.__class__ is tuple and VIEW_INDEX_TYPES.issuperset(map(type, index)):
        return index
    return ...


def may_overlap(left: Array, right: Array) -> bool:
    """Return True if two arrays may have an element in common."""
    try:
        return np.shares_memory(memory_proxy(left), memory_proxy(right), MAX_WORK)
    except np.exceptions.TooHardError:
        return True


def byte_bounds(array: Array) -> tuple[int, int]:
    """Return the address of an array's first byte, and the one behind its last byte."""
    start = backends.of(array).address(array)
    if not array.size:
        return start, start
    reach = sum(step * (size - 1) for step, size in zip(array.strides, array.shape, strict=True))
    return start, start + reach + array.dtype.itemsize


class MemoryProxy:
    """Describes the memory of an array of any device to NumPy, which does not read it."""

    def __init__(self, array: Array) -> None:
        self.__array_interface__ = {
            "version": 3,
            "shape": array.shape,
            "strides": array.strides,
            "typestr": f"|V{array.dtype.itemsize}",
            "data": (backends.of(array).address(array), True),
        }


def memory_proxy(array: Array) -> np.ndarray:
    """Return a NumPy array at the same address as `array`, to be compared and never read."""
    return array if isinstance(array, np.ndarray) else np.asarray(MemoryProxy(array))


# Histories -------------------------------------------------------------------------


def count_from_now(tensor: Tensor) -> int:
    """Return the number of writes into a tensor; who asks for it compares it with a later one."""
    tensor._saved_at = clock()
    return 0 if tensor._writes is None else tensor._writes.count_from_now(tensor._array)


def forget_history(tensor: Tensor) -> None:
    """Make a tensor a leaf, of which the former node may have saved the elements."""
    if hasattr(tensor._node, "_order"):  # a leaf has no node of an op
        tensor._saved_at = tensor._node._order
    tensor._node = None


# Writing -----------------------------------------------------------------------------


def write_stretched(
    target: Tensor, name: str, array: Array, index: Index, values: ArrayOrTensor
) -> None:
    """Write into a read-only array that is only a broadcast view of writable memory.

    Raises: ShapeError: written elements share a memory location; or the memory is read-only.
    """
    view_index = region_index(index)
    part = written_view(array, view_index)
    if has_overlap(part):
        raise overlap_error(name, target)
    try:
        memory = backends.of(part).writable(part)
    except ValueError:
        rows = {"input": tuple(target.shape)}
        raise ShapeError(name, "its memory is read-only", rows, "write into x.clone()") from None
    memory[... if view_index is index else index] = values


# Errors when a node runs ----------------------------------------------------------------


def second_backward(node: Node) -> GradientError:
    return GradientError(
        "backward",
        f"the values saved by {node.name()} were freed: "
        "this graph was already run backward through a second time",
        hint="call backward(retain_graph=True) the first time, or compute the loss again; "
        "a loss summed over steps keeps old graphs alive: add loss.item() or loss.detach()",
    )


def refuse_stale_index(node: Node, name: str, index: Any) -> None:
    """Raise StaleValueError if a tensor of an index was written to after a node saved it."""
    for part in index if index.__class__ is tuple else (index,):
        if part.__class__ is tuple:
            refuse_stale_index(node, name, part)
        elif getattr(part, "_writes", None) is not None:
            node.refuse_stale(name, part._writes, part._array)


def stale_value(node: Node, name: str, writes: VersionCounter) -> StaleValueError:
    if writes.time == float("inf"):
        return StaleValueError(
            node.op.public[0],
            f"`{name}` is an inference tensor and cannot be saved for backward",
            hint="make it outside inference_mode(), or use x.clone() of it",
        )
    what = name if name == "the result" else f"its input `{name}`"
    forward = node.source
    if writes.outside == writes.time:
        return StaleValueError(
            node.op.public[0],
            f"{what} was changed through a NumPy array after {node.name()} saved it for backward",
            {"saved": forward or "at a line that was not recorded"},
            "x.numpy() shows the memory of x: write into a copy, x.numpy().copy(), or before the "
            "forward pass",
        )
    return StaleValueError(
        node.op.public[0],
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: {what} was overwritten (version {writes.count}) after {node.name()} saved it",
        {
            "saved": forward or "at a line that was not recorded",
            "overwritten": "unknown" if writes.location is None else read_line(writes.location),
        },
        "write x = x + 1 instead of x += 1, or write into a copy, x.clone()"
        + ("" if forward else "; with autograd.detect_anomaly(): the line that saved it is shown"),
    )
