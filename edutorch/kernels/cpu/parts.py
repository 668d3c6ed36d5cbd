"""One pool of threads for all kernels: large work is cut into as many parts as there are threads.

A kernel lets Python's lock go while it runs, so plain threads are enough. They wait without
turning round and round, so they are in nobody's way: not in that of BLAS, nor of another pool.

A part belongs to nobody until somebody claims it. Whoever calls begins at the front, the pool's
threads come in from the back; a thread that is late, because the machine is busy, finds nothing
left to do. So no one ever waits for a part that has not begun: kernels may be called from several
threads at once, and from inside each other.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from typing import Any

from ...settings import get_num_threads

WORTH_A_THREAD = 65_536
"""With fewer numbers, handing them to another thread takes longer than computing them."""

LATE = 50_000
"""So many numbers a thread could compute while it wakes up."""


class Job:
    """A call of a kernel, cut into parts.

    Attributes:
        more: how many rows the first part has more than the others.
        claims: who does which part. The first to enter itself has it, and Python's lock sees to
            it that there is one first; so Ctrl-C between two lines leaves nothing undecided.
        ended: what became of the parts that others did: None or an error.
        bell: rung after each of them.
    """

    __slots__ = ("arguments", "bell", "claims", "count", "ended", "kernel", "more", "parts")

    def __init__(
        self, kernel: Callable[..., None], count: int, parts: int, arguments: Any, more: int = 0
    ) -> None:
        self.kernel, self.count, self.parts, self.arguments = kernel, count, parts, arguments
        self.more = more
        self.claims: dict[int, object] = {}
        self.ended: list[BaseException | None] = []
        self.bell: queue.SimpleQueue[None] = queue.SimpleQueue()

    def run(self, part: int) -> None:
        """Do one part."""
        shared = self.count - self.more
        start, stop = (self.more + shared * each // self.parts for each in (part, part + 1))
        self.kernel(start if part else 0, stop, *self.arguments)

    def help(self) -> None:
        """Do the parts that nobody has claimed, the last one first: a thread of the pool."""
        me = object()
        for part in range(self.parts - 1, 0, -1):
            if self.claims.setdefault(part, me) is not me:
                continue
            error = None
            try:
                self.run(part)
            except BaseException as caught:  # noqa: BLE001 (raised where the result is wanted)
                error = caught
            self.ended.append(error)
            self.bell.put(None)

    def do(self) -> None:
        """Do the parts that nobody has claimed, the first one first, and wait for the others."""
        me = object()
        try:
            for part in range(self.parts):
                if self.claims.setdefault(part, me) is me:
                    self.run(part)
        finally:
            self.wait(me)
            self.arguments = ()  # a late thread still has this job, and must not keep the arrays
        for error in self.ended:
            if error is not None:
                raise error

    def wait(self, me: object) -> None:
        """Wait until nobody writes any more, Ctrl-C or not: the arrays may be taken back then."""
        parts = range(self.parts)
        # After an error, what nobody began is claimed here, and never done.
        others = sum(self.claims.setdefault(part, me) is not me for part in parts)
        interrupt = None
        while len(self.ended) < others:
            try:
                self.bell.get()
            except BaseException as error:  # noqa: BLE001 (raised again, a moment later)
                interrupt = error
        if interrupt is not None:
            raise interrupt


class Pool:
    """Threads that wait for jobs."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.threads = 0

    def call(self, job: Job, helpers: int) -> None:
        """Have a job done by this thread and as many others."""
        if self.threads < helpers:
            self.grow(helpers)
        for _ in range(helpers):
            self.jobs.put(job)

    def grow(self, threads: int) -> None:
        """Start the threads that are missing."""
        with self.lock:
            while self.threads < threads:
                self.threads += 1
                name = f"edutorch-kernel-{self.threads}"
                threading.Thread(target=serve, args=(self.jobs,), name=name, daemon=True).start()


def serve(jobs: queue.SimpleQueue[Job]) -> None:
    """Help with one job after the other."""
    while True:
        jobs.get().help()  # no variable keeps the job: its arrays would stay in memory


def in_parts(
    kernel: Callable[..., None],
    count: int,
    *arguments: Any,
    work: int | None = None,
    uneven: bool = False,
) -> None:
    """Call `kernel(start, stop, *arguments)` for the rows from 0 to `count`, by all threads.

    Args:
        work: how many numbers are touched; as many as rows if it is not said.
        uneven: whether the caller's part may be longer. It begins at once, the others when they
            have woken up, and it need not be woken up again if it is the last one to end.
    """
    parts = parts_for(count, work)
    if parts == 1:
        kernel(0, count, *arguments)
        return
    more = count * LATE // (work or count) if uneven else 0
    job = Job(kernel, count, parts, arguments, more)
    _pool.call(job, parts - 1)
    job.do()


def parts_for(count: int, work: int | None = None) -> int:
    """Return into how many parts `in_parts` cuts so many rows: at least 1.

    Sums that each part keeps for itself need as many places. For equal settings it is always the
    same number, so that results are.
    """
    touched = count if work is None else work
    if touched < 2 * WORTH_A_THREAD:
        return 1
    return max(1, min(get_num_threads(), count, touched // WORTH_A_THREAD))


_pool = Pool()


def forget() -> None:
    """Begin anew in a forked process, which has none of the threads."""
    global _pool
    _pool = Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)
