"""Dtypes, and the promotion of several dtypes to one.

PyTorch's rule in short: dtypes belong to categories (bool < integer <
floating < complex). Tensors with dimensions decide; a 0-d tensor matters only
if its category is higher than theirs, and a Python number only if its category
is higher than both. Within one category the lattice of `promote_types` decides.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from .errors import ArgumentError, MissingExtraError

try:  # a browser may lack it: then bfloat16 is a name, and says what to install
    import ml_dtypes
except ImportError:
    ml_dtypes = None

_CATEGORY = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


class dtype:
    """The dtype of a tensor's elements, such as `float32`.

    >>> float32.itemsize, float32.is_floating_point
    (4, True)
    """

    __slots__ = ("category", "name", "numpy")

    def __init__(self, name: str, array_type: Any) -> None:
        self.name = name
        self.numpy = np.dtype(array_type)
        character = "f" if name == "bfloat16" else self.numpy.kind
        self.category = _CATEGORY[character]

    @property
    def is_floating_point(self) -> builtins.bool:
        """Whether it is a real floating-point dtype."""
        return self.category == 2

    @property
    def is_complex(self) -> builtins.bool:
        """Whether it is a complex dtype."""
        return self.category == 3

    @property
    def is_signed(self) -> builtins.bool:
        """Whether it has negative values."""
        return self.category >= 1 and self.numpy.kind != "u"

    @property
    def itemsize(self) -> builtins.int:
        """Bytes per element."""
        return self.numpy.itemsize

    def to_real(self) -> dtype:
        """Return the dtype of the real and imaginary parts."""
        return {complex64: float32, complex128: float64}.get(self, self)

    def to_complex(self) -> dtype:
        """Return the complex dtype whose parts have this dtype."""
        if self.is_complex:
            return self
        return complex128 if self is float64 else complex64

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class AbsentType:
    """Stands for the NumPy dtype of bfloat16 without ml_dtypes: equal to none, accepted by none."""

    name, kind, char, itemsize = "bfloat16", "V", "E", 2

    def __repr__(self) -> str:
        return "bfloat16, which needs ml_dtypes"


class AbsentDtype(dtype):
    """The dtype bfloat16 without ml_dtypes: `as_dtype` refuses it."""

    __slots__ = ()

    def __init__(self) -> None:
        self.name, self.category = "bfloat16", 2
        self.numpy: Any = AbsentType()


bool = dtype("bool", np.bool_)
uint8 = dtype("uint8", np.uint8)
int8 = dtype("int8", np.int8)
int16 = dtype("int16", np.int16)
int32 = dtype("int32", np.int32)
int64 = dtype("int64", np.int64)
float16 = dtype("float16", np.float16)
bfloat16 = AbsentDtype() if ml_dtypes is None else dtype("bfloat16", ml_dtypes.bfloat16)
float32 = dtype("float32", np.float32)
float64 = dtype("float64", np.float64)
complex64 = dtype("complex64", np.complex64)
complex128 = dtype("complex128", np.complex128)

short, int, long = int16, int32, int64
half, float, double = float16, float32, float64
cfloat, cdouble = complex64, complex128

ALL = (
    bool, uint8, int8, int16, int32, int64, float16, *(() if ml_dtypes is None else (bfloat16,)),
    float32, float64, complex64, complex128,
)  # fmt: skip
_BY_NUMPY = {entry.numpy: entry for entry in ALL}
BY_PYTHON = {
    builtins.bool: bool, builtins.int: int64, builtins.float: float64, builtins.complex: complex128
}  # fmt: skip
DTypeLike = dtype | type | None
"""What an argument `dtype` takes: one of ours, Python's `int`, `float` …, or None."""

FLOATING = frozenset(entry.numpy for entry in ALL if entry.is_floating_point)
DIFFERENTIABLE = frozenset(entry.numpy for entry in ALL if entry.category >= 2)

_default = float32


def of(array_dtype: np.dtype[Any]) -> dtype:
    """Return the edutorch dtype for a NumPy dtype."""
    result = _BY_NUMPY.get(array_dtype)
    if result is None:
        raise TypeError(
            f"tensors cannot hold NumPy's {np.dtype(array_dtype)}; "
            f"the types are {', '.join(entry.name for entry in ALL)}"
        )
    return result


def as_dtype(value: Any) -> dtype:
    """Return the dtype for an argument `dtype`: a dtype, or a Python type.

    Raises:
        TypeError: it is something else, such as a string.
        MissingExtraError: it is bfloat16, and ml_dtypes is not installed.

    >>> as_dtype(float).name
    'float64'
    """
    if value.__class__ is dtype:
        return value
    result = BY_PYTHON.get(value) if value.__class__ is type else None
    if isinstance(value, AbsentDtype):
        raise MissingExtraError(
            value.name, "ml_dtypes is not installed", hint="pip install ml_dtypes"
        )
    if result is None:
        name = f"the class {value.__name__}" if isinstance(value, type) else repr(value)
        raise TypeError(f"dtype must be a type such as edutorch.float32, got {name}")
    return result


def array_type(value: Any) -> np.dtype:
    """Return the NumPy dtype for an argument `dtype`: see `as_dtype`."""
    return as_dtype(value).numpy


def get_default_dtype() -> dtype:
    """Return the dtype that Python floats get, `float32` unless changed.

    >>> get_default_dtype()
    torch.float32
    """
    return _default


def set_default_dtype(d: dtype) -> None:
    """Set the dtype that Python floats get.

    Raises: TypeError: `d` is not a floating-point dtype.

    >>> set_default_dtype(float32)
    """
    global _default
    if not isinstance(d, dtype) or not d.is_floating_point:
        raise TypeError(f"set_default_dtype: only floating types can be the default, got {d!r}")
    _default = d


# Promotion within and between categories: the smallest dtype that holds both, in
# PyTorch's order. uint8 with a signed dtype needs the next size.
_SIGNED = (int8, int16, int32, int64)


@functools.cache
def promote_types(type1: dtype, type2: dtype) -> dtype:
    """Return the smallest dtype that both dtypes can be converted to safely.

    >>> promote_types(int64, float16), promote_types(uint8, int8)
    (torch.float16, torch.int16)
    """
    types = as_dtype(type1), as_dtype(type2)
    low, high = sorted(types, key=lambda candidate: (candidate.category, candidate.itemsize))
    if low is high or low.category == 0:
        return high
    if high.category == 1:
        if uint8 in (low, high):
            other = high if low is uint8 else low
            return int16 if other is int8 else other
        return high
    if low.category == 1:
        return high
    if high.category == 2:
        return float32 if {low, high} == {float16, bfloat16} else high
    double_parts = float64 in (low, high) or complex128 in (low, high)
    return complex128 if double_parts else complex64


def can_cast(from_: dtype, to: dtype) -> builtins.bool:
    """Return True if a result of one dtype may be written into a tensor of the other.

    >>> can_cast(float32, int64), can_cast(int64, float32)
    (False, True)
    """
    return as_dtype(from_).category <= as_dtype(to).category


def scalar_type(number: Any) -> dtype:
    """Return the dtype of a Python number: bool, int64, the default, or complex."""
    if isinstance(number, builtins.bool):
        return bool
    if isinstance(number, builtins.int):
        return int64
    if isinstance(number, builtins.float):
        return _default
    if isinstance(number, builtins.complex):
        return _default.to_complex()
    raise TypeError(f"expected a number, got {type(number).__name__}")


def _combine(strong: dtype | None, weak: dtype | None) -> dtype | None:
    """Combine two dtypes: a weaker operand changes the result only by raising its category."""
    if strong is None or weak is None:
        return strong or weak
    if weak.category <= strong.category:
        return strong
    if weak.is_complex and strong.is_floating_point:
        return strong.to_complex()
    return promote_types(strong, weak) if strong.category == 0 or weak.category >= 2 else weak


def result_of(
    with_dims: Iterable[dtype], zero_dims: Iterable[dtype], scalars: Iterable[Any]
) -> dtype:
    """Return the dtype in which an op on these operands computes (see the module docstring)."""

    def meet(dtypes: Iterable[dtype]) -> dtype | None:
        dtypes = tuple(dtypes)
        return functools.reduce(promote_types, dtypes) if dtypes else None

    weakest = meet(scalar_type(number) for number in scalars)
    result = _combine(meet(with_dims), _combine(meet(zero_dims), weakest))
    assert result is not None
    return result


def result_type(tensor1: Any, tensor2: Any) -> dtype:
    """Return the dtype in which an op on two operands computes.

    >>> result_type(tensor([1, 2]), 1.5)
    torch.float32
    """
    operands = (tensor1, tensor2)
    tensors = [operand for operand in operands if hasattr(operand, "dtype")]
    return result_of(
        [tensor.dtype for tensor in tensors if tensor.ndim],
        [tensor.dtype for tensor in tensors if not tensor.ndim],
        [operand for operand in operands if not hasattr(operand, "dtype")],
    )


class finfo:
    """The limits of a floating-point dtype.

    Raises: TypeError: a dtype of integers or bools.

    >>> finfo(float32).eps
    1.1920928955078125e-07
    """

    eps: builtins.float
    max: builtins.float
    min: builtins.float
    tiny: builtins.float
    smallest_normal: builtins.float
    resolution: builtins.float

    def __init__(self, type: dtype | None = None) -> None:
        floating = _default if type is None else as_dtype(type)
        if floating.category < 2:
            raise ArgumentError(
                "finfo", f"expected a floating type, got {floating}", hint="use iinfo"
            )
        info = (ml_dtypes or np).finfo(floating.to_real().numpy)
        self.bits = info.bits
        self.dtype = floating.to_real().name
        for name in finfo.__annotations__:
            setattr(self, name, builtins.float(getattr(info, name)))


class iinfo:
    """The limits of an integer dtype.

    >>> iinfo(int8).max
    127
    """

    def __init__(self, type: dtype) -> None:
        type = as_dtype(type)
        info = np.iinfo(type.numpy)
        self.bits, self.dtype = info.bits, type.name
        self.min, self.max = builtins.int(info.min), builtins.int(info.max)
