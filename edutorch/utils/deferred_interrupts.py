"""Deferred interrupts: Ctrl-C is held back during operations that must not be interrupted.

Python handles an interrupt between any two instructions of the main thread. In the middle of an
optimizer's step that would leave some parameters changed and others not. So during a step another
handler is installed, which only records the signal; at the end the user's own handler is called,
which raises KeyboardInterrupt as usual.

    token = hold_interrupts()
    try:
        …
    finally:
        release_interrupts(token)

This costs a microsecond or two. `with defer_interrupts():` is the same for code that runs less
often.
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

__all__ = [
    "hold_interrupts",
    "interruptible_once",
    "release_interrupts",
    "defer_interrupts",
    "is_interrupt_pending",
]

_SIGINT = int(signal.SIGINT)
_PENDING: list[int] = []  # signals that arrived while they were held back


def _record_signal(number: int, frame: Any) -> None:
    _PENDING.append(number)


def hold_interrupts() -> Any:
    """Hold interrupts back from now on.

    Returns the user's handler for `release_interrupts`, or None if there is nothing to do: in
    other threads, which no interrupt reaches, if interrupts are held back already, or without a
    handler written in Python.
    """
    if current_thread() is not main_thread():
        return None
    handler = _getsignal(_SIGINT)
    if handler is _record_signal or not callable(handler):
        return None
    try:
        _signal(_SIGINT, _record_signal)
    except ValueError:  # the main thread of an interpreter that is not the main one
        return None
    return handler


def release_interrupts(handler: Any) -> None:
    """Restore the user's handler, and call it if an interrupt has arrived.

    Args:
        handler: the result of `hold_interrupts`.
    """
    if handler is None:
        return
    if _getsignal(_SIGINT) is _record_signal:
        _signal(_SIGINT, handler)
    if _PENDING:
        number = _PENDING[-1]
        _PENDING.clear()
        handler(number, sys._getframe())


def is_interrupt_pending() -> bool:
    """Return True if an interrupt is held back: long operations should end soon."""
    return bool(_PENDING)


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Hold interrupts back inside a `with` block, and raise them after it.

    >>> with defer_interrupts():
    ...     is_interrupt_pending()  # has somebody pressed Ctrl-C meanwhile?
    False
    """
    handler = hold_interrupts()
    try:
        yield
    finally:
        release_interrupts(handler)


def interruptible_once(function: Callable[..., Any], handler: Any) -> Callable[..., Any]:
    """Return a closure whose first call can be interrupted although interrupts are held back.

    A step begins by computing the loss, which may take long, before anything has changed.
    """
    calls: list[int] = []

    def around(*args: Any, **kwargs: Any) -> Any:
        if calls or handler is None:
            return function(*args, **kwargs)
        calls.append(1)
        release_interrupts(handler)
        try:
            return function(*args, **kwargs)
        finally:
            hold_interrupts()

    return around
