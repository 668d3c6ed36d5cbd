"""Hundreds of random index expressions: x[index], x[index] = value and the gradients of
both are PyTorch's, or both refuse."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch import tensor
from edutorch.errors import DimError, ShapeError
from tests.devices import device  # noqa: F401
from tests.oracle import require_torch

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("device")]

SHAPE = (3, 4, 2)
FORMS = ("tensor", "tensor", "numpy", "list")


class Positions:
    """Integers or bools as a tensor, a NumPy array or a list."""

    def __init__(self, positions: np.ndarray, form: str) -> None:
        self.positions, self.form = positions, form

    def made(self, lib: Any) -> Any:
        if self.form == "tensor" or not self.positions.ndim:
            return lib.tensor(self.positions)
        return self.positions if self.form == "numpy" else self.positions.tolist()

    def __repr__(self) -> str:
        return f"{self.form}{self.positions.tolist()}"


def random_part(pick: random.Random, left: list[int], arrays: tuple[int, ...]) -> tuple[Any, int]:
    """Return one part of an index and the number of axes it takes."""
    size = left[0]
    form = pick.choice("int slice none positions positions mask mask2 zero".split())
    if form == "none":
        return None, 0
    if form == "int":
        return pick.randrange(-size, size), 1
    if form == "slice":
        bounds = [pick.choice([None, pick.randint(-size - 1, size + 1)]) for _ in range(2)]
        return slice(*bounds, pick.choice([None, 1, 2, 3])), 1
    if form == "zero":
        return Positions(np.array(pick.randrange(-size, size)), "tensor"), 1
    if form == "mask":
        chosen = np.zeros(size, bool)
        count = arrays[-1] if arrays else pick.randint(0, size)
        chosen[pick.sample(range(size), min(count, size))] = True
        return Positions(chosen, pick.choice(FORMS)), 1
    if form == "mask2" and len(left) > 1 and not arrays:
        values = [pick.random() < 0.4 for _ in range(size * left[1])]
        return Positions(np.array(values).reshape(size, left[1]), "tensor"), 2
    shape = (
        pick.choice([arrays, arrays[-1:], (1, *arrays[1:])]) if arrays else (pick.choice([1, 2]),)
    )
    values = [pick.randrange(-size, size) for _ in range(int(np.prod(shape)))]
    form = pick.choice([np.int64, np.int64, np.int32])
    return Positions(np.array(values, form).reshape(shape), pick.choice(FORMS)), 1


def random_index(seed: int) -> tuple[Any, ...]:
    pick = random.Random(seed)
    left, parts, dotted = list(SHAPE), [], False
    if pick.random() < 0.02:
        return (pick.choice([True, False]),)
    arrays = pick.choice([(), (2,), (2, 2), (3, 1)])
    while left and pick.random() < 0.85:
        if not dotted and pick.random() < 0.15:
            dotted = True
            parts.append(...)
            left = left[pick.randint(0, len(left)) :]
            continue
        part, axes = random_part(pick, left, arrays)
        parts.append(part)
        left = left[axes:]
    return tuple(parts)


def make_index(index: tuple[Any, ...], lib: Any) -> Any:
    parts = tuple(part.made(lib) if isinstance(part, Positions) else part for part in index)
    return parts[0] if len(parts) == 1 and not isinstance(parts[0], list) else parts


INDICES = [random_index(seed) for seed in range(400)]


def attempt(function: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function()
        except (IndexError, RuntimeError, TypeError, ValueError) as error:
            return error


def agree(index: Any, ours: Any, theirs: Any) -> None:
    if isinstance(theirs, Exception):
        assert isinstance(ours, Exception), (index, theirs)
        return
    assert not isinstance(ours, Exception), (index, ours)
    for mine, wanted in zip(ours, theirs, strict=True):
        if wanted is None:
            continue  # nothing of the value was used
        assert tuple(mine.shape) == tuple(wanted.shape), index
        assert mine.tolist() == wanted.tolist(), index


def test_picking_and_its_gradient():
    torch = require_torch()

    def program(lib: Any, index: Any) -> Any:
        x = lib.arange(24, dtype=lib.float64).reshape(SHAPE).requires_grad_()
        y = x[make_index(index, lib)]
        weights = lib.arange(1, y.numel() + 1, dtype=lib.float64).reshape(y.shape)
        (y * weights).sum().backward()
        return y.detach(), x.grad

    failed = 0
    for index in INDICES:
        theirs = attempt(lambda index=index: program(torch, index))
        failed += isinstance(theirs, Exception)
        agree(index, attempt(lambda index=index: program(edutorch, index)), theirs)
    assert failed < len(INDICES) / 5


@pytest.mark.parametrize("form", ["whole", "number", "broadcast", "other type"])
def test_putting_and_its_gradient(form):
    torch = require_torch()

    def program(lib: Any, index: Any) -> Any:
        x = lib.arange(24, dtype=lib.float64).reshape(SHAPE).requires_grad_()
        y = x * 1
        index = make_index(index, lib)
        picked = y[index]
        if picked.unique().numel() < picked.numel() and form != "number":
            return ()  # which of two values for one place stays is not said
        shape = tuple(picked.shape)
        if form == "broadcast":
            shape = shape[1:]
        value = lib.arange(1, int(np.prod(shape)) + 1, dtype=lib.float64).reshape(shape)
        value = value.long() if form == "other type" else value.requires_grad_()
        y[index] = 5 if form == "number" else value
        (y * y).sum().backward()
        return (y.detach(), x.grad, *([value.grad] if form in ("whole", "broadcast") else []))

    for index in INDICES:
        theirs = attempt(lambda index=index: program(torch, index))
        agree(index, attempt(lambda index=index: program(edutorch, index)), theirs)


def test_adding_at_every_kind_of_index():
    torch = require_torch()

    def program(lib: Any, index: Any) -> Any:
        x = lib.arange(24, dtype=lib.float64).reshape(SHAPE).requires_grad_()
        y = x * 1
        parts = [entry.made(lib) for entry in index if isinstance(entry, Positions)]
        parts = [part if isinstance(part, lib.Tensor) else lib.tensor(part) for part in parts]
        value = lib.tensor(2.5, dtype=lib.float64, requires_grad=True)
        y.index_put_(parts, value, accumulate=True)
        (y * y).sum().backward()
        return y.detach(), x.grad, value.grad

    for index in INDICES[:150]:
        if sum(isinstance(entry, Positions) for entry in index):
            theirs = attempt(lambda index=index: program(torch, index))
            if not isinstance(theirs, Exception):
                agree(index, attempt(lambda index=index: program(edutorch, index)), theirs)


# Errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "text"),
    [
        ((0, 4), "index 4 is out of bounds for dimension 1 with size 4"),
        ((0, 0, 0, 0), "too many indices for tensor"),
        ((slice(None), np.array([0, 7])), "index 7 is out of bounds"),
        ((..., 0, ...), "single ellipsis"),
        ((np.array([True, False]),), "boolean index did not match"),
        ((np.array([0, 1]), np.array([0, 1, 2])), "could not be broadcast"),
        ((1.5,), "only integers, slices"),
    ],
)
def test_errors_say_what_is_wrong(index, text):
    x = edutorch.zeros(SHAPE)
    index = tuple(tensor(part) if isinstance(part, np.ndarray) else part for part in index)

    def write() -> None:
        x[index] = 1.0
        x.tolist()  # a device finds it where it is read

    with pytest.raises((DimError, ShapeError), match=text):
        x[index].tolist()
    with pytest.raises((DimError, ShapeError), match=text):
        write()


def test_steps_backwards_are_refused():
    for step in (-1, 0):
        with pytest.raises(ValueError, match="step must be greater than zero"):
            edutorch.zeros(3)[::step] = 1.0
