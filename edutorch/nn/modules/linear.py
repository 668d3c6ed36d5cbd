"""Linear layers: affine and bilinear maps of the features."""

from __future__ import annotations

import math
from typing import Any

from ...core.tensor import Tensor
from ...errors import InvalidValueError
from ...ops import empty
from .. import init
from ..common_types import DeviceLike, DTypeLike
from ..functional import bilinear, linear
from ..parameter import Parameter, UninitializedParameter
from .lazy import FeatureError, LazyModuleMixin, materialize_lazy
from .module import Module

__all__ = [
    "Bilinear", "Identity", "LazyLinear", "Linear",
]  # fmt: skip


class Linear(Module):
    """Affine map of the features: y = x Wᵀ + b.

    Args:
        in_features: the number of input features.
        out_features: the number of output features.
        bias: whether the layer adds a bias.

    Shape: (…, in_features) to (…, out_features). `weight` is (out_features, in_features).

    The parameters are initialized uniformly in ±1/√in_features.

    >>> nn.Linear(3, 2)(ones(5, 3)).shape
    torch.Size([5, 2])
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize the parameters."""
        kaiming_uniform_reset(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Compute x Wᵀ + b."""
        return linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


def kaiming_uniform_reset(weight: Tensor, bias: Tensor | None) -> None:
    """Initialize weight and bias uniformly in ±1/√fan_in, as PyTorch's layers do.

    (PyTorch writes the same bound as Kaiming's with a = √5.)
    """
    # An empty weight has no fan, and PyTorch only warns.
    if weight.numel():
        init.kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is not None:
        fan_in, _ = init.compute_fans(weight)
        bound = 1 / math.sqrt(fan_in) if fan_in else 0
        init.uniform_(bias, -bound, bound)


class Bilinear(Module):
    """Bilinear map of two inputs: y = x₁ᵀ A x₂ + b for each output.

    Args:
        in1_features, in2_features: the numbers of input features.
        out_features: the number of output features.
        bias: whether the layer adds a bias.

    Shape: (…, in1_features) and (…, in2_features) to (…, out_features). `weight` is
    (out_features, in1_features, in2_features).

    The parameters are initialized uniformly in ±1/√in1_features.

    >>> nn.Bilinear(3, 4, 2)(ones(5, 3), ones(5, 4)).shape
    torch.Size([5, 2])
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True,
        device: DeviceLike = None, dtype: DTypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features, factory_kwargs = out_features, {"device": device, "dtype": dtype}
        self.weight = Parameter(empty(out_features, in1_features, in2_features, **factory_kwargs))
        self.register_parameter(
            "bias", Parameter(empty(out_features, **factory_kwargs)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize the parameters. Raises: ValueError: there are no features."""
        if self.in1_features <= 0:
            raise InvalidValueError(
                type(self).__name__,
                f"in1_features must be > 0, but got (in1_features={self.in1_features})",
            )
        bound = 1 / math.sqrt(self.in1_features)
        for parameter in (self.weight, self.bias):
            if parameter is not None:
                init.uniform_(parameter, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Compute x₁ᵀ A x₂ + b."""
        return bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class Identity(Module):
    """Return the input; all arguments are ignored.

    >>> nn.Identity()(tensor([1.0]))
    tensor([1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class LazyLinear(LazyModuleMixin, Linear):
    """A `Linear` that infers `in_features` from the last axis of its first input.

    >>> layer = nn.LazyLinear(2)
    >>> layer(ones(5, 3)).shape, layer
    (torch.Size([5, 2]), Linear(in_features=3, out_features=2, bias=True))
    """

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:  # fmt: skip
        # The real parameters replace these of size 0 below.
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Reinitialize the parameters, if they are materialized."""
        if not self.has_uninitialized_params() and self.in_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Materialize the parameters.

        Raises: AssertionError: a loaded weight has other features.
        """
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            materialize_lazy(self.weight, (self.out_features, self.in_features))
            materialize_lazy(self.bias, (self.out_features,))
            self.reset_parameters()
        elif not self.in_features:
            if input.shape[-1] != self.weight.shape[-1]:
                raise FeatureError(
                    "LazyLinear", f"The in_features inferred from input: {input.shape[-1]} is not "
                    f"equal to in_features from self.weight: {self.weight.shape[-1]}",
                )  # fmt: skip
            self.in_features = input.shape[-1]


class NonDynamicallyQuantizableLinear(Linear):
    """The output projection of `MultiheadAttention`, with the name that PyTorch prints."""

    def _get_name(self) -> str:
        return "NonDynamicallyQuantizableLinear"
