"""Functions that write a value into a tensor: the value gets its gradient, and the tensor keeps
its place in the graph, whichever form writes it.
"""

from __future__ import annotations

import itertools

import pytest

import edutorch
from edutorch import errors, func
from tests.devices import device  # noqa: F401  (a fixture)
from tests.oracle import require_torch

MASK, INDEX = [True, False, True], [0, 2, 0]

WRITES = {
    "masked_fill": lambda lib, x, v: (lib.tensor(MASK), v),
    "index_fill": lambda lib, x, v: (0, lib.tensor(INDEX), v),
    "fill": lambda lib, x, v: (v,),
    "clamp": lambda lib, x, v: (None, v),
    "clamp_min": lambda lib, x, v: (v + 2,),
    "clamp_max": lambda lib, x, v: (v,),
    "masked_scatter": lambda lib, x, v: (lib.tensor(MASK), v.expand(2)),
    "index_put": lambda lib, x, v: ((lib.tensor([0, 2]),), v),
    "index_copy": lambda lib, x, v: (0, lib.tensor([0, 2]), v.expand(2)),
    "index_add": lambda lib, x, v: (0, lib.tensor(INDEX), v.expand(3)),
    "put": lambda lib, x, v: (lib.tensor([0, 2]), v.expand(2)),
    "scatter": lambda lib, x, v: (0, lib.tensor([0, 2]), v.expand(2)),
    "lerp": lambda lib, x, v: (lib.ones(3, dtype=x.dtype), v),
    "addcmul": lambda lib, x, v: (lib.ones(3, dtype=x.dtype), v),
    "copysign": lambda lib, x, v: (v,),
    "mul": lambda lib, x, v: (v,),
}
"""The arguments behind the tensor that is written into, by method."""

ONLY_IN_PLACE = {
    "copy": lambda lib, x, v: (v,),
    "zero": lambda lib, x, v: (),
    "normal": lambda lib, x, v: (0, 0),
    "uniform": lambda lib, x, v: (2, 2),
    "bernoulli": lambda lib, x, v: (1.0,),
    "random": lambda lib, x, v: (1,),
    "fill_number": lambda lib, x, v: (2.0,),
    "copy_constant": lambda lib, x, v: (lib.ones(3, dtype=x.dtype),),
}
NO_COMPLEX = {"clamp", "clamp_min", "clamp_max", "copysign", "bernoulli", "random", "uniform"}


def function_of(lib, name):
    """Return the function of that name, or the method where PyTorch has no function."""
    return getattr(lib, name, None) or getattr(lib.Tensor, name)


def write(lib, name, form, dtype):
    """Return result, flag and gradients of one call: by the function, in place, in a view, or in
    a tensor that wants no gradient itself."""
    dtype = getattr(lib, dtype)
    x = lib.tensor([1.0, -2.0, 3.0], dtype=dtype, requires_grad=True)
    value = lib.tensor(0.5, dtype=dtype, requires_grad=True)
    y = x.detach() * 1 if form == "into a constant" else x * 2
    arguments = {**WRITES, **ONLY_IN_PLACE}[name](lib, y, value)
    method = name.partition("_number")[0].partition("_constant")[0]
    if form == "function":
        y = function_of(lib, method)(y, *arguments)
    elif form == "in a view":
        whole = lib.stack([y, y * 3])
        getattr(whole[1], f"{method}_")(*arguments)
        y = whole
    else:
        getattr(y, f"{method}_")(*arguments)
    if y.requires_grad:
        total = (y * y).sum()
        (total.abs() if total.is_complex() else total).backward()
    return [y.detach(), y.requires_grad, x.grad, value.grad]


FORMS = ("function", "in place", "in a view", "into a constant")
CALLS = [
    *itertools.product(WRITES, FORMS, ["float64"]),
    *itertools.product(ONLY_IN_PLACE, FORMS[1:], ["float64"]),
    *((name, form, "complex128") for name, form in itertools.product(WRITES, FORMS[:2])
      if name not in NO_COMPLEX),
    *itertools.product(WRITES, FORMS[:1], ["float16", "bfloat16"]),
]  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize(("name", "form", "dtype"), CALLS)
def test_as_in_pytorch(name, form, dtype):
    torch = require_torch()
    ours, theirs = (write(lib, name, form, dtype) for lib in (edutorch, torch))
    for mine, expected in zip(ours, theirs, strict=True):
        if not isinstance(expected, torch.Tensor):
            assert mine == expected
            continue
        assert str(mine.dtype) == str(expected.dtype)
        expected = expected.to(torch.complex128 if expected.is_complex() else torch.float64)
        mine = mine.to(edutorch.complex128 if mine.is_complex() else edutorch.float64)
        difference = edutorch.tensor(expected.numpy()) - mine
        assert difference.abs().max().item() <= 1e-2 * (dtype in ("float16", "bfloat16"))


@pytest.mark.parametrize("name", WRITES)
def test_derivatives_by_differences(name):
    x = edutorch.tensor([1.0, -2.0, 3.0], dtype=edutorch.float64, requires_grad=True)
    value = edutorch.tensor(0.4, dtype=edutorch.float64, requires_grad=True)

    def call(x, value):
        y = function_of(edutorch, name)(x * 2, *WRITES[name](edutorch, x * 2, value))
        return y * y * y

    assert edutorch.autograd.gradcheck(call, (x, value), check_forward_ad=True)
    assert edutorch.autograd.gradgradcheck(call, (x, value))


@pytest.mark.parametrize("name", ["masked_fill", "index_fill", "fill"])
def test_a_batch_of_values(name, device):  # noqa: F811
    values = edutorch.tensor([0.5, 1.5, 2.5])
    x = edutorch.ones(3)

    def call(value):
        return function_of(edutorch, name)(x, *WRITES[name](edutorch, x, value))

    expected = edutorch.stack([call(value) for value in values])
    assert func.vmap(call)(values).tolist() == expected.tolist()
    slopes = func.vmap(func.grad(lambda value: call(value).sum()))(values)
    assert slopes.tolist() == [3.0 if name == "fill" else 2.0] * 3


@pytest.mark.parametrize("name", ["masked_fill", "index_fill", "fill"])
def test_a_value_of_several_numbers_is_refused(name):
    x = edutorch.ones(3)
    with pytest.raises(errors.ShapeError, match=f"{name}: only supports a 0-dimensional value"):
        function_of(edutorch, name)(x, *WRITES[name](edutorch, x, edutorch.ones(2)))


CUT_OFF = {
    "full": lambda value: edutorch.full((2,), value),
    "full_like": lambda value: edutorch.full_like(edutorch.ones(2), value),
    "new_full": lambda value: edutorch.ones(2).new_full((2,), value),
    "arange": lambda value: edutorch.arange(value),
    "linspace": lambda value: edutorch.linspace(0, value, 3),
}


@pytest.mark.parametrize("name", CUT_OFF)
def test_a_tensor_that_would_lose_its_gradient_is_refused(name):
    value = edutorch.tensor(2.0, requires_grad=True)
    with pytest.raises(TypeError, match=f"{name}: expected a number, not a tensor that requires"):
        CUT_OFF[name](value)
    with edutorch.no_grad():
        assert CUT_OFF[name](value).tolist() == CUT_OFF[name](2.0).tolist()
