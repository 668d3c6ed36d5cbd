"""Errors of training: invalid settings, step outputs and monitored values."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import EdutorchError

__all__ = ["MonitorError", "SettingError", "StepOutputError", "TrainError"]


class TrainError(EdutorchError, RuntimeError):
    """Raised if a training cannot run as it is set up."""


class SettingError(TrainError, ValueError):
    """Raised if a setting is invalid, alone or together with another one."""


class StepOutputError(TrainError, TypeError):
    """Raised if a step or `configure_optimizers` returns something invalid."""


class MonitorError(TrainError):
    """Raised if a monitored value was never logged."""


def missing_monitor_error(who: str, monitor: str | None, logged: Iterable[str]) -> MonitorError:
    """Return the error for a monitored value that was never logged, with the names that were."""
    names = ", ".join(sorted(logged)) or "nothing"
    return MonitorError(
        who, f"monitor={monitor!r} was never logged", {"logged": names},
        f"self.log({monitor!r}, value) in a step that runs before, or monitor one of those",
    )  # fmt: skip


def check_choice(who: str, name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise SettingError if a value is not one of the choices."""
    if value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise SettingError(who, f"{name} must be one of {known}, got {value!r}")


def check_at_least(who: str, name: str, value: object, least: int) -> None:
    """Raise SettingError if a value is not an integer of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SettingError(who, f"{name} must be a whole number of at least {least}, got {value!r}")
