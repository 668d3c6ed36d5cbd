"""`record_function`: named ranges of a program."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..errors import ArgumentError
from ..events import WorkEnded, WorkStarted, emit
from ..modes import current


class record_function:
    """Names a range of the program in profiles: a context manager or a decorator.

    Without an active profile it does nothing.

    Args:
        name: the name of the row.
        args: text in parentheses after the name.

    Raises: TypeError: the name is not a string.

    >>> with profiler.profile() as prof, profiler.record_function("my part"):
    ...     y = ones(3) + 1
    >>> [event.name for event in prof.events()]
    ['my part', 'add']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        if not isinstance(name, str):
            raise ArgumentError(
                "record_function",
                f"argument `name` must be text, got {type(name).__name__}",
                hint="write `with record_function('forward'):`",
            )
        self.name, self.args = name, args
        self._open: list[str | None] = []

    def __enter__(self) -> record_function:
        if current().listeners:
            label = self.name if self.args is None else f"{self.name} ({self.args})"
            emit(WorkStarted("range", label))
            self._open.append(label)
        else:
            self._open.append(None)
        return self

    def __exit__(self, *exception: object) -> None:
        label = self._open.pop()
        if label is not None:
            emit(WorkEnded("range", label))

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate `function`: each call is one range."""
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def waited(*args: Any, **kwargs: Any) -> Any:
                with record_function(self.name, self.args):
                    return await function(*args, **kwargs)

            return waited

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return wrapped
