"""Optimizers, schedulers and precision: parses `configure_optimizers`, and steps schedulers."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import dtypes
from ..core.tensor import Tensor
from ..optim import Optimizer
from ..optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from .errors import StepOutputError, check_at_least, check_choice, missing_monitor_error

if TYPE_CHECKING:
    from .trainer import Trainer

__all__ = [
    "LRSchedulerConfig", "Precision", "SteppingOptimizer", "parse_optimizers", "update_schedulers",
]  # fmt: skip

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


def check_optimizer(optimizer: object) -> Optimizer:
    if not isinstance(optimizer, Optimizer):
        raise StepOutputError(
            WHO, f"{type(optimizer).__name__} is not an optimizer",
            hint="edutorch.optim.Adam(self.parameters())",
        )  # fmt: skip
    return optimizer


def short_repr(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "…"


def needs_closure(optimizer: Optimizer) -> bool:
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


NAMES = {
    32: "32", "32": "32", "32-true": "32", 64: "64", "64": "64", "64-true": "64",
    "bf16-mixed": "bf16-mixed", "bf16": "bf16-mixed", "16-mixed": "16-mixed", 16: "16-mixed",
    "16": "16-mixed",
}  # fmt: skip


class Precision:
    """Runs steps, backward and optimizers in the chosen precision.

    With "bf16-mixed" and "16-mixed" the parameters stay float32, and autocast chooses 16-bit
    floats where possible; with float16 a GradScaler keeps small gradients from underflowing.
    """

    def __init__(self, precision: str | int, device_type: str) -> None:
        check_choice("Trainer", "precision", precision, tuple(NAMES))
        self.name = NAMES[precision]
        self.device_type = device_type
        self.scaler: Any = None
        if self.name == "16-mixed":
            from ..amp import GradScaler

            self.scaler = GradScaler(device_type)
        if self.mixed:
            from ..amp import autocast

            self.autocast: Any = autocast

    @property
    def mixed(self) -> bool:
        """Whether autocast is needed."""
        return self.name.endswith("mixed")

    def module(self, module: Any) -> None:
        """Convert the parameters of a module to the precision."""
        if self.name == "64":
            module.double()

    def tensor(self, tensor: Tensor) -> Tensor:
        """Convert a tensor of a batch to the precision."""
        return tensor.double() if self.name == "64" and tensor.is_floating_point() else tensor

    @contextlib.contextmanager
    def compute_context(self) -> Iterator[None]:
        """Apply the precision inside the block, which is a step of the module."""
        if self.mixed:
            dtype = dtypes.float16 if self.scaler is not None else dtypes.bfloat16
            with self.autocast(self.device_type, dtype=dtype):
                yield
        elif self.name == "64":
            previous = dtypes.get_default_dtype()
            dtypes.set_default_dtype(dtypes.float64)
            try:
                yield
            finally:
                dtypes.set_default_dtype(previous)
        else:
            yield

    def backward(self, loss: Tensor, **settings: Any) -> None:
        """Run backward on the loss, scaled if there is a scaler."""
        scaled = loss if self.scaler is None else self.scaler.scale(loss)
        scaled.backward(**settings)

    def unscale(self, optimizer: Optimizer) -> None:
        """Unscale the gradients, so that they can be inspected and clipped."""
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)

    def step(self, optimizer: Optimizer) -> None:
        """Run an optimizer step; a scaler skips it if the gradients have overflowed."""
        if self.scaler is None:
            optimizer.step()
        else:
            self.scaler.step(optimizer)
            self.scaler.update()
