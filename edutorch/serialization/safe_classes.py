"""The user's own classes that may appear in a checkpoint, and the errors that refuse the others.

The former are PyTorch's "safe globals".

A file can only name a class; it does not contain its code. Names are looked up here and never
imported. In our own files enums, dataclasses and named tuples may be allowed. In PyTorch's files
an allowed class is called with the arguments in the file, as in PyTorch: allow nothing that does
harm when it is called with arguments of somebody else's choice.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from ..errors import ArgumentError, EdutorchError


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


__all__ = [
    "CheckpointError", "RefusedError", "add_safe_globals", "clear_safe_globals", "get_safe_globals",
    "safe_globals",
]  # fmt: skip

_SAFE_GLOBALS: list[Any] = []
FORBIDDEN = ("sys", "os", "posix", "nt", "subprocess", "builtins", "_pickle", "pickle")
"""Modules whose names are refused even if somebody has allowed them."""


def qualified_name(listed: object) -> tuple[str, Any]:
    """Return the qualified name of an entry, and the class or function itself."""
    if isinstance(listed, tuple):
        if len(listed) == 2 and callable(listed[0]) and isinstance(listed[1], str):
            return listed[1], listed[0]
    elif callable(listed) and hasattr(listed, "__qualname__"):
        return f"{listed.__module__}.{listed.__qualname__}", listed
    raise ArgumentError(
        "add_safe_globals", f"cannot list {listed!r}",
        hint='give classes or functions, or pairs such as (MyClass, "its_old_module.MyClass")',
    )  # fmt: skip


def find_safe_global(name: str) -> Any:
    """Return what the user has allowed under a qualified name, or None."""
    if name.partition(".")[0] in FORBIDDEN:
        return None
    # The latest first: in a notebook a class is defined, and allowed, again and again.
    for listed in reversed(_SAFE_GLOBALS):
        known, value = qualified_name(listed)
        if known == name:
            return value
    return None


def has_class(cls: type) -> bool:
    """Return True if the user has allowed this class."""
    return any(qualified_name(listed)[1] is cls for listed in _SAFE_GLOBALS)


def add_safe_globals(
    safe_globals: list[Callable[..., Any] | tuple[Callable[..., Any], str]],
) -> None:
    """Allow `load` to make objects of these classes from now on.

    Args:
        safe_globals: classes or functions, or pairs of one and the name it has in the file.

    Raises: ArgumentError: one of them has no name.

    >>> class Settings: pass
    >>> edutorch.serialization.add_safe_globals([Settings])
    >>> edutorch.serialization.get_safe_globals() == [Settings]
    True
    >>> edutorch.serialization.clear_safe_globals()
    """
    for safe_global_ in safe_globals:
        qualified_name(safe_global_)
        if safe_global_ not in _SAFE_GLOBALS:
            _SAFE_GLOBALS.append(safe_global_)


def get_safe_globals() -> list[Any]:
    """Return the classes and functions that are allowed.

    >>> edutorch.serialization.get_safe_globals()
    []
    """
    return list(_SAFE_GLOBALS)


def clear_safe_globals() -> None:
    """Remove all classes and functions that were added.

    >>> edutorch.serialization.clear_safe_globals()
    """
    _SAFE_GLOBALS.clear()


class safe_globals:
    """Allow `load` to make objects of these classes inside a `with` block.

    Args:
        safe_globals: as for `add_safe_globals`.

    >>> class Settings: pass
    >>> with edutorch.serialization.safe_globals([Settings]):
    ...     len(edutorch.serialization.get_safe_globals())
    1
    """

    def __init__(self, safe_globals: list[Any]) -> None:
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        self._before = list(_SAFE_GLOBALS)
        add_safe_globals(self.safe_globals)

    def __exit__(self, *exception: object) -> None:
        _SAFE_GLOBALS[:] = self._before
