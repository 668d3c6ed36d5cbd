"""`x[index]` and `x[index] = value`, against NumPy and PyTorch, and their errors."""

from __future__ import annotations

import random

import numpy as np
import pytest

import edutorch
from edutorch import tensor
from edutorch.errors import DimError, ShapeError
from tests.devices import device  # noqa: F401
from tests.oracle import require_torch

pytestmark = pytest.mark.usefixtures("device")

SHAPE = (3, 4, 2)


def random_index(pick: random.Random, shape=SHAPE):
    """One valid index: ints, slices, ..., None, masks and arrays of positions in any order."""
    parts, left, arrays, dotted = [], list(shape), pick.choice([(), (2,), (2, 2)]), False
    while left and (dotted or pick.random() < 0.85):
        form = pick.choice(["int", "slice", "none", "dots", "array", "mask", "list"])
        size = left[0]
        if form == "none":
            parts.append(None)
        elif form == "dots" and not dotted:
            dotted = True
            kept = pick.randint(0, len(left))
            parts.append(...)
            left = left[kept:]
        elif form == "int":
            parts.append(pick.randrange(-size, size))
            left = left[1:]
        elif form == "slice":
            bounds = [pick.choice([None, pick.randint(-size - 1, size + 1)]) for _ in range(2)]
            parts.append(slice(*bounds, pick.choice([None, 1, 2])))
            left = left[1:]
        elif form == "array" and arrays:
            values = [pick.randrange(-size, size) for _ in range(int(np.prod(arrays)))]
            parts.append(np.array(values).reshape(arrays))
            left = left[1:]
        elif form == "list" and arrays == ():
            parts.append([pick.randrange(size), 0])
            left, arrays = left[1:], None
        elif form == "mask" and arrays == ():
            parts.append(np.array([pick.random() < 0.5 for _ in range(size)]))
            left, arrays = left[1:], None
    if len(parts) == 1 and pick.random() < 0.5:
        return parts[0]
    return tuple(parts)


def convert(index, make):
    if isinstance(index, tuple):
        return tuple(convert(part, make) for part in index)
    return make(index) if isinstance(index, np.ndarray) else index


INDICES = [random_index(random.Random(seed)) for seed in range(250)]


def test_the_indices_are_of_every_kind():
    parts = [
        part for index in INDICES for part in (index if isinstance(index, tuple) else (index,))
    ]
    assert {type(part).__name__ for part in parts} == {
        "int", "slice", "NoneType", "ellipsis", "ndarray", "list",
    }  # fmt: skip


@pytest.mark.oracle
def test_picking_as_pytorch():
    torch = require_torch()
    values = np.arange(24.0).reshape(SHAPE)
    ours, theirs = tensor(values), torch.tensor(values)
    for index in INDICES:
        expected = theirs[convert(index, torch.tensor)]
        for our_index in (convert(index, tensor), index):
            picked = ours[our_index]
            assert picked.shape == tuple(expected.shape), index
            assert picked.tolist() == expected.tolist(), index


@pytest.mark.oracle
def test_putting_as_pytorch():
    torch = require_torch()
    values = np.arange(24.0).reshape(SHAPE)
    for number, index in enumerate(INDICES):
        ours, theirs = tensor(values), torch.tensor(values)
        shape = theirs[convert(index, torch.tensor)].shape
        repeats = len({*theirs[convert(index, torch.tensor)].flatten().tolist()}) < shape.numel()
        new = (
            np.full(tuple(shape), -1.0)
            if repeats
            else -np.arange(shape.numel()).reshape(shape) - 1.0
        )
        ours[convert(index, tensor)] = [tensor(new), float(new.min(initial=-1.0))][number % 2]
        theirs[convert(index, torch.tensor)] = [torch.tensor(new), float(new.min(initial=-1.0))][
            number % 2
        ]
        assert ours.tolist() == theirs.tolist(), index


def test_gradients_of_picking():
    values = np.arange(24.0).reshape(SHAPE)
    for index in INDICES:
        x = tensor(values, requires_grad=True)
        y = x[convert(index, tensor)]
        weights = tensor(np.arange(1.0, y.numel() + 1).reshape(tuple(y.shape)))
        (y * weights).sum().backward()
        back = np.zeros(24)
        for place, weight in zip(y.flatten().tolist(), weights.flatten().tolist(), strict=True):
            back[int(place)] += weight  # each number of x is its own position
        assert x.grad.tolist() == back.reshape(SHAPE).tolist(), index


# Views and copies ------------------------------------------------------------------------------


def test_simple_indices_view_and_others_copy():
    x = tensor([[1.0, 2.0], [3.0, 4.0]])
    for index in (0, slice(0, 1), (..., 1), None, (0, 1), tensor(1)):
        x[index].zero_()
    assert x.sum().item() == 0
    x = tensor([[1.0, 2.0], [3.0, 4.0]])
    for index in ([0], tensor([0, 1]), x > 0, (tensor([0]), slice(None))):
        x[index].zero_()
    assert x.tolist() == [[1, 2], [3, 4]]


def test_what_may_be_assigned():
    x = edutorch.zeros(2, 3)
    x[0] = 1
    x[1] = tensor([1, 2, 3])
    x[:, 0] = [7, 8]
    x[0, 1:] = np.array([5.0, 6.0])
    x[1, 2] = tensor(9)
    x[x == 2] = True
    assert x.tolist() == [[7, 5, 6], [8, 1, 9]]
    whole = tensor([1, 2, 3])
    whole[0] = 2.9
    assert whole.tolist() == [2, 2, 3]
    x[:, 1] += 10
    assert x[:, 1].tolist() == [15, 11]


def test_masks_with_nothing_or_everything():
    x = tensor([1.0, 2.0])
    assert x[x > 5].shape == (0,)
    x[x > 5] = 3
    x[x > 0] = 4
    assert x.tolist() == [4, 4]
    assert x[tensor([], dtype=edutorch.int64)].shape == (0,)
    assert x[[]].shape == (0,)


def test_iterating():
    x = tensor([[1, 2], [3, 4]])
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    with pytest.raises(TypeError, match="0-d"):
        iter(tensor(1))
    first, second = tensor([5.0, 6.0], requires_grad=True)
    assert (first * second).item() == 30


# Errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (5, "index 5 is out of bounds for dimension 0 with size 2"),
        (-3, "index -3 is out of bounds for dimension 0 with size 2"),
        ((0, 3), "index 3 is out of bounds for dimension 1 with size 3"),
        ((0, 0, 0), "too many indices for tensor"),
        ([0, 9], "index 9 is out of bounds for dimension 0 with size 2"),
        (1.5, "only integers, slices"),
        ("a", "only integers, slices"),
        (np.array([True, False, True]), "boolean index did not match"),
        (np.array([0.5]), "must be integers or bools"),
    ],
)
def test_wrong_indices(index, text):
    x = edutorch.zeros(2, 3)
    our_index = tensor(index) if isinstance(index, np.ndarray) else index
    with pytest.raises(DimError, match=text):
        x[our_index]
    with pytest.raises((DimError, ShapeError)):
        x[our_index] = 1.0


def test_backward_slices_are_refused():
    with pytest.raises(ValueError, match="step must be greater than zero"):
        edutorch.zeros(3)[::-1]
    with pytest.raises(ValueError, match="step must be greater than zero"):
        edutorch.zeros(3)[::0]


def test_values_of_the_wrong_shape():
    x = edutorch.zeros(2, 3)
    with pytest.raises(ShapeError, match="__setitem__: could not broadcast"):
        x[0] = tensor([1.0, 2.0])
    with pytest.raises(ShapeError):
        x[x == 0] = tensor([1.0, 2.0])
    assert x.sum().item() == 0


MASKS = ([0, 1, 1], [1, 0, 0], [2, 0, 3])


@pytest.mark.parametrize("values", MASKS)
def test_a_uint8_index_is_a_mask(values):
    mask = tensor(values, dtype=edutorch.uint8)
    x = edutorch.arange(6.0).reshape(3, 2).requires_grad_()
    with pytest.warns(UserWarning, match=r"uint8 is deprecated: it is a mask; use torch\.bool"):
        selected = x[mask]
    assert selected.tolist() == [row for row, keep in zip(x.tolist(), values, strict=True) if keep]
    selected.sum().backward()
    assert x.grad.tolist() == [[float(keep != 0)] * 2 for keep in values]
    written = edutorch.zeros(3, 2)
    with pytest.warns(UserWarning, match="mask"):
        written[mask] = 1.0
    assert written[:, 0].tolist() == [float(keep != 0) for keep in values]
    with pytest.warns(UserWarning, match="mask"):
        put = edutorch.zeros(3).index_put((mask,), tensor(2.0))
    assert put.tolist() == [2.0 * (keep != 0) for keep in values]


def test_a_uint8_number_is_a_mask_and_one_of_numpy_is_a_position():
    x = edutorch.arange(6).reshape(3, 2)
    assert x[tensor(0, dtype=edutorch.uint8)].shape == (0, 3, 2)
    assert x[tensor(2, dtype=edutorch.uint8)].shape == (1, 3, 2)
    assert x[np.uint8(2)].tolist() == [4, 5]
    with (
        pytest.warns(UserWarning, match="mask"),
        pytest.raises(DimError, match="boolean index did not match"),
    ):
        x[tensor([1, 0], dtype=edutorch.uint8)]
    torch = require_torch()
    theirs = torch.arange(6).reshape(3, 2)
    for value in (0, 1, 2):
        here, there = tensor(value, dtype=edutorch.uint8), torch.tensor(value, dtype=torch.uint8)
        assert x[here].tolist() == theirs[there].tolist()


@pytest.mark.parametrize("shape", [(1,), (1, 1), (1, 1, 1)])
def test_one_element_takes_one_value_of_any_shape(shape):
    x, value = edutorch.zeros(2, 3), edutorch.full(shape, 5.0, requires_grad=True)
    x[1, 2] = value
    x[0, :2][1] = value * 2
    assert x.tolist() == [[0, 10, 0], [0, 0, 5]]
    x.sum().backward()
    assert value.grad.tolist() == edutorch.full(shape, 3.0).tolist()
    with pytest.raises(edutorch.errors.ShapeError):
        x[1, 2] = edutorch.ones(2)
