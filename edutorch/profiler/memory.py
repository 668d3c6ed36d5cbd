"""Tracking of arrays that are allocated and freed during a profile.

Counted is the memory of each array that an op, a creation function, a node of backward or an
optimizer's state returns, in bytes, once. Views have no memory of their own. Memory is freed when
the last array that uses it is deleted; a weak reference notices that at once, and it is counted
for the span that is open then.

Not counted are temporary arrays within one op, Python objects, and arrays that were allocated
before the profile began (a parameter, a batch): neither their allocation nor their release.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from weakref import ref

from ..core.fast.lazy_gradients import OutputGradients
from ..core.tensor import array_of


def base_array(array: Any) -> Any:
    """Return the array that owns the memory: the end of the chain of views."""
    base = getattr(array, "base", None)
    while base is not None and hasattr(base, "nbytes") and hasattr(base, "dtype"):
        array, base = base, getattr(base, "base", None)
    return array


def arrays_in(value: Any) -> Iterator[Any]:
    """Yield every array in the inputs or results of an op or a node."""
    if isinstance(value, tuple | list):
        for item in value:
            yield from arrays_in(item)
        return
    if value.__class__ is OutputGradients:
        for item in value.by_output.values():
            yield from arrays_in(item)
        return
    array = array_of(value)
    if hasattr(array, "dtype") and hasattr(array, "nbytes"):
        yield array


class Memory:
    """Tracks the blocks of memory that are allocated while it is active.

    Args:
        freed: called with the bytes of a block when it is freed.

    Attributes:
        live, peak: bytes in use now, and the maximum so far.
        history: (nanoseconds, bytes in use) after each change.
    """

    def __init__(self, freed: Callable[[int], None]) -> None:
        self.live = self.peak = self.made = self.freed = 0
        self.history: list[tuple[int, int]] = []
        self._blocks: dict[int, tuple[Any, int]] = {}
        self._foreign: dict[int, Any] = {}  # inputs that were allocated before
        self._kept: set[int] = set()
        self._on_freed = freed

    def is_known(self, block: Any) -> bool:
        """Return True if a block was seen before (comparing objects, as ids may be reused)."""
        known = self._blocks.get(id(block))
        if known is not None and known[0]() is block:
            return True
        foreign = self._foreign.get(id(block))
        return foreign is not None and foreign() is block

    def mark_foreign(self, values: Iterable[Any]) -> None:
        """Mark arrays that existed before, so that they do not count as new."""
        for array in arrays_in(tuple(values)):
            block = base_array(array)
            if not self.is_known(block):
                key = id(block)
                reference = reference_to(block, lambda _, key=key: self._foreign.pop(key, None))
                if reference is not None:
                    self._foreign[key] = reference

    def record_allocations(self, value: Any) -> int:
        """Record the arrays in a result, and return the bytes of new blocks."""
        total = 0
        for array in arrays_in(value):
            block = base_array(array)
            if not self.is_known(block):
                total += self._add(block)
        if total:
            self.made += total
            self.live += total
            self.peak = max(self.peak, self.live)
            self.history.append((time.perf_counter_ns(), self.live))
        return total

    def _add(self, block: Any) -> int:
        key, size = id(block), int(block.nbytes)

        def gone(reference: Any) -> None:
            held = self._blocks.get(key)
            if held is not None and held[0] is reference:
                del self._blocks[key]
                self._kept.discard(key)
                self.live -= size
                self.freed += size
                self.history.append((time.perf_counter_ns(), self.live))
                self._on_freed(size)

        reference = reference_to(block, gone)
        if reference is None:
            return 0
        self._foreign.pop(key, None)
        self._blocks[key] = reference, size
        return size

    def record_saved(self, value: Any) -> int:
        """Return the bytes that are newly saved for backward.

        Blocks that were allocated before (a parameter) do not count.
        """
        blocks = {id(base_array(array)) for array in arrays_in(value)} & self._blocks.keys()
        new = blocks - self._kept
        self._kept |= new
        return sum(self._blocks[address][1] for address in new)

    def close(self) -> None:
        """Stop tracking."""
        self._blocks.clear()
        self._foreign.clear()
        self._kept.clear()


def reference_to(block: Any, callback: Callable[[Any], None] | None) -> Any:
    """Return a weak reference, or None if unsupported (the block is then not counted)."""
    try:
        return ref(block, callback)
    except TypeError:
        return None
