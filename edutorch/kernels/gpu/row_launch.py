"""What the kernels that work on rows share: the text for a dtype, and the size of a block.

The texts (`softmax.cu`, `norms.cu`, `reductions.cu`) are written for a type T in memory and a type
Wide in registers: 16-bit floats are computed in float32, and rounded once.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ... import backends
from ...backends.numpy import Array
from .module import FOLDER, CudaModule

__all__ = ["as_table", "is_supported", "module_for", "row_threads", "wide_type"]

TYPES = {
    "float16": ("float16", "float"),
    "bfloat16": ("bfloat16", "float"),
    "float32": ("float", "float"),
    "float64": ("double", "double"),
}
"""The type of a dtype in memory, and that of its arithmetic."""

MAX_THREADS = 512
MAX_ROWS = 2**31 - 1
MAX_ROW_SIZE = 2**30
"""An index in a row is an int, and steps beyond the end by less than a block."""


@functools.cache
def module_for(file: str, dtype_name: str) -> CudaModule:
    """Return a text of this folder for arrays of a dtype.

    >>> from edutorch.kernels.gpu.row_launch import module_for
    >>> module_for("softmax", "bfloat16").name
    'softmax_bfloat16'
    """
    memory, wide = TYPES[dtype_name]
    text = (FOLDER / f"{file}.cu").read_text(encoding="utf-8")
    types = f'#include "reduce.cuh"\ntypedef {memory} T;\ntypedef {wide} Wide;\n'
    return CudaModule.from_text(f"{file}_{dtype_name}", types + text)


def wide_type(dtype: np.dtype[Any]) -> type[np.floating[Any]]:
    """Return the type in which elements of this dtype are computed."""
    return np.float64 if dtype.itemsize == 8 else np.float32


def is_supported(*arrays: Array | None) -> bool:
    """Whether all arrays have elements, and the same floating dtype."""
    present = [array for array in arrays if array is not None]
    first = present[0].dtype
    return first.name in TYPES and all(array.size and array.dtype == first for array in present)


def as_table(array: Array, n: int) -> Array:
    """Return an array as contiguous rows of n elements; a copy if its memory is another."""
    return backends.of(array).xp.ascontiguousarray(array).reshape(-1, n)


def row_threads(n: int) -> int:
    """Return the number of threads for a row: whole warps, some four elements a thread.

    >>> from edutorch.kernels.gpu.row_launch import row_threads
    >>> row_threads(10), row_threads(300), row_threads(50_000)
    (32, 96, 512)
    """
    return min(MAX_THREADS, max(32, -(-n // 128) * 32))
