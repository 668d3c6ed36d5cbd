"""Values logged by `self.log`: the value of each step, and the mean over each epoch."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from ..core.tensor import Tensor
from .errors import StepOutputError, TrainError
from .metrics.base import Metric

__all__ = ["LogBook"]

# The hooks in which `log` may be called: by default STEPS log each step, EPOCHS the epoch.
STEPS = ("training_step", "on_train_batch_start", "on_train_batch_end", "on_before_zero_grad",
         "on_before_backward", "on_after_backward", "on_before_optimizer_step")  # fmt: skip
EPOCHS = ("on_train_start", "on_train_epoch_start", "on_train_epoch_end", *(
    f"{hook.format(stage)}" for stage in ("validation", "test") for hook in (
        "{}_step", "on_{}_start", "on_{}_epoch_start", "on_{}_batch_start", "on_{}_batch_end",
        "on_{}_epoch_end",
    )
))  # fmt: skip


@dataclass
class Entry:
    """One logged name: its options, and its values so far."""

    on_step: bool
    on_epoch: bool
    prog_bar: bool
    logger: bool
    reduce_fx: str
    last: float = math.nan
    total: float = 0.0
    weight: float = 0.0
    fresh: bool = False  # logged in the current step

    def add(self, value: float, weight: float) -> None:
        """Add a value."""
        self.last, self.fresh = value, True
        if self.reduce_fx == "mean":
            self.total += value * weight
        elif self.reduce_fx == "sum" or self.weight == 0:
            self.total += value
        else:
            self.total = (min if self.reduce_fx == "min" else max)(self.total, value)
        self.weight += weight

    def value(self) -> float:
        """Return the reduction of the epoch's values."""
        if self.reduce_fx == "mean":
            return self.total / self.weight if self.weight else math.nan
        return self.total


class LogBook:
    """The logged values of one pass over a loader (training, validation or test)."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.metrics: dict[str, Metric] = {}  # metrics compute the epoch's value themselves

    def log(self, where: str, name: str, value: Any, batch_size: int, **options: Any) -> None:
        """Record a value that was logged in the hook or step `where`.

        Raises: TrainError: nothing can be logged there. StepOutputError: not a number.
        """
        if where not in STEPS and where not in EPOCHS:
            raise TrainError(
                "log", f"{name!r} cannot be logged in {where or 'code outside of a hook'}",
                hint=f"log in training_step, validation_step, test_step or in {STEPS[2]}",
            )  # fmt: skip
        if options["on_step"] is None:
            options["on_step"] = where in STEPS
        if options["on_epoch"] is None:
            options["on_epoch"] = where in EPOCHS
        if options["reduce_fx"] not in ("mean", "sum", "min", "max"):
            raise StepOutputError(
                "log", "reduce_fx must be 'mean', 'sum', 'min' or 'max', got "
                f"{options['reduce_fx']!r}", {"name": name},
            )  # fmt: skip
        entry = self.entries.setdefault(name, Entry(**options))
        if isinstance(value, Metric):
            self.metrics[name] = value
            if options["on_step"]:
                entry.add(number_of(name, value.last), 0.0)
            return
        entry.add(number_of(name, value), batch_size if where.endswith("_step") else 1)

    def step_values(self) -> dict[str, tuple[Entry, float]]:
        """Return the values that this step logged, by name, and mark them as old."""
        values = {}
        for name, entry in self.entries.items():
            if entry.fresh and entry.on_step:
                values[f"{name}_step" if entry.on_epoch else name] = (entry, entry.last)
            entry.fresh = False
        return values

    def epoch_values(self) -> dict[str, tuple[Entry, float]]:
        """Return the values of the epoch by name, with a suffix if steps are logged too."""
        values = {}
        for name, entry in self.entries.items():
            if entry.on_epoch:
                metric = self.metrics.get(name)
                value = entry.value() if metric is None else number_of(name, metric.compute())
                values[f"{name}_epoch" if entry.on_step else name] = (entry, value)
                if entry.on_step:
                    values[name] = (Entry(False, True, False, False, "mean"), value)
        return values

    def clear(self) -> None:
        """Remove all values, for a new epoch."""
        self.entries.clear()
        for metric in self.metrics.values():
            metric.reset()
        self.metrics.clear()

    def state_dict(self) -> dict[str, Any]:
        """Return all values, for a checkpoint in the middle of an epoch."""
        return {
            name: {field.name: getattr(entry, field.name) for field in fields(entry)}
            for name, entry in self.entries.items()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.entries = {name: Entry(**entry) for name, entry in state.items()}


def number_of(name: str, value: Any) -> float:
    """Return a logged value as a float.

    Raises: StepOutputError: it is not a number.
    """
    if isinstance(value, Tensor) and value.numel() == 1:
        return float(value.detach().item())
    if isinstance(value, Tensor):
        raise StepOutputError(
            "log", "only one number can be logged under a name",
            {name: f"a tensor of shape {tuple(value.shape)}"}, "value.mean(), or log each by a name"
        )  # fmt: skip
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise StepOutputError(
            "log", f"only numbers can be logged, not {type(value).__name__}", {"name": name}
        ) from error
