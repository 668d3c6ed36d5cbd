"""Long calls into compiled code, which Ctrl-C can leave at once.

Python handles a signal between two instructions of the main thread: while that is inside LAPACK
or BLAS it handles none. So what takes long is computed by a helper thread, and the main thread
waits for it in Python. An interrupt is then raised where it waits; what the helper still computes
is dropped when it is done. (Until then it keeps its inputs in memory and its cores busy.)
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from contextvars import copy_context
from threading import Event, Thread, current_thread, main_thread
from typing import Any

__all__ = ["LONG", "LONG_SIDE", "interruptible"]

LONG = 2_000_000_000
"""So many multiplications may take a second on a slow machine; on a fast one they take 20 ms,
of which the helper thread is a hundredth."""

LONG_SIDE = 250_000
"""A factor of such a product has more numbers, unless the result alone needs gigabytes."""


EXIT_LIMIT = 20.0
"""Seconds that the end of Python waits for a dropped call, under which no library may go."""

_running: set[Thread] = set()


@atexit.register
def wait_for_dropped() -> None:
    """Wait until calls that were left are over."""
    for thread in tuple(_running):
        thread.join(EXIT_LIMIT)


def interruptible(function: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    """Call a function that takes long, such that Ctrl-C is raised here at once.

    The function must return new arrays: one that wrote into an array of the caller would go on
    writing after an interrupt. In other threads than the main one, which no signal reaches, it is
    called as it is.
    """
    if current_thread() is not main_thread():
        return function(*arguments, **settings)
    done, outcome = Event(), []
    context = copy_context()  # in which NumPy keeps what it does about overflow

    def compute() -> None:
        try:
            outcome.append((context.run(function, *arguments, **settings), None))
        except BaseException as error:  # noqa: BLE001  (handed on)
            outcome.append((None, error))
        finally:
            done.set()
            _running.discard(current_thread())

    thread = Thread(target=compute, name="edutorch long call", daemon=True)
    _running.add(thread)
    thread.start()
    while not done.wait(0.1):  # on Windows signals are handled between two waits
        pass
    result, error = outcome[0]
    if error is not None:
        raise error
    return result
