"""The iterator over one epoch whose batches are made by worker processes."""

from __future__ import annotations

import os
from collections import deque
from itertools import cycle
from multiprocessing import util
from typing import Any

from .batch_transport import Batch
from .single_process_iterator import BatchIterator
from .worker_config import make_worker_config
from .worker_errors import format_indices
from .worker_pool import WorkerPool, resolve_context

END = object()


class MultiProcessIterator(BatchIterator):
    """Makes batches in worker processes ahead of time, and returns them in order.

    Batch n is made by worker n mod num_workers, so that random numbers drawn in a worker lead to
    the same batches in each run. A worker whose stream has ended is skipped.
    """

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._in_order, self._persistent = loader.in_order, loader.persistent_workers
        self._prefetch, self._is_iterable = loader.prefetch_factor, loader._is_iterable
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

    def restart(self, loader: Any) -> MultiProcessIterator:
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

    # Tasks ---------------------------------------------------------------------------------------

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

    # Answers -------------------------------------------------------------------------------------

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
