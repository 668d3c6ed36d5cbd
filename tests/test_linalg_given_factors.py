"""Determinants of singular matrices, and what is computed with a Cholesky factor."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch import linalg

INF = float("inf")
rng = np.random.default_rng(3)
REAL = rng.standard_normal((2, 3, 3)) + 2 * np.eye(3)
COMPLEX = REAL + 1j * rng.standard_normal((2, 3, 3))  # with complex numbers on the diagonal, too
RIGHT = rng.standard_normal((2, 3, 2))

FACTORS = [(REAL, False), (REAL, True), (COMPLEX, False), (COMPLEX, True)]

USES = {
    "cholesky_inverse": lambda t, L, upper: t.cholesky_inverse(L, upper),
    "cholesky_solve": lambda t, L, upper: t.cholesky_solve(
        t.tensor(RIGHT).to(L.dtype) * (1 + 0.5j if L.is_complex() else 1), L, upper
    ),
}


def by_definition(name, factor, upper):
    """Compute with the matrix that a factor stands for: L Lᴴ, or Uᴴ U."""
    triangle = np.triu(factor).conj().swapaxes(-1, -2) if upper else np.tril(factor)
    inverse = np.linalg.inv(triangle @ triangle.conj().swapaxes(-1, -2))
    return inverse if name == "cholesky_inverse" else inverse @ (
        RIGHT * (1 + 0.5j if np.iscomplexobj(factor) else 1)
    )  # fmt: skip


@pytest.mark.parametrize(("factor", "upper"), FACTORS)
@pytest.mark.parametrize("name", USES)
def test_a_factor_stands_for_its_matrix(name, factor, upper):
    y = USES[name](edutorch, edutorch.tensor(factor), upper)
    np.testing.assert_allclose(y.numpy(), by_definition(name, factor, upper), rtol=1e-10)


@pytest.mark.parametrize(("factor", "upper"), FACTORS)
@pytest.mark.parametrize("name", USES)
def test_its_derivatives_by_all_numbers_also_those_that_are_not_read(name, factor, upper):
    L = edutorch.tensor(factor, requires_grad=True)
    assert edutorch.autograd.gradcheck(
        lambda L: USES[name](edutorch, L, upper), (L,), check_forward_ad=True
    )
    (g,) = edutorch.autograd.grad(USES[name](edutorch, L, upper).abs().sum(), L)
    unread = edutorch.tril(g, -1) if upper else edutorch.triu(g, 1)
    assert not unread.any()


@pytest.mark.oracle
@pytest.mark.parametrize(("factor", "upper"), FACTORS)
@pytest.mark.parametrize("name", USES)
def test_pytorch_agrees_where_the_other_triangle_is_zero(torch, name, factor, upper):
    """PyTorch's formulas use all numbers of the factor, and take its diagonal for a real one."""
    factor = np.triu(factor) if upper else np.tril(factor)
    diagonal = np.eye(3) * factor.imag * 1j if np.iscomplexobj(factor) else 0
    results = []
    for library in (edutorch, torch):
        L = library.tensor(factor - diagonal, requires_grad=True)
        y = USES[name](library, L, upper)
        (g,) = library.autograd.grad(y.abs().sum(), L)
        results.append((y.detach().numpy(), (library.triu if upper else library.tril)(g).numpy()))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-9)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-8, atol=1e-10)


# Determinants ------------------------------------------------------------------------------

ONES, ZEROS = [[1.0, 1.0], [1.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.filterwarnings("ignore::edutorch.core.autograd.engine.NonFiniteGradientWarning")
@pytest.mark.parametrize("name", ["slogdet", "logdet", "linalg.slogdet"])
def test_the_logarithm_of_a_singular_determinant_is_infinitely_steep(name):
    function = linalg.slogdet if name == "linalg.slogdet" else getattr(edutorch, name)
    A = edutorch.tensor([ONES, [[2.0, 1.0], [1.0, 3.0]], ZEROS], requires_grad=True)
    y = function(A)
    logarithm = y if name == "logdet" else y.logabsdet
    assert logarithm.tolist() == [-INF, pytest.approx(np.log(5)), -INF]
    (g,) = edutorch.autograd.grad(logarithm, A, edutorch.tensor([1.0, 2.0, 0.0]))
    assert g[0].tolist() == [[INF, -INF], [-INF, INF]]
    np.testing.assert_allclose(g[1], [[1.2, -0.4], [-0.4, 0.8]], rtol=1e-6)
    assert not g[2].any()  # what is not used brings nothing, not 0 · ∞


def test_with_nan_neither_the_sign_nor_the_logarithm_is_known():
    sign, logarithm = linalg.slogdet(edutorch.tensor([[float("nan"), 1.0], [1.0, 2.0]]))
    assert sign.isnan() and logarithm.isnan()


def test_the_gradient_of_an_infinite_determinant_is_not_refused():
    A = edutorch.tensor([[INF, 1.0], [1.0, 2.0]], requires_grad=True)
    (g,) = edutorch.autograd.grad(linalg.det(A), A)
    assert g[1, 1].item() == INF
