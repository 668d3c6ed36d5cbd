"""Changes of dtype."""

from __future__ import annotations

from ...dtypes import dtype_name, from_onnx
from ..table import onnx_op
from ..values import Value, dtype_of, refuse, torch


def target_dtype(number: int) -> object:
    """Return the dtype of a number in the file. Raises: NotHereError: there is none here."""
    dtype = from_onnx(number)
    if dtype is None:
        refuse(f"a cast to {dtype_name(number)}, a dtype that does not exist here")
    return dtype


@onnx_op("Cast")
def cast(input: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    """Convert the elements to another dtype; saturate: too large ones become the largest."""
    dtype = target_dtype(to)
    return converted(input, dtype, saturate)


@onnx_op("CastLike")
def cast_like(
    input: Value, target_type: Value, *, saturate: int = 1, round_mode: str = "up"
) -> Value:
    """Convert the elements to the dtype of another tensor."""
    return converted(input, dtype_of(target_type), saturate)


def converted(input: Value, dtype: object, saturate: int) -> Value:
    """Return a tensor in another dtype; float8 keeps large values at its largest, or not."""
    if not str(dtype).startswith("torch.float8"):
        return input.to(dtype)
    largest = torch.finfo(dtype).max
    wide = input.to(torch.float64 if dtype_of(input) == torch.float64 else torch.float32)
    if saturate:
        wide = torch.clamp(wide, -largest, largest)
    elif dtype == torch.float8_e4m3fn:  # the one format here without inf
        half = largest / 28  # of the distance to what would be the next number
        wide = torch.where(torch.abs(wide) > largest + half, float("nan"), wide)
    return wide.to(dtype)


@onnx_op("BitCast")
def bit_cast(input: Value, *, to: int) -> Value:
    """Take the same bits for another dtype."""
    return input.view(target_dtype(to))
