"""A time limit for the student's code in a notebook: a loop without end is interrupted.

The way is that of Ctrl-C, so that everything that defers an interrupt defers this one, too. In
other threads than the main one, and where there are no threads, there is no limit.
"""

from __future__ import annotations

import time
from _thread import interrupt_main
from collections.abc import Callable
from signal import SIGINT, default_int_handler, getsignal
from threading import current_thread, main_thread
from typing import TypeVar

from ..backends.platform import HAS_THREADS, run_beside

T = TypeVar("T")

AGAIN = 1.0
"""Seconds after which code is interrupted again that has ignored it."""

POLL = 0.02
"""Seconds between two looks at the clock."""


class Watch:
    """Interrupts the main thread after some seconds, and again, until it is over.

    There are no locks: an interrupt in the middle of one would leave it locked.

    Attributes:
        fired: whether it has.
        is_over: set when no more interrupts are wanted.
        is_firing: one may come although it is over.
    """

    def __init__(self, seconds: float) -> None:
        self.fired = self.is_over = self.is_firing = False
        self._due = time.monotonic() + seconds

    def run(self) -> None:
        """Wait and interrupt, on a thread of its own."""
        while not self.is_over:
            time.sleep(POLL)
            if time.monotonic() < self._due:
                continue
            self.is_firing = True
            if not self.is_over:
                self.fired = True
                interrupt_main()
            self.is_firing = False
            self._due = time.monotonic() + AGAIN


def call_in_time(seconds: float, function: Callable[[], T]) -> T:
    """Return what a function returns, or interrupt it when it takes longer.

    Raises: TimeoutError: it was interrupted, or there was no time at all.
    """
    if seconds <= 0:
        raise TimeoutError("there is no time left")
    can_interrupt = HAS_THREADS and current_thread() is main_thread()
    if not can_interrupt or getsignal(SIGINT) is not default_int_handler:
        return function()
    watch = Watch(seconds)
    try:
        run_beside("edutorch time limit", watch.run)
        value = function()
    except KeyboardInterrupt:
        watch.is_over = True  # no call stands before it: Python could be interrupted there again
        if not watch.fired:
            raise
    finally:
        watch.is_over = True
        try:
            time.sleep(0)  # an interrupt that is on its way comes here
            while watch.is_firing:
                time.sleep(0)
        except KeyboardInterrupt:
            pass
    if watch.fired:  # code that ignored the interrupt was too late, too
        raise TimeoutError(f"no answer after {seconds:.0f} s")
    return value
