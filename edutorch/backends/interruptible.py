"""Long calls into compiled code that Ctrl-C can interrupt at once.

Python handles a signal between two instructions of the main thread, and none while that is inside
LAPACK or BLAS. So long computations run in a helper thread, and the main thread waits for it in
Python. An interrupt is then raised there; the result of the helper is dropped when it is done.
(Until then it keeps its inputs in memory and its cores busy.)
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
"""A factor of such a product has more elements, unless the result alone needs gigabytes."""


EXIT_LIMIT = 20.0
"""Seconds to wait at exit for a dropped call, while its libraries must stay loaded."""

_running: set[Thread] = set()


@atexit.register
def wait_for_dropped() -> None:
    """Wait until dropped calls have returned."""
    for thread in tuple(_running):
        thread.join(EXIT_LIMIT)


def interruptible(function: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    """Call a long-running function such that Ctrl-C is raised here at once.

    The function must return new arrays: one that writes into an array of the caller would continue
    after an interrupt. In threads other than the main one, which receive no signals, it is called
    directly.
    """
    if current_thread() is not main_thread():
        return function(*arguments, **settings)
    done, outcome = Event(), []
    context = copy_context()  # with NumPy's settings for floating-point errors

    def compute() -> None:
        try:
            outcome.append((context.run(function, *arguments, **settings), None))
        except BaseException as error:  # noqa: BLE001  (passed on)
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
