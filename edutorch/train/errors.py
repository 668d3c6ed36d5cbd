"""Errors of training, and the validation of the settings of a `Trainer`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ..backends import ACCELERATOR
from ..errors import EdutorchError

__all__ = [
    "MonitorError", "SettingError", "StepOutputError", "TrainError", "check_settings",
    "device_type_of",
]  # fmt: skip


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


LIMITS = ("limit_train_batches", "limit_val_batches", "limit_test_batches", "limit_predict_batches")


def check_settings(trainer: Any) -> None:
    """Check the settings of a trainer.

    Raises: SettingError: one is invalid.
    """
    for name in ("accumulate_grad_batches", "log_every_n_steps"):
        check_at_least("Trainer", name, getattr(trainer, name), 1)
    for name in ("max_steps", "num_sanity_val_steps"):
        check_at_least("Trainer", name, getattr(trainer, name), -1)
    for name in ("max_epochs", "min_epochs", "min_steps"):
        if getattr(trainer, name) is not None:
            check_at_least("Trainer", name, getattr(trainer, name), -1)
    if trainer.check_val_every_n_epoch is not None:
        check_at_least("Trainer", "check_val_every_n_epoch", trainer.check_val_every_n_epoch, 1)
    for name in (*LIMITS, "overfit_batches"):
        check_part(name, getattr(trainer, name))
    check_interval(trainer.val_check_interval, trainer.check_val_every_n_epoch)
    check_choice(
        "Trainer", "gradient_clip_algorithm", trainer.gradient_clip_algorithm,
        (None, "norm", "value"),
    )  # fmt: skip
    clip = trainer.gradient_clip_val
    if clip is not None and not (isinstance(clip, int | float) and clip > 0):
        raise SettingError("Trainer", f"gradient_clip_val must be positive, got {clip!r}")


def check_part(name: str, value: Any) -> None:
    """Raise SettingError if a limit is neither a number of batches nor a share of them."""
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    part = isinstance(value, float) and 0.0 <= value <= 1.0
    if value is not None and not whole and not part:
        raise SettingError(
            "Trainer", f"{name} must be a whole number of batches, or a part between 0.0 and 1.0, "
            f"got {value!r}",
        )  # fmt: skip


def check_interval(every: Any, epochs: int | None) -> None:
    """Raise SettingError if the validation interval is invalid."""
    whole = isinstance(every, int) and every > 0
    if not whole and not (isinstance(every, float) and 0 < every <= 1 and math.isfinite(every)):
        raise SettingError(
            "Trainer", "val_check_interval must be a number of batches, or a part of an epoch "
            f"above 0.0 and up to 1.0, got {every!r}",
        )  # fmt: skip
    if epochs is None and not whole:
        raise SettingError(
            "Trainer", "check_val_every_n_epoch=None counts batches through all epochs, and "
            f"val_check_interval={every!r} is a part of one", hint="val_check_interval=100",
        )  # fmt: skip


def device_type_of(accelerator: str, devices: Any, has_gpu: bool) -> str:
    """Return the device type for training: "cpu" or "cuda".

    Raises: SettingError: an unknown or unavailable device, or several devices.
    """
    check_choice("Trainer", "accelerator", accelerator, ("auto", "cpu", "gpu", ACCELERATOR))
    count = len(devices) if isinstance(devices, list | tuple) else devices
    if count not in ("auto", 1, "1"):
        raise SettingError(
            "Trainer", f"devices={devices!r}: this trainer uses one device",
            hint="devices=1, or 'auto'",
        )  # fmt: skip
    if accelerator in ("gpu", ACCELERATOR) and not has_gpu:
        raise SettingError(
            "Trainer", f"accelerator={accelerator!r}, but no GPU can be used here",
            hint="accelerator='auto' takes one where there is one; python -m edutorch doctor",
        )  # fmt: skip
    return ACCELERATOR if has_gpu and accelerator != "cpu" else "cpu"
