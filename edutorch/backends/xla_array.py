"""The arrays that XLA's tracer computes with: they have NumPy's surface, and can be written.

JAX's arrays are immutable, and definitions write into arrays that they have just made, also through
views (`y[:, 0] += x`). So an `XlaArray` holds a JAX array that a write replaces, and a view knows
how it is read from the array that it shows, and how a write into it changes that array.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import EdutorchError
from .array_surface import ArraySurface, Index

if TYPE_CHECKING:
    from .xla import XlaBackend

__all__ = ["XlaArray", "XlaError", "XlaNumber", "unwrap"]


class XlaError(EdutorchError, NotImplementedError):
    """A graph does something that XLA does not support."""


def unknown_value(conversion: str) -> XlaError:
    """Return the error for a definition that asks for a value while it is traced."""
    return XlaError(
        "compile",
        f"its definition reads a value (`{conversion}`), and XLA computes values only later",
    )


class View(NamedTuple):
    """What a view shows: `read(base)` are its elements, `write(base, values)` a changed base."""

    base: XlaArray
    read: Callable[[Any], Any]
    write: Callable[[Any, Any], Any] | None  # None: NumPy's is read-only, or writes are not done


class Flags(NamedTuple):
    """The memory layout that definitions ask for: XLA chooses its own, and shows rows."""

    c_contiguous: bool = True
    f_contiguous: bool = False
    owndata: bool = True
    writeable: bool = True


class XlaArray(ArraySurface):
    """An array of JAX with NumPy's surface (see the module's docstring)."""

    __slots__ = ("__weakref__", "_seen", "_values", "_view", "backend")
    __array_ufunc__ = None  # NumPy's operators defer to ours

    def __init__(self, values: Any, backend: XlaBackend, view: View | None = None) -> None:
        self._values, self.backend, self._view = values, backend, view
        self._seen = None if view is None else view.base.values  # what it was read from

    @property
    def values(self) -> Any:
        """The array of JAX with the elements as they are now."""
        view = self._view
        if view is not None:
            now = view.base.values
            if now is not self._seen:  # somebody has written into the memory that it shows
                self._values, self._seen = view.read(now), now
        return self._values

    def store(self, values: Any) -> None:
        """Replace all elements.

        Raises: XlaError: it is a view that cannot be written.
        """
        if self._view is None:
            self._values = values
            return
        base, _, write = self._view
        if write is None:
            raise XlaError("compile", "its definition writes into a view that XLA cannot write")
        base.store(write(base.values, values))

    def view_by(
        self, read: Callable[[Any], Any], write: Callable[[Any, Any], Any] | None
    ) -> XlaArray:
        """Return a view of this array."""
        return XlaArray(read(self.values), self.backend, View(self, read, write))

    def _call(self, name: str, arguments: Sequence[Any], settings: dict[str, Any]) -> Any:
        return operator.attrgetter(name)(self.backend.xp)(*arguments, **settings)

    def _operate(self, name: str, operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        if not all(hasattr(x, "dtype") or isinstance(x, NUMBERS) for x in operands):
            return NotImplemented
        return self._call(name, operands, settings)

    # Attributes -----------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """The shape."""
        return tuple(self._values.shape)

    @property
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        """The NumPy dtype."""
        return np.dtype(self._values.dtype)

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides in bytes of a row-major array: XLA tells no others."""
        sizes = self.shape
        return tuple(self.itemsize * math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))

    @property
    def flags(self) -> Flags:
        """The memory layout flags."""
        return Flags(owndata=self._view is None)

    @property
    def base(self) -> XlaArray | None:
        """The array that it is a view of, or None."""
        return None if self._view is None else self._view.base

    # Methods -----------------------------------------------------------

    def astype(self, dtype: np.dtype | type, copy: bool = True, **settings: Any) -> XlaArray:
        """Return the elements converted to another dtype."""
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        return XlaArray(self.values.astype(np.dtype(dtype)), self.backend)

    def copy(self, order: str = "C") -> XlaArray:
        """Return a copy, which is free: only writes make new arrays."""
        return XlaArray(self.values, self.backend)

    def view(self, dtype: np.dtype | type) -> XlaArray:
        """Return the same bits as another dtype."""
        before, after = self.dtype, np.dtype(dtype)
        if after == before:
            return self.view_by(lambda base: base, lambda _, values: values)
        return self.view_by(
            lambda base: base.view(after), lambda _, values: values.view(before)
        )  # fmt: skip

    def reshape(self, *shape: int | Sequence[int], order: str = "C") -> XlaArray:
        """Return a view of the elements in another shape.

        Raises: XlaError: in another order than row by row.
        """
        if order not in ("C", "A"):
            raise XlaError("compile", f"its definition reshapes an array in the order {order!r}")
        sizes = shape[0] if len(shape) == 1 and hasattr(shape[0], "__len__") else shape
        old = self.shape
        new = tuple(map(operator.index, sizes))  # type: ignore[arg-type]
        return self.view_by(lambda base: base.reshape(new), lambda _, values: values.reshape(old))

    def transpose(self, *axes: int | Sequence[int] | None) -> XlaArray:
        """Return a view with the axes in another order."""
        order = axes[0] if len(axes) == 1 and hasattr(axes[0], "__len__") else axes
        if order in ((), (None,)):
            order = tuple(range(self.ndim))[::-1]
        back = np.argsort([axis % self.ndim for axis in order])  # type: ignore[operator]
        return self.view_by(
            lambda base: base.transpose(tuple(order)), lambda _, values: values.transpose(*back)
        )

    def swapaxes(self, axis1: int, axis2: int) -> XlaArray:
        """Return a view with two axes swapped."""
        order = list(range(self.ndim))
        order[axis1], order[axis2] = order[axis2], order[axis1]
        return self.transpose(order)

    def squeeze(self, axis: int | tuple[int, ...] | None = None) -> XlaArray:
        """Return a view without axes of size 1."""
        return self.reshape(self.values.squeeze(axis).shape)

    def ravel(self, order: str = "C") -> XlaArray:
        """Return a view with one axis."""
        return self.reshape(-1, order=order)

    def __getitem__(self, index: Index) -> XlaArray:
        plain = unwrap(index)
        parts = plain if isinstance(plain, tuple) else (plain,)
        if any(is_picking(part) for part in parts):  # a copy, as in NumPy
            return XlaArray(self.values[plain], self.backend)
        return self.view_by(
            lambda base: base[plain], lambda base, values: base.at[plain].set(values)
        )

    def __setitem__(self, index: Index, value: object) -> None:
        self.store(written(self.values, unwrap(index), self._as_values(value)))

    def _as_values(self, value: object) -> Any:
        """Return what is to be written, in the array's own dtype."""
        values = unwrap(value, self.dtype)
        return values.astype(self.dtype) if hasattr(values, "astype") else values

    # Conversions to Python numbers ---------------------------------------------------------

    def _element(self, conversion: str) -> Any:
        raise unknown_value(conversion)

    def __index__(self) -> int:
        raise unknown_value("int")

    def item(self, *index: int) -> Any:
        """Raise XlaError."""
        raise unknown_value("item")

    def tolist(self) -> Any:
        """Raise XlaError."""
        raise unknown_value("tolist")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise unknown_value("numpy")

    def __repr__(self) -> str:
        return f"XlaArray({self.values!r})"


def is_picking(part: object) -> bool:
    """Return True if a part of an index makes a copy: a mask, or an array of positions."""
    return isinstance(part, bool | list) or (
        hasattr(part, "dtype") and not isinstance(part, np.integer)
    )


def written(values: Any, index: Any, new: Any) -> Any:
    """Return an array of JAX with `new` written at an index.

    Raises: XlaError: a mask picks as many elements as it has True, which XLA cannot know.
    """
    parts = index if isinstance(index, tuple) else (index,)
    masks = [part for part in parts if getattr(getattr(part, "dtype", None), "kind", "") == "b"]
    if not masks:
        return values.at[index].set(new)
    if getattr(new, "ndim", 0) or len([part for part in parts if part is not Ellipsis]) > 1:
        raise XlaError("compile", "its definition writes different values where a mask is True")
    from jax import numpy as jnp

    mask = masks[0].reshape(*masks[0].shape, *(1,) * (values.ndim - masks[0].ndim))
    return jnp.where(mask, jnp.asarray(new, values.dtype), values)


class XlaNumber:
    """A Python number that is only known in each call, such as a learning rate.

    Next to an array it takes the array's dtype, as a Python number does.
    """

    __slots__ = ("value",)
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any) -> None:
        self.value = value

    def beside(self, dtype: np.dtype | None) -> Any:
        """Return it as an array of JAX without axes, in the dtype it has beside another array."""
        own = np.dtype(self.value.dtype)
        if dtype is None or (own.kind == "f" and dtype.kind in "biu"):
            return self.value
        return self.value.astype(dtype)

    def __bool__(self) -> bool:
        raise unknown_value("bool")

    def __float__(self) -> float:
        raise unknown_value("float")

    def __eq__(self, other: object) -> bool:
        raise unknown_value("bool")

    def __repr__(self) -> str:
        return f"XlaNumber({self.value!r})"


def number_method(function: Callable[..., Any], is_reflected: bool) -> Callable[..., Any]:
    """Return the method of an operator between numbers."""

    def method(self: XlaNumber, *others: Any) -> Any:
        if not all(isinstance(other, XlaNumber | int | float) for other in others):
            return NotImplemented
        values = [other.value if isinstance(other, XlaNumber) else other for other in others]
        operands = (*values, self.value) if is_reflected else (self.value, *values)
        return XlaNumber(function(*operands))

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "pos", "abs"):
    _function = getattr(operator, _name)
    setattr(XlaNumber, f"__{_name}__", number_method(_function, is_reflected=False))
    if _name not in ("neg", "pos", "abs"):
        setattr(XlaNumber, f"__r{_name}__", number_method(_function, is_reflected=True))

NUMBERS = (XlaNumber, int, float, complex)


def unwrap(value: Any, dtype: np.dtype | None = None) -> Any:
    """Replace arrays and numbers by JAX's, at any depth; numbers get their dtype beside `dtype`."""
    if isinstance(value, XlaArray):
        return value.values
    if isinstance(value, XlaNumber):
        return value.beside(dtype)
    if isinstance(value, tuple):
        parts = [unwrap(part, dtype) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [unwrap(part, dtype) for part in value]
    if isinstance(value, dict):
        return {key: unwrap(part, dtype) for key, part in value.items()}
    if isinstance(value, slice):
        return slice(unwrap(value.start), unwrap(value.stop), unwrap(value.step))
    return value


def dtype_beside(values: Any) -> np.dtype | None:
    """Return the dtype that the arrays among operands have together; None: there is none."""
    types = [value.dtype for value in values if hasattr(value, "dtype")]
    return np.result_type(*types) if types else None
