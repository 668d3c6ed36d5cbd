"""Calls that PyTorch refuses are refused by the same kinds of errors, with what to do instead."""

from __future__ import annotations

import pytest

import edutorch
from edutorch import errors, ones, tensor
from tests.devices import device  # noqa: F401  (a fixture)

OTHERS = {
    "bool": tensor([False]),
    "uint8": tensor([1], dtype=edutorch.uint8),
    "int8": tensor([1], dtype=edutorch.int8),
    "int64": tensor([1]),
    "float16": tensor([1.0], dtype=edutorch.float16),
    "float32": tensor([1.0]),
    "complex64": tensor([1j]),
    "a number": 1,
    "True": True,
}


@pytest.mark.parametrize("other", OTHERS)
def test_bools_are_not_subtracted(other):
    mask, other = tensor([True]), OTHERS[other]
    for subtract in (
        lambda: mask - other,
        lambda: other - mask,
        lambda: edutorch.sub(mask, other),
        lambda: mask.clone().sub_(other),
    ):
        with pytest.raises(RuntimeError, match="with a bool tensor is not supported") as caught:
            subtract()
        assert "~mask" in caught.value.hint
    with pytest.raises(RuntimeError, match="with a bool tensor is not supported"):
        tensor([1.0]) - True


DIVISIONS = {
    "floor_divide": lambda x, zero: x // zero,
    "remainder": lambda x, zero: x % zero,
    "fmod": lambda x, zero: x.fmod(zero),
    "div": lambda x, zero: edutorch.div(x, zero, rounding_mode="floor"),
}


@pytest.mark.parametrize("name", DIVISIONS)
@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_integers_are_not_divided_by_zero(name, dtype, device):  # noqa: F811
    x = tensor([3, 4], dtype=getattr(edutorch, dtype))
    for zero in (0, x * 0, tensor([1, 0], dtype=x.dtype)):
        with pytest.raises(RuntimeError, match=f"{name}: integer division by zero") as caught:
            DIVISIONS[name](x, zero)
        assert isinstance(caught.value, ZeroDivisionError | errors.EdutorchError)
        assert "x.float()" in caught.value.hint
    assert DIVISIONS[name](x[:0], 0).shape == (0,)


def test_an_integer_to_the_power_of_a_negative_number():
    for power in (
        lambda: tensor([2]) ** -1,
        lambda: tensor(2).pow(-3),
        lambda: tensor([2]).pow_(-1),
    ):
        with pytest.raises(RuntimeError, match="Integers to negative integer powers"):
            power()
    assert (tensor([2, 1, -1]) ** tensor(-3)).tolist() == [0, 1, -1]


@pytest.mark.skipif(edutorch.cuda.is_available(), reason="device 0 is there")
@pytest.mark.parametrize(
    "call",
    [
        lambda: edutorch.device(0),
        lambda: ones(1).to(0),
        lambda: ones(1).to(device=0),
        lambda: edutorch.randn(2, device=0),
        lambda: tensor([1], device=0),
        lambda: edutorch.nn.Linear(1, 1, device=0),
    ],
)
def test_a_number_alone_means_an_accelerator(call):
    with pytest.raises(RuntimeError, match="Cannot access accelerator device"):
        call()


def test_numbers_that_are_no_device():
    with pytest.raises(RuntimeError, match="must not be negative"):
        edutorch.device(-1)
    with pytest.raises(TypeError, match="device"):
        edutorch.device(True)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_a_tangent_takes_the_precision_of_its_tensor(dtype):
    forward_ad = edutorch.autograd.forward_ad
    for other in ("float16", "float32", "float64"):
        with forward_ad.dual_level():
            tangent = ones(2, dtype=getattr(edutorch, other))
            dual = forward_ad.make_dual(ones(2, dtype=getattr(edutorch, dtype)), tangent)
            moved = forward_ad.unpack_dual(dual * 2).tangent
        assert (str(moved.dtype), moved.tolist()) == (f"torch.{dtype}", [2.0, 2.0])
    with forward_ad.dual_level(), pytest.raises(errors.GradientError, match="complex direction"):
        forward_ad.make_dual(ones(1), tensor([1j]))
