"""Callbacks that change a training or measure it: rates, averaging, accumulation, time."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ...core.tensor import Tensor
from ...optim.swa_utils import SWALR, AveragedModel, update_bn
from ..errors import SettingError, check_at_least, check_choice
from ..optimizer_step import LRSchedulerConfig
from ..resumable_loader import map_tensors
from .base import Callback

if TYPE_CHECKING:
    from ..module import TrainModule
    from ..trainer import Trainer

__all__ = [
    "GradientAccumulationScheduler", "LambdaCallback", "LearningRateMonitor",
    "StochasticWeightAveraging", "Timer",
]  # fmt: skip


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
        self, trainer: Trainer, pl_module: TrainModule, batch: Any, batch_idx: int
    ) -> None:
        """Log the rate of this step."""
        if (
            self.logging_interval != "epoch"
            and trainer.global_step % trainer.log_every_n_steps == 0
        ):
            wanted = None if self.logging_interval else "step"
            self.log_rates(trainer, wanted)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Log the rate of this epoch."""
        if self.logging_interval != "step":
            self.log_rates(trainer, None if self.logging_interval else "epoch")

    def log_rates(self, trainer: Trainer, interval: str | None) -> None:
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

    def on_train_epoch_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
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

    def look(self, trainer: Trainer) -> None:
        """Stop training if no time is left."""
        left = self.time_remaining()
        if left is not None and left <= 0:
            trainer.should_stop = True

    def on_train_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Start the clock."""
        self.begin("train")

    def on_train_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Stop the clock."""
        self.end("train")

    def on_validation_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Start the clock of validations."""
        self.begin("validate")

    def on_validation_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Stop the clock of validations."""
        self.end("validate")

    def on_test_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Start the clock of the test."""
        self.begin("test")

    def on_test_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Stop the clock of the test."""
        self.end("test")

    def on_train_batch_end(self, trainer: Trainer, pl_module: TrainModule, *batch: Any) -> None:
        """Look at the clock."""
        if self.interval == "step":
            self.look(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
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


class StochasticWeightAveraging(Callback):
    """Averages the weights of the last epochs, and loads the average into the module at the end.

    From `swa_epoch_start` on, the scheduler is replaced by one that anneals to the learning rate
    `swa_lrs` and stays there. At the end, the batch norm statistics are recomputed.

    Args:
        swa_lrs: the constant learning rate, or one for each group.
        swa_epoch_start: the epoch at which averaging starts, or its share of all epochs (0.8).
        annealing_epochs: the number of epochs of the annealing.
        annealing_strategy: "cos" or "linear".
        avg_fn: the averaging function; the arithmetic mean by default.
        device: the device of the average; by default that of the module.

    Paper: Izmailov et al., Averaging weights leads to wider optima and better
    generalization, 2018.
    """

    def __init__(
        self, swa_lrs: float | list[float], swa_epoch_start: int | float = 0.8,
        annealing_epochs: int = 10, annealing_strategy: Any = "cos",
        avg_fn: Callable[[Tensor, Tensor, Any], Tensor] | None = None, device: Any = None,
    ) -> None:  # fmt: skip
        whole = isinstance(swa_epoch_start, int) and swa_epoch_start >= 1
        if not whole and not (isinstance(swa_epoch_start, float) and 0 <= swa_epoch_start <= 1):
            raise SettingError(
                "StochasticWeightAveraging", "swa_epoch_start must be an epoch of at least 1, or a "
                f"part between 0.0 and 1.0, got {swa_epoch_start!r}",
            )  # fmt: skip
        rates = swa_lrs if isinstance(swa_lrs, list) else [swa_lrs]
        if not all(isinstance(rate, float | int) and rate > 0 for rate in rates):
            raise SettingError("StochasticWeightAveraging", f"swa_lrs={swa_lrs!r} is not positive")
        self.swa_lrs, self.swa_epoch_start = swa_lrs, swa_epoch_start
        self.annealing_epochs, self.annealing_strategy = annealing_epochs, annealing_strategy
        self.avg_fn, self.device = avg_fn, device
        self.average: AveragedModel | None = None
        self._saved: dict[str, Any] | None = None

    def start_epoch(self, trainer: Trainer) -> int:
        """Return the epoch at which averaging starts."""
        if isinstance(self.swa_epoch_start, int):
            return self.swa_epoch_start
        if trainer.max_epochs is None or trainer.max_epochs < 0:
            raise SettingError(
                "StochasticWeightAveraging", "a part of the epochs, but there is no max_epochs",
                hint="swa_epoch_start=10",
            )  # fmt: skip
        return int(trainer.max_epochs * self.swa_epoch_start)

    def begin(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Create the average, and replace the schedulers."""
        pl_module._trainer = None  # so that it is not copied with the module
        try:
            self.average = AveragedModel(pl_module, self.device, self.avg_fn)
        finally:
            pl_module._trainer = trainer
        schedulers = [
            SWALR(optimizer, self.swa_lrs, self.annealing_epochs, self.annealing_strategy)
            for optimizer in trainer.optimizers
        ]
        trainer.lr_scheduler_configs = [LRSchedulerConfig(scheduler) for scheduler in schedulers]

    def on_train_epoch_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Start averaging if it is due."""
        if self.average is None and trainer.current_epoch >= self.start_epoch(trainer):
            self.begin(trainer, pl_module)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Add the weights of this epoch to the average."""
        if self.average is not None:
            self.average.update_parameters(pl_module)

    def on_train_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Load the average into the module."""
        if self.average is None or not int(self.average.n_averaged):
            return
        pl_module.load_state_dict(self.average.module.state_dict())
        if trainer.train_loader is not None:
            batches = (map_tensors(batch, trainer.place_tensor) for batch in trainer.train_loader)
            update_bn(batches, pl_module)

    def state_dict(self) -> dict[str, Any]:
        """Return the average so far."""
        return {"average": None if self.average is None else self.average.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep the state until the module is known."""
        self._saved = state_dict["average"]

    def on_load_checkpoint(
        self, trainer: Trainer, pl_module: TrainModule, checkpoint: dict[str, Any]
    ) -> None:
        """Restore the average if averaging had started."""
        if self._saved is not None:
            self.begin(trainer, pl_module)
            assert self.average is not None
            self.average.load_state_dict(self._saved)
            self._saved = None
