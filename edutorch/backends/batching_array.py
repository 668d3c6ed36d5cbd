"""The batched array, which looks like one example of a batch (see `batching.py`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import of as backend_of
from .batching_index import IndexPlan
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


class BatchedArray:
    """An array that looks like one example of a batch; see `batching.py`."""

    __slots__ = ("__weakref__", "_values", "backend")
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None  # NumPy's operators defer to ours

    _values: Any  # axis 0 is hidden: as long as the batch, or 1 if all examples share the rest
    backend: BatchedBackend

    def __init__(self, values: Any, backend: BatchedBackend) -> None:
        self._values, self.backend = values, backend

    # Attributes -----------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return self._values.shape[1:]

    @property
    def ndim(self) -> int:
        """The axes of one example."""
        return self._values.ndim - 1

    @property
    def size(self) -> int:
        """The number of elements of one example."""
        return math.prod(self._values.shape[1:])

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self._values.dtype

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self._values.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of one example."""
        return self.size * self.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides within one example."""
        return self._values.strides[1:]

    @property
    def flags(self) -> Flags:
        """The memory layout of one example."""
        return Flags(self)

    @property
    def base(self) -> Any:
        """The array that owns the memory."""
        return self._values.base

    @property
    def all_examples(self) -> Any:
        """The device's array, with the axes of all levels in front, for display."""
        return getattr(self._values, "all_examples", self._values)

    @property
    def T(self) -> BatchedArray:
        """The axes of each example in the opposite order."""
        return self.transpose()

    @property
    def real(self) -> BatchedArray:
        """The real parts."""
        return self.backend.wrap(self._values.real)

    @property
    def imag(self) -> BatchedArray:
        """The imaginary parts."""
        return self.backend.wrap(self._values.imag)

    # Methods -----------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name not in METHODS:
            raise AttributeError(f"batched arrays have no {name!r}")
        function = getattr(self.backend.xp, METHODS[name])
        return lambda *args, **settings: function(self, *args, **settings)

    def reshape(self, *shape: Any) -> BatchedArray:
        """Each example in another shape."""
        return self.backend.xp.reshape(self, shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: Any) -> BatchedArray:
        """The axes of each example in another order."""
        if len(axes) == 1 and axes[0] is not None and not isinstance(axes[0], int):
            axes = tuple(axes[0])
        return self.backend.xp.transpose(self, None if axes in ((), (None,)) else axes)

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

    def fill(self, value: Any) -> None:
        """Set all elements to one value."""
        self[...] = value

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

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[BatchedArray]:
        return (self[index] for index in range(len(self)))

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

    def __bool__(self) -> bool:
        return bool(self.common_value())

    def __int__(self) -> int:
        return int(self.common_value())

    def __float__(self) -> float:
        return float(self.common_value())

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


METHODS = {
    name: name
    for name in (
        "all", "any", "argmax", "argmin", "argsort", "clip", "conj", "cumprod", "cumsum",
        "diagonal", "dot", "max", "mean", "min", "nonzero", "prod", "ravel", "repeat",
        "searchsorted", "squeeze", "std", "sum", "swapaxes", "take", "trace", "var",
    )
} | {"round": "around", "flatten": "ravel", "conjugate": "conj"}  # fmt: skip
"""Methods of arrays, and the function of `xp` behind each."""


# Operators ------------------------------------------------------------------------------


def _add_operators() -> None:
    from .strict_array import _BINARY, _COMPARING, _UNARY

    def apply(ufunc: str, first: Any, second: Any) -> Any:
        arrays = [operand for operand in (first, second) if hasattr(operand, "strides")]
        if any(not hasattr(operand, "strides") and not isinstance(operand, (int, float, complex))
               for operand in (first, second)):  # fmt: skip
            return NotImplemented
        backends = [array.backend for array in arrays if isinstance(array, BatchedArray)]
        highest = max(backends, key=lambda backend: backend.level)
        return getattr(highest.xp, ufunc)(first, second)

    def forwards(ufunc: str) -> Callable[..., Any]:
        return lambda self, other: apply(ufunc, self, other)

    def backwards(ufunc: str) -> Callable[..., Any]:
        return lambda self, other: apply(ufunc, other, self)

    def in_place(ufunc: str) -> Callable[..., Any]:
        def write(self: BatchedArray, other: Any) -> BatchedArray:
            y = apply(ufunc, self, other)
            if not np.can_cast(y.dtype, self.dtype, "same_kind"):
                raise TypeError(f"ufunc {ufunc}: cannot write {y.dtype} into {self.dtype}")
            self[...] = y
            return self

        return write

    def alone(ufunc: str) -> Callable[..., Any]:
        return lambda self: getattr(self.backend.xp, ufunc)(self)

    for name, ufunc in (_BINARY | _COMPARING).items():
        setattr(BatchedArray, f"__{name}__", forwards(ufunc))
    for name, ufunc in _BINARY.items():
        setattr(BatchedArray, f"__r{name}__", backwards(ufunc))
        setattr(BatchedArray, f"__i{name}__", in_place(ufunc))
    for name, ufunc in _UNARY.items():
        setattr(BatchedArray, f"__{name}__", alone(ufunc))


_add_operators()
