"""`LinearCrossEntropyOptions`, the settings of `LinearCrossEntropyLoss`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import dtypes
from ...errors import InvalidValueError

__all__ = [
    "LinearCrossEntropyOptions",
]


@dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """Memory-saving options of PyTorch's `LinearCrossEntropyLoss`; checked, without effect.

    >>> nn.LinearCrossEntropyOptions(batch_chunk_size=128).batch_chunk_size
    128
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in ("accurate", "balanced", "compact", "auto"):
            raise InvalidValueError(type(self).__name__, f"invalid acc_policy: {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto"):
            name, colon, factor = self.chunking_method.partition(":")  # type: ignore[union-attr]
            right = not colon or (factor.isdigit() and int(factor) > 0)
            if name != "aspect_ratio" or not right:
                raise InvalidValueError(
                    type(self).__name__, f"invalid chunking_method: {self.chunking_method!r}"
                )
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise InvalidValueError(
                type(self).__name__, f"batch_chunk_size must be positive int or None, got {size!r}"
            )
        floats = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
        if self.acc_dtype is not None and self.acc_dtype not in floats:
            raise InvalidValueError(
                type(self).__name__,
                f"acc_dtype must be None or one of {floats}, got {self.acc_dtype!r}",
            )
