"""What CuPy computes differently from NumPy, corrected: the `xp` of a GPU.

Read from the source of CuPy 14.2. The strict device imitates the library itself, with the same
differences, and uses this file as well: so the tests check it on machines without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .numpy import Array, Namespace

ATOMIC_IN = {
    "bool": np.int32, "uint8": np.int32, "int8": np.int32, "int16": np.int32, "uint16": np.int32,
    "float16": np.float32, "bfloat16": np.float32,
}  # fmt: skip
"""The dtype to accumulate in, where the GPU has no atomic addition or it would round each time."""


HALVES = ("float16", "bfloat16")


class CorrectedNamespace:
    """The members of CuPy, with NumPy's results where CuPy has others.

    Args:
        library: CuPy, or the strict device's imitation of it.
    """

    def __init__(self, library: Any) -> None:
        self.library = library

    def __getattr__(self, name: str) -> Any:
        member = getattr(self.library, name)
        setattr(self, name, member)
        return member

    # Zeros: CuPy clears memory for any value that equals 0, and loses the sign of -0.0 ---------

    def asarray(self, a: Any, dtype: Any = None, **settings: Any) -> Array:
        """Make an array of the device; the sign of -0.0 stays."""
        zero = negative_zero(a, dtype)
        if zero is None:
            return self.library.asarray(a, dtype=dtype, **settings)
        return self.library.asarray(zero.reshape(1), **settings).reshape(())

    # Division: CuPy rounds the quotient first, so that 2 // 0.4 is 5, and -5 % inf is NaN -------

    def fmod(self, a: Array, b: Array) -> Array:
        """The remainder with the sign of `a`; of integers too, which CuPy takes as float64."""
        xp = self.library
        if not is_integral(a, b):
            return xp.fmod(a, b)
        r = xp.remainder(a, b)
        return xp.where((r != 0) & ((a < 0) != (b < 0)), r - b, r)

    def remainder(self, a: Array, b: Array) -> Array:
        """The remainder with the sign of `b`, without rounding."""
        if is_integral(a, b):
            return self.library.remainder(a, b)
        return in_float32(self._remainder, a, b)

    def floor_divide(self, a: Array, b: Array) -> Array:
        """The largest whole number up to a / b, computed from the remainder as NumPy does."""
        if is_integral(a, b):
            return self.library.floor_divide(a, b)
        return in_float32(self._floor_divide, a, b)

    def _remainder(self, a: Array, b: Array) -> Array:
        xp = self.library
        r = xp.fmod(a, b)
        r = xp.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)
        return xp.where(r == 0, xp.copysign(r, b), r)

    def _floor_divide(self, a: Array, b: Array) -> Array:
        xp = self.library
        r = xp.fmod(a, b)
        quotient = (a - r) / b
        quotient = xp.where((r != 0) & ((r < 0) != (b < 0)), quotient - 1, quotient)
        whole = xp.floor(quotient)
        whole = xp.where(quotient - whole > 0.5, whole + 1, whole)
        exact = xp.true_divide(a, b)
        whole = xp.where(quotient == 0, xp.copysign(xp.zeros_like(exact), exact), whole)
        return xp.where(xp.equal(b, 0), exact, whole)

    # bfloat16: CuPy does not sort it. As float32 it has the same order, and NaN comes last --------

    def sort(self, a: Array, axis: int | None = -1, **settings: Any) -> Array:
        """The sorted elements."""
        y = self.library.sort(sortable(a), axis=axis, **settings)
        return y.astype(a.dtype, copy=False)

    def argsort(self, a: Array, axis: int | None = -1, **settings: Any) -> Array:
        """The indices that sort the elements."""
        return self.library.argsort(sortable(a), axis=axis, **settings)

    def partition(self, a: Array, kth: Any, axis: int | None = -1) -> Array:
        """The elements with those at `kth` in their places of the sorted array."""
        y = self.library.partition(sortable(a), kth, axis=axis)
        return y.astype(a.dtype, copy=False)

    def argpartition(self, a: Array, kth: Any, axis: int | None = -1) -> Array:
        """The indices of `partition`."""
        return self.library.argpartition(sortable(a), kth, axis=axis)

    def searchsorted(self, a: Array, v: Array, side: str = "left", sorter: Any = None) -> Array:
        """Where elements would have to be inserted to keep the order."""
        return self.library.searchsorted(sortable(a), sortable(v), side, sorter)

    # bfloat16: CuPy multiplies no batches of it ---------------------------------------------------

    def matmul(self, a: Array, b: Array) -> Array:
        """The matrix product; batches of bfloat16 are multiplied in float32."""
        if max(a.ndim, b.ndim) < 3 or not is_bfloat16(a, b):
            return self.library.matmul(a, b)
        return in_float32(self.library.matmul, a, b)

    def einsum(self, subscripts: str, *operands: Array, **settings: Any) -> Array:
        """Einstein's sum; several operands of bfloat16 are multiplied in float32."""
        if len(operands) < 2 or not is_bfloat16(*operands):
            return self.library.einsum(subscripts, *operands, **settings)
        wide = [x.astype(np.float32) if is_bfloat16(x) else x for x in operands]
        y = self.library.einsum(subscripts, *wide, **settings)
        return y.astype(operands[0].dtype) if all(map(is_bfloat16, operands)) else y

    # bfloat16: `where` has no loop for it, and gives float32 ------------------------------------

    def where(self, condition: Array, *values: Any) -> Any:
        """Choose per element; two values of bfloat16 (or one, and a number) stay bfloat16."""
        y = self.library.where(condition, *values)
        if not values or not any(has_dtype(value, "bfloat16") for value in values):
            return y
        others = [x for x in values if hasattr(x, "dtype") and not has_dtype(x, "bfloat16")]
        return y if others else y.astype(next(x.dtype for x in values if hasattr(x, "dtype")))

    def tril(self, m: Array, k: int = 0) -> Array:
        """The lower triangle, in the dtype of `m`."""
        return self.library.tril(m, k).astype(m.dtype, copy=False)

    def triu(self, m: Array, k: int = 0) -> Array:
        """The upper triangle, in the dtype of `m`."""
        return self.library.triu(m, k).astype(m.dtype, copy=False)

    # Neighbours: CuPy's next number of an infinite float16 is NaN --------------------------------

    def nextafter(self, a: Array, b: Array) -> Array:
        """The next number from `a` towards `b`; that of float16 is found in its bits."""
        xp = self.library
        if not (has_dtype(a, "float16") and has_dtype(b, "float16")):
            return xp.nextafter(a, b)
        a, b = xp.broadcast_arrays(a, b)
        bits = xp.ascontiguousarray(a).reshape(a.shape).view(np.int16)  # sign, then magnitude
        away = (a < b) == (a > 0)  # from 0
        stepped = (bits + xp.where(away, 1, -1).astype(np.int16)).view(np.float16)
        tiny = xp.copysign(xp.full_like(b, 2.0**-24), b)
        y = xp.where(a == 0, tiny, stepped)
        y = xp.where((a != a) | (b != b), a + b, y)
        return xp.where(a == b, b, y).astype(np.float16)

    # Scans: CuPy finds no axis in an array without axes -----------------------------------------

    def cumsum(self, a: Array, axis: int | None = None, dtype: Any = None) -> Array:
        """The cumulative sum; of a 0-d array, a vector of its element."""
        return self.library.cumsum(a if a.ndim else a.reshape(1), axis, dtype)

    def cumprod(self, a: Array, axis: int | None = None, dtype: Any = None) -> Array:
        """The cumulative product; of a 0-d array, a vector of its element."""
        return self.library.cumprod(a if a.ndim else a.reshape(1), axis, dtype)


def has_dtype(value: Any, name: str) -> bool:
    """Return True if a value is an array of this dtype."""
    return hasattr(value, "dtype") and value.dtype.name == name


def is_integral(a: Any, b: Any) -> bool:
    """Return True if two operands, arrays or numbers, are integers or bools."""
    return all(
        operand.dtype.kind in "iub" if hasattr(operand, "dtype") else isinstance(operand, int)
        for operand in (a, b)
    )


def is_bfloat16(*arrays: Array) -> bool:
    """Return True if one of several arrays is of bfloat16."""
    return any(array.dtype.name == "bfloat16" for array in arrays)


def sortable(array: Array) -> Array:
    """Return an array as one that CuPy sorts: bfloat16 as float32, which has all its numbers."""
    return array.astype(np.float32) if has_dtype(array, "bfloat16") else array


def in_float32(function: Callable[[Array, Array], Array], a: Any, b: Any) -> Array:
    """Call a function of two operands; those of 16 bits are computed in float32."""
    halves = [x.dtype for x in (a, b) if hasattr(x, "dtype") and x.dtype.name in HALVES]
    wide = [
        x.astype(np.float32) if hasattr(x, "dtype") and x.dtype in halves else x for x in (a, b)
    ]
    y = function(*wide)
    others = [x.dtype for x in (a, b) if hasattr(x, "dtype") and x.dtype not in halves]
    return y.astype(halves[0]) if halves and not others else y


def negative_zero(value: Any, dtype: Any = None) -> np.ndarray | None:
    """Return a number of the host as an array if it is -0.0 (or a complex zero with such parts)."""
    if not isinstance(value, (float, complex, np.generic, np.ndarray)) or np.ndim(value):
        return None
    with np.errstate(all="ignore"):
        host = np.asarray(value, dtype)
    if host.dtype.kind in "iub" or host != 0:
        return None
    is_negative = np.signbit(host.real) | np.signbit(host.imag)
    return host if bool(is_negative) else None


def scatter_add(xp: Namespace, target: Array, index: Any, values: Array) -> None:
    """Do `target[index] += values`, counting an index as often as it occurs.

    Types without an atomic addition accumulate in another one (`ATOMIC_IN`) and are rounded once.
    """
    dtype = target.dtype
    if dtype.kind == "c":  # the GPU adds real numbers atomically, not complex ones
        values = xp.asarray(values, dtype=dtype)
        xp.add.at(target.real, index, values.real)
        xp.add.at(target.imag, index, values.imag)
        return
    wide = ATOMIC_IN.get(dtype.name)
    if wide is None:
        xp.add.at(target, index, values)
        return
    total = target.astype(wide)
    xp.add.at(total, index, xp.asarray(values).astype(wide))
    target[...] = total.astype(dtype)
