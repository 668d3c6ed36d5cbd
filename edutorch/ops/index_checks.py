"""Checks of indices for array libraries that do not check them, such as CuPy on a GPU.

A GPU reads the elements of an index long after Python has gone on, so its library takes them
modulo the size of the axis. Here they are checked with NumPy's messages: those of the host (lists,
NumPy arrays) at no cost, those of the device by waiting for one bool.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backends import has_elements
from ..backends.numpy import Array
from ..core.error_messages import is_any_true

NO_INDEX = (
    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean "
    "arrays are valid indices"
)


def check_index_parts(parts: Sequence[Any], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the parts of an index after the checks of NumPy.

    Raises: IndexError: a part is no index, is out of range or has the wrong shape.
    """
    parts = [checked_type(part) for part in parts]
    widths = [count_axes(part) for part in parts]
    if sum(part is Ellipsis for part in parts) > 1 or sum(widths) > len(shape):
        return tuple(parts)  # which every array library refuses
    axis = 0
    for part, width in zip(parts, widths, strict=True):
        if is_mask(part):
            check_mask(part, shape[axis : axis + width], axis)
        elif hasattr(part, "dtype"):
            check_array(part, shape[axis], axis)
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


def check_array(index: Array, size: int, axis: int) -> None:
    """Raise IndexError for an element that is not in [-size, size)."""
    if not index.size or not has_elements(index):
        return
    outside = (index < -size) | (index >= size)
    if is_any_true(outside):
        element = int(index[outside].reshape(-1)[0])
        raise IndexError(f"index {element} is out of bounds for axis {axis} with size {size}")


def check_shapes(shapes: Sequence[tuple[int, ...]]) -> None:
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        text = " ".join(f"({','.join(map(str, shape))},)" for shape in shapes)
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {text}"
        ) from None
