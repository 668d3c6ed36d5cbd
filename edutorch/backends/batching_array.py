"""The batched array, which looks like one example of a batch (see `batching.py`)."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import of as backend_of
from .array_surface import ArraySurface, Index
from .batching_rules import branching_error, dynamic_shape_error, in_place_error, unsupported_error
from .numpy import Array

if TYPE_CHECKING:
    from .batching import BatchedBackend


class Flags:
    """The memory layout of one example."""

    def __init__(self, array: BatchedArray) -> None:
        inside = array._values.flags
        self.owndata, self.writeable = inside.owndata, getattr(inside, "writeable", True)
        self.c_contiguous = is_dense(array, reversed(range(array.ndim)))
        self.f_contiguous = is_dense(array, range(array.ndim))


def is_dense(array: BatchedArray, order: Iterable[int]) -> bool:
    """Return True if the axes, from the fastest on, are stored without gaps."""
    step, shape, strides = array.dtype.itemsize, array.shape, array.strides
    for axis in order:
        if shape[axis] != 1 and strides[axis] != step:
            return not array.size
        step *= shape[axis]
    return True


class BatchedArray(ArraySurface):
    """An array that looks like one example of a batch; see `batching.py`."""

    __slots__ = ("__weakref__", "_values", "backend")
    __array_ufunc__ = None  # NumPy's operators defer to ours

    _values: Any  # axis 0 is hidden: as long as the batch, or 1 if all examples share the rest
    backend: BatchedBackend

    def __init__(self, values: Array, backend: BatchedBackend) -> None:
        self._values, self.backend = values, backend

    def _call(self, name: str, arguments: Sequence[Any], settings: dict[str, Any]) -> Any:
        return getattr(self.backend.xp, name)(*arguments, **settings)

    def _operate(self, name: str, operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        if not all(hasattr(x, "strides") or isinstance(x, int | float | complex) for x in operands):
            return NotImplemented
        levels = [x.backend for x in operands if isinstance(x, BatchedArray)]
        # The newest level computes: the arrays of the others are plain arrays to it.
        y = getattr(max(levels, key=lambda level: level.level).xp, name)(*operands)
        if not settings:
            return y
        if not np.can_cast(y.dtype, self.dtype, "same_kind"):
            raise TypeError(f"ufunc {name}: cannot write {y.dtype} into {self.dtype}")
        self[...] = y
        return self

    # Attributes -----------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """The shape of one example."""
        return self._values.shape[1:]

    @property
    def ndim(self) -> int:
        """The axes of one example."""
        return self._values.ndim - 1

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self._values.dtype

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides within one example."""
        return self._values.strides[1:]

    @property
    def flags(self) -> Flags:
        """The memory layout of one example."""
        return Flags(self)

    @property
    def base(self) -> Array:
        """The array that owns the memory."""
        return self._values.base

    @property
    def all_examples(self) -> Any:
        """The device's array, with the axes of all levels in front, for display."""
        return getattr(self._values, "all_examples", self._values)

    # Methods -----------------------------------------------------------

    def astype(self, dtype: np.dtype | type, copy: bool = True, **settings: Any) -> BatchedArray:
        """The elements converted to another dtype."""
        return self.backend.wrap(self._values.astype(dtype, copy=copy, **settings))

    def copy(self, order: str = "C") -> BatchedArray:
        """A copy of the elements."""
        return self.backend.wrap(self._values.copy())

    def view(self, dtype: np.dtype | type) -> BatchedArray:
        """The same bytes as another dtype."""
        values = self._values
        if self.ndim or values.dtype.itemsize == np.dtype(dtype).itemsize:
            return self.backend.wrap(values.view(dtype))
        return self.backend.wrap(values[:, None].view(dtype))

    def __getitem__(self, index: Index) -> BatchedArray:
        return IndexPlan(self, index).get()

    def __setitem__(self, index: Index, value: Array) -> None:
        alone = isinstance(index, tuple) and [x for x in index[1:] if x is not Ellipsis] == []
        mask = index[0] if alone and index else index
        if isinstance(mask, BatchedArray) and mask.dtype.kind == "b" and not np.ndim(value):
            mask = mask.reshape(*mask.shape, *(1,) * (self.ndim - mask.ndim))
            index, value = ..., self.backend.xp.where(mask, value, self).astype(self.dtype)
        IndexPlan(self, index).set(value)

    def grow(self, others: Sequence[Any]) -> None:
        """Allocate memory for each example (and for the levels of `others`) before a write.

        Raises: NotBatchableError: it is a view of another array.
        """
        if self._values.base is not None:
            raise in_place_error()
        inside = self.backend.highest([self._values, *others])
        values = self._values
        if values.shape[0] != self.backend.size:
            values = self.backend.full(values).copy()
        if backend_of(values) is not inside:
            values = inside.wrap(inside.full(values[None]).copy())
        self._values = values

    # Conversions to Python numbers ---------------------------------------------------------

    def common_value(self) -> Any:
        """Return the element that all examples have in common.

        Raises: NotBatchableError: they differ.
        """
        if self.size != 1:
            raise ValueError("the truth of an array with several numbers is ambiguous")
        values = self._values.reshape(self._values.shape[0])
        if values.shape[0] != 1 and not bool((values == values[0]).all()):
            raise branching_error()
        first = values[0]
        return first.common_value() if isinstance(first, BatchedArray) else first.item()

    def _element(self, conversion: str) -> Any:
        return self.common_value()

    def __index__(self) -> int:
        return int(self.common_value())

    def truth(self, asking: str) -> bool:
        """Return its truth value for code in the module `asking`.

        A user's `if` would take one branch for all examples, and is refused. Our own argument
        checks are allowed, as long as all examples agree.
        """
        if asking.startswith("edutorch."):
            return bool(self)
        raise branching_error()

    def item(self) -> Any:
        """Raise VmapError."""
        raise unsupported_error("item")

    def tolist(self) -> Any:
        """Raise VmapError."""
        raise unsupported_error("tolist")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise in_place_error()

    def __repr__(self) -> str:
        return f"BatchedArray(lvl={self.backend.depth}, shape={self.shape}, {self._values!r})"


WHOLE = slice(None)


class IndexPlan:
    """An index translated for the array inside, for reading and writing.

    `x[index]` refers to one example; the array inside has the hidden axis in front. If all examples
    use the same positions, one more `:` in front is enough. If the index itself is batched, each
    example has its own positions: the hidden axis gets an index as well, 0 … B-1, that broadcasts
    with the others.

    NumPy keeps the axes of adjacent index arrays in place, and moves those of others to the front.
    One more index array can change that, so axes are moved afterwards.

    `index` is the index of that array; `ndim` the number of axes of one example's result;
    `moves` the axes of the result that have to be moved, and their destinations.
    """

    def __init__(self, array: BatchedArray, index: Index) -> None:
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

    def is_own(self, part: Array) -> bool:
        return getattr(part, "backend", None) is self.level and part._values.shape[0] > 1

    def inside(self, part: Array) -> Any:
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

    def inside_mask(self, part: Array) -> Any:
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

    def value(self, assigned: Array) -> Any:
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

    def prepare_write(self, assigned: Array) -> tuple[Any, Any]:
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

    def set(self, assigned: Array) -> None:
        """Write at the index."""
        memory, value = self.prepare_write(assigned)
        memory[self.index] = value

    def add(self, assigned: Array) -> None:
        """Add at the index, as often as a position occurs."""
        memory, value = self.prepare_write(assigned)
        backend_of(memory).scatter_add(memory, self.index, value)


def is_picking(part: object) -> bool:
    """Return True if a part of an index picks by position: an integer or an array of them."""
    return part is not None and not isinstance(part, slice)
