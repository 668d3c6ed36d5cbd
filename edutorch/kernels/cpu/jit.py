"""How a kernel is compiled by numba, and which arrays it takes: shared by all makers of kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from ...backends.numpy import Array

__all__ = [
    "ARRAY_1D", "ARRAY_2D", "ARRAY_3D", "ArgumentType", "BOOL", "FLOAT64", "FLOAT64_2D",
    "FLOAT64_3D", "FLOATS", "INT64", "INT64_1D", "INT64_2D", "INT64_3D", "SCALAR", "TUPLE",
    "are_contiguous_floats", "as_rows_of", "compile_kernel", "contiguous_gradient",
    "contiguous_rows", "is_contiguous_float", "pointer", "split_at_axis", "use_wide_vectors",
    "writable_contiguous",
]  # fmt: skip

ArgumentType = Callable[[Any], Any]
"""From the dtype for which a kernel is compiled to the type of one of its arguments."""

UNSIGNED = types.uint64  # numba lets an index without a sign through as it is: see `compile_kernel`


def ARRAY_1D(dtype: types.Float) -> Any:
    """A contiguous array of one axis."""
    return dtype[::1]


def SCALAR(dtype: types.Float) -> Any:
    """One number of the arrays' dtype."""
    return dtype


def ARRAY_2D(dtype: types.Float) -> Any:
    """A contiguous array of two axes."""
    return dtype[:, ::1]


def ARRAY_3D(dtype: types.Float) -> Any:
    """A contiguous array of three axes: those before an axis, the axis itself, those after it."""
    return dtype[:, :, ::1]


def FLOAT64_2D(dtype: types.Float) -> Any:
    """A contiguous array of two axes of float64, whatever the dtype of the others."""
    return types.float64[:, ::1]


def FLOAT64_3D(dtype: types.Float) -> Any:
    """A contiguous array of three axes of float64."""
    return types.float64[:, :, ::1]


def FLOAT64(dtype: types.Float) -> Any:
    """A number of float64, whatever the dtype of the arrays."""
    return types.float64


def INT64(dtype: types.Float) -> Any:
    """An integer, such as the length of a row."""
    return types.int64


def BOOL(dtype: types.Float) -> Any:
    """A boolean."""
    return types.boolean


def TUPLE(*argument_types: ArgumentType) -> ArgumentType:
    """A tuple, which costs a call nothing; the kernel unpacks it, or makes a NamedTuple of it.

    (A NamedTuple as the argument itself costs 2 µs a call, because numba looks for its type.)
    """
    return lambda dtype: types.BaseTuple.from_types([type_(dtype) for type_ in argument_types])


def compile_kernel(kernel: Callable[..., None], *argument_types: ArgumentType) -> Any:
    """Compile `kernel(start, stop, …)` for float32 and for float64.

    `start` and `stop` are unsigned: Python's x[-1] costs a branch for each x[i], and with it no
    loop is vectorized.

    Args:
        argument_types: for each further argument one of ARRAY_1D, ARRAY_2D, ARRAY_3D, FLOAT64_2D,
            SCALAR, INT64, BOOL, TUPLE(…).
    """
    # With signatures numba compiles now, not in the first call, and rejects all other types.
    signatures = [
        types.void(UNSIGNED, UNSIGNED, *(argument_type(dtype) for argument_type in argument_types))
        for dtype in (types.float32, types.float64)
    ]
    # FMA only: with `nnan` a kernel would treat NaN otherwise than its definition, with `reassoc`
    # round otherwise. By the error model of NumPy, x / 0 is ∞, with no branch that raises.
    options: dict[str, Any] = {"fastmath": {"contract"}, "error_model": "numpy"}
    # nogil: the threads of the pool run the same kernel at the same time.
    return njit(signatures, cache=True, nogil=True, **options)(kernel)


def type_use_wide_vectors(typing: Any) -> Any:
    """Type `use_wide_vectors()`, called at the head of a kernel: use 512-bit registers if present.

    LLVM avoids them by default, because the first CPUs that had them ran at a lower clock with
    them. Polynomials become a third faster.
    """

    def lower(
        context: BaseContext,
        builder: ir.IRBuilder,
        signature: Signature,
        arguments: Sequence[ir.Value],
    ) -> Any:
        # llvmlite rejects attributes with a value; its attribute set is a plain set underneath.
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), lower


use_wide_vectors: Any = intrinsic(type_use_wide_vectors)


def pointer_type(typing: Any, address: types.Type, like: Any) -> Any:
    """Type `pointer`: an address cast to a pointer to elements of the type of `like`."""

    def lower(
        context: BaseContext,
        builder: ir.IRBuilder,
        signature: Signature,
        arguments: Sequence[ir.Value],
    ) -> Any:
        element = context.get_value_type(signature.return_type.dtype)
        return builder.inttoptr(arguments[0], element.as_pointer())

    return types.CPointer(getattr(like, "dtype", like))(types.int64, like), lower


pointer: Any = intrinsic(pointer_type)
"""Called with an address and an array (or a number): the address, of elements of that dtype."""


FLOATS = {np.dtype("float32"), np.dtype("float64")}


def are_contiguous_floats(arrays: Iterable[Array], dtype: np.dtype | None = None) -> bool:
    """Whether all are contiguous NumPy arrays of one dtype, float32 or float64."""
    for array in arrays:
        # Not `isinstance`: in a subclass, as in a masked array, elements may mean something else.
        # `carray`: contiguous, and not read-only, for which no kernel is compiled.
        if array.__class__ is not np.ndarray or not array.flags.carray:
            return False
        if dtype is None:
            dtype = array.dtype
        elif array.dtype != dtype:
            return False
    return dtype in FLOATS


def is_contiguous_float(array: Array) -> bool:
    """The same of one array, in half the time."""
    return array.__class__ is np.ndarray and array.flags.carray and array.dtype in FLOATS


def as_rows_of(array: np.ndarray, n: int) -> np.ndarray:
    """View an array as rows of n elements; a matrix of such rows is returned as it is."""
    return array if array.ndim == 2 and array.shape[1] == n else array.reshape(-1, n)


def contiguous_gradient(g: Array, like: Array) -> Any:
    """Return a gradient as a contiguous array, or None if its shape is not that of `like`.

    (The gradient of a sum is one broadcast element.)
    """
    if g.__class__ is np.ndarray and like.__class__ is np.ndarray and g.shape == like.shape:
        return writable_contiguous(g)
    return None


def writable_contiguous(g: Array) -> Array:
    """Return an array as a contiguous one that may be written, for which kernels are compiled.

    A broadcast over axes of length 1 (the gradient of `x.mean(1)` where x has one column) is
    contiguous, but read-only.
    """
    contiguous = np.ascontiguousarray(g)
    return contiguous if contiguous.flags.writeable else contiguous.copy()


def contiguous_rows(x: Array) -> Any:
    """Return an array with gaps between its rows (a slice of a wider one) as a contiguous copy."""
    if x.__class__ is not np.ndarray or x.flags.c_contiguous or x.ndim < 2:
        return x
    strides = x.strides
    in_order = strides[-1] == x.itemsize and all(a >= b for a, b in pairwise(strides))
    return np.ascontiguousarray(x) if in_order else x


def split_at_axis(shape: tuple[int, ...], dim: int) -> tuple[int, int, int]:
    """Return the number of elements before an axis, along it and after it."""
    if len(shape) == 2:  # the usual case, in half the time
        return (shape[0], shape[1], 1) if dim in (1, -1) else (1, shape[0], shape[1])
    dim %= len(shape)
    return math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])


def INT64_1D(dtype: types.Float) -> Any:
    """A contiguous array of int64, whatever the dtype of the others."""
    return types.int64[::1]


def INT64_2D(dtype: types.Float) -> Any:
    """A contiguous array of two axes of int64."""
    return types.int64[:, ::1]


def INT64_3D(dtype: types.Float) -> Any:
    """A contiguous array of three axes of int64."""
    return types.int64[:, :, ::1]
