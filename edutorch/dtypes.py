"""Dtypes, and the promotion of several dtypes to one.

PyTorch's rule in short: dtypes belong to categories (bool < integer <
floating < complex). Tensors with dimensions decide; a 0-d tensor matters only
if its category is higher than theirs, and a Python number only if its category
is higher than both. Within one category the lattice of `promote_types` decides.

Seven dtypes are for storage only (`STORAGE`): float8 in four forms, and the unsigned integers of
16, 32 and 64 bits. Tensors hold, move, compare and convert them, and that is nearly all: a
computation converts them first. Their arrays are of a class of their own (`Stored`, in
`backends/numpy.py`), so that the fast paths of ops leave them to the general one, which refuses
(`core/promotion.py`).
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from .errors import ArgumentError, DTypeError, MissingExtraError

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
        character = "f" if "float" in name else self.numpy.kind
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
    def is_storage(self) -> builtins.bool:
        """Whether it is for storage only: nearly nothing is computed in it."""
        return self in STORAGE

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
    """Stands for a NumPy dtype of ml_dtypes without it: equal to none, accepted by none."""

    kind, char = "V", "E"

    def __init__(self, name: str, itemsize: builtins.int) -> None:
        self.name, self.itemsize = name, itemsize

    def __repr__(self) -> str:
        return f"{self.name}, which needs ml_dtypes"


class AbsentDtype(dtype):
    """A dtype of ml_dtypes without it, such as bfloat16: `as_dtype` refuses it."""

    __slots__ = ()

    def __init__(self, name: str, itemsize: builtins.int) -> None:
        self.name, self.category = name, 2
        self.numpy: Any = AbsentType(name, itemsize)


def extension_dtype(name: str, itemsize: builtins.int) -> dtype:
    """Return a dtype that NumPy has from ml_dtypes."""
    if ml_dtypes is None:
        return AbsentDtype(name, itemsize)
    return dtype(name, getattr(ml_dtypes, name))


bool = dtype("bool", np.bool_)
uint8 = dtype("uint8", np.uint8)
int8 = dtype("int8", np.int8)
int16 = dtype("int16", np.int16)
int32 = dtype("int32", np.int32)
int64 = dtype("int64", np.int64)
float16 = dtype("float16", np.float16)
bfloat16 = extension_dtype("bfloat16", 2)
float32 = dtype("float32", np.float32)
float64 = dtype("float64", np.float64)
complex64 = dtype("complex64", np.complex64)
complex128 = dtype("complex128", np.complex128)

# For storage only: weights are kept in them, and converted before they are computed with.
float8_e4m3fn = extension_dtype("float8_e4m3fn", 1)
float8_e5m2 = extension_dtype("float8_e5m2", 1)
float8_e4m3fnuz = extension_dtype("float8_e4m3fnuz", 1)
float8_e5m2fnuz = extension_dtype("float8_e5m2fnuz", 1)
uint16 = dtype("uint16", np.uint16)
uint32 = dtype("uint32", np.uint32)
uint64 = dtype("uint64", np.uint64)
STORAGE = frozenset(
    (float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz, uint16, uint32, uint64)
)
STORED = frozenset(entry.numpy for entry in STORAGE if not isinstance(entry, AbsentDtype))
"""The dtypes of NumPy that are for storage only."""

short, int, long = int16, int32, int64
half, float, double = float16, float32, float64
cfloat, cdouble = complex64, complex128

ALL = (
    bool, uint8, int8, int16, int32, int64, float16, *(() if ml_dtypes is None else (bfloat16,)),
    float32, float64, complex64, complex128,
)  # fmt: skip
_BY_NUMPY = {entry.numpy: entry for entry in (*ALL, *STORAGE) if not isinstance(entry, AbsentDtype)}
BY_PYTHON = {
    builtins.bool: bool, builtins.int: int64, builtins.float: float64, builtins.complex: complex128
}  # fmt: skip
DTypeLike = dtype | type | None
"""What an argument `dtype` takes: one of ours, Python's `int`, `float` …, or None."""

FLOATING = frozenset(entry.numpy for entry in ALL if entry.is_floating_point)
DIFFERENTIABLE = frozenset(entry.numpy for entry in _BY_NUMPY.values() if entry.category >= 2)

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
    if not isinstance(d, dtype) or not d.is_floating_point or d.is_storage:
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
    if not STORAGE.isdisjoint(types) and types[0] is not types[1]:
        refuse_promotion(*types)
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


def refuse_promotion(type1: dtype, type2: dtype) -> None:
    """Raise DTypeError for two dtypes of which one is for storage only.

    (An unsigned integer beside a floating dtype becomes that.)
    """
    has_float8 = any(entry in STORAGE and entry.category == 2 for entry in (type1, type2))
    if not has_float8 and max(type1.category, type2.category) == 2:
        return
    names = "Float8 Types" if has_float8 else "uint16, uint32, uint64 types"
    raise DTypeError(
        "promote_types", f"Promotion for {names} is not supported, attempted to promote "
        f"{type1.name} and {type2.name}", hint="convert one of them first, for example x.float()",
    )  # fmt: skip


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
        # 10 to the power of the decimal digits, of which float8 has none.
        self.resolution = 1.0 if floating.is_storage else 10.0**-info.precision

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        limits = ", ".join(f"{name}={getattr(self, name):g}" for name in names)
        return f"finfo({limits}, dtype={self.dtype})"


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

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
