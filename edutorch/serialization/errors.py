"""What is raised when a file cannot be loaded, or an object cannot be saved."""

from __future__ import annotations

import pickle

from ..errors import EdutorchError

__all__ = ["CheckpointError", "RefusedError"]


class CheckpointError(EdutorchError, RuntimeError):
    """A file is damaged, or not a checkpoint; or an object cannot be saved in one."""


class RefusedError(CheckpointError, pickle.UnpicklingError):
    """A file asks for classes or functions that nobody has allowed. None of them was called."""


class NotDataError(CheckpointError):
    """An object is neither data nor made of data: only a pickle can hold it."""


def damaged(name: str, what: str) -> CheckpointError:
    return CheckpointError(
        "load", f"{name} is damaged: {what}",
        hint="it was cut short or changed after saving; use an earlier checkpoint",
    )  # fmt: skip


def cannot_save(value: object, path: str, hint: str | None = None) -> CheckpointError:
    kind = type(value).__name__
    error = CheckpointError if hint else NotDataError
    if hint is None and hasattr(value, "state_dict"):
        hint = f"save its state_dict(), and load it into a new {kind} with load_state_dict()"
    return error(
        "save", f"cannot save a {kind}" + (f" (at {path!r})" if path else ""),
        hint=hint
        or "a checkpoint holds data: tensors, numbers, texts, and lists and dicts of these",
    )  # fmt: skip
