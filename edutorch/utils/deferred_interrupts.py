"""Ctrl-C, held back while something is done that must be done whole.

Python handles an interrupt between any two instructions of the main thread. In the middle
of an optimizer's step that would leave some parameters changed and others not. So during a
step another handler is in place, which only takes a note; at its end the user's own
handler is called, which raises KeyboardInterrupt as always.

    token = hold()
    try:
        …
    finally:
        release(token)

This costs a microsecond or two. `with uninterrupted():` is the same for less busy places.
"""

from __future__ import annotations

import signal
import sys
from _signal import getsignal as _getsignal  # without the conversions, which take 3 µs each
from _signal import signal as _signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any

__all__ = ["hold", "once_interruptible", "release", "uninterrupted", "waiting"]

_SIGINT = int(signal.SIGINT)
_NOTED: list[int] = []  # signals that have come while they were held back


def _note(number: int, frame: Any) -> None:
    _NOTED.append(number)


def hold() -> Any:
    """Hold interrupts back from now on.

    Returns what `release` needs: the user's handler; or None where there is nothing to hold back:
    in other threads, which no interrupt reaches, inside another hold, or without a handler
    written in Python.
    """
    if current_thread() is not main_thread():
        return None
    handler = _getsignal(_SIGINT)
    if handler is _note or not callable(handler):
        return None
    try:
        _signal(_SIGINT, _note)
    except ValueError:  # the main thread of an interpreter that is not the main one
        return None
    return handler


def release(handler: Any) -> None:
    """Let interrupts through again, and hand on the one that came meanwhile.

    Args:
        handler: what `hold` has returned.
    """
    if handler is None:
        return
    if _getsignal(_SIGINT) is _note:
        _signal(_SIGINT, handler)
    if _NOTED:
        number = _NOTED[-1]
        _NOTED.clear()
        handler(number, sys._getframe())


def waiting() -> bool:
    """Say whether an interrupt has come that is held back: whatever takes long should end soon."""
    return bool(_NOTED)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold interrupts back inside `with`, and raise them behind it.

    >>> with uninterrupted():
    ...     waiting()  # has somebody pressed Ctrl-C meanwhile?
    False
    """
    handler = hold()
    try:
        yield
    finally:
        release(handler)


def once_interruptible(function: Callable[..., Any], handler: Any) -> Callable[..., Any]:
    """Return a closure whose first call can be interrupted, inside a hold.

    A step begins by computing the loss, which may take long, before anything has changed.
    """
    calls: list[int] = []

    def around(*args: Any, **kwargs: Any) -> Any:
        if calls or handler is None:
            return function(*args, **kwargs)
        calls.append(1)
        release(handler)
        try:
            return function(*args, **kwargs)
        finally:
            hold()

    return around
