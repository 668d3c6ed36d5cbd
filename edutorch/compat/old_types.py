"""The legacy tensor types of PyTorch: `FloatTensor`, `LongTensor`, …

torch.LongTensor([1, 2])           is        torch.tensor([1, 2], dtype=torch.int64)
isinstance(x, torch.FloatTensor)   is        x.dtype is torch.float32, on the CPU
"""

from __future__ import annotations

from typing import Any

from edutorch import backends, cuda, dtypes
from edutorch.core.shapes import Size
from edutorch.core.tensor import Tensor
from edutorch.errors import DTypeError
from edutorch.ops import empty, tensor
from edutorch.ops.conversion import TYPE_NAMES


class TensorTypeMeta(type):
    """The metaclass of legacy tensor types: calling one makes a tensor of its dtype."""

    dtype: dtypes.dtype
    is_cuda: bool

    def __call__(cls, *data: Any) -> Tensor:
        """Make a tensor from data, or an uninitialized one from sizes.

        Raises: DTypeError: `data` is a tensor of another dtype.
        """
        source = data[0] if data else None
        device = backends.ACCELERATOR if cls.is_cuda else None
        if isinstance(source, Tensor) and source.dtype is not cls.dtype:
            raise DTypeError(
                cls.__name__, f"expected {cls.dtype} (got {source.dtype})",
                hint=f"use x.to({cls.dtype})",
            )  # fmt: skip
        # An int is a size here, as everywhere in old code: FloatTensor(3) has three elements.
        if isinstance(source, Size):
            return empty(source, dtype=cls.dtype, device=device)
        if len(data) == 1 and not isinstance(source, int):
            return tensor(source, dtype=cls.dtype, device=device)
        return empty(data or (0,), dtype=cls.dtype, device=device)

    def __instancecheck__(cls, value: object) -> bool:
        """Return True for a tensor of this dtype, on the CPU or (`cuda.FloatTensor`) on a GPU."""
        if not isinstance(value, Tensor) or value.dtype is not cls.dtype:
            return False
        return value.is_cuda if cls.is_cuda else value.is_cpu


def make_tensor_type(dtype: dtypes.dtype, is_cuda: bool = False) -> TensorTypeMeta:
    """Return the legacy tensor type of a dtype, on the CPU or on a GPU."""
    short = TYPE_NAMES.get(dtype.name, "BFloat16" if dtype is dtypes.bfloat16 else "Bool")
    doc = f"A tensor of {dtype.name}, as old code writes it."
    return TensorTypeMeta(
        f"{short}Tensor", (),
        {"__doc__": doc, "dtype": dtype, "is_cuda": is_cuda, "__module__": __name__},
    )  # fmt: skip


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

for _name, _type in list(globals().items()):
    if isinstance(_type, TensorTypeMeta):
        setattr(cuda, _name, make_tensor_type(_type.dtype, is_cuda=True))

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor",
    "HalfTensor", "IntTensor", "LongTensor", "ShortTensor",
]  # fmt: skip
