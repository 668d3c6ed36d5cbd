"""Second derivatives of functions of a norm, where the norm is 0.

A length has a corner there, its square has not: the second derivative of |x|² is 2 everywhere.
(PyTorch answers NaN, or a wrong 0.)
"""

from __future__ import annotations

import pytest

import edutorch
from edutorch import autograd, errors, func
from tests.devices import device  # noqa: F401  (a fixture)

cdist, zeros = edutorch.cdist, edutorch.zeros
vector_norm = edutorch.linalg.vector_norm


def complex_of(x):
    return edutorch.complex(x[0], x[1])


LENGTHS = {
    "norm": lambda x: x.norm(),
    "vector_norm": lambda x: vector_norm(x),
    "norm along an axis": lambda x: x[None].norm(dim=1, keepdim=True).sum(),
    "matrix_norm": lambda x: edutorch.linalg.matrix_norm(x[None]),
    "hypot": lambda x: edutorch.hypot(x[0], x[1]),
    "dist": lambda x: edutorch.dist(x, zeros(2, dtype=x.dtype)),
    "abs of complex numbers": lambda x: complex_of(x).abs(),
    "cdist": lambda x: cdist(x[None], zeros(1, 2, dtype=x.dtype)).sum(),
    "cdist by products": lambda x: cdist(
        x[None], zeros(1, 2, dtype=x.dtype), compute_mode="use_mm_for_euclid_dist"
    ).sum(),
    "pairwise_distance": lambda x: edutorch.nn.functional.pairwise_distance(
        x[None], zeros(1, 2, dtype=x.dtype), eps=0.0
    ).sum(),
    "pdist": lambda x: edutorch.nn.functional.pdist(
        edutorch.stack([x, zeros(2, dtype=x.dtype)])
    ).sum(),
}
"""Functions of a vector that are its norm."""

SMOOTH = {
    "pow": (lambda length: length**2, 2.0),
    "square": (lambda length: length.square(), 2.0),
    "product with itself": (lambda length: length * length, 2.0),
    "gaussian": (lambda length: edutorch.exp(-(length**2) / 2), -1.0),
    "cosh": (lambda length: length.cosh(), 1.0),
    "root of a sum": (lambda length: (1 + length**2).sqrt(), 1.0),
    "fourth power": (lambda length: length**4, 0.0),
}
"""Even functions of a norm, and their second derivative at 0."""

WAYS = {
    "reverse over reverse": lambda f, x: func.jacrev(func.jacrev(f))(x),
    "forward over reverse": lambda f, x: func.hessian(f)(x),
    "autograd": lambda f, x: autograd.functional.hessian(f, x),
    "in vmap": lambda f, x: func.vmap(func.hessian(f))(edutorch.stack([x, x + 3]))[0],
}


def identity(factor):
    return [[factor, 0.0], [0.0, factor]]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("way", WAYS)
def test_squared_lengths(length, way, device):  # noqa: F811
    result = WAYS[way](lambda x: LENGTHS[length](x) ** 2, zeros(2))
    assert result.tolist() == identity(2.0)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("way", WAYS)
def test_smooth_functions_of_a_length(name, way):
    function, expected = SMOOTH[name]
    result = WAYS[way](lambda x: function(x.norm()), zeros(2))
    assert result.tolist() == identity(expected)


@pytest.mark.parametrize("length", [name for name in LENGTHS if "products" not in name])
def test_a_corner_has_no_second_derivative(length):
    assert autograd.functional.hessian(LENGTHS[length], zeros(2)).isnan().all()


@pytest.mark.parametrize("length", LENGTHS)
def test_the_first_derivative_is_0_at_a_corner(length):
    x = zeros(2, requires_grad=True)
    for create_graph in (False, True):
        (slope,) = autograd.grad(LENGTHS[length](x), x, create_graph=create_graph)
        assert slope.tolist() == [0.0, 0.0]


def test_some_lengths_are_0_and_others_not():
    x = edutorch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]], dtype=edutorch.float64)
    hessian = func.hessian(lambda x: (x.norm(dim=1) ** 2).sum())(x).reshape(6, 6)
    assert (hessian - 2 * edutorch.eye(6)).abs().max() < 1e-12
    product = func.hessian(lambda x: (x.norm(dim=1)[:2] ** 2).prod())(x).reshape(6, 6)
    assert (product[:2, :2] - 50 * edutorch.eye(2)).abs().max() < 1e-12
    assert product[2:].abs().max() == 0


def test_the_hessian_of_a_kernel_where_its_points_meet():
    def kernel(x, y):
        return edutorch.exp(-(vector_norm(x - y) ** 2) / 2)

    at = edutorch.arange(3.0)
    result = func.jacrev(func.jacrev(kernel, 0), 1)(at, at)
    assert (result == edutorch.eye(3)).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_absolute_values_and_deviations(dtype):
    x = zeros(2, dtype=getattr(edutorch, dtype))
    squares = autograd.functional.hessian(lambda x: (x.abs() ** 2).sum(), x)
    assert squares.tolist() == identity(2.0)
    assert autograd.functional.hessian(lambda x: x.abs().sum(), x).tolist() == identity(0.0)
    variance = autograd.functional.hessian(lambda x: x.std() ** 2, x)
    assert variance.tolist() == [[1.0, -1.0], [-1.0, 1.0]]


def test_a_graph_that_was_freed_has_first_derivatives():
    x = zeros(2, requires_grad=True)
    length = x.norm().exp()
    (slope,) = autograd.grad((length - 1) ** 2, x, create_graph=True, retain_graph=False)
    assert slope.tolist() == [0.0, 0.0]
    with pytest.raises(errors.GradientError, match="were freed"):
        autograd.grad(slope.sum(), x)


@pytest.mark.parametrize("length", LENGTHS)
def test_third_derivatives_away_from_0(length):
    x = edutorch.tensor([0.6, -0.8], dtype=edutorch.float64, requires_grad=True)
    assert autograd.gradgradcheck(lambda x: LENGTHS[length](x) ** 3, x)


def test_nodes_have_public_names():
    x = edutorch.tensor([3.0, 4.0], requires_grad=True)
    assert x.std().grad_fn.name() == "StdBackward0"
    zero = zeros(2, requires_grad=True)
    (gradient,) = autograd.grad(zero.norm() ** 2, zero, create_graph=True)
    names = {node.name() for node, _ in gradient.grad_fn.next_functions}
    assert names == {"MulBackward0"}
    assert edutorch.nn.functional.silu(x).grad_fn.name() == "SiluBackward0"
