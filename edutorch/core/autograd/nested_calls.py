"""Backward passes inside of others: every so many levels in a thread of their own."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from ...backends.platform import HAS_THREADS

T = TypeVar("T")

LEVELS_PER_THREAD = 20
"""A custom backward, or a hook, may call `backward` itself, which runs another such function, and
so on. Each level takes a dozen Python frames, of which a thread has about a thousand. So every so
many levels the work continues in a new thread, with an empty stack, while the previous one waits.
PyTorch does the same."""


class Depth(threading.local):
    """The number of nested backward passes in this thread."""

    level = 0


_DEPTH = Depth()


def run_nested(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function that may recurse; deep inside, in a new thread."""
    level = _DEPTH.level
    if level >= LEVELS_PER_THREAD and HAS_THREADS:
        return run_in_new_thread(function, arguments)
    _DEPTH.level = level + 1
    try:
        return function(*arguments)
    finally:
        _DEPTH.level = level


def run_in_new_thread(function: Callable[..., T], arguments: tuple[Any, ...]) -> T:
    """Call a function in another thread, with the modes of this one, and wait for it."""
    results: list[T] = []
    failures: list[BaseException] = []
    context = contextvars.copy_context()

    def run() -> None:
        try:
            results.append(context.run(run_nested, function, *arguments))
        except BaseException as error:  # noqa: BLE001  (whatever it is, the caller gets it)
            failures.append(error)

    thread = threading.Thread(target=run, name="edutorch nested backward", daemon=True)
    thread.start()
    thread.join()
    if failures:
        try:
            raise failures[0]
        finally:
            failures.clear()  # an error that refers to its own frames keeps everything alive
    return results[0]
