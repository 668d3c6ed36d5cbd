"""Dtypes as PyTorch's programs write them: as numbers."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from .errors import Error

DTYPES = {
    0: dtypes.uint8, 1: dtypes.int8, 2: dtypes.int16, 3: dtypes.int32, 4: dtypes.int64,
    5: dtypes.float16, 6: dtypes.float32, 7: dtypes.float64, 9: dtypes.complex64,
    10: dtypes.complex128, 11: dtypes.bool, 15: dtypes.bfloat16,
}  # fmt: skip
"""PyTorch's numbers of the dtypes."""

DTYPE_NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


def as_dtype(value: Any) -> Any:
    """Return the dtype of a number; None stays None.

    >>> as_dtype(6)
    torch.float32
    """
    if value is None or isinstance(value, dtypes.dtype):
        return value
    if value not in DTYPES:
        raise Error("torch.jit", f"there is no dtype with the number {value}")
    return DTYPES[value]
