"""The memory of simulated cards: counted from the arrays that are alive, and limited on request."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from .memory_counts import MemoryCounts, out_of_memory

__all__ = ["SimulatedMemory"]

UNIT = 512
"""Each array takes a multiple of so many bytes, as on a real card."""


class SimulatedMemory:
    """The memory of one simulated card.

    Args:
        index: its number.
        total: the bytes that it is said to have.
    """

    def __init__(self, index: int, total: int) -> None:
        self.index, self.total = index, total
        self.limit = total
        self.counts = MemoryCounts()
        self._live: dict[int, weakref.ref[Any]] = {}
        self._pinned: dict[int, weakref.ref[np.ndarray]] = {}

    def add(self, array: Any) -> None:
        """Count an array with memory of its own, until it is deleted.

        Raises: OutOfMemory: it is more than the card has, or may use.
        """
        size = -(-array.nbytes // UNIT) * UNIT
        counts = self.counts
        used = counts.used.current + size
        if used > self.limit:
            free, wanted = self.total - counts.used.current, array.nbytes
            array._values = np.empty(0, np.uint8)  # a traceback may keep the array
            raise out_of_memory(self.index, wanted, counts, free, self.total)
        counts.move_to(used, max(used, counts.reserved.current))
        key = id(array)

        def forget(reference: object) -> None:
            if self._live.pop(key, None) is not None:
                counts.used.move_to(counts.used.current - size)

        self._live[key] = weakref.ref(array, forget)

    def release_cached(self) -> None:
        """Reserve no more than what is in use."""
        self.counts.reserved.move_to(self.counts.used.current)

    def pin(self, array: np.ndarray) -> np.ndarray:
        """Return a copy that counts as page-locked."""
        pinned = np.array(array, order="C")
        key = id(pinned)
        self._pinned[key] = weakref.ref(pinned, lambda _: self._pinned.pop(key, None))
        return pinned

    def is_pinned(self, array: np.ndarray) -> bool:
        """Return True if an array of the host, or what it views, was made by `pin`."""
        while isinstance(array, np.ndarray):
            reference = self._pinned.get(id(array))
            if reference is not None and reference() is array:
                return True
            array = array.base
        return False
