"""The tests' own helpers: a trial that fails is never lost, and one wrong slope is seen."""

from __future__ import annotations

import pytest

import edutorch
from edutorch.errors import GradientError
from tests.slopes import second_derivatives_agree
from tests.trials import Failures, Trials, tried


def test_each_trial_that_fails_is_named_and_all_are_made():
    made = []

    @tried("kind", ["whole", "half"])
    @tried("a,b", [(1, 2), (3, 4), (5, 5)])
    def test(a, b, kind, device):
        made.append((kind, a, b, device))
        assert a != b
        assert kind == "whole" or a != 1
        if (kind, a) == ("half", 3):
            pytest.fail("it does not")

    with pytest.raises(Failures, match=r"whole, 5, 5; half, 1, 2; half, 3, 4; half, 5, 5") as all_:
        test(device="cpu")
    assert len(made) == 6
    assert [type(exception) for exception in all_.value.exceptions] == [
        AssertionError, AssertionError, pytest.fail.Exception, AssertionError,
    ]  # fmt: skip


def test_a_trial_that_is_skipped_hides_no_other_one():
    @tried("a", [1, 2, 3])
    def test(a, wrong):
        if a == 2:
            pytest.skip("not today")
        assert a != wrong

    with pytest.raises(Failures, match=r"^3$"):
        test(wrong=3)
    with pytest.raises(pytest.skip.Exception, match="1 of 3 trials: 2: not today"):
        test(wrong=None)


def test_values_may_depend_on_other_arguments():
    made = []
    tried("a", lambda among, **_: among)(lambda a, among: made.append(a))(among=[1, 2])
    assert made == [1, 2]


def test_each_trial_starts_with_the_same_random_numbers():
    drawn = []
    tried("a", [1, 2])(lambda a: drawn.append(edutorch.randn(1).item()))()
    assert drawn[0] == drawn[1]


def test_an_error_between_the_trials_and_ctrl_c_are_not_caught():
    with pytest.raises(ZeroDivisionError), Trials():
        raise ZeroDivisionError
    with pytest.raises(KeyboardInterrupt), Trials() as trial, trial("a"):
        raise KeyboardInterrupt


class Slope(edutorch.autograd.Function):
    """3 x², with a second derivative that is off in one place."""

    @staticmethod
    def forward(ctx, x, off):
        ctx.save_for_backward(x, off)
        return 3 * x * x

    @staticmethod
    def backward(ctx, g):
        x, off = ctx.saved_tensors
        return g * 6 * x * (1 + off), None


class Cube(edutorch.autograd.Function):
    @staticmethod
    def forward(ctx, x, off):
        ctx.save_for_backward(x, off)
        return x**3

    @staticmethod
    def backward(ctx, g):
        return g * Slope.apply(*ctx.saved_tensors), None


@pytest.mark.parametrize("place", [0, 17, 35])
def test_one_wrong_second_derivative_among_36_is_seen(place):
    x = edutorch.linspace(0.5, 2, 36, dtype=edutorch.float64).requires_grad_()
    off = edutorch.zeros(36, dtype=edutorch.float64)
    assert second_derivatives_agree(lambda x: Cube.apply(x, off), x)
    off[place] = 0.01
    with pytest.raises(GradientError, match=r"slope of output 0 .* is wrong"):
        second_derivatives_agree(lambda x: Cube.apply(x, off), x)
