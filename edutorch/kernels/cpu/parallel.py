"""One thread pool for all kernels: large work is cut into as many parts as there are threads.

How a part gets from a kernel to a thread is in `work_queue.py`. This file has the worker threads:
they spin for about a millisecond after each part, and then sleep until a kernel wakes them. So they
respond at once in a training loop, and leave the CPU alone while a program does something else.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from ...backends.platform import c_function
from ...settings import State, get_num_threads
from . import work_queue
from .work_queue import FAILURE, POOL_FLAG, READY, SLOT_WORDS, STATE, serve

MIN_WORK_PER_THREAD = 16_384
"""With fewer elements, handing them to another thread takes longer than computing them."""

MIN_PARALLEL = 2 * MIN_WORK_PER_THREAD
"""From so many elements on a kernel is divided."""

SPIN_LIMIT = 25_000
"""How often a worker polls its task slot before it sleeps: 1 ms, at about 40 ns each."""

SLEEP_SECONDS = 50e-6
"""How long a caller sleeps after it has polled `SPIN_LIMIT` times: there may be too few cores."""

MIN_PAUSE, MAX_PAUSE = 0.001, 0.02
"""The bounds, in seconds, of the pause in which no worker is used after workers came too late."""

CACHE_LINE = 64

current_cpu: Callable[[], int] | None = c_function("sched_getcpu")
"""Return the CPU of the calling thread; None where the system does not say it."""


def entry_of(kernel: Any) -> Any:
    """Return the entry of a kernel with one signature, whose arguments are numbers and tuples.

    A call saves the 0.3 to 0.8 µs in which numba looks for the types of the arguments. Nothing is
    compared with the signature: arrays come as addresses.
    """
    ((_, compiled),) = kernel.overloads.items()
    return compiled.entry_point


finish = entry_of(work_queue.finish)


class WorkerThread:
    """A thread that runs parts of kernels.

    Attributes:
        slot: the address of its task slot.
        is_asleep: whether it has to be woken up.
        avoided_cpu: where it must not run: that of the last caller who woke it; -1 for none.
    """

    def __init__(self, name: str) -> None:
        memory = np.zeros(SLOT_WORDS + CACHE_LINE // 8, np.int64)
        self._words = memory[-memory.ctypes.data % CACHE_LINE // 8 :]
        self.slot = self._words.ctypes.data
        self.is_asleep = False
        self.avoided_cpu = -1
        self._semaphore = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            serve(self.slot, SPIN_LIMIT)
            # Setting the flag needs the GIL, for which this thread may have waited; meanwhile a
            # kernel that takes it for awake may have filled the slot.
            self.is_asleep = True
            if self._words[STATE] == READY:
                self.is_asleep = False
            else:  # what arrives from now on, the caller will run itself
                self._semaphore.acquire()

    def wake(self) -> None:
        """Make it poll its task slot again, on another CPU than the caller's.

        With few CPUs, Linux may wake a thread on the CPU of the one that wakes it though others
        are idle. Then the two take turns there, until the scheduler looks again after some 3 ms.
        """
        if current_cpu is not None and (cpu := current_cpu()) != self.avoided_cpu:
            self._avoid(cpu)
        self.is_asleep = False
        self._semaphore.release()

    def _avoid(self, cpu: int) -> None:
        """Let it run where the caller may, but for one CPU."""
        self.avoided_cpu = cpu
        try:
            allowed = os.sched_getaffinity(0)
            os.sched_setaffinity(self._thread.native_id or 0, allowed - {cpu} or allowed)
        except OSError:  # a sandbox forbids it
            pass


class ThreadPool:
    """Worker threads that run one kernel at a time.

    Attributes:
        users: the caller that owns the pool. The first to enter itself does, and `setdefault` is
            atomic under the GIL; so Ctrl-C between two lines cannot leave the pool locked.
        paused_until: until when no worker is used. Workers that were awake and had not begun when
            the caller's own part was done lack a core: other programs need the CPU, and spinning
            in vain only takes more of it from them.
    """

    def __init__(self) -> None:
        self.paused_until = self._pause = 0.0
        self.users: dict[str, object] = {}
        self.workers: list[WorkerThread] = []
        self._needed: list[WorkerThread] = []
        self._words = np.zeros(1, np.int64)
        self._address = self._flagged_address = self._parts = 0

    def run(self, kernel: Callable[..., None], count: int, parts: int, arguments: Any) -> None:
        """Run all parts of a kernel; return when no thread is writing any more."""
        if parts != self._parts:
            self._set_parts(parts)
        # Those who sleep are woken for the next kernel, too: this one does not wait for them.
        sleeping = False
        for worker in self._needed:
            if worker.is_asleep:
                worker.wake()
                sleeping = True
        try:
            kernel(self._flagged_address, count, *arguments)
        finally:
            outcome = self._wait()
        if not sleeping and (outcome or self._pause):
            if outcome % FAILURE:  # parts that the caller had to run for a worker
                self._pause = min(4 * self._pause + MIN_PAUSE, MAX_PAUSE)
                self.paused_until = time.perf_counter() + self._pause
            else:
                self._pause = self._pause / 2 if self._pause > MIN_PAUSE / 64 else 0.0
        if outcome >= FAILURE:
            raise RuntimeError(
                f"{kernel.__name__}: a part of this kernel has failed in another thread; "
                "after set_num_threads(1) the error itself is raised"
            )

    def _set_parts(self, parts: int) -> None:
        """Have a worker for each part but the first."""
        while len(self.workers) < parts - 1:
            self.workers.append(WorkerThread(f"edutorch-kernel-{len(self.workers) + 1}"))
            self._words = np.array([0, *(worker.slot for worker in self.workers)])
            self._address = self._words.ctypes.data
            self._flagged_address = POOL_FLAG + self._address
        self._words[0] = self._parts = parts
        self._needed = self.workers[: parts - 1]

    def _wait(self) -> int:
        """Wait for all parts, even on Ctrl-C: only then may the arrays be freed.

        Returns: the result of `finish`.
        """
        interrupt = None
        while True:
            try:
                outcome: int = finish(self._address, SPIN_LIMIT)
                if outcome >= 0:
                    break
                time.sleep(SLEEP_SECONDS)
            except BaseException as error:  # noqa: BLE001 (raised again, a moment later)
                interrupt = error
        if interrupt is not None:
            raise interrupt
        return outcome


def parallel_for(
    kernel: Callable[..., None], count: int, *arguments: Any, work: int | None = None
) -> None:
    """Run `kernel(start, stop, *arguments)` over the range from 0 to `count`, on all threads.

    Args:
        kernel: begins with `start, stop = claim_range(start, stop)`, or is the entry of one that
            does; any other function is called by this thread alone, part by part.
        work: the number of elements touched; `count` by default.
    """
    parts = count_parts(count, work)
    if parts == 1:
        kernel(0, count, *arguments)
        return
    caller, pool = object(), _pool
    try:
        claims_range = (
            kernel.__class__ is BuiltinFunctionType or "claim_range" in kernel.__code__.co_names
        )
        is_running = time.perf_counter() > pool.paused_until
        if claims_range and is_running and pool.users.setdefault("now", caller) is caller:
            pool.run(kernel, count, parts, arguments)
        else:  # the pool is paused, or runs a kernel for another thread of the user's
            for part in range(parts):
                kernel(count * part // parts, count * (part + 1) // parts, *arguments)
    finally:
        if pool.users.get("now") is caller:
            pool.users.clear()


def count_parts(count: int, work: int | None = None) -> int:
    """Return the number of parts into which `parallel_for` cuts a range: at least 1.

    Partial sums need one slot per part. The number depends on the settings alone, so results are
    reproducible.
    """
    elements = count if work is None else work
    if elements < MIN_PARALLEL:
        return 1
    parts, threads = elements // MIN_WORK_PER_THREAD, State.threads or get_num_threads()
    if parts > threads:  # `min` would take as long as all of this
        parts = threads
    return parts if parts < count else max(1, count)


_pool = ThreadPool()


def reset_pool() -> None:
    """Make a new pool in a forked process, which has none of the threads."""
    global _pool
    _pool = ThreadPool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=reset_pool)
