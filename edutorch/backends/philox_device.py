"""Random numbers of a GPU: seed and offset in its memory, so that a CUDA graph can draw, too.

A kernel reads both from there and moves the offset on, which a captured kernel does again at each
replay. The host knows the same two numbers, so `get_state` waits for nothing: draws are counted
where they are launched, and those of a graph where it is replayed (`captured`, `replayed`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .kernel_registry import Slot, slot
from .philox import Array, Namespace, PhiloxRandom

__all__ = [
    "DROPOUT_MASK", "INTEGERS", "NORMAL", "PLACE", "SORT_KEYS", "UNIFORM", "CapturedDraws",
    "DeviceRandom",
]  # fmt: skip


UNIFORM = slot("UNIFORM", "cuda")
NORMAL = slot("NORMAL", "cuda")
INTEGERS = slot("INTEGERS", "cuda")
SORT_KEYS = slot("SORT_KEYS", "cuda")
DROPOUT_MASK = slot("DROPOUT_MASK", "cuda")
PLACE = slot("PLACE", "cuda")


class CapturedDraws:
    """How many blocks the kernels of a graph draw at each replay.

    Attributes:
        blocks: the number; known after the capture.
    """

    blocks = 0


class DeviceRandom(PhiloxRandom):
    """Random arrays of a GPU: by kernels, or by array formulas where there are none.

    Attributes:
        device_offset: the offset in the device's memory, None before it has any.
    """

    def __init__(self, xp: Namespace, seed: int) -> None:
        super().__init__(xp, seed)
        self._state: Array = None  # seed, offset, and a counter of the blocks of threads
        self._on_device: tuple[int, int] | None = None
        self._is_captured = False

    def device_state(self) -> Array:
        """Return the memory that kernels read, with seed and offset of the host in it.

        It is written by fill kernels, only after a new seed or state, or a draw without a kernel.
        """
        if self._state is None:
            self._state = self.xp.zeros(3, np.uint64)
            self._on_device = (0, 0)
        if self._on_device != (self.seed, self.offset):
            self._state[0] = np.uint64(self.seed)
            self._state[1] = np.uint64(self.offset)
            self._on_device = (self.seed, self.offset)
        return self._state

    def run(self, kernel: Slot, words: int, y: Array, *arguments: Any) -> bool:
        """Fill a vector by a kernel, from so many words; False if there is no kernel."""
        if kernel.run is None:
            kernel.request()
        if kernel.run is None:
            if self._is_captured:
                raise RuntimeError("without their kernel each replay would draw the same numbers")
            return False
        if not y.size:
            return True
        with self._lock:
            state = self.device_state()
            blocks = (words + 3) // 4
            self.offset = (self.offset + blocks) % 2**64
            self._on_device = (self.seed, self.offset)
            kernel.run(state, blocks, y, *arguments)
        return True

    def fill_uniform(self, y: Array) -> None:
        if not self.run(UNIFORM, y.size * y.itemsize // 4, y):
            super().fill_uniform(y)

    def fill_normal(self, y: Array) -> None:
        if not self.run(NORMAL, (y.size + y.size % 2) * y.itemsize // 4, y):
            super().fill_normal(y)

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> Array:
        y = self.xp.empty(math.prod(shape), np.int64)
        words = y.size if high - low <= 2**32 else 2 * y.size
        if not self.run(INTEGERS, words, y, low, high - low):
            return super().integers(low, high, shape)
        return y.reshape(shape)

    def sort_keys(self, n: int, low: int) -> Array:
        keys = self.xp.empty(n, np.uint64)
        return keys if self.run(SORT_KEYS, 2 * n, keys, low) else super().sort_keys(n, low)

    def dropout_mask(self, shape: tuple[int, ...], p: float, dtype: np.dtype) -> Array:
        """Return 1 / (1 - p) where a uniform number is at least p, else 0; None without a kernel.

        It is the same mask as `(uniform(shape, float32) >= p) / (1 - p)`.
        """
        if dtype.name not in ("float16", "bfloat16", "float32", "float64"):
            return None
        y = self.xp.empty(math.prod(shape), dtype)
        kept = 1 / (1 - p) if p < 1 else 0.0
        return y.reshape(shape) if self.run(DROPOUT_MASK, y.size, y, p, kept) else None

    def place(self, words: int) -> Array:
        """Reserve so many words; return seed and offset of their first block, on the device.

        A kernel that gets them computes the numbers where it needs them.
        """
        y = self.xp.empty(2, np.uint64)
        if not self.run(PLACE, words, y):
            y[0], y[1] = map(np.uint64, self.reserve(words))
        return y

    @contextmanager
    def captured(self) -> Iterator[CapturedDraws]:
        """Count the draws of kernels that a graph records inside the block instead of running."""
        self.device_state()
        draws, before, self._is_captured = CapturedDraws(), self.offset, True
        try:
            yield draws
        finally:
            draws.blocks = (self.offset - before) % 2**64
            self.offset, self._is_captured = before, False
            self._on_device = (self.seed, before)

    def replayed(self, draws: CapturedDraws) -> None:
        """Count the draws of a replay: its kernels move the offset in the device's memory on.

        Called before the launch of the graph: a new seed gets to the device before its kernels.
        """
        with self._lock:
            self.device_state()
            self.offset = (self.offset + draws.blocks) % 2**64
            self._on_device = (self.seed, self.offset)
