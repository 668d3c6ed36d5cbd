"""The options of `gradcheck` and `gradgradcheck`: what each of them catches."""

from __future__ import annotations

import pytest

import edutorch
from edutorch.autograd import Function, gradcheck, gradgradcheck


def input_vector(dtype=edutorch.float64):
    return edutorch.tensor([0.3, -1.2, 2.0], dtype=dtype, requires_grad=True)


def product(a, b):
    return (a * b).sin()


def test_every_way_agrees_on_real_and_complex_numbers():
    inputs = (input_vector(), input_vector(edutorch.complex128))
    ways = ("check_forward_ad", "check_batched_grad", "fast_mode", "check_grad_dtypes")
    assert gradcheck(product, inputs, **dict.fromkeys(ways, True))
    assert gradgradcheck(
        product, inputs, check_fwd_over_rev=True, check_batched_grad=True,
        gen_non_contig_grad_outputs=True,
    )  # fmt: skip


class Wrong(Function):
    """y = x², with a slope that is wrong backwards, forwards, or in turn."""

    how = "backward"
    calls = 0

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        Wrong.calls += 1
        factor = {"backward": 3.0, "in turn": 2.0 + Wrong.calls % 2}.get(Wrong.how, 2.0)
        return factor * x * g

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return (3.0 if Wrong.how == "forward" else 2.0) * x * tangent


@pytest.mark.parametrize(
    ("how", "options", "words"),
    [
        ("backward", {}, "gradient of output 0 for input 0"),
        ("backward", {"fast_mode": True}, "in a random direction"),
        ("forward", {"check_forward_ad": True}, "forward-mode derivative"),
        ("in turn", {}, "not reentrant"),
    ],
)
def test_a_wrong_rule_is_found(how, options, words):
    Wrong.how = how
    with pytest.raises(RuntimeError, match=words):
        gradcheck(Wrong.apply, input_vector(), **options)
    assert not gradcheck(Wrong.apply, input_vector(), raise_exception=False, **options)


def test_only_what_is_asked_for_is_checked():
    Wrong.how = "forward"
    assert gradcheck(Wrong.apply, input_vector())
    Wrong.how = "backward"
    assert gradcheck(Wrong.apply, input_vector(), check_forward_ad=True, check_backward_ad=False)


def test_given_starts():
    start = edutorch.tensor([1.0, 2.0, 3.0], dtype=edutorch.float64)
    assert gradgradcheck(lambda x: x**3, input_vector(), start)


def test_gradgradcheck_steps_by_eps():
    seen = []

    def cube(x):
        seen.append(x.item())
        return x**3

    x = edutorch.tensor(1.0, dtype=edutorch.float64, requires_grad=True)
    assert edutorch.autograd.gradgradcheck(cube, x, eps=1e-3, atol=1e-4)
    assert {1 - 1e-3, 1 + 1e-3} <= set(seen)
    assert all(abs(value - 1) in (0, abs(1 + 1e-3 - 1), abs(1 - 1e-3 - 1)) for value in seen)
