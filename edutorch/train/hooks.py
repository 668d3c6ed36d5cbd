"""The hooks of a module, called at each stage of a training.

A hook that is not overridden does nothing. `Callback` has the same hooks, with the trainer and the
module as further arguments.
"""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor

__all__ = ["ModuleHooks"]


class ModuleHooks:
    """Every hook of a module, in the order in which they are called."""

    def setup(self, stage: str) -> None:
        """Before everything: make layers or data that depend on the stage ("fit", "test", …)."""

    def teardown(self, stage: str) -> None:
        """Behind everything."""

    def on_fit_start(self) -> None:
        """When `fit` begins, behind `configure_optimizers`."""

    def on_fit_end(self) -> None:
        """When `fit` ends."""

    def on_train_start(self) -> None:
        """Before the first epoch."""

    def on_train_end(self) -> None:
        """Behind the last epoch."""

    def on_train_epoch_start(self) -> None:
        """Before the batches of an epoch (also when one is continued in its middle)."""

    def on_train_epoch_end(self) -> None:
        """Behind the batches of an epoch, and its validation."""

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> Any:
        """Before a batch; -1 skips the rest of the epoch."""

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Behind a batch; `outputs` is what `training_step` returned."""

    def on_validation_start(self) -> None:
        """When a validation begins."""

    def on_validation_end(self) -> None:
        """When a validation ends."""

    def on_validation_epoch_start(self) -> None:
        """Before the batches of a validation."""

    def on_validation_epoch_end(self) -> None:
        """Behind the batches of a validation."""

    def on_validation_batch_start(
        self, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Before a batch of a validation."""

    def on_validation_batch_end(
        self, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Behind a batch of a validation."""

    def on_test_start(self) -> None:
        """When a test begins."""

    def on_test_end(self) -> None:
        """When a test ends."""

    def on_test_epoch_start(self) -> None:
        """Before the batches of a test."""

    def on_test_epoch_end(self) -> None:
        """Behind the batches of a test."""

    def on_test_batch_start(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Before a batch of a test."""

    def on_test_batch_end(
        self, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Behind a batch of a test."""

    def on_predict_start(self) -> None:
        """When a prediction begins."""

    def on_predict_end(self) -> None:
        """When a prediction ends."""

    def on_predict_epoch_start(self) -> None:
        """Before the batches of a prediction."""

    def on_predict_epoch_end(self) -> None:
        """Behind the batches of a prediction."""

    def on_predict_batch_start(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Before a batch of a prediction."""

    def on_predict_batch_end(
        self, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Behind a batch of a prediction."""

    def on_before_zero_grad(self, optimizer: Any) -> None:
        """Before the gradients of the last step are forgotten."""

    def on_before_backward(self, loss: Tensor) -> None:
        """Before the gradients of a loss are computed."""

    def on_after_backward(self) -> None:
        """When the gradients are there (a GradScaler may have scaled them)."""

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        """Before the optimizer moves; gradients are whole and unscaled."""

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add data of your own to a checkpoint that is being saved."""

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take out of a checkpoint what `on_save_checkpoint` put there."""
