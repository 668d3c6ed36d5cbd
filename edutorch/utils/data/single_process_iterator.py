"""Iterators over one epoch of a DataLoader: the base class, and the one without workers."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, NoReturn

from ... import cuda
from ...dtypes import int64
from ...errors import warn
from ...events import work
from ...modes import current
from ...ops import empty
from .worker_config import make_worker_config
from .worker_errors import Failure


class BatchIterator:
    """Iterates over the batches of one epoch of a DataLoader."""

    def __init__(self, loader: Any) -> None:
        # A loader refers to an iterator with persistent workers: avoid a reference cycle.
        self._loader = weakref.ref(loader)
        self._source = loader._index_source
        self._pin_memory = loader.pin_memory and cuda.is_available()
        self._begin(loader)
        # A seed is drawn with and without workers, so that the order is the same.
        seed = empty((), dtype=int64, device="cpu").random_(generator=loader.generator)
        self._base_seed = int(seed)

    def _begin(self, loader: Any) -> None:
        self._indices: Iterator[Any] = iter(self._source)
        self._expected_length, self._yielded = loader._expected_length, 0

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

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        if loader.timeout:
            raise ValueError("DataLoader: timeout has a meaning only with num_workers > 0")
        self._is_iterable = loader._is_iterable
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
