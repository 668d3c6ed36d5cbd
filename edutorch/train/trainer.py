"""The trainer: runs the steps of a module over the batches of loaders; `fit` is one call."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from typing import Any

from .. import cuda
from ..core.tensor import Tensor
from ..errors import warn
from ..nn import Module
from ..ops import tensor
from ..optim import Adam, Optimizer
from ..serialization.safetensors_file import encode_file
from ..settings import use_deterministic_algorithms
from ..utils.atomic_files import write_atomically
from . import checkpoint as checkpoints
from . import fit_loop, module, optimizer_step
from .callbacks import base, monitor, progress, training, tuning
from .callbacks.base import Callback
from .callbacks.monitor import ModelCheckpoint
from .callbacks.progress import ProgressBar
from .errors import TrainError, check_settings, device_type_of
from .loggers import CSVLogger, Logger
from .metrics import Metric
from .module import DataModule, TrainModule
from .optimizer_step import Precision
from .resumable_loader import without_shuffling
from .setup import TrainerSetup

__all__ = ["Trainer", "fit"]


class Trainer(TrainerSetup):
    """Runs the steps of a `TrainModule` over the batches of a loader.

    Args:
        max_epochs, max_steps: when training ends; -1 for never. By default 1000 epochs.
        min_epochs, min_steps: the least length, even if a callback stops training.
        callbacks: `Callback`s; a ModelCheckpoint is added if there is none.
        logger: a `Logger`, several, True for a CSVLogger, False for none.
        accumulate_grad_batches: the number of batches whose gradients accumulate for one step.
        gradient_clip_val, gradient_clip_algorithm: the largest gradient, by "norm" or "value".
        precision: "32", "64", "bf16-mixed" or "16-mixed".
        limit_train_batches, limit_val_batches, limit_test_batches, limit_predict_batches: the
            number of batches to use (1), or the share of them (0.1).
        val_check_interval: validate after so many batches, or after this share of an epoch.
        check_val_every_n_epoch: validate only in every n-th epoch; None counts batches across
            epochs.
        num_sanity_val_steps: validation batches before training, to find errors early.
        fast_dev_run: run only a few batches of everything and write no files, as a trial.
        overfit_batches: train and validate on the same few batches, as a test of learning.
        log_every_n_steps: how often a logger gets the values of steps.
        enable_progress_bar, enable_checkpointing: add these callbacks.
        default_root_dir: the folder for logs and checkpoints.
        deterministic: use deterministic algorithms.
        detect_anomaly: raise at the op that produces a NaN gradient.
        accelerator, devices: "auto", "cpu", "gpu"; one device.

    Raises: SettingError (a ValueError): a setting is invalid.
    """

    def __init__(
        self, *, accelerator: str = "auto", devices: Any = "auto", precision: str | int = "32",
        logger: Any = True, callbacks: Callback | Sequence[Callback] | None = None,
        fast_dev_run: bool | int = False, max_epochs: int | None = None,
        min_epochs: int | None = None, max_steps: int = -1, min_steps: int | None = None,
        limit_train_batches: int | float | None = None,
        limit_val_batches: int | float | None = None, limit_test_batches: int | float | None = None,
        limit_predict_batches: int | float | None = None, overfit_batches: int | float = 0,
        val_check_interval: int | float = 1.0, check_val_every_n_epoch: int | None = 1,
        num_sanity_val_steps: int = 2, log_every_n_steps: int = 50,
        enable_checkpointing: bool = True, enable_progress_bar: bool = True,
        accumulate_grad_batches: int = 1, gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None, deterministic: bool = False,
        detect_anomaly: bool = False, default_root_dir: str | os.PathLike[str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.max_steps, self.min_epochs, self.min_steps = max_steps, min_epochs, min_steps
        self.max_epochs = 1000 if max_epochs is None and max_steps == -1 else max_epochs
        self.limit_train_batches, self.limit_val_batches = limit_train_batches, limit_val_batches
        self.limit_test_batches = limit_test_batches
        self.limit_predict_batches = limit_predict_batches
        self.overfit_batches = overfit_batches
        self.val_check_interval = val_check_interval
        self.check_val_every_n_epoch = check_val_every_n_epoch
        self.num_sanity_val_steps = num_sanity_val_steps
        self.log_every_n_steps = log_every_n_steps
        self.accumulate_grad_batches = accumulate_grad_batches
        self.gradient_clip_val = gradient_clip_val
        self.gradient_clip_algorithm = gradient_clip_algorithm
        self.detect_anomaly = detect_anomaly
        self.fast_dev_run = fast_dev_run
        self.default_root_dir = os.fspath(default_root_dir or ".")
        self.device_type = device_type_of(accelerator, devices, cuda.is_available())
        check_settings(self)
        self.precision = Precision(precision, self.device_type)
        self.should_stop = self.interrupted = False
        self.state = "waiting"
        self._val_loaders: list[Any] = []
        if deterministic:
            use_deterministic_algorithms(True)
        callback_list = [callbacks] if isinstance(callbacks, Callback) else list(callbacks or ())
        self._choose_parts(callback_list, logger, enable_checkpointing, enable_progress_bar)

    def _choose_parts(self, callbacks: list[Callback], logger: Any, saves: bool, bar: bool) -> None:
        """Add the default callbacks and loggers; a trial run writes no files."""
        if self.fast_dev_run:
            batches = int(self.fast_dev_run)
            self.max_epochs, self.max_steps, self.num_sanity_val_steps = 1, batches, 0
            self.limit_train_batches = self.limit_val_batches = batches
            self.limit_test_batches = self.limit_predict_batches = batches
            callbacks = [
                callback for callback in callbacks if not isinstance(callback, ModelCheckpoint)
            ]
            logger = saves = False
        if bar and not any(isinstance(callback, ProgressBar) for callback in callbacks):
            callbacks.append(ProgressBar())
        if saves and not any(isinstance(callback, ModelCheckpoint) for callback in callbacks):
            callbacks.append(ModelCheckpoint())
        self.callbacks = sorted(
            callbacks, key=lambda callback: isinstance(callback, ModelCheckpoint)
        )
        loggers = list(logger) if isinstance(logger, list | tuple) else [logger]
        self.loggers: list[Logger] = [
            CSVLogger(self.default_root_dir) if logger is True else logger
            for logger in loggers if logger not in (False, None)
        ]  # fmt: skip

    # Methods for users --------------------------------------------------------------------

    def fit(
        self, model: TrainModule, train_dataloaders: Any = None, val_dataloaders: Any = None,
        datamodule: DataModule | None = None, ckpt_path: Any = None,
    ) -> None:  # fmt: skip
        """Train a module.

        Args:
            model: the module whose `training_step` is run on each batch.
            train_dataloaders: the loader; by default `model.train_dataloader()`.
            val_dataloaders: one or several loaders for `validation_step`.
            datamodule: an object with the methods of `DataModule`, instead of loaders.
            ckpt_path: a checkpoint from which to resume exactly.

        Raises: TrainError: something is missing. Errors of steps get a note with the batch.
        """
        with self._run_stage(model, datamodule, "fit") as source:
            self.train_loader = self._train_loader(source, train_dataloaders, datamodule)
            self._val_loaders = self._loaders(source, "val", val_dataloaders)
            if self.overfit_batches:
                self.train_loader = without_shuffling(self.train_loader)
                self.limit_train_batches = self.limit_val_batches = self.overfit_batches
                self._val_loaders = [self.train_loader] if self._val_loaders else []
            self._check_steps(model)
            self._make_optimizers(model)
            if ckpt_path is not None:
                checkpoints.restore(self, checkpoints.read(ckpt_path))
                if self.loop.is_over():
                    warn(
                        f"fit: the checkpoint is at epoch {self.loop.epoch}, step "
                        f"{self.global_step}, and max_epochs={self.max_epochs}, "
                        f"max_steps={self.max_steps}: there is nothing left to train"
                    )
            for logger in self.loggers:
                if model.hparams:
                    logger.log_hyperparams(model.hparams)
            self.call("on_fit_start")
            if ckpt_path is None:
                self._sanity_check()
            model.train()
            self.loop.run(self.train_loader)
            self.call("on_fit_end")

    def validate(
        self, model: TrainModule | None = None, dataloaders: Any = None, ckpt_path: Any = None,
        verbose: bool = True, datamodule: DataModule | None = None,
    ) -> list[dict[str, float]]:  # fmt: skip
        """Run `validation_step` on every batch; return the logged values of each loader."""
        return self._evaluate("validate", model, dataloaders, ckpt_path, datamodule, verbose)[0]

    def test(
        self, model: TrainModule | None = None, dataloaders: Any = None, ckpt_path: Any = None,
        verbose: bool = True, datamodule: DataModule | None = None,
    ) -> list[dict[str, float]]:  # fmt: skip
        """Run `test_step` on every batch; return the logged values of each loader.

        Args:
            ckpt_path: a file, "best" or "last": the checkpoint whose weights are tested.
        """
        return self._evaluate("test", model, dataloaders, ckpt_path, datamodule, verbose)[0]

    def predict(
        self, model: TrainModule | None = None, dataloaders: Any = None, ckpt_path: Any = None,
        datamodule: DataModule | None = None,
    ) -> list[Any]:  # fmt: skip
        """Return the outputs of `predict_step` for all batches, for several loaders a list each."""
        outputs = self._evaluate("predict", model, dataloaders, ckpt_path, datamodule, False)[1]
        return outputs[0] if len(outputs) == 1 else outputs

    def save_checkpoint(self, filepath: Any, weights_only: bool = False) -> None:
        """Save everything that `fit(..., ckpt_path=...)` needs to resume exactly.

        It is exact between two batches: in `on_train_batch_end`, `on_validation_end`,
        `on_train_epoch_end`, or after `fit` has returned.
        """
        checkpoint = checkpoints.dump(self, weights_only)
        write_atomically(filepath, encode_file(checkpoint, only_data=True))

    # Properties ---------------------------------------------------------------------------

    @property
    def current_epoch(self) -> int:
        """The number of finished epochs."""
        return self.loop.epoch

    @property
    def global_step(self) -> int:
        """The number of optimizer steps."""
        return self.loop.global_step

    @property
    def callback_metrics(self) -> dict[str, Any]:
        """The newest value of every logged name, as tensors."""
        return {name: tensor(value) for name, value in self.values.items()}

    @property
    def progress_bar_metrics(self) -> dict[str, float]:
        """The newest values logged with `prog_bar=True`."""
        return dict(self.bar_values)

    @property
    def logged_metrics(self) -> dict[str, float]:
        """The newest values passed to the loggers."""
        return dict(self.logged_values)

    @property
    def logger(self) -> Logger | None:
        """The first logger."""
        return self.loggers[0] if self.loggers else None

    @property
    def log_dir(self) -> str:
        """The folder of the first logger that writes files."""
        folders = [logger.log_dir for logger in self.loggers if logger.log_dir]
        return folders[0] if folders else self.default_root_dir

    @property
    def num_training_batches(self) -> int | None:
        """The number of batches per epoch, or None if unknown."""
        return self.loop.length

    @property
    def checkpoint_callback(self) -> ModelCheckpoint | None:
        """The first ModelCheckpoint."""
        return next(
            (callback for callback in self.callbacks if isinstance(callback, ModelCheckpoint)), None
        )


def fit(
    model: Module, loss_fn: Callable[[Any, Any], Tensor], loader: Any, *, epochs: int = 1,
    optimizer: Optimizer | None = None, lr: float = 1e-3, val_loader: Any = None,
    metrics: dict[str, Metric] | None = None, **settings: Any,
) -> dict[str, list[float]]:  # fmt: skip
    """Train a plain module on batches (inputs, targets); return the curves.

    This is a shorthand for a `TrainModule` whose step is loss_fn(model(inputs), targets), and a
    Trainer that writes no files.

    Args:
        model: the module to train.
        loss_fn: returns the loss of (predictions, targets).
        loader: yields batches (inputs, targets).
        epochs: the number of passes over the loader.
        optimizer: by default Adam with the learning rate `lr`.
        val_loader: yields batches for validation after each epoch.
        metrics: further metrics by name.
        settings: settings of `Trainer`.

    Raises: TrainError: a batch is not made of inputs and targets.

    >>> x = linspace(-1, 1, 8).reshape(8, 1)
    >>> model = nn.Linear(1, 1)
    >>> curves = fit(model, nn.functional.mse_loss, [(x, 2 * x + 1)], epochs=100, lr=0.1,
    ...     enable_progress_bar=False)
    >>> curves["loss"][-1] < curves["loss"][0] / 100
    True
    """
    curves = Curves()
    quiet = {"logger": False, "enable_checkpointing": False, "max_epochs": epochs}
    callbacks = [curves, *settings.pop("callbacks", ())]
    trainer = Trainer(**{**quiet, **settings}, callbacks=callbacks)
    trainer.fit(Supervised(model, loss_fn, optimizer, lr, metrics or {}), loader, val_loader)
    return curves.curves


class Supervised(TrainModule):
    """Wraps a model, a loss and an optimizer as a `TrainModule`."""

    def __init__(
        self, model: Module, loss_fn: Any, optimizer: Any, lr: float, metrics: dict[str, Metric]
    ) -> None:
        super().__init__()
        self.model, self.loss_fn, self.optimizer, self.lr = model, loss_fn, optimizer, lr
        self.measured = {"": metrics, "val_": copy.deepcopy(metrics)}

    def forward(self, inputs: Any) -> Any:
        """Return the output of the model."""
        return self.model(inputs)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Return the loss."""
        return self.look(batch, "")

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        """Log loss and metrics."""
        self.look(batch, "val_")

    def look(self, batch: Any, start: str) -> Tensor:
        """Log the loss and the metrics of a batch, and return the loss."""
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise TrainError(
                "fit", f"a batch has to be (inputs, targets), got {type(batch).__name__}",
                hint="write a TrainModule for other batches",
            )  # fmt: skip
        inputs, targets = batch
        output = self.model(inputs)
        loss = self.loss_fn(output, targets)
        self.log(f"{start}loss", loss, prog_bar=True, on_step=False, on_epoch=True)
        for name, metric in self.measured[start].items():
            metric.update(output, targets)
            self.log(f"{start}{name}", metric, prog_bar=True, on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self) -> Any:
        """Return the given optimizer, or Adam."""
        return self.optimizer or Adam(self.model.parameters(), lr=self.lr)


class Curves(Callback):
    """Collects the values of every epoch."""

    monitors = True

    def __init__(self) -> None:
        self.curves: dict[str, list[float]] = {}

    def on_train_epoch_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Add a point to each curve."""
        for name, value in trainer.values.items():
            self.curves.setdefault(name, []).append(value)


# Their annotations name it: `typing.get_type_hints` looks it up in their globals.
for _user in (
    base, checkpoints, fit_loop, module, monitor, optimizer_step, progress, training, tuning,
):  # fmt: skip
    _user.Trainer = Trainer  # type: ignore[attr-defined]
for _user in (base, monitor, progress, training, tuning):
    _user.TrainModule = TrainModule  # type: ignore[attr-defined]
