"""In which calls an op runs: of modules, and of library functions that are made of several ops.

A student wrote `cross_entropy(scores, classes)` and knows that word. The recorder hears of the ops
inside. What lies between the user's line and an op is found on Python's stack of frames, at the
steps that are looked at in full.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections import Counter
from types import CodeType, FrameType
from typing import Any

from .model import Scope

LIBRARY = "edutorch."


@functools.cache
def public_functions() -> dict[CodeType, str]:
    """Return the name of each public function that is no op itself, by its code."""
    import edutorch
    from edutorch.nn import functional

    table: dict[CodeType, str] = {}
    shared: set[CodeType] = set()  # by several functions, as wrappers are: it names none of them
    for namespace in (edutorch.Tensor, edutorch, edutorch.special, edutorch.linalg, functional):
        for name, value in list(vars(namespace).items()):
            if name.startswith("_") or inspect.isclass(value) or hasattr(value, "op"):
                continue
            code = getattr(inspect.unwrap(value) if callable(value) else None, "__code__", None)
            if code is not None and table.setdefault(code, name) != name:
                shared.add(code)
    return {code: name for code, name in table.items() if code not in shared}


class CallScopes:
    """The stack of calls, and how often each was made in the step that runs."""

    def __init__(self) -> None:
        self.stack: list[Scope] = []
        self._in_library: list[bool] = []  # for each module on the stack: is it one of ours?
        self._calls: Counter[str] = Counter()
        self._frame: FrameType | None = None  # of the function that ran last; held, so that no
        self._function: Scope | None = None  # other frame gets its identity

    def clear(self) -> None:
        """Forget the calls that run: the ends of some were not heard."""
        self.stack.clear()
        self._in_library.clear()

    def begin_step(self) -> None:
        """Count calls from 1 again."""
        self._calls.clear()
        self._frame = self._function = None

    def enter_module(self, module: Any, path: str) -> None:
        """Note that a module's forward begins."""
        self.stack.append(self._called("module", path))
        self._in_library.append(type(module).__module__.startswith(LIBRARY))

    def leave_module(self) -> None:
        """Note that the innermost one has ended."""
        if self.stack:
            self.stack.pop()
            self._in_library.pop()

    @property
    def module(self) -> str:
        """The path of the innermost module, "" outside any."""
        return self.stack[-1].name if self.stack else ""

    def current(self) -> tuple[Scope, ...]:
        """Return the calls around the op that has just run, the outermost first."""
        scopes = tuple(self.stack)
        if self._in_library and self._in_library[-1]:
            return scopes  # a layer says more than the functions inside it
        frame = outermost_function(sys._getframe(2))
        if frame is None:
            return scopes
        if frame is not self._frame or self._function is None:
            name = public_functions()[frame.f_code]
            self._frame, self._function = frame, self._called("function", name)
        return (*scopes, self._function)

    def _called(self, kind: Any, name: str) -> Scope:
        self._calls[name] += 1
        return Scope(kind, name, self._calls[name])


def outermost_function(frame: FrameType | None) -> FrameType | None:
    """Return the frame of the public function that the user's code, or a module, has called."""
    names, outermost = public_functions(), None
    while frame is not None and frame.f_globals.get("__name__", "").startswith(LIBRARY):
        if frame.f_code in names:
            outermost = frame
        frame = frame.f_back
    return outermost
