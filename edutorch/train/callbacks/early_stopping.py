"""Early stopping: ends training when a monitored value no longer improves."""

from __future__ import annotations

import math
from typing import Any

from ..errors import check_at_least
from .monitor import Monitor, check_positive

__all__ = ["EarlyStopping"]


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

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Check the value if nothing is validated."""
        if self.on_epochs or (self.on_epochs is None and not trainer.can_validate()):
            self.look(trainer)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Check the value after a validation during training."""
        if trainer.state == "fit" and not trainer.sanity_checking and not self.on_epochs:
            self.look(trainer)

    def look(self, trainer: Any) -> None:
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
