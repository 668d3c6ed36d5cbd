"""Callbacks that watch a logged value: early stopping, and checkpoints of the best models."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import SettingError, check_at_least, check_choice, missing_monitor_error
from .base import Callback

if TYPE_CHECKING:
    from ..module import TrainModule
    from ..trainer import Trainer


__all__ = ["EarlyStopping", "ModelCheckpoint", "Monitor"]


class Monitor(Callback):
    """A callback that monitors a logged value.

    Args:
        monitor: the name of the value.
        mode: "min": lower is better; "max": higher is better.
    """

    monitors = True

    def __init__(self, monitor: str | None, mode: str) -> None:
        check_choice(type(self).__name__, "mode", mode, ("min", "max"))
        self.monitor, self.mode = monitor, mode

    @property
    def state_key(self) -> str:
        """The key of the state in a checkpoint, different for each monitored value."""
        return f"{type(self).__name__}(monitor={self.monitor!r}, mode={self.mode!r})"

    @property
    def worst(self) -> float:
        """The worst possible value."""
        return math.inf if self.mode == "min" else -math.inf

    def is_better(self, value: float, than: float, by: float = 0.0) -> bool:
        """Whether a value is better than another one by more than `by`."""
        return value < than - by if self.mode == "min" else value > than + by

    def value(self, trainer: Trainer) -> float | None:
        """Return the newest value.

        Raises: MonitorError: it was never logged; the message lists the logged names.
        """
        newest = trainer.values.get(self.monitor or "")
        if newest is None:
            raise missing_monitor_error(type(self).__name__, self.monitor, trainer.values)
        return newest


def check_positive(who: str, name: str, value: float | None) -> None:
    """Raise SettingError if a value is negative; None is allowed."""
    if value is not None and not value >= 0:
        raise SettingError(who, f"{name} must not be negative, got {value!r}")


class EarlyStopping(Monitor):
    """Ends training when a logged value has not improved for some time.

    It checks after each validation, or after each epoch without a validation.

    Args:
        monitor: the name of the value.
        min_delta: the least change that counts as an improvement.
        patience: the number of checks without an improvement before training ends.
        mode: "min": lower is better; "max": higher is better.
        strict: raise an error if the value was never logged.
        check_finite: stop when the value is NaN or infinite.
        stopping_threshold: stop when the value is better than this.
        divergence_threshold: stop when the value is worse than this.
        check_on_train_epoch_end: check after each training epoch, True or False.
        verbose: print why training ends.
    """

    def __init__(
        self, monitor: str, min_delta: float = 0.0, patience: int = 3, verbose: bool = False,
        mode: str = "min", strict: bool = True, check_finite: bool = True,
        stopping_threshold: float | None = None, divergence_threshold: float | None = None,
        check_on_train_epoch_end: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(monitor, mode)
        check_at_least("EarlyStopping", "patience", patience, 0)
        check_positive("EarlyStopping", "min_delta", min_delta)
        self.min_delta, self.patience, self.verbose = min_delta, patience, verbose
        self.strict, self.check_finite = strict, check_finite
        self.stopping_threshold = stopping_threshold
        self.divergence_threshold = divergence_threshold
        self.on_epochs = check_on_train_epoch_end
        self.wait_count = 0
        self.stopped_epoch = 0
        self.best_score = self.worst
        self.reason = ""

    def on_train_epoch_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Check the value if nothing is validated."""
        if self.on_epochs or (self.on_epochs is None and not trainer.can_validate()):
            self.look(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Check the value after a validation during training."""
        if trainer.state == "fit" and not trainer.sanity_checking and not self.on_epochs:
            self.look(trainer)

    def look(self, trainer: Trainer) -> None:
        """Compare the newest value with the best one, and stop training if it is due."""
        if not self.strict and self.monitor not in trainer.values:
            return
        value = self.value(trainer)
        assert value is not None
        self.reason = self.stop_reason(value)
        if self.reason:
            trainer.should_stop = True
            self.stopped_epoch = trainer.current_epoch
            if self.verbose:
                trainer.print(f"EarlyStopping: {self.reason}")

    def stop_reason(self, value: float) -> str:
        """Return the reason to stop training, or ""."""
        name = f"{self.monitor} = {value:.6g}"
        if self.check_finite and not math.isfinite(value):
            return f"{name} is not finite; the best was {self.best_score:.6g}"
        limit, worst = self.stopping_threshold, self.divergence_threshold
        if limit is not None and self.is_better(value, limit):
            return f"{name} is better than stopping_threshold={limit}"
        if worst is not None and self.is_better(worst, value):
            return f"{name} is worse than divergence_threshold={worst}"
        if self.is_better(value, self.best_score, self.min_delta):
            self.best_score, self.wait_count = value, 0
            return ""
        self.wait_count += 1
        if self.wait_count >= self.patience:
            return (
                f"{self.monitor} was not better than {self.best_score:.6g} {self.wait_count} times"
            )
        return ""

    def state_dict(self) -> dict[str, Any]:
        """Return the counters and the best value."""
        names = ("wait_count", "stopped_epoch", "best_score", "patience")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the counters and the best value."""
        self.wait_count, self.stopped_epoch = state_dict["wait_count"], state_dict["stopped_epoch"]
        self.best_score = state_dict["best_score"]


class ModelCheckpoint(Monitor):
    """Saves checkpoints during training, and deletes those that are no longer among the best.

    It saves after each validation (or each epoch without a validation), or every few steps.

    Args:
        dirpath: the folder; by default "checkpoints" in the folder of the logs.
        filename: a template for file names with logged values: "{epoch}-{val_loss:.2f}".
        monitor: the logged value that ranks checkpoints; None keeps the newest.
        mode: "min": lower is better; "max": higher is better.
        save_top_k: the number of best checkpoints to keep; -1 all, 0 none.
        save_last: also save "last.ckpt", a copy of the newest.
        every_n_train_steps: save every n optimizer steps, instead of after epochs.
        every_n_epochs: save after every n epochs.
        save_on_train_epoch_end: save after the epoch, even if there is a validation.
        save_weights_only: leave out what is only needed to resume training.
        auto_insert_metric_name: write "epoch=3" for "{epoch}" in the template.
    """

    FILE_EXTENSION = ".ckpt"
    CHECKPOINT_NAME_LAST = "last"

    def __init__(
        self, dirpath: str | os.PathLike[str] | None = None, filename: str | None = None,
        monitor: str | None = None, verbose: bool = False, save_last: bool = False,
        save_top_k: int = 1, save_weights_only: bool = False, mode: str = "min",
        auto_insert_metric_name: bool = True, every_n_train_steps: int | None = None,
        every_n_epochs: int | None = None, save_on_train_epoch_end: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(monitor, mode)
        check_at_least("ModelCheckpoint", "save_top_k", save_top_k, -1)
        if monitor is None and save_top_k not in (-1, 0, 1):
            raise SettingError(
                "ModelCheckpoint", f"save_top_k={save_top_k} needs to know what is best",
                hint='monitor="val_loss"; without it only -1, 0 and 1 make sense',
            )  # fmt: skip
        if every_n_train_steps and every_n_epochs:
            raise SettingError(
                "ModelCheckpoint", "every_n_train_steps and every_n_epochs exclude each other",
                hint="use two ModelCheckpoints",
            )  # fmt: skip
        self.dirpath = None if dirpath is None else os.fspath(dirpath)
        self.filename, self.verbose = filename or "{epoch}-{step}", verbose
        self.save_last, self.save_top_k = save_last, save_top_k
        self.save_weights_only, self.insert_names = save_weights_only, auto_insert_metric_name
        self.every_n_train_steps = every_n_train_steps or 0
        self.every_n_epochs = 0 if self.every_n_train_steps else every_n_epochs or 1
        self.behind_epoch = save_on_train_epoch_end
        self.best_k_models: dict[str, float] = {}
        self.best_model_path = self.last_model_path = ""
        self.best_model_score: float | None = None
        self._last_step = -1

    @property
    def state_key(self) -> str:
        """The key of the state in a checkpoint."""
        return f"{super().state_key[:-1]}, every_n_train_steps={self.every_n_train_steps})"

    # When ---------------------------------------------------------------------------------

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: TrainModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save after every `every_n_train_steps` steps."""
        every = self.every_n_train_steps
        if every and trainer.global_step % every == 0 and trainer.global_step != self._last_step:
            self.save(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Save after a validation during training."""
        if trainer.state == "fit" and not trainer.sanity_checking and not self.behind_epoch:
            self.save_in_epoch(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Save after an epoch without a validation."""
        validates = trainer.can_validate() and self.behind_epoch is not False
        if self.behind_epoch or (self.behind_epoch is None and not validates):
            self.save_in_epoch(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Save the end of a training that stopped in the middle of an epoch, without monitor."""
        if self.monitor is None and trainer.global_step != self._last_step:
            self.save(trainer)

    def save_in_epoch(self, trainer: Trainer) -> None:
        """Save if the epoch is due and these weights have not been saved yet."""
        every = self.every_n_epochs
        fresh = trainer.global_step != self._last_step
        if every and (trainer.current_epoch + 1) % every == 0 and fresh:
            self.save(trainer)

    # What ---------------------------------------------------------------------------------

    def save(self, trainer: Trainer) -> None:
        """Save the checkpoint if it is among the best, and as the last one."""
        if not (self.save_top_k or self.save_last):
            return
        score = 0.0 if self.monitor is None else self.value(trainer)
        assert score is not None
        self._last_step = trainer.global_step
        folder = Path(self.dirpath or Path(trainer.log_dir, "checkpoints"))
        folder.mkdir(parents=True, exist_ok=True)
        self.dirpath = str(folder)
        if self.save_top_k and self.is_among_best(score):
            path = self.free_path(folder, trainer)
            removed = self.enter(path, score)
            trainer.save_checkpoint(path, self.save_weights_only)
            if self.verbose:
                trainer.print(f"ModelCheckpoint: {path}")
            for old in removed:
                Path(old).unlink(missing_ok=True)
        if self.save_last:
            last = str(folder / f"{self.CHECKPOINT_NAME_LAST}{self.FILE_EXTENSION}")
            self.last_model_path = last
            trainer.save_checkpoint(last, self.save_weights_only)

    def is_among_best(self, score: float) -> bool:
        """Whether a score is among the best ones."""
        full = self.save_top_k != -1 and len(self.best_k_models) >= self.save_top_k
        if self.monitor is None or not full:
            return True
        return self.is_better(score, self.best_k_models[self.worst_path()])

    def worst_path(self) -> str:
        """Return the file with the worst score; among equal ones the oldest."""
        choose = max if self.mode == "min" else min
        return choose(self.best_k_models, key=lambda path: self.best_k_models[path])

    def enter(self, path: str, score: float) -> list[str]:
        """Add a file to the best ones; return the files that are no longer among them."""
        removed = []
        if self.save_top_k != -1 and len(self.best_k_models) >= self.save_top_k:
            removed.append(self.worst_path())
            del self.best_k_models[removed[0]]
        self.best_k_models[path] = score
        if self.monitor is None:
            self.best_model_path = path
        elif self.best_model_score is None or self.is_better(score, self.best_model_score):
            self.best_model_path, self.best_model_score = path, score
        return removed

    def free_path(self, folder: Path, trainer: Trainer) -> str:
        """Return an unused file name: the template, with a version if necessary."""
        name = self.format_checkpoint_name(
            {**trainer.values, "epoch": trainer.current_epoch, "step": trainer.global_step}
        )
        path, version = folder / f"{name}{self.FILE_EXTENSION}", 1
        while path.exists():
            path = folder / f"{name}-v{version}{self.FILE_EXTENSION}"
            version += 1
        return str(path)

    def format_checkpoint_name(self, metrics: dict[str, Any]) -> str:
        """Return the file name of a template like "{epoch:02d}-{val_loss:.2f}".

        A name that was not logged becomes 0.

        Raises: SettingError: the template is invalid.

        >>> callback = ModelCheckpoint(filename="{epoch:02d}-{val_loss:.2f}")
        >>> callback.format_checkpoint_name({"epoch": 3, "val_loss": 0.128})
        'epoch=03-val_loss=0.13'
        """

        def filled(match: re.Match[str]) -> str:
            name, spec = match[1], match[2]
            try:
                text = format(metrics.get(name, 0), spec)
            except ValueError as error:
                raise SettingError(
                    "ModelCheckpoint", f"filename={self.filename!r} cannot be filled in: {error}",
                    {name: metrics.get(name, 0)},
                ) from error  # fmt: skip
            return f"{name}={text}" if self.insert_names else text

        return re.sub(r"\{([^:{}]+):?([^{}]*)\}", filled, self.filename).replace("/", "_")

    # State --------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the saved files with their scores."""
        names = ("best_model_path", "best_model_score", "last_model_path", "best_k_models",
                 "_last_step", "dirpath")  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the files, if checkpoints are still saved in the same folder."""
        self._last_step = state_dict["_last_step"]
        if self.dirpath is None or self.dirpath == state_dict["dirpath"]:
            for name, value in state_dict.items():
                setattr(self, name, value)
