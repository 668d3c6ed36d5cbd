"""Activations that weigh their input: by a curve, by learned slopes, by its other half."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...modes import no_grad
from ...ops import full
from .. import functional as F
from ..parameter import Parameter
from .module import Module

__all__ = ["GLU", "Hardswish", "Mish", "PReLU"]


class Mish(Module):
    """A smooth ReLU with a dip below zero: y = x · tanh(log(1 + eˣ)).

    >>> nn.Mish()(tensor([2.0]))
    tensor([1.9440])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Bend."""
        return F.mish(input, self.inplace)

    def extra_repr(self) -> str:
        """Return the settings."""
        return "inplace=True" if self.inplace else ""


class Hardswish(Module):
    """SiLU made of straight lines: y = x · min(max(x + 3, 0), 6) / 6.

    >>> nn.Hardswish()(tensor([4.0]))
    tensor([4.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Bend."""
        return F.hardswish(input, self.inplace)


class PReLU(Module):
    """Leaky ReLU with slopes that are learned: one, or one for each channel (axis 1).

    Paper: He et al., Delving deep into rectifiers, 2015.

    >>> nn.PReLU()(tensor([-2.0, 2.0]))
    tensor([-0.5000,  2.0000], grad_fn=<PreluKernelBackward0>)
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(full((num_parameters,), float(init), device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Begin again, with the slope that was given."""
        with no_grad():
            self.weight.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Bend."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"num_parameters={self.num_parameters}"


class GLU(Module):
    """One half opens and closes the other: y = a · σ(b).

    >>> nn.GLU()(tensor([3.0, 0.0]))
    tensor([1.5000])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Gate one half with the other."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"dim={self.dim}"
