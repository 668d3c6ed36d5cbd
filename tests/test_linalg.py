"""edutorch.linalg against PyTorch: values, derivatives of both orders, errors.

Signs of eigenvectors and the like are arbitrary, so functions that do not depend on them are
compared.
"""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

import edutorch
from edutorch.autograd import gradcheck, gradgradcheck
from edutorch.errors import GradientError
from tests.oracle import require_torch

GENERATOR = np.random.default_rng(0)
SQUARE = GENERATOR.normal(size=(2, 3, 3)) + 2 * np.eye(3)
TALL, WIDE = GENERATOR.normal(size=(2, 4, 3)), GENERATOR.normal(size=(2, 3))
VECTOR = GENERATOR.normal(size=(3,))


def symmetric(x):
    return x + x.mT


def positive(x):
    return x @ x.mT + 0.5 * (x[..., :1, :1] ** 2 + 1) * x.new_tensor(np.eye(3).tolist())


def spectral(torch, x, UPLO="L"):
    w, v = torch.linalg.eigh(symmetric(x), UPLO)
    return (v * torch.exp(w / 3)[..., None, :]) @ v.mT * w.sum()


def polar(torch, x, full=False):
    u, s, vh = torch.linalg.svd(x, full)
    k = s.shape[-1]
    return (u[..., :k] * torch.sin(s)[..., None, :]) @ vh[..., :k, :] * s.sum()


def orthonormal(torch, x, mode="reduced"):
    q, r = torch.linalg.qr(x, mode)
    return torch.cat([torch.tanh(q).flatten() * r.sum(), r.flatten() ** 2])


CASES = {
    "inv": (lambda t, x: t.linalg.inv(x), SQUARE),
    "det": (lambda t, x: t.linalg.det(x), SQUARE),
    "slogdet": (lambda t, x: t.linalg.slogdet(x)[1] * t.linalg.slogdet(x)[0], SQUARE),
    "solve vector": (lambda t, x: t.linalg.solve(x, x.new_tensor(VECTOR.tolist())), SQUARE),
    "solve vectors": (lambda t, x: t.linalg.solve(x, x[..., 0] ** 2), SQUARE),
    "solve matrices": (lambda t, x: t.linalg.solve(x, t.sin(x[:1, :, :2])), SQUARE),
    "solve right": (lambda t, x: t.linalg.solve(x, t.sin(x[:1, :2, :]), left=False), SQUARE),
    "cholesky": (lambda t, x: t.linalg.cholesky(positive(x)), SQUARE),
    "cholesky upper": (lambda t, x: t.linalg.cholesky(positive(x), upper=True), SQUARE),
    "eigh": (spectral, SQUARE),
    "eigh upper": (lambda t, x: spectral(t, x, "U"), SQUARE),
    "eigvalsh": (lambda t, x: t.linalg.eigvalsh(symmetric(x)), SQUARE),
    "svd square": (polar, SQUARE),
    "svd tall": (polar, TALL),
    "svd wide": (polar, WIDE),
    "svd full": (lambda t, x: polar(t, x, True), SQUARE),
    "svdvals": (lambda t, x: t.linalg.svdvals(x), TALL),
    "qr square": (orthonormal, SQUARE),
    "qr tall": (orthonormal, TALL),
    "qr wide": (orthonormal, WIDE),
    "pinv tall": (lambda t, x: t.linalg.pinv(x), TALL),
    "pinv wide": (lambda t, x: t.linalg.pinv(x), WIDE),
    "lstsq": (lambda t, x: t.linalg.lstsq(x, t.cos(x[..., :2]))[0], TALL),
    "matrix_power": (lambda t, x: t.linalg.matrix_power(x, 5), SQUARE),
    "matrix_power 0": (lambda t, x: t.linalg.matrix_power(x, 0) * x, SQUARE),
    "matrix_power -2": (lambda t, x: t.linalg.matrix_power(x, -2), SQUARE),
    "multi_dot": (
        lambda t, x: t.linalg.multi_dot([x[0, 0], x[0].T, x[1], x[1].T, x[1, :, 2]]),
        TALL,
    ),
    "cross": (lambda t, x: t.linalg.cross(x, t.sin(x.flip(0))), WIDE),
    "vector_norm": (lambda t, x: t.linalg.vector_norm(x), TALL),
    "norm": (lambda t, x: t.linalg.norm(x), TALL),
    "norm of rows": (lambda t, x: t.linalg.norm(x, 3, dim=-1, keepdim=True), TALL),
    "norm of a matrix": (lambda t, x: t.linalg.norm(x, "nuc"), WIDE),
    "diagonal": (lambda t, x: t.linalg.diagonal(x, offset=1) ** 2, TALL),
}
for order in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
    CASES[f"matrix_norm {order}"] = (
        lambda t, x, order=order: t.linalg.matrix_norm(x, order, dim=(0, -1), keepdim=True),
        TALL,
    )
each_case = pytest.mark.parametrize("name", CASES)


@each_case
def test_numbers_and_gradients_are_pytorchs(name, device):
    torch = require_torch()
    function, start = CASES[name]
    theirs = torch.tensor(start, requires_grad=True)
    ours = edutorch.tensor(start, requires_grad=True, device=device)
    expected, result = function(torch, theirs), function(edutorch, ours)
    assert result.device == ours.device and result.shape == tuple(expected.shape)
    np.testing.assert_allclose(result.detach().cpu().numpy(), expected.detach().numpy(), atol=1e-9)
    torch.sin(expected).sum().backward()
    edutorch.sin(result).sum().backward()
    np.testing.assert_allclose(ours.grad.cpu().numpy(), theirs.grad.numpy(), rtol=1e-6, atol=1e-8)


@each_case
def test_both_derivatives_are_those_of_the_numbers(name):
    function, start = CASES[name]
    x = edutorch.tensor(start, requires_grad=True)
    assert gradcheck(lambda x: function(edutorch, x), x)
    assert gradgradcheck(lambda x: function(edutorch, x), x)


@pytest.mark.parametrize(
    ("name", "start", "options"),
    [
        ("svd", TALL, {}), ("qr", TALL, {"mode": "complete"}), ("qr", TALL, {"mode": "r"}),
        ("eigh", SQUARE + SQUARE.swapaxes(-1, -2), {}), ("slogdet", SQUARE, {}),
        ("lstsq", TALL, {"driver": "gelsd"}),
    ],
)  # fmt: skip
def test_results_have_pytorchs_fields(name, start, options):
    torch = require_torch()
    inputs = (start, np.cos(start)) if name == "lstsq" else (start,)
    expected = getattr(torch.linalg, name)(*map(torch.tensor, inputs), **options)
    result = getattr(edutorch.linalg, name)(*map(edutorch.tensor, inputs), **options)
    for field in result._fields:
        theirs, ours = getattr(expected, field).numpy(), getattr(result, field).numpy()
        np.testing.assert_allclose(abs(ours), abs(theirs), atol=1e-9)  # signs are open


def test_the_rank_counts_what_is_not_zero():
    assert edutorch.linalg.lstsq(edutorch.ones(3, 2), edutorch.ones(3, 1)).rank.item() == 1


def test_complete_qr_of_a_tall_matrix_says_that_it_has_no_derivative():
    x = edutorch.tensor(TALL, requires_grad=True)
    with pytest.raises(edutorch.errors.GradientError, match=r"'complete'[\s\S]*hint"):
        edutorch.linalg.qr(x, "complete").Q.sum().backward()


@pytest.mark.parametrize("name", ["inv", "solve"])
def test_a_singular_matrix_is_said_to_be_one(name):
    zeros = edutorch.zeros(2, 2)
    arguments = (zeros, edutorch.ones(2)) if name == "solve" else (zeros,)
    with pytest.raises(
        edutorch.linalg.LinAlgError, match=rf"linalg.{name}: .* singular[\s\S]*hint"
    ):
        getattr(edutorch.linalg, name)(*arguments)
    assert issubclass(edutorch.linalg.LinAlgError, RuntimeError)


def test_a_matrix_that_is_not_positive_has_no_cholesky_factor():
    with pytest.raises(edutorch.linalg.LinAlgError, match="not positive-definite"):
        edutorch.linalg.cholesky(-edutorch.eye(2))


@pytest.mark.parametrize("name", ["inv", "det", "slogdet", "cholesky", "eigh"])
def test_other_shapes_are_refused_with_a_hint(name):
    with pytest.raises(edutorch.errors.ShapeError, match=r"square[\s\S]*hint"):
        getattr(edutorch.linalg, name)(edutorch.ones(2, 3))
    with pytest.raises(edutorch.errors.ShapeError, match="expected a matrix"):
        getattr(edutorch.linalg, name)(edutorch.ones(3))
    with pytest.raises(edutorch.errors.DTypeError, match="float32 or float64"):
        getattr(edutorch.linalg, name)(edutorch.ones(2, 2, dtype=edutorch.int64))


def test_equal_eigenvalues_have_a_gradient_where_vectors_do_not_matter():
    x = edutorch.eye(3).requires_grad_()
    edutorch.linalg.eigvalsh(x).sum().backward()
    assert edutorch.equal(x.grad, edutorch.eye(3))


def test_linalg_is_there_for_a_script_that_says_torch(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\nimport torch.linalg as la\n"
        "print(torch.linalg.vector_norm(torch.tensor([3.0, 4.0])), la.det(torch.eye(2)))\n"
    )
    command = [sys.executable, "-m", "edutorch", "run", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "tensor(5.) tensor(1.)\n"


@pytest.mark.parametrize("create_graph", [False, True])
def test_the_free_columns_of_svd_have_no_derivative(create_graph):
    a = edutorch.randn(4, 2, dtype=edutorch.float64, requires_grad=True)
    u = edutorch.linalg.svd(a).U
    u[:, :2].abs().sum().backward(retain_graph=True)
    with pytest.raises(GradientError, match="beyond the first 2 have no derivative"):
        u.sum().backward(create_graph=create_graph)


@pytest.mark.parametrize("order", [None, 2, -2, "fro", "nuc", 1, -1, math.inf, -math.inf])
def test_condition_numbers_are_pytorchs_also_beside_a_singular_matrix(order, torch):
    """The infinity of one matrix of a batch does not reach the others."""
    batch = np.array([SQUARE[0], np.ones((3, 3)), SQUARE[1]])
    for start in (SQUARE, SQUARE[0], batch):
        ours = edutorch.linalg.cond(edutorch.tensor(start), order).numpy()
        theirs = torch.linalg.cond(torch.tensor(start), order).numpy()
        if start is batch:
            assert order == -2 or ours[1] > 1e15
            ours, theirs = ours[::2], theirs[::2]
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
