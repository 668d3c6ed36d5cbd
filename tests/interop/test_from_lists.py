"""Tensors from nested lists: PyTorch's dtypes and shapes, and errors that name the position."""

from __future__ import annotations

import math
from array import array
from collections import deque
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch import as_tensor, tensor
from edutorch.errors import DTypeError, RaggedError, ValueRangeError
from tests.oracle import require_torch

# Each is computed with either library as `L`.
FINE = {
    "number": lambda L: L.tensor(3),
    "float": lambda L: L.tensor(2.5),
    "bool": lambda L: L.tensor(True),
    "complex": lambda L: L.tensor(1 + 2j),
    "mixed": lambda L: L.tensor([1, 2.5]),
    "bools and ints": lambda L: L.tensor([True, 2]),
    "bools and floats": lambda L: L.tensor([[True], [0.5]]),
    "complex and ints": lambda L: L.tensor([1, 2j]),
    "tuple": lambda L: L.tensor((1, 2)),
    "range": lambda L: L.tensor(range(3)),
    "ranges": lambda L: L.tensor([range(2), range(1, 3)]),
    "deque": lambda L: L.tensor(deque([1, 2])),
    "array": lambda L: L.tensor(array("d", [1, 2])),
    "bytearray": lambda L: L.tensor(bytearray(b"ab")),
    "empty": lambda L: L.tensor([]),
    "empty rows": lambda L: L.tensor([[], []]),
    "empty, then full": lambda L: L.tensor([[]]),
    "float64 scalars": lambda L: L.tensor([np.float64(1), np.float64(2)]),
    "float32 scalars": lambda L: L.tensor([np.float32(1)]),
    "int32 scalars": lambda L: L.tensor([np.int32(1)]),
    "bool scalars": lambda L: L.tensor([np.True_]),
    "a scalar": lambda L: L.tensor(np.float64(1)),
    "scalars and floats": lambda L: L.tensor([1.0, np.float64(2)]),
    "half scalars and floats": lambda L: L.tensor([1.0, np.float16(2)]),
    "ints and scalars": lambda L: L.tensor([np.int64(1), 2.5]),
    "arrays": lambda L: L.tensor([np.ones(2), np.zeros(2)]),
    "float32 arrays": lambda L: L.tensor([np.ones(2, np.float32)]),
    "arrays and lists": lambda L: L.tensor([np.ones(2), [1, 2]]),
    "lists and arrays": lambda L: L.tensor([[1, 2], np.ones(2)]),
    "tensors": lambda L: L.tensor([L.tensor(1), L.tensor(2.0)]),
    "double tensors": lambda L: L.tensor([L.tensor(1.0, dtype=L.float64)]),
    "tensors of one": lambda L: L.tensor([L.ones(1), L.ones(1)]).reshape(-1),
    "items": lambda L: L.tensor([L.tensor(1), 2.5]),
    "nested": lambda L: L.tensor([[[1, 2]], [[3, 4]]]),
    "infinite": lambda L: L.tensor([math.inf, 1e400]),
    "large int": lambda L: L.tensor([2**63 - 1, -(2**63)]),
    "large int and float": lambda L: L.tensor([2**63, 1.5]),
    "large int as float": lambda L: L.tensor([2**63], dtype=L.float32),
    "as bool": lambda L: L.tensor([1, 0, 2], dtype=L.bool),
    "truncated": lambda L: L.tensor([1.5, -1.5], dtype=L.int64),
    "wrapped": lambda L: L.tensor([-1], dtype=L.uint8),
    "as bfloat16": lambda L: L.tensor([1.0, 2.0], dtype=L.bfloat16).float(),
    "as half": lambda L: L.tensor([70000.0], dtype=L.float16),
    "as complex": lambda L: L.tensor([1, 2], dtype=L.complex64),
    "ndarray": lambda L: L.tensor(np.arange(3)),
    "as_tensor": lambda L: L.as_tensor([1, 2.0]),
    "asarray": lambda L: L.asarray([1, 2]),
    "bytes": lambda L: L.asarray(bytearray(b"abcd"), dtype=L.uint8),
    "frombuffer": lambda L: L.frombuffer(bytearray(range(8)), dtype=L.int16, offset=2),
}


@pytest.mark.parametrize("name", FINE)
def test_like_pytorch(name):
    theirs = FINE[name](require_torch())
    ours = FINE[name](edutorch)
    assert ours.tolist() == theirs.tolist()
    assert str(ours.dtype) == str(theirs.dtype)
    assert tuple(ours.shape) == tuple(theirs.shape)


# What is wrong, the class of PyTorch's error, ours, and words of our text.
WRONG: dict[str, tuple[Any, type, type, str]] = {
    "short row": (
        [[1, 2], [3]], ValueError, RaggedError,
        r"expected sequence of length 2 at dim 1 \(got 1\)\n  len\(data\[1\]\)  = 1\n"
        r"  len\(data\[0\]\)  = 2",
    ),
    "long row": ([[1, 2], [3, 4, 5]], ValueError, RaggedError, r"length 2 at dim 1 \(got 3\)"),
    "deep row": (
        [[[1, 2], [3, 4]], [[1, 2], [3]]], ValueError, RaggedError,
        r"length 2 at dim 2 \(got 1\)\n  len\(data\[1\]\[1\]\) ",
    ),
    "empty row": ([[1], []], ValueError, RaggedError, r"length 1 at dim 1 \(got 0\)"),
    "number among rows": ([[1, 2], 3], TypeError, RaggedError, "data\\[1\\].*= 3"),
    "row among numbers": ([1, [2]], TypeError, RaggedError, "a list stands where a number"),
    "deeper row": ([[1], [[2]]], TypeError, RaggedError, "data\\[1\\]\\[0\\]"),
    "tensors": ([edutorch.ones(2)] * 2, ValueError, RaggedError, "only one element.*\n.*\n.*stack"),
    "word": ("a", TypeError, TypeError, "invalid data type 'str'"),
    "words": (["a"], ValueError, TypeError, "data\\[0\\] is 'a'"),
    "None": (None, RuntimeError, DTypeError, "Could not infer dtype of NoneType"),
    "Nones": ([1.0, None], RuntimeError, DTypeError, "data\\[1\\]\\s*= None"),
    "generator": ((x for x in [1]), RuntimeError, DTypeError, "of generator(.|\n)*list"),
    "dict": ({1: 2}, RuntimeError, DTypeError, "of dict"),
    "set": ({1}, RuntimeError, DTypeError, "of set"),
    "object": (object(), RuntimeError, DTypeError, "of object"),
    "large": (2**63, ValueError, ValueRangeError, "int64 without overflow"),
    "larger": ([2**64], ValueError, ValueRangeError, "int64 without overflow"),
    "words of NumPy": (np.array(["a"]), TypeError, TypeError, "tensors cannot hold"),
    "objects of NumPy": (np.array([None]), TypeError, TypeError, "tensors cannot hold"),
    "times": (np.array("2020", "M8"), TypeError, TypeError, "tensors cannot hold"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name):
    data, theirs, ours, text = WRONG[name]
    with pytest.raises(ours, match=text):
        tensor(data)
    if name not in ("tensors", "generator"):
        with pytest.raises(theirs):
            require_torch().tensor(data)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [([300], "uint8"), ([-300], "uint8"), ([200], "int8"), (math.nan, "int32"),
     ([math.inf], "int32"), ([2**70], "int64")],
)  # fmt: skip
def test_numbers_that_a_type_cannot_hold(data, dtype):
    with pytest.raises(ValueRangeError, match=f"cannot be converted to type {dtype} without"):
        tensor(data, dtype=getattr(edutorch, dtype))
    library = require_torch()
    with pytest.raises((RuntimeError, ValueError)):
        library.tensor(data, dtype=getattr(library, dtype))


def test_a_complex_number_is_no_real_one():
    with pytest.raises(TypeError, match="real"):
        tensor([1j], dtype=edutorch.float32)


def test_ragged_errors_are_of_both_kinds():
    for error_type in (ValueError, RuntimeError):
        with pytest.raises(error_type):
            tensor([[1], [1, 2]])


def test_arrays_that_a_tensor_cannot_show():
    for make in (edutorch.from_numpy, as_tensor):
        with pytest.raises(ValueError, match=r"negative, and(.|\n)*array.copy\(\)"):
            make(np.ones(2)[::-1])
    with pytest.raises(ValueError, match="byte order"):
        edutorch.from_numpy(np.ones(2, ">f4"))
    with pytest.raises(TypeError, match="expected a NumPy array, got list"):
        edutorch.from_numpy([1])
    assert tensor(np.arange(3)[::-1]).tolist() == [2, 1, 0]


def test_read_only_arrays():
    a = np.ones(2)
    a.flags.writeable = False
    x = edutorch.from_numpy(a)
    assert (x + 1).tolist() == [2, 2]
    with pytest.raises(RuntimeError):
        x.add_(1)
