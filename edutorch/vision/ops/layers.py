"""The building blocks that torchvision's models share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.tensor import Tensor
from ...errors import InvalidValueError
from ...nn import (
    AdaptiveAvgPool2d,
    BatchNorm2d,
    Conv2d,
    Dropout,
    Linear,
    Module,
    ReLU,
    Sequential,
    Sigmoid,
)
from ...nn.functional.sliding_window import Size, expand_setting
from ...ops import empty, ones, permute, reshape, rsqrt, zeros

__all__ = [
    "MLP", "Conv2dNormActivation", "FrozenBatchNorm2d", "Permute", "SqueezeExcitation",
    "StochasticDepth", "stochastic_depth",
]  # fmt: skip

Layer = Callable[..., Module]


class FrozenBatchNorm2d(Module):
    """BatchNorm with fixed statistics: y = (x - mean) / √(var + eps) · weight + bias.

    Detectors are trained with one or two images at a time, too few for statistics of their own.

    Args:
        num_features: channels.
        eps: added to the variance.

    >>> edutorch.vision.ops.FrozenBatchNorm2d(3)
    FrozenBatchNorm2d(3, eps=1e-05)
    """

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", ones(num_features))
        self.register_buffer("bias", zeros(num_features))
        self.register_buffer("running_mean", zeros(num_features))
        self.register_buffer("running_var", ones(num_features))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        state_dict.pop(prefix + "num_batches_tracked", None)  # a BatchNorm2d's, which counts them
        super()._load_from_state_dict(state_dict, prefix, *others)

    def forward(self, x: Tensor) -> Tensor:
        """Normalize (n c h w)."""
        scale = self.weight * rsqrt(self.running_var + self.eps)
        shift = self.bias - self.running_mean * scale
        return x * reshape(scale, (1, -1, 1, 1)) + reshape(shift, (1, -1, 1, 1))

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, eps={self.eps}"


class Conv2dNormActivation(Sequential):
    """Convolution, normalization, activation.

    Args:
        in_channels, out_channels, kernel_size, stride, groups, dilation: as for `Conv2d`.
        padding: None: so that the size stays (at stride 1).
        norm_layer, activation_layer: None: left out.
        inplace: of the activation; None: it is not asked.
        bias: whether the convolution adds one; None: if no normalization follows.

    >>> edutorch.vision.ops.Conv2dNormActivation(3, 8)(ones(1, 3, 4, 4)).shape
    torch.Size([1, 8, 4, 4])
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Size = 3, stride: Size = 1,
        padding: Size | str | None = None, groups: int = 1, norm_layer: Layer | None = BatchNorm2d,
        activation_layer: Layer | None = ReLU, dilation: Size = 1, inplace: bool | None = True,
        bias: bool | None = None,
    ) -> None:  # fmt: skip
        if padding is None:
            sizes, gaps = expand_setting(kernel_size, 2), expand_setting(dilation, 2)
            padding = tuple((k - 1) // 2 * d for k, d in zip(sizes, gaps, strict=True))
        layers: list[Module] = [
            Conv2d(
                in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                bias=norm_layer is None if bias is None else bias,
            )
        ]  # fmt: skip
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer(**with_inplace(inplace)))
        super().__init__(*layers)
        self.out_channels = out_channels


def with_inplace(inplace: bool | None) -> dict[str, bool]:
    """Return the setting `inplace` of an activation, if it is asked."""
    return {} if inplace is None else {"inplace": inplace}


class SqueezeExcitation(Module):
    """Scale each channel by what a small network makes of the averages of all: x · σ(W₂ δ(W₁ x̄)).

    Args:
        input_channels: channels of the image.
        squeeze_channels: channels between the two layers.
        activation, scale_activation: δ and σ, classes of modules.

    Paper: Hu et al., Squeeze-and-excitation networks, 2018.

    >>> edutorch.vision.ops.SqueezeExcitation(8, 2)(ones(1, 8, 4, 4)).shape
    torch.Size([1, 8, 4, 4])
    """

    def __init__(
        self, input_channels: int, squeeze_channels: int, activation: Layer = ReLU,
        scale_activation: Layer = Sigmoid,
    ) -> None:  # fmt: skip
        super().__init__()
        self.avgpool = AdaptiveAvgPool2d(1)
        self.fc1 = Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = Conv2d(squeeze_channels, input_channels, 1)
        self.activation = activation()
        self.scale_activation = scale_activation()

    def forward(self, input: Tensor) -> Tensor:
        """Scale (n c h w)."""
        squeezed = self.activation(self.fc1(self.avgpool(input)))
        return self.scale_activation(self.fc2(squeezed)) * input


class MLP(Sequential):
    """Linear layers, each but the last with normalization and activation, each with dropout.

    Args:
        in_channels: features of the input.
        hidden_channels: features behind each linear layer.
        norm_layer, activation_layer: classes of modules; without `norm_layer`, none is used.
        inplace: of activations and dropout; None: they are not asked.
        bias: whether the linear layers add one.
        dropout: the probability that an element becomes 0.

    >>> edutorch.vision.ops.MLP(4, [8, 2])(ones(3, 4)).shape
    torch.Size([3, 2])
    """

    def __init__(
        self, in_channels: int, hidden_channels: Sequence[int], norm_layer: Layer | None = None,
        activation_layer: Layer | None = ReLU, inplace: bool | None = None, bias: bool = True,
        dropout: float = 0.0,
    ) -> None:  # fmt: skip
        settings = with_inplace(inplace)
        layers: list[Module] = []
        widths = [in_channels, *hidden_channels]
        for i, width in enumerate(hidden_channels):
            layers.append(Linear(widths[i], width, bias=bias))
            if i < len(hidden_channels) - 1:
                layers += [] if norm_layer is None else [norm_layer(width)]
                layers += [] if activation_layer is None else [activation_layer(**settings)]
            layers.append(Dropout(dropout, **settings))
        super().__init__(*layers)


class Permute(Module):
    """`x.permute(dims)` as a module.

    >>> edutorch.vision.ops.Permute([1, 0])(ones(2, 3)).shape
    torch.Size([3, 2])
    """

    def __init__(self, dims: Sequence[int]) -> None:
        super().__init__()
        self.dims = dims

    def forward(self, x: Tensor) -> Tensor:
        """Return the permuted view."""
        return permute(x, tuple(self.dims))


# Stochastic depth -------------------------------------------------------------------------------


def stochastic_depth(input: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    """Drop whole residual branches: with the probability p the branch is 0, else it is / (1 - p).

    Args:
        input: the output of the branch, (n …).
        mode: "row" draws for each example, "batch" once.
        training: if False, the input is returned.

    Raises: InvalidValueError (a ValueError): p or mode is out of range.

    Paper: Huang et al., Deep networks with stochastic depth, 2016.

    >>> edutorch.vision.ops.stochastic_depth(ones(2), 1.0, "row")
    tensor([0., 0.])
    """
    if not 0 <= p <= 1:
        raise InvalidValueError("stochastic_depth", f"p has to be between 0 and 1, but got {p}")
    if mode not in ("batch", "row"):
        raise InvalidValueError(
            "stochastic_depth", f"mode has to be either 'batch' or 'row', but got {mode!r}"
        )
    if not training or p == 0:
        return input
    draws = (input.shape[0] if mode == "row" else 1,) + (1,) * (input.ndim - 1)
    noise = empty(*draws, dtype=input.dtype, device=input.device).bernoulli_(1 - p)
    return input * (noise / (1 - p) if p < 1 else noise)


class StochasticDepth(Module):
    """`stochastic_depth` as a module.

    >>> edutorch.vision.ops.StochasticDepth(0.2, "row")
    StochasticDepth(p=0.2, mode=row)
    """

    def __init__(self, p: float, mode: str) -> None:
        super().__init__()
        self.p, self.mode = p, mode

    def forward(self, input: Tensor) -> Tensor:
        """Drop branches while training."""
        return stochastic_depth(input, self.p, self.mode, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}, mode={self.mode}"
