"""Tensors that are made from sizes and numbers."""

from __future__ import annotations

from ...dtypes import from_onnx
from ..table import onnx_op
from ..values import Ints, Value, dtype_of, ints, number, refuse, torch


@onnx_op("ConstantOfShape")
def constant_of_shape(input: Ints, *, value: Value = None) -> Value:
    """A tensor with one number everywhere."""
    if value is None:
        return torch.zeros(ints(input))
    return torch.full(ints(input), number(value), dtype=dtype_of(value))


@onnx_op("Range")
def range_(start: Value, limit: Value, delta: Value) -> Value:
    """The numbers from a start up to a limit, a step apart."""
    first, last, step = number(start), number(limit), number(delta)
    return torch.arange(first, last, step, dtype=dtype_of(start))


@onnx_op("EyeLike")
def eye_like(input: Value, *, dtype: int | None = None, k: int = 0) -> Value:
    """A matrix of the same size, with ones on a diagonal."""
    own = dtype_of(input) if dtype is None else from_onnx(dtype)
    if own is None:
        refuse("a dtype that does not exist here")
    rows = torch.arange(input.shape[0]).unsqueeze(1)
    columns = torch.arange(input.shape[1])
    return (columns - rows == k).to(own)
