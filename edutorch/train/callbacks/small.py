"""Small callbacks: learning rate monitor, timer, gradient accumulation, functions as hooks."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ..errors import SettingError, check_at_least, check_choice
from .base import Callback

__all__ = ["GradientAccumulationScheduler", "LambdaCallback", "LearningRateMonitor", "Timer"]


class LearningRateMonitor(Callback):
    """Logs the learning rate of every group, as "lr-Adam" or by the scheduler's `name`.

    Args:
        logging_interval: "step" or "epoch"; None logs when the scheduler changes it.
        log_momentum: log momentum (or the first beta) too.
    """

    def __init__(self, logging_interval: str | None = None, log_momentum: bool = False) -> None:
        check_choice("LearningRateMonitor", "logging_interval", logging_interval,
                     (None, "step", "epoch"))  # fmt: skip
        self.logging_interval, self.log_momentum = logging_interval, log_momentum
        self.lrs: dict[str, list[float]] = {}

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """Log the rate of this step."""
        if (
            self.logging_interval != "epoch"
            and trainer.global_step % trainer.log_every_n_steps == 0
        ):
            wanted = None if self.logging_interval else "step"
            self.log_rates(trainer, wanted)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Log the rate of this epoch."""
        if self.logging_interval != "step":
            self.log_rates(trainer, None if self.logging_interval else "epoch")

    def log_rates(self, trainer: Any, interval: str | None) -> None:
        """Log the learning rates of all optimizers, or of those with this scheduler interval."""
        configs = {
            id(lr_scheduler_config.scheduler.optimizer): lr_scheduler_config
            for lr_scheduler_config in trainer.lr_scheduler_configs
        }
        rates: dict[str, float] = {}
        for optimizer in trainer.optimizers:
            config = configs.get(id(optimizer))
            if interval and (config.interval if config else "epoch") != interval:
                continue
            name = (config and config.name) or f"lr-{type(optimizer).__name__}"
            groups = optimizer.param_groups
            for index, group in enumerate(groups, 1):
                suffix = f"/pg{index}" if len(groups) > 1 else ""
                rates[f"{free_name(name, rates, suffix)}{suffix}"] = float(group["lr"])
                if self.log_momentum:
                    momentum = group.get("momentum", group.get("betas", (0.0,)))
                    first = momentum[0] if isinstance(momentum, tuple | list) else momentum
                    rates[f"{name}-momentum{suffix}"] = float(first)
        for name, value in rates.items():
            self.lrs.setdefault(name, []).append(value)
        if rates:
            trainer.log_metrics(rates)


def free_name(name: str, taken: dict[str, float], end: str) -> str:
    """Return an unused name: a second Adam is "lr-Adam-1"."""
    free, number = name, 1
    while f"{free}{end}" in taken:
        free, number = f"{name}-{number}", number + 1
    return free


class GradientAccumulationScheduler(Callback):
    """Changes the number of batches accumulated for a step, from certain epochs on.

    Args:
        scheduling: {epoch: batches}; {4: 2} accumulates two batches from epoch 4 on.
    """

    def __init__(self, scheduling: dict[int, int]) -> None:
        if not scheduling:
            raise SettingError("GradientAccumulationScheduler", "scheduling is empty")
        for epoch, factor in scheduling.items():
            check_at_least("GradientAccumulationScheduler", "an epoch", epoch, 0)
            check_at_least("GradientAccumulationScheduler", "a number of batches", factor, 1)
        self.scheduling = dict(sorted(scheduling.items()))

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Set the number of batches for this epoch."""
        begun = [epoch for epoch in self.scheduling if epoch <= trainer.current_epoch]
        trainer.accumulate_grad_batches = self.scheduling[begun[-1]] if begun else 1


class Timer(Callback):
    """Measures the time of training, and ends it after a duration.

    Args:
        duration: "DD:HH:MM:SS", a timedelta, or its arguments as a dict; None only measures.
        interval: check the time after each "step" or each "epoch".
    """

    monitors = True

    def __init__(
        self, duration: str | timedelta | dict[str, int] | None = None, interval: str = "step"
    ) -> None:
        check_choice("Timer", "interval", interval, ("step", "epoch"))
        self.interval = interval
        self.duration = None if duration is None else seconds_of(duration)
        self._began: dict[str, float] = {}
        self._before: dict[str, float] = {}

    def time_elapsed(self, stage: str = "train") -> float:
        """Return the seconds that "train", "validate" or "test" have taken."""
        began = self._began.get(stage)
        return self._before.get(stage, 0.0) + (time.monotonic() - began if began else 0.0)

    def time_remaining(self, stage: str = "train") -> float | None:
        """Return the remaining seconds."""
        return None if self.duration is None else self.duration - self.time_elapsed(stage)

    def begin(self, stage: str) -> None:
        """Start a clock."""
        self._began[stage] = time.monotonic()

    def end(self, stage: str) -> None:
        """Stop a clock, and keep its time."""
        self._before[stage] = self.time_elapsed(stage)
        self._began.pop(stage, None)

    def look(self, trainer: Any) -> None:
        """Stop training if no time is left."""
        left = self.time_remaining()
        if left is not None and left <= 0:
            trainer.should_stop = True

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Start the clock."""
        self.begin("train")

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Stop the clock."""
        self.end("train")

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Start the clock of validations."""
        self.begin("validate")

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Stop the clock of validations."""
        self.end("validate")

    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        """Start the clock of the test."""
        self.begin("test")

    def on_test_end(self, trainer: Any, pl_module: Any) -> None:
        """Stop the clock of the test."""
        self.end("test")

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *batch: Any) -> None:
        """Look at the clock."""
        if self.interval == "step":
            self.look(trainer)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Look at the clock."""
        if self.interval == "epoch":
            self.look(trainer)

    def state_dict(self) -> dict[str, Any]:
        """Return the elapsed times."""
        stages = {*self._before, *self._began}
        return {"time_elapsed": {stage: self.time_elapsed(stage) for stage in stages}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the elapsed times."""
        self._before = dict(state_dict["time_elapsed"])


def seconds_of(duration: str | timedelta | dict[str, int]) -> float:
    """Return a duration in seconds.

    >>> seconds_of("00:00:01:30")
    90.0
    """
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    if isinstance(duration, dict):
        return timedelta(**duration).total_seconds()
    parts = duration.strip().split(":")
    if len(parts) != 4 or not all(part.isdigit() for part in parts):
        raise SettingError("Timer", f"duration must be 'DD:HH:MM:SS', got {duration!r}")
    days, hours, minutes, seconds = map(int, parts)
    return timedelta(days, seconds, 0, 0, minutes, hours).total_seconds()


class LambdaCallback(Callback):
    """A callback made of functions, given by the names of their hooks.

    >>> callback = LambdaCallback(on_train_start=lambda trainer, module: print("go"))
    >>> callback.on_train_start(None, None)
    go
    """

    def __init__(self, **hooks: Callable[..., Any]) -> None:
        known = sorted(name for name in dir(Callback) if name.startswith("on_")) + [
            "setup", "teardown",
        ]  # fmt: skip
        for name, function in hooks.items():
            if name not in known or not callable(function):
                raise SettingError(
                    "LambdaCallback", f"{name}={function!r} is no hook, or no function",
                    {"hooks": ", ".join(known)},
                )  # fmt: skip
            setattr(self, name, function)
