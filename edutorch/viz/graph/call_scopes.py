"""The calls in which an op runs: of modules, and of library functions made of several ops.

A student wrote `cross_entropy(scores, classes)` and knows that word; the recorder receives the ops
inside it. The calls between the user's line and an op are read from Python's stack of frames, in
the steps that are recorded in full.
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
    """Return the names of the public functions that are not ops themselves, by code object."""
    import edutorch
    from edutorch.nn import functional

    table: dict[CodeType, str] = {}
    shared: set[CodeType] = set()  # code of several functions, such as wrappers: no name fits
    for namespace in (edutorch.Tensor, edutorch, edutorch.special, edutorch.linalg, functional):
        for name, value in list(vars(namespace).items()):
            if name.startswith("_") or inspect.isclass(value) or hasattr(value, "op"):
                continue
            code = getattr(inspect.unwrap(value) if callable(value) else None, "__code__", None)
            if code is not None and table.setdefault(code, name) != name:
                shared.add(code)
    return {code: name for code, name in table.items() if code not in shared}


class CallScopes:
    """The stack of running calls, and the number of calls of each name in this step."""

    def __init__(self) -> None:
        self.stack: list[Scope] = []
        self._in_library: list[bool] = []  # for each module on the stack: is it one of ours?
        self._calls: Counter[str] = Counter()
        # The frame of the function that ran last; kept alive, so that no other frame gets its id.
        self._frame: FrameType | None = None
        self._function: Scope | None = None

    def clear(self) -> None:
        """Forget the running calls: the end of some may not have been recorded."""
        self.stack.clear()
        self._in_library.clear()

    def begin_step(self) -> None:
        """Restart the counting of calls from 1."""
        self._calls.clear()
        self._frame = self._function = None

    def enter_module(self, module: Any, path: str) -> None:
        """Push the call of a module whose forward begins."""
        self.stack.append(self._count_call("module", path))
        self._in_library.append(type(module).__module__.startswith(LIBRARY))

    def leave_module(self) -> None:
        """Pop the innermost module call."""
        if self.stack:
            self.stack.pop()
            self._in_library.pop()

    @property
    def module(self) -> str:
        """The path of the innermost module; "" outside any module."""
        return self.stack[-1].name if self.stack else ""

    def current(self) -> tuple[Scope, ...]:
        """Return the calls around the op that has just run, the outermost first."""
        scopes = tuple(self.stack)
        if self._in_library and self._in_library[-1]:
            return scopes  # the name of a layer says more than the functions inside it
        frame = outermost_function(sys._getframe(2))
        if frame is None:
            return scopes
        if frame is not self._frame or self._function is None:
            name = public_functions()[frame.f_code]
            self._frame, self._function = frame, self._count_call("function", name)
        return (*scopes, self._function)

    def _count_call(self, scope_kind: Any, name: str) -> Scope:
        self._calls[name] += 1
        return Scope(scope_kind, name, self._calls[name])


def outermost_function(frame: FrameType | None) -> FrameType | None:
    """Return the frame of the public function called by the user's code or a module."""
    names, outermost = public_functions(), None
    while frame is not None and frame.f_globals.get("__name__", "").startswith(LIBRARY):
        if frame.f_code in names:
            outermost = frame
        frame = frame.f_back
    return outermost
