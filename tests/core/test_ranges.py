"""Ranges of integers: their first and last element, and their length."""

from __future__ import annotations

import itertools

import pytest

import edutorch
from edutorch import errors
from tests.oracle import require_torch

INTEGERS = ["int64", "int32", "int16", "int8", "uint8"]
STEPS = [
    (0, 5, 1), (0.5, 3.7, 1), (0, 5, 2.5), (2.9, 5, 1), (5, 0, -1), (5, 0.5, -1.5), (0, 7, 3),
    (1, 1, 1), (-1.5, 3, 1),
]  # fmt: skip
ENDS = [(0, 10, 4), (0.5, 3.7, 4), (5, 1, 3), (-2.7, 3.9, 6), (3, 3, 2), (0, 5, 0), (1, 4, 1)]


def ranges_of(lib, dtype):
    """Yield the arguments of each range; unsigned dtypes get no negative bounds."""
    dtype = getattr(lib, dtype)
    for name, bounds in itertools.product(["arange", "range"], STEPS):
        if name == "arange" or float(bounds[2]).is_integer():  # PyTorch divides by zero
            yield (name, *bounds), getattr(lib, name)(*bounds, dtype=dtype)
    for start, end, count in ENDS:
        if dtype is not lib.uint8 or min(start, end) >= 0:
            yield ("linspace", start, end), lib.linspace(start, end, count, dtype=dtype)
            yield ("logspace", start, end), lib.logspace(start, end, count, 2.0, dtype=dtype)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
@pytest.mark.parametrize("dtype", INTEGERS)
def test_as_in_pytorch(dtype):
    torch = require_torch()
    pairs = zip(ranges_of(edutorch, dtype), ranges_of(torch, dtype), strict=True)
    for (name, ours), (_, theirs) in pairs:
        assert (str(ours.dtype), ours.tolist()) == (str(theirs.dtype), theirs.tolist()), name


def test_int64_has_all_its_digits():
    start = 2**53 + 1
    assert edutorch.arange(start, start + 4, 2).tolist() == [start, start + 2]
    assert edutorch.arange(2**62, 2**62 + 2).tolist() == [2**62, 2**62 + 1]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_step_that_is_no_integer_is_refused(dtype):
    with pytest.raises(errors.ShapeError, match=r"arange: step must be nonzero.*0.5 is 0"):
        edutorch.arange(0, 3, 0.5, dtype=getattr(edutorch, dtype))


@pytest.mark.parametrize("name", ["linspace", "logspace"])
def test_a_bound_beyond_the_type_is_refused(name):
    with pytest.raises(errors.ValueRangeError, match=f"{name}: value cannot be converted to type"):
        getattr(edutorch, name)(0, 255, 3, dtype=edutorch.int8)
