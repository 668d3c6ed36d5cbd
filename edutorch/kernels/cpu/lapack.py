"""Factorizations and triangular systems by LAPACK (`backends/lapack.py`), matrix by matrix.

There is nothing to compile here: these kernels are used without numba too. What is not finite,
singular matrices, and large batches of small ones are left to the definition, which computes a
whole batch at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends import lapack
from ...backends.blas import LONG, interruptible
from ...backends.kernel_registry import as_ndarray
from ...backends.numpy import Array, copy_row_major
from ...ops.cholesky import cholesky
from ...ops.linalg import matmul
from ...ops.lu import lu_factor_forward
from ...ops.solve import inv, solve_forward, solve_triangular_forward

lapack.multiply = matmul

MATRICES_PER_ROW = 4
"""A definition takes n steps for a whole batch, a kernel one call for each matrix."""


def keep_definition(*arguments: Any) -> None:
    """Handle no case."""


def is_suitable(*matrices: Array, square: bool = True) -> bool:
    """Return True for finite matrices of one dtype that LAPACK has, in batches of one shape."""
    first = matrices[0]
    if first.ndim < 2 or not first.size or first.dtype.char not in lapack.LETTERS:
        return False
    if square and first.shape[-1] != first.shape[-2]:
        return False
    shape = first.shape
    if len(shape) > 2 and math.prod(shape[:-2]) > MATRICES_PER_ROW * shape[-1]:
        return False
    if not first.dtype.isnative or not lapack.is_finite(as_ndarray(first)):
        return False
    for other in matrices[1:]:
        if not other.size or other.dtype != first.dtype or other.ndim != len(shape):
            return False
        if other.shape[:-2] != shape[:-2] or other.shape[-2] != shape[-1]:
            return False
        if not lapack.is_finite(as_ndarray(other)):
            return False
    return True


def map_matrices(function: Callable[..., Any], work: int, *matrices: Array, **settings: Any) -> Any:
    """Return the results of a function for each matrix of a batch; None if one of them is None.

    Args:
        work: the number of multiplications for one of them.
    """
    batch = matrices[0].shape[:-2]
    if work >= LONG:
        settings |= {"function": function}
        function = call_interruptible
    if not batch:
        return function(*map(as_ndarray, matrices), **settings)
    results = []
    for index in np.ndindex(*batch):
        result = function(*(as_ndarray(matrix[index]) for matrix in matrices), **settings)
        if result is None:
            return None
        results.append(result)
    if isinstance(results[0], tuple):
        return tuple(stack(parts, batch) for parts in zip(*results, strict=True))
    return stack(results, batch)


def call_interruptible(*matrices: Array, function: Callable[..., Any], **settings: Any) -> Any:
    """Call a function that may take a second such that Ctrl-C is raised at once."""
    return interruptible(function, *matrices, **settings)


def stack(results: Any, batch: tuple[int, ...]) -> Any:
    """Return the results of all matrices of a batch as one array."""
    return np.stack(results).reshape(*batch, *results[0].shape)


@cholesky.kernel("cpu", min_size=1)
def cholesky_factor() -> Callable[..., Any]:
    """Make the Cholesky factor."""
    if not lapack.is_available():
        return keep_definition

    def run(input: Array, upper: bool) -> Any:
        if not is_suitable(input):
            return None
        work = input.shape[-1] ** 3 // 3
        return map_matrices(lapack.factor_cholesky, work, input, upper=upper)

    return run


@inv.kernel("cpu", min_size=1)
def inverse() -> Callable[..., Any]:
    """Make the inverse."""
    if not lapack.is_available():
        return keep_definition

    def run(A: Array) -> Any:
        return map_matrices(lapack.invert, 2 * A.shape[-1] ** 3, A) if is_suitable(A) else None

    return run


@solve_forward.kernel("cpu", min_size=1)
def solution() -> Callable[..., Any]:
    """Make the solution of a system of linear equations."""
    if not lapack.is_available():
        return keep_definition

    def run(input: Array, other: Array) -> Any:
        if not is_suitable(input, other):
            return None
        n = input.shape[-1]
        return map_matrices(lapack.solve, n * n * (n // 3 + other.shape[-1]), input, other)

    return run


@solve_triangular_forward.kernel("cpu", min_size=1)
def triangular_solution() -> Callable[..., Any]:
    """Make the solution of a triangular system."""
    if not lapack.is_available():
        return keep_definition

    def substitute(matrix: Array, right: Array, *, upper: bool, unit: bool) -> Any:
        if not unit and not matrix.diagonal().all():
            return None
        x = copy_row_major(right)
        if not lapack.solve_triangle(matrix, x, upper=upper, unit=unit) or not lapack.is_finite(x):
            return None
        return x

    def run(input: Array, other: Array, upper: bool, unitriangular: bool) -> Any:
        if not is_suitable(input, other):
            return None
        work = input.shape[-1] ** 2 * other.shape[-1] // 2
        return map_matrices(substitute, work, input, other, upper=upper, unit=unitriangular)

    return run


@lu_factor_forward.kernel("cpu", min_size=1)
def lu_factors() -> Callable[..., Any]:
    """Make the LU factors with the pivots."""
    if not lapack.is_available():
        return keep_definition

    def factor(matrix: Array) -> Any:
        memory = copy_row_major(matrix.T)
        factors = lapack.factor_lu(memory, *matrix.shape)
        if factors is None or not lapack.is_finite(memory):
            return None
        pivots, info = factors
        return copy_row_major(memory.T), pivots.astype("int32"), np.array(info, "int32")

    def run(input: Array, pivot: bool) -> Any:
        if not pivot or not is_suitable(input, square=False):
            return None
        rows, columns = input.shape[-2:]
        return map_matrices(factor, rows * columns * min(rows, columns) // 2, input)

    return run
