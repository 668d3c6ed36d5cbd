"""Factorizations by LAPACK: equal to their definitions."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch import linalg, tensor
from edutorch.backends import lapack, reference_only
from edutorch.backends.addresses import address_of

pytestmark = pytest.mark.skipif(not lapack.is_available(), reason="NumPy's BLAS is another one")

CALLS = {
    "cholesky": lambda A, B: linalg.cholesky(A @ A.mH),
    "cholesky, upper": lambda A, B: linalg.cholesky(A @ A.mH, upper=True),
    "inv": lambda A, B: linalg.inv(A),
    "solve": linalg.solve,
    "solve a vector": lambda A, B: linalg.solve(A, B[..., :1]),
    "lower": lambda A, B: linalg.solve_triangular(A, B, upper=False),
    "upper, unit": lambda A, B: linalg.solve_triangular(A, B, upper=True, unitriangular=True),
    "right": lambda A, B: linalg.solve_triangular(A, B.mT, upper=True, left=False),
    "LU": lambda A, B: linalg.lu_factor(A).LU,
    "pivots": lambda A, B: linalg.lu_factor(A).pivots,
    "LU of rows": lambda A, B: linalg.lu_factor(A[..., :3, :]).LU,
}


def make_matrices(dtype: str, batch: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    n = 40 if not batch else 5
    A, B = (rng.standard_normal((2, *batch, n, size)) for size in (n, 3))
    A = A[0] + (1j * A[1] if "complex" in dtype else 0) + 3 * n**0.5 * np.eye(n)
    return A.astype(dtype), B[0].astype(dtype)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_equals_its_definition(call, dtype):
    for batch in ((), (2, 3)):
        A, B = map(tensor, make_matrices(dtype, batch))
        for matrix in (A, A.mT.contiguous().mT, A.mT, A.repeat_interleave(2, -1)[..., ::2]):
            result = call(matrix, B)
            with reference_only():
                expected = call(matrix, B)
            tolerance = 1e-4 if edutorch.finfo(A.dtype).eps > 1e-10 else 1e-11
            assert result.dtype is expected.dtype and result.shape == expected.shape
            assert edutorch.allclose(result, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["inv", "solve", "lower", "LU", "pivots"])
@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_what_is_not_finite_is_left_to_the_definition(name, value):
    A, B = map(tensor, make_matrices("float32", ()))
    A[1, 0] = value
    A[2, 2] = value
    try:
        result = CALLS[name](A, B)
    except edutorch.linalg.LinAlgError:
        result = None
    with reference_only():
        if result is None:
            with pytest.raises(edutorch.linalg.LinAlgError):
                CALLS[name](A, B)
        else:
            expected = CALLS[name](A, B)
            assert edutorch.allclose(result, expected, 1e-4, 1e-4, equal_nan=True)


def test_the_triangle_that_is_not_read_may_hold_anything():
    A = tensor([[2.0, np.nan], [1.0, 1.0]])
    assert linalg.solve_triangular(A, tensor([[4.0], [5.0]]), upper=False).tolist() == [[2], [3]]
    assert edutorch.allclose(linalg.cholesky(A), tensor([[2**0.5, 0], [0.5**0.5] * 2]))


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("order", "CF")
def test_a_large_triangle_is_divided(upper, transpose, order):
    rng = np.random.default_rng(1)
    n, columns = 2 * lapack.UNDIVIDED_ROWS + 5, lapack.MIN_COLUMNS + 1
    matrix = np.array(rng.standard_normal((n, n)) + n * np.eye(n), order=order)
    right = rng.standard_normal((n, columns))
    solution = right.copy()
    assert lapack.solve_triangle(matrix, solution, upper=upper, unit=False, transpose=transpose)
    triangle = np.triu(matrix) if upper else np.tril(matrix)
    np.testing.assert_allclose((triangle.T if transpose else triangle) @ solution, right, atol=1e-9)


@pytest.mark.parametrize("make", [np.array, lambda x: np.array(x)[1:], lambda x: np.array(x)[::-1]])
def test_addresses_are_those_of_numpy(make):
    array = make([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert address_of(array) == array.ctypes.data
