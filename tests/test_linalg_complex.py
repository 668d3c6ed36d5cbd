"""Linear algebra of complex and real matrices against PyTorch: values and both derivatives.

Phases of eigenvectors and the like are arbitrary, so functions that do not depend on them are
compared.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import edutorch
from edutorch.autograd import gradcheck, gradgradcheck
from edutorch.errors import GradientError
from tests.oracle import require_torch
from tests.slopes import second_derivatives_agree
from tests.trials import tried

GENERATOR = np.random.default_rng(0)


def complex_numbers(*shape):
    return GENERATOR.normal(size=shape) + 1j * GENERATOR.normal(size=shape)


A = complex_numbers(2, 3, 3) + 2 * np.eye(3)
TALL, WIDE, B = complex_numbers(2, 4, 3), complex_numbers(2, 3, 4), complex_numbers(2, 3, 2)
ROWS, FACTORS = complex_numbers(2, 4, 2), complex_numbers(2, 3)
MATRIX, VECTOR, OTHER = A[0], A[0, 0], A[0, 1]


def positive(t, x):
    return x @ x.mH + t.eye(3, dtype=x.dtype)


def spectral(t, x, UPLO="L"):
    w, v = t.linalg.eigh(x + x.mH, UPLO)
    return (v * t.exp(w / 3)[..., None, :]) @ v.mH * w.sum()


def polar(t, x, full=False):
    u, s, vh = t.linalg.svd(x, full)
    k = s.shape[-1]
    return (u[..., :k] * t.sin(s)[..., None, :]) @ vh[..., :k, :] * s.sum()


def sizes_of_vectors(t, x):
    u, s, vh = t.linalg.svd(x, False)
    return t.cat([(u.abs() ** 2).flatten(), (vh.abs() ** 3).flatten(), s.flatten()])


def old_svd(t, x):
    u, _, v = t.svd(x)
    return t.cat([(u.abs() ** 2).flatten(), (v.abs() ** 3).flatten()])


def orthonormal(t, x, mode="reduced"):
    q, r = t.linalg.qr(x, mode)
    return t.cat([(q**2).flatten(), r.flatten() * r.abs().sum()])


def by_eigenvectors(t, x):
    w, v = t.linalg.eig(x)
    return (v * t.exp(w / 3)[..., None, :]) @ t.linalg.inv(v)


def triangles(t, x):
    return t.cat([factor.flatten() for factor in t.linalg.lu(x)])


def lu_solve(**how):
    def function(t, x, b):
        b = b if how.get("left", True) else b.mT
        return t.linalg.lu_solve(*t.linalg.lu_factor(x), b, **how)

    return function


# name: (function of the module and the matrices, the matrices)
CASES = {
    "inv": (lambda t, x: t.linalg.inv(x), A),
    "det": (lambda t, x: t.linalg.det(x), A),
    "slogdet": (lambda t, x: t.linalg.slogdet(x)[1] * 2 + t.linalg.slogdet(x)[0], A),
    "logdet": (lambda t, x: t.logdet(positive(t, x)), A),
    "solve": (lambda t, x, b: t.linalg.solve(x, b), A, B),
    "solve right": (lambda t, x, b: t.linalg.solve(x, b.mT, left=False), A, B),
    "cholesky": (lambda t, x: t.linalg.cholesky(positive(t, x)), A),
    "cholesky upper": (lambda t, x: t.linalg.cholesky(positive(t, x), upper=True), A),
    "cholesky_solve": (lambda t, x, b: t.cholesky_solve(b, t.cholesky(positive(t, x))), A, B),
    "cholesky_inverse": (lambda t, x: t.cholesky_inverse(t.cholesky(positive(t, x))), A),
    "eigh": (spectral, A),
    "eigh upper": (lambda t, x: spectral(t, x, "U"), A),
    "eig": (by_eigenvectors, A),
    "eigvals": (lambda t, x: (t.linalg.eigvals(x) ** 3).sum(-1), A),
    "svd square": (polar, A),
    "svd tall": (polar, TALL),
    "svd wide": (polar, WIDE),
    "svd full": (lambda t, x: polar(t, x, True), A),
    "U and V square": (sizes_of_vectors, A),
    "U and V tall": (sizes_of_vectors, TALL),
    "U and V wide": (sizes_of_vectors, WIDE),
    "old svd": (old_svd, TALL),
    "qr square": (orthonormal, A),
    "qr tall": (orthonormal, TALL),
    "qr wide": (orthonormal, WIDE),
    "qr complete": (lambda t, x: orthonormal(t, x, "complete"), WIDE),
    "pinv tall": (lambda t, x: t.linalg.pinv(x), TALL),
    "pinv wide": (lambda t, x: t.linalg.pinv(x), WIDE),
    "pinv hermitian": (lambda t, x: t.linalg.pinv(x + x.mH, hermitian=True), A),
    "lstsq": (lambda t, x, b: t.linalg.lstsq(x, b)[0], TALL, ROWS),
    "lu square": (triangles, A),
    "lu tall": (triangles, TALL),
    "lu wide": (triangles, WIDE),
    "lu_solve": (lu_solve(), A, B),
    "lu_solve adjoint": (lu_solve(adjoint=True), A, B),
    "lu_solve right": (lu_solve(left=False), A, B),
    "lu_solve right adjoint": (lu_solve(left=False, adjoint=True), A, B),
    "solve_triangular": (lambda t, x, b: t.linalg.solve_triangular(x, b, upper=True), A, B),
    "solve_triangular right": (
        lambda t, x, b: t.linalg.solve_triangular(
            x, b.mT, upper=False, left=False, unitriangular=True
        ),
        A, B,
    ),
    "triangular_solve": (lambda t, x, b: t.triangular_solve(b, x, True, True)[0], A, B),
    "matrix_exp": (lambda t, x: t.linalg.matrix_exp(x), A),
    "matrix_power": (lambda t, x: t.linalg.matrix_power(x, -3), A),
    "householder_product": (lambda t, x, f: t.linalg.householder_product(x, f), TALL, FACTORS),
    "ormqr": (lambda t, x, f, c: t.ormqr(x, f, c, True, True), TALL, FACTORS, ROWS),
    "ormqr right": (lambda t, x, f, c: t.ormqr(x, f, c.mT + 0, False, False), TALL, FACTORS, ROWS),
    "cond": (lambda t, x: t.linalg.cond(x), TALL),
    "cond -2": (lambda t, x: t.linalg.cond(x, -2), A),
    "tensorinv": (lambda t, x: t.linalg.tensorinv(x.reshape(3, 3, 1), 1), MATRIX),
    "tensorsolve": (lambda t, x, b: t.linalg.tensorsolve(x, b), MATRIX, VECTOR),
    "vander": (lambda t, x: t.linalg.vander(x[..., 0], N=4), A),
    "vecdot": (lambda t, x, y: t.linalg.vecdot(x, y, dim=-2), A, MATRIX),
    "vdot": (lambda t, x, y: t.vdot(x, y), VECTOR, OTHER),
    "dot": (lambda t, x, y: t.dot(x, y), VECTOR, OTHER),
    "cov": (lambda t, x: t.cov(x), TALL[0]),
    "corrcoef": (lambda t, x: t.corrcoef(x), TALL[0]),
    "addr": (lambda t, x, y, z: t.addr(x, y, z, beta=0.5, alpha=2), MATRIX, VECTOR, OTHER),
    "addbmm": (lambda t, x, y: t.addbmm(x, y, y, beta=0.5, alpha=2), MATRIX, A),
    "dist": (lambda t, x, y: t.dist(x, y, 3), A, OTHER),
    "renorm": (lambda t, x: t.renorm(x, 2, 1, 1.5), A),
    "var": (lambda t, x: t.var(x, 1), A),
    "std": (lambda t, x: t.std(x, (0, 2), correction=0), A),
    "adjoint": (lambda t, x: x[0].H @ x.mH @ x.adjoint(), A),
    "block_diag": (lambda t, x, y: t.block_diag(x, y, y[0]), MATRIX, ROWS[0]),
    "chain_matmul": (lambda t, x: t.chain_matmul(x, x.T, x), MATRIX),
    "nuclear_norm": (lambda t, x: t.nuclear_norm(x, (0, 1), True), A),
    "frobenius_norm": (lambda t, x: t.frobenius_norm(x, (0, 1)), A),
}  # fmt: skip
for order in (0.5, 1, 2, 3, math.inf, -math.inf):
    CASES[f"vector_norm {order}"] = (
        lambda t, x, order=order: t.linalg.vector_norm(x, order, -1), A,
    )  # fmt: skip
for order in ("fro", "nuc", 1, -1, 2, -2, math.inf):
    CASES[f"matrix_norm {order}"] = (lambda t, x, order=order: t.linalg.matrix_norm(x, order), A)
each_case = pytest.mark.parametrize("name", CASES)
dtype_kinds = tried("dtype_kind", ["complex", "real"])


def inputs_of(name, dtype_kind):
    function, *arrays = CASES[name]
    return function, [
        array.copy() if dtype_kind == "complex" else array.real.copy() for array in arrays
    ]


def loss(y):
    return (y * (0.3 + 0.2j)).real.sum() + (y.abs() ** 2).sum()


@dtype_kinds
@each_case
def test_numbers_and_gradients_are_pytorchs(name, dtype_kind, device):
    torch = require_torch()
    function, arrays = inputs_of(name, dtype_kind)
    theirs = [torch.tensor(array, requires_grad=True) for array in arrays]
    ours = [edutorch.tensor(array, requires_grad=True, device=device) for array in arrays]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's about old names
        expected = function(torch, *theirs)
    result = function(edutorch, *ours)
    assert result.device == ours[0].device and result.shape == tuple(expected.shape)
    assert str(result.dtype) == str(expected.dtype)
    wanted = expected.detach().resolve_conj().numpy()
    np.testing.assert_allclose(result.detach().cpu().numpy(), wanted, rtol=1e-8, atol=1e-9)
    loss(expected).backward()
    loss(result).backward()
    for x, y in zip(ours, theirs, strict=True):
        wanted = y.grad.resolve_conj().numpy()
        np.testing.assert_allclose(x.grad.cpu().numpy(), wanted, rtol=1e-6, atol=1e-8)


@dtype_kinds
@each_case
def test_both_derivatives_are_those_of_the_numbers(name, dtype_kind):
    function, arrays = inputs_of(name, dtype_kind)
    tensors = [edutorch.tensor(array, requires_grad=True) for array in arrays]
    assert gradcheck(lambda *x: function(edutorch, *x), tensors)
    assert second_derivatives_agree(lambda *x: function(edutorch, *x), tensors)


@pytest.mark.slow
@dtype_kinds
@each_case
def test_second_derivatives_number_by_number(name, dtype_kind):
    function, arrays = inputs_of(name, dtype_kind)
    tensors = [edutorch.tensor(array, requires_grad=True) for array in arrays]
    assert gradgradcheck(lambda *x: function(edutorch, *x), tensors)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("eigh", lambda x: edutorch.linalg.eigh(x + x.mH).eigenvectors),
        ("eig", lambda x: edutorch.linalg.eig(x).eigenvectors),
        ("svd", lambda x: edutorch.linalg.svd(x).U),
    ],
)
def test_a_loss_that_depends_on_phases_is_refused(name, function):
    x = edutorch.tensor(A, requires_grad=True)
    with pytest.raises(GradientError, match=rf"linalg.{name}: .*phase[\s\S]*hint"):
        function(x).imag.sum().backward()


SINGULAR = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])


@pytest.mark.parametrize(
    "matrix", [SINGULAR, np.stack([SINGULAR, np.eye(3)]), (1 + 0.3j) * SINGULAR, np.zeros((2, 2))]
)
def test_the_determinant_of_a_singular_matrix_has_both_derivatives(matrix):
    x = edutorch.tensor(matrix, requires_grad=True)
    assert gradcheck(edutorch.linalg.det, x)
    assert gradgradcheck(edutorch.linalg.det, x)


@pytest.mark.parametrize("rank", [0, 1])
def test_the_determinant_is_flat_where_two_singular_values_are_zero(rank):
    x = edutorch.tensor(rank * np.outer([1.0, 2.0, 3.0], [3.0, 1.0, 2.0]), requires_grad=True)
    edutorch.linalg.det(x).backward()
    assert x.grad.abs().max() < 1e-12


def test_the_length_of_a_vector_with_zeros_has_a_second_derivative():
    x = edutorch.tensor([0.0, 3.0, 0.0], dtype=edutorch.float64, requires_grad=True)
    assert gradgradcheck(edutorch.linalg.vector_norm, x)
