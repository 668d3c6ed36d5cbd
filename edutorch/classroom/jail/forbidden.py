"""What an exercise forbids is taken out of the jail's copy of the library.

`attempt.ForbiddenCalls` hears forbidden functions, and an honest student is told by it. But it is
in the student's process, where code can turn it off. So in the jail the function is not there:
wherever the library holds it, under whatever name, there is one that raises.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from ...core.tensor import Tensor


class ForbiddenFunction(Exception):
    """The code has called what the exercise forbids."""


def remove_functions(names: frozenset[str]) -> list[str]:
    """Replace public functions by some that raise.

    Returns: a list to which the names of those that are called are appended.
    """
    called: list[str] = []
    if not names:
        return called
    stubs: dict[str, Callable[..., Any]] = {name: make_stub(name, called) for name in names}
    functions = library_functions()
    for name, stub in stubs.items():
        for owner, key in functions.get(name, ()):
            setattr(owner, key, stub)
    return called


@functools.cache
def library_functions() -> dict[str, list[tuple[Any, str]]]:
    """Return where the library holds each function: worked out before the first fork."""
    functions: dict[str, list[tuple[Any, str]]] = {}
    for scope, owner in library_scopes():
        for key, value in scope.items():
            name = getattr(value, "__name__", None)
            if isinstance(value, FunctionType) and key.lstrip("_") == name:
                functions.setdefault(name, []).append((owner, key))
    return functions


def library_scopes() -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield the names of each module and of `Tensor`; not those of what records the graph."""
    yield vars(Tensor), Tensor
    for name, module in list(sys.modules.items()):
        if name.startswith("edutorch") and not name.startswith(("edutorch.viz", "edutorch.class")):
            yield vars(module), module


def make_stub(name: str, called: list[str]) -> Callable[..., Any]:
    def forbidden(*_: Any, **__: Any) -> Any:
        called.append(name)
        raise ForbiddenFunction(f"write it without `{name}`: that is what this exercise is about")

    return forbidden
