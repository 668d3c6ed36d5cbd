"""In which numbers a training computes: float32, float64, or half of it in 16 bits."""

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
    """Puts steps, backward and optimizers into the wanted numbers.

    With "bf16-mixed" and "16-mixed" the parameters stay float32, and autocast computes what
    can be in 16 bits; with float16 a GradScaler keeps small gradients from becoming 0.
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
        """Convert the parameters, where they are to be others."""
        if self.name == "64":
            module.double()

    def tensor(self, tensor: Tensor) -> Tensor:
        """Convert a tensor of a batch."""
        return tensor.double() if self.name == "64" and tensor.is_floating_point() else tensor

    @contextlib.contextmanager
    def computing(self) -> Iterator[None]:
        """Be in force inside the block: around each step of the user's."""
        if self.mixed:
            kind = dtypes.float16 if self.scaler is not None else dtypes.bfloat16
            with self.autocast(self.device_type, dtype=kind):
                yield
        elif self.name == "64":
            before = dtypes.get_default_dtype()
            dtypes.set_default_dtype(dtypes.float64)
            try:
                yield
            finally:
                dtypes.set_default_dtype(before)
        else:
            yield

    def backward(self, loss: Tensor, **settings: Any) -> None:
        """Compute the gradients, of the scaled loss where there is a scaler."""
        scaled = loss if self.scaler is None else self.scaler.scale(loss)
        scaled.backward(**settings)

    def unscale(self, optimizer: Any) -> None:
        """Bring gradients back to their own size, to look at them and to clip them."""
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)

    def step(self, optimizer: Any) -> None:
        """Let an optimizer step; a scaler leaves it out where gradients have overflown."""
        if self.scaler is None:
            optimizer.step()
        else:
            self.scaler.step(optimizer)
            self.scaler.update()
