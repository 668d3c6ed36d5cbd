"""What a worker is started with, and what it knows of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .fetch import ByNumber, Stream

__all__ = ["WorkerInfo", "get_worker_info"]


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker knows of itself.

    Args:
        id: its number: 0 … num_workers - 1.
        num_workers: how many workers there are.
        seed: what its random numbers started from: one number per epoch, plus `id`.
        dataset: its own copy of the dataset.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return what the worker that calls it knows of itself; None in any other process.

    An IterableDataset needs it to give each worker a part of its samples.

    >>> get_worker_info() is None
    True
    """
    return _info


def be_worker(info: WorkerInfo) -> None:
    """Let `get_worker_info` answer in this process."""
    global _info
    _info = info


@dataclass
class Job:
    """What a worker is started with."""

    dataset: Any
    batched: bool
    streams: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    base_seed: int
    worker_init_fn: Callable[[int], None] | None
    worker: int
    num_workers: int
    dies_with: int | None
    """The process whose death kills the worker; None: the end of the pipe has to do."""

    def fetcher(self) -> ByNumber | Stream:
        """Return what makes the batches of one epoch."""
        if self.streams:
            return Stream(self.dataset, self.collate_fn, self.drop_last)
        return ByNumber(self.dataset, self.batched, self.collate_fn)


def job_of(loader: Any, worker: int, base_seed: int) -> Job:
    """Write down what a worker of this loader is started with."""
    return Job(
        dataset=loader.dataset, batched=loader._batched, streams=loader._streams,
        collate_fn=loader.collate_fn, drop_last=loader.drop_last, base_seed=base_seed,
        worker_init_fn=loader.worker_init_fn, worker=worker, num_workers=loader.num_workers,
        dies_with=None,
    )  # fmt: skip
