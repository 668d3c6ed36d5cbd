"""Optimizers and schedulers: parses the result of `configure_optimizers`, and steps schedulers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..optim import Optimizer
from ..optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from .errors import StepOutputError, check_at_least, check_choice, missing_monitor_error

if TYPE_CHECKING:
    from .trainer import Trainer

__all__ = ["LRSchedulerConfig", "SteppingOptimizer", "parse_optimizers", "update_schedulers"]

WHO = "configure_optimizers"


@dataclass
class LRSchedulerConfig:
    """A scheduler and when it steps: every `frequency`-th "epoch" or optimizer "step".

    `monitor` is the name of the logged value for ReduceLROnPlateau; without `strict` it may be
    missing.
    """

    scheduler: Any
    interval: str = "epoch"
    frequency: int = 1
    monitor: str | None = None
    strict: bool = True
    name: str | None = None
    reduce_on_plateau: bool = False

    def __post_init__(self) -> None:
        check_choice(WHO, "interval", self.interval, ("epoch", "step"))
        check_at_least(WHO, "frequency", self.frequency, 1)
        self.reduce_on_plateau = isinstance(self.scheduler, ReduceLROnPlateau)
        if not isinstance(self.scheduler, LRScheduler) and not hasattr(self.scheduler, "step"):
            raise StepOutputError(WHO, f"{type(self.scheduler).__name__} is not a scheduler")
        if self.reduce_on_plateau and self.monitor is None:
            raise StepOutputError(
                WHO, "ReduceLROnPlateau has to know what to look at",
                hint='{"scheduler": scheduler, "monitor": "val_loss"}',
            )  # fmt: skip


def parse_optimizers(returned: Any) -> tuple[list[Optimizer], list[LRSchedulerConfig]]:
    """Return the optimizers and schedulers in the result of `configure_optimizers`.

    Raises: StepOutputError: the result has none of the supported forms.
    """
    if returned is None:  # no optimizer: the steps only evaluate
        return [], []
    if isinstance(returned, Optimizer):
        return [returned], []
    if isinstance(returned, dict):
        return from_dict(returned)
    if isinstance(returned, list | tuple) and returned:
        if all(isinstance(optimizer, Optimizer) for optimizer in returned):
            return list(returned), []
        if all(isinstance(config, dict) for config in returned):
            pairs = [from_dict(config) for config in returned]
            scheduler_configs = [config for _, configs in pairs for config in configs]
            return [optimizers[0] for optimizers, _ in pairs], scheduler_configs
        if len(returned) == 2 and isinstance(returned[0], list | tuple):
            optimizers = [check_optimizer(optimizer) for optimizer in returned[0]]
            schedulers = returned[1] if isinstance(returned[1], list | tuple) else [returned[1]]
            return optimizers, [config_of(scheduler) for scheduler in schedulers]
    raise StepOutputError(
        WHO, f"returned {type(returned).__name__}, of which no optimizer can be taken",
        {"returned": short_repr(returned)},
        'return optimizer, or [optimizer], [scheduler], or {"optimizer": …, "lr_scheduler": …}',
    )  # fmt: skip


def from_dict(config: dict[str, Any]) -> tuple[list[Optimizer], list[LRSchedulerConfig]]:
    unknown = set(config) - {"optimizer", "lr_scheduler", "monitor"}
    if "optimizer" not in config or unknown:
        raise StepOutputError(
            WHO, 'the dict needs "optimizer", and may have "lr_scheduler" and "monitor"',
            {"keys": ", ".join(map(repr, config))},
        )  # fmt: skip
    scheduler = config.get("lr_scheduler")
    if scheduler is None:
        return [check_optimizer(config["optimizer"])], []
    return [check_optimizer(config["optimizer"])], [config_of(scheduler, config.get("monitor"))]


def config_of(config: Any, monitor: str | None = None) -> LRSchedulerConfig:
    if isinstance(config, LRSchedulerConfig):
        return config
    if not isinstance(config, dict):
        return LRSchedulerConfig(config, monitor=monitor)
    names = set(LRSchedulerConfig.__dataclass_fields__)
    if "scheduler" not in config or set(config) - names:
        raise StepOutputError(
            WHO, 'the dict of a scheduler needs "scheduler", and may have '
            + ", ".join(repr(name) for name in sorted(names - {"scheduler"})),
            {"keys": ", ".join(map(repr, config))},
        )  # fmt: skip
    return LRSchedulerConfig(**{"monitor": monitor, **config})


def check_optimizer(optimizer: Any) -> Optimizer:
    if not isinstance(optimizer, Optimizer):
        raise StepOutputError(
            WHO, f"{type(optimizer).__name__} is not an optimizer",
            hint="edutorch.optim.Adam(self.parameters())",
        )  # fmt: skip
    return optimizer


def short_repr(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "…"


def needs_closure(optimizer: Any) -> bool:
    """Whether the step of an optimizer needs a closure, as LBFGS does."""
    parameter = inspect.signature(optimizer.step).parameters.get("closure")
    return parameter is not None and parameter.default is inspect.Parameter.empty


class SteppingOptimizer:
    """An optimizer in manual optimization, whose steps the trainer counts."""

    def __init__(self, optimizer: Optimizer, trainer: Trainer) -> None:
        self.optimizer, self._trainer = optimizer, trainer

    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """Run a step, after unscaling the gradients if necessary."""
        if closure is not None:
            closure()
        self._trainer.optimizer_step(self.optimizer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.optimizer, name)

    def __repr__(self) -> str:
        return repr(self.optimizer)


def update_schedulers(trainer: Trainer, interval: str, count: int) -> None:
    """Step the schedulers of an interval at its `count`-th time.

    Raises: MonitorError: a monitored value was never logged.
    """
    for config in trainer.lr_scheduler_configs:
        if config.interval != interval or count % config.frequency:
            continue
        if not config.reduce_on_plateau:
            config.scheduler.step()
            continue
        value = trainer.values.get(config.monitor or "")
        if value is not None:
            config.scheduler.step(value)
        elif config.strict:
            raise missing_monitor_error("ReduceLROnPlateau", config.monitor, trainer.values)
