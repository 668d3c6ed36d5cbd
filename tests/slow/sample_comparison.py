"""Whether two results agree: types, shapes and values, float64 being the judge.

The tolerance of a type is absolute and relative. A result that is further than that from PyTorch's
agrees all the same where it is as near to PyTorch's answer in float64 as PyTorch's own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

import edutorch
from tests.slow.sample_translation import NAMES, NoCounterpartError, to_numpy

TOLERANCES = {
    "float64": 1e-7,
    "complex128": 1e-7,
    "float32": 2e-5,
    "complex64": 2e-5,
    "float16": 2e-3,
    "bfloat16": 1.6e-2,
}
"""Absolute and relative error per type; integers and bool are compared exactly."""


class Leaf(NamedTuple):
    """A part of a result: a tensor's type and elements, or a plain value."""

    dtype: str
    shape: tuple[int, ...]
    array: np.ndarray
    requires_grad: bool = False


def torch_leaf(value: torch.Tensor) -> Leaf:
    """Return what is compared of PyTorch's tensor."""
    if value.dtype not in NAMES:
        raise NoCounterpartError(str(value.dtype))
    return Leaf(NAMES[value.dtype], tuple(value.shape), to_numpy(value), value.requires_grad)


def edutorch_leaf(value: Any) -> Leaf:
    """Return what is compared of edutorch's tensor."""
    dense = value if value.layout is edutorch.strided else value.to_dense()
    array = np.array(dense.detach().cpu().numpy())
    dtype = str(value.dtype).removeprefix("torch.")
    return Leaf(dtype, tuple(value.shape), array, value.requires_grad)


def plain_leaf(value: Any) -> Leaf:
    """Return what is compared of a number, a type or a word."""
    if isinstance(value, (torch.dtype, edutorch.dtype)):
        value = str(value).removeprefix("torch.")
    name = "" if value is None else type(value).__name__
    return Leaf(name, (), np.asarray(value))


def flatten(value: Any) -> list[Leaf]:
    """Return the parts of a result in order."""
    if isinstance(value, torch.Tensor):
        return [torch_leaf(value)]
    if isinstance(value, edutorch.Tensor):
        return [edutorch_leaf(value)]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in flatten(part)]
    return [plain_leaf(value)]


def widest_dtype(array: np.ndarray) -> np.ndarray:
    """Return elements as float64 or complex128."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def distance(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return |left - right|: 0 where both are the same infinity or NaN, infinite where one is."""
    left, right = widest_dtype(left), widest_dtype(right)
    with np.errstate(all="ignore"):
        error = np.abs(left - right)
        same = (left == right) | (np.isnan(left) & np.isnan(right))
    error[same] = 0.0
    error[np.isnan(error)] = np.inf
    return error


def differing(got: np.ndarray, wanted: np.ndarray, dtype: str) -> np.ndarray:
    """Return where two arrays differ by more than the tolerance of the type."""
    error = np.atleast_1d(distance(np.atleast_1d(got), np.atleast_1d(wanted)))
    tolerance = TOLERANCES.get(dtype, 0.0)
    size = np.abs(widest_dtype(np.atleast_1d(wanted)))
    size[~np.isfinite(size)] = 0.0
    return error > tolerance * (1.0 + size)


def is_as_near(got: np.ndarray, wanted: np.ndarray, judge: np.ndarray, dtype: str) -> bool:
    """Return True if `got` is as near to the judge's answer, in its own type, as `wanted`."""
    if got.dtype != judge.dtype:
        with np.errstate(all="ignore"):
            judge = judge.astype(got.dtype)
    if not differing(got, judge, dtype).any():
        return True
    ours, theirs = (distance(np.atleast_1d(side), np.atleast_1d(judge)) for side in (got, wanted))
    theirs[~np.isfinite(theirs)] = 0.0
    return bool(ours.max(initial=0.0) <= 2 * theirs.max(initial=0.0))


def disagreement(
    got: Any, wanted: Any, judge: Any = None, *, values: bool = True, flags: bool = False
) -> str | None:
    """Return in a few words how two results differ, or None where they agree.

    Args:
        got: edutorch's result.
        wanted: PyTorch's result.
        judge: A function that returns PyTorch's result in float64, called only where they differ.
        values: Whether the elements are compared.
        flags: Whether `requires_grad` is compared.
    """
    ours, theirs = flatten(got), flatten(wanted)
    if len(ours) != len(theirs):
        return f"parts: {len(ours)} for {len(theirs)}"
    judged: list[Leaf] | None = None
    for index, (leaf, expected) in enumerate(zip(ours, theirs, strict=True)):
        part = f"part {index}: " if index else ""
        if leaf.dtype != expected.dtype:
            return f"{part}type: {leaf.dtype} for {expected.dtype}"
        if leaf.shape != expected.shape:
            return f"{part}shape: {leaf.shape} for {expected.shape}"
        if flags and leaf.requires_grad != expected.requires_grad:
            return f"{part}requires_grad: {leaf.requires_grad} for {expected.requires_grad}"
        if not values:
            continue
        if leaf.array.dtype.kind in "USO":
            if str(leaf.array) != str(expected.array):
                return f"{part}value: {leaf.array} for {expected.array}"
            continue
        dtype = expected.dtype if expected.dtype in TOLERANCES else ""
        dtype = "float64" if expected.dtype in ("float", "complex") else dtype
        wrong = differing(leaf.array, expected.array, dtype)
        if not wrong.any():
            continue
        if judge is not None and judged is None:
            judged = flatten(judge())
        if judged and is_as_near(leaf.array, expected.array, judged[index].array, dtype):
            continue
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        shown = np.atleast_1d(leaf.array)[at], np.atleast_1d(expected.array)[at]
        return (
            f"{part}value: {shown[0]} for {shown[1]} at {at} ({int(wrong.sum())} of {wrong.size})"
        )
    return None
