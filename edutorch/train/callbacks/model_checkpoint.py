"""Keep the best checkpoints, and the last one."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from ..errors import SettingError, check_at_least
from .monitor import Monitor

__all__ = ["ModelCheckpoint"]


class ModelCheckpoint(Monitor):
    """Saves checkpoints while training, and removes those that are no longer wanted.

    It saves behind each validation (behind each epoch where nothing is validated), or every
    so many steps.

    Args:
        dirpath: the folder; by default "checkpoints" in the folder of the logs.
        filename: how files are named, with logged values: "{epoch}-{val_loss:.2f}".
        monitor: the logged value that says which are the best; None keeps the newest.
        mode: "min": lower is better; "max": higher is better.
        save_top_k: how many of the best are kept; -1 all, 0 none.
        save_last: also keep "last.ckpt", a copy of the newest.
        every_n_train_steps: save every so many optimizer steps, instead of behind epochs.
        every_n_epochs: save behind every so many epochs.
        save_on_train_epoch_end: save behind the epoch, also if something is validated.
        save_weights_only: leave out what only continuing needs.
        auto_insert_metric_name: write "epoch=3" where the template says "{epoch}".
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
        """The name in checkpoints."""
        return f"{super().state_key[:-1]}, every_n_train_steps={self.every_n_train_steps})"

    # When ---------------------------------------------------------------------------------

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save if so many steps have been taken."""
        every = self.every_n_train_steps
        if every and trainer.global_step % every == 0 and trainer.global_step != self._last_step:
            self.save(trainer)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Save behind a validation during training."""
        if trainer.state == "fit" and not trainer.sanity_checking and not self.behind_epoch:
            self.save_in_epoch(trainer)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Save behind an epoch in which nothing is validated."""
        validates = trainer.can_validate() and self.behind_epoch is not False
        if self.behind_epoch or (self.behind_epoch is None and not validates):
            self.save_in_epoch(trainer)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Save what training ended with in the middle of an epoch, if nothing else decides."""
        if self.monitor is None and trainer.global_step != self._last_step and self.wanted():
            self.save(trainer)

    def save_in_epoch(self, trainer: Any) -> None:
        """Save, if it is the right epoch and these weights have not been saved yet."""
        every = self.every_n_epochs
        fresh = trainer.global_step != self._last_step
        if every and (trainer.current_epoch + 1) % every == 0 and fresh:
            self.save(trainer)

    def wanted(self) -> bool:
        """Say whether anything is to be saved at all."""
        return self.save_top_k != 0 or self.save_last

    # What ---------------------------------------------------------------------------------

    def save(self, trainer: Any) -> None:
        """Save if it is among the best, and as the last one."""
        if not self.wanted():
            return
        score = 0.0 if self.monitor is None else self.value(trainer)
        assert score is not None
        self._last_step = trainer.global_step
        folder = Path(self.dirpath or Path(trainer.log_dir, "checkpoints"))
        folder.mkdir(parents=True, exist_ok=True)
        self.dirpath = str(folder)
        if self.save_top_k and self.among_best(score):
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

    def among_best(self, score: float) -> bool:
        """Say whether a score is good enough to be kept."""
        full = self.save_top_k != -1 and len(self.best_k_models) >= self.save_top_k
        if self.monitor is None or not full:
            return True
        return self.better(score, self.best_k_models[self.worst_path()])

    def worst_path(self) -> str:
        """Return the file with the worst score; of equal ones the oldest."""
        choose = max if self.mode == "min" else min
        return choose(self.best_k_models, key=lambda path: self.best_k_models[path])

    def enter(self, path: str, score: float) -> list[str]:
        """Put a file into the list of the best; return those that fall out of it."""
        removed = []
        if self.save_top_k != -1 and len(self.best_k_models) >= self.save_top_k:
            removed.append(self.worst_path())
            del self.best_k_models[removed[0]]
        self.best_k_models[path] = score
        if self.monitor is None:
            self.best_model_path = path
        elif self.best_model_score is None or self.better(score, self.best_model_score):
            self.best_model_path, self.best_model_score = path, score
        return removed

    def free_path(self, folder: Path, trainer: Any) -> str:
        """Return a file name that is not taken: the template, with a version if need be."""
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

        Raises: SettingError: the template is not one. A name that was not logged becomes 0.

        >>> callback = ModelCheckpoint(filename="{epoch:02d}-{val_loss:.2f}")
        >>> callback.format_checkpoint_name({"epoch": 3, "val_loss": 0.128})
        'epoch=03-val_loss=0.13'
        """

        def filled(found: re.Match[str]) -> str:
            name, spec = found[1], found[2]
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
        """Return which files there are, and how good they are."""
        names = ("best_model_path", "best_model_score", "last_model_path", "best_k_models",
                 "_last_step", "dirpath")  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on with these files, if checkpoints still go into the same folder."""
        self._last_step = state_dict["_last_step"]
        if self.dirpath is None or self.dirpath == state_dict["dirpath"]:
            for name, value in state_dict.items():
                setattr(self, name, value)
