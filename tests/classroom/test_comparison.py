"""One comparator for all exercises: type, shape, dtype, elements, in this order."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch as torch
from edutorch.classroom.comparison import compare

X = torch.tensor([1.0, 2.0])

DIFFERENT = {
    "empty": (torch.empty(0), X, "the shape of answer is (0,), expected (2,)"),
    "broadcast": (torch.ones(1), torch.ones(2), "the shape of answer is (1,), expected (2,)"),
    "array": (X.numpy(), X, "the type of answer is array, expected Tensor"),
    "list": ([1.0, 2.0], X, "the type of answer is list, expected Tensor"),
    "nothing": (None, X, "the type of answer is None, expected Tensor"),
    "bool": (True, 1, "the type of answer is bool, expected number"),
    "object": (object(), 1, "the type of answer is object, expected number"),
    "dtype": (X.double(), X, "the dtype of answer is float64, expected float32"),
    "value": (X + 1, X, "answer is [2, 3], expected [1, 2]"),
    "nan": (X * torch.nan, X, "answer is [nan, nan], expected [1, 2]"),
    "inf": (torch.tensor([1.0, torch.inf]), X, "answer is [1, inf], expected [1, 2]"),
    "integers": (torch.tensor([1, 3]), torch.tensor([1, 2]), "answer is [1, 3], expected [1, 2]"),
    "number": (1.5, 2, "answer is 1.5, expected 2"),
    "text": ("a", "b", "answer is 'a', expected 'b'"),
    "item": ({"g": X + 1}, {"g": X}, "answer['g'] is [2, 3], expected [1, 2]"),
    "keys": ({}, {"g": X}, "answer is one of nothing, expected a dict of g"),
    "length": ((X,), (X, X), "answer is 1 items, expected 2 items"),
    "deep": ((X, [1, 3]), (X, [1, 2]), "answer[1][1] is 3, expected 2"),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_the_first_difference_is_named(name):
    actual, expected, sentence = DIFFERENT[name]
    assert str(compare(actual, expected)) == sentence


SAME = [
    (X, X.clone()), (X * (1 + 1e-6), X), (torch.tensor(torch.nan), torch.tensor(torch.nan)),
    (1, 1.0), (np.float32(2), 2), (True, True), (None, None), ("a", "a"),
    ({"a": [X, 1]}, {"a": [X, 1]}), (torch.zeros(0), torch.zeros(0)),
    (torch.tensor([torch.inf, 1.0]), torch.tensor([torch.inf, 1.0])),
    (X.bfloat16() * 1.01, X.bfloat16()), (torch.tensor([1 + 1j]), torch.tensor([1 + 1j])),
]  # fmt: skip


@pytest.mark.parametrize(("actual", "expected"), SAME)
def test_rounding_is_no_difference(actual, expected):
    assert compare(actual, expected) is None


def test_a_tolerance_is_that_of_the_dtype():
    assert compare(X + 0.01, X)
    assert compare(X + 0.01, X, {"float32": 0.1}) is None
    assert compare(X.double() + 0.01, X.double(), {"float32": 0.1})
