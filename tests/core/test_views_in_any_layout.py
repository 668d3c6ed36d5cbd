"""Writes through views whose base is transposed, has gaps, or holds complex numbers; and the
methods that change how a tensor shows its memory. The gradients are PyTorch's."""

from __future__ import annotations

import pytest

import edutorch
from edutorch.errors import GradientError, ShapeError
from tests.devices import device  # noqa: F401
from tests.oracle import require_torch

pytestmark = pytest.mark.usefixtures("device")


# Each takes a library and a leaf x of shape (2, 3); returns the tensor to differentiate.


def a_row_of_a_transposed_base(lib, x):
    y = x.t().clone()  # keeps the order in memory
    assert not y.is_contiguous()
    y[1].mul_(3)
    y[:, 0].mul_(x[0, 0])
    return y * y


def a_view_of_a_transposed_base_made_before(lib, x):
    y = x.t().clone()
    view = y[1:]
    y.mul_(2)
    return view * view


def a_transposed_base_flat(lib, x):
    y = x.t().clone()
    y.as_strided((3,), (2,), 1).mul_(5)
    return y * y


def channels_last(lib, x):
    y = (x * 1).reshape(1, 2, 1, 3).contiguous(memory_format=lib.channels_last)
    y[:, 1].mul_(x.sum())
    y.select(3, 0).add_(x[0, 0])
    return y * y


def windows_of_a_transposed_base(lib, x):
    y = x.t().clone()
    y.unfold(0, 1, 2).mul_(4)
    return y * y


def a_part_beside_the_tensor(lib, x):
    y = (x * 1).view(-1)[2:]
    return y.as_strided((2, 2), (1, 1)) * y.as_strided((2, 2), (2, 1))


def from_the_start_of_the_storage(lib, x):
    y = (x * 1).view(-1)[2:]
    return y.as_strided((6,), (1,), 0) ** 2


def scattered_into_a_transposed_one(lib, x):
    return x.t().as_strided_scatter(x[0, :2] * 2, (2,), (2,), 1) ** 2


def scattered_into_a_part(lib, x):
    return (x * 1).view(-1)[2:].as_strided_scatter(x[0, :2] * 2, (2,), (1,), 3) ** 2


def real_part(lib, x):
    z = lib.complex(x, x * 2)
    z.real.mul_(3)
    return z.real * z.real + z.imag


def imaginary_part_of_a_transposed_base(lib, x):
    z = lib.complex(x, x * 2).t().clone()
    z[1].imag.mul_(x[0, 0])
    z.imag[2].zero_()
    return z.real * z.imag


def pairs(lib, x):
    z = lib.complex(x, x * x)
    seen = lib.view_as_real(z)
    z.mul_(2)
    seen[0, 1, 0] = x[1, 1]
    return seen * seen


def pairs_as_complex(lib, x):
    y = (x * 1).t().contiguous().view(3, 2)
    z = lib.view_as_complex(y)
    z.mul_(2j)
    y[0].mul_(3)
    return y * y + (z * z.conj()).real.reshape(3, 1)


def a_number_into_complex_numbers(lib, x):
    y = (x * 1).t().contiguous()
    lib.view_as_complex(y)[1] = x[0, 0] * 2
    return y * y


def turned_in_place(lib, x):
    y = x * 1
    view = y[0]
    y.t_()
    y[0].mul_(3)
    y.unsqueeze_(1).transpose_(0, 2)
    return y.squeeze_(1)[0] * view[:2].sum()


def turned_view_in_place(lib, x):
    y = x * 1
    view = y[:, 1:]
    view.t_()
    view[0].mul_(x[0, 0])
    return y * y


def turned_by_strides(lib, x):
    y = x * 1
    y.as_strided_((3, 2), (1, 3)).mul_(2)
    return y * y


def parts_replaced(lib, x):
    y = x.select_scatter(x[0] * 2, 0, 1).slice_scatter(x[:, :2] ** 2, 1, 0, 3, 2)
    return y.diagonal_scatter(x[0, 1:] * 5, 1) ** 2


def put_and_masked(lib, x):
    y = x.put(lib.tensor([1, -1]), x[0, :2] * 3, accumulate=True)
    y = y.masked_scatter(x > 0, x.reshape(-1) ** 2)
    y.put_(lib.tensor([0, 2]), x[1, :2])
    y.masked_scatter_(lib.tensor([False, True, False]), x[:, 0] * 2)
    return y * y


def reduced_in_place(lib, x):
    y = x * 1
    y.index_reduce_(1, lib.tensor([0, 0, 2]), x * 2, "prod")
    y = y * 1
    y.fill_diagonal_(0.5)
    return y * y


def scattered_and_combined(lib, x):
    y = x.scatter(1, lib.tensor([[0], [1]]), x[:, :1], reduce="multiply") * 1
    y.scatter_(1, lib.tensor([[0], [1]]), 3.0, reduce="add")
    return y * y


def a_view_made_without_grad(lib, x):
    y = x * 1
    with lib.no_grad():
        view = y[0]
    view.mul_(3)
    view[1] = 2.0
    return y * y


def copies_of_views(lib, x):
    first = lib.narrow_copy(x, 1, 1, 2) * lib.slice_copy(x, 1, 0, 3, 2)
    return first.sum() + lib.t_copy(x) * lib.select_copy(x, 0, 1).sum()


def windows(lib, x):
    return x.t().unfold(0, 2, 1) * x.unfold(1, 2, 1).sum()


def one_part_of_several(lib, x):
    y = x * 1
    first, second = y.hsplit([1])
    return first * second


def single_numbers(lib, x):
    one = x[0, 0]
    zero = lib.tensor(0)
    y = one.gather(0, zero) + one.index_select(0, lib.tensor([0])) * 2
    y = y + one.scatter(0, zero, x[1, 1]) + one.scatter_add(0, zero, x[1, 2])
    return (y * y).reshape(1, 1)


PROGRAMS = [
    value for name, value in list(globals().items())
    if callable(value) and getattr(value, "__module__", "") == __name__ and not name.startswith("_")
    and name not in ("device",)
]  # fmt: skip
ONLY_HERE = {
    scattered_into_a_transposed_one, scattered_into_a_part, scattered_and_combined,
    a_view_made_without_grad,
}  # fmt: skip
"""PyTorch has no derivative of these."""
PAST_THE_TENSOR = {from_the_start_of_the_storage}
"""Other elements of a tensor's storage are not its own: as in PyTorch they get no gradient."""
NUMBERS = [[0.5, -1.5, 2.0], [1.25, -0.75, 3.0]]


def results_of(program, lib):
    """Return the shape and the elements of a program's result, and its gradient."""
    x = lib.tensor(NUMBERS, dtype=lib.float64, requires_grad=True)
    y = program(lib, x)
    y.sum().backward()
    return tuple(y.shape), y.flatten().tolist(), x.grad.flatten().tolist()


@pytest.mark.oracle
@pytest.mark.parametrize(
    "program",
    [program for program in PROGRAMS if program not in ONLY_HERE],
    ids=lambda program: program.__name__,
)
def test_as_in_pytorch(program, device):  # noqa: F811
    results = [results_of(program, edutorch)]
    try:
        results.append(results_of(program, require_torch()))
    except RuntimeError as error:  # an older PyTorch
        if "is not implemented" not in str(error) or device == "cpu":
            raise
        edutorch.set_default_device("cpu")
        results.append(results_of(program, edutorch))
    assert results[0][0] == results[1][0]
    assert results[0][1] == pytest.approx(results[1][1], rel=1e-12)
    assert results[0][2] == pytest.approx(results[1][2], rel=1e-12)


@pytest.mark.parametrize(
    "program",
    [program for program in PROGRAMS if program not in PAST_THE_TENSOR],
    ids=lambda program: program.__name__,
)
def test_by_differences(program, device):  # noqa: F811
    if device == "strict" and program is not a_row_of_a_transposed_base:
        pytest.skip("the derivative is the same code: checked on the CPU")
    x = edutorch.tensor(NUMBERS, dtype=edutorch.float64, requires_grad=True)
    assert edutorch.autograd.gradcheck(lambda x: program(edutorch, x), x)
    assert edutorch.autograd.gradgradcheck(lambda x: program(edutorch, x), x)


def test_several_views_may_be_written_to():
    """Each taken by itself: into those of one function, such as unbind, nothing is written."""
    x = edutorch.tensor(NUMBERS, dtype=edutorch.float64, requires_grad=True)

    def program(x):
        y = x * 1
        first, second = y[0], y[1]
        first.mul_(second.detach() * 2)
        y.tensor_split(3, 1)[2].zero_()
        return y * y

    detached = program(x)
    detached.sum().backward()
    a, b = edutorch.tensor(NUMBERS, dtype=edutorch.float64)
    first = 2 * a * (2 * b) ** 2
    first[2] = 0
    assert x.grad[0].tolist() == pytest.approx(first.tolist())
    assert x.grad[1].tolist() == pytest.approx([2.5, -1.5, 0])


# Errors ----------------------------------------------------------------------------------------


def test_a_view_of_another_type_is_not_followed():
    x = edutorch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    bits = y.view(edutorch.int32)
    assert not bits.requires_grad
    with pytest.raises(GradientError, match="through a view of another type"):
        bits.zero_()


def test_leaves_keep_their_shape():
    x = edutorch.zeros(2, 3, requires_grad=True)
    for name, arguments in {
        "t_": (), "transpose_": (0, 1), "squeeze_": (), "unsqueeze_": (0,), "swapaxes_": (0, 1),
        "as_strided_": ((1,), (1,)),
    }.items():  # fmt: skip
        with pytest.raises(GradientError, match="leaf Variable that requires grad"):
            getattr(x, name)(*arguments)
    with pytest.raises(GradientError, match="cannot resize variables that require grad"):
        x.resize_(2)
    assert tuple(x.shape) == (2, 3)


def test_views_stay_inside_the_storage():
    x = edutorch.arange(6)
    with pytest.raises(ShapeError, match="would reach number 6 of memory that holds 6"):
        x.as_strided((3, 2), (2, 1), 1)
    with pytest.raises(ShapeError, match="one non-negative stride for each size"):
        x.as_strided((2,), (-1,), 3)
    with pytest.raises(ShapeError, match="shape of the region"):
        x.as_strided_scatter(edutorch.zeros(3), (2,), (1,))


# Other memory ----------------------------------------------------------------------------------


def test_resizing_keeps_what_fits():
    x = edutorch.arange(6)
    address = x.data_ptr()
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert x.data_ptr() == address
    assert x.resize_(3, 2).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert x.resize_(8)[:6].tolist() == [0, 1, 2, 3, 4, 5]


def test_set_shows_the_memory_of_another():
    x, y = edutorch.zeros(3), edutorch.arange(4.0)
    x.set_(y)
    x[0] = 9
    assert y.tolist() == [9, 1, 2, 3]
    x.set_(y.untyped_storage(), 1, (2, 2), (1, 1))
    assert x.tolist() == [[1, 2], [2, 3]]
    assert x.untyped_storage() == y.untyped_storage()
    assert x.set_().numel() == 0
