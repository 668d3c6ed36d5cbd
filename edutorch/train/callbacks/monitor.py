"""The base class of callbacks that monitor a logged value."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..errors import SettingError, check_choice, missing_monitor_error
from .base import Callback

if TYPE_CHECKING:
    from ..trainer import Trainer

__all__ = ["Monitor"]


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
