"""Indexing of batched arrays, for reading and writing.

`x[index]` refers to one example; the array inside has the hidden axis in front. If all examples
use the same positions, one more `:` in front is enough. If the index itself is batched, each
example has its own positions: the hidden axis gets an index as well, 0 … B-1, that broadcasts
with the others.

NumPy keeps the axes of adjacent index arrays in place, and moves those of others to the front.
One more index array can change that, so axes are moved afterwards.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from . import of as backend_of
from .vmap_errors import dynamic_shape_error, in_place_error

if TYPE_CHECKING:
    from .batching import BatchedArray

WHOLE = slice(None)


class IndexPlan:
    """An index translated for the array inside.

    `index` is the index of that array; `ndim` the number of axes of one example's result;
    `moves` the axes of the result that have to be moved, and their destinations.
    """

    def __init__(self, array: BatchedArray, index: Any) -> None:
        self.array, self.level = array, array.backend
        parts = self.expand(index if isinstance(index, tuple) else (index,))
        positions = [i for i, part in enumerate(parts) if is_picking(part)]
        self.others: list[Any] = []  # the index arrays, without this level
        self.moves: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
        self.own = False  # each example has its own positions
        if not any(hasattr(parts[i], "strides") for i in positions):
            self.index: tuple[Any, ...] = (WHOLE, *parts)
            self.ndim = sum(part is None or isinstance(part, slice) for part in parts)
            return
        together = positions[-1] - positions[0] == len(positions) - 1
        before = sum(part is None or isinstance(part, slice) for part in parts[: positions[0]])
        self.block = max(getattr(parts[i], "ndim", 0) for i in positions)
        self.ndim = self.block + len(parts) - len(positions)
        self.own = any(self.is_own(parts[i]) for i in positions)
        inner = [self.inside(part) if i in positions else part for i, part in enumerate(parts)]
        self.others = [inner[i] for i in positions if hasattr(inner[i], "strides")]
        if not self.own:
            self.index = (WHOLE, *inner)
            self.moves = ((), ()) if together else ((self.block,), (0,))
            return
        self.index = (self.batch_index(array._values.shape[0] == 1), *inner)
        if together and before:
            now = tuple(range(1, 1 + self.block))
            self.moves = now, tuple(axis + before for axis in now)

    def batch_index(self, shared: bool = False) -> Any:
        """Return the index of the hidden axis: 0 … B-1."""
        indices = self.level.device.xp.arange(self.level.size)
        return (indices * 0 if shared else indices).reshape((-1,) + (1,) * self.block)

    def is_own(self, part: Any) -> bool:
        return getattr(part, "backend", None) is self.level and part._values.shape[0] > 1

    def inside(self, part: Any) -> Any:
        """Return an index array for the array inside."""
        if getattr(part, "backend", None) is not self.level:
            return part
        values = part._values
        if values.shape[0] == 1:
            return values[0, ...]
        return values.reshape((values.shape[0], *(1,) * (self.block - part.ndim), *part.shape))

    def expand(self, parts: tuple[Any, ...]) -> list[Any]:
        """Replace masks by positions and `...` by the axes it stands for.

        Raises: VmapError: a mask differs between the examples.
        """
        expanded: list[Any] = []
        for part in parts:
            if isinstance(part, list | np.ndarray):
                part = self.level.device.from_numpy(np.asarray(part))
            if getattr(getattr(part, "dtype", None), "kind", "") == "b" and part.ndim:
                if self.is_own(part):
                    raise dynamic_shape_error("indexing with a boolean mask")
                mask = self.inside_mask(part)
                expanded += backend_of(mask).xp.nonzero(mask)
            elif isinstance(part, bool):
                if not part:
                    raise IndexError("False is not taken as an index inside of vmap")
                expanded.append(None)
            elif part is None or part is Ellipsis or isinstance(part, slice):
                expanded.append(part)
            else:
                expanded.append(part if hasattr(part, "strides") else operator.index(part))
        taken = sum(part is not None and part is not Ellipsis for part in expanded)
        dots = [i for i, part in enumerate(expanded) if part is Ellipsis]
        if len(dots) > 1:
            raise IndexError("an index can only have a single ellipsis ('...')")
        if taken > self.array.ndim:
            raise IndexError(
                f"too many indices for array: array is {self.array.ndim}-dimensional, "
                f"but {taken} were indexed"
            )
        at = dots[0] if dots else len(expanded)
        return [*expanded[:at], *[WHOLE] * (self.array.ndim - taken), *expanded[at + 1 :]]

    def inside_mask(self, part: Any) -> Any:
        return part._values[0, ...] if getattr(part, "backend", None) is self.level else part

    # Reading and writing --------------------------------------------------------------

    def get(self) -> BatchedArray:
        """Return the elements at the index."""
        values = self.array._values
        backend = self.level.highest([values, *self.others])
        if backend is not backend_of(values) and backend.level:
            values = backend.lift(values)
        y = values[self.index]
        if self.moves[0]:
            y = backend_of(y).xp.moveaxis(y, *self.moves)
        return self.level.wrap(y)

    def value(self, assigned: Any) -> Any:
        """Return the value to write, in the order of axes of the index."""
        if not hasattr(assigned, "strides"):
            return assigned
        holder = getattr(assigned, "backend", None)
        if holder is not None and holder.level > self.level.level:
            raise in_place_error()
        values = self.level.inside(assigned)
        spare = values.ndim - 1 - self.ndim
        if spare > 0:
            if any(size != 1 for size in values.shape[1 : 1 + spare]):
                raise ValueError(
                    f"could not broadcast an array of shape {assigned.shape} into {self.ndim} axes"
                )
            values = values.reshape((values.shape[0], *values.shape[1 + spare :]))
        else:
            values = values.reshape((values.shape[0], *(1,) * -spare, *values.shape[1:]))
        if self.moves[0]:
            return backend_of(values).xp.moveaxis(values, self.moves[1], self.moves[0])
        return values

    def prepare_write(self, assigned: Any) -> tuple[Any, Any]:
        """Return the memory to write to, and what to write."""
        value, array = self.value(assigned), self.array
        others = [*self.others, value] if hasattr(value, "strides") else self.others
        batched = self.own or (hasattr(assigned, "backend") and assigned._values.shape[0] > 1)
        own_memory = array._values.shape[0] == self.level.size
        if batched and not own_memory:
            array.grow(others)
            if self.own:
                self.index = (self.batch_index(), *self.index[1:])
        elif self.level.highest([array._values, *others]) is not backend_of(array._values):
            array.grow(others)
        return array._values, value

    def set(self, assigned: Any) -> None:
        """Write at the index."""
        memory, value = self.prepare_write(assigned)
        memory[self.index] = value

    def add(self, assigned: Any) -> None:
        """Add at the index, as often as a position occurs."""
        memory, value = self.prepare_write(assigned)
        backend_of(memory).scatter_add(memory, self.index, value)


def is_picking(part: Any) -> bool:
    """Return True if a part of an index picks by position: an integer or an array of them."""
    return part is not None and not isinstance(part, slice)
