"""The integer weights of a layer, and products with them.

Integers of 8 bits are multiplied as float32, which BLAS is fast at: products and their sums stay
exact as long as they are below 2^24, as those of about a thousand terms are.
"""

from __future__ import annotations

from typing import Any

from edutorch.ao import affine
from edutorch.ao.affine import QParams, QuantizedDtype
from edutorch.ao.quantized_tensor import QuantizedTensor, requantize
from edutorch.core.tensor import Tensor
from edutorch.errors import DTypeError
from edutorch.nn import Module
from edutorch.ops import tensor

__all__ = ["IntegerWeight", "OneLineModule", "quantize_weight"]


class IntegerWeight(Module):
    """A weight as integers, with its scale and zero point, in buffers.

    Args:
        weight: quantized, for a whole tensor or for each slice along axis 0.
    """

    integers: Tensor
    scale: Tensor
    zero_point: Tensor

    def __init__(self, weight: QuantizedTensor) -> None:
        super().__init__()
        qparams: QParams = weight.__dict__["_qparams"]
        self.is_per_channel, self.dtype = qparams.axis is not None, weight.dtype
        self.register_buffer("integers", weight.int_repr())
        self.register_buffer("scale", as_tensor(qparams.scale))
        self.register_buffer("zero_point", as_tensor(qparams.zero_point))

    @property
    def qparams(self) -> QParams:
        """Scale and zero point."""
        if self.is_per_channel:
            return QParams(self.scale, self.zero_point, 0)
        return QParams(float(self.scale), int(self.zero_point))

    def as_quantized_tensor(self) -> QuantizedTensor:
        """Return the weight as a quantized tensor."""
        return QuantizedTensor(self.integers, self.qparams, self.dtype)

    def centered(self) -> Tensor:
        """Return the integers without the zero point, as floats."""
        _, zero_point = self.qparams.along(self.integers.ndim)
        return self.integers.float() - zero_point

    def output_scale(self, ndim: int) -> Any:
        """Return the scale so that it multiplies outputs of `ndim` axes, 2 or 4."""
        if not self.is_per_channel:
            return float(self.scale)
        return self.scale.float().reshape([-1] + [1] * (ndim - 2))


class OneLineModule(Module):
    """Base of layers that print as one line: their weights are parts, but no layers."""

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"


def as_tensor(value: Any) -> Tensor:
    """Return a number as a 0-d tensor; a tensor as it is."""
    return value if isinstance(value, Tensor) else tensor(value)


def quantize_weight(weight: Tensor, observer: Any) -> IntegerWeight:
    """Return a float weight as integers, with the scale that an observer finds for it.

    Raises: DTypeError: weights are int8 here, as in PyTorch.
    """
    dtype = observer.dtype
    if dtype is not affine.qint8:
        raise DTypeError(
            "quantize", "Weight observer must have dtype torch.qint8", {"dtype": dtype},
            "use default_weight_observer, or dtype=torch.qint8",
        )  # fmt: skip
    weight = weight.detach().float()
    if not hasattr(observer, "fake_quant_enabled"):  # a rounding has seen it while it trained
        observer(weight)
    scale, zero_point = observer.calculate_qparams()
    if observer.qscheme.is_per_channel:
        qparams = QParams(scale, zero_point, observer.ch_axis)
    else:
        qparams = QParams(float(scale), int(zero_point))
    assert isinstance(dtype, QuantizedDtype)
    return IntegerWeight(requantize(weight, qparams, dtype))
