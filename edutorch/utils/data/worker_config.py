"""The settings of a worker process, and `get_worker_info`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .fetch import IterableFetcher, MapFetcher

__all__ = ["WorkerInfo", "get_worker_info"]


@dataclass(frozen=True)
class WorkerInfo:
    """Information about a worker.

    Args:
        id: its index: 0 … num_workers - 1.
        num_workers: the number of workers.
        seed: the seed of its generators: one base seed per epoch, plus `id`.
        dataset: its copy of the dataset.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return the information about the current worker; None in any other process.

    An IterableDataset needs it to split its samples among the workers.

    >>> get_worker_info() is None
    True
    """
    return _info


def set_worker_info(info: WorkerInfo) -> None:
    """Set the result of `get_worker_info` in this process."""
    global _info
    _info = info


@dataclass
class WorkerConfig:
    """The settings of a worker."""

    dataset: Any
    is_batched: bool
    is_iterable: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    base_seed: int
    worker_init_fn: Callable[[int], None] | None
    worker: int
    num_workers: int
    parent_pid: int | None
    """The process whose death kills the worker; None: the worker relies on the closed pipe."""

    def make_fetcher(self) -> MapFetcher | IterableFetcher:
        """Return the fetcher for one epoch."""
        if self.is_iterable:
            return IterableFetcher(self.dataset, self.collate_fn, self.drop_last)
        return MapFetcher(self.dataset, self.is_batched, self.collate_fn)


def make_worker_config(loader: Any, worker: int, base_seed: int) -> WorkerConfig:
    """Return the settings of a worker of this loader."""
    return WorkerConfig(
        dataset=loader.dataset, is_batched=loader._is_batched, is_iterable=loader._is_iterable,
        collate_fn=loader.collate_fn, drop_last=loader.drop_last, base_seed=base_seed,
        worker_init_fn=loader.worker_init_fn, worker=worker, num_workers=loader.num_workers,
        parent_pid=None,
    )  # fmt: skip
