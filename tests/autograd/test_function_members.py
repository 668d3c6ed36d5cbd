"""`autograd.Function`: the members beyond forward and backward, as PyTorch has them."""

from __future__ import annotations

import pytest

import edutorch
from edutorch.autograd import Function
from edutorch.errors import GradientError


@pytest.mark.oracle
def test_vjp_is_another_name_of_backward(torch):
    for lib in (edutorch, torch):

        class Double(lib.autograd.Function):
            generate_vmap_rule = True

            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def vjp(ctx, g):
                return g * 2

        x = lib.ones(2, requires_grad=True)
        Double.apply(x).sum().backward()
        assert x.grad.tolist() == [2, 2]


def moved_by(lib, function, x, tangent):
    ad = lib.autograd.forward_ad
    with ad.dual_level():
        return ad.unpack_dual(function(ad.make_dual(x, tangent))).tangent


@pytest.mark.oracle
def test_what_is_missing_is_said_as_in_pytorch(torch):
    for lib in (edutorch, torch):

        class Nothing(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

        y = Nothing.apply(lib.ones(2, requires_grad=True))
        with pytest.raises(NotImplementedError, match="either the backward or vjp method"):
            y.sum().backward()
        with pytest.raises(NotImplementedError, match="implement the jvp function"):
            moved_by(lib, Nothing.apply, lib.ones(2), lib.ones(2))
        for name in ("forward", "setup_context", "backward", "vjp", "jvp", "vmap", "apply"):
            assert hasattr(lib.autograd.Function, name)
        assert lib.autograd.Function.generate_vmap_rule is False


def test_both_names_of_backward_are_refused():
    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):

        class Both(Function):
            @staticmethod
            def backward(ctx, g):
                return g

            @staticmethod
            def vjp(ctx, g):
                return g


@pytest.mark.oracle
def test_tangents_nobody_gave_are_zeros_or_none(torch):
    results = []
    for lib in (edutorch, torch):
        seen = []

        class Product(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x, y, materialize):
                ctx.set_materialize_grads(materialize)
                ctx.save_for_forward(x, y)
                return x * y

            @staticmethod
            def jvp(ctx, t, u, none, seen=seen):
                seen.append(
                    [tangent if tangent is None else tangent.tolist() for tangent in (t, u, none)]
                )
                _, y = ctx.saved_tensors
                return t * y

        x, y = lib.tensor([1.0, 2.0]), lib.tensor([3.0, 4.0])
        moved = [
            moved_by(lib, lambda x, m=m, P=Product, y=y: P.apply(x, y, m), x, x).tolist()
            for m in (False, True)
        ]
        results.append([seen, moved])
    assert results[0] == results[1]


def test_a_jvp_must_fit_the_outputs():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def jvp(ctx, t):
            return t, t

    with pytest.raises(GradientError, match="incorrect number of tangents"):
        edutorch.func.jvp(Wrong.apply, (edutorch.ones(2),), (edutorch.ones(2),))
    with pytest.raises(TypeError, match="save_for_forward"):
        edutorch.autograd.function.Context().save_for_forward(3)
