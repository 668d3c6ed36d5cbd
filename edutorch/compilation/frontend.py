"""The function `edutorch.compile`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..nn import Module
from .compiled_function import Compiled
from .compiled_module import OptimizedModule

__all__ = ["compile"]


def compile(
    model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor", mode: str | None = None,
    options: dict[str, Any] | None = None, disable: bool = False,
) -> Any:  # fmt: skip
    """See `edutorch.compile`: this is its body, imported at the first call."""
    settings = {
        "fullgraph": fullgraph, "dynamic": dynamic, "backend": backend, "mode": mode,
        "options": options,
    }  # fmt: skip
    if model is None:
        return functools.partial(compile, **settings, disable=disable)
    if not callable(model):
        raise TypeError(
            f"compile: `model` is a {type(model).__name__}; give a function or a module"
        )
    if disable or isinstance(model, Compiled | OptimizedModule):
        return model
    compiled = Compiled(model, settings)
    return OptimizedModule(model, compiled) if isinstance(model, Module) else compiled
