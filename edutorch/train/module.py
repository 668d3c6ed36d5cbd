"""A model together with how it is trained: what a user writes, and the trainer runs."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ..backends.device import Device
from ..core.tensor import Tensor
from ..nn import Module
from ..nn.utils import clip_grad_norm_, clip_grad_value_
from ..serialization import load
from .errors import TrainError, check_choice
from .hooks import ModuleHooks

if TYPE_CHECKING:
    from .trainer import Trainer

__all__ = ["DataModule", "TrainModule"]


class TrainModule(ModuleHooks, Module):
    """A module that knows its loss and its optimizer. `Trainer.fit` does the rest.

    Write `training_step` and `configure_optimizers`, and what else you need.

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
        raise missing(self, "training_step(self, batch, batch_idx)")

    def validation_step(self, batch: Any, batch_idx: int) -> Any:
        """Look at a batch that is not trained on: `self.log` what you find."""
        raise missing(self, "validation_step(self, batch, batch_idx)")

    def test_step(self, batch: Any, batch_idx: int) -> Any:
        """Look at a batch of the last, untouched data: `self.log` what you find."""
        raise missing(self, "test_step(self, batch, batch_idx)")

    def predict_step(self, batch: Any, batch_idx: int) -> Any:
        """Return what the model makes of a batch; by default of its first part."""
        return self(batch[0] if isinstance(batch, list | tuple) else batch)

    def configure_optimizers(self) -> Any:
        """Return what trains the model.

        An optimizer; or ([optimizers], [schedulers]); or {"optimizer": …, "lr_scheduler": …},
        where the scheduler may be {"scheduler": …, "interval": "epoch" or "step",
        "frequency": 1, "monitor": the name of a logged value}.
        """
        raise missing(self, "configure_optimizers(self)")

    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: float | None, gradient_clip_algorithm: str | None
    ) -> None:
        """Keep gradients small before a step; override it to do so in another way."""
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
            prog_bar, logger: show it in the progress bar, hand it to the logger.
            on_step, on_epoch: each step's value, the epoch's value. By default each step's in
                `training_step`, and the epoch's elsewhere.
            reduce_fx: how steps make an epoch: "mean" (by batch size), "sum", "min" or "max".
            batch_size: the weight of this value; by default the first axis of the batch.
            ignored: settings of several processes.

        Raises: TrainError: nothing can be logged here. StepOutputError: not a number.
        """
        self.trainer.log(
            name, value, batch_size, prog_bar=prog_bar, logger=logger, on_step=on_step,
            on_epoch=on_epoch, reduce_fx=reduce_fx,
        )  # fmt: skip

    def log_dict(self, dictionary: Any, **settings: Any) -> None:
        """Log several values by name, all with the same settings."""
        for name, value in dictionary.items():
            self.log(name, value, **settings)

    def manual_backward(self, loss: Tensor, **settings: Any) -> None:
        """Compute the gradients of a loss in `training_step`, without automatic optimization."""
        self.trainer.precision.backward(loss, **settings)

    def optimizers(self) -> Any:
        """Return the optimizer, or a list of them; their steps are counted."""
        found = self.trainer.stepping_optimizers
        return found[0] if len(found) == 1 else found

    def lr_schedulers(self) -> Any:
        """Return the scheduler, a list of them, or None."""
        found = [
            lr_scheduler_config.scheduler
            for lr_scheduler_config in self.trainer.lr_scheduler_configs
        ]
        return found[0] if len(found) == 1 else found or None

    def clip_gradients(
        self, optimizer: Any, gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:  # fmt: skip
        """Clip what an optimizer trains: the norm of all gradients, or each "value"."""
        if gradient_clip_val is None:
            return
        algorithm = gradient_clip_algorithm or "norm"
        check_choice("clip_gradients", "gradient_clip_algorithm", algorithm, ("norm", "value"))
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        clip: Any = clip_grad_norm_ if algorithm == "norm" else clip_grad_value_
        clip(parameters, gradient_clip_val)

    def print(self, *args: Any, **kwargs: Any) -> None:
        """Print without tearing the progress bar."""
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
        """How many epochs have ended."""
        return 0 if self._trainer is None else self._trainer.current_epoch

    @property
    def global_step(self) -> int:
        """How many steps the optimizers have taken."""
        return 0 if self._trainer is None else self._trainer.global_step

    @property
    def logger(self) -> Any:
        """The trainer's first logger, or None."""
        return self.trainer.logger

    @property
    def device(self) -> Device:
        """Where the parameters are."""
        first = next(self.parameters(), None)
        return Device("cpu") if first is None else first.device

    # Settings -----------------------------------------------------------------------------

    def save_hyperparameters(self, *names: str) -> None:
        """Keep the arguments of `__init__` in `self.hparams`, and in every checkpoint.

        Call it in `__init__`. `load_from_checkpoint` makes the module again with them.

        Args:
            names: those to keep; by default all.
        """
        caller = inspect.currentframe()
        caller = None if caller is None else caller.f_back
        assert caller is not None
        found = inspect.getargvalues(caller)
        values = {name: found.locals[name] for name in found.args[1:]}
        values |= found.locals.get(found.keywords or "", {})
        object.__setattr__(
            self, "_hparams", {name: values[name] for name in names or values if name in values}
        )

    @property
    def hparams(self) -> dict[str, Any]:
        """What `save_hyperparameters` has kept."""
        return self.__dict__.get("_hparams", {})

    @classmethod
    def load_from_checkpoint(
        cls, checkpoint_path: Any, map_location: Any = None, strict: bool = True, **kwargs: Any
    ) -> Any:
        """Make the module that a checkpoint of the trainer was saved from.

        Args:
            checkpoint_path: the file.
            kwargs: arguments of `__init__`, instead of those that were kept.
        """
        checkpoint = load(checkpoint_path, map_location)
        made = cls(**{**checkpoint.get("hyper_parameters", {}), **kwargs})
        made.on_load_checkpoint(checkpoint)
        made.load_state_dict(checkpoint["state_dict"], strict)
        return made


class DataModule:
    """Data sets and how they are loaded, in one place: `trainer.fit(model, datamodule=data)`."""

    def prepare_data(self) -> None:
        """Get the data once, before `setup`."""

    def setup(self, stage: str) -> None:
        """Make the data sets for a stage: "fit", "validate", "test" or "predict"."""

    def teardown(self, stage: str) -> None:
        """Give back what `setup` took."""

    def train_dataloader(self) -> Any:
        """Return the loader of the batches to train on."""

    def val_dataloader(self) -> Any:
        """Return the loader, or a list of them, for validation."""

    def test_dataloader(self) -> Any:
        """Return the loader, or a list of them, for the test."""

    def predict_dataloader(self) -> Any:
        """Return the loader, or a list of them, of what is to be predicted."""


def missing(module: TrainModule, signature: str) -> TrainError:
    name = type(module).__name__
    return TrainError(name, f"it has no {signature.partition('(')[0]}", hint=f"def {signature}: …")


def has(module: Any, name: str) -> bool:
    """Say whether a user has written this method."""
    return getattr(type(module), name, None) is not getattr(TrainModule, name, None)
