"""Shape contracts, dims and broadcasting."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import edutorch
from edutorch import ones, zeros
from edutorch.core.op import REGISTRY
from edutorch.core.shapes import Contract, Size, broadcast_shapes, keepdim_shape, normal_dim
from edutorch.errors import DimError, ShapeError
from tests.devices import DEVICES

CONV = Contract("conv2d", "n c h w, o c/groups i j, o -> n o p q")
NAMES = ("input", "weight", "bias")


def check(contract, *shapes, names=NAMES, **settings):
    arrays = [None if shape is None else np.zeros(shape) for shape in shapes]
    contract.check(names, arrays, settings)


def test_shapes_that_fit():
    check(CONV, (2, 3, 8, 8), (4, 3, 3, 3), (4,), groups=1)
    check(CONV, (2, 6, 8, 8), (4, 2, 3, 3), None, groups=3)


def test_one_name_one_size():
    with pytest.raises(ShapeError) as caught:
        check(CONV, (2, 5, 32, 32), (8, 3, 3, 3), None, groups=1)
    assert str(caught.value).splitlines()[:3] == [
        "conv2d: axis c is 5 in `input` but 3 in `weight`",
        "  input   (n c h w)        = (2, 5, 32, 32)",
        "  weight  (o c/groups i j) = (8, 3, 3, 3)",
    ]


def test_a_size_divided_by_a_setting():
    with pytest.raises(ShapeError, match="axis c is 6 in `input` but 9 in `weight`"):
        check(CONV, (2, 6, 8, 8), (4, 3, 3, 3), None, groups=3)


def test_the_number_of_axes():
    with pytest.raises(ShapeError, match=r"`input` has 3 axes, expected 4 \(n c h w\)"):
        check(CONV, (3, 8, 8), (4, 3, 3, 3), None, groups=1)


def test_leading_axes():
    linear = Contract("linear", "... k, m k, m -> ... m")
    for shape in [(3,), (2, 3), (5, 2, 3)]:
        check(linear, shape, (4, 3), (4,))
    with pytest.raises(ShapeError, match="axis k is 2 in `input` but 3 in `weight`"):
        check(linear, (3, 2), (4, 3), None)
    with pytest.raises(ShapeError, match="`input` needs at least 1 axes"):
        check(linear, (), (4, 3), None)


WITH_CONTRACT = [op for op in REGISTRY.values() if op.contract is not None]


@pytest.mark.parametrize(
    ("name", "text"),
    [("mm", "n k, k m -> n m"), ("bmm", "b n k, b k m -> b n m"), ("mv", "n k, k -> n"),
     ("dot", "n, n ->"), ("outer", "n, m -> n m"), ("linear", "... k, m k, m -> ... m"),
     ("conv2d", "n c h w, o c/groups i j, o -> n o p q")],
)  # fmt: skip
def test_an_op_has_the_contract_that_its_decorator_states(name, text):
    assert REGISTRY[name].contract.text == text


@pytest.mark.parametrize("op", WITH_CONTRACT, ids=lambda op: op.name)
def test_every_contract_names_the_inputs(op):
    assert len(op.contract.terms) == len(op.inputs)
    assert "->" in op.contract.text
    divisors = {axis.partition("/")[2] for term in op.contract.terms for axis in term} - {""}
    assert divisors <= set(op.settings)


@pytest.mark.parametrize("op", WITH_CONTRACT, ids=lambda op: op.name)
@pytest.mark.parametrize("device", DEVICES)
def test_every_contract_is_checked(op, device):
    """An axis too many in the first input is refused, by the fast path and by the general one."""
    shapes = [tuple(2 for axis in term if axis != "...") for term in op.contract.terms]
    inputs = {
        name: ones(*shape, device=device) for name, shape in zip(op.inputs, shapes, strict=True)
    }
    first = op.inputs[0]
    if "..." in op.contract.terms[0]:
        inputs[first] = ones(*shapes[0][:-1], 3, device=device)
    else:
        inputs[first] = ones(*shapes[0], 2, device=device)
    sizes = {"size": (4, 4), "kernel": (2, 2), "stride": (1, 1), "pads": ((0, 0), (0, 0))}
    sizes |= {"dilation": (1, 1), "groups": 1, "scale": 1.0}
    settings = {name: sizes[name] for name in op.settings if name in sizes}
    with pytest.raises(ShapeError, match=rf"^{op.name}: (axis|`{first}` has)"):
        op.function(**inputs, **settings)


# Broadcasting and dims -------------------------------------------------------------------------


def test_broadcast_shapes_as_numpy():
    shapes = [(), (1,), (3,), (2, 1), (2, 3), (4, 1, 3), (0,), (1, 0)]
    for pair in itertools.product(shapes, shapes):
        try:
            expected = np.broadcast_shapes(*pair)
        except ValueError:
            with pytest.raises(ShapeError, match="neither is 1"):
                broadcast_shapes(*pair)
        else:
            assert broadcast_shapes(*pair) == expected


def test_dims_are_counted_from_both_ends():
    assert [normal_dim("op", dim, 3) for dim in (-3, -1, 0, 2)] == [0, 2, 0, 2]
    assert normal_dim("op", -1, 0) == 0
    for dim in (3, -4):
        with pytest.raises(DimError, match="Dimension out of range"):
            normal_dim("op", dim, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.sum(2), lambda x: x.sum((0, 5)), lambda x: x.softmax(2),
            lambda x: x.transpose(0, 2),
        lambda x: x.permute(0, 2), lambda x: x.unsqueeze(4), lambda x: x.squeeze(2),
        lambda x: x.cumsum(3), lambda x: edutorch.cat([x, x], 2), lambda x: edutorch.stack([x, x],
            3),
        lambda x: x.select(2, 0), lambda x: x.flip(2), lambda x: x.max(2), lambda x: x.sort(2),
        lambda x: x.diagonal(0, 0, 2), lambda x: x.size(2), lambda x: x.split(1, 2),
        lambda x: x.unbind(2), lambda x: x.argmax(3), lambda x: x.roll(1, 2),
    ],
)  # fmt: skip
def test_dims_that_do_not_exist_are_index_errors(call):
    with pytest.raises(IndexError):
        call(zeros(2, 3))


def test_kept_shape():
    assert keepdim_shape((2, 3, 4), None) == (1, 1, 1)
    assert keepdim_shape((2, 3, 4), 1) == (2, 1, 4)
    assert keepdim_shape((2, 3, 4), (0, 2)) == (1, 3, 1)


def test_sizes_are_tuples_with_more():
    size = zeros(2, 3).shape
    assert size == (2, 3)
    assert isinstance(size, tuple)
    assert repr(size) == "torch.Size([2, 3])"
    assert size.numel() == 6
    assert isinstance(size[1:], Size)
    assert isinstance(size + (4,), Size)
    assert zeros(size).shape == size


OLD_CONSTRUCTOR = {
    "nothing": lambda lib: lib.Tensor(),
    "a number": lambda lib: lib.Tensor(2),
    "0": lambda lib: lib.Tensor(0),
    "two numbers": lambda lib: lib.Tensor(2, 3),
    "a size": lambda lib: lib.Tensor(lib.Size([2, 3])),
    "a size with 0": lambda lib: lib.Tensor(lib.Size([0, 2])),
    "the size of a 0-d tensor": lambda lib: lib.Tensor(lib.tensor(1.0).shape),
    "a list": lambda lib: lib.Tensor([1, 2]),
    "a tuple": lambda lib: lib.Tensor((1, 2, 3)),
    "an empty list": lambda lib: lib.Tensor([]),
    "a 0-d tensor": lambda lib: lib.Tensor(lib.tensor(1.0)),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", OLD_CONSTRUCTOR)
def test_the_old_constructor_has_pytorchs_shapes(name, torch):
    ours, theirs = OLD_CONSTRUCTOR[name](edutorch), OLD_CONSTRUCTOR[name](torch)
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.dtype) == str(theirs.dtype)


def test_a_dim_that_is_no_integer_is_refused():
    with pytest.raises(TypeError, match="sum: argument `dim` must be an int, not str"):
        edutorch.ones(3).sum("a")


@pytest.mark.parametrize(("name", "least"), [("fliplr", 2), ("flipud", 1), ("rot90", 2)])
def test_too_few_dimensions_are_told_in_the_name_of_the_op(name, least):
    """Not in the name of `flip`, which these call."""
    for ndim in range(4):
        x = zeros((2,) * ndim)
        for call in (getattr(edutorch, name), lambda x: getattr(x, name)()):
            if ndim >= least:
                assert call(x).shape == x.shape
                continue
            with pytest.raises(ShapeError, match=f"^{name}: needs at least {least} dimension"):
                call(x)
