"""`autograd.functional`: results and errors are PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch.errors import GradientError
from edutorch.utils._pytree import tree_leaves, tree_structure

pytestmark = pytest.mark.oracle


def vector(lib: Any, *values: Any) -> Any:
    return lib.tensor(values, dtype=lib.float64)


def several(a, b):
    return (a * b).sin().sum(0) * a, (a**3).sum()


def single(a, b):
    return (a * b).sin() + a.exp() * b.sum()


def number(a, b):
    return (a * b).sin().sum() + (a**3 * b).sum()


def agree(ours: Any, theirs: Any, recorded: bool = True) -> None:
    shape = str(tree_structure(theirs)).replace("[", "(").replace("]", ")")  # it mixes them
    assert str(tree_structure(ours)) == shape
    for x, y in zip(tree_leaves(ours), tree_leaves(theirs), strict=True):
        assert tuple(x.shape) == tuple(y.shape)
        assert x.requires_grad == (y.requires_grad and recorded)
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), 1e-9, 1e-12)


CALLS = {
    "jacobian": lambda F, a, b, v, w: F.jacobian(several, (a, b)),
    "jacobian of one output": lambda F, a, b, v, w: F.jacobian(single, (a, b)),
    "jacobian by one input": lambda F, a, b, v, w: F.jacobian(lambda a: several(a, b), a),
    "jacobian of one by one": lambda F, a, b, v, w: F.jacobian(lambda a: single(a, b), a),
    "jacobian, recorded": lambda F, a, b, v, w: F.jacobian(several, (a, b), create_graph=True),
    "jacobian, vectorized": lambda F, a, b, v, w: F.jacobian(several, (a, b), vectorize=True),
    "jacobian, forward": lambda F, a, b, v, w: F.jacobian(
        several, (a, b), vectorize=True, strategy="forward-mode"
    ),
    "jacobian, forward, by one": lambda F, a, b, v, w: F.jacobian(
        lambda a: single(a, b), a, vectorize=True, strategy="forward-mode"
    ),
    "jacobian, unused": lambda F, a, b, v, w: F.jacobian(lambda a, b: a * 2, (a, b)),
    "hessian": lambda F, a, b, v, w: F.hessian(number, (a, b)),
    "hessian by one": lambda F, a, b, v, w: F.hessian(lambda a: number(a, b), a),
    "hessian, recorded": lambda F, a, b, v, w: F.hessian(number, (a, b), create_graph=True),
    "hessian, forward": lambda F, a, b, v, w: F.hessian(
        number, (a, b), vectorize=True, outer_jacobian_strategy="forward-mode"
    ),
    "hessian of a linear function": lambda F, a, b, v, w: F.hessian(lambda a: a.sum(), a),
    "vjp": lambda F, a, b, v, w: F.vjp(several, (a, b), (v, v.sum())),
    "vjp without v": lambda F, a, b, v, w: F.vjp(number, (a, b)),
    "vjp, recorded": lambda F, a, b, v, w: F.vjp(several, (a, b), (v, v.sum()), create_graph=True),
    "jvp": lambda F, a, b, v, w: F.jvp(several, (a, b), (v, w)),
    "jvp, recorded": lambda F, a, b, v, w: F.jvp(several, (a, b), (v, w), create_graph=True),
    "jvp of a constant": lambda F, a, b, v, w: F.jvp(lambda a: a.detach() * 2, a, v),
    "vhp": lambda F, a, b, v, w: F.vhp(number, (a, b), (v, w)),
    "vhp, recorded": lambda F, a, b, v, w: F.vhp(number, (a, b), (v, w), create_graph=True),
    "hvp": lambda F, a, b, v, w: F.hvp(number, (a, b), (v, w)),
    "hvp by one": lambda F, a, b, v, w: F.hvp(lambda a: number(a, b), a, v),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_are_pytorchs(torch, name):
    results = []
    for lib in (edutorch, torch):
        vectors = (vector(lib, *row) for row in ((1, 2), (0.5, -1), (0.3, 0.1), (2, 3)))
        a, b, v, w = vectors
        if "recorded" in name:
            a.requires_grad_()
        results.append(CALLS[name](lib.autograd.functional, a, b, v, w))
    agree(*results, recorded="forward" not in name)


def test_a_recorded_jacobian_can_be_differentiated(torch):
    results = []
    for lib in (edutorch, torch):
        a = vector(lib, 1, 2).requires_grad_()
        rows = lib.autograd.functional.jacobian(lambda a: a.exp() * a, a, create_graph=True)
        results.append(lib.autograd.grad((rows**2).sum(), a))
    agree(*results)


REFUSED = {
    "strict: constant": lambda F, a: F.jacobian(lambda a: a.detach() + 1, a, strict=True),
    "strict: independent": lambda F, a: F.vjp(lambda a, b: a.sum(), (a, a), strict=True),
    "strict: jvp": lambda F, a: F.jvp(lambda a, b: a.sum(), (a, a), (a, a), strict=True),
    "strict: linear": lambda F, a: F.hessian(lambda a: a.sum(), a, strict=True),
    "no v": lambda F, a: F.vjp(lambda a: a * 2, a),
    "v too long": lambda F, a: F.vjp(lambda a: a * 2, a, (a, a)),
    "v of another shape": lambda F, a: F.jvp(lambda a: a * 2, a, a[:1]),
    "not one number": lambda F, a: F.hessian(lambda a: a * 2, a),
    "not one tensor": lambda F, a: F.vhp(lambda a: (a.sum(), a), a, a),
    "strict and vectorized": lambda F, a: F.jacobian(lambda a: a, a, strict=True, vectorize=True),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_pytorchs(torch, name):
    for lib in (edutorch, torch):
        with pytest.raises(RuntimeError) as caught:
            REFUSED[name](lib.autograd.functional, vector(lib, 1, 2))
        assert lib is torch or isinstance(caught.value, GradientError | RuntimeError)


def test_other_refusals(torch):
    for lib in (edutorch, torch):
        F, a = lib.autograd.functional, vector(lib, 1, 2)
        with pytest.raises(TypeError, match="must be either a Tensor or a tuple of Tensors"):
            F.jacobian(lambda a: a, 3.0)
        with pytest.raises(TypeError):
            F.vjp(lambda a: 3.0, a)
        with pytest.raises(NotImplementedError):
            F.jacobian(lambda a: a, a, strategy="forward-mode")


@pytest.mark.parametrize("name", ["hessian", "vhp", "hvp"])
def test_a_result_of_several_elements_is_refused_with_pytorchs_words(torch, name):
    for lib in (edutorch, torch):
        function, a = getattr(lib.autograd.functional, name), vector(lib, 1, 2)
        with pytest.raises(RuntimeError, match="should contain a single element"):
            function(lambda a: a * 2, *((a,) if name == "hessian" else (a, a)))


IN_A_GRAPH = {
    "vjp": lambda F, f, x: F.vjp(f, x, create_graph=True),
    "jvp": lambda F, f, x: F.jvp(f, x, x * 0 + 1, create_graph=True),
    "jacobian": lambda F, f, x: (f(x), F.jacobian(f, x, create_graph=True)),
    "vhp": lambda F, f, x: F.vhp(f, x, x * 0 + 1, create_graph=True),
    "hvp": lambda F, f, x: F.hvp(f, x, x * 0 + 1, create_graph=True),
    "hessian": lambda F, f, x: (f(x), F.hessian(f, x, create_graph=True)),
}


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("name", IN_A_GRAPH)
def test_create_graph_keeps_the_sign_of_zero(torch, name, recorded):
    """atan2 jumps from -π to π there."""
    results = []
    for lib in (edutorch, torch):
        x = vector(lib, -0.0).requires_grad_(recorded)

        def angle(x, lib=lib):
            return lib.atan2(x, vector(lib, -1.0)).sum()

        results.append(IN_A_GRAPH[name](lib.autograd.functional, angle, x))
    assert results[0][0].item() == -np.pi
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours.detach(), theirs.detach().numpy())


@pytest.mark.parametrize("name", IN_A_GRAPH)
def test_with_create_graph_an_input_may_be_changed_afterwards(name):
    x, w = vector(edutorch, 2.0), vector(edutorch, 3.0).requires_grad_()
    F = edutorch.autograd.functional
    y, _ = IN_A_GRAPH[name](F, lambda x: (w * x * x * x).sum(), x)
    _, slope = IN_A_GRAPH[name](F, lambda x: (w * x * x * x).sum(), x)
    x.zero_()
    assert y.item() == 24
    (g,) = edutorch.autograd.grad(slope.sum(), w)  # d(w x³)/dx = 3 w x², and 6 w x
    assert g.item() == 12


def test_an_identity_with_create_graph_returns_a_copy():
    x = vector(edutorch, 1.0, 2.0)
    y, _ = edutorch.autograd.functional.vjp(lambda x: x, x, x, create_graph=True)
    y.detach().zero_()
    assert x.tolist() == [1, 2]
