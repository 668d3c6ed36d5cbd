"""What code says to TorchScript: decorators, annotations, and questions.

In Python they do nothing. The compiler finds what a decorator said in `_torchscript_modifier`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

__all__ = [
    "annotate", "export", "fork", "ignore", "is_scripting", "is_tracing", "isinstance",
    "optimized_execution", "script_if_tracing", "script_method", "unused", "wait",
]  # fmt: skip

T = TypeVar("T")
_isinstance = isinstance


def mark(function: T, text: str) -> T:
    """Set what a decorator says of a function; one that takes no attributes stays as it is."""
    try:
        function._torchscript_modifier = text  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        pass
    return function


def script_method(fn: T) -> T:
    """Return the method: it is compiled with the module."""
    return mark(fn, "export")


def script_if_tracing(fn: T) -> T:
    """Return the function unchanged."""
    return fn


_script_if_tracing = script_if_tracing  # the name by which torchvision calls it


def _overload_method(func: T) -> T:
    """Return the method: a signature for TorchScript, which the method itself follows."""
    return func


def export(fn: T) -> T:
    """Return the method: a scripted module has it besides `forward`, in its file too.

    >>> edutorch.jit.export(len) is len
    True
    """
    return mark(fn, "export")


def ignore(drop: Any = False, **settings: Any) -> Any:
    """Return the method: it stays Python, so a module that calls it cannot be scripted.

    Used as `@ignore` or `@ignore(drop=…)`; with `drop` it is as `unused`.
    """
    if callable(drop):
        return mark(drop, "ignore")
    return lambda fn: mark(fn, "unused" if drop else "ignore")


def unused(fn: T) -> T:
    """Return the method: in the program, a call of it raises an error."""
    return mark(fn, "unused")


def annotate(the_type: Any, the_value: T) -> T:
    """Return the value; its type is an annotation for TorchScript.

    >>> annotate(list[int], [])
    []
    """
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Return True if `obj` is an instance of a class, or of one of a tuple of classes."""
    return _isinstance(obj, target_type)


def fork(func: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call the function at once; `wait` returns the result."""
    return func(*args, **kwargs)


def wait(future: T) -> T:
    """Return the result of `fork`."""
    return future


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Do nothing: there is no optimized execution here."""
    yield


def is_scripting() -> bool:
    """Return False: a scripted function runs as Python.

    In the program it is True: the compiler takes that branch, and leaves out the other.
    """
    return False


def is_tracing() -> bool:
    """Return False: a function that is traced runs as it does otherwise."""
    return False
