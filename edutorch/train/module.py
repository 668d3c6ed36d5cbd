"""`TrainModule`: a model with its training steps and hooks, and `DataModule`: its data."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ..backends.device import Device
from ..core.tensor import Tensor
from ..nn import Module
from ..nn.utils import clip_grad_norm_, clip_grad_value_
from ..optim import Optimizer
from ..serialization import load
from .errors import TrainError, check_choice

if TYPE_CHECKING:
    from .trainer import Trainer

__all__ = ["DataModule", "ModuleHooks", "TrainModule"]


class ModuleHooks:
    """Every hook of a module, in the order in which they are called.

    A hook that is not overridden does nothing. `Callback` has the same hooks, with the trainer and
    the module as further arguments.
    """

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

    def on_before_zero_grad(self, optimizer: Optimizer) -> None:
        """Called before the gradients of the last step are cleared."""

    def on_before_backward(self, loss: Tensor) -> None:
        """Called before the gradients of a loss are computed."""

    def on_after_backward(self) -> None:
        """Called when the gradients are computed (a GradScaler may have scaled them)."""

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Called before an optimizer step; gradients are complete and unscaled."""

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add data of your own to a checkpoint that is being saved."""

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore from a checkpoint the data that `on_save_checkpoint` added."""


class TrainModule(ModuleHooks, Module):
    """A module with its loss and its optimizer. `Trainer.fit` does the rest.

    Override `training_step` and `configure_optimizers`, and the other hooks that you need.

    >>> class Line(TrainModule):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = nn.Linear(1, 1)
    ...     def training_step(self, batch, batch_idx):
    ...         x, y = batch
    ...         loss = nn.functional.mse_loss(self.layer(x), y)
    ...         self.log("loss", loss)
    ...         return loss
    ...     def configure_optimizers(self):
    ...         return optim.SGD(self.parameters(), lr=0.1)
    """

    automatic_optimization = True
    """False: `training_step` itself calls `manual_backward` and steps its `optimizers()`."""

    _trainer: Trainer | None = None

    # What a user writes -------------------------------------------------------------------

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        """Return the loss of a batch: a tensor, a dict with "loss", or None to skip it."""
        raise missing_method_error(self, "training_step(self, batch, batch_idx)")

    def validation_step(self, batch: Any, batch_idx: int) -> Any:
        """Evaluate a batch of the validation data, and `self.log` the results."""
        raise missing_method_error(self, "validation_step(self, batch, batch_idx)")

    def test_step(self, batch: Any, batch_idx: int) -> Any:
        """Evaluate a batch of the test data, and `self.log` the results."""
        raise missing_method_error(self, "test_step(self, batch, batch_idx)")

    def predict_step(self, batch: Any, batch_idx: int) -> Any:
        """Return the model's prediction for a batch; by default for its first part."""
        return self(batch[0] if isinstance(batch, list | tuple) else batch)

    def configure_optimizers(self) -> Any:
        """Return the optimizers and learning rate schedulers.

        An optimizer; or ([optimizers], [schedulers]); or {"optimizer": …, "lr_scheduler": …},
        where the scheduler may be {"scheduler": …, "interval": "epoch" or "step",
        "frequency": 1, "monitor": the name of a logged value}.
        """
        raise missing_method_error(self, "configure_optimizers(self)")

    def configure_gradient_clipping(
        self,
        optimizer: Optimizer,
        gradient_clip_val: float | None,
        gradient_clip_algorithm: str | None,
    ) -> None:
        """Clip the gradients before a step; override it for another kind of clipping."""
        self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)

    # What a user calls --------------------------------------------------------------------

    def log(
        self, name: str, value: Any, prog_bar: bool = False, logger: bool = True,
        on_step: bool | None = None, on_epoch: bool | None = None, reduce_fx: str = "mean",
        batch_size: int | None = None, **ignored: Any,
    ) -> None:  # fmt: skip
        """Log a number under a name: for the curves, the progress bar and the callbacks.

        Args:
            value: a number, a tensor of one number, or a metric.
            prog_bar, logger: show it in the progress bar, pass it to the logger.
            on_step, on_epoch: log the value of each step, of the epoch. By default each step in
                `training_step`, and the epoch elsewhere.
            reduce_fx: the reduction over an epoch: "mean" (by batch size), "sum", "min" or "max".
            batch_size: the weight of this value; by default the first axis of the batch.
            ignored: settings for several processes, which have no effect.

        Raises: TrainError: nothing can be logged here. StepOutputError: not a number.
        """
        self.trainer.log(
            name, value, batch_size, prog_bar=prog_bar, logger=logger, on_step=on_step,
            on_epoch=on_epoch, reduce_fx=reduce_fx,
        )  # fmt: skip

    def log_dict(self, dictionary: Any, **settings: Any) -> None:
        """Log several values by name, with the same settings."""
        for name, value in dictionary.items():
            self.log(name, value, **settings)

    def manual_backward(self, loss: Tensor, **settings: Any) -> None:
        """Compute the gradients of a loss in `training_step`, without automatic optimization."""
        self.trainer.precision.backward(loss, **settings)

    def optimizers(self) -> Any:
        """Return the optimizer, or a list of them; their steps are counted."""
        optimizers = self.trainer.stepping_optimizers
        return optimizers[0] if len(optimizers) == 1 else optimizers

    def lr_schedulers(self) -> Any:
        """Return the scheduler, a list of them, or None."""
        schedulers = [
            lr_scheduler_config.scheduler
            for lr_scheduler_config in self.trainer.lr_scheduler_configs
        ]
        return schedulers[0] if len(schedulers) == 1 else schedulers or None

    def clip_gradients(
        self, optimizer: Optimizer, gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:  # fmt: skip
        """Clip the gradients of an optimizer's parameters: by their total "norm", or by "value"."""
        if gradient_clip_val is None:
            return
        algorithm = gradient_clip_algorithm or "norm"
        check_choice("clip_gradients", "gradient_clip_algorithm", algorithm, ("norm", "value"))
        groups = optimizer.param_groups
        parameters = [parameter for group in groups for parameter in group["params"]]
        clip: Any = clip_grad_norm_ if algorithm == "norm" else clip_grad_value_
        clip(parameters, gradient_clip_val)

    def print(self, *args: Any, **kwargs: Any) -> None:
        """Print without breaking the progress bar."""
        self.trainer.print(*args, **kwargs)

    # Where it is --------------------------------------------------------------------------

    @property
    def trainer(self) -> Trainer:
        """The trainer that runs this module."""
        if self._trainer is None:
            raise TrainError(
                type(self).__name__, "it is not being trained: there is no trainer",
                hint="Trainer(...).fit(module, loader) runs its steps",
            )  # fmt: skip
        return self._trainer

    @property
    def current_epoch(self) -> int:
        """The number of finished epochs."""
        return 0 if self._trainer is None else self._trainer.current_epoch

    @property
    def global_step(self) -> int:
        """The number of optimizer steps."""
        return 0 if self._trainer is None else self._trainer.global_step

    @property
    def logger(self) -> Any:
        """The trainer's first logger, or None."""
        return self.trainer.logger

    @property
    def device(self) -> Device:
        """The device of the parameters."""
        first = next(self.parameters(), None)
        return Device("cpu") if first is None else first.device

    # Settings -----------------------------------------------------------------------------

    def save_hyperparameters(self, *names: str) -> None:
        """Save the arguments of `__init__` in `self.hparams`, and in every checkpoint.

        Call it in `__init__`. `load_from_checkpoint` creates the module with them.

        Args:
            names: the arguments to save; by default all.
        """
        caller = inspect.currentframe()
        caller = None if caller is None else caller.f_back
        assert caller is not None
        arguments = inspect.getargvalues(caller)
        values = {name: arguments.locals[name] for name in arguments.args[1:]}
        values |= arguments.locals.get(arguments.keywords or "", {})
        object.__setattr__(
            self, "_hparams", {name: values[name] for name in names or values if name in values}
        )

    @property
    def hparams(self) -> dict[str, Any]:
        """The arguments that `save_hyperparameters` has saved."""
        return self.__dict__.get("_hparams", {})

    @classmethod
    def load_from_checkpoint(
        cls, checkpoint_path: Any, map_location: Any = None, strict: bool = True, **kwargs: Any
    ) -> Any:
        """Create the module from a checkpoint of the trainer.

        Args:
            checkpoint_path: the file.
            kwargs: arguments of `__init__` that override the saved ones.
        """
        checkpoint = load(checkpoint_path, map_location)
        module = cls(**{**checkpoint.get("hyper_parameters", {}), **kwargs})
        module.on_load_checkpoint(checkpoint)
        module.load_state_dict(checkpoint["state_dict"], strict)
        return module


class DataModule:
    """Data sets and their loaders: `trainer.fit(model, datamodule=data)`."""

    def prepare_data(self) -> None:
        """Download or prepare the data once, before `setup`."""

    def setup(self, stage: str) -> None:
        """Create the data sets for a stage: "fit", "validate", "test" or "predict"."""

    def teardown(self, stage: str) -> None:
        """Release the resources of `setup`."""

    def train_dataloader(self) -> Any:
        """Return the loader of the training data."""

    def val_dataloader(self) -> Any:
        """Return the loader of the validation data, or a list of loaders."""

    def test_dataloader(self) -> Any:
        """Return the loader of the test data, or a list of loaders."""

    def predict_dataloader(self) -> Any:
        """Return the loader of the data to predict, or a list of loaders."""


def missing_method_error(module: TrainModule, signature: str) -> TrainError:
    name = type(module).__name__
    return TrainError(name, f"it has no {signature.partition('(')[0]}", hint=f"def {signature}: …")


def has_method(module: Any, name: str) -> bool:
    """Whether a module overrides a method."""
    return getattr(type(module), name, None) is not getattr(TrainModule, name, None)
