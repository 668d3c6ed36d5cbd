"""Watching a logged value: which one, and whether lower or higher is better."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..errors import SettingError, check_choice, never_logged
from .base import Callback

if TYPE_CHECKING:
    from ..trainer import Trainer

__all__ = ["Monitor"]


class Monitor(Callback):
    """The base of callbacks that look at a logged value.

    Args:
        monitor: its name.
        mode: "min": lower is better; "max": higher is better.
    """

    monitors = True

    def __init__(self, monitor: str | None, mode: str) -> None:
        check_choice(type(self).__name__, "mode", mode, ("min", "max"))
        self.monitor, self.mode = monitor, mode

    @property
    def state_key(self) -> str:
        """The name in checkpoints: two that watch different values are kept apart."""
        return f"{type(self).__name__}(monitor={self.monitor!r}, mode={self.mode!r})"

    @property
    def worst(self) -> float:
        """A value that every other one is better than."""
        return math.inf if self.mode == "min" else -math.inf

    def better(self, value: float, than: float, by: float = 0.0) -> bool:
        """Say whether a value is better than another one, by more than `by`."""
        return value < than - by if self.mode == "min" else value > than + by

    def value(self, trainer: Trainer) -> float | None:
        """Return the newest value.

        Raises: MonitorError: nobody has logged it; the text lists what was logged.
        """
        found = trainer.values.get(self.monitor or "")
        if found is None:
            raise never_logged(type(self).__name__, self.monitor, trainer.values)
        return found


def check_positive(who: str, name: str, value: float | None) -> None:
    """Raise SettingError if a number is given and below 0."""
    if value is not None and not value >= 0:
        raise SettingError(who, f"{name} must not be negative, got {value!r}")
