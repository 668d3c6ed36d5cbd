"""Symbolic arrays and numbers, on which definitions are evaluated (`symbolic_eval.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .values import Value, contiguous_steps

__all__ = [
    "FLOAT_DTYPES", "KERNEL_DTYPES", "ValueMaker", "UnsupportedDefinitionError", "SymbolicNumber",
    "SymbolicArray", "make_view",
]  # fmt: skip

FLOAT_DTYPES = (np.dtype("float32"), np.dtype("float64"))
KERNEL_DTYPES = (*FLOAT_DTYPES, np.dtype("bool"), np.dtype("int64"))
"""The dtypes that kernels compute with."""

ValueMaker = Callable[..., Value]
"""Adds a value to the program, and returns it; the same one for the same operands."""


class UnsupportedDefinitionError(TypeError):
    """A definition does something for which no kernel can be generated."""


class SymbolicNumber:
    """A Python number whose value is only known at run time."""

    __slots__ = ("make_value", "value")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Value, make_value: ValueMaker) -> None:
        self.value, self.make_value = value, make_value

    def __bool__(self) -> bool:
        raise UnsupportedDefinitionError("its definition reads the elements")

    __float__ = __int__ = __index__ = __iter__ = __bool__  # type: ignore[assignment]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        if method != "__call__" or settings:
            raise UnsupportedDefinitionError(
                f"np.{ufunc.__name__}.{method} has no place in a kernel"
            )
        return numpy_lowering.lower_elementwise(self.make_value, ufunc, inputs)


class SymbolicArray(SymbolicNumber):
    """An array whose shape and dtype are known, but not its elements."""

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
        raise UnsupportedDefinitionError("its definition needs the array itself")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        out = settings.pop("out", None)
        if method == "reduce" and ufunc in (np.add, np.maximum, np.minimum):
            name = {np.add: "sum", np.maximum: "max", np.minimum: "min"}[ufunc]
            result = numpy_lowering.lower_reduction(self, name, *inputs[1:], **settings)
        elif method == "__call__" and ufunc is np.matmul and not settings:
            result = numpy_lowering.lower_matmul(self, *inputs)
        elif method == "__call__" and not settings:
            result = numpy_lowering.lower_elementwise(self.make_value, ufunc, inputs)
        else:
            raise UnsupportedDefinitionError(
                f"np.{ufunc.__name__}.{method} has no place in a kernel"
            )
        if out is None:
            return result
        return self.assign(out[0], result)

    def assign(self, out: Any, result: SymbolicArray) -> SymbolicArray:
        """Rebind a symbol for an in-place operation such as `y /= total`."""
        if not isinstance(out, SymbolicArray) or out.value.kind in (
            "input",
            "constant",
            "call",
            "part",
        ):
            raise UnsupportedDefinitionError(
                "its definition writes into an array that it was given"
            )
        out.value = numpy_lowering.lower_cast(result, out.dtype).value
        return out

    def __array_function__(self, function: Any, types: Any, args: Any, settings: Any) -> Any:
        own = numpy_lowering.REPLACEMENTS.get(function)
        if own is None:
            raise UnsupportedDefinitionError(f"np.{function.__name__} has no place in a kernel")
        return own(*args, **settings)

    def astype(self, dtype: Any, copy: bool = True) -> SymbolicArray:
        """Return the array in another dtype."""
        return numpy_lowering.lower_cast(self, np.dtype(dtype))

    def copy(self) -> SymbolicArray:
        """Return a copy."""
        return SymbolicArray(
            self.make_value("element", "positive", (self.value,), self.shape, self.dtype),
            self.make_value,
        )

    def dot(self, other: Any) -> SymbolicArray:
        """Return the matrix product."""
        return numpy_lowering.lower_matmul(self, self, other)

    def sum(self, axis: Any = None, keepdims: bool = False) -> SymbolicArray:
        """Return the sum along axes."""
        return numpy_lowering.lower_reduction(self, "sum", axis, keepdims=keepdims)

    def reshape(self, *shape: Any) -> SymbolicArray:
        """Return a view in another shape."""
        shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return self.view(lambda x: x.reshape(shape), f"{{}}.reshape({tuple(shape)})")

    def transpose(self, *axes: Any) -> SymbolicArray:
        """Return a view with permuted axes."""
        axes = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        inside = f"{tuple(axes)}" if axes else ""
        return self.view(
            lambda x: x.transpose(*([axes] if axes else [])), f"{{}}.transpose({inside})"
        )

    def swapaxes(self, first: int, second: int) -> SymbolicArray:
        """Return a view with two axes exchanged."""
        return self.view(lambda x: x.swapaxes(first, second), f"{{}}.swapaxes({first}, {second})")

    def squeeze(self, axis: Any = None) -> SymbolicArray:
        """Return a view without axes of size 1."""
        return self.view(lambda x: x.squeeze(axis), f"{{}}.squeeze({axis})")

    def __getitem__(self, index: Any) -> SymbolicArray:
        parts = index if isinstance(index, tuple) else (index,)
        if not all(part is None or part is ... or isinstance(part, int | slice) for part in parts):
            raise UnsupportedDefinitionError("its definition indexes with an array")
        if not any(part is ... for part in parts):
            parts = (*parts, ...)  # a view even of a single element
        return self.view(lambda x: x[parts], "{}[" + format_index(parts) + "]")

    def view(self, make: Callable[[Any], Any], text: str) -> SymbolicArray:
        """Add the view that `make` takes of an array; `text` is its source code."""
        value = make_view(self.make_value, self.value, make, text)
        if value is None:
            raise UnsupportedDefinitionError("its definition copies elements into another order")
        return SymbolicArray(value, self.make_value)


def _define_operators() -> None:
    """Define Python's operators by NumPy's functions, for both classes."""
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

        setattr(SymbolicNumber, f"__{name}__", forwards)
        setattr(SymbolicNumber, f"__r{name}__", backwards)
        setattr(SymbolicNumber, f"__i{name}__", in_place)
    comparisons = {
        "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
        "eq": np.equal, "ne": np.not_equal,
    }  # fmt: skip
    for name, ufunc in comparisons.items():
        setattr(SymbolicNumber, f"__{name}__", lambda self, other, ufunc=ufunc: ufunc(self, other))
    signs = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}
    for name, ufunc in signs.items():
        setattr(SymbolicNumber, f"__{name}__", lambda self, ufunc=ufunc: ufunc(self))


_define_operators()


def format_index(parts: tuple[Any, ...]) -> str:
    """Return the source code of an index."""

    def one(part: Any) -> str:
        if part is ...:
            return "..."
        if not isinstance(part, slice):
            return repr(part)
        ends = ["" if end is None else repr(end) for end in (part.start, part.stop)]
        return ":".join(ends) + (f":{part.step}" if part.step is not None else "")

    return ", ".join(map(one, parts))


def make_view(
    make_value: ValueMaker, value: Value, make: Callable[[Any], Any], text: str
) -> Value | None:
    """Add the view that `make` takes of a value; None if it copies the elements.

    `make` is applied to an empty array of the same layout, whose memory is never touched.
    """
    base = value.base
    offset, steps = value.layout
    width = base.dtype.itemsize if base.dtype is not None else 1
    memory = np.empty(base.size + 1, base.dtype)
    whole = np.ndarray(
        value.shape, value.dtype, memory, offset * width, tuple(step * width for step in steps)
    )
    y = make(whole)
    if not isinstance(y, np.ndarray) or y.dtype != value.dtype or y.base is None:
        return None
    if y.size and not np.may_share_memory(y, memory):
        return None
    first = y.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
    settings = {
        "base": base,
        "offset": first // width if y.size else 0,
        "steps": tuple(stride // width for stride in y.strides)
        if y.size
        else contiguous_steps(y.shape),
        "text": text,
        "make": make,
    }
    return make_value("view", text, (value,), y.shape, y.dtype, settings)


from . import numpy_lowering  # noqa: E402  (each needs the other)
