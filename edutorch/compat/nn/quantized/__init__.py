"""`torch.nn.quantized`: the older name of `torch.ao.nn.quantized`."""

from __future__ import annotations

from edutorch.ao.nn.quantized import (
    Conv2d, ConvReLU2d, DeQuantize, FloatFunctional, Linear, LinearReLU, QFunctional, Quantize,
)  # fmt: skip

__all__ = [
    "Conv2d", "ConvReLU2d", "DeQuantize", "FloatFunctional", "Linear", "LinearReLU", "QFunctional",
    "Quantize",
]  # fmt: skip
