"""The arithmetic of quantization: q = round(x / scale) + zero_point, within [quant_min, quant_max].

    x ≈ scale · (q - zero_point)

Reading back gives the nearest multiple of scale, so the error of a value inside of the range is at
most scale / 2. Zero must be exact (padding, ReLU): hence the zero point is an integer.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from edutorch import dtypes
from edutorch.core.tensor import Tensor
from edutorch.errors import DTypeError, InvalidValueError
from edutorch.ops import clamp, maximum, minimum, round, where, zeros_like

__all__ = ["QuantizedDtype", "qint8", "qint32", "qscheme", "quint8"]

EPS = 2.0**-23
"""The smallest scale of an observer: that between 1 and the next float32."""


class QuantizedDtype(dtypes.dtype):
    """The dtype of a quantized tensor: integers that stand for floats."""

    __slots__ = ()

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest integer."""
        info = dtypes.iinfo(dtypes.of(self.numpy))
        return int(info.min), int(info.max)


qint8 = QuantizedDtype("qint8", "int8")
quint8 = QuantizedDtype("quint8", "uint8")
qint32 = QuantizedDtype("qint32", "int32")


class qscheme:
    """How scales are chosen: one for a tensor or for each channel; zero in the middle, or not."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name

    @property
    def is_per_channel(self) -> bool:
        """Whether each channel has a scale of its own."""
        return self.name.startswith("per_channel")

    @property
    def is_symmetric(self) -> bool:
        """Whether the range is -a … a, so that the zero point is the middle."""
        return self.name.endswith("symmetric")


per_tensor_affine, per_tensor_symmetric = (
    qscheme("per_tensor_affine"),
    qscheme("per_tensor_symmetric"),
)
per_channel_affine = qscheme("per_channel_affine")
per_channel_symmetric = qscheme("per_channel_symmetric")
per_channel_affine_float_qparams = qscheme("per_channel_affine_float_qparams")


class QParams(NamedTuple):
    """Scale and zero point: numbers, or a tensor of one for each slice along `axis`."""

    scale: Any
    zero_point: Any
    axis: int | None = None

    def along(self, ndim: int) -> tuple[Any, Any]:
        """Return both so that they broadcast with a tensor of `ndim` dimensions."""
        if self.axis is None:
            return self.scale, self.zero_point
        shape = [1] * ndim
        shape[self.axis] = -1
        return self.scale.reshape(shape).float(), self.zero_point.reshape(shape)


def quantize(x: Tensor, qparams: QParams, bounds: tuple[int, int]) -> Tensor:
    """Return the integers of a tensor, still as floats: round(x / scale) + zero_point, clamped."""
    scale, zero_point = qparams.along(x.ndim)
    return clamp(round(x * (1.0 / scale)) + zero_point, *bounds)


def dequantize(q: Tensor, qparams: QParams) -> Tensor:
    """Return what integers stand for: scale · (q - zero_point)."""
    scale, zero_point = qparams.along(q.ndim)
    return (q.float() - zero_point) * scale


def choose_qparams(
    low: Tensor, high: Tensor, bounds: tuple[int, int], scheme: qscheme, dtype: QuantizedDtype,
    eps: Any = EPS,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the scale and zero point for values between `low` and `high`.

    The range is widened to contain 0. Affine: scale = (high - low) / (quant_max - quant_min), and
    low becomes quant_min. Symmetric: the range is ±max(-low, high), and 0 becomes the middle.
    """
    quant_min, quant_max = bounds
    low, high = minimum(low, zeros_like(low)), maximum(high, zeros_like(high))
    if scheme.is_symmetric:
        scale = maximum(-low, high) / ((quant_max - quant_min) / 2)
        middle = 0 if dtype is not quint8 else (quant_min + quant_max + 1) // 2
        zero_point = zeros_like(scale) + middle
    else:
        scale = (high - low) / (quant_max - quant_min)
        scale = where(scale < eps, eps, scale)
        zero_point = clamp(quant_min - round(low / scale), quant_min, quant_max)
    return where(scale < eps, eps, scale), zero_point.int()


def choose_dynamic_qparams(x: Tensor, bounds: tuple[int, int]) -> QParams:
    """Return scale and zero point for the range of one tensor, as a layer does at each call."""
    low, high = (float(x.min()), float(x.max())) if x.numel() else (0.0, 0.0)
    low, high = min(low, 0.0), max(high, 0.0)
    quant_min, quant_max = bounds
    scale = (high - low) / (quant_max - quant_min)
    if not math.isfinite(scale):
        raise InvalidValueError(
            "quantize", "cannot quantize values that are infinite or NaN",
            {"min": low, "max": high},
        )  # fmt: skip
    scale = scale if scale > 1e-30 else 0.1  # any: all values are 0
    return QParams(scale, min(max(quant_min - int(_nearest(low / scale)), quant_min), quant_max))


def _nearest(value: float) -> float:
    """Round half to even, as tensors do."""
    return math.floor(value + 0.5) if value % 1 != 0.5 else 2.0 * math.floor(value / 2 + 0.5)


def check_quantizable(op: str, x: Tensor, dtype: Any) -> None:
    """Raise DTypeError unless float32 is quantized to a quantized dtype."""
    if not isinstance(dtype, QuantizedDtype):
        raise DTypeError(
            op, f"cannot quantize to {dtype}", hint="one of torch.qint8, quint8 and qint32"
        )
    if x.dtype is not dtypes.float32:
        raise DTypeError(
            op, f"Quantize only works on Float Tensor, got {x.dtype}", hint="use x.float()"
        )
