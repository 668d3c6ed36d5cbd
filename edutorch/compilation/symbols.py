"""Symbolic arrays and numbers: a definition runs on them, and what it does becomes values.

    def sigmoid(xp, input):  …  return xp.reciprocal(xp.exp(-input) + one)

Given a `SymbolicArray`, NumPy's functions do not compute: NumPy hands the call over to the symbol,
which adds a `Value` to the program, or raises if no kernel supports the function. Shapes, dtypes
and settings are known, so every `if` of a definition can be decided; only a definition that reads
the elements themselves cannot be decomposed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends.array_surface import DispatchedArray, unpack_axes
from .values import FUNCTIONS, Operand, Value, contiguous_steps

__all__ = [
    "FLOAT_DTYPES", "KERNEL_DTYPES", "REPLACEMENTS", "SymbolicArray", "SymbolicNumber",
    "UnsupportedDefinitionError", "ValueMaker", "lower_mean", "lower_reduction", "make_view",
]  # fmt: skip

FLOAT_DTYPES = (np.dtype("float32"), np.dtype("float64"))
KERNEL_DTYPES = (*FLOAT_DTYPES, np.dtype("bool"), np.dtype("int64"))
"""The dtypes that kernels compute with."""

SUPPORTED_KINDS = {
    **dict.fromkeys("bitwise_and bitwise_or bitwise_xor invert".split(), "b"),
    **dict.fromkeys("logical_and logical_or logical_not".split(), "b"),
    **dict.fromkeys("add subtract multiply negative positive absolute square sign".split(), "fi"),
    **dict.fromkeys("maximum minimum".split(), "fi"),
    **dict.fromkeys("less less_equal greater greater_equal equal not_equal".split(), "fib"),
}
"""The dtype kinds for which kernels support a function: f(loat), i(nteger), b(ool); else f."""

Axes = int | tuple[int, ...] | None
"""The axes of a reduction; None: all."""

DtypeLike = np.dtype | type | str | None

ValueMaker = Callable[..., Value]
"""Adds a value to the program, and returns it; the same one for the same operands."""


class UnsupportedDefinitionError(TypeError):
    """A definition does something for which no kernel can be generated."""


class SymbolicNumber(DispatchedArray):
    """A Python number whose value is only known at run time."""

    __slots__ = ("make_value", "value")

    def __init__(self, value: Value, make_value: ValueMaker) -> None:
        self.value, self.make_value = value, make_value

    def _element(self, conversion: str) -> Any:
        raise UnsupportedDefinitionError("its definition reads the elements")

    def __index__(self) -> int:
        return self._element("index")

    def __iter__(self) -> Any:
        return self._element("iter")

    def _answer(
        self, function: Callable[..., Any], arguments: Sequence[Any], settings: dict[str, Any]
    ) -> SymbolicArray:
        """Add the values of a function of NumPy, or raise `UnsupportedDefinitionError`."""
        out = settings.pop("out", None)
        replacement = REPLACEMENTS.get(function)
        is_ufunc = isinstance(function, np.ufunc)
        if replacement is not None and not (is_ufunc and settings):
            result = replacement(*arguments, **settings)
        elif isinstance(function, np.ufunc) and not settings:
            result = lower_elementwise(self.make_value, function, arguments)
        else:
            owner, name = getattr(function, "__self__", None), function.__name__
            name = f"{name}.__call__" if is_ufunc else name
            name = f"{owner.__name__}.{name}" if isinstance(owner, np.ufunc) else name
            raise UnsupportedDefinitionError(f"np.{name} has no place in a kernel")
        return result if out is None else assign(out[0] if isinstance(out, tuple) else out, result)


class SymbolicArray(SymbolicNumber):
    """An array whose shape and dtype are known, but not its elements."""

    __slots__ = ()

    shape = property(lambda self: self.value.shape)  # type: ignore[assignment]
    dtype = property(lambda self: self.value.dtype)  # type: ignore[assignment]
    real = property(lambda self: self)  # type: ignore[assignment]  # kernels know no complex dtype

    def __array__(self, *_: object, **__: object) -> Any:
        raise UnsupportedDefinitionError("its definition needs the array itself")

    def astype(self, dtype: DtypeLike, copy: bool = True) -> SymbolicArray:
        """Return the array in another dtype."""
        return lower_cast(self, np.dtype(dtype))

    def copy(self) -> SymbolicArray:
        """Return a copy."""
        return self.element("positive", self.shape, self.dtype)

    def element(
        self, function: str, shape: tuple[int, ...], dtype: np.dtype[Any], *operands: Operand
    ) -> SymbolicArray:
        """Add an elementwise function, of this array if there are no other operands."""
        value = self.make_value("element", function, operands or (self.value,), shape, dtype)
        return SymbolicArray(value, self.make_value)

    def __getitem__(self, index: object) -> SymbolicArray:
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


def assign(out: object, result: SymbolicArray) -> SymbolicArray:
    """Rebind a symbol for an in-place operation such as `y /= total`."""
    # Programs write nothing in place, so the name gets a new value. That is right only for an
    # array that the definition has made itself: nobody else can see the old one.
    if not isinstance(out, SymbolicArray) or out.value.kind in (
        "input", "constant", "call", "part",
    ):  # fmt: skip
        raise UnsupportedDefinitionError("its definition writes into an array that it was given")
    out.value = lower_cast(result, out.dtype).value
    return out


# Operands ------------------------------------------------------------------------------------


def lower_operand(x: object) -> Any:
    """Return an operand as a value or a number."""
    if isinstance(x, SymbolicNumber):
        value = x.value
        if value.base.kind == "element" and value.base.function == "fill":  # the same everywhere
            (number,) = value.base.operands
            return (
                number if not value.shape else lower_fill(x, number, value.dtype, value.shape).value
            )
        return value
    if isinstance(x, Value) or x.__class__ in (bool, int, float) or isinstance(x, np.generic):
        return x
    if isinstance(x, np.ndarray) and not x.ndim:
        return x[()]
    raise UnsupportedDefinitionError(f"its definition computes with a {type(x).__name__}")


def dtype_of(x: Operand) -> Any:
    """Return an operand's dtype, or a Python number's class, which promotes weakly as in NumPy."""
    if isinstance(x, Value):
        return float if x.dtype is None else x.dtype
    return x.dtype if isinstance(x, np.generic) else int if x.__class__ is bool else x.__class__


def check_dtype(dtype: np.dtype[Any]) -> None:
    """Raise UnsupportedDefinitionError if kernels do not compute with a dtype."""
    if dtype not in KERNEL_DTYPES:
        raise UnsupportedDefinitionError(f"the dtype {dtype} is left to NumPy")


def cast_operand(make_value: ValueMaker, x: Operand, dtype: np.dtype[Any]) -> Any:
    """Cast an operand to the dtype in which the function computes."""
    if not isinstance(x, Value):
        return dtype.type(x)
    if x.dtype is None or x.dtype == dtype:
        return x
    return lower_cast(SymbolicArray(x, make_value), dtype).value


def lower_constant(make_value: ValueMaker, number: np.generic) -> SymbolicArray:
    """Add a constant number."""
    return SymbolicArray(make_value("element", "fill", (number,), (), number.dtype), make_value)


# NumPy's functions ---------------------------------------------------------------------------


def lower_elementwise(
    make_value: ValueMaker, ufunc: np.ufunc, inputs: Sequence[object]
) -> SymbolicArray:
    """Add an elementwise function of NumPy's."""
    name = ufunc.__name__
    if name not in FUNCTIONS:
        raise UnsupportedDefinitionError(f"np.{name} has no place in a kernel")
    # A constant array is a number here, which promotes as NumPy says.
    operands = [lower_operand(input_) for input_ in inputs]
    # NumPy itself says in which dtype it would compute, so that a kernel rounds as NumPy does.
    *wanted, result = ufunc.resolve_dtypes((*map(dtype_of, operands), None))
    for dtype in (result, *wanted):
        kinds = SUPPORTED_KINDS.get(name, "f") + "b" * (dtype is result)
        if dtype not in KERNEL_DTYPES or dtype.kind not in kinds:
            raise UnsupportedDefinitionError(f"{name} of {dtype} is left to NumPy")
    operands = [
        cast_operand(make_value, operand, dtype)
        for operand, dtype in zip(operands, wanted, strict=True)
    ]
    shapes = [operand.shape for operand in operands if isinstance(operand, Value)]
    if not shapes:  # numbers alone are computed now
        with np.errstate(all="ignore"):
            return lower_constant(make_value, ufunc(*operands))
    shape = np.broadcast_shapes(*shapes)
    return SymbolicArray(make_value("element", name, tuple(operands), shape, result), make_value)


def lower_cast(x: SymbolicArray, dtype: np.dtype[Any]) -> SymbolicArray:
    """Add a conversion."""
    if x.dtype == dtype:
        return x
    check_dtype(dtype)
    check_dtype(x.dtype)
    if x.dtype.kind == "f" and dtype.kind != "f":  # out of range, C and NumPy differ
        raise UnsupportedDefinitionError("rounding to integers is left to NumPy")
    number = lower_operand(x)
    if not isinstance(number, Value):
        return lower_constant(x.make_value, number.astype(dtype))
    return x.element("cast", x.shape, dtype, number)


def lower_where(condition: object, first: object, second: object) -> SymbolicArray:
    """Add `np.where`."""
    make_value = maker_of(condition, first, second)
    chosen = lower_operand(condition)
    if dtype_of(chosen) != np.dtype(bool):
        raise UnsupportedDefinitionError(
            "np.where with a condition that is not bool is left to NumPy"
        )
    pair = [lower_operand(first), lower_operand(second)]
    dtypes = [dtype_of(item) for item in pair]
    if all(isinstance(dtype, type) for dtype in dtypes):  # two Python numbers
        dtype = np.result_type(first, second)  # type: ignore[arg-type]
    else:
        dtype = np.add.resolve_dtypes((*dtypes, None))[-1]  # `where` promotes as `+` does
    check_dtype(dtype)
    pair = [cast_operand(make_value, item, dtype) for item in pair]
    shapes = [item.shape for item in (chosen, *pair) if isinstance(item, Value)]
    if not shapes:
        return lower_constant(make_value, pair[0] if chosen else pair[1])
    shape = np.broadcast_shapes(*shapes)
    return SymbolicArray(make_value("element", "where", (chosen, *pair), shape, dtype), make_value)


def maker_of(*arguments: object) -> ValueMaker:
    """Return what adds values to the program: every symbol knows it."""
    return next(x.make_value for x in arguments if isinstance(x, SymbolicNumber))


def lower_clip(x: SymbolicArray, a_min: object = None, a_max: object = None) -> Any:
    """Add `np.clip` as a maximum and a minimum."""
    y = x if a_min is None else np.maximum(x, a_min)  # type: ignore[call-overload]
    return y if a_max is None else np.minimum(y, a_max)  # type: ignore[call-overload]


def lower_fill(
    x: SymbolicNumber, number: np.generic | bool | int | float, dtype: DtypeLike = None,
    shape: Sequence[int] | None = None,
) -> SymbolicArray:  # fmt: skip
    """Add a constant array."""
    dtype_ = np.dtype(dtype) if dtype is not None else x.dtype
    check_dtype(dtype_)
    shape = x.shape if shape is None else tuple(shape)
    value = x.make_value("element", "fill", (dtype_.type(number),), shape, dtype_)
    return SymbolicArray(value, x.make_value)


def lower_reduction(
    x: SymbolicArray, name: str, axis: Axes = None, keepdims: bool = False, **more: object
) -> SymbolicArray:
    """Add a sum, minimum or maximum along axes."""
    if any(setting is not None for setting in more.values()):
        raise UnsupportedDefinitionError(f"a reduction with {', '.join(more)} is left to NumPy")
    if not x.ndim:
        return x.copy()  # nothing to reduce; a copy, because a sum is never a view
    if x.dtype not in FLOAT_DTYPES:  # NumPy sums bool and int32 in int64
        raise UnsupportedDefinitionError(f"reductions of {x.dtype} are left to NumPy")
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = tuple(sorted(axis % x.ndim for axis in axes))
    kept = tuple(1 if i in axes else size for i, size in enumerate(x.shape))
    shape = kept if keepdims else tuple(s for i, s in enumerate(x.shape) if i not in axes)
    count = math.prod(x.shape[i] for i in axes)
    if not count and name != "sum":
        raise UnsupportedDefinitionError("the minimum or maximum of nothing is an error")
    settings = {"axes": axes, "keepdims": keepdims, "count": count}
    value = x.make_value("reduce", name, (x.value,), shape, x.dtype, settings)
    return SymbolicArray(value, x.make_value)


def lower_mean(
    x: SymbolicArray, axis: Axes = None, keepdims: bool = False, **more: object
) -> SymbolicArray:
    """Add a mean: the sum, divided by the count."""
    total = lower_reduction(x, "sum", axis, keepdims, **more)
    if not x.ndim:
        return total
    count = total.value.settings["count"]
    if not count:
        raise UnsupportedDefinitionError("a mean of nothing is left to NumPy")
    return total / count  # type: ignore[operator]


def lower_matmul(left: object, right: object) -> SymbolicArray:
    """Add the product of two matrices."""
    first, second = lower_operand(left), lower_operand(right)
    for factor in (first, second):
        if (
            not isinstance(factor, Value)
            or factor.dtype not in FLOAT_DTYPES
            or len(factor.shape) != 2
        ):
            raise UnsupportedDefinitionError(
                "products of other than two matrices are left to their definition"
            )
    if first.dtype != second.dtype:
        raise UnsupportedDefinitionError("products of several dtypes are left to their definition")
    make_value, shape = maker_of(left, right), (first.shape[0], second.shape[1])
    value = make_value("product", "matmul", (first, second), shape, first.dtype)
    return SymbolicArray(value, make_value)


def reduction(name: str, axis: int | None = None) -> Callable[..., SymbolicArray]:
    """Return the replacement of a reduction; `axis` is its default."""
    default = axis

    def lower(
        a: SymbolicArray, axis: Axes = default, keepdims: bool = False, **more: object
    ) -> SymbolicArray:
        return lower_reduction(a, name, axis, keepdims, **more)

    return lower


def view_method(name: str) -> Callable[..., SymbolicArray]:
    """Return the replacement of a function that returns a view, as the method of this name."""

    def lower(x: SymbolicArray, *arguments: Any) -> SymbolicArray:
        arguments = tuple(tuple(x) if isinstance(x, list) else x for x in arguments)
        text = f"{{}}.{name}({', '.join(map(repr, arguments))})"
        return x.view(lambda array: getattr(array, name)(*arguments), text)

    return lower


REPLACEMENTS: dict[Any, Callable[..., Any]] = {
    np.sum: reduction("sum"), np.max: reduction("max"), np.amax: reduction("max"),
    np.min: reduction("min"), np.amin: reduction("min"), np.mean: lower_mean,
    np.matmul: lower_matmul, np.dot: lower_matmul,
    np.where: lower_where, np.clip: lower_clip, np.real: lambda x: x,
    np.zeros_like: lambda x, dtype=None: lower_fill(x, 0, dtype),
    np.ones_like: lambda x, dtype=None: lower_fill(x, 1, dtype),
    np.full_like: lambda x, number, dtype=None: lower_fill(x, number, dtype),
    np.reshape: lambda x, shape: view_method("reshape")(x, unpack_axes((shape,))),
    np.transpose: lambda x, axes=None: view_method("transpose")(x, *([axes] if axes else [])),
    np.swapaxes: view_method("swapaxes"),
    np.squeeze: lambda x, axis=None: view_method("squeeze")(x, axis),
    np.expand_dims: lambda x, axis: x.view(
        lambda y: np.expand_dims(y, axis), f"np.expand_dims({{}}, {axis})"
    ),
    np.broadcast_to: lambda x, shape: x.view(
        lambda y: np.broadcast_to(y, shape), f"np.broadcast_to({{}}, {tuple(shape)})"
    ),
}  # fmt: skip
"""What functions of NumPy become that are not elementwise."""

REPLACEMENTS |= {
    # The method of a ufunc, unlike the function, reduces the first axis if none is named.
    np.add.reduce: reduction("sum", axis=0),
    np.maximum.reduce: reduction("max", axis=0),
    np.minimum.reduce: reduction("min", axis=0),
}


# Views -----------------------------------------------------------------------------------------


def format_index(parts: Sequence[Any]) -> str:
    """Return the source code of an index."""

    def one(part: object) -> str:
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
    memory = np.empty(base.size + 1, base.dtype)  # one more: an empty array has no memory
    whole = np.ndarray(
        value.shape, value.dtype, memory, offset * width, tuple(step * width for step in steps)
    )
    y = make(whole)
    # A scalar, another dtype or a copy.
    if not isinstance(y, np.ndarray) or y.dtype != value.dtype or y.base is None:
        return None
    if y.size and not np.may_share_memory(y, memory):
        return None
    # The address says where the view begins.
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
