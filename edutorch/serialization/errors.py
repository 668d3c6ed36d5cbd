"""The exceptions of `save` and `load`."""

from __future__ import annotations

import pickle

from ..errors import EdutorchError

__all__ = ["CheckpointError", "RefusedError"]


class CheckpointError(EdutorchError, RuntimeError):
    """A file is damaged, or not a checkpoint; or an object cannot be saved in one."""


class RefusedError(CheckpointError, pickle.UnpicklingError):
    """A file refers to classes or functions that nobody has allowed. None of them was called."""


class NotDataError(CheckpointError):
    """An object is not data: only a pickle can hold it."""


def damaged_error(name: str, what: str) -> CheckpointError:
    return CheckpointError(
        "load", f"{name} is damaged: {what}",
        hint="it was cut short or changed after saving; use an earlier checkpoint",
    )  # fmt: skip


def unsavable_error(value: object, path: str, hint: str | None = None) -> CheckpointError:
    class_name = type(value).__name__
    error = CheckpointError if hint else NotDataError
    if hint is None and hasattr(value, "state_dict"):
        hint = f"save its state_dict(), and load it into a new {class_name} with load_state_dict()"
    return error(
        "save", f"cannot save a {class_name}" + (f" (at {path!r})" if path else ""),
        hint=hint
        or "a checkpoint holds data: tensors, numbers, texts, and lists and dicts of these",
    )  # fmt: skip
