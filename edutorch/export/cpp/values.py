"""Values and literals of C++: what stands in the place of a node, a number, a shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import dtypes
from ..formulas import Formula, text_of
from ..translation import Unsupported

__all__ = [
    "TYPES", "Scalar", "Value", "cpp_type", "dtype_of", "literal", "operand", "rank_of", "sizes",
]  # fmt: skip

TYPES = {
    "float32": ("float", "F32"), "float64": ("double", "F64"), "int64": ("Index", "I64"),
    "int32": ("std::int32_t", "I32"), "int16": ("std::int16_t", "I16"),
    "int8": ("std::int8_t", "I8"), "uint8": ("std::uint8_t", "U8"), "bool": ("bool", "BOOL"),
}  # fmt: skip
"""For each dtype its type in C++, and its name in files of safetensors."""


class Value(NamedTuple):
    """A tensor in C++: an expression, and the dtype and the shape that it has."""

    text: str
    dtype: np.dtype[Any]
    shape: Sequence[Formula]

    def __str__(self) -> str:
        return self.text


class Scalar(NamedTuple):
    """A number in C++ that is known when the program runs: a size, or a formula of sizes."""

    text: str

    def __str__(self) -> str:
        return self.text


def cpp_type(dtype: Any) -> str:
    """Return the type of C++ for a dtype.

    Raises: Unsupported: there is none.
    """
    name = dtypes.of(np.dtype(dtype)).name
    if name not in TYPES:
        raise Unsupported(f"{name}: C++ programs have {', '.join(TYPES)}")
    return TYPES[name][0]


def dtype_of(dtype: Any) -> np.dtype[Any]:
    """Return the NumPy dtype of a dtype of tensors, or of NumPy."""
    return np.dtype(getattr(dtype, "numpy", dtype))


def literal(value: Any, dtype: Any) -> str:
    """Return a number as text of C++, in a dtype.

    >>> from edutorch.export.cpp.values import literal
    >>> literal(0.5, "float32"), literal(2, "int64"), literal(float("-inf"), "float64")
    ('0.5F', '2', '-std::numeric_limits<double>::infinity()')
    """
    dtype = np.dtype(dtype)
    if isinstance(value, Scalar):
        return f"static_cast<{cpp_type(dtype)}>({value.text})"
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        return str(int(value))
    number = float(value)
    limits = f"std::numeric_limits<{cpp_type(dtype)}>"
    if math.isnan(number):
        return f"{limits}::quiet_NaN()"
    if math.isinf(number):
        return f"{'-' * (number < 0)}{limits}::infinity()"
    return repr(number) + ("F" if dtype.itemsize == 4 else "")


def operand(value: Any, dtype: Any) -> str:
    """Return an operand of an elementwise op: a tensor as it is, a number in this dtype."""
    if isinstance(value, Value):
        return value.text
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    return literal(value, dtype)


def sizes(shape: Any) -> str:
    """Return a list of sizes.

    >>> from edutorch.export.cpp.values import Scalar, sizes
    >>> sizes((Scalar("batch"), -1))
    '{batch, -1}'
    """
    shape = (shape,) if isinstance(shape, int | Scalar) else shape
    return f"{{{', '.join(str(size) for size in shape)}}}"


def rank_of(value: Value) -> int:
    """Return the number of axes of a tensor."""
    return len(value.shape)


def shape_text(shape: Sequence[Formula]) -> str:
    """Return a shape with names for sizes, such as (batch, 10)."""
    return f"({', '.join(text_of(size) for size in shape)})"
