"""Where a network turns from floats to integers, and back: `QuantStub` and `DeQuantStub`."""

from __future__ import annotations

from typing import Any

from edutorch.core.tensor import Tensor
from edutorch.nn import Module

from .qconfig import QConfig

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper"]


class QuantStub(Module):
    """Mark where floats become integers: `convert` replaces it by `Quantize`.

    Until then it returns its input, and an observer behind it notes the range.
    """

    def __init__(self, qconfig: QConfig | None = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        """Return the input."""
        return x


class DeQuantStub(Module):
    """Mark where integers become floats: `convert` replaces it by `DeQuantize`."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        """Return the input."""
        return x


class QuantWrapper(Module):
    """A module between a `QuantStub` and a `DeQuantStub`."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.quant, self.dequant = QuantStub(qconfig), DeQuantStub(qconfig)
        self.module = module
        self.train(module.training)

    def forward(self, X: Tensor) -> Tensor:
        """Return dequant(module(quant(X)))."""
        return self.dequant(self.module(self.quant(X)))
