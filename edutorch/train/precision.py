"""The precision of a training: float32, float64, or mixed precision with 16-bit floats."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .. import dtypes
from ..core.tensor import Tensor
from .errors import check_choice

__all__ = ["Precision"]

NAMES = {
    32: "32", "32": "32", "32-true": "32", 64: "64", "64": "64", "64-true": "64",
    "bf16-mixed": "bf16-mixed", "bf16": "bf16-mixed", "16-mixed": "16-mixed", 16: "16-mixed",
    "16": "16-mixed",
}  # fmt: skip


class Precision:
    """Runs steps, backward and optimizers in the chosen precision.

    With "bf16-mixed" and "16-mixed" the parameters stay float32, and autocast chooses 16-bit
    floats where possible; with float16 a GradScaler keeps small gradients from underflowing.
    """

    def __init__(self, precision: str | int, device_type: str) -> None:
        check_choice("Trainer", "precision", precision, tuple(NAMES))
        self.name = NAMES[precision]
        self.device_type = device_type
        self.scaler: Any = None
        if self.name == "16-mixed":
            from ..amp import GradScaler

            self.scaler = GradScaler(device_type)
        if self.mixed:
            from ..amp import autocast

            self.autocast: Any = autocast

    @property
    def mixed(self) -> bool:
        """Whether autocast is needed."""
        return self.name.endswith("mixed")

    def module(self, module: Any) -> None:
        """Convert the parameters of a module to the precision."""
        if self.name == "64":
            module.double()

    def tensor(self, tensor: Tensor) -> Tensor:
        """Convert a tensor of a batch to the precision."""
        return tensor.double() if self.name == "64" and tensor.is_floating_point() else tensor

    @contextlib.contextmanager
    def compute_context(self) -> Iterator[None]:
        """Apply the precision inside the block, which is a step of the module."""
        if self.mixed:
            dtype = dtypes.float16 if self.scaler is not None else dtypes.bfloat16
            with self.autocast(self.device_type, dtype=dtype):
                yield
        elif self.name == "64":
            previous = dtypes.get_default_dtype()
            dtypes.set_default_dtype(dtypes.float64)
            try:
                yield
            finally:
                dtypes.set_default_dtype(previous)
        else:
            yield

    def backward(self, loss: Tensor, **settings: Any) -> None:
        """Run backward on the loss, scaled if there is a scaler."""
        scaled = loss if self.scaler is None else self.scaler.scale(loss)
        scaled.backward(**settings)

    def unscale(self, optimizer: Any) -> None:
        """Unscale the gradients, so that they can be inspected and clipped."""
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)

    def step(self, optimizer: Any) -> None:
        """Run an optimizer step; a scaler skips it if the gradients have overflowed."""
        if self.scaler is None:
            optimizer.step()
        else:
            self.scaler.step(optimizer)
            self.scaler.update()
