"""Layers that train with rounded weights: quantization-aware training.

`weight_fake_quant` rounds the weight to the values that 8-bit integers stand for, and passes the
gradient as it is. The weights themselves stay floats, which small steps still change.
"""

from __future__ import annotations

from typing import Any

from edutorch import nn
from edutorch.core.tensor import Tensor
from edutorch.errors import InvalidValueError
from edutorch.nn import Module
from edutorch.nn import functional as F

from . import intrinsic

__all__ = ["Conv2d", "ConvReLU2d", "Linear", "LinearReLU"]


def share_float_layer(new: Any, mod: Module) -> Any:
    """Let a new layer have the parameters and settings of a float layer, and a rounding of weights.

    Raises: InvalidValueError: the layer has no qconfig.
    """
    layer = mod[0] if isinstance(mod, nn.Sequential) else mod
    qconfig = getattr(mod, "qconfig", None)
    if not qconfig:
        raise InvalidValueError(
            "qat.from_float", "Input float module must have a valid qconfig",
            {"layer": type(mod).__name__}, "set model.qconfig = get_default_qat_qconfig()",
        )  # fmt: skip
    Module.__init__(new)
    own = {"_parameters", "_buffers", "_modules"}
    new.__dict__.update({key: x for key, x in layer.__dict__.items() if key not in own})
    new._parameters.update(layer._parameters)
    new.qconfig = qconfig
    new.weight_fake_quant = qconfig.weight()
    return new


class Linear(nn.Linear):
    """A linear layer whose weight is rounded: y = x · round(W)ᵀ + b."""

    @classmethod
    def from_float(cls, mod: Module, **kwargs: Any) -> Linear:
        """Make it from a float layer, whose parameters it shares."""
        return share_float_layer(cls.__new__(cls), mod)

    def forward(self, input: Tensor) -> Tensor:
        """Return the product with the rounded weight, plus the bias."""
        return F.linear(input, self.weight_fake_quant(self.weight), self.bias)


class LinearReLU(Linear):
    """A linear layer whose weight is rounded, and ReLU."""

    def forward(self, input: Tensor) -> Tensor:
        """Return relu of the linear layer."""
        return super().forward(input).relu()


class Conv2d(nn.Conv2d):
    """A convolution whose weight is rounded."""

    @classmethod
    def from_float(cls, mod: Module, **kwargs: Any) -> Conv2d:
        """Make it from a float layer, whose parameters it shares."""
        return share_float_layer(cls.__new__(cls), mod)

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution with the rounded weight."""
        weight = self.weight_fake_quant(self.weight)
        return F.conv2d(
            input, weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )


class ConvReLU2d(Conv2d):
    """A convolution whose weight is rounded, and ReLU."""

    def forward(self, input: Tensor) -> Tensor:
        """Return relu of the convolution."""
        return super().forward(input).relu()


QAT_MODULES: dict[type, Any] = {
    nn.Linear: Linear, nn.Conv2d: Conv2d, intrinsic.LinearReLU: LinearReLU,
    intrinsic.ConvReLU2d: ConvReLU2d,
}  # fmt: skip
"""What `prepare_qat` makes of layers."""
