"""The DataLoader: iterates over a dataset in batches."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any, Generic, NoReturn, Self, TypeVar

from ... import cuda
from ...backends.platform import HAS_PROCESSES, WHERE
from ...dtypes import int64
from ...errors import refuse_unknown_keywords, warn
from ...events import work
from ...modes import current
from ...ops import Generator, empty
from .collate import default_collate, default_convert
from .dataset import IterableDataset, MapStyle, random_split
from .fetch import WorkerConfig, get_worker_info
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from .worker_errors import Failure

__all__ = [
    "DataLoader", "default_collate", "default_convert", "get_worker_info", "random_split",
]  # fmt: skip

Sample = TypeVar("Sample", covariant=True)

IMMUTABLE_ATTRIBUTES = (
    "batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers",
)  # fmt: skip
"""Attributes that the samplers depend on, and that cannot be changed any more."""


class _DatasetKind:
    """What a dataset is: it has an item for each index, or it is a stream."""

    Map = 0
    Iterable = 1


def is_iterable(loader: DataLoader[Any]) -> bool:
    """Return True if a loader's dataset is a stream."""
    return loader._dataset_kind == _DatasetKind.Iterable


class DataLoader(Generic[Sample]):
    """Iterates over a dataset in batches; one iteration is an epoch.

    With workers the batches are made in other processes, ahead of time. They are the same, in
    the same order, as without. Workers help if samples take time to load or to transform; small
    samples in memory are faster without.

    Args:
        dataset: a map-style dataset with `[index]` and `len`, or an IterableDataset.
        batch_size: samples per batch; None yields single samples.
        shuffle: use a new random order in each epoch.
        sampler: yields the indices of the samples, instead of `shuffle`.
        batch_sampler: yields lists of indices, instead of all the above.
        num_workers: the number of worker processes; 0 loads in this process.
        collate_fn: makes a batch of a list of samples (`default_collate` by default).
        pin_memory: copy batches to pinned memory, from which a GPU copies faster.
        drop_last: drop a last batch that is not full.
        timeout: seconds to wait for a worker; 0 waits for as long as it runs.
        worker_init_fn: called in each worker with its index, after seeding.
        multiprocessing_context: how workers are started: "fork" (the default on Linux),
            "spawn", "forkserver", or a context of `multiprocessing`.
        generator: the source of the random order, and of the workers' seeds.
        prefetch_factor: batches that each worker makes ahead; 2 by default.
        persistent_workers: keep the workers from one epoch to the next.
        pin_memory_device: accepted for compatibility.
        in_order: return batches in the order of the sampler; otherwise, as they get ready.

    Raises: ValueError: arguments that exclude each other. During iteration: WorkerDied,
        WorkerTimeout (RuntimeErrors); an exception of the dataset in a worker is raised here,
        with the same class, and with the sample and the line in its message.

    >>> [batch.tolist() for batch in DataLoader(range(5), batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    _is_initialized = False

    def __new__(cls, *args: Any, **named: Any) -> Self:
        """Create a loader; unknown keyword arguments are refused with a suggestion."""
        if named:
            refuse_unknown_keywords(cls.__init__, cls.__name__, named)
        return super().__new__(cls)

    def __init__(
        self,
        dataset: MapStyle | Iterable[Any],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler | Iterable[Any] | None = None,
        batch_sampler: Sampler | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.num_workers, self.multiprocessing_context = num_workers, multiprocessing_context
        self.dataset: Any = dataset
        self.generator = generator
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.timeout, self.worker_init_fn, self.in_order = timeout, worker_init_fn, in_order
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        is_stream = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if is_stream else _DatasetKind.Map
        self._choose_samplers(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.collate_fn = collate_fn or (
            default_collate if self._auto_collation else default_convert
        )
        self._iterator: Any = None
        self._IterableDataset_len_called: int | None = None
        self._is_initialized = True
        self.check_worker_number_rationality()
        if pin_memory and not cuda.is_available():
            warn(
                "DataLoader: 'pin_memory' argument is set as true but no accelerator is found, "
                "then device pinned memory won't be used"
            )

    def _choose_samplers(
        self,
        batch_size: int | None,
        shuffle: bool | None,
        sampler: Sampler | Iterable[Any] | None,
        batch_sampler: Sampler | Iterable[list[Any]] | None,
        drop_last: bool,
    ) -> None:
        """Create the default samplers, and refuse arguments that exclude each other."""
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if is_iterable(self) and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError("an IterableDataset has its own order: no shuffle and no sampler")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, "
                    "sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None is mutually exclusive with drop_last")
        if sampler is None and not is_iterable(self):
            random = shuffle and RandomSampler(self.dataset, generator=self.generator)
            sampler = random or SequentialSampler(self.dataset)
        if batch_size is not None:
            indices = repeat(None) if sampler is None else sampler  # a stream has none
            batch_sampler = BatchSampler(indices, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_initialized and name in IMMUTABLE_ATTRIBUTES:
            raise ValueError(
                f"{name} attribute should not be set after DataLoader is initialized; "
                "make another DataLoader"
            )
        if name == "multiprocessing_context" and value is not None:
            if not self.num_workers:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading "
                    "(num_workers > 0), but got num_workers=0"
                )
            # `multiprocessing` is imported when it is used: few programs have workers.
            from .multiprocess_iterator import resolve_context

            value = resolve_context(value)
        super().__setattr__(name, value)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        """The requests of an epoch: indices, or for a stream the number of samples."""
        if is_iterable(self):
            return repeat(self.batch_size)
        return self.batch_sampler if self._auto_collation else self.sampler

    def __iter__(self) -> Iterator[Any]:
        if not self.num_workers or not HAS_PROCESSES:
            return SingleProcessIterator(self)
        if self._iterator is not None and not self._iterator.is_over:
            return self._iterator.restart(self)
        from .multiprocess_iterator import MultiProcessIterator

        iterator = MultiProcessIterator(self)
        if self.persistent_workers:
            self._iterator = iterator
        return iterator

    def __len__(self) -> int:
        if not is_iterable(self):
            return len(self._index_sampler)
        total = len(self.dataset)
        if self.batch_size is not None:
            full, rest = divmod(total, self.batch_size)
            total = full + bool(rest and not self.drop_last)
        self._IterableDataset_len_called = total
        return total

    def check_worker_number_rationality(self) -> None:
        """Warn if there are more workers than CPUs that this process may use, or can be none."""
        if not HAS_PROCESSES:
            if self.num_workers:
                warn(
                    f"This DataLoader loads in this process, as with num_workers=0: {WHERE} there "
                    "are no others"
                )
            return
        affinity = getattr(os, "sched_getaffinity", None)
        most = len(affinity(0)) if affinity else os.cpu_count() or 1
        if self.num_workers > most:
            warn(
                f"This DataLoader will create {self.num_workers} worker processes in total, but "
                f"there are {most} processors: more workers than these rather slow it down"
            )


def check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    """Refuse invalid settings of workers.

    Raises: ValueError.
    """
    if num_workers < 0:
        raise ValueError(
            f"num_workers option should be non-negative, got {num_workers}; "
            "use num_workers=0 to disable multiprocessing"
        )
    if timeout < 0 or math.isnan(timeout):
        raise ValueError(f"timeout option should be non-negative, got {timeout}")
    if not num_workers and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing: let "
            "num_workers > 0, otherwise set prefetch_factor to None"
        )
    if prefetch_factor is not None and prefetch_factor <= 0:
        raise ValueError(f"prefetch_factor option should be positive, got {prefetch_factor}")
    if not num_workers and persistent_workers:
        raise ValueError("persistent_workers option needs num_workers > 0")


# An epoch --------------------------------------------------------------------------------------


def make_worker_config(loader: DataLoader[Any], worker: int, base_seed: int) -> WorkerConfig:
    """Return the settings of a worker of this loader."""
    return WorkerConfig(
        dataset=loader.dataset, is_batched=loader._auto_collation, is_iterable=is_iterable(loader),
        collate_fn=loader.collate_fn, drop_last=loader.drop_last, base_seed=base_seed,
        worker_init_fn=loader.worker_init_fn, worker=worker, num_workers=loader.num_workers,
        parent_pid=None,
    )  # fmt: skip


class BatchIterator:
    """Iterates over the batches of one epoch of a DataLoader."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        # A loader refers to an iterator with persistent workers: avoid a reference cycle.
        self._loader = weakref.ref(loader)
        self._source = loader._index_sampler
        self._pin_memory = loader.pin_memory and cuda.is_available()
        self._begin(loader)
        # A seed is drawn with and without workers, so that the order is the same.
        device = "cpu" if loader.generator is None else loader.generator.device
        seed = empty((), dtype=int64, device=device).random_(generator=loader.generator)
        self._base_seed = int(seed)

    def _begin(self, loader: DataLoader[Any]) -> None:
        self._indices: Iterator[Any] = iter(self._source)
        self._expected_length, self._yielded = loader._IterableDataset_len_called, 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self._source)

    def __reduce__(self) -> NoReturn:
        raise NotImplementedError(
            f"{type(self).__name__} cannot be pickled: give the DataLoader to the other process"
        )

    def __next__(self) -> Any:
        if current().listeners:
            with work("data", self._loader() or self) as event:
                batch = event.result = self._next()
        else:
            batch = self._next()
        if isinstance(batch, Failure):
            del self  # a notebook keeps the traceback, which must not keep the workers alive
            raise batch.rebuild()
        self._yielded += 1
        if self._expected_length is not None and self._yielded > self._expected_length:
            self._warn_too_long()
        return pin_batch(batch) if self._pin_memory else batch

    def _next(self) -> Any:
        raise NotImplementedError

    def _warn_too_long(self) -> None:
        promised, self._expected_length = self._expected_length, None
        warn(
            f"DataLoader: len(loader) promised {promised} batches of the IterableDataset, and more "
            "have come. Is its __len__ right? With workers, does each give only its own part "
            "(get_worker_info)?"
        )


def pin_batch(batch: Any) -> Any:
    """Move a batch to pinned memory, which a GPU can copy from directly; also in containers."""
    if hasattr(batch, "pin_memory"):
        return batch.pin_memory()
    if isinstance(batch, dict):
        return type(batch)({key: pin_batch(value) for key, value in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*map(pin_batch, batch))
    return type(batch)(map(pin_batch, batch)) if isinstance(batch, list | tuple) else batch


class SingleProcessIterator(BatchIterator):
    """Makes each batch in this process when it is asked for."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        if loader.timeout and not loader.num_workers:
            raise ValueError("DataLoader: timeout has a meaning only with num_workers > 0")
        self._is_iterable = is_iterable(loader)
        self._fetch = make_worker_config(loader, 0, self._base_seed).make_fetcher()

    def _next(self) -> Any:
        request = next(self._indices)
        try:
            return self._fetch(request)
        except Exception as error:
            if isinstance(error, StopIteration) and self._is_iterable:
                raise
            for name, value in self._fetch.progress().items():
                error.add_note(f"DataLoader: {name} = {value}")
            if isinstance(error, StopIteration):
                raise RuntimeError("DataLoader: the dataset raised StopIteration") from error
            raise


# Private names of PyTorch, which libraries use for `isinstance`.
_BaseDataLoaderIter = BatchIterator
_SingleProcessDataLoaderIter = SingleProcessIterator


def __getattr__(name: str) -> Any:
    """Import the iterator of worker processes when a library first asks for its class."""
    if name == "_MultiProcessingDataLoaderIter":
        from .multiprocess_iterator import MultiProcessIterator

        return MultiProcessIterator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
