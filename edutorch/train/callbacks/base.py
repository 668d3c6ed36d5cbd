"""The base class of callbacks: all hooks, and a state for checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.tensor import Tensor
from ...optim import Optimizer

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
        """Called first: create layers or data that depend on the stage ("fit", "test", …)."""

    def teardown(self, trainer: Trainer, pl_module: TrainModule, stage: str) -> None:
        """Called last."""

    def on_fit_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Called when `fit` begins, after `configure_optimizers`."""

    def on_fit_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Called when `fit` ends."""

    def on_train_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Called before the first epoch."""

    def on_train_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Called after the last epoch."""

    def on_train_epoch_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Called before the batches of an epoch (also when one is continued in its middle)."""

    def on_train_epoch_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Called after the batches of an epoch, and its validation."""

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: TrainModule, batch: Any, batch_idx: int
    ) -> Any:
        """Called before a batch; -1 skips the rest of the epoch."""

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: TrainModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Called after a batch; `outputs` is what `training_step` returned."""

    def on_validation_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Called when a validation begins."""

    def on_validation_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Called when a validation ends."""

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Called before the batches of a validation."""

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Called after the batches of a validation."""

    def on_validation_batch_start(
        self,
        trainer: Trainer,
        pl_module: TrainModule,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Called before a batch of a validation."""

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: TrainModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Called after a batch of a validation."""

    def on_test_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Called when a test begins."""

    def on_test_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Called when a test ends."""

    def on_test_epoch_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Called before the batches of a test."""

    def on_test_epoch_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Called after the batches of a test."""

    def on_test_batch_start(
        self,
        trainer: Trainer,
        pl_module: TrainModule,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Called before a batch of a test."""

    def on_test_batch_end(
        self,
        trainer: Trainer,
        pl_module: TrainModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Called after a batch of a test."""

    def on_predict_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Called when a prediction begins."""

    def on_predict_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Called when a prediction ends."""

    def on_predict_epoch_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Called before the batches of a prediction."""

    def on_predict_epoch_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Called after the batches of a prediction."""

    def on_predict_batch_start(
        self,
        trainer: Trainer,
        pl_module: TrainModule,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Called before a batch of a prediction."""

    def on_predict_batch_end(
        self,
        trainer: Trainer,
        pl_module: TrainModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Called after a batch of a prediction."""

    def on_before_zero_grad(
        self, trainer: Trainer, pl_module: TrainModule, optimizer: Optimizer
    ) -> None:
        """Called before the gradients of the last step are cleared."""

    def on_before_backward(self, trainer: Trainer, pl_module: TrainModule, loss: Tensor) -> None:
        """Called before the gradients of a loss are computed."""

    def on_after_backward(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Called when the gradients are computed (a GradScaler may have scaled them)."""

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: TrainModule, optimizer: Optimizer
    ) -> None:
        """Called before an optimizer step; gradients are complete and unscaled."""

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: TrainModule, checkpoint: dict[str, Any]
    ) -> None:
        """Add data of your own to a checkpoint that is being saved."""

    def on_load_checkpoint(
        self, trainer: Trainer, pl_module: TrainModule, checkpoint: dict[str, Any]
    ) -> None:
        """Restore from a checkpoint the data that `on_save_checkpoint` added."""

    def on_sanity_check_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Called before the few batches of validation with which `fit` begins."""

    def on_sanity_check_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Called after the few batches of validation with which `fit` begins."""

    def on_exception(
        self, trainer: Trainer, pl_module: TrainModule, exception: BaseException
    ) -> None:
        """Called when an exception is raised, also by an interrupt (Ctrl-C)."""
