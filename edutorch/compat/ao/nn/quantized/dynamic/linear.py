"""`Linear` with an int8 weight, and inputs that are quantized at each call."""

from __future__ import annotations

from typing import Any

from edutorch.ao import affine
from edutorch.ao.affine import choose_dynamic_qparams, qint8
from edutorch.ao.quantized_tensor import QuantizedTensor
from edutorch.core.tensor import Tensor
from edutorch.dtypes import float16
from edutorch.modes import no_grad
from edutorch.nn import Module
from edutorch.nn import functional as F

from ..weights import OneLineModule, quantize_weight

__all__ = ["Linear"]

INPUT_BOUNDS = (0, 127)
"""7 bits, as in PyTorch: sums of products with int8 weights then fit into its registers."""


class Linear(OneLineModule):
    """y = s_x s_w (q_x - z_x) (q_w - z_w)ᵀ + b, with s_x and z_x from the range of each input.

    With dtype=float16 the weight is stored in 16 bits, and nothing is an integer.

    >>> layer = nn.Linear(3, 2)
    >>> model = edutorch.ao.quantization.quantize_dynamic(nn.Sequential(layer), {nn.Linear})
    >>> model(zeros(1, 3)).shape
    torch.Size([1, 2])
    """

    @classmethod
    def from_float(cls, mod: Module, **kwargs: Any) -> Linear:
        """Make it from a float layer: its `qconfig` says how the weight is quantized."""
        return cls(mod.weight, mod.bias, mod.qconfig.weight())

    def __init__(self, weight: Tensor, bias: Tensor | None, observer: Any) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.dtype = observer.dtype
        if self.dtype is float16:
            self.register_buffer("half_weight", weight.detach().half())
        else:
            self.packed_weight = quantize_weight(weight, observer)
        self.register_buffer("_bias", None if bias is None else bias.detach().clone())

    def weight(self) -> Tensor:
        """Return the weight: quantized, or float16."""
        if self.dtype is float16:
            return self._buffers["half_weight"]
        return self.packed_weight.as_quantized_tensor()

    def bias(self) -> Tensor | None:
        """Return the bias, which stays a float."""
        return self._buffers["_bias"]

    def forward(self, x: Tensor) -> Tensor:
        """Return the product with the weight, plus the bias."""
        with no_grad():
            if self.dtype is float16:
                return F.linear(x, self.weight().float(), self.bias())
            qparams = choose_dynamic_qparams(x, INPUT_BOUNDS)
            integers = affine.quantize(x, qparams, INPUT_BOUNDS) - qparams.zero_point
            y = F.linear(integers, self.packed_weight.centered())
            y = y * (self.packed_weight.output_scale(2) * qparams.scale)
            return y if self.bias() is None else y + self.bias()

    def _get_name(self) -> str:
        return "DynamicQuantizedLinear"

    def extra_repr(self) -> str:
        text = (
            f"in_features={self.in_features}, out_features={self.out_features}, dtype={self.dtype}"
        )
        if self.dtype is qint8:
            weight = self.weight()
            assert isinstance(weight, QuantizedTensor)
            text += f", qscheme={weight.qscheme()}"
        return text
