"""`torch.jit`: scripted or traced functions run as Python.

Decorated functions and modules give the same results as undecorated ones. TorchScript programs,
which run without Python, are not supported; saving or loading them raises an error.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from ..core.tensor import Tensor
from ..errors import NotHereError

__all__ = [
    "Final", "annotate", "export", "fork", "freeze", "ignore", "is_scripting", "is_tracing",
    "isinstance", "load", "optimize_for_inference", "optimized_execution", "save", "script",
    "script_if_tracing", "script_method", "trace", "unused", "wait",
]  # fmt: skip

T = TypeVar("T")
_isinstance = isinstance


@functools.cache
def _warn_once(name: str) -> None:
    warnings.warn(
        f"torch.jit.{name}: there is no TorchScript here; the function runs as Python, "
        "with the same results",
        stacklevel=3,
    )


def script(
    obj: T, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None
) -> T:
    """Return the function, class or module itself, and warn once that it stays Python.

    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     edutorch.jit.script(lambda x: x + 1)(tensor([1.0]))
    tensor([2.])
    """
    _warn_once("script")
    return obj


def trace(func: T, example_inputs: Any = None, *others: Any, **settings: Any) -> T:
    """Return the function or module itself, and warn once that it stays Python.

    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     edutorch.jit.trace(lambda x: x + 1, tensor([0.0]))(tensor([1.0]))
    tensor([2.])
    """
    _warn_once("trace")
    return func


def script_method(fn: T) -> T:
    """Return the method unchanged."""
    return fn


def script_if_tracing(fn: T) -> T:
    """Return the function unchanged."""
    return fn


_script_if_tracing = script_if_tracing  # the name by which torchvision calls it


def _overload_method(func: T) -> T:
    """Return the method: a signature for TorchScript, which the method itself follows."""
    return func


def export(fn: T) -> T:
    """Return the method unchanged."""
    return fn


def ignore(drop: Any = False, **settings: Any) -> Any:
    """Return the method unchanged: used as `@ignore` or `@ignore(drop=…)`."""
    return drop if callable(drop) else script_method


def unused(fn: T) -> T:
    """Return the method unchanged."""
    return fn


def annotate(the_type: Any, the_value: T) -> T:
    """Return the value; its type is an annotation for TorchScript."""
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


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """Return the module unchanged; it must be in eval mode."""
    if mod.training:
        raise RuntimeError("freeze: the module is in training mode; call module.eval() first")
    return mod


def optimize_for_inference(mod: T, other_methods: Any = None) -> T:
    """Return the module unchanged."""
    return mod


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Do nothing: there is no optimized execution here."""
    yield


def is_scripting() -> bool:
    """Return False: nothing runs as TorchScript here."""
    return False


def is_tracing() -> bool:
    """Return False: nothing is traced by `torch.jit` here."""
    return False


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Raise an error: there is no TorchScript here.

    Raises: NotHereError: always.
    """
    raise NotHereError(
        "jit.save",
        "there is no TorchScript here, so nothing that runs without Python can be saved",
        hint="save the weights: torch.save(model.state_dict(), path)",
    )


def load(f: Any, map_location: Any = None, *others: Any, **settings: Any) -> Tensor:
    """Raise an error: a TorchScript program cannot be run here.

    Raises: NotHereError: always.
    """
    raise NotHereError(
        "jit.load",
        "a TorchScript file holds a program, and there is nothing here to run it",
        hint="build the module in Python and load its weights with load_state_dict",
    )
