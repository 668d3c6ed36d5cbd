"""The base class of callbacks: all hooks, and a state for checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.tensor import Tensor

if TYPE_CHECKING:
    from ..module import TrainModule
    from ..trainer import Trainer

__all__ = ["Callback"]


class Callback:
    """The base class of callbacks.

    Override the hooks that you need. Each gets the trainer and the module.

    >>> class Count(Callback):
    ...     steps = 0
    ...     def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
    ...         self.steps += 1
    """

    monitors = False
    """Whether it reads values that others log, and is therefore called after them."""

    @property
    def state_key(self) -> str:
        """The key of the state in a checkpoint."""
        return type(self).__name__

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state of a checkpoint."""

    def setup(self, trainer: Trainer, pl_module: TrainModule, stage: str) -> None:
        """Before everything: make layers or data that depend on the stage ("fit", "test", …)."""

    def teardown(self, trainer: Trainer, pl_module: TrainModule, stage: str) -> None:
        """Behind everything."""

    def on_fit_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """When `fit` begins, behind `configure_optimizers`."""

    def on_fit_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """When `fit` ends."""

    def on_train_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Before the first epoch."""

    def on_train_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Behind the last epoch."""

    def on_train_epoch_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Before the batches of an epoch (also when one is continued in its middle)."""

    def on_train_epoch_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Behind the batches of an epoch, and its validation."""

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: TrainModule, batch: Any, batch_idx: int
    ) -> Any:
        """Before a batch; -1 skips the rest of the epoch."""

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: TrainModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Behind a batch; `outputs` is what `training_step` returned."""

    def on_validation_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """When a validation begins."""

    def on_validation_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """When a validation ends."""

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Before the batches of a validation."""

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Behind the batches of a validation."""

    def on_validation_batch_start(
        self,
        trainer: Trainer,
        pl_module: TrainModule,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Before a batch of a validation."""

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: TrainModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Behind a batch of a validation."""

    def on_test_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """When a test begins."""

    def on_test_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """When a test ends."""

    def on_test_epoch_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Before the batches of a test."""

    def on_test_epoch_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Behind the batches of a test."""

    def on_test_batch_start(
        self,
        trainer: Trainer,
        pl_module: TrainModule,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Before a batch of a test."""

    def on_test_batch_end(
        self,
        trainer: Trainer,
        pl_module: TrainModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Behind a batch of a test."""

    def on_predict_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """When a prediction begins."""

    def on_predict_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """When a prediction ends."""

    def on_predict_epoch_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Before the batches of a prediction."""

    def on_predict_epoch_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Behind the batches of a prediction."""

    def on_predict_batch_start(
        self,
        trainer: Trainer,
        pl_module: TrainModule,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Before a batch of a prediction."""

    def on_predict_batch_end(
        self,
        trainer: Trainer,
        pl_module: TrainModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Behind a batch of a prediction."""

    def on_before_zero_grad(self, trainer: Trainer, pl_module: TrainModule, optimizer: Any) -> None:
        """Before the gradients of the last step are forgotten."""

    def on_before_backward(self, trainer: Trainer, pl_module: TrainModule, loss: Tensor) -> None:
        """Before the gradients of a loss are computed."""

    def on_after_backward(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """When the gradients are there (a GradScaler may have scaled them)."""

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: TrainModule, optimizer: Any
    ) -> None:
        """Before the optimizer moves; gradients are whole and unscaled."""

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: TrainModule, checkpoint: dict[str, Any]
    ) -> None:
        """Add data of your own to a checkpoint that is being saved."""

    def on_load_checkpoint(
        self, trainer: Trainer, pl_module: TrainModule, checkpoint: dict[str, Any]
    ) -> None:
        """Take out of a checkpoint what `on_save_checkpoint` put there."""

    def on_sanity_check_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Before the few batches of validation with which `fit` begins."""

    def on_sanity_check_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Behind the few batches of validation with which `fit` begins."""

    def on_exception(
        self, trainer: Trainer, pl_module: TrainModule, exception: BaseException
    ) -> None:
        """When something was raised, an interrupt (Ctrl-C) too."""
