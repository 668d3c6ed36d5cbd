"""A time limit for the student's code in a notebook: a loop without end is interrupted.

The way is that of Ctrl-C, so that everything that defers an interrupt defers this one, too. In
other threads than the main one, and where there are no threads, there is no limit.
"""

from __future__ import annotations

import time
from _thread import interrupt_main
from collections.abc import Iterator
from contextlib import contextmanager
from signal import SIGINT, default_int_handler, getsignal
from threading import current_thread, main_thread

from ..backends.platform import HAS_THREADS, run_beside

AGAIN = 0.5
"""Seconds after which code is interrupted again that has ignored it."""

POLL = 0.02
"""Seconds between two looks at the clock."""


class Watch:
    """Interrupts the main thread after some seconds, and again, until `stop`.

    There are no locks: an interrupt in the middle of one would leave it locked.

    Attributes:
        fired: whether it has.
    """

    def __init__(self, seconds: float) -> None:
        self.fired = self._over = self._is_firing = False
        self._due = time.monotonic() + seconds

    def run(self) -> None:
        while not self._over:
            time.sleep(POLL)
            if time.monotonic() < self._due:
                continue
            self._is_firing = True
            if not self._over:
                self.fired = True
                interrupt_main()
            self._is_firing = False
            self._due = time.monotonic() + AGAIN

    def stop(self) -> None:
        """Send no interrupt any more, and take the one that may be on its way."""
        self._over = True
        try:
            while self._is_firing:
                time.sleep(0)
        except KeyboardInterrupt:
            pass


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Interrupt the block when it takes longer.

    Raises: TimeoutError: it was interrupted, or there was no time at all.
    """
    if seconds <= 0:
        raise TimeoutError("there is no time left")
    can_interrupt = HAS_THREADS and current_thread() is main_thread()
    if not can_interrupt or getsignal(SIGINT) is not default_int_handler:
        yield
        return
    watch = Watch(seconds)
    run_beside("edutorch time limit", watch.run)
    try:
        yield
    except KeyboardInterrupt:
        if not watch.fired:
            raise
        raise TimeoutError(f"no answer after {seconds:.0f} s") from None
    finally:
        watch.stop()
