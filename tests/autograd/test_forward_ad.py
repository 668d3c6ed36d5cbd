"""Forward mode: tangents through every op equal PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch.autograd import forward_ad as fwAD
from edutorch.errors import GradientError
from edutorch.ops.indexing import as_index
from tests.op_calls import (
    arguments,
    array,
    differentiable,
    differentiable_call,
    differentiable_cases,
    ops,
)
from tests.op_cases import some

FINE = (edutorch.float64, edutorch.complex128)


def direction(like: Any, seed: int = 5) -> Any:
    values = some(*like.shape, seed=seed)
    turned = values * (1 - 0.5j) if like.is_complex() else values
    return edutorch.tensor(np.asarray(turned))


@ops(lambda op: op.rules)
def test_every_op_moves_its_tangents(op):
    """Along some direction, against finite differences."""
    as_index(0)
    for case in differentiable_cases(op):
        op_arguments = arguments(op, case, grad=False)
        function, values = differentiable_call(op, op_arguments, differentiable(op, case))
        if function(*values).dtype not in FINE:
            continue
        tangents = [direction(number) for number in values]
        with fwAD.dual_level():
            pairs = zip(values, tangents, strict=True)
            dual = function(*(fwAD.make_dual(x, t) for x, t in pairs))
            value, moved = fwAD.unpack_dual(dual)
        assert not value.requires_grad
        if moved is None:
            moved = edutorch.zeros_like(value)
        assert not moved.requires_grad
        assert (moved.shape, moved.dtype) == (value.shape, value.dtype)
        step = 1e-6
        ahead = function(*(x + step * v for x, v in zip(values, tangents, strict=True)))
        behind = function(*(x - step * v for x, v in zip(values, tangents, strict=True)))
        wanted = array((ahead - behind) / (2 * step))
        np.testing.assert_allclose(array(moved), wanted, 1e-4, 1e-6)


PROGRAMS = {
    "composed": lambda x, y: (x.softmax(-1) * y).std(0).exp() + x.norm(),
    "matmul": lambda x, y: (x @ y.T).tanh().sum(0),
    "in place": lambda x, y: x.clone().mul_(y).add_(x),
    "setitem": lambda x, y: _setitem(x, y),
    "views": lambda x, y: _views(x, y),
    "view of a view": lambda x, y: _view_of_view(x, y),
    "a constant written": lambda x, y: _constant(x, y),
    "a dual into a constant": lambda x, y: _dual_into_constant(x, y),
    "cat, stack, where": lambda x, y: _joined(x, y),
}


def _setitem(x, y):
    z = x.clone()
    z[0] = y[1]
    z[:, 1] *= 2
    return z * x


def _views(x, y):
    z = x.clone()
    row, column = z[0], z[:, 0]
    row.mul_(y[0])
    z.sin_()
    return row.sum() * column


def _view_of_view(x, y):
    z = x.clone()
    part = z.t()[1:]
    part[0].mul_(y[:, 0])
    return z + part.sum()


def _constant(x, y):
    z = x.clone()
    z[0] = 1.0
    z[1].zero_()
    return z * y


def _dual_into_constant(x, y):
    z = y.detach().clone()
    whole = z.view(-1)
    z[0].copy_(x[1])
    return whole


def _joined(x, y):
    import builtins

    lib = edutorch if builtins.isinstance(x, edutorch.Tensor) else __import__("torch")
    return lib.where(x > 0, lib.cat([x, y])[:2], lib.stack([y, x])[0])


@pytest.mark.oracle
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_move_as_pytorchs(torch, name):
    program, results = PROGRAMS[name], []
    for lib in (edutorch, torch):
        ad = lib.autograd.forward_ad
        x, y, t, u = (
            lib.tensor(some(2, 3, seed=seed).tolist(), dtype=lib.float64) for seed in (1, 2, 3, 4)
        )
        with ad.dual_level():
            dual = program(ad.make_dual(x, t), ad.make_dual(y, u))
            results.append(ad.unpack_dual(dual))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(array(ours), theirs.numpy(), 1e-10, 1e-12)


@pytest.mark.oracle
def test_forward_over_reverse_is_a_hessian_product(torch):
    results = []
    for lib in (edutorch, torch):
        ad = lib.autograd.forward_ad
        x = lib.tensor([0.3, -1.0, 2.0], dtype=lib.float64, requires_grad=True)
        v = lib.tensor([1.0, 0.5, -2.0], dtype=lib.float64)
        with ad.dual_level():
            dual = ad.make_dual(x, v)
            loss = (dual.tanh() * dual.sin()).sum() + (dual**3).mean()
            (g,) = lib.autograd.grad(loss, dual, create_graph=True)
            value, moved = ad.unpack_dual(g)
            (third,) = lib.autograd.grad(moved.sum(), x)
        results.append([value.tolist(), moved.tolist(), third.tolist()])
    for ours, theirs in zip(*results, strict=True):
        assert ours == pytest.approx(theirs)


def test_reverse_over_forward_and_no_grad():
    x = edutorch.tensor([1.0, 2.0], dtype=edutorch.float64, requires_grad=True)
    t = edutorch.tensor([1.0, 10.0], dtype=edutorch.float64, requires_grad=True)
    with fwAD.dual_level():
        moved = fwAD.unpack_dual(fwAD.make_dual(x, t).prod()).tangent
        by_x, by_t = edutorch.autograd.grad(moved, (x, t))
        assert (by_x.tolist(), by_t.tolist()) == ([10.0, 1.0], [2.0, 1.0])
        with edutorch.no_grad():
            moved = fwAD.unpack_dual(fwAD.make_dual(x, t).prod()).tangent
        assert not moved.requires_grad
        assert moved.item() == 12


def test_gradients_in_a_level_have_tangents_without_create_graph():
    x = edutorch.tensor(2.0, requires_grad=True)
    with fwAD.dual_level():
        dual = fwAD.make_dual(x, edutorch.tensor(1.0))
        (g,) = edutorch.autograd.grad(dual**3, dual)
        assert not g.requires_grad
        assert fwAD.unpack_dual(g).tangent.item() == 12


def test_a_primal_is_the_dual_tensor_without_its_tangent(torch):
    for library in (torch, edutorch):
        ad = library.autograd.forward_ad
        x = library.tensor([1.0, 2.0], dtype=library.float64)
        with ad.dual_level():
            dual = ad.make_dual(x, x * 3)
            primal = ad.unpack_dual(dual).primal
            assert ad.unpack_dual(primal).tangent is None
            assert ad.unpack_dual(dual).tangent.tolist() == [3, 6]
            primal.zero_()
        assert x.tolist() == [0, 0]


def test_constants_have_no_tangent_and_detach_drops_it():
    with fwAD.dual_level():
        x = fwAD.make_dual(edutorch.ones(2), edutorch.ones(2))
        assert fwAD.unpack_dual(edutorch.ones(2) * 2).tangent is None
        assert fwAD.unpack_dual(x.detach()).tangent is None
        assert fwAD.unpack_dual(x.argmax()).tangent is None
        assert fwAD.unpack_dual(x > 0).tangent is None
    assert fwAD.unpack_dual(x).tangent is None
    with fwAD.dual_level():
        assert fwAD.unpack_dual(x * 2).tangent is None, "a new level knows no old tangents"


@pytest.mark.oracle
def test_refusals_are_pytorchs(torch):
    for lib in (edutorch, torch):
        ad = lib.autograd.forward_ad
        one = lib.ones(2)
        with pytest.raises(RuntimeError, match="no level exists"):
            ad.make_dual(one, one)
        with pytest.raises(RuntimeError):
            ad.exit_dual_level()
        with ad.dual_level():
            with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
                ad.enter_dual_level()
            with pytest.raises(ValueError, match="floating point or complex"):
                ad.make_dual(lib.tensor([1, 2]), one)
            with pytest.raises(RuntimeError):
                ad.make_dual(one, lib.ones(3))
            dual = ad.make_dual(one, one)
            with pytest.raises(RuntimeError):
                lib.exp(dual, out=lib.empty(2))


def squares(lib, with_jvp=True):
    class Square(lib.autograd.Function):
        @staticmethod
        def forward(x, n):
            return x**n, x + 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, n = inputs
            ctx.save_for_backward(x)
            ctx.save_for_forward(x, output[0])
            ctx.n = n

        @staticmethod
        def backward(ctx, g, h):
            (x,) = ctx.saved_tensors
            return g * ctx.n * x ** (ctx.n - 1) + h, None

    if with_jvp:

        def jvp(ctx, t, none):
            assert none is None
            x, y = ctx.saved_tensors
            return ctx.n * y / x * t, 7 * t

        Square.jvp = staticmethod(jvp)
    return Square.apply


@pytest.mark.oracle
def test_a_functions_own_jvp_is_used(torch):
    results = []
    for lib in (edutorch, torch):
        ad = lib.autograd.forward_ad
        x, t = lib.tensor([1.0, 2.0], requires_grad=True), lib.tensor([1.0, 10.0])
        with ad.dual_level():
            y, z = squares(lib)(ad.make_dual(x, t), 3)
            moved = ad.unpack_dual(y).tangent
            row = [moved.tolist(), ad.unpack_dual(z).tangent.tolist()]
            row += lib.autograd.grad(moved.sum(), x)[0].tolist()
        with ad.dual_level(), pytest.raises(NotImplementedError, match="implement the jvp"):
            squares(lib, with_jvp=False)(ad.make_dual(x, t), 3)
        results.append(row)
    assert results[0] == results[1]


def test_forward_mode_can_be_switched_off():
    with fwAD.dual_level():
        x = fwAD.make_dual(edutorch.tensor(2.0), edutorch.tensor(1.0))
        with fwAD.set_forward_grad_enabled(False):
            y = x * x
        assert fwAD.unpack_dual(y).tangent is None
        assert fwAD.unpack_dual(x * x).tangent.item() == 4


def test_a_module_with_dual_parameters():
    layer = edutorch.nn.Linear(3, 2, dtype=edutorch.float64)
    tangents = {
        name: edutorch.randn_like(parameter) for name, parameter in layer.named_parameters()
    }
    x = edutorch.randn(4, 3, dtype=edutorch.float64)
    with fwAD.dual_level():
        duals = {
            name: fwAD.make_dual(parameter, tangents[name])
            for name, parameter in layer.named_parameters()
        }
        moved = fwAD.unpack_dual(edutorch.func.functional_call(layer, duals, x)).tangent
    wanted = x @ tangents["weight"].T + tangents["bias"]
    assert edutorch.allclose(moved, wanted)


def test_an_error_leaves_the_modes_as_they_were():
    with pytest.raises(ZeroDivisionError), fwAD.dual_level():
        raise ZeroDivisionError
    with fwAD.dual_level():
        pass
    with fwAD.dual_level():
        x = fwAD.make_dual(edutorch.ones(2), edutorch.ones(2))
        with pytest.raises(GradientError):
            edutorch.exp(x, out=edutorch.empty(2))


REAL, COMPLEX = ("float32", "float64"), ("complex64", "complex128")


@pytest.mark.parametrize("dtype", REAL + COMPLEX)
@pytest.mark.parametrize("tangent_dtype", REAL + COMPLEX)
def test_a_tangent_takes_the_dtype_of_its_tensor(dtype, tangent_dtype):
    """Only a complex tangent of a real tensor is an error: conversion would drop a part."""
    x = edutorch.ones(2, dtype=getattr(edutorch, dtype))
    tangent = edutorch.full((2,), 2.0, dtype=getattr(edutorch, tangent_dtype))
    with fwAD.dual_level():
        if dtype in REAL and tangent_dtype in COMPLEX:
            with pytest.raises(GradientError, match="does not move in a complex direction"):
                fwAD.make_dual(x, tangent)
            return
        moved = fwAD.unpack_dual(fwAD.make_dual(x, tangent) * 3).tangent
    assert moved.dtype is x.dtype
    assert moved.tolist() == [6, 6]
