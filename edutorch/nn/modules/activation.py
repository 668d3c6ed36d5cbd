"""Activations as modules, to be put between layers."""

from __future__ import annotations

from ...core.tensor import Tensor
from ...ops import relu
from .. import functional as F
from .module import Module

__all__ = [
    "ELU", "GELU", "Hardtanh", "LeakyReLU", "LogSigmoid", "LogSoftmax", "ReLU", "ReLU6", "SELU",
    "SiLU", "Sigmoid", "Softmax", "Softplus", "Softsign", "Tanh",
]  # fmt: skip


class ReLU(Module):
    """The positive part: y = max(x, 0).

    >>> nn.ReLU()(tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Compute max(x, 0)."""
        return input.relu_() if self.inplace else relu(input)

    def extra_repr(self) -> str:
        """Return the settings."""
        return "inplace=True" if self.inplace else ""


class Hardtanh(Module):
    """Straight between two limits, flat outside.

    >>> nn.Hardtanh()(tensor([-3.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Clip the input."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """Return the settings."""
        inplace = ", inplace=True" if self.inplace else ""
        return f"min_val={self.min_val}, max_val={self.max_val}{inplace}"


class ReLU6(Hardtanh):
    """ReLU with an upper limit of 6.

    >>> nn.ReLU6()(tensor([-1.0, 8.0]))
    tensor([0., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """Return the settings."""
        return "inplace=True" if self.inplace else ""


class LeakyReLU(Module):
    """Like ReLU, with a small slope below zero, so that no unit is ever dead.

    >>> nn.LeakyReLU(0.1)(tensor([-1.0, 2.0]))
    tensor([-0.1000,  2.0000])
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Compute x or slope · x."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"negative_slope={self.negative_slope}{', inplace=True' if self.inplace else ''}"


class ELU(Module):
    """Like ReLU, but below zero a smooth bend down to -α.

    >>> nn.ELU()(tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Compute x or α · (eˣ - 1)."""
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"alpha={self.alpha}{', inplace=True' if self.inplace else ''}"


class SELU(Module):
    """ELU scaled so that layers of it keep mean 0 and variance 1.

    >>> nn.SELU()(tensor([0.0]))
    tensor([0.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Compute the scaled ELU."""
        return F.selu(input, self.inplace)

    def extra_repr(self) -> str:
        """Return the settings."""
        return "inplace=True" if self.inplace else ""


class SiLU(Module):
    """A smooth ReLU: y = x · σ(x).

    >>> nn.SiLU()(tensor([2.0]))
    tensor([1.7616])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Compute x · σ(x)."""
        return F.silu(input, self.inplace)

    def extra_repr(self) -> str:
        """Return the settings."""
        return "inplace=True" if self.inplace else ""


class GELU(Module):
    """A smooth ReLU: y = x · Φ(x), Φ(x) being the part of a normal distribution below x.

    >>> nn.GELU()(tensor([2.0]))
    tensor([1.9545])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Compute x · Φ(x)."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"approximate={self.approximate!r}"


class Sigmoid(Module):
    """An S-shaped curve from 0 to 1: y = 1 / (1 + e⁻ˣ).

    >>> nn.Sigmoid()(tensor([0.0]))
    tensor([0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Compute σ(x)."""
        return F.sigmoid(input)


class Tanh(Module):
    """An S-shaped curve from -1 to 1.

    >>> nn.Tanh()(tensor([1.0]))
    tensor([0.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Compute tanh(x)."""
        return F.tanh(input)


class Softsign(Module):
    """An S-shaped curve with long tails: y = x / (1 + |x|).

    >>> nn.Softsign()(tensor([3.0]))
    tensor([0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Compute x / (1 + |x|)."""
        return F.softsign(input)


class LogSigmoid(Module):
    """The logarithm of the sigmoid.

    >>> nn.LogSigmoid()(tensor([0.0]))
    tensor([-0.6931])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Compute log σ(x)."""
        return F.logsigmoid(input)


class Softplus(Module):
    """A smooth ramp: y = log(1 + exp(βx)) / β.

    >>> nn.Softplus()(tensor([0.0]))
    tensor([0.6931])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        """Compute log(1 + exp(βx)) / β."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"beta={self.beta}, threshold={self.threshold}"


class Softmax(Module):
    """Positive numbers that sum to 1 along `dim`.

    >>> nn.Softmax(dim=0)(tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Compute exp(x) / Σ exp(x)."""
        return F.softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """The logarithm of softmax.

    >>> nn.LogSoftmax(dim=0)(tensor([0.0, 0.0]))
    tensor([-0.6931, -0.6931])
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Compute x - log Σ exp(x)."""
        return F.log_softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"dim={self.dim}"
