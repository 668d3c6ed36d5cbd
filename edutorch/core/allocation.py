"""Out-of-memory errors, raised before allocating, with the shape and the dtype."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..errors import OutOfMemory

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
TOO_LARGE = (
    "array is too big", "Maximum allowed dimension", "maximum supported dimension",
    "iterator is too large", "broadcast dimensions too large", "Maximum allowed size",
)  # fmt: skip
"""NumPy's messages for sizes that it refuses without asking the operating system."""


def physical_memory() -> int:
    """Return the bytes of physical memory, 2**62 where the system does not report them.

    Linux grants more than that, and kills the process once it is used.
    """
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**62


TOTAL_MEMORY = physical_memory()


def format_bytes(size: int) -> str:
    """Format a number of bytes, as "7.3 TiB"."""
    if size < 1024:
        return f"{size} bytes"
    power = min((size.bit_length() - 1) // 10, len(UNITS) - 1)
    number = size / 1024**power
    return f"{number:.1f} {UNITS[power]}" if number < 1024 else f"{number:.3g} {UNITS[power]}"


def out_of_memory(
    op: str, shape: Sequence[int] | None, dtype: Any, rows: Mapping[str, Any] | None = None
) -> OutOfMemory:
    """Make the error for a result that does not fit into memory; `shape` is None if unknown."""
    rows = dict(rows or {})
    if shape is None or dtype is None:
        return OutOfMemory(op, "out of memory", rows, HINT)
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    rows |= {"result": f"{tuple(shape)} {dtype_name(dtype)}", "needed": format_bytes(size)}
    if TOTAL_MEMORY < 2**62:
        rows["memory"] = format_bytes(TOTAL_MEMORY)
    return OutOfMemory(op, f"out of memory: tried to allocate {format_bytes(size)}", rows, HINT)


HINT = "was a size or an axis mixed up? smaller batches, or a smaller type, need less"


def dtype_name(dtype: Any) -> str:
    try:
        return dtypes.of(dtype).name
    except TypeError:
        return str(dtype)


def check_memory(op: str, shape: Sequence[int], dtype: Any) -> None:
    """Raise OutOfMemory if the computer cannot hold a tensor of this shape.

    Args:
        dtype: its dtype, or an array that has it.

    Raises: OutOfMemory: it needs more than the physical memory.
    """
    if math.prod(shape) * dtype.itemsize > TOTAL_MEMORY:
        raise out_of_memory(op, shape, getattr(dtype, "dtype", dtype))


def is_too_large(error: Exception) -> bool:
    """Return True if an array library has raised an error about a size."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, ValueError) and any(phrase in str(error) for phrase in TOO_LARGE)


def memory_error(op: str, error: Exception, rows: Mapping[str, Any] | None = None) -> OutOfMemory:
    """Turn an array library's out-of-memory error into ours."""
    if isinstance(error, OutOfMemory):
        return error
    return out_of_memory(op, getattr(error, "shape", None), getattr(error, "dtype", None), rows)
