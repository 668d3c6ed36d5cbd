"""The surface of NumPy's arrays, defined once for the classes that imitate them.

Definitions of ops and derivative rules are written for arrays. Several classes look like one: the
arrays that record a graph (`fx/traced_array.py`), those that stand for one example of a batch
(`batching_array.py`), those of the strict device (`strict_array.py`), and symbols without values
(`compilation/symbols.py`). All of them have the same operators, attributes and methods, and each
of these is the call of a function of NumPy:

    x + y    is   add(x, y)         x.sum(axis=0)    is   sum(x, axis=0)
    x += y   is   add(x, y, out=x)  x.T              is   transpose(x, (n - 1, …, 0))

So a class states only how it answers such a call (`_call`), and what it does differently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import numpy as np

from .numpy import Array, Backend

__all__ = ["METHODS", "ArraySurface", "DispatchedArray", "Index", "NamespaceSurface", "unpack_axes"]

Index = Annotated[Any, "Index"]
"""An index of an array: integers, slices, arrays of them, or a tuple of these."""

METHODS = {
    name: name
    for name in (
        "all", "any", "argmax", "argmin", "argsort", "clip", "conj", "cumprod", "cumsum",
        "diagonal", "dot", "max", "mean", "min", "nonzero", "prod", "ravel", "repeat",
        "searchsorted", "squeeze", "std", "sum", "swapaxes", "take", "trace", "var",
    )
} | {"round": "around", "flatten": "ravel", "conjugate": "conj"}  # fmt: skip
"""Methods of arrays, and the function of NumPy behind each."""


def infix(function: str, is_reflected: bool = False) -> Callable[..., Any]:
    """Return the method of an operator such as `x + y`, with NumPy's function for it.

    Args:
        is_reflected: it is that of `y + x`, which Python calls if `y` does not know `x`.
    """

    def operator(self: ArraySurface, other: object) -> Any:
        if not isinstance(other, self._operands):
            return NotImplemented
        return self._operate(function, (other, self) if is_reflected else (self, other), {})

    return operator


def infix_forms(function: str) -> tuple[Callable[..., Any], ...]:
    """Return the methods of `x + y`, of `y + x` and of `x += y`."""

    def in_place(self: ArraySurface, other: object) -> Any:
        return self._operate(function, (self, other), {"out": self})

    return infix(function), infix(function, is_reflected=True), in_place


def prefix(function: str) -> Callable[..., Any]:
    """Return the method of an operator such as `-x`."""
    return lambda self: self._operate(function, (self,), {})


class ArraySurface:
    """The operators, attributes and methods of a NumPy array, for a class that imitates one.

    A derived class has `shape` and `dtype`, answers functions (`_call`), and perhaps operators in
    another way (`_operate`), and knows its only element (`_element`), if it can tell it.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # == compares elements

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    _operands: tuple[type, ...] = (object,)
    """The other operands that operators take; Python asks the operand itself about any other."""

    def _call(self, name: str, arguments: Sequence[Any], settings: dict[str, Any]) -> Any:
        """Answer the call of the function of NumPy with this name."""
        raise NotImplementedError

    def _operate(self, name: str, operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        """Answer an operator; `settings` may have `out`, which is this array."""
        return self._call(name, operands, settings)

    def _element(self, conversion: str) -> Any:
        """Return the only element for a conversion: to "bool", "int", "float" or "complex"."""
        raise NotImplementedError

    # Operators ------------------------------------------------------------------------------

    __add__, __radd__, __iadd__ = infix_forms("add")
    __sub__, __rsub__, __isub__ = infix_forms("subtract")
    __mul__, __rmul__, __imul__ = infix_forms("multiply")
    __truediv__, __rtruediv__, __itruediv__ = infix_forms("true_divide")
    __floordiv__, __rfloordiv__, __ifloordiv__ = infix_forms("floor_divide")
    __mod__, __rmod__, __imod__ = infix_forms("remainder")
    __pow__, __rpow__, __ipow__ = infix_forms("power")
    __matmul__, __rmatmul__, __imatmul__ = infix_forms("matmul")
    __and__, __rand__, __iand__ = infix_forms("bitwise_and")
    __or__, __ror__, __ior__ = infix_forms("bitwise_or")
    __xor__, __rxor__, __ixor__ = infix_forms("bitwise_xor")
    __lshift__, __rlshift__, __ilshift__ = infix_forms("left_shift")
    __rshift__, __rrshift__, __irshift__ = infix_forms("right_shift")
    __lt__, __le__ = infix("less"), infix("less_equal")
    __gt__, __ge__ = infix("greater"), infix("greater_equal")
    __eq__, __ne__ = infix("equal"), infix("not_equal")
    __neg__, __pos__ = prefix("negative"), prefix("positive")
    __abs__, __invert__ = prefix("absolute"), prefix("invert")

    # Attributes -----------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def T(self) -> Array:
        """The axes in the opposite order."""
        return self.transpose()

    @property
    def real(self) -> Array:
        """The real parts."""
        return self._call("real", (self,), {})

    @property
    def imag(self) -> Array:
        """The imaginary parts."""
        return self._call("imag", (self,), {})

    # Methods ----------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        function = METHODS.get(name)
        if function is None:
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        return lambda *args, **settings: self._call(function, (self, *args), settings)

    def reshape(self, *shape: int | Sequence[int], order: str = "C") -> Array:
        """Return the elements in another shape."""
        settings = {} if order == "C" else {"order": order}
        return self._call("reshape", (self, unpack_axes(shape)), settings)

    def transpose(self, *axes: int | Sequence[int] | None) -> Array:
        """Return the axes in another order; without one, in the opposite order."""
        order = None if axes in ((), (None,)) else unpack_axes(axes)
        return self._call("transpose", (self, order), {})

    def fill(self, value: object) -> None:
        """Set all elements to one value."""
        self[...] = value

    def __setitem__(self, index: Index, value: object) -> None:
        raise TypeError(f"{type(self).__name__} cannot be written")

    def __getitem__(self, index: Index) -> Array:
        raise NotImplementedError

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        return (self[index] for index in range(len(self)))

    # Conversion to Python numbers ---------------------------------------------------------------

    def truth(self, asking: str) -> bool:
        """Return the truth value for an `if` in the module `asking`."""
        return bool(self)

    def __bool__(self) -> bool:
        return bool(self._element("bool"))

    def __int__(self) -> int:
        return int(self._element("int"))

    def __float__(self) -> float:
        return float(self._element("float"))

    def __complex__(self) -> complex:
        return complex(self._element("complex"))


def unpack_axes(axes: Sequence[Any]) -> tuple[int, ...]:
    """Return the axes or sizes of `x.transpose(1, 0)`, which are those of `x.transpose((1, 0))`."""
    return tuple(axes[0] if len(axes) == 1 and hasattr(axes[0], "__len__") else axes)


class DispatchedArray(ArraySurface):
    """An imitation that answers NumPy's own functions as well, such as `np.exp(x)`.

    NumPy asks its arguments first whether they want to answer, by two protocols: one for ufuncs,
    one for all other functions. Here both end in `_answer`.
    """

    __slots__ = ()

    def _answer(
        self, function: Callable[..., Any], arguments: Sequence[Any], settings: dict[str, Any]
    ) -> Any:
        """Answer the call of a function of NumPy, or of a method of a ufunc such as `reduce`."""
        raise NotImplementedError

    def _call(self, name: str, arguments: Sequence[Any], settings: dict[str, Any]) -> Any:
        return self._answer(getattr(np, name), arguments, settings)

    def _operate(self, name: str, operands: Sequence[Any], settings: dict[str, Any]) -> Any:
        return self._answer(getattr(np, name), operands, settings)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **settings: object
    ) -> Any:
        function = ufunc if method == "__call__" else getattr(ufunc, method)
        return self._answer(function, inputs, settings)

    def __array_function__(
        self, function: Callable[..., Any], types: object, args: Sequence[Any],
        settings: dict[str, Any],
    ) -> Any:  # fmt: skip
        return self._answer(function, args, settings)


class NamespaceSurface:
    """An imitation of the module `numpy`, or of one of its submodules: the `xp` of definitions.

    Members are made at their first use (`_member`), because NumPy has 600 and a program uses few.

    Args:
        owner: the backend whose arrays the functions take.
        prefix: "linalg." or "fft." for a submodule.
    """

    _owner: Any

    def __init__(self, owner: Backend | None = None, prefix: str = "") -> None:
        self._owner, self._prefix = owner, prefix
        if not prefix:
            self.linalg, self.fft = type(self)(owner, "linalg."), type(self)(owner, "fft.")

    def _member(self, name: str) -> Any:
        """Make the member with this name, such as "exp" or "linalg.inv"."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        member = self._member(self._prefix + name)
        setattr(self, name, member)
        return member
