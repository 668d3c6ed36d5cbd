"""The background thread that compiles kernels, one after the other, so that nobody waits.

A forked process has none of its parent's threads, so it starts a thread of its own for the
remaining jobs. But if the compiler was running during the fork, its internal locks stay locked in
the child for ever: nothing can be compiled there any more.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable

__all__ = ["BackgroundWorker", "compiler"]


class BackgroundWorker:
    """A background thread that runs jobs in order.

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
        self._thread: threading.Thread | None = None

    def _reset_after_fork(self) -> None:
        self.broken |= self._busy
        self._busy = False
        self._reset()

    def submit(self, job: Callable[[], object]) -> None:
        """Queue a job. An exception in it ends the thread; the next job starts a new one."""
        self._jobs.append(job)
        self._available.release()
        self.start()

    def start(self) -> None:
        """Start the thread if it is not running, as in a forked process."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            self._available.acquire()
            self._busy = True
            try:
                self._jobs[0]()
            finally:
                self._jobs.popleft()
                self._busy = False


compiler = BackgroundWorker("edutorch-kernels")
"""The worker that compiles all kernels, of the library and of graphs."""
