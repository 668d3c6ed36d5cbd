"""`torch.compile` and `torch.compiler`: what is compiled runs as it is written.

The answers are those of the uncompiled function; only the speed is not another one.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
    "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "reset",
]  # fmt: skip

T = TypeVar("T")


@functools.cache
def _say_once() -> None:
    warnings.warn(
        "torch.compile: nothing is compiled (yet); the function runs as it is written, "
        "with the same results",
        stacklevel=3,
    )


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Return the function or module itself, and say once that nothing is compiled.

    All settings are accepted. Without `model` it is a decorator.

    Raises: TypeError: `model` cannot be called.

    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     compile(lambda x: x + 1)(tensor([1.0]))
    tensor([2.])
    """
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
            options=options, disable=disable,
        )  # fmt: skip
    if not callable(model):
        raise TypeError(
            f"compile: `model` is a {type(model).__name__}; give a function or a module"
        )
    if not disable:
        _say_once()
    return model


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Leave a function uncompiled, as all are: a decorator that returns it unchanged."""
    return fn if fn is not None else _unchanged


def allow_in_graph(fn: T) -> T:
    """Return the function unchanged."""
    return fn


def assume_constant_result(fn: T) -> T:
    """Return the function unchanged."""
    return fn


def _unchanged(fn: T) -> T:
    return fn


def is_compiling() -> bool:
    """Say whether the code that asks is being compiled: never."""
    return False


def is_dynamo_compiling() -> bool:
    """Say whether the code that asks is being compiled: never."""
    return False


def is_exporting() -> bool:
    """Say whether the code that asks is being exported: never."""
    return False


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """Return the names of the compilers that there are: none."""
    return []


def reset() -> None:
    """Forget what has been compiled: nothing."""


def cudagraph_mark_step_begin() -> None:
    """Say that a new step begins, for recorded CUDA graphs: there are none."""
