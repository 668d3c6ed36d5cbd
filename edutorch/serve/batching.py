"""Dynamic batching: requests of one shape share a call, by number of rows and by time.

All of it runs on the thread of the event loop; only `run_batch` runs on a worker. A request is
`Pending` until its future has a result. It leaves its batch when the client goes away or its
deadline passes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor
from time import perf_counter
from typing import Any

import numpy as np

from ..errors import EdutorchError
from .errors import BadRequest, ModelError, RequestError
from .metrics import ModelMetrics
from .served import Arrays, Served, check_outputs
from .settings import Settings

Shape = tuple[tuple[int, ...], ...]


class Pending:
    """A request that waits for its turn, or for its result."""

    __slots__ = ("arrays", "arrived", "future", "key", "rows", "started")

    def __init__(self, arrays: Arrays, key: Shape, rows: int, future: asyncio.Future[Any]) -> None:
        self.arrays, self.key, self.rows, self.future = arrays, key, rows, future
        self.arrived = perf_counter()
        self.started = 0.0


class Batcher:
    """Collects the requests of one version of a model, and runs them together.

    A batch starts when a worker is free and either `max_batch` rows of one shape wait (or as many
    as the model takes), or the first of them has waited for `batch_delay`. While all workers are
    busy, what arrives piles up, so the batches grow with the load.

    Args:
        joins: False if each request has a call of its own.
        executor: the threads that run models.
    """

    def __init__(
        self,
        served: Served,
        settings: Settings,
        executor: Executor,
        metrics: ModelMetrics,
        joins: bool,
    ) -> None:
        self.served, self.settings, self.executor = served, settings, executor
        self.metrics, self.joins = metrics, joins
        _, most = served.row_limits() or (1, settings.max_batch)
        self.most_rows = min(settings.max_batch, most)
        self.groups: dict[Shape, deque[Pending]] = {}
        self.waiting = 0
        self.running = 0
        self.timer: asyncio.TimerHandle | None = None
        self.closing = False
        self.idle = asyncio.Event()
        self.idle.set()

    def is_full(self) -> bool:
        """Return True if the queue takes no more requests."""
        return self.waiting >= self.settings.queue

    def submit(self, arrays: Arrays) -> Pending:
        """Queue a request.

        Raises: RequestError: the queue is full (503).
        """
        if self.is_full():
            raise queue_full(self.settings.queue)
        key, rows = (), 1
        if self.joins:
            key = tuple(array.shape[1:] for array in arrays.values())
            rows = len(next(iter(arrays.values())))
        pending = Pending(arrays, key, rows, asyncio.get_running_loop().create_future())
        self.groups.setdefault(key, deque()).append(pending)
        self.count_waiting(1)
        self.start_batches()
        return pending

    def withdraw(self, pending: Pending) -> None:
        """Take a request out of its batch, if that has not started."""
        group = self.groups.get(pending.key)
        if group is not None and not pending.started and pending in group:
            group.remove(pending)
            if not group:
                del self.groups[pending.key]
            self.count_waiting(-1)

    def count_waiting(self, change: int) -> None:
        """Keep the length of the queue, its gauge and the event `idle`."""
        self.waiting += change
        self.metrics.queue.inc(change)
        if self.waiting or self.running:
            self.idle.clear()
        else:
            self.idle.set()

    def start_batches(self) -> None:
        """Start all batches that are due and have a worker; set a timer for the next."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        while self.groups and self.running < self.settings.workers:
            key, wait = self.choose_group()
            if wait > 0:
                loop = asyncio.get_running_loop()
                self.timer = loop.call_later(wait, self.start_batches)
                return
            self.start(self.take(key))

    def choose_group(self) -> tuple[Shape, float]:
        """Return the shape whose batch is next, and the seconds until it is due."""
        full = self.most_rows
        for key, group in self.groups.items():
            if not self.joins or len(group) >= full or sum(item.rows for item in group) >= full:
                return key, 0.0
        key, group = min(self.groups.items(), key=lambda item: item[1][0].arrived)
        waited = perf_counter() - group[0].arrived
        return key, 0.0 if self.closing else self.settings.batch_delay - waited

    def take(self, key: Shape) -> list[Pending]:
        """Take as many requests of a shape out of the queue as a batch holds, and at least one."""
        group = self.groups[key]
        batch = [group.popleft()]
        rows = batch[0].rows
        while self.joins and group and rows + group[0].rows <= self.most_rows:
            batch.append(group.popleft())
            rows += batch[-1].rows
        if not group:
            del self.groups[key]
        self.metrics.batch.observe(rows)
        return batch

    def start(self, batch: list[Pending]) -> None:
        """Run a batch on a worker."""
        now = perf_counter()
        for pending in batch:
            pending.started = now
            self.metrics.queue_time.observe(now - pending.arrived)
        self.running += 1
        self.count_waiting(-len(batch))
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self.executor, run_batch, self.served, batch)
        running.add_done_callback(lambda done: self.finish(batch, done.result()))

    def finish(self, batch: list[Pending], results: list[Arrays | Exception]) -> None:
        """Hand each request of a batch its result."""
        self.running -= 1
        self.metrics.compute_time.observe(perf_counter() - batch[0].started)
        for pending, result in zip(batch, results, strict=True):
            if pending.future.done():  # the client went away, or the deadline has passed
                continue
            if isinstance(result, Exception):
                pending.future.set_exception(result)
            else:
                pending.future.set_result(result)
        self.count_waiting(0)
        self.start_batches()

    async def drain(self) -> None:
        """Run what is left in the queue at once, and return when all of it is done."""
        self.closing = True
        self.start_batches()
        await self.idle.wait()


def queue_full(size: int) -> RequestError:
    """Make the error for a queue that takes no more: the client may come again in a second."""
    return RequestError(503, f"the queue of {size} requests is full", {"Retry-After": "1"})


def run_batch(served: Served, batch: Sequence[Pending]) -> list[Arrays | Exception]:
    """Run a batch in one call, and return the result of each request.

    If the call fails, each request runs alone: one that the model cannot compute spoils no other.
    """
    try:
        names = [spec.name for spec in served.inputs]
        columns = {name: [pending.arrays[name] for pending in batch] for name in names}
        if len(batch) == 1:  # a copy: what came over the network cannot be written to
            results = call({name: rows[0].copy() for name, rows in columns.items()}, served)
            return [results]
        results = call({name: np.concatenate(rows) for name, rows in columns.items()}, served)
        return split_rows(results, [pending.rows for pending in batch])
    except Exception as error:  # noqa: BLE001  (whatever the model raises goes to the client)
        if len(batch) > 1:
            return [result for pending in batch for result in run_batch(served, [pending])]
        return [as_answer(error)]


def call(arrays: Arrays, served: Served) -> Arrays:
    """Call a model, and check what it returns."""
    results = served.call(arrays)
    check_outputs(served, results)
    return results


def split_rows(arrays: Arrays, counts: Sequence[int]) -> list[Arrays | Exception]:
    """Cut the rows of a batch's results into those of each request."""
    ends = np.cumsum(counts).tolist()
    return [
        {name: array[end - count : end] for name, array in arrays.items()}
        for count, end in zip(counts, ends, strict=True)
    ]


def as_answer(error: Exception) -> Exception:
    """Return the error that the client gets: of what it sent (400), or of the model (500).

    An op that refuses its arguments has been sent them, as an embedding an index that it lacks.
    """
    if isinstance(error, EdutorchError) and not isinstance(error, RequestError | ModelError):
        return BadRequest(f"the model cannot compute this: {error}")
    return error
