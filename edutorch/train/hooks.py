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
        """Called first: create layers or data that depend on the stage ("fit", "test", …)."""

    def teardown(self, stage: str) -> None:
        """Called last."""

    def on_fit_start(self) -> None:
        """Called when `fit` begins, after `configure_optimizers`."""

    def on_fit_end(self) -> None:
        """Called when `fit` ends."""

    def on_train_start(self) -> None:
        """Called before the first epoch."""

    def on_train_end(self) -> None:
        """Called after the last epoch."""

    def on_train_epoch_start(self) -> None:
        """Called before the batches of an epoch (also when one is continued in its middle)."""

    def on_train_epoch_end(self) -> None:
        """Called after the batches of an epoch, and its validation."""

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> Any:
        """Called before a batch; -1 skips the rest of the epoch."""

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Called after a batch; `outputs` is what `training_step` returned."""

    def on_validation_start(self) -> None:
        """Called when a validation begins."""

    def on_validation_end(self) -> None:
        """Called when a validation ends."""

    def on_validation_epoch_start(self) -> None:
        """Called before the batches of a validation."""

    def on_validation_epoch_end(self) -> None:
        """Called after the batches of a validation."""

    def on_validation_batch_start(
        self, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Called before a batch of a validation."""

    def on_validation_batch_end(
        self, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Called after a batch of a validation."""

    def on_test_start(self) -> None:
        """Called when a test begins."""

    def on_test_end(self) -> None:
        """Called when a test ends."""

    def on_test_epoch_start(self) -> None:
        """Called before the batches of a test."""

    def on_test_epoch_end(self) -> None:
        """Called after the batches of a test."""

    def on_test_batch_start(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Called before a batch of a test."""

    def on_test_batch_end(
        self, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Called after a batch of a test."""

    def on_predict_start(self) -> None:
        """Called when a prediction begins."""

    def on_predict_end(self) -> None:
        """Called when a prediction ends."""

    def on_predict_epoch_start(self) -> None:
        """Called before the batches of a prediction."""

    def on_predict_epoch_end(self) -> None:
        """Called after the batches of a prediction."""

    def on_predict_batch_start(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Called before a batch of a prediction."""

    def on_predict_batch_end(
        self, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Called after a batch of a prediction."""

    def on_before_zero_grad(self, optimizer: Any) -> None:
        """Called before the gradients of the last step are cleared."""

    def on_before_backward(self, loss: Tensor) -> None:
        """Called before the gradients of a loss are computed."""

    def on_after_backward(self) -> None:
        """Called when the gradients are computed (a GradScaler may have scaled them)."""

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        """Called before an optimizer step; gradients are complete and unscaled."""

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add data of your own to a checkpoint that is being saved."""

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore from a checkpoint the data that `on_save_checkpoint` added."""
