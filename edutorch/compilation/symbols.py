"""What stands for arrays and numbers when a definition is taken apart (`symbolic_eval.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .values import Value, steps_of

__all__ = ["FLOATS", "NUMBERS", "Kept", "NotPlainError", "Number", "Symbol", "view_of"]

FLOATS = (np.dtype("float32"), np.dtype("float64"))
NUMBERS = (*FLOATS, np.dtype("bool"), np.dtype("int64"))
"""The types that kernels compute with."""

Kept = Callable[..., Value]
"""Notes a value of the program (the same one again for the same operands)."""


class NotPlainError(TypeError):
    """A definition does something that no kernel can be generated from."""


class Number:
    """Stands for a Python number that is known in each call only."""

    __slots__ = ("keep", "value")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Value, keep: Kept) -> None:
        self.value, self.keep = value, keep

    def __bool__(self) -> bool:
        raise NotPlainError("its definition looks at the numbers")

    __float__ = __int__ = __index__ = __iter__ = __bool__  # type: ignore[assignment]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        if method != "__call__" or settings:
            raise NotPlainError(f"np.{ufunc.__name__}.{method} has no place in a kernel")
        return numpy_lowering.element(self.keep, ufunc, inputs)


class Symbol(Number):
    """Stands for an array whose shape and type are known, and its numbers not."""

    __slots__ = ()

    shape = property(lambda self: self.value.shape)
    dtype = property(lambda self: self.value.dtype)
    ndim = property(lambda self: len(self.value.shape))
    size = property(lambda self: self.value.size)
    itemsize = property(lambda self: self.value.dtype.itemsize)
    real = property(lambda self: self)
    T = property(lambda self: self.transpose())

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise NotPlainError("its definition needs the array itself")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        out = settings.pop("out", None)
        if method == "reduce" and ufunc in (np.add, np.maximum, np.minimum):
            name = {np.add: "sum", np.maximum: "max", np.minimum: "min"}[ufunc]
            result = numpy_lowering.reduced(self, name, *inputs[1:], **settings)
        elif method == "__call__" and ufunc is np.matmul and not settings:
            result = numpy_lowering.product(self, *inputs)
        elif method == "__call__" and not settings:
            result = numpy_lowering.element(self.keep, ufunc, inputs)
        else:
            raise NotPlainError(f"np.{ufunc.__name__}.{method} has no place in a kernel")
        if out is None:
            return result
        return self.written(out[0], result)

    def written(self, out: Any, result: Symbol) -> Symbol:
        """`y /= total`: the symbol stands for another value from here on."""
        if not isinstance(out, Symbol) or out.value.kind in ("input", "constant", "call", "part"):
            raise NotPlainError("its definition writes into an array that it was given")
        out.value = numpy_lowering.cast(result, out.dtype).value
        return out

    def __array_function__(self, function: Any, types: Any, args: Any, settings: Any) -> Any:
        own = numpy_lowering.INSTEAD.get(function)
        if own is None:
            raise NotPlainError(f"np.{function.__name__} has no place in a kernel")
        return own(*args, **settings)

    def astype(self, dtype: Any, copy: bool = True) -> Symbol:
        """The numbers in another type."""
        return numpy_lowering.cast(self, np.dtype(dtype))

    def copy(self) -> Symbol:
        """A value of its own."""
        return Symbol(
            self.keep("element", "positive", (self.value,), self.shape, self.dtype), self.keep
        )

    def dot(self, other: Any) -> Symbol:
        """The product of matrices."""
        return numpy_lowering.product(self, self, other)

    def sum(self, axis: Any = None, keepdims: bool = False) -> Symbol:
        """The sum along axes."""
        return numpy_lowering.reduced(self, "sum", axis, keepdims=keepdims)

    def reshape(self, *shape: Any) -> Symbol:
        """The same numbers in another shape."""
        shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return self.view(lambda x: x.reshape(shape), f"{{}}.reshape({tuple(shape)})")

    def transpose(self, *axes: Any) -> Symbol:
        """The axes in another order."""
        axes = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        inside = f"{tuple(axes)}" if axes else ""
        return self.view(
            lambda x: x.transpose(*([axes] if axes else [])), f"{{}}.transpose({inside})"
        )

    def swapaxes(self, first: int, second: int) -> Symbol:
        """Two axes exchanged."""
        return self.view(lambda x: x.swapaxes(first, second), f"{{}}.swapaxes({first}, {second})")

    def squeeze(self, axis: Any = None) -> Symbol:
        """Axes of size 1 removed."""
        return self.view(lambda x: x.squeeze(axis), f"{{}}.squeeze({axis})")

    def __getitem__(self, index: Any) -> Symbol:
        parts = index if isinstance(index, tuple) else (index,)
        if not all(part is None or part is ... or isinstance(part, int | slice) for part in parts):
            raise NotPlainError("its definition picks numbers by an array")
        if not any(part is ... for part in parts):
            parts = (*parts, ...)  # a view even of one number
        return self.view(lambda x: x[parts], "{}[" + index_text(parts) + "]")

    def view(self, make: Callable[[Any], Any], text: str) -> Symbol:
        """Note the view that `make` takes of an array, and how it is written."""
        value = view_of(self.keep, self.value, make, text)
        if value is None:
            raise NotPlainError("its definition copies numbers into another order")
        return Symbol(value, self.keep)


def _operators() -> None:
    """Give both Python's operators, which NumPy's functions stand for."""
    names = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide,
        "pow": np.power, "matmul": np.matmul, "and": np.bitwise_and, "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }  # fmt: skip
    for name, ufunc in names.items():

        def forwards(self: Any, other: Any, ufunc: Any = ufunc) -> Any:
            return ufunc(self, other)

        def backwards(self: Any, other: Any, ufunc: Any = ufunc) -> Any:
            return ufunc(other, self)

        def in_place(self: Any, other: Any, ufunc: Any = ufunc) -> Any:
            return ufunc(self, other, out=(self,))

        setattr(Number, f"__{name}__", forwards)
        setattr(Number, f"__r{name}__", backwards)
        setattr(Number, f"__i{name}__", in_place)
    comparisons = {
        "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
        "eq": np.equal, "ne": np.not_equal,
    }  # fmt: skip
    for name, ufunc in comparisons.items():
        setattr(Number, f"__{name}__", lambda self, other, ufunc=ufunc: ufunc(self, other))
    signs = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}
    for name, ufunc in signs.items():
        setattr(Number, f"__{name}__", lambda self, ufunc=ufunc: ufunc(self))


_operators()


def index_text(parts: tuple[Any, ...]) -> str:
    """Write an index as one writes it between brackets."""

    def one(part: Any) -> str:
        if part is ...:
            return "..."
        if not isinstance(part, slice):
            return repr(part)
        ends = ["" if each is None else repr(each) for each in (part.start, part.stop)]
        return ":".join(ends) + (f":{part.step}" if part.step is not None else "")

    return ", ".join(map(one, parts))


def view_of(keep: Kept, value: Value, make: Callable[[Any], Any], text: str) -> Value | None:
    """Note a view, having looked where `make` finds its numbers; None if it copies them.

    An array that is laid out alike is enough for that: memory that nobody touches costs nothing.
    """
    base = value.base
    offset, steps = value.where
    width = base.dtype.itemsize if base.dtype is not None else 1
    room = np.empty(base.size + 1, base.dtype)
    whole = np.ndarray(
        value.shape, value.dtype, room, offset * width, tuple(step * width for step in steps)
    )
    y = make(whole)
    if not isinstance(y, np.ndarray) or y.dtype != value.dtype or y.base is None:
        return None
    if y.size and not np.may_share_memory(y, room):
        return None
    first = y.__array_interface__["data"][0] - room.__array_interface__["data"][0]
    settings = {
        "base": base, "offset": first // width if y.size else 0,
        "steps": tuple(stride // width for stride in y.strides) if y.size else steps_of(y.shape),
        "text": text, "make": make,
    }  # fmt: skip
    return keep("view", text, (value,), y.shape, y.dtype, settings)


from . import numpy_lowering  # noqa: E402  (each needs the other)
