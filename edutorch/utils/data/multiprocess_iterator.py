"""The iterator over one epoch whose batches are made by worker processes, and their pool."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from itertools import cycle
from multiprocessing import connection as connections
from multiprocessing import util
from multiprocessing.context import BaseContext
from typing import Any

from ...backends.platform import IS_LINUX
from ...errors import warn
from ..process import defer_interrupts
from . import batch_transport
from .batch_transport import Batch
from .dataloader import BatchIterator, DataLoader, is_iterable, make_worker_config
from .fetch import WorkerConfig
from .worker import main as worker_main
from .worker_errors import format_indices, timeout_error, worker_died_error

POLL_SECONDS = 1.0
"""Seconds after which workers are checked even if there was no answer."""


GRACE_SECONDS = 1.0
"""Seconds in which a worker may finish its batch before it gets a signal to end."""


def resolve_context(context: str | BaseContext | None) -> BaseContext:
    """Return the multiprocessing context: the argument, the program's setting, or fork.

    Fork is the default on Linux, so that a dataset defined in a notebook can be used.
    """
    if context is None:
        start_method = multiprocessing.get_start_method(allow_none=True)
        fork = "fork" if IS_LINUX else None
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


# The pool ---------------------------------------------------------------------------------------


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

    def start(self, configs: list[WorkerConfig], context: BaseContext) -> None:
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

    def _start(self, config: WorkerConfig, context: BaseContext) -> None:
        parent_end, child_end = context.Pipe()
        # A worker that is forked later must not inherit this end: the pipe would stay open.
        util.register_after_fork(parent_end, connections.Connection.close)
        in_main_thread = threading.current_thread() is threading.main_thread()
        forks = context.get_start_method() in ("fork", "spawn")
        # PR_SET_PDEATHSIG is sent when the thread that started the process ends.
        config.parent_pid = os.getpid() if in_main_thread and forks else None
        name = f"DataLoader worker {config.worker}"
        process = context.Process(target=worker_main, args=(config, child_end), name=name)  # pyright: ignore[reportAttributeAccessIssue]
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

    def send_task(self, number: int, task: tuple[int, int, Any]) -> None:
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


def shut_down_pipe(pipe: connections.Connection) -> None:
    """Close a pipe for both sides, even if another forked process still holds it open."""
    try:
        with batch_transport.as_socket(pipe) as connection:
            connection.shutdown(2)
    except (OSError, AttributeError):
        pass  # not a socket on this system, or closed by the other side
    pipe.close()


# The iterator -----------------------------------------------------------------------------------

END = object()


class MultiProcessIterator(BatchIterator):
    """Makes batches in worker processes ahead of time, and returns them in order.

    Batch n is made by worker n mod num_workers, so that random numbers drawn in a worker lead to
    the same batches in each run. A worker whose stream has ended is skipped.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        self._in_order, self._persistent = loader.in_order, loader.persistent_workers
        self._prefetch, self._is_iterable = loader.prefetch_factor or 2, is_iterable(loader)
        configs = [
            make_worker_config(loader, index, self._base_seed)
            for index in range(loader.num_workers)
        ]
        self._pool = WorkerPool(loader.timeout)
        # Runs when the iterator is collected and, before Python waits for children, at exit.
        util.Finalize(self, self._pool.close, args=(True,), exitpriority=10)
        self._pool.start(configs, resolve_context(loader.multiprocessing_context))
        self._epoch = 0
        self._start_epoch()

    def restart(self, loader: DataLoader[Any]) -> MultiProcessIterator:
        """Start another epoch with the same workers."""
        self._begin(loader)
        self._start_epoch()
        return self

    @property
    def is_over(self) -> bool:
        """Whether the workers have ended."""
        return self._pool.is_closed

    def _start_epoch(self) -> None:
        self._epoch += 1
        self._active = list(range(len(self._pool.processes)))
        self._worker_cycle = cycle(self._active[:])
        self._pending: deque[int] = deque()  # the requested batches, in order
        self._worker_of: dict[int, int] = {}
        self._requests: dict[int, Any] = {}
        self._ready: dict[int, Batch] = {}  # received batches
        self._sent, self._exhausted = 0, False
        self._send_tasks()

    # Tasks

    def _send_tasks(self) -> None:
        """Request batches until each worker has `prefetch_factor` of them to do."""
        try:
            while not self._exhausted and len(self._pending) < self._prefetch * len(self._active):
                request = next(self._indices, END)
                if request is END:
                    self._exhausted = True
                    return
                number, worker = self._sent, self._next_worker()
                self._sent += 1
                self._pending.append(number)
                self._worker_of[number], self._requests[number] = worker, request
                self._pool.send_task(worker, (self._epoch, number, request))
        except BaseException:
            self._pool.close()
            raise

    def _next_worker(self) -> int:
        for worker in self._worker_cycle:
            free = self._in_order or len(self._outstanding(worker)) < self._prefetch
            if worker in self._active and free:
                return worker
        raise AssertionError  # never reached: the cycle is infinite

    def _outstanding(self, worker: int) -> list[int]:
        return [n for n in self._pending if self._worker_of[n] == worker and n not in self._ready]

    def _describe_request(self, worker: int) -> str:
        outstanding = self._outstanding(worker)
        if not outstanding:
            return "none: it had nothing to do"
        request = self._requests[outstanding[0]]
        return (
            f"the next {request or 1} of its stream"
            if self._is_iterable
            else format_indices(request)
        )

    # Answers

    def _next(self) -> Any:
        if self._pool.process_id != os.getpid():
            raise RuntimeError(
                "DataLoader: this iterator was made in another process, which owns its workers; "
                "make one here with iter(loader)"
            )
        try:
            while self._pending and not self._pool.is_closed:
                number = self._next_ready()
                if number is not None:
                    return self._deliver(number)
                self._receive()
        except BaseException:  # a worker has died, or the user has pressed Ctrl-C
            self._pool.close()
            raise
        if not self._persistent:
            self._pool.close()
        raise StopIteration

    def _next_ready(self) -> int | None:
        if self._in_order:
            return self._pending[0] if self._pending[0] in self._ready else None
        return next(iter(self._ready), None)

    def _deliver(self, number: int) -> Any:
        batch = self._ready.pop(number)
        self._pending.remove(number)
        del self._worker_of[number], self._requests[number]
        self._send_tasks()
        return batch.unpack()

    def _receive(self) -> None:
        (status, epoch, number), batch = self._pool.receive(
            self._worker_of[self._pending[0]], self._describe_request
        )
        if epoch != self._epoch:
            return  # requested in an epoch that was abandoned
        if status != "ended":
            self._ready[number] = batch
            return
        worker = self._worker_of[number]
        self._active.remove(worker)
        for unanswered in self._outstanding(worker):
            self._pending.remove(unanswered)
            del self._worker_of[unanswered], self._requests[unanswered]
        self._send_tasks()
