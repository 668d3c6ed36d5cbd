"""What edutorch changes in its process: interrupts, malloc, and a thread that compiles kernels.

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

import functools
import math
import os
import signal
import sys
import threading
import time
from _signal import getsignal as _getsignal  # without the conversions, which take 3 µs each
from _signal import signal as _signal
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

from ..backends.platform import HAS_THREADS, c_function

__all__ = [
    "BackgroundWorker", "compiler", "defer_interrupts", "hold_interrupts", "interruptible_once",
    "is_interrupt_pending", "keep_freed_memory", "release_interrupts",
]  # fmt: skip

Handler = Callable[[int, FrameType | None], object]

_SIGINT = int(signal.SIGINT)
_PENDING: list[int] = []  # signals that arrived while they were held back


def _record_signal(number: int, frame: FrameType | None) -> None:
    _PENDING.append(number)


def hold_interrupts() -> Handler | None:
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


def release_interrupts(handler: Handler | None) -> None:
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


def interruptible_once(function: Callable[..., Any], handler: Handler | None) -> Callable[..., Any]:
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


# Memory -----------------------------------------------------------------------------------------

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4  # as glibc's malloc.h numbers them


@functools.cache
def keep_freed_memory() -> bool:
    """Make glibc keep freed blocks instead of returning them to the kernel at once.

    A training step frees its gradients and needs the same memory again a moment later. Returned
    to the kernel, each page has to be mapped and zeroed again: that took longer than the
    arithmetic of a small network, and two thirds of the time of a chain of ops on arrays of
    64 MB. No M_MMAP_THRESHOLD is large enough to keep such blocks, hence M_MMAP_MAX is 0. (A
    cache of our own could not do better, as measured: with these settings there are no page
    faults.) The price is that the process does not shrink. Returns False if glibc is not used.
    """
    mallopt = c_function("mallopt")
    if mallopt is None:
        return False
    wishes = ((_MMAP_THRESHOLD, 32 << 20), (_TRIM_THRESHOLD, 256 << 20), (_MMAP_MAX, 0))
    return all(mallopt(*wish) for wish in wishes)


# The thread that compiles ------------------------------------------------------------------------


START_SECONDS = 0.1
"""An idle worker begins so long after a job was submitted. It computes in Python, and each NumPy
call of the program that submitted it would wait for the GIL; until then its own call is done."""

NEXT_SECONDS, IDLE_SECONDS = 0.005, 1.0
"""A worker that has been idle for less than the second begins after the first: a kernel takes three
jobs, each submitted by a call that needs the one before."""


class BackgroundWorker:
    """A background thread that runs jobs in order, so that nobody waits.

    A forked process has none of its parent's threads, so it starts a thread of its own for the
    remaining jobs. But if the compiler was running during the fork, its internal locks stay locked
    in the child for ever: nothing can be compiled there any more.

    Attributes:
        broken: a job was running when this process was forked, and its locks are lost. Jobs must
            check this, and return at once.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.broken = self._busy = False
        self._jobs: deque[Callable[[], object]] = deque()
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._reset_after_fork)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._available = threading.Semaphore(len(self._jobs))
        self._hurry = threading.Event()
        self._thread: threading.Thread | None = None

    def _reset_after_fork(self) -> None:
        self.broken |= self._busy
        self._busy = False
        self._reset()

    def submit(self, job: Callable[[], object]) -> None:
        """Queue a job. An exception in it ends the thread; the next job starts a new one.

        Without threads it is done at once.
        """
        if not HAS_THREADS:
            job()
            return
        self._jobs.append(job)
        self._available.release()
        self.start()

    @property
    def is_busy(self) -> bool:
        """Whether a job is running or waits."""
        return bool(self._jobs)

    def hurry(self) -> None:
        """Begin at once from now on: somebody waits for a job."""
        self._hurry.set()
        self.start()

    def start(self) -> None:
        """Start the thread if it is not running, as in a forked process."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        last = -math.inf
        while True:
            if last < 0 or not self._available.acquire(blocking=False):
                self._available.acquire()
                is_idle = time.monotonic() - last > IDLE_SECONDS
                self._hurry.wait(START_SECONDS if is_idle else NEXT_SECONDS)
            self._busy = True
            try:
                self._jobs[0]()
            finally:
                self._jobs.popleft()
                self._busy, last = False, time.monotonic()


compiler = BackgroundWorker("edutorch-kernels")
"""The worker that compiles all kernels, of the library and of graphs."""
