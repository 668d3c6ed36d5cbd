"""`FloatTensor`, `LongTensor`, …: how old PyTorch code makes tensors and asks for their type.

torch.LongTensor([1, 2])           is        torch.tensor([1, 2], dtype=torch.int64)
isinstance(x, torch.FloatTensor)   is        x.dtype is torch.float32, on the CPU
"""

from __future__ import annotations

from typing import Any

from edutorch import dtypes
from edutorch.core.tensor import Tensor
from edutorch.errors import DTypeError
from edutorch.ops import empty, tensor
from edutorch.ops.conversion import TYPE_NAMES


class TensorTypeMeta(type):
    """The class of these classes: calling one makes a tensor of its type."""

    dtype: dtypes.dtype

    def __call__(cls, *data: Any) -> Tensor:
        """Make a tensor of given numbers, or an empty one of given sizes.

        Raises: DTypeError: given a tensor of another type.
        """
        source = data[0] if data else None
        if isinstance(source, Tensor) and source.dtype is not cls.dtype:
            raise DTypeError(
                cls.__name__, f"expected {cls.dtype} (got {source.dtype})",
                hint=f"use x.to({cls.dtype})",
            )  # fmt: skip
        if len(data) == 1 and not isinstance(data[0], int):
            return tensor(data[0], dtype=cls.dtype)
        return empty(data or (0,), dtype=cls.dtype)

    def __instancecheck__(cls, value: Any) -> bool:
        """Say whether a value is a tensor of this type on the CPU."""
        return isinstance(value, Tensor) and value.dtype is cls.dtype and value.is_cpu


def make_tensor_type(dtype: dtypes.dtype) -> TensorTypeMeta:
    """Make the class for one dtype."""
    short = TYPE_NAMES.get(dtype.name, "BFloat16" if dtype is dtypes.bfloat16 else "Bool")
    says = f"A tensor of {dtype.name}, as old code writes it."
    return TensorTypeMeta(
        f"{short}Tensor", (), {"__doc__": says, "dtype": dtype, "__module__": __name__}
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
