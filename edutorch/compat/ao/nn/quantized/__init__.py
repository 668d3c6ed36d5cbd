"""Layers whose weights, and whose inputs and outputs, are integers."""

from __future__ import annotations

from . import dynamic
from .functional_modules import FloatFunctional, QFunctional
from .modules import Conv2d, ConvReLU2d, DeQuantize, Linear, LinearReLU, Quantize

__all__ = [
    "Conv2d", "ConvReLU2d", "DeQuantize", "FloatFunctional", "Linear", "LinearReLU", "QFunctional",
    "Quantize", "dynamic",
]  # fmt: skip
