"""Layers that leave out numbers at random while training."""

from __future__ import annotations

from ...core.tensor import Tensor
from .. import functional as F
from .module import Module

__all__ = ["Dropout", "Dropout1d", "Dropout2d"]


class DropoutNd(Module):
    """What the dropout layers share: their settings."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(DropoutNd):
    """While training, set numbers to 0 with probability p and scale the others by 1 / (1 - p).

    Paper: Srivastava et al., Dropout, 2014.

    >>> nn.Dropout().eval()(ones(3))
    tensor([1., 1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Leave out single numbers."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(DropoutNd):
    """Leave out whole channels of sequences (n, c, l)."""

    def forward(self, input: Tensor) -> Tensor:
        """Leave out channels."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(DropoutNd):
    """Leave out whole channels of images (n, c, h, w)."""

    def forward(self, input: Tensor) -> Tensor:
        """Leave out channels."""
        return F.dropout2d(input, self.p, self.training, self.inplace)
