"""Layer norm, RMS norm, group norm and local response norm."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.tensor import Tensor
from ...errors import InvalidValueError
from ...ops import arange, narrow, ones, where, zeros
from .. import functional as F
from .. import init
from ..common_types import DeviceLike, DTypeLike
from ..functional.op_decorators import SettingError
from ..parameter import Parameter
from .module import Module

__all__ = [
    "CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm",
]  # fmt: skip


def as_shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


class AffineNorm(Module):
    """Base of the norms that scale by a weight and shift by a bias."""

    weight: Parameter | None
    bias: Parameter | None

    def register_affine(
        self, shape: tuple[int, ...], has_weight: bool, has_bias: bool, device: DeviceLike,
        dtype: DTypeLike,
    ) -> None:  # fmt: skip
        """Register a weight of ones and a bias of zeros, or None for what is left out."""
        weight = Parameter(ones(shape, device=device, dtype=dtype)) if has_weight else None
        bias = Parameter(zeros(shape, device=device, dtype=dtype)) if has_bias else None
        self.register_parameter("weight", weight)
        self.register_parameter("bias", bias)

    def reset_parameters(self) -> None:
        """Reset weight to 1 and bias to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class LayerNorm(AffineNorm):
    """Normalize each sample over its last axes, then scale and shift each feature.

    Args:
        normalized_shape: the sizes of these axes.
        eps: added to the variance, for a finite division.
        elementwise_affine: whether the layer has a `weight` and a `bias`.
        bias: whether the layer adds a bias.

    Paper: Ba, Kiros and Hinton, Layer normalization, 2016.

    >>> nn.LayerNorm(4)(randn(2, 4)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float = 1e-5,
        elementwise_affine: bool = True, bias: bool = True, device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = as_shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        affine = elementwise_affine
        self.register_affine(self.normalized_shape, affine, affine and bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divide each sample by the root of its mean square, then scale each feature.

    Paper: Zhang and Sennrich, Root mean square layer normalization, 2019.

    >>> nn.RMSNorm(4)(randn(2, 4)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None = None,
        elementwise_affine: bool = True, device: DeviceLike = None, dtype: DTypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape = as_shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        weight = ones(self.normalized_shape, device=device, dtype=dtype)
        self.register_parameter("weight", Parameter(weight) if elementwise_affine else None)

    def reset_parameters(self) -> None:
        """Reset weight to 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(AffineNorm):
    """Normalize each sample over groups of its channels, then scale and shift each channel.

    Paper: Wu and He, Group normalization, 2018.

    >>> nn.GroupNorm(2, 4)(randn(2, 4, 3)).shape
    torch.Size([2, 4, 3])
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
        device: DeviceLike = None, dtype: DTypeLike = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if num_groups <= 0 or num_channels % num_groups:
            raise InvalidValueError(
                type(self).__name__, "num_channels must be divisible by num_groups"
            )
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.affine = affine
        self.register_affine((num_channels,), affine, affine and bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class CrossMapLRN2d(Module):
    """Local response norm across channels, as Lua Torch defined it.

        y = x / (k + α / size · Σ x²)^β

    The sum is over the (size - 1) // 2 channels on each side, and over channel 0, which
    PyTorch's running sum adds and never subtracts. `LocalResponseNorm` lacks that term.

    >>> nn.CrossMapLRN2d(3)(zeros(1, 4, 2, 2)).shape
    torch.Size([1, 4, 2, 2])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """Normalize over the neighbouring channels. Raises: ValueError: not (n, c, h, w)."""
        if input.ndim != 4:
            raise SettingError(
                "CrossMapLRN2d", f"Expected input to be 4D, got {input.ndim}D instead.",
                {"input": tuple(input.shape)},
            )  # fmt: skip
        half, channels = (self.size - 1) // 2, input.shape[1]
        squares = input * input
        padded = F.pad(squares, (0, 0, 0, 0, half, half))
        total = narrow(padded, 1, 0, channels)
        # The window is short, so adding shifted copies is cheaper than a pooling.
        for shift in range(1, 2 * half + 1):
            total = total + narrow(padded, 1, shift, channels)
        is_past_window = arange(channels, device=input.device).reshape(-1, 1, 1) > half
        total = total + where(is_past_window, squares[:, :1], 0)
        return input * (self.k + self.alpha / self.size * total) ** -self.beta

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class LocalResponseNorm(Module):
    """Local response norm over neighbouring channels: y = x / (k + α · mean(x²))^β.

    Paper: Krizhevsky, Sutskever and Hinton, ImageNet classification, 2012.

    >>> nn.LocalResponseNorm(2, alpha=6.0)(ones(1, 2, 1)).flatten()
    tensor([0.3536, 0.2324])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
