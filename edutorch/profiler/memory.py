"""Arrays made and freed while a profile listens.

What is counted: the memory of each array that comes out of an op, a creation
function, a node of backward or an optimizer's state, in bytes, once. A view is not
memory of its own. It is freed when the last array that shows it is gone; that is
noticed at once, through a weak reference, and counted where the program then is.

What is not counted: arrays that live and die within one op, Python's own objects, and
whatever was made before the profile began (a parameter, a batch): neither how it was
made nor how it is freed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from weakref import ref

from ..core.fast.lazy_gradients import OutputGradients
from ..core.tensor import array_of


def base_array(array: Any) -> Any:
    """Return the array that the memory belongs to: the end of the chain of views."""
    base = getattr(array, "base", None)
    while base is not None and hasattr(base, "nbytes") and hasattr(base, "dtype"):
        array, base = base, getattr(base, "base", None)
    return array


def arrays_in(value: Any) -> Iterator[Any]:
    """Yield every array in what an op or a node got or made."""
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
    """Which blocks of memory are in use that were made while it watched.

    Args:
        freed: called with the bytes of a block when it is gone.

    Attributes:
        live, peak: bytes in use now, and at most so far.
        history: (nanoseconds, bytes in use) after each change.
    """

    def __init__(self, freed: Callable[[int], None]) -> None:
        self.live = self.peak = self.made = self.freed = 0
        self.history: list[tuple[int, int]] = []
        self._blocks: dict[int, tuple[Any, int]] = {}
        self._foreign: dict[int, Any] = {}  # seen as an input, made before we watched
        self._kept: set[int] = set()
        self._on_freed = freed

    def is_known(self, block: Any) -> bool:
        """Say whether a block was seen before (an id alone may be used again)."""
        held = self._blocks.get(id(block))
        if held is not None and held[0]() is block:
            return True
        foreign = self._foreign.get(id(block))
        return foreign is not None and foreign() is block

    def mark_foreign(self, values: Iterable[Any]) -> None:
        """Note arrays that were there before: not made by what comes now."""
        for array in arrays_in(tuple(values)):
            block = base_array(array)
            if not self.is_known(block):
                key = id(block)
                reference = reference_to(block, lambda _, key=key: self._foreign.pop(key, None))
                if reference is not None:
                    self._foreign[key] = reference

    def record_allocations(self, value: Any) -> int:
        """Note what was made, and return the bytes of those blocks that are new."""
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
        """Return the bytes that are now saved for backward and were not before.

        Blocks that were not made while we watched (a parameter) do not count.
        """
        blocks = {id(base_array(array)) for array in arrays_in(value)} & self._blocks.keys()
        new = blocks - self._kept
        self._kept |= new
        return sum(self._blocks[address][1] for address in new)

    def close(self) -> None:
        """Watch no longer."""
        self._blocks.clear()
        self._foreign.clear()
        self._kept.clear()


def reference_to(block: Any, callback: Callable[[Any], None] | None) -> Any:
    """Return a weak reference, None to what cannot have one (it is then not counted)."""
    try:
        return ref(block, callback)
    except TypeError:
        return None
