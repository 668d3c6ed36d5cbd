"""The batched array, which looks like one example of a batch (see `batching.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import of as backend_of
from .array_surface import ArraySurface
from .batching_index import IndexPlan
from .numpy import Array
from .vmap_errors import branching_error, in_place_error, unsupported_error

if TYPE_CHECKING:
    from .batching import BatchedBackend


class Flags:
    """The memory layout of one example."""

    def __init__(self, array: BatchedArray) -> None:
        inside = array._values.flags
        self.owndata, self.writeable = inside.owndata, getattr(inside, "writeable", True)
        self.c_contiguous = is_dense(array, reversed(range(array.ndim)))
        self.f_contiguous = is_dense(array, range(array.ndim))


def is_dense(array: BatchedArray, order: Any) -> bool:
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

    def astype(self, dtype: Any, copy: bool = True, **settings: Any) -> BatchedArray:
        """The elements converted to another dtype."""
        return self.backend.wrap(self._values.astype(dtype, copy=copy, **settings))

    def copy(self, order: str = "C") -> BatchedArray:
        """A copy of the elements."""
        return self.backend.wrap(self._values.copy())

    def view(self, dtype: Any) -> BatchedArray:
        """The same bytes as another dtype."""
        values = self._values
        if self.ndim or values.dtype.itemsize == np.dtype(dtype).itemsize:
            return self.backend.wrap(values.view(dtype))
        return self.backend.wrap(values[:, None].view(dtype))

    def __getitem__(self, index: Any) -> BatchedArray:
        return IndexPlan(self, index).get()

    def __setitem__(self, index: Any, value: Any) -> None:
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
