"""What can be wrong with a training: settings, what the steps return, what is watched."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import EdutorchError

__all__ = ["MonitorError", "SettingError", "StepOutputError", "TrainError"]


class TrainError(EdutorchError, RuntimeError):
    """A training cannot go on as it was set up."""


class SettingError(TrainError, ValueError):
    """A setting makes no sense, or not together with another one."""


class StepOutputError(TrainError, TypeError):
    """A step or `configure_optimizers` returned something that cannot be used."""


class MonitorError(TrainError):
    """A value is watched that nobody has logged."""


def never_logged(who: str, monitor: str | None, logged: Iterable[str]) -> MonitorError:
    """Make the error for a watched value that is not there; it lists what is."""
    names = ", ".join(sorted(logged)) or "nothing"
    return MonitorError(
        who, f"monitor={monitor!r} was never logged", {"logged": names},
        f"self.log({monitor!r}, value) in a step that runs before, or monitor one of those",
    )  # fmt: skip


def check_choice(who: str, name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise SettingError if a value is none of the choices."""
    if value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise SettingError(who, f"{name} must be one of {known}, got {value!r}")


def check_at_least(who: str, name: str, value: object, least: int) -> None:
    """Raise SettingError if a value is not a whole number that is large enough."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SettingError(who, f"{name} must be a whole number of at least {least}, got {value!r}")
