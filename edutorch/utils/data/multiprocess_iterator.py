"""An epoch whose batches are made by workers: who makes which, in which order they come."""

from __future__ import annotations

import os
from collections import deque
from itertools import cycle
from multiprocessing import util
from typing import Any

from .batch_transport import Parcel
from .single_process_iterator import Batches
from .worker_config import job_of
from .worker_errors import shortened
from .worker_pool import Crew, context_of

THE_END = object()


class FromWorkers(Batches):
    """Lets worker processes make batches ahead, and gives them out in order.

    Batch number n is made by worker n mod num_workers, so that random numbers drawn in a
    worker lead to the same batches on each run. A worker whose stream has ended is left out.
    """

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._in_order, self._persistent = loader.in_order, loader.persistent_workers
        self._prefetch, self._streams = loader.prefetch_factor, loader._streams
        jobs = [job_of(loader, index, self._base_seed) for index in range(loader.num_workers)]
        self._crew = Crew(loader.timeout)
        # Runs when the iterator is forgotten and, before Python waits for children, at the end.
        util.Finalize(self, self._crew.close, args=(True,), exitpriority=10)
        self._crew.start(jobs, context_of(loader.multiprocessing_context))
        self._epoch = 0
        self._start_epoch()

    def again(self, loader: Any) -> FromWorkers:
        """Start another epoch with the same workers."""
        self._begin(loader)
        self._start_epoch()
        return self

    @property
    def is_over(self) -> bool:
        """Whether the workers are gone."""
        return self._crew.closed

    def _start_epoch(self) -> None:
        self._epoch += 1
        self._active = list(range(len(self._crew.processes)))
        self._turns = cycle(self._active[:])
        self._due: deque[int] = deque()  # the batches that were asked for, in order
        self._owner: dict[int, int] = {}
        self._asked: dict[int, Any] = {}
        self._here: dict[int, Parcel] = {}  # those that have arrived
        self._sent, self._exhausted = 0, False
        self._hand_out()

    # Tasks ---------------------------------------------------------------------------------------

    def _hand_out(self) -> None:
        """Ask for batches until each worker has enough to do."""
        try:
            while not self._exhausted and len(self._due) < self._prefetch * len(self._active):
                asked = next(self._numbers, THE_END)
                if asked is THE_END:
                    self._exhausted = True
                    return
                number, worker = self._sent, self._whose_turn()
                self._sent += 1
                self._due.append(number)
                self._owner[number], self._asked[number] = worker, asked
                self._crew.give(worker, (self._epoch, number, asked))
        except BaseException:
            self._crew.close()
            raise

    def _whose_turn(self) -> int:
        for worker in self._turns:
            free = self._in_order or len(self._unanswered(worker)) < self._prefetch
            if worker in self._active and free:
                return worker
        raise AssertionError  # never reached: the turns have no end

    def _unanswered(self, worker: int) -> list[int]:
        return [n for n in self._due if self._owner[n] == worker and n not in self._here]

    def _in_words(self, worker: int) -> str:
        waiting = self._unanswered(worker)
        if not waiting:
            return "none: it had nothing to do"
        asked = self._asked[waiting[0]]
        return f"the next {asked or 1} of its stream" if self._streams else shortened(asked)

    # Answers -------------------------------------------------------------------------------------

    def _next(self) -> Any:
        if self._crew.process_id != os.getpid():
            raise RuntimeError(
                "DataLoader: this iterator was made in another process, which owns its workers; "
                "make one here with iter(loader)"
            )
        try:
            while self._due and not self._crew.closed:
                number = self._next_here()
                if number is not None:
                    return self._handed_over(number)
                self._receive()
        except BaseException:  # a worker is gone, or the user has pressed Ctrl-C
            self._crew.close()
            raise
        if not self._persistent:
            self._crew.close()
        raise StopIteration

    def _next_here(self) -> int | None:
        if self._in_order:
            return self._due[0] if self._due[0] in self._here else None
        return next(iter(self._here), None)

    def _handed_over(self, number: int) -> Any:
        batch = self._here.pop(number)
        self._due.remove(number)
        del self._owner[number], self._asked[number]
        self._hand_out()
        return batch.unpack()

    def _receive(self) -> None:
        (status, epoch, number), batch = self._crew.take(self._owner[self._due[0]], self._in_words)
        if epoch != self._epoch:
            return  # asked for in an epoch that was left early
        if status != "ended":
            self._here[number] = batch
            return
        worker = self._owner[number]
        self._active.remove(worker)
        for unanswered in self._unanswered(worker):
            self._due.remove(unanswered)
            del self._owner[unanswered], self._asked[unanswered]
        self._hand_out()
