"""Batches of a dataset, epoch after epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...errors import warn
from ...ops import Generator, tensor
from .collate import default_collate, default_convert
from .dataset import IterableDataset, Subset, TensorDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler

__all__ = ["DataLoader"]


class DataLoader:
    """Gives the samples of a dataset in batches: once through it is an epoch.

    Args:
        dataset: anything with `[number]` and `len`, or an IterableDataset.
        batch_size: samples in a batch; None gives the samples one by one.
        shuffle: a new random order in each epoch.
        sampler: gives the numbers of the samples, instead of `shuffle`.
        batch_sampler: gives lists of numbers, instead of all the above.
        num_workers: processes that load ahead. This version loads in this process.
        collate_fn: makes a batch of a list of samples (`default_collate` by default).
        pin_memory: accepted; nothing has to be pinned here.
        drop_last: leave out a last batch that is not full.
        generator: the source of the random order.

    Raises: ValueError: arguments that exclude each other.

    >>> data = TensorDataset(arange(5))
    >>> [batch.tolist() for (batch,) in DataLoader(data, batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[list[Any]] | None = None,
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
        if num_workers < 0 or timeout < 0:
            raise ValueError("num_workers and timeout should be non-negative")
        if num_workers:
            warn(
                f"DataLoader: num_workers={num_workers}, but this version of edutorch loads in the "
                "process itself; batches and their order are the same"
            )
        self.dataset, self.num_workers, self.generator = dataset, num_workers, generator
        self.pin_memory, self.timeout, self.worker_init_fn = pin_memory, timeout, worker_init_fn
        self.prefetch_factor, self.persistent_workers = prefetch_factor, persistent_workers
        self._iterable = isinstance(dataset, IterableDataset)
        self._choose_samplers(batch_size, shuffle, sampler, batch_sampler, drop_last)
        batched = self._batched
        self.collate_fn = collate_fn or (default_collate if batched else default_convert)

    def _choose_samplers(
        self, batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool
    ) -> None:
        """Fill in what was not given, and refuse what excludes each other."""
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if self._iterable and (shuffle or sampler is not None or batch_sampler is not None):
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
        if sampler is None and not self._iterable:
            random = shuffle and RandomSampler(self.dataset, generator=self.generator)
            sampler = random or SequentialSampler(self.dataset)
        if batch_size is not None:
            numbers = () if sampler is None else sampler  # a stream has none
            batch_sampler = BatchSampler(numbers, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler

    @property
    def _batched(self) -> bool:
        return self.batch_sampler is not None

    def __iter__(self) -> Iterator[Any]:
        if self._iterable:
            return self._iterate_stream()
        return self._iterate_numbers()

    def _iterate_stream(self) -> Iterator[Any]:
        if not self._batched:
            yield from (self.collate_fn(sample) for sample in self.dataset)
            return
        for samples in BatchSampler(self.dataset, self.batch_size or 1, self.drop_last):
            yield self.collate_fn(samples)

    def _iterate_numbers(self) -> Iterator[Any]:
        if not self._batched:
            yield from (self.collate_fn(self.dataset[number]) for number in self.sampler or ())
            return
        whole = rows_at_once(self.dataset) if self.collate_fn is default_collate else None
        many: Any = getattr(self.dataset, "__getitems__", None)
        for numbers in self.batch_sampler or ():
            if whole:
                yield whole(numbers)
            elif many is not None:
                yield self.collate_fn(many(numbers))
            else:
                yield self.collate_fn([self.dataset[number] for number in numbers])

    def __len__(self) -> int:
        if self._iterable:
            total = len(self.dataset)
            if self.batch_size is None:
                return total
            full, rest = divmod(total, self.batch_size)
            return full + bool(rest and not self.drop_last)
        return len(self.batch_sampler if self._batched else self.sampler)  # type: ignore[arg-type]


def rows_at_once(dataset: Any) -> Callable[[list[int]], list[Any]] | None:
    """Return a function that takes a whole batch out of tensors at once, if they are in memory.

    It gives what stacking the single samples would give, without making them.
    """
    if type(dataset) is TensorDataset:
        return lambda numbers: [each[rows(numbers)] for each in dataset.tensors]
    if type(dataset) is Subset:
        inner = rows_at_once(dataset.dataset)
        indices = dataset.indices
        return inner and (lambda numbers: inner([int(indices[each]) for each in numbers]))
    return None


def rows(numbers: list[int]) -> Any:
    return tensor(numbers, device="cpu")._array
