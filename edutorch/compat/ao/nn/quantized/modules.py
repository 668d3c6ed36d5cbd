"""Layers between `Quantize` and `DeQuantize`: integers come in, integers go out.

    y = s_x s_w (q_x - z_x)(q_w - z_w)ᵀ + b,    q_y = round(y / s_y) + z_y

The product is one of integers. Only its result is scaled, and rounded to the output's integers.
"""

from __future__ import annotations

from typing import Any

from edutorch.ao.affine import QParams, quint8
from edutorch.ao.quantized_tensor import (
    QuantizedTensor,
    quantize_per_tensor,
    requantize,
)  # fmt: skip
from edutorch.core.tensor import Tensor
from edutorch.errors import DTypeError, NotHereError
from edutorch.modes import no_grad
from edutorch.nn import Module, Sequential
from edutorch.nn import functional as F
from edutorch.ops import tensor

from .weights import OneLineModule, quantize_weight

__all__ = ["Conv2d", "ConvReLU2d", "DeQuantize", "Linear", "LinearReLU", "Quantize"]


class Quantize(Module):
    """Turn floats into integers: what `convert` makes of a `QuantStub`.

    >>> edutorch.ao.nn.quantized.Quantize(0.1, 10, edutorch.quint8)(tensor([0.26])).int_repr()
    tensor([13], dtype=torch.uint8)
    """

    def __init__(self, scale: Any, zero_point: Any, dtype: Any) -> None:
        super().__init__()
        self.register_buffer("scale", tensor([float(scale)]))
        self.register_buffer("zero_point", tensor([int(zero_point)]))
        self.dtype = dtype

    def forward(self, X: Tensor) -> QuantizedTensor:
        """Return the input, quantized."""
        return quantize_per_tensor(X, float(self.scale), int(self.zero_point), self.dtype)

    @classmethod
    def from_float(cls, mod: Module, **kwargs: Any) -> Quantize:
        """Make it from a module whose observer has seen values."""
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        return cls(scale, zero_point, mod.activation_post_process.dtype)

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(Module):
    """Turn integers into floats: what `convert` makes of a `DeQuantStub`."""

    def forward(self, Xq: Any) -> Tensor:
        """Return the input, as floats."""
        return Xq.dequantize() if isinstance(Xq, QuantizedTensor) else Xq

    @classmethod
    def from_float(cls, mod: Module, **kwargs: Any) -> DeQuantize:
        """Make it from a `DeQuantStub`."""
        return cls()


class QuantizedLayer(OneLineModule):
    """Base of the layers: integer weights, and the scale and zero point of the outputs."""

    has_relu = False

    @classmethod
    def from_float(cls, mod: Module, **kwargs: Any) -> Any:
        """Make it from a float layer (or a fused pair) whose observer has seen values."""
        layer = mod[0] if isinstance(mod, Sequential) else mod
        new = cls.__new__(cls)
        Module.__init__(new)
        new.copy_settings(layer)
        rounding = getattr(layer, "weight_fake_quant", None)  # of a layer that trained with it
        new.packed_weight = quantize_weight(layer.weight, rounding or mod.qconfig.weight())
        new.register_buffer("_bias", None if layer.bias is None else layer.bias.detach().clone())
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        new.register_buffer("_scale", scale.reshape(()))
        new.register_buffer("_zero_point", zero_point.reshape(()))
        new.train(mod.training)
        return new

    def copy_settings(self, layer: Module) -> None:
        """Copy the sizes of a float layer."""
        raise NotImplementedError

    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        """Return the product of integers."""
        raise NotImplementedError

    @property
    def scale(self) -> float:
        """The scale of the outputs."""
        return float(self._buffers["_scale"])

    @property
    def zero_point(self) -> int:
        """The zero point of the outputs."""
        return int(self._buffers["_zero_point"])

    def weight(self) -> QuantizedTensor:
        """Return the weight."""
        return self.packed_weight.as_quantized_tensor()

    def bias(self) -> Tensor | None:
        """Return the bias, which stays a float."""
        return self._buffers["_bias"]

    def forward(self, input: QuantizedTensor) -> QuantizedTensor:
        """Return the layer's outputs, quantized.

        Raises: DTypeError: the input is not quantized.
        """
        if not isinstance(input, QuantizedTensor):
            raise DTypeError(
                type(self).__name__, "expects a quantized input", {"input": input.dtype},
                "put a QuantStub before it, or wrap the model in QuantWrapper",
            )  # fmt: skip
        with no_grad():
            centered = input.int_repr().float() - input.q_zero_point()
            y = self.product(centered, self.packed_weight.centered())
            channels = y.ndim if y.ndim == 4 else 2
            y = y * (self.packed_weight.output_scale(channels) * input.q_scale())
            if self.bias() is not None:
                y = y + self.bias().reshape([-1] + [1] * (channels - 2))
            y = y.relu() if self.has_relu else y
            return requantize(y, QParams(self.scale, self.zero_point), quint8)


class Linear(QuantizedLayer):
    """A linear layer of integers."""

    def copy_settings(self, layer: Module) -> None:
        """Copy the sizes of a float layer."""
        self.in_features, self.out_features = layer.in_features, layer.out_features

    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        """Return x Wᵀ."""
        return F.linear(x, weight)

    def _get_name(self) -> str:
        return "QuantizedLinearReLU" if self.has_relu else "QuantizedLinear"

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"scale={self.scale}, zero_point={self.zero_point}, qscheme={self.weight().qscheme()}"
        )


class LinearReLU(Linear):
    """A linear layer and ReLU, of integers."""

    has_relu = True


class Conv2d(QuantizedLayer):
    """A convolution of integers."""

    def copy_settings(self, layer: Module) -> None:
        """Copy the settings of a float layer.

        Raises: NotHereError: it pads with something else than zeros.
        """
        if layer.padding_mode != "zeros":
            raise NotHereError(
                "quantized.Conv2d", f"padding_mode={layer.padding_mode!r} is not supported",
                hint="pad with a layer before it",
            )  # fmt: skip
        self.in_channels, self.out_channels = layer.in_channels, layer.out_channels
        self.kernel_size, self.stride = layer.kernel_size, layer.stride
        self.padding, self.dilation, self.groups = layer.padding, layer.dilation, layer.groups

    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        """Return the convolution; what is padded is 0, which is exact."""
        return F.conv2d(x, weight, None, self.stride, self.padding, self.dilation, self.groups)

    def _get_name(self) -> str:
        return "QuantizedConvReLU2d" if self.has_relu else "QuantizedConv2d"

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, scale={self.scale}, zero_point={self.zero_point}"
        )
        if self.padding != (0, 0):
            text += f", padding={self.padding}"
        return text if self.bias() is not None else f"{text}, bias=False"


class ConvReLU2d(Conv2d):
    """A convolution and ReLU, of integers."""

    has_relu = True
