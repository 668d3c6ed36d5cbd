"""The array of the meta device: a shape, a dtype and strides, but no elements.

NumPy keeps an array in two pieces: a header (shape, dtype, strides, an address) and the memory. A
`MetaArray` has a true header over the memory of a single element. Views only compute with headers,
so NumPy itself makes them: transposing, slicing and reshaping give the strides of the CPU. Nothing
here ever reads or writes through a header, and nothing else has it.

What is computed gets its shape from a rule (`meta_rules.py`), and its dtype and the order of its
axes from a probe: the same call on arrays with at most two elements per axis.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import MetaTensorError, running_function
from .array_surface import DispatchedArray, Index, unpack_axes
from .numpy import Array

__all__ = [
    "MetaArray", "depends_on_elements", "grow", "index_shape", "like", "new",
    "probe",
]  # fmt: skip


def depends_on_elements(name: str) -> MetaTensorError:
    """Make the error for a result whose shape only the elements can tell."""
    return MetaTensorError(
        running_function((name,)), "the shape of the result depends on the elements"
    )


class Header(np.ndarray):
    """The header of an array: everything about it but its elements, which are not in memory.

    It is seen in debuggers, which must not read it either; and it computes nothing.
    """

    __array_ufunc__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Header(shape={self.shape}, dtype={self.dtype}, strides={self.strides})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def refuse(self, *args: Any, **settings: Any) -> Any:
        """Raise MetaTensorError in place of a method that would read the memory."""
        raise MetaTensorError(None)

    copy = tolist = tobytes = item = astype = __reduce__ = __array__ = __iter__ = refuse
    __copy__ = __deepcopy__ = flatten = take = sort = fill = dump = refuse


class MetaArray(DispatchedArray):
    """An array of the meta device (see the module's docstring).

    Attributes:
        header: the array of NumPy that has the shape, dtype and strides; it is never read.
        base: the array whose memory this one views, or None.
    """

    __slots__ = ("__weakref__", "base", "header")
    __array_priority__ = 500

    header: Header
    base: MetaArray | None
    answer: Callable[..., Any]
    """Answers the call of a function: set by `meta.py`, which knows the rules."""

    def __init__(self, header: np.ndarray, base: MetaArray | None = None) -> None:
        self.header, self.base = header.view(Header), base

    def _answer(
        self, function: Callable[..., Any], arguments: Sequence[Any], settings: dict[str, Any]
    ) -> Any:
        return MetaArray.answer(function, arguments, settings)

    def view_of(self, header: np.ndarray) -> MetaArray:
        """Return a view of the same memory with another header."""
        return MetaArray(header, self if self.base is None else self.base)

    # Attributes -------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """The shape."""
        return self.header.shape

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """The NumPy dtype."""
        return self.header.dtype

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides in bytes."""
        return self.header.strides

    @property
    def flags(self) -> Any:
        """The memory layout flags."""
        return self.header.flags

    @property
    def real(self) -> MetaArray:
        """The real parts, a view."""
        return self.view_of(self.header.real) if self.dtype.kind == "c" else self

    @property
    def imag(self) -> MetaArray:
        """The imaginary parts, a view; of a real array zeros."""
        is_complex = self.dtype.kind == "c"
        return self.view_of(self.header.imag) if is_complex else new(self.shape, self.dtype)

    @real.setter
    def real(self, value: Array) -> None:
        self.real[...] = value

    @imag.setter
    def imag(self, value: Array) -> None:
        self.imag[...] = value

    # Methods ----------------------------------------------------------------------------------

    def reshape(self, *shape: int | Sequence[int], order: str = "C") -> MetaArray:
        """Return the elements in another shape: a view where the strides permit one."""
        sizes = complete_shape(unpack_axes(shape), self.size)
        steps = reshaped_strides(self.shape, self.strides, sizes) if self.size else None
        if steps is None:  # only a copy has this shape
            return new(sizes, self.dtype)
        return self.view_of(header_of(self.header, sizes, steps))

    def transpose(self, *axes: int | Sequence[int] | None) -> MetaArray:
        """Permute the axes."""
        order = None if axes in ((), (None,)) else unpack_axes(axes)
        return self.view_of(self.header.transpose(order))

    def swapaxes(self, axis1: int, axis2: int) -> MetaArray:
        """Swap two axes."""
        return self.view_of(self.header.swapaxes(axis1, axis2))

    def view(self, dtype: Any = None) -> MetaArray:
        """View the same bytes as another dtype."""
        return self.view_of(self.header if dtype is None else self.header.view(dtype))

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True,
        copy: bool = True,
    ) -> MetaArray:  # fmt: skip
        """Convert to another dtype."""
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        return like(self, dtype)

    def copy(self, order: str = "C") -> MetaArray:
        """Return a copy."""
        return like(self) if order == "K" else new(self.shape, self.dtype)

    def __copy__(self) -> MetaArray:
        return like(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> MetaArray:
        return like(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return new, (self.shape, self.dtype, memory_axes(self))

    def __getitem__(self, index: Index) -> MetaArray:
        parts = index if isinstance(index, tuple) else (index,)
        if not any(is_advanced(part) for part in parts):
            is_open = any(part is Ellipsis for part in parts)
            return self.view_of(self.header[parts if is_open else (*parts, Ellipsis)])
        return new(index_shape(self.shape, parts), self.dtype)

    def __setitem__(self, index: Index, value: object) -> None:
        parts = index if isinstance(index, tuple) else (index,)
        if any(is_mask(part) for part in parts):
            return  # how many elements are written depends on the mask
        shape, target = np.shape(getattr(value, "header", value)), self[index].shape
        if np.broadcast_shapes(shape, target) != target and math.prod(shape) != 1:
            raise ValueError(
                f"could not broadcast input array from shape {shape} into shape {target}"
            )

    # Conversions, which need elements ------------------------------------------------------------

    def item(self, *index: Any) -> Any:
        """Refuse: there are no elements. Raises: MetaTensorError."""
        raise MetaTensorError(
            "item", "Tensor.item() cannot be called on meta tensors", {"shape": self.shape}
        )

    def _element(self, conversion: str) -> Any:
        return self.item()

    def __index__(self) -> int:
        return self.item()

    def tolist(self) -> Any:
        """Refuse: there are no elements. Raises: MetaTensorError."""
        raise MetaTensorError("tolist")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise MetaTensorError("numpy")

    def __repr__(self) -> str:
        return f"MetaArray(shape={self.shape}, dtype={self.dtype})"


# Headers ----------------------------------------------------------------------------------


def new(shape: Any, dtype: Any = None, axes: Sequence[int] | None = None) -> MetaArray:
    """Make an array of a shape, without gaps in memory.

    Args:
        axes: the axes in the order of their strides, the largest first; by default row-major.
    """
    sizes = tuple(int(size) for size in (shape if np.iterable(shape) else (shape,)))
    array_dtype = np.dtype(float if dtype is None else dtype)
    strides, step = [0] * len(sizes), array_dtype.itemsize
    for axis in reversed(range(len(sizes)) if axes is None else axes):
        strides[axis] = step
        step *= max(sizes[axis], 1)
    if step > sys.maxsize:
        raise ValueError("array is too big; its size is larger than the maximum possible size")
    return MetaArray(header_of(np.empty(1, array_dtype), sizes, tuple(strides)))


def header_of(memory: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """Return the header of an array that begins where `memory` does, however little that is."""
    if memory.dtype.isbuiltin == 1:
        return np.lib.stride_tricks.as_strided(memory, shape, strides)
    bits = memory.view(f"u{memory.itemsize}")  # NumPy cannot describe a dtype of ml_dtypes
    return np.lib.stride_tricks.as_strided(bits, shape, strides).view(memory.dtype)


def like(array: Any, dtype: Any = None) -> MetaArray:
    """Make an array with the shape of another one, and with its axes in the same order."""
    array_dtype = array.dtype if dtype is None else dtype
    return new(array.shape, array_dtype, memory_axes(array))


def memory_axes(array: Any) -> Sequence[int] | None:
    """Return the axes of an array by their strides, the largest first; None: row-major."""
    if array.flags.c_contiguous:
        return None
    # The sort is stable: axes with equal strides, as after `expand`, stay as they are.
    return sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))


def reshaped_strides(
    shape: Sequence[int], strides: Sequence[int], sizes: Sequence[int]
) -> tuple[int, ...] | None:
    """Return the strides of a view with other sizes, or None where only a copy could have them.

    The axes fall into groups: some old ones and some new ones of the same number of elements. A
    group can be viewed in another way if its old axes lie in memory like one long axis.
    """
    old = [(size, step) for size, step in zip(shape, strides, strict=True) if size != 1]
    result: list[int] = []
    step = old[-1][1] if old else 0
    for size in reversed(sizes):  # from the last axis, which begins a group, to the first
        if size == 1:
            result.append(step)
            continue
        if not old:
            return None
        count, step = old.pop()
        while count % size and old and old[-1][1] == count * step:
            count *= old.pop()[0]
        if count % size:
            return None
        result.append(step)
        step *= size
        if count > size:
            old.append((count // size, step))
    return tuple(reversed(result))


def complete_shape(sizes: Sequence[int], count: int) -> tuple[int, ...]:
    """Return the sizes with the one that is -1 computed. Raises: ValueError: they do not fit."""
    known = math.prod(size for size in sizes if size != -1)
    complete = tuple(count // max(known, 1) if size == -1 else int(size) for size in sizes)
    if math.prod(complete) != count or sum(size == -1 for size in sizes) > 1:
        raise ValueError(f"cannot reshape array of size {count} into shape {tuple(sizes)}")
    return complete


# Indices ----------------------------------------------------------------------------------


def is_advanced(part: Any) -> bool:
    """Return True for a part of an index that copies: an array, a list, a bool."""
    return isinstance(part, (bool, np.bool_, list)) or hasattr(part, "ndim")


def is_mask(part: Any) -> bool:
    """Return True for a part of an index that selects by True and False."""
    return isinstance(part, (bool, np.bool_)) or getattr(part, "dtype", None) == np.bool_


def index_shape(shape: tuple[int, ...], parts: Sequence[Any]) -> tuple[int, ...]:
    """Return the shape of the elements at an index with arrays, by NumPy's rules.

    Raises: MetaTensorError: it has a mask. IndexError: it has too many parts.
    """
    if any(is_mask(part) for part in parts):
        raise depends_on_elements("__getitem__")
    arrays = [np.asarray(part) if isinstance(part, list) else part for part in parts]
    consumed = sum(part is not None and part is not Ellipsis for part in arrays)
    if consumed > len(shape):
        raise IndexError(
            f"too many indices for array: array is {len(shape)}-dimensional, "
            f"but {consumed} were indexed"
        )
    if not any(part is Ellipsis for part in arrays):
        arrays.append(Ellipsis)
    sizes: list[int] = []  # of the axes that are not indexed by arrays
    index_shapes, place, gaps, axis = [], None, 0, 0
    last_was_array = False
    for part in arrays:
        is_array = hasattr(part, "ndim") or (isinstance(part, int) and index_shapes)
        if is_array or isinstance(part, int):
            # Beside arrays an integer counts as an array without axes.
            index_shapes.append(np.shape(getattr(part, "header", part)))
            gaps += not last_was_array
            place = len(sizes) if place is None else place
            axis += 1
        elif part is None:
            sizes.append(1)
        elif part is Ellipsis:
            count = len(shape) - consumed
            sizes += shape[axis : axis + count]
            axis += count
        else:
            sizes.append(len(range(*part.indices(shape[axis]))))
            axis += 1
        last_was_array = is_array or isinstance(part, int)
    at = place if gaps == 1 and place is not None else 0
    return (*sizes[:at], *np.broadcast_shapes(*index_shapes), *sizes[at:])


# Probes -----------------------------------------------------------------------------------


def probe(value: Any, is_full: bool = False) -> Any:
    """Return a small array with the dtype, the dimensions and the order of the axes of this one.

    Args:
        is_full: give each axis two elements, even where the array has none or one.
    """
    if not isinstance(value, MetaArray):
        if type(value) in (tuple, list):
            return type(value)(probe(item, is_full) for item in value)
        return value
    sizes = [2 if is_full else min(size, 2) for size in value.shape]
    axes = memory_axes(value)
    if axes is None:
        return np.ones(sizes, value.dtype)
    inverse = [axes.index(axis) for axis in range(len(axes))]
    return np.ones([sizes[axis] for axis in axes], value.dtype).transpose(inverse)


def grow(result: Any, shape: tuple[int, ...]) -> Any:
    """Make the array that a probe's result stands for: of this shape, with its axes in its order.

    Raises: ValueError: the probe has another number of axes.
    """
    if isinstance(result, tuple):
        return tuple(grow(part, shape) for part in result)
    result = np.asarray(result)
    is_ordered = result.ndim == len(shape) and not result.flags.c_contiguous
    return new(shape, result.dtype, memory_axes(result) if is_ordered else None)
