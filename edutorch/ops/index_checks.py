"""Checks of indices for array libraries that do not check them, such as CuPy on a GPU.

A GPU reads the elements of an index long after Python has gone on, so its library takes them
modulo the size of the axis. Here they are checked with NumPy's messages: those of the host (lists,
NumPy arrays) at once, those of the device when the program next waits for it
(`backends/pending_checks.py`); until then they are clamped.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import backends
from ..backends import has_elements
from ..backends.numpy import Array
from ..backends.pending_checks import MakeError, check_later, clamped
from ..core.error_messages import is_any_true, valid_indices
from ..errors import DimError

NO_INDEX = (
    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean "
    "arrays are valid indices"
)


def check_index_parts(
    parts: Sequence[Any], shape: tuple[int, ...], reports: bool = True
) -> tuple[Any, ...]:
    """Return the parts of an index after the checks of NumPy.

    Args:
        reports: whether to report elements that are out of range; else they are only clamped, for
            an index that was checked before.

    Raises: IndexError: a part is no index, is out of range or has the wrong shape.
    """
    parts = [checked_type(part) for part in parts]
    widths = [count_axes(part) for part in parts]
    if sum(part is Ellipsis for part in parts) > 1 or sum(widths) > len(shape):
        return tuple(parts)  # which every array library refuses
    axis = 0
    for number, (part, width) in enumerate(zip(tuple(parts), widths, strict=True)):
        if is_mask(part):
            check_mask(part, shape[axis : axis + width], axis)
        elif hasattr(part, "dtype"):
            parts[number] = checked_array(part, shape[axis], axis, shape, reports)
        axis += len(shape) - sum(widths) if part is Ellipsis else width
    check_shapes([part.shape for part in parts if hasattr(part, "dtype") and not is_mask(part)])
    return tuple(parts)


def checked_type(part: Any) -> Any:
    """Return a part of an index, objects with `__index__` as an int."""
    if part is None or part is Ellipsis or isinstance(part, (bool, int, slice, np.bool_)):
        return part
    if hasattr(part, "dtype") and part.dtype.kind in "iub":
        return part
    try:
        return operator.index(part)
    except TypeError:
        raise IndexError(NO_INDEX) from None


def is_mask(part: Any) -> bool:
    return hasattr(part, "dtype") and part.dtype.kind == "b"


def count_axes(part: Any) -> int:
    """Return how many axes of the array a part of an index selects from."""
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    return part.ndim if is_mask(part) else 1


def check_mask(mask: Array, sizes: tuple[int, ...], axis: int) -> None:
    for i, (size, count) in enumerate(zip(sizes, mask.shape, strict=True)):
        if size != count:
            raise IndexError(
                f"boolean index did not match indexed array along axis {axis + i}; size of axis is "
                f"{size} but size of corresponding boolean axis is {count}"
            )


def checked_array(
    index: Array, size: int, axis: int, shape: tuple[int, ...], reports: bool
) -> Array:
    """Return an index whose elements are in [-size, size).

    Raises: IndexError: one is not, as far as the host can know it now.
    """
    if not index.size or not has_elements(index):
        return index
    backend = backends.of(index)
    if size and backend.checks_later:
        if not reports:
            return clamped(backend, index, -size, size - 1)
        return check_later(backend, "index", index, -size, size - 1, later_error(shape, axis))
    outside = (index < -size) | (index >= size)
    if is_any_true(outside):
        element = int(index[outside].reshape(-1)[0])
        raise IndexError(f"index {element} is out of bounds for axis {axis} with size {size}")
    return index


def later_error(shape: tuple[int, ...], axis: int) -> MakeError:
    """Return what makes the error of an index out of range: that of the CPU."""

    def error(element: int) -> DimError:
        size = shape[axis]
        text = f"index {element} is out of bounds for dimension {axis} with size {size}"
        return DimError("index", text, {"input": shape}, valid_indices(text))

    return error


def check_shapes(shapes: Sequence[tuple[int, ...]]) -> None:
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        text = " ".join(f"({','.join(map(str, shape))},)" for shape in shapes)
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {text}"
        ) from None
