"""Integers that CUDA leaves undefined are marked on the strict device."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch.backends.strict import xp
from edutorch.backends.strict_behaviour import UNDEFINED_BYTE, undefined
from tests.backends.test_strict import on_device, on_host


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("i4", [0x5A5A5A5A, 2**31 - 1, -(2**31), -2, 2**31 - 1]),
        ("i8", [0x5A5A5A5A5A5A5A5A, 2**63 - 1, -(2**63), -2, 10**10]),
        ("u4", [0x5A5A5A5A, 2**32 - 1, 0, 0, 2**32 - 1]),
        ("i1", [0x5A, -1, 0, -2, -1]),
    ],
)
def test_numbers_without_an_integer(dtype, expected):
    x = on_device([np.nan, np.inf, -np.inf, -2.5, 1e10])
    y = xp.zeros(5, dtype)
    y[:] = x
    for result in (x.astype(dtype), xp.asarray(x, dtype), xp.array(x, dtype=dtype), y):
        np.testing.assert_array_equal(on_host(result), np.array(expected, dtype))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "i8"])
def test_integers_divided_by_zero_are_marked(dtype):
    """What CUDA leaves undefined is no number that a program may take for a right one."""
    a, b = (on_device(np.array(values, dtype)) for values in ([7, 0, 7], [0, 0, 2]))
    marker = undefined(np.dtype(dtype))
    assert np.asarray(marker).tobytes() == bytes([UNDEFINED_BYTE]) * marker.itemsize
    for y, last in (
        (a // b, 3), (a % b, 1), (xp.floor_divide(a, b), 3), (xp.remainder(a, b), 1),
        (xp.fmod(a, b), 1), (a // 0, marker), (xp.divmod(a, b)[1], 1),
    ):  # fmt: skip
        np.testing.assert_array_equal(on_host(y), np.array([marker, marker, last], dtype))
    out = xp.empty(3, dtype)
    xp.floor_divide(a, b, out=out)
    np.testing.assert_array_equal(on_host(out), np.array([marker, marker, 3], dtype))


def test_the_library_does_not_lean_on_undefined_integers():
    """It raises before it divides; and the integer of a NaN is the program's own matter."""
    x, zero = (edutorch.tensor([number], device="strict") for number in (7, 0))
    for divide in (edutorch.floor_divide, edutorch.remainder, edutorch.fmod):
        with pytest.raises(ZeroDivisionError):
            divide(x, zero)
    nan = edutorch.tensor([float("nan"), 2.5], device="strict")
    assert nan.long().tolist() == [0x5A5A5A5A5A5A5A5A, 2]
