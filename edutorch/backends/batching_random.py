"""Random numbers inside of `vmap`: refused, equal for all examples, or different for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .batching import BatchedBackend
from .numpy import Array
from .vmap_errors import VmapError


class BatchedRandom:
    """A generator that draws for each example of a level, from the generator outside of it."""

    def __init__(self, outer: Any, level: BatchedBackend) -> None:
        self.outer, self.level = outer, level

    def uniform(self, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        """Uniform samples in [0, 1)."""
        return self.level.wrap(self.outer.uniform((self.level.size, *shape), dtype))

    def normal(self, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        """Samples from the standard normal distribution."""
        return self.level.wrap(self.outer.normal((self.level.size, *shape), dtype))

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> Array:
        """Integers in [low, high)."""
        return self.level.wrap(self.outer.integers(low, high, (self.level.size, *shape)))

    def permutation(self, n: int) -> Array:
        """The integers 0 … n-1 in random order."""
        orders = [self.outer.permutation(n) for _ in range(self.level.size)]
        return self.level.wrap(self.level.inner.xp.stack(orders))


def batched_generator(source: Any, levels: Sequence[BatchedBackend]) -> Any:
    """Return a generator that obeys the `randomness` of each open level.

    Raises: VmapError: a level has randomness="error".
    """
    for level in levels:
        if level.randomness == "error":
            raise VmapError(
                "random",
                "vmap: called random operation while in randomness error mode. Please either use "
                "the 'same' or 'different' randomness flags on vmap or perform the randomness "
                "operation out of vmap",
                hint="vmap(func, randomness='different') draws for each example by itself",
            )
        if level.randomness == "different":
            source = BatchedRandom(source, level)
    return source
