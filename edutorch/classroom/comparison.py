"""Compares an answer with what is right, and says in one sentence where they differ.

In this order: type, shape, dtype, elements. (`numpy.allclose` alone would find an empty array close
to any shape that broadcasts with it.)
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..backends.numpy import Array
from ..core.tensor import Tensor

TOLERANCES = {"float64": 1e-7, "float32": 1e-4, "float16": 1e-2, "bfloat16": 4e-2}
"""By dtype, the relative difference that rounding may cause; complex numbers as their parts."""


class Difference(NamedTuple):
    """Where an answer differs from what is right.

    Attributes:
        aspect: "type", "shape", "dtype" or "value".
        path: the part that differs, as "['grad']"; "" for the whole answer.
        expected, actual: how they are called in the sentence.
    """

    aspect: str
    path: str
    expected: str
    actual: str

    def __str__(self) -> str:
        name = f"answer{self.path}"
        if self.aspect == "value":
            return f"{name} is {self.actual}, expected {self.expected}"
        return f"the {self.aspect} of {name} is {self.actual}, expected {self.expected}"


def compare(
    actual: Any, expected: Any, tolerance: Mapping[str, float] | None = None, path: str = ""
) -> Difference | None:
    """Return the first difference, or None.

    Args:
        actual: the answer: a tensor, array, number, text or None, or a nest of them.
        expected: what is right. A NaN in it is equal to a NaN.
        tolerance: relative to the largest expected element, by dtype; see `TOLERANCES`.

    >>> print(compare(tensor([1.0, 2.0]), tensor([1.0, 2.0, 3.0])))
    the shape of answer is (2,), expected (3,)
    """
    if type_name(actual) != type_name(expected):
        return Difference("type", path, type_name(expected), type_name(actual))
    if isinstance(expected, Mapping):
        return compare_mappings(actual, expected, tolerance, path)
    if isinstance(expected, Sequence) and not isinstance(expected, str):
        return compare_sequences(actual, expected, tolerance, path)
    if isinstance(expected, Tensor | np.ndarray):
        return compare_arrays(elements(actual), elements(expected), tolerance or {}, path)
    if isinstance(expected, numbers.Number) and not isinstance(expected, bool):
        limit = (tolerance or {}).get("float64", TOLERANCES["float32"])
        close = is_close(np.asarray(actual, complex), np.asarray(expected, complex), limit)
        return None if close else Difference("value", path, repr(expected), repr(actual))
    return None if actual == expected else Difference("value", path, repr(expected), repr(actual))


def type_name(value: Any) -> str:
    """Return what an answer is, as its author would call it."""
    if isinstance(value, bool | np.bool_):
        return "bool"
    for types, name in (
        (Tensor, "Tensor"), (np.ndarray, "array"), (numbers.Number, "number"), (str, "text"),
        (Mapping, "dict"), (tuple, "tuple"), (list, "list"),
    ):  # fmt: skip
        if isinstance(value, types):
            return name
    return "None" if value is None else type(value).__name__


def compare_mappings(
    actual: Mapping[Any, Any],
    expected: Mapping[Any, Any],
    tolerance: Mapping[str, float] | None,
    path: str,
) -> Difference | None:
    if actual.keys() != expected.keys():
        names = [", ".join(sorted(map(str, mapping))) for mapping in (expected, actual)]
        return Difference("value", path, f"a dict of {names[0]}", f"one of {names[1] or 'nothing'}")
    pairs = ((actual[key], value, f"{path}[{key!r}]") for key, value in expected.items())
    return first_difference(pairs, tolerance)


def compare_sequences(
    actual: Sequence[Any],
    expected: Sequence[Any],
    tolerance: Mapping[str, float] | None,
    path: str,
) -> Difference | None:
    if len(actual) != len(expected):
        return Difference("value", path, f"{len(expected)} items", f"{len(actual)} items")
    pairs = (
        (one, other, f"{path}[{index}]")
        for index, (one, other) in enumerate(zip(actual, expected, strict=True))
    )
    return first_difference(pairs, tolerance)


def first_difference(pairs: Any, tolerance: Mapping[str, float] | None) -> Difference | None:
    for actual, expected, path in pairs:
        if difference := compare(actual, expected, tolerance, path):
            return difference
    return None


def elements(value: Tensor | Array) -> np.ndarray:
    return value.numpy(force=True) if isinstance(value, Tensor) else value


def compare_arrays(
    actual: np.ndarray, expected: np.ndarray, tolerance: Mapping[str, float], path: str
) -> Difference | None:
    if actual.shape != expected.shape:
        return Difference("shape", path, str(expected.shape), str(actual.shape))
    if actual.dtype != expected.dtype:
        return Difference("dtype", path, expected.dtype.name, actual.dtype.name)
    name = np.real(expected).dtype.name
    limit = tolerance.get(name, TOLERANCES.get(name, 0.0))
    if is_close(actual, expected, limit):
        return None
    return Difference("value", path, text_of(expected), text_of(actual))


def is_close(actual: np.ndarray, expected: np.ndarray, tolerance: float) -> bool:
    """Return whether all elements are close, relative to the largest finite one expected."""
    if not tolerance:
        return bool(np.array_equal(actual, expected))
    wide = np.result_type(expected.dtype, np.float64)
    actual, expected = actual.astype(wide), expected.astype(wide)
    finite = np.isfinite(expected)
    if not np.array_equal(actual[~finite], expected[~finite], equal_nan=True):
        return False
    scale = abs(expected[finite]).max(initial=0.0)
    # With NaN or infinity in the answer the comparison is False, as it should be.
    return bool((abs(actual[finite] - expected[finite]) <= tolerance * max(scale, 1e-30)).all())


def text_of(values: np.ndarray) -> str:
    """Return the elements of an array on one line, the first ones of a large array."""
    numbers_ = ", ".join(f"{value:.4g}" for value in values.reshape(-1)[:6].tolist())
    return f"[{numbers_}{', …' if values.size > 6 else ''}]" if values.ndim else numbers_
