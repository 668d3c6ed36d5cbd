"""Dtypes and their promotion: PyTorch's table, entry by entry."""

from __future__ import annotations

import itertools
import pickle

import pytest

import edutorch
from edutorch import dtypes
from tests.oracle import require_torch

NAMES = [dtype.name for dtype in dtypes.ALL]
NOT_OURS = "complex32"  # PyTorch's experimental type
NUMBERS = {"True": True, "3": 3, "2.5": 2.5, "1j": 1j}
OPERANDS = [f"{dtype}, {dims}" for dtype in NAMES for dims in ("0-d", "1-d")] + list(NUMBERS)


@pytest.fixture
def torch():
    return require_torch()


@pytest.fixture(params=["float32", "float64", "float16", "bfloat16"])
def default_dtype(request, torch):
    edutorch.set_default_dtype(getattr(edutorch, request.param))
    torch.set_default_dtype(getattr(torch, request.param))
    yield request.param
    edutorch.set_default_dtype(edutorch.float32)
    torch.set_default_dtype(torch.float32)


def operand(library, text: str):
    """Make "int8, 0-d", "int8, 1-d" or a Python scalar, in either library."""
    if text in NUMBERS:
        return NUMBERS[text]
    dtype, _, dims = text.partition(", ")
    return library.ones(() if dims == "0-d" else (2,), dtype=getattr(library, dtype))


def name(dtype) -> str:
    return str(dtype).removeprefix("torch.")


# Without PyTorch -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("bool", "uint8", "uint8"),
        ("uint8", "int8", "int16"),
        ("uint8", "int64", "int64"),
        ("int64", "float16", "float16"),
        ("float16", "bfloat16", "float32"),
        ("bfloat16", "float64", "float64"),
        ("float64", "complex64", "complex128"),
        ("float16", "complex64", "complex64"),
    ],
)
def test_some_pairs(first, second, expected):
    pair = getattr(edutorch, first), getattr(edutorch, second)
    assert edutorch.promote_types(*pair).name == expected
    assert edutorch.promote_types(*pair[::-1]).name == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("int64, 1-d", "2.5", "float32"),
        ("float16, 1-d", "2.5", "float16"),
        ("float16, 1-d", "float64, 0-d", "float16"),
        ("int8, 1-d", "int64, 0-d", "int8"),
        ("int8, 1-d", "float64, 0-d", "float64"),
        ("uint8, 1-d", "3", "uint8"),
        ("bool, 1-d", "3", "int64"),
        ("float64, 1-d", "1j", "complex128"),
        ("int32, 1-d", "1j", "complex64"),
    ],
)
def test_some_operands(first, second, expected):
    operands = operand(edutorch, first), operand(edutorch, second)
    assert edutorch.result_type(*operands).name == expected
    assert (operands[0] * operands[1]).dtype.name == expected
    assert (operands[1] * operands[0]).dtype.name == expected


def test_types_describe_themselves():
    assert repr(edutorch.float32) == "torch.float32"
    assert edutorch.long is edutorch.int64
    assert edutorch.double.itemsize == 8
    assert edutorch.bfloat16.is_floating_point
    assert not edutorch.uint8.is_signed
    assert edutorch.complex64.to_real() is edutorch.float32
    assert edutorch.float64.to_complex() is edutorch.complex128
    for dtype in dtypes.ALL:
        assert pickle.loads(pickle.dumps(dtype)) is dtype


def test_mistakes():
    with pytest.raises(TypeError, match="only floating types can be the default"):
        edutorch.set_default_dtype(edutorch.int64)
    with pytest.raises(TypeError, match="tensors cannot hold NumPy's"):
        dtypes.of("datetime64[s]")
    with pytest.raises(TypeError, match="expected a number, got str"):
        edutorch.result_type(edutorch.ones(2), "3")


# PyTorch's whole table ---------------------------------------------------------------------


@pytest.mark.oracle
@pytest.mark.parametrize("first", NAMES)
def test_promote_types_and_can_cast(torch, first):
    for second in NAMES:
        ours = getattr(edutorch, first), getattr(edutorch, second)
        theirs = getattr(torch, first), getattr(torch, second)
        assert edutorch.promote_types(*ours).name == name(torch.promote_types(*theirs)), second
        assert edutorch.can_cast(*ours) == torch.can_cast(*theirs), second


@pytest.mark.oracle
def test_result_type(torch, default_dtype):
    wrong = []
    for first, second in itertools.product(OPERANDS, OPERANDS):
        ours = edutorch.result_type(operand(edutorch, first), operand(edutorch, second))
        theirs = name(torch.result_type(operand(torch, first), operand(torch, second)))
        if theirs not in (ours.name, NOT_OURS):
            wrong.append(f"{first} with {second}: {ours.name}, PyTorch has {theirs}")
    assert wrong == []


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("op", ["add", "mul", "true_divide", "eq", "maximum", "pow"])
def test_ops_compute_in_that_type(torch, default_dtype, op):
    wrong = []
    for first, second in itertools.product(OPERANDS, OPERANDS):
        if first in NUMBERS or (op == "maximum" and second in NUMBERS):
            continue
        try:
            theirs = name(getattr(torch, op)(operand(torch, first), operand(torch, second)).dtype)
        except RuntimeError:
            continue  # PyTorch has no such op for these types
        ours = getattr(edutorch, op)(operand(edutorch, first), operand(edutorch, second)).dtype.name
        if theirs not in (ours, NOT_OURS):
            wrong.append(f"{op}({first}, {second}): {ours}, PyTorch has {theirs}")
    assert wrong == []


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", [dtype for dtype in NAMES if dtype != "bool"])
def test_limits(torch, dtype):
    ours, theirs = getattr(edutorch, dtype), getattr(torch, dtype)
    if ours.category == 1:
        limits, expected = edutorch.iinfo(ours), torch.iinfo(theirs)
        fields = ("bits", "min", "max", "dtype")
    else:
        limits, expected = edutorch.finfo(ours), torch.finfo(theirs)
        fields = ("bits", "eps", "max", "min", "tiny", "smallest_normal", "dtype")
    for field in fields:
        assert getattr(limits, field) == getattr(expected, field), field
