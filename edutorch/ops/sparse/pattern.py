"""The pattern of a sparse tensor: where its elements are, apart from what they are.

Many tensors share one pattern: a graph's adjacency matrix, twice that matrix, its gradient. What is
worked out about it, such as the order by rows, is worked out once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ... import backends
from ...backends.numpy import Array
from ...errors import ShapeError

MAX_POSITIONS = 2**63 - 1
"""So many positions have a number of their own in int64."""


class Pattern:
    """The indices of n elements: column e of `indices` is the position of element e.

    Args:
        indices: of shape (d, n), int64.
        shape: the sizes of the d axes.
        is_coalesced: whether the positions are sorted, by rows first, and all different.
    """

    def __init__(self, indices: Array, shape: Sequence[int], is_coalesced: bool = False) -> None:
        if math.prod(shape) > MAX_POSITIONS:
            raise ShapeError(
                "sparse", "a sparse tensor has at most 2**63 - 1 positions", {"size": tuple(shape)}
            )
        self.indices, self.shape = indices, tuple(shape)
        self.is_coalesced = is_coalesced or indices.shape[1] < 2

    @property
    def count(self) -> int:
        """The number of elements, n."""
        return self.indices.shape[1]

    @property
    def xp(self) -> Any:
        """The module of the device's arrays."""
        return backends.of(self.indices).xp

    def on_device_of(self, array: Array) -> Pattern:
        """Return the pattern on the device of an array; it is moved once."""
        backend = backends.of(array)
        home = backends.of(self.indices)
        if backend is home or backend.level:  # inside of `vmap` an index is an ordinary array
            return self
        if backend.device_name not in self._elsewhere:
            indices = backend.from_numpy(home.to_numpy(self.indices))
            self._elsewhere[backend.device_name] = Pattern(indices, self.shape, self.is_coalesced)
        return self._elsewhere[backend.device_name]

    @cached_property
    def _elsewhere(self) -> dict[str, Pattern]:
        return {}

    @cached_property
    def keys(self) -> Array:
        """The position of each element as one number, row-major: i · columns + j."""
        return self.keys_along(range(len(self.shape)))

    def keys_along(self, axes: Sequence[int]) -> Array:
        """Return the position along some of the axes as one number."""
        keys = self.xp.zeros(self.count, "int64")
        for axis in axes:
            keys = keys * self.shape[axis] + self.indices[axis]
        return keys

    def coalesced(self) -> tuple[Pattern, Array]:
        """Return the pattern without repetitions, and what each of our elements becomes."""
        xp, keys = self.xp, self.keys_along(range(len(self.shape)))
        order = xp.argsort(keys, kind="stable")
        keys = keys[order]
        is_first = xp.ones(self.count, "bool")  # of the elements at one position
        is_first[1:] = keys[1:] != keys[:-1]
        slots = xp.empty(self.count, "int64")
        slots[order] = xp.cumsum(is_first) - 1
        keys = keys[is_first]
        del order, is_first  # the indices need as much memory again
        return self.at_keys(keys, self.shape), slots

    def at_keys(self, keys: Array, shape: Sequence[int]) -> Pattern:
        """Return the pattern of sorted, distinct positions that are written as one number each."""
        indices = self.xp.empty((len(shape), keys.shape[0]), "int64")
        for axis in reversed(range(len(shape))):
            self.xp.remainder(keys, max(shape[axis], 1), out=indices[axis])
            keys = keys // max(shape[axis], 1)
        return Pattern(indices, shape, is_coalesced=True)

    def transposed(self, order: Sequence[int] = (1, 0)) -> Pattern:
        """Return the pattern with its axes in another order; the elements stay in theirs."""
        return Pattern(self.indices[list(order)], [self.shape[axis] for axis in order])

    def pointers(self, axis: int = 0) -> Array:
        """Return where each row (or column) begins among elements that are sorted by it.

        Row i has the elements from pointers[i] to pointers[i + 1]: the "compressed" index.
        """
        counts = self.xp.bincount(self.indices[axis], minlength=self.shape[axis])
        pointers = self.xp.zeros(self.shape[axis] + 1, "int64")
        self.xp.cumsum(counts, out=pointers[1:])
        return pointers

    @cached_property
    def by_row(self) -> tuple[Array | None, Array, Array]:
        """The order of the elements by rows (None: theirs), the pointers, and the columns."""
        rows, columns = self.indices
        order = None
        if not self.is_coalesced and not bool((rows[1:] >= rows[:-1]).all()):
            order = self.xp.argsort(rows, kind="stable")
            columns = columns[order]
        # SciPy computes with 32-bit indices where they suffice: half the memory to read.
        small = max(*self.shape, self.count) < 2**31
        dtype = np.int32 if small else np.int64
        return order, self.pointers().astype(dtype), columns.astype(dtype)
