"""The legacy tensor types of PyTorch: `FloatTensor`, `LongTensor`, …

torch.LongTensor([1, 2])           is        torch.tensor([1, 2], dtype=torch.int64)
isinstance(x, torch.FloatTensor)   is        x.dtype is torch.float32, on the CPU
"""

from __future__ import annotations

from typing import Any

from edutorch import dtypes
from edutorch.core.shapes import Size
from edutorch.core.tensor import Tensor
from edutorch.errors import DTypeError
from edutorch.ops import empty, tensor
from edutorch.ops.conversion import TYPE_NAMES


class TensorTypeMeta(type):
    """The metaclass of legacy tensor types: calling one makes a tensor of its dtype."""

    dtype: dtypes.dtype

    def __call__(cls, *data: Any) -> Tensor:
        """Make a tensor from data, or an uninitialized one from sizes.

        Raises: DTypeError: `data` is a tensor of another dtype.
        """
        source = data[0] if data else None
        if isinstance(source, Tensor) and source.dtype is not cls.dtype:
            raise DTypeError(
                cls.__name__, f"expected {cls.dtype} (got {source.dtype})",
                hint=f"use x.to({cls.dtype})",
            )  # fmt: skip
        # An int is a size here, as everywhere in old code: FloatTensor(3) has three elements.
        if isinstance(source, Size):
            return empty(source, dtype=cls.dtype)
        if len(data) == 1 and not isinstance(source, int):
            return tensor(source, dtype=cls.dtype)
        return empty(data or (0,), dtype=cls.dtype)

    def __instancecheck__(cls, value: object) -> bool:
        """Return True for a CPU tensor of this dtype."""
        return isinstance(value, Tensor) and value.dtype is cls.dtype and value.is_cpu


def make_tensor_type(dtype: dtypes.dtype) -> TensorTypeMeta:
    """Return the legacy tensor type of a dtype."""
    short = TYPE_NAMES.get(dtype.name, "BFloat16" if dtype is dtypes.bfloat16 else "Bool")
    doc = f"A tensor of {dtype.name}, as old code writes it."
    return TensorTypeMeta(
        f"{short}Tensor", (), {"__doc__": doc, "dtype": dtype, "__module__": __name__}
    )


FloatTensor, DoubleTensor, HalfTensor, BFloat16Tensor = (
    make_tensor_type(dtype)
    for dtype in (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)
)  # fmt: skip
ByteTensor, CharTensor, ShortTensor, IntTensor, LongTensor, BoolTensor = (
    make_tensor_type(dtype)
    for dtype in (
        dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.bool,
    )
)  # fmt: skip

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor",
    "HalfTensor", "IntTensor", "LongTensor", "ShortTensor",
]  # fmt: skip
