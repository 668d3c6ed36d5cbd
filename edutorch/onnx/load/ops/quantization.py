"""Quantized numbers: integers with a scale and a zero point."""

from __future__ import annotations

from typing import Any

from ...dtypes import from_onnx
from ..table import onnx_op
from ..values import (
    Outputs,
    Value,
    dtype_of,
    facts,
    is_unsigned_storage,
    positive,
    rank_of,
    refuse,
    torch,
)  # fmt: skip
from .convolution import Sizes, conv


def spread(values: Value, x: Value, axis: int, block_size: int) -> Value:
    """Return scales or zero points in a shape that broadcasts with `x`."""
    rank, own = rank_of(x), rank_of(values)
    if own == 0:
        return values
    axis = positive(axis, rank)
    if own == 1:
        shape = [1] * rank
        shape[axis] = -1
        return torch.reshape(values, shape)
    if not block_size:
        block_size = -(-x.shape[axis] // values.shape[axis])
    return torch.repeat_interleave(values, block_size, axis).narrow(axis, 0, x.shape[axis])


@onnx_op("QuantizeLinear")
def quantize_linear(
    x: Value, y_scale: Value, y_zero_point: Value = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0, precision: int = 0, saturate: int = 1,
) -> Value:  # fmt: skip
    """x / scale + zero point, rounded to integers of the zero point's dtype."""
    dtype = from_onnx(output_dtype) if output_dtype else None
    if y_zero_point is not None:
        dtype = dtype_of(y_zero_point)
    dtype = dtype or torch.uint8
    if dtype.is_floating_point:
        refuse("quantization to float8")
    bits, wide = 8 * dtype.itemsize, torch.float32
    low, high = (
        (0, 2**bits - 1) if "uint" in str(dtype) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )
    ratio = torch.round(x.to(wide) / spread(y_scale, x, axis, block_size).to(wide))
    if y_zero_point is not None:
        ratio = ratio + spread(y_zero_point, x, axis, block_size).to(torch.int32)
    return torch.clamp(ratio, low, high).to(dtype)


@onnx_op("DequantizeLinear")
def dequantize_linear(
    x: Value, x_scale: Value, x_zero_point: Value = None, *, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0,
) -> Value:  # fmt: skip
    """(x - zero point) · scale."""
    scale = spread(x_scale, x, axis, block_size)
    dtype = from_onnx(output_dtype) if output_dtype else dtype_of(x_scale)
    floating = dtype_of(x).is_floating_point
    wide = torch.float32 if floating else torch.int64 if is_unsigned_storage(x) else torch.int32
    value = x.to(wide)
    if x_zero_point is not None:
        value = value - spread(x_zero_point, x, axis, block_size).to(wide)
    return (value.to(torch.float32) * scale.to(torch.float32)).to(dtype)


@onnx_op("DynamicQuantizeLinear")
def dynamic_quantize_linear(x: Value) -> Outputs:
    """Quantize to uint8 with a scale and a zero point of its own."""
    low = torch.clamp(torch.amin(x), max=0)
    high = torch.clamp(torch.amax(x), min=0)
    scale = (high - low) / 255
    zero = torch.clamp(torch.round(-low / scale), 0, 255)
    quantized = torch.clamp(torch.round(x / scale) + zero, 0, 255)
    return quantized.to(torch.uint8), scale, zero.to(torch.uint8)


@onnx_op("MatMulInteger")
def mat_mul_integer(
    A: Value, B: Value, a_zero_point: Value = None, b_zero_point: Value = None
) -> Value:
    """The matrix product of integers, as int32."""
    left, right = A.to(torch.int32), B.to(torch.int32)
    if a_zero_point is not None:
        zero = a_zero_point.to(torch.int32)
        left = left - (zero.unsqueeze(-1) if rank_of(a_zero_point) == 1 else zero)
    if b_zero_point is not None:
        right = right - b_zero_point.to(torch.int32)
    return torch.matmul(left, right)


@onnx_op("ConvInteger")
def conv_integer(
    x: Value, w: Value, x_zero_point: Value = None, w_zero_point: Value = None, *,
    auto_pad: str = "NOTSET", dilations: Sizes = None, group: int = 1,
    kernel_shape: Sizes = None, pads: Sizes = None, strides: Sizes = None,
) -> Value:  # fmt: skip
    """Convolution of integers, as int32."""
    wide = torch.float64  # exact up to 2**53
    left, right = x.to(wide), w.to(wide)
    if x_zero_point is not None:
        left = left - x_zero_point.to(wide)
    if w_zero_point is not None:
        zero = w_zero_point.to(wide)
        right = right - (zero if rank_of(w_zero_point) == 0 else spread(zero, w, 0, 0))
    result = conv(left, right, auto_pad=auto_pad, dilations=dilations, group=group,
                  kernel_shape=kernel_shape, pads=pads, strides=strides)  # fmt: skip
    return result.to(torch.int32)


@onnx_op("QLinearMatMul")
def q_linear_mat_mul(
    a: Value, a_scale: Value, a_zero_point: Value, b: Value, b_scale: Value, b_zero_point: Value,
    y_scale: Value, y_zero_point: Value,
) -> Value:  # fmt: skip
    """The matrix product of quantized numbers, quantized again."""
    if dtype_of(a).is_floating_point or dtype_of(y_zero_point).is_floating_point:
        refuse("quantization to float8")
    left = a.to(torch.int32) - rows(a_zero_point).to(torch.int32)
    right = b.to(torch.int32) - b_zero_point.to(torch.int32)
    product = torch.matmul(left, right).to(torch.float64)
    real = product * rows(a_scale).to(torch.float64) * b_scale.to(torch.float64)
    return requantized(real, rows(y_scale), rows(y_zero_point))


def rows(values: Value) -> Value:
    """Return one number per row as a column."""
    return values.unsqueeze(-1) if rank_of(values) == 1 and facts(values).shape != (1,) else values


def requantized(real: Value, scale: Value, zero: Value) -> Value:
    """Return real numbers as integers of the zero point's dtype."""
    info = torch.iinfo(dtype_of(zero))
    ratio = torch.round(real / scale.to(torch.float64)) + zero.to(torch.float64)
    return torch.clamp(ratio, info.min, info.max).to(dtype_of(zero))


@onnx_op("QLinearConv")
def q_linear_conv(
    *inputs: Value, auto_pad: str = "NOTSET", dilations: Sizes = None, group: int = 1,
    kernel_shape: Sizes = None, pads: Sizes = None, strides: Sizes = None,
) -> Any:  # fmt: skip
    """Convolution of quantized numbers, quantized again."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *bias = inputs
    product = conv_integer(
        x, w, x_zero, w_zero, auto_pad=auto_pad, dilations=dilations, group=group,
        kernel_shape=kernel_shape, pads=pads, strides=strides,
    )  # fmt: skip
    shape = [1, -1] + [1] * (x.dim() - 2)
    if bias:
        product = product + torch.reshape(bias[0], shape)
    scale = x_scale.to(torch.float64) * torch.reshape(w_scale.to(torch.float64), shape)
    return requantized(product.to(torch.float64) * scale, y_scale, y_zero)
