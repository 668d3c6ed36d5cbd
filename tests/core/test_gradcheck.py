"""`gradcheck` must detect wrong gradients, as every other test of gradients relies on it."""

from __future__ import annotations

import pytest

import edutorch
from edutorch import tensor
from edutorch.autograd import gradcheck, gradgradcheck
from edutorch.core.op import REGISTRY, elementwise, reduction
from edutorch.errors import GradientError


@pytest.fixture
def x():
    return tensor([0.5, -1.0, 2.0], dtype=edutorch.float64, requires_grad=True)


@pytest.fixture(autouse=True)
def _no_trace():
    """Ops defined by a test are removed from the registry and from Tensor."""
    names, methods = set(REGISTRY), set(vars(edutorch.Tensor))
    yield
    for name in set(REGISTRY) - names:
        del REGISTRY[name]
    for name in set(vars(edutorch.Tensor)) - methods:
        delattr(edutorch.Tensor, name)


def cubed(rule):
    @elementwise
    def cube(xp, input: Array):  # noqa: F821
        """x³."""
        return input**3

    return cube.vjp(input=rule)


def test_a_right_rule_passes(x):
    cube = cubed(lambda g, input: g * 3 * input * input)
    assert gradcheck(cube, x)
    assert gradgradcheck(cube, x)


@pytest.mark.parametrize(
    "rule",
    [
        lambda g, input: g * 3 * input,
        lambda g, input: g * 2 * input * input,
        lambda g, input: -g * 3 * input * input,
        lambda g, input: 3 * input * input,
        lambda g: g * 0,
        lambda g, input: g * 3 * input * input + 1e-3,
    ],
)
def test_a_wrong_rule_is_found(x, rule):
    cube = cubed(rule)
    with pytest.raises(GradientError, match="the gradient of output 0 for input 0 is wrong"):
        gradcheck(cube, x)
    assert gradcheck(cube, x, raise_exception=False) is False


def test_the_error_shows_both_numbers(x):
    with pytest.raises(GradientError) as caught:
        gradcheck(cubed(lambda g: g * 0), x)
    assert caught.value.arguments["backward"] == "0.0"
    assert float(caught.value.arguments["differences"]) != 0


def test_a_gradient_sent_to_the_wrong_place_is_found(x):
    @reduction
    def total(xp, input: Array, dim=None, keepdim=False):  # noqa: F821
        """A sum whose rule forgets all but the first."""
        return xp.sum(input, axis=dim, keepdims=keepdim)

    total.vjp(input=lambda g, input: g * (input == input[0]))
    with pytest.raises(GradientError, match="is wrong"):
        gradcheck(total, x)


def test_a_rule_that_hides_from_the_second_derivative_is_found(x):
    cube = cubed(
        lambda g, input: (
            g * 3 * (input * input if not hasattr(input, "detach") else input.detach() ** 2)
        )
    )
    assert gradcheck(cube, x)
    with pytest.raises(GradientError):
        gradgradcheck(cube, x)


def test_the_second_of_two_inputs_and_outputs(x):
    y = tensor([1.5, 0.5, -2.0], dtype=edutorch.float64, requires_grad=True)
    assert gradcheck(lambda x, y: (x * y, x / y, (x > 0)), (x, y))
    assert gradgradcheck(lambda x, y: (x * y, x / y), (x, y))
    with pytest.raises(GradientError, match="of output 1 for input 1"):
        gradcheck(lambda x, y: (x * y, x * y.detach()), (x, y))


def test_there_has_to_be_something_to_check(x):
    with pytest.raises(GradientError, match="no input requires grad"):
        gradcheck(lambda x: x * x, x.detach())


def test_inputs_without_gradient_are_left_alone(x):
    constant = tensor([1.0, 2.0, 3.0], dtype=edutorch.float64)
    assert gradcheck(lambda x, c: x * c.detach(), (x, constant))


@pytest.mark.parametrize(
    "options", [{}, {"fast_mode": True}, {"check_forward_ad": True}, {"check_batched_grad": True}]
)
@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
def test_a_function_may_write_into_its_constants(check, options, x):
    scale = edutorch.ones(3, dtype=edutorch.float64)

    def write(x, scale, exponent):
        scale.mul_(2)  # as running statistics are updated
        return scale * x**exponent

    if check is gradgradcheck and "check_forward_ad" in options:
        options = {"check_fwd_over_rev": True}
    assert check(write, (x, scale, 3), **options)
    assert scale.tolist() == [1, 1, 1]


# Rules are checked when they are defined -------------------------------------------------------


def test_a_rule_may_only_name_what_exists():
    with pytest.raises(TypeError, match=r"cube.vjp: the rule for `input` asks for \['nonsense'\]"):
        cubed(lambda g, nonsense: g)


def test_a_rule_is_for_an_input():
    @elementwise
    def halve(xp, input: Array):  # noqa: F821
        """x / 2."""
        return input / 2

    with pytest.raises(TypeError, match="the rule for `other`"):
        halve.vjp(other=lambda g: g)


def test_only_what_the_rules_name_is_saved(x):
    assert cubed(lambda g, y: g * y)(x).grad_fn.op.saved == ("y",)
    assert (x + x).grad_fn.op.saved == ("alpha",)
    assert (x * 2.0).grad_fn.op.saved == ("other", "input")
    product = x.detach().requires_grad_() * x.detach()
    assert product.grad_fn.saved[1] is None, "the value for a gradient that nobody wants"


def test_gradients_nobody_wants_never_run(x):
    @elementwise(promotion="promote")
    def both(xp, input: Array, other: Array):  # noqa: F821
        """input + other."""
        return input + other

    both.vjp(input=lambda g: g, other=lambda g: pytest.fail("nobody asked"))
    both(x, x.detach()).sum().backward()
    assert x.grad.tolist() == [1, 1, 1]
