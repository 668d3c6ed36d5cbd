"""In-place writes into tensors of a graph, and their gradients."""

from __future__ import annotations

import pytest

import edutorch
from edutorch import tensor
from edutorch.errors import DTypeError, GradientError, ShapeError
from tests.devices import device  # noqa: F401
from tests.oracle import require_torch

pytestmark = pytest.mark.usefixtures("device")


# Each takes a library and a leaf x of shape (2, 3); returns the tensor to differentiate.


def write_a_number(lib, x):
    y = x * 1
    y[0, 1] = 5.0
    return y * y


def write_a_row(lib, x):
    y = x * 1
    y[1] = y[0] * 10
    return y * y


def write_by_mask(lib, x):
    y = x * 2
    y[y > 1.5] = 0
    return y * y


def write_by_positions(lib, x):
    y = x * 2
    y[lib.tensor([0, 1]), lib.tensor([2, 0])] = x[0, :2] * 7
    return y * y


def through_a_view(lib, x):
    y = x * 1
    view = y[0]
    view.mul_(3)
    return y * y


def through_a_view_of_a_view(lib, x):
    y = x * 1
    y[1][1:].mul_(x[0, 0])
    return y * y


def a_view_made_before_the_write(lib, x):
    y = x * 1
    view = y[:, 1]
    y.mul_(2)
    return (view * view).unsqueeze(0)


def a_sibling_view(lib, x):
    y = x * 1
    first, second = y[0], y[:, 0]
    first.mul_(4)
    return (second * second).unsqueeze(0)


def a_transposed_view(lib, x):
    y = x * 1
    y.t()[0].mul_(4)
    return y * y


def add_in_place(lib, x):
    y = x * 1
    y += x * x
    y -= 1
    y /= 2
    return y * y


def an_op_that_saved_its_input(lib, x):
    y = x * 1
    y.mul_(y)
    return y


def an_op_that_saves_its_result(lib, x):
    y = x * 1
    y.exp_()
    return y * 2


def copied(lib, x):
    y = lib.zeros(2, 3, dtype=x.dtype)
    y.copy_(x[0])
    return y * y


def fill(lib, x):
    y = x * 1
    y[0].fill_(3.0)
    y[:, 2].zero_()
    return y * y * x


def into_a_constant(lib, x):
    y = lib.zeros(2, 3, dtype=x.dtype)
    y[0] = x[1]
    y[:, 0] += x[:, 2]
    return y * y


def mask(lib, x):
    y = x * 1
    y.masked_fill_(x > 0, 2.0)
    return y * y


def clamp(lib, x):
    y = x * 3
    y.clamp_(-1, 1)
    return y * y


def reshape(lib, x):
    y = x * 1
    y.view(-1)[2:4].mul_(5)
    return y * y


PROGRAMS = [
    write_a_number, write_a_row, write_by_mask, write_by_positions, through_a_view,
    through_a_view_of_a_view, a_view_made_before_the_write, a_sibling_view, a_transposed_view,
    add_in_place, an_op_that_saved_its_input, an_op_that_saves_its_result, copied, fill,
    into_a_constant, mask, clamp, reshape,
]  # fmt: skip
NUMBERS = [[0.5, -1.5, 2.0], [1.25, -0.75, 3.0]]


ONLY_HERE = {an_op_that_saved_its_input}
"""PyTorch refuses these; here the op saves a copy of the overwritten elements."""


@pytest.mark.oracle
@pytest.mark.parametrize(
    "program",
    [program for program in PROGRAMS if program not in ONLY_HERE],
    ids=lambda program: program.__name__,
)
def test_as_in_pytorch(program):
    torch = require_torch()
    results = []
    for lib in (edutorch, torch):
        x = lib.tensor(NUMBERS, dtype=lib.float64, requires_grad=True)
        y = program(lib, x)
        y.sum().backward()
        results.append((y.tolist(), x.grad.tolist()))
    for ours, theirs in zip(*results, strict=True):
        for row, expected in zip(ours, theirs, strict=True):
            assert row == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_by_differences(program):
    x = tensor(NUMBERS, dtype=edutorch.float64, requires_grad=True)
    assert edutorch.autograd.gradcheck(lambda x: program(edutorch, x), x)


# Errors ----------------------------------------------------------------------------------------


def test_leaves_are_not_overwritten():
    x = tensor([1.0, 2.0], requires_grad=True)
    for write in (
        lambda: x.add_(1), lambda: x.__setitem__(0, 1.0), lambda: x.zero_(), lambda: x.copy_(x * 2),
        lambda: x[:1].mul_(2), lambda: x.uniform_(), lambda: x.masked_fill_(x > 0, 0.0),
    ):  # fmt: skip
        with pytest.raises(GradientError, match="leaf Variable that requires grad"):
            write()
    assert x.tolist() == [1, 2]


def test_leaves_are_overwritten_without_grad():
    x = tensor([1.0, 2.0], requires_grad=True)
    with edutorch.no_grad():
        x -= 0.5
        x[0] = 9
    assert x.is_leaf
    assert x.requires_grad
    assert x.tolist() == [9, 1.5]


def test_results_that_do_not_fit():
    x = tensor([1.0, 2.0])
    with pytest.raises(
        ShapeError, match="does not have the shape of the tensor it is written into"
    ):
        x.add_(edutorch.ones(3, 2))
    whole = tensor([1, 2])
    with pytest.raises(DTypeError, match=r"result type torch.float32 can't be cast"):
        whole.mul_(2.5)
    with pytest.raises(DTypeError, match="can't be cast"):
        whole /= 2
    assert whole.tolist() == [1, 2]


def test_types_that_fit():
    x = tensor([1, 2], dtype=edutorch.float32)
    x += tensor([1, 2])
    x *= tensor([1.5, 2.5], dtype=edutorch.float64)
    assert x.dtype is edutorch.float32
    assert x.tolist() == [3, 10]


def test_a_stretched_tensor_is_not_written_to():
    x = tensor([1.0]).expand(3)
    with pytest.raises(ShapeError, match="more than one element"):
        x += 1


def test_in_place_methods_return_the_tensor():
    x = tensor([1.0, 4.0])
    assert x.sqrt_() is x
    assert x.tolist() == [1, 2]


COMPOSED = {
    "ldexp": lambda x, w: (w,),
    "float_power": lambda x, w: (w,),
    "float_power of itself": lambda x, w: (x,),
    "ldexp of itself": lambda x, w: (x,),
    "addmv": lambda x, w: (w.diag(), x),
    "addcmul": lambda x, w: (x, w),
    "lerp": lambda x, w: (w, x),
    "xlogy": lambda x, w: (w,),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", COMPOSED)
def test_the_in_place_form_has_the_gradients_of_the_function(name, torch):
    """Its rules need the elements as they were before the write."""
    method = name.split()[0]
    results = []
    for lib, suffix in ((edutorch, ""), (edutorch, "_"), (torch, "")):
        leaves = [
            lib.tensor(elements, dtype=lib.float64, requires_grad=True)
            for elements in ([1.5, 2.5, 0.5], [2.0, 3.0, 0.75])
        ]
        x, w = leaves[0] * 1, leaves[1]
        y = getattr(x, method + suffix)(*COMPOSED[name](x, w))
        results.append(lib.autograd.grad((y * y).sum() + w.sum(), leaves))
    for out_of_place, in_place, expected in zip(*results, strict=True):
        assert in_place.tolist() == pytest.approx(out_of_place.tolist())
        assert in_place.tolist() == pytest.approx(expected.tolist())


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
@pytest.mark.parametrize("dtype", [edutorch.float32, edutorch.float64, edutorch.int64])
def test_an_in_place_form_equals_its_op(name, dtype):
    """Written in one pass where the memory has no gaps: with itself, its transpose, numbers."""
    make = lambda: edutorch.arange(1, 10).reshape(3, 3).to(dtype)  # noqa: E731
    others = [lambda x: x, lambda x: x.t(), lambda x: x.t().contiguous(), lambda x: x[0]]
    others += [lambda x: 2.5, lambda x: 1e300, lambda x: float("nan")]
    for view in (lambda x: x, lambda x: x.t(), lambda x: x[:, 1:][1:]):
        for other in others:
            x = view(make())
            if other(x).__class__ is edutorch.Tensor and other(x).shape[-1] != x.shape[-1]:
                continue
            expected = getattr(edutorch, name)(x, other(x))
            if expected.dtype is not x.dtype:
                continue
            count = x._version
            assert getattr(x, f"{name}_")(other(x)) is x and x._version == count + 1
            assert edutorch.equal(x.nan_to_num(-1), expected.nan_to_num(-1))
