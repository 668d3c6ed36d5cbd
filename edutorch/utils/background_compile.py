"""Compilers are slow, and nobody waits for one: one thread has one kernel made after the other.

A process that is forked has none of its parent's threads. What was still to be made is made by a
thread of its own. But if the compiler was at work, a lock of its own stays closed in that process
for ever: nothing can be compiled there any more.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

__all__ = ["Beside", "compiler"]


class Beside:
    """A thread that does what it is given, beside the program, in that order.

    Attributes:
        broken: it was at work when this process was forked, and what it held is lost. What it is
            given has to look, and be done with.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.broken = self._busy = False
        self._jobs: deque[Callable[[], object]] = deque()
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_anew)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._given = threading.Semaphore(len(self._jobs))
        self._thread: threading.Thread | None = None

    def _begin_anew(self) -> None:
        self.broken |= self._busy
        self._busy = False
        self._begin()

    def do(self, job: Callable[[], object]) -> None:
        """Have something done. What it raises ends the thread; the next thing begins another."""
        self._jobs.append(job)
        self._given.release()
        self.start()

    def start(self) -> None:
        """See to it that there is a thread, also in a process that was forked."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            self._given.acquire()
            self._busy = True
            try:
                self._jobs[0]()
            finally:
                self._jobs.popleft()
                self._busy = False


compiler = Beside("edutorch-kernels")
"""Whoever has a kernel compiled, of the library or of a graph, has it done by this one."""
