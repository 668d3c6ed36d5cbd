"""LAPACK's factorizations, called in the library that NumPy bundles (see `blas.py`).

`numpy.linalg` copies each matrix into column-major order and back, and has neither triangular
systems nor LU factors. LAPACK reads a row-major matrix as its transpose; so here each routine is
asked for the factors of the transpose, which in row-major order are those that are wanted.

All functions take single matrices of one dtype in `LETTERS`, and return None if the library lacks
the routine or the result is not finite: the caller's definition then says what it is.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, lru_cache
from math import isfinite
from typing import Any

import numpy as np

from .addresses import address_of
from .blas import blas
from .numpy import copy_row_major

__all__ = [
    "LETTERS", "factor_cholesky", "factor_lu", "invert", "is_available", "row_order", "solve",
    "solve_triangle",
]  # fmt: skip

LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
"""The first letter of a routine's name, by the character of NumPy's dtype."""

ROW_MAJOR, NO_TRANSPOSE, TRANSPOSE, UPPER, LOWER = 101, 111, 112, 121, 122
NON_UNIT, UNIT, LEFT = 131, 132, 141

SMALL = 64
"""Of so many rows the copy of the transpose takes less time than a call."""

CLEARED_ROWS = 64
"""The rows of a triangle that are cleared at once."""


@cache
def integer_type() -> Any:
    """Return the type of integers in the library."""
    library = blas()
    return ctypes.c_int64 if library is not None and library.suffix == "64_" else ctypes.c_int32


@cache
def integer_dtype() -> np.dtype[Any]:
    """Return the same as NumPy's dtype, which takes 5 µs to find it."""
    return np.dtype(integer_type())


@cache
def routine(name: str, character: str) -> Any:
    """Return a function of LAPACK ("potrf_") or of BLAS ("cblas_trsm") for a dtype, or None."""
    library = blas()
    if library is None:
        return None
    is_blas, letter = name.startswith("cblas_"), LETTERS[character]
    function = library.function(
        f"cblas_{letter}{name.removeprefix('cblas_')}" if is_blas else letter + name
    )
    if function is not None:
        function.restype = None
    return function


def is_available() -> bool:
    """Return True if the library has the routines."""
    library = blas()
    return library is not None and library.name == "openblas" and routine("getrf_", "f") is not None


@lru_cache(256)
def constant(value: int) -> Any:
    """Return an integer as Fortran takes it, by its address; no routine writes to it."""
    return ctypes.byref(integer_type()(value))


def call(function: Any, *arguments: Any) -> int:
    """Call a Fortran routine, whose last argument is `info`, and return that.

    Strings are passed with their lengths, behind all other arguments.
    """
    info = integer_type()(0)
    passed = [
        constant(value) if value.__class__ is int
        else value if value.__class__ is bytes else ctypes.c_void_p(address_of(value))
        for value in arguments
    ]  # fmt: skip
    lengths = [ctypes.c_size_t(1) for value in arguments if value.__class__ is bytes]
    function(*passed, ctypes.byref(info), *lengths)
    return info.value


def storage_order(matrix: np.ndarray) -> tuple[np.ndarray, bool, int] | None:
    """Return a matrix, whether its memory holds the transpose, and the stride of its rows."""
    (down, along), (rows, columns), size = matrix.strides, matrix.shape, matrix.itemsize
    if matrix.flags.aligned:
        if along == size and down >= columns * size and down % size == 0:
            return matrix, False, down // size
        if down == size and along >= rows * size and along % size == 0:
            return matrix, True, along // size
    return np.ascontiguousarray(matrix), False, columns


def is_finite(array: np.ndarray) -> bool:
    """Return True if all elements are finite, as far as the sum of their squares tells."""
    flags = array.flags
    flat = array.ravel("K") if flags.c_contiguous or flags.f_contiguous else array.flatten()
    return isfinite(abs(flat.dot(flat).item()))


# Triangular systems ------------------------------------------------------------------------------

UNDIVIDED_ROWS, MIN_COLUMNS = 128, 64
"""A triangular system of more rows, with so many right-hand sides, is divided into two."""

multiply: Callable[[Any, Any], Any] = np.matmul
"""The product of two matrices; `kernels/cpu/lapack.py` sets it to the one on all threads."""


def solve_triangle(
    matrix: np.ndarray, x: np.ndarray, *, upper: bool, unit: bool, transpose: bool = False
) -> bool:
    """Replace the right-hand sides `x`, contiguous rows, by the solutions of a triangular system.

    BLAS has one thread here, and products have all of them (`multiply`): so of many rows the first
    half is solved, and then the others given those.

    Returns: whether that was possible.
    """
    function = routine("cblas_trsm", x.dtype.char)
    if function is None:
        return False
    if transpose:
        matrix, upper = matrix.T, not upper
    n = len(matrix)
    if n > UNDIVIDED_ROWS and x.shape[1] >= MIN_COLUMNS:
        head, tail = slice(None, n // 2), slice(n // 2, None)
        first, last = (tail, head) if upper else (head, tail)
        solve_triangle(matrix[first, first], x[first], upper=upper, unit=unit)
        x[last] -= multiply(matrix[last, first], x[first])
        return solve_triangle(matrix[last, last], x[last], upper=upper, unit=unit)
    integer = integer_type()
    matrix, is_transposed, stride = storage_order(matrix)  # type: ignore[misc]
    factor: Any = {"f": ctypes.c_float, "d": ctypes.c_double}.get(x.dtype.char)
    one = np.ones(1, x.dtype)
    rows, columns = x.shape
    function(
        ROW_MAJOR, LEFT, UPPER if upper != is_transposed else LOWER,
        TRANSPOSE if is_transposed else NO_TRANSPOSE, UNIT if unit else NON_UNIT,
        integer(rows), integer(columns),
        factor(1) if factor is not None else ctypes.c_void_p(address_of(one)),
        ctypes.c_void_p(address_of(matrix)), integer(stride),
        ctypes.c_void_p(address_of(x)), integer(columns),
    )  # fmt: skip
    return True


# Cholesky ----------------------------------------------------------------------------------------


def factor_cholesky(matrix: np.ndarray, upper: bool) -> np.ndarray | None:
    """Return the triangle L with A = L Lᴴ (or the upper one, Lᴴ); the other one is not read."""
    function = routine("potrf_", matrix.dtype.char)
    if function is None:
        return None
    factor = copy_row_major(matrix)
    n = len(factor)
    # In column-major order the same memory is the transpose: of it, the other triangle.
    if call(function, b"L" if upper else b"U", n, factor, n) != 0:
        return None
    # LAPACK does not report NaN; of a NaN in one column, all that follows becomes NaN as well.
    if factor[-1, -1] != factor[-1, -1]:
        return None
    clear_triangle(factor, upper)
    return factor


def clear_triangle(matrix: np.ndarray, upper: bool) -> None:
    """Set all below the diagonal to 0, or above it if the `upper` triangle is not to be kept."""
    n = len(matrix)
    if n <= CLEARED_ROWS:
        np.putmask(matrix, strict_triangle(n, not upper), 0)
        return
    for start in range(0, n, CLEARED_ROWS):
        stop = min(start + CLEARED_ROWS, n)
        rows = matrix[start:stop]
        if upper:
            rows[:, :start] = 0
        else:
            rows[:, stop:] = 0
        np.putmask(rows[:, start:stop], strict_triangle(stop - start, not upper), 0)


@cache
def strict_triangle(n: int, upper: bool) -> np.ndarray:
    """Return the mask of what is above (or below) the diagonal."""
    index = np.arange(n)
    return index[:, None] < index if upper else index[:, None] > index


# LU ----------------------------------------------------------------------------------------------


def factor_lu(memory: np.ndarray, rows: int, columns: int) -> tuple[np.ndarray, int] | None:
    """Replace a column-major matrix by its factors L and U.

    Args:
        memory: the matrix; as a row-major array it is the transpose.

    Returns: the row that each row was exchanged with, from 1, and the first zero on U's diagonal.
    """
    function = routine("getrf_", memory.dtype.char)
    if function is None:
        return None
    pivots = np.empty(min(rows, columns), integer_dtype())
    return pivots, call(function, rows, columns, memory, rows, pivots)


def solve(matrix: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """Return the X with A X = B; None for a singular A, too."""
    n = len(matrix)
    # A is factored in its own memory order. In row-major order that is Aᵀ = P L U, so A = Uᵀ Lᵀ Pᵀ,
    # and Uᵀ is a lower triangle there: no matrix has to be transposed.
    is_transposed = matrix.strides[0] == matrix.itemsize and matrix.strides[1] != matrix.itemsize
    memory = copy_row_major(matrix.T if is_transposed else matrix)
    factors = factor_lu(memory, n, n)
    if factors is None or factors[1]:
        return None
    pivots, _ = factors
    if n <= SMALL or right.shape[1] == 1:  # one call, of the transposes
        x = copy_row_major(right.T)
        letter = b"N" if is_transposed else b"T"
        call(routine("getrs_", x.dtype.char), letter, n, len(x), memory, n, pivots, x, n)
        return np.ascontiguousarray(x.T) if is_finite(x) else None
    x = copy_row_major(right)
    if is_transposed:
        x = x[row_order(pivots, n)]
        solve_triangle(memory, x, upper=True, unit=True, transpose=True)
        solve_triangle(memory, x, upper=False, unit=False, transpose=True)
    else:
        solve_triangle(memory, x, upper=False, unit=False)
        solve_triangle(memory, x, upper=True, unit=True)
        x = x[row_order(pivots, n, backward=True)]
    return x if is_finite(x) else None


def row_order(pivots: np.ndarray, n: int, backward: bool = False) -> list[int]:
    """Return the order of rows after the exchanges, in their order or the opposite one."""
    order = list(range(n))
    steps = list(enumerate((pivots - 1).tolist()))
    for row, other in reversed(steps) if backward else steps:
        order[row], order[other] = order[other], order[row]
    return order


def invert(matrix: np.ndarray) -> np.ndarray | None:
    """Return the inverse; None for a singular matrix, too."""
    function = routine("getri_", matrix.dtype.char)
    if function is None:
        return None
    n = len(matrix)
    if n <= SMALL:
        return solve(matrix, np.eye(n, dtype=matrix.dtype))
    inverse = copy_row_major(matrix)  # the inverse of the transpose is that of the inverse
    factors = factor_lu(inverse, n, n)
    if factors is None or factors[1]:
        return None
    work = np.empty(max(1, 64 * n), matrix.dtype)
    if call(function, n, inverse, n, factors[0], work, work.size) != 0:
        return None
    return inverse if is_finite(inverse) else None
