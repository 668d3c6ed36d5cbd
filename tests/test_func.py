"""`edutorch.func` against derivatives known by hand, and against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

import edutorch
from edutorch import func
from edutorch.errors import GradientError

pytestmark = pytest.mark.usefixtures("device")


def wave(x: Any) -> Any:
    return (x * x).sin() + x.exp()


def test_grad_of_grad_is_the_second_derivative() -> None:
    x = edutorch.tensor(1.5, dtype=edutorch.float64)
    second = func.grad(func.grad(wave))(x)
    expected = 2 * (x * x).cos() - 4 * x * x * (x * x).sin() + x.exp()
    assert edutorch.allclose(second, expected)


def test_value_and_grad_by_several_arguments() -> None:
    (by_a, by_b), value = func.value_and_grad(lambda a, b: (a * b).sum(), (0, 1))(
        edutorch.tensor([1.0, 2.0]), edutorch.tensor([3.0, 4.0])
    )
    assert (by_a.tolist(), by_b.tolist(), value.item()) == ([3.0, 4.0], [1.0, 2.0], 11.0)
    assert not value.requires_grad


def test_grad_with_something_besides_the_number() -> None:
    gradient, extra = func.grad(lambda x: (x * x, "extra"), has_aux=True)(edutorch.tensor(3.0))
    assert (gradient.item(), extra) == (6.0, "extra")


def test_jvp_and_vjp_agree() -> None:
    x = edutorch.randn(4, dtype=edutorch.float64)
    t, v = edutorch.randn_like(x), edutorch.randn_like(x)
    _, moved = func.jvp(wave, (x,), (t,))
    _, back = func.vjp(wave, x)
    assert edutorch.allclose((v * moved).sum(), (back(v)[0] * t).sum())


def test_jvp_of_a_linear_and_of_a_constant_function() -> None:
    x = edutorch.ones(2)
    assert func.jvp(lambda x: 3 * x, (x,), (x,))[1].tolist() == [3.0, 3.0]
    assert func.jvp(lambda x: edutorch.ones(2), (x,), (x,))[1].tolist() == [0.0, 0.0]


def test_the_inputs_are_left_alone() -> None:
    x = edutorch.ones(2, requires_grad=True)
    func.grad(lambda x: (x * x).sum())(x)
    assert x.grad is None


def test_a_result_that_is_not_one_number_is_refused() -> None:
    with pytest.raises(GradientError, match="single number"):
        func.grad(lambda x: x * 2)(edutorch.ones(2))


@pytest.mark.oracle
def test_jacobian_and_hessian_equal_pytorchs(torch: Any) -> None:
    x = [0.3, -1.2, 2.0]
    ours = func.jacrev(wave)(edutorch.tensor(x, dtype=edutorch.float64))
    theirs = torch.func.jacrev(wave)(torch.tensor(x, dtype=torch.float64))
    assert edutorch.allclose(ours.cpu(), edutorch.from_numpy(theirs.numpy()))
    ours = func.hessian(lambda x: wave(x).sum())(edutorch.tensor(x, dtype=edutorch.float64))
    theirs = torch.func.hessian(lambda x: wave(x).sum())(torch.tensor(x, dtype=torch.float64))
    assert edutorch.allclose(ours.cpu(), edutorch.from_numpy(theirs.numpy()))
