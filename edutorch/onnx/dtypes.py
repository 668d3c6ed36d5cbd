"""The dtypes of ONNX by their numbers in its format, and ours beside them."""

from __future__ import annotations

from enum import IntEnum

from .. import dtypes
from ..dtypes import dtype

__all__ = ["TensorProtoDataType", "dtype_name", "from_onnx", "to_onnx"]


class TensorProtoDataType(IntEnum):
    """The dtypes of ONNX, by their numbers in its format."""

    UNDEFINED, FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL = range(10)
    FLOAT16, DOUBLE, UINT32, UINT64, COMPLEX64, COMPLEX128, BFLOAT16 = range(10, 17)
    FLOAT8E4M3FN, FLOAT8E4M3FNUZ, FLOAT8E5M2, FLOAT8E5M2FNUZ, UINT4, INT4 = range(17, 23)
    FLOAT4E2M1, FLOAT8E8M0, UINT2, INT2 = range(23, 27)


Kind = TensorProtoDataType

TABLE: dict[int, dtype] = {
    Kind.FLOAT: dtypes.float32, Kind.UINT8: dtypes.uint8, Kind.INT8: dtypes.int8,
    Kind.UINT16: dtypes.uint16, Kind.INT16: dtypes.int16, Kind.INT32: dtypes.int32,
    Kind.INT64: dtypes.int64, Kind.BOOL: dtypes.bool, Kind.FLOAT16: dtypes.float16,
    Kind.DOUBLE: dtypes.float64, Kind.UINT32: dtypes.uint32, Kind.UINT64: dtypes.uint64,
    Kind.COMPLEX64: dtypes.complex64, Kind.COMPLEX128: dtypes.complex128,
    Kind.BFLOAT16: dtypes.bfloat16, Kind.FLOAT8E4M3FN: dtypes.float8_e4m3fn,
    Kind.FLOAT8E4M3FNUZ: dtypes.float8_e4m3fnuz, Kind.FLOAT8E5M2: dtypes.float8_e5m2,
    Kind.FLOAT8E5M2FNUZ: dtypes.float8_e5m2fnuz,
}  # fmt: skip
"""ONNX's number → our dtype; strings and the formats of 4 and 2 bits have none."""

_NUMBERS = {own: number for number, own in TABLE.items()}


def from_onnx(number: int) -> dtype | None:
    """Return the dtype that ONNX writes as `number`, or None where there is none here.

    >>> from edutorch.onnx import dtypes
    >>> dtypes.from_onnx(1), dtypes.from_onnx(8)
    (torch.float32, None)
    """
    return TABLE.get(number)


def to_onnx(dtype: dtype) -> TensorProtoDataType:
    """Return the number of a dtype in ONNX's format.

    >>> import edutorch
    >>> from edutorch.onnx import dtypes
    >>> dtypes.to_onnx(edutorch.int64).name
    'INT64'
    """
    return TensorProtoDataType(_NUMBERS[dtype])


def dtype_name(number: int) -> str:
    """Return ONNX's name of a dtype, also of one that does not exist."""
    return Kind(number).name if number in list(Kind) else f"number {number}"
