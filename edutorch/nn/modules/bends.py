"""The rarer activations as modules."""

from __future__ import annotations

from ...core.tensor import Tensor
from .. import functional as F
from ..functional.op_decorators import SettingError
from .module import Module

__all__ = [
    "CELU", "Hardshrink", "Hardsigmoid", "RReLU", "Softmax2d", "Softmin", "Softshrink",
    "Tanhshrink", "Threshold",
]  # fmt: skip


def in_place(module: Module) -> str:
    """Return the end of the text of an activation that writes into its input."""
    return ", inplace=True" if module.inplace else ""


class CELU(Module):
    """Like ReLU, but below zero a bend down to -α whose slope at 0 is 1 for each α.

        y = max(0, x) + min(0, α · (exp(x / α) - 1))

    Paper: Barron, Continuously differentiable exponential linear units, 2017.

    >>> nn.CELU(2.0)(tensor([-2.0, 1.0]))
    tensor([-1.2642,  1.0000])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Bend the negative numbers."""
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"alpha={self.alpha}{in_place(self)}"


class RReLU(Module):
    """Leaky ReLU with a slope drawn for each number while training; in evaluation their mean.

    Paper: Xu et al., Empirical evaluation of rectified activations, 2015.

    >>> nn.RReLU(0.1, 0.3).eval()(tensor([-1.0, 1.0]))
    tensor([-0.2000,  1.0000])
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Multiply the negative numbers by slopes."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"lower={self.lower}, upper={self.upper}{in_place(self)}"


class Threshold(Module):
    """Numbers above a threshold stay; all others become `value`.

    >>> nn.Threshold(1.0, 20.0)(tensor([0.5, 2.0]))
    tensor([20.,  2.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Replace what is not above the threshold."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"threshold={self.threshold}, value={self.value}{in_place(self)}"


class Hardsigmoid(Module):
    """A sigmoid of straight lines: 0 below -3, 1 above 3, x / 6 + 1/2 between.

    >>> nn.Hardsigmoid()(tensor([-4.0, 0.0, 1.5]))
    tensor([0.0000, 0.5000, 0.7500])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Bend along three lines."""
        return F.hardsigmoid(input, self.inplace)


class Hardshrink(Module):
    """Numbers from -λ to λ become 0; all others stay.

    >>> nn.Hardshrink()(tensor([-1.0, 0.4]))
    tensor([-1.,  0.])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Take small numbers away."""
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return the setting."""
        return f"{self.lambd}"


class Softshrink(Module):
    """Numbers from -λ to λ become 0; all others come closer to 0 by λ.

    >>> nn.Softshrink()(tensor([-1.0, 0.4]))
    tensor([-0.5000,  0.0000])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Pull all numbers towards 0."""
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Return the setting."""
        return f"{self.lambd}"


class Tanhshrink(Module):
    """What tanh takes away: y = x - tanh(x).

    >>> nn.Tanhshrink()(tensor([0.0, 2.0]))
    tensor([0.0000, 1.0360])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Compute x - tanh(x)."""
        return F.tanhshrink(input)


class Softmin(Module):
    """Softmax of -x: the smallest number gets most. Along `dim` the results sum to 1.

    >>> nn.Softmin(dim=0)(tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Compute exp(-x) / Σ exp(-x)."""
        return F.softmin(input, self.dim)

    def extra_repr(self) -> str:
        """Return the setting."""
        return f"dim={self.dim}"


class Softmax2d(Module):
    """Softmax over the channels of an image (n, c, h, w) or (c, h, w), at each place.

    >>> nn.Softmax2d()(zeros(2, 1, 1)).flatten()
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Compute softmax over channels. Raises: ValueError: not an image."""
        if input.ndim not in (3, 4):
            raise SettingError(
                "Softmax2d", f"expected input to be 3D or 4D, got {input.ndim}D instead",
                {"input": tuple(input.shape)},
            )  # fmt: skip
        return F.softmax(input, -3)
