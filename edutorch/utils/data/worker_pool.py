"""The worker processes of one iterator, seen from the process that uses them.

Each has one pipe. It is started, given tasks, watched, and ended: whatever happens, by an
interrupt, an error or a forgotten iterator, no process and no memory is left behind.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import connection as connections
from multiprocessing import util
from typing import Any

from ...errors import warn
from ..deferred_interrupts import uninterrupted
from . import batch_transport, worker
from .worker_config import Job
from .worker_errors import died, timed_out

LOOK_AGAIN = 1.0
"""Seconds after which a worker is looked at although nothing was heard."""

PATIENCE = 1.0
"""Seconds in which a worker may finish what it is at before it is told to end by a signal."""


def context_of(context: Any) -> Any:
    """Return how processes are started: as asked for, as set for the program, or by fork.

    Fork is the default on Linux: a dataset that was defined in a notebook can then be used.
    """
    if context is None:
        chosen = multiprocessing.get_start_method(allow_none=True)
        fork = "fork" if sys.platform == "linux" else None
        return multiprocessing.get_context(chosen or fork)
    if isinstance(context, str):
        methods = multiprocessing.get_all_start_methods()
        if context not in methods:
            raise ValueError(
                "multiprocessing_context option should specify a valid start method in "
                f"{methods}, but got multiprocessing_context={context!r}"
            )
        return multiprocessing.get_context(context)
    if not hasattr(context, "Process") or not hasattr(context, "Pipe"):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string "
            f"specifying the start method, but got multiprocessing_context={context}"
        )
    return context


class Crew:
    """Worker processes, each behind a pipe of its own.

    Args:
        timeout: seconds to wait for an answer; 0 waits for as long as the workers live.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.process_id = os.getpid()
        self.processes: list[Any] = []
        self.pipes: list[Any] = []
        self._complained = False

    def start(self, jobs: list[Job], context: Any) -> None:
        """Start a process for each job, all or none.

        Args:
            jobs: what each is started with.
            context: how processes are started, from `multiprocessing`.
        """
        if context.get_start_method() == "fork" and find_spec("threadpoolctl"):
            import_module("threadpoolctl")  # once here, instead of in each worker
        try:
            with uninterrupted():
                for job in jobs:
                    self._start(job, context)
        except BaseException:
            self.close()
            raise

    def _start(self, job: Job, context: Any) -> None:
        ours, theirs = context.Pipe()
        # A worker that is forked later must not hold this end: the pipe would never end.
        util.register_after_fork(ours, connections.Connection.close)
        in_main_thread = threading.current_thread() is threading.main_thread()
        forks = context.get_start_method() in ("fork", "spawn")
        # Linux takes the end of the thread that started a process for the end of its parent.
        job.dies_with = os.getpid() if in_main_thread and forks else None
        name = f"DataLoader worker {job.worker}"
        process = context.Process(target=worker.main, args=(job, theirs), name=name)
        self.pipes.append(ours)
        try:
            process.start()
        except Exception as error:
            if not isinstance(error, OSError):
                error.add_note(
                    "a worker that is not forked gets the dataset, collate_fn and worker_init_fn "
                    "pickled: define them at the top of a module, without lambda"
                )
            raise
        finally:
            theirs.close()
        self.processes.append(process)

    @property
    def closed(self) -> bool:
        """Whether the workers have been ended."""
        return not self.processes

    def give(self, number: int, task: Any) -> None:
        """Send a task to a worker."""
        try:
            self.pipes[number].send(task)
        except (BrokenPipeError, ConnectionResetError):
            self._bury(number, task[2])

    def take(self, awaited: int, asked: Callable[[int], str]) -> tuple[Any, batch_transport.Parcel]:
        """Wait for the next answer of any worker.

        Args:
            awaited: the worker whose answer is needed next.
            asked: says in words what a worker was asked for.

        Raises: WorkerDied, WorkerTimeout.
        """
        end = time.monotonic() + self.timeout if self.timeout else None
        while True:
            left = LOOK_AGAIN if end is None else min(LOOK_AGAIN, end - time.monotonic())
            sentinels = [process.sentinel for process in self.processes]
            ready = connections.wait([*self.pipes, *sentinels], max(left, 0))
            for number, pipe in enumerate(self.pipes):
                if pipe in ready:
                    return self._received(number, asked)
            for number, process in enumerate(self.processes):
                if not process.is_alive():
                    self._bury(number, asked(number))
            if end is not None and time.monotonic() >= end:
                pid, count = self.processes[awaited].pid, len(self.processes)
                raise timed_out(awaited, count, pid, self.timeout, asked(awaited))

    def _received(
        self, number: int, asked: Callable[[int], str]
    ) -> tuple[Any, batch_transport.Parcel]:
        try:
            head, batch, complaint = batch_transport.receive(self.pipes[number])
        except (EOFError, OSError):
            self._bury(number, asked(number))
            raise AssertionError from None  # never reached
        if complaint and not self._complained:
            self._complained = True
            warn(
                f"DataLoader: no shared memory for a batch of {complaint}; batches go through "
                "the pipe instead, which is slower. Fewer workers or smaller batches need less."
            )
        return head, batch

    def _bury(self, number: int, batch: str) -> None:
        """Raise WorkerDied for a worker whose pipe has ended."""
        process = self.processes[number]
        process.join(PATIENCE)
        raise died(number, len(self.processes), process.pid, process.exitcode, batch)

    def close(self, later: bool = False) -> None:
        """End all workers and wait until they are gone.

        Args:
            later: raise an interrupt that comes meanwhile a moment later. In a finalizer, which
                calls this for a forgotten iterator, Python would swallow it.
        """
        if os.getpid() != self.process_id:
            return
        try:
            with uninterrupted():
                self._end_all()
        except KeyboardInterrupt:
            if not later:
                raise
            threading.Timer(0.05, signal.raise_signal, [signal.SIGINT]).start()

    def _end_all(self) -> None:
        pipes, self.pipes = self.pipes, []
        processes, self.processes = self.processes, []
        for pipe in pipes:
            hang_up(pipe)
        for end in (None, "terminate", "kill"):
            alive = [process for process in processes if process.is_alive()]
            if end is not None:
                for alive_process in alive:
                    getattr(alive_process, end)()
            deadline = time.monotonic() + PATIENCE
            for alive_process in alive:
                alive_process.join(max(0.0, deadline - time.monotonic()) if end != "kill" else None)
        for process in processes:
            process.close()


def hang_up(pipe: Any) -> None:
    """End a pipe for both sides, even if a process that was forked meanwhile still holds it."""
    try:
        with batch_transport.as_socket(pipe) as connection:
            connection.shutdown(2)
    except (OSError, AttributeError):
        pass  # not a socket on this system, or ended by the other side
    pipe.close()
