"""The pool of worker processes of one iterator, in the parent process.

Each worker has one pipe. The pool starts workers, sends tasks, monitors and ends them: after an
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
from ..deferred_interrupts import defer_interrupts
from . import batch_transport, worker
from .worker_config import WorkerConfig
from .worker_errors import timeout_error, worker_died_error

POLL_SECONDS = 1.0
"""Seconds after which workers are checked even if there was no answer."""

GRACE_SECONDS = 1.0
"""Seconds in which a worker may finish its batch before it gets a signal to end."""


def resolve_context(context: Any) -> Any:
    """Return the multiprocessing context: the argument, the program's setting, or fork.

    Fork is the default on Linux, so that a dataset defined in a notebook can be used.
    """
    if context is None:
        start_method = multiprocessing.get_start_method(allow_none=True)
        fork = "fork" if sys.platform == "linux" else None
        return multiprocessing.get_context(start_method or fork)
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


class WorkerPool:
    """Worker processes, each with a pipe.

    Args:
        timeout: seconds to wait for an answer; 0 waits for as long as the workers live.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.process_id = os.getpid()
        self.processes: list[Any] = []
        self.pipes: list[Any] = []
        self._has_warned = False

    def start(self, configs: list[WorkerConfig], context: Any) -> None:
        """Start a process for each config, all or none.

        Args:
            configs: the settings of each worker.
            context: a context of `multiprocessing`.
        """
        if context.get_start_method() == "fork" and find_spec("threadpoolctl"):
            import_module("threadpoolctl")  # once here, instead of in each worker
        try:
            with defer_interrupts():
                for config in configs:
                    self._start(config, context)
        except BaseException:
            self.close()
            raise

    def _start(self, config: WorkerConfig, context: Any) -> None:
        parent_end, child_end = context.Pipe()
        # A worker that is forked later must not inherit this end: the pipe would stay open.
        util.register_after_fork(parent_end, connections.Connection.close)
        in_main_thread = threading.current_thread() is threading.main_thread()
        forks = context.get_start_method() in ("fork", "spawn")
        # PR_SET_PDEATHSIG is sent when the thread that started the process ends.
        config.parent_pid = os.getpid() if in_main_thread and forks else None
        name = f"DataLoader worker {config.worker}"
        process = context.Process(target=worker.main, args=(config, child_end), name=name)
        self.pipes.append(parent_end)
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
            child_end.close()
        self.processes.append(process)

    @property
    def is_closed(self) -> bool:
        """Whether the workers have been ended."""
        return not self.processes

    def send_task(self, number: int, task: Any) -> None:
        """Send a task to a worker."""
        try:
            self.pipes[number].send(task)
        except (BrokenPipeError, ConnectionResetError):
            self._raise_worker_died(number, task[2])

    def receive(
        self, awaited: int, describe_request: Callable[[int], str]
    ) -> tuple[Any, batch_transport.Batch]:
        """Wait for the next answer of any worker.

        Args:
            awaited: the worker whose answer is needed next.
            describe_request: describes what a worker was asked for.

        Raises: WorkerDied, WorkerTimeout.
        """
        end = time.monotonic() + self.timeout if self.timeout else None
        while True:
            left = POLL_SECONDS if end is None else min(POLL_SECONDS, end - time.monotonic())
            sentinels = [process.sentinel for process in self.processes]
            ready = connections.wait([*self.pipes, *sentinels], max(left, 0))
            for number, pipe in enumerate(self.pipes):
                if pipe in ready:
                    return self._read_answer(number, describe_request)
            for number, process in enumerate(self.processes):
                if not process.is_alive():
                    self._raise_worker_died(number, describe_request(number))
            if end is not None and time.monotonic() >= end:
                pid, count = self.processes[awaited].pid, len(self.processes)
                raise timeout_error(awaited, count, pid, self.timeout, describe_request(awaited))

    def _read_answer(
        self, number: int, describe_request: Callable[[int], str]
    ) -> tuple[Any, batch_transport.Batch]:
        try:
            head, batch, problem = batch_transport.receive(self.pipes[number])
        except (EOFError, OSError):
            self._raise_worker_died(number, describe_request(number))
            raise AssertionError from None  # never reached
        if problem and not self._has_warned:
            self._has_warned = True
            warn(
                f"DataLoader: no shared memory for a batch of {problem}; batches go through "
                "the pipe instead, which is slower. Fewer workers or smaller batches need less."
            )
        return head, batch

    def _raise_worker_died(self, number: int, batch: str) -> None:
        """Raise WorkerDied for a worker whose pipe is closed."""
        process = self.processes[number]
        process.join(GRACE_SECONDS)
        raise worker_died_error(number, len(self.processes), process.pid, process.exitcode, batch)

    def close(self, later: bool = False) -> None:
        """End all workers and wait for them.

        Args:
            later: raise an interrupt that arrives meanwhile a moment later. In a finalizer, which
                calls this for a forgotten iterator, Python would ignore the exception.
        """
        if os.getpid() != self.process_id:
            return
        try:
            with defer_interrupts():
                self._end_all()
        except KeyboardInterrupt:
            if not later:
                raise
            threading.Timer(0.05, signal.raise_signal, [signal.SIGINT]).start()

    def _end_all(self) -> None:
        pipes, self.pipes = self.pipes, []
        processes, self.processes = self.processes, []
        for pipe in pipes:
            shut_down_pipe(pipe)
        for end in (None, "terminate", "kill"):
            alive = [process for process in processes if process.is_alive()]
            if end is not None:
                for alive_process in alive:
                    getattr(alive_process, end)()
            deadline = time.monotonic() + GRACE_SECONDS
            for alive_process in alive:
                alive_process.join(max(0.0, deadline - time.monotonic()) if end != "kill" else None)
        for process in processes:
            process.close()


def shut_down_pipe(pipe: Any) -> None:
    """Close a pipe for both sides, even if another forked process still holds it open."""
    try:
        with batch_transport.as_socket(pipe) as connection:
            connection.shutdown(2)
    except (OSError, AttributeError):
        pass  # not a socket on this system, or closed by the other side
    pipe.close()
