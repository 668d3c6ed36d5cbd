"""Fetchers, which take the samples of a batch out of the dataset and collate them.

The same code runs in a worker and, without workers, in the process itself: `WorkerConfig` has what
it needs. A fetcher records its progress, so that an error can name the sample.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from ...ops import cat
from .collate import default_collate
from .dataset import ConcatDataset, MapStyle, Subset, TensorDataset
from .worker_errors import format_indices


class MapFetcher:
    """Fetches batches from a map-style dataset.

    Args:
        batched: it is called with lists of indices, otherwise with single ones.
        collate: makes a batch of a list of samples, or converts a single one.
    """

    def __init__(self, dataset: MapStyle, batched: bool, collate: Callable[[Any], Any]) -> None:
        self.dataset, self.is_batched, self.collate = dataset, batched, collate
        self.fetch_rows = row_fetcher(dataset) if batched and collate is default_collate else None
        self.getitems = getattr(dataset, "__getitems__", None)
        self._requested: Any = None
        self._current: Any = None
        self._missing: list[Any] = []
        self.stage = ""

    def __call__(self, request: Any) -> Any:
        """Return the batch with these indices."""
        self._requested, self.stage = request, "one"
        if not self.is_batched:
            self._current = request
            samples = self.dataset[request]
        elif self.fetch_rows is not None and (rows := as_index_array(request)) is not None:
            self.stage = "all"
            return self.fetch_rows(rows)
        elif self.getitems:
            self.stage = "all"
            samples = self.getitems(request)
        else:
            samples = []
            for number in request:
                self._current = number
                samples.append(self.dataset[number])
        self.stage = "collated"
        try:
            return self.collate(samples)
        except Exception:
            if self.is_batched:
                self._missing = [
                    n for n, sample in zip(request, samples, strict=False) if sample is None
                ]
            raise

    def progress(self) -> dict[str, str]:
        """Return a description of the progress, for error messages."""
        batch = format_indices(self._requested)
        if self.stage == "one":
            where = f"{self._current!r}" + (f" of the batch {batch}" if self.is_batched else "")
            return {"sample": where} | describe_out_of_range(self.dataset, [self._current])
        if self.stage == "all":
            return {"samples": batch} | describe_out_of_range(self.dataset, self._requested)
        rows = {"samples": f"{batch}, while they are {self.stage}"} if self.stage else {}
        missing = {"missing": f"the dataset gave None for {format_indices(self._missing)}"}
        return rows | missing if self._missing else rows


class IterableFetcher:
    """Fetches batches from an iterable-style dataset.

    Args:
        collate: makes a batch of a list of samples, or converts a single one.
        drop_last: drop a last batch that is not full.
        is_batched: False: each sample by itself, whatever is requested.
    """

    def __init__(
        self, dataset: Iterable[Any], collate: Callable[[Any], Any], drop_last: bool,
        is_batched: bool = True,
    ) -> None:  # fmt: skip
        self.collate, self.drop_last, self.is_batched = collate, drop_last, is_batched
        self._seen, self.stage = 0, "iter"
        self._samples = iter(dataset)

    def __call__(self, request: int | None) -> Any:
        """Return the next batch of `request` samples; if None, the next sample.

        Raises: StopIteration: there are no more.
        """
        self.stage = "next"
        if request is None or not self.is_batched:
            samples = next(self._samples)
            self._seen += 1
        else:
            samples = []
            for sample in islice(self._samples, request):
                samples.append(sample)
                self._seen += 1
            if not samples or (self.drop_last and len(samples) < request):
                raise StopIteration
        self.stage = "collated"
        return self.collate(samples)

    def progress(self) -> dict[str, str]:
        """Return a description of the progress, for error messages."""
        if self.stage in ("collated", "sent"):
            before = f"before number {self._seen} of its stream"
            return {"samples": f"{before}, while they are {self.stage}"}
        return {"sample": f"number {self._seen} of its stream, counted from 0"}


def describe_out_of_range(dataset: MapStyle, indices: Iterable[object]) -> dict[str, str]:
    """Return a message if a sampler has asked for indices that are out of range."""
    try:
        total = len(dataset)
        invalid = [n for n in indices if isinstance(n, int) and not -total <= n < total]
    except (TypeError, NotImplementedError):
        return {}
    if not invalid:
        return {}
    return {"sampler": f"gave {format_indices(invalid)}, but len(dataset) is {total}"}


# Fetching many rows at once ----------------------------------------------------------------------


def as_index_array(indices: Sequence[Any]) -> np.ndarray | None:
    """Return indices as an array; None if they are not integers."""
    try:
        return np.array([operator.index(number) for number in indices], np.int64)
    except TypeError:
        return None


def row_fetcher(dataset: object) -> Callable[[np.ndarray], list[Any]] | None:
    """Return a function that indexes a whole batch at once, if the dataset consists of tensors.

    The result equals that of stacking single samples.
    """
    # The exact classes: a subclass may change its samples in `__getitem__`.
    if type(dataset) is TensorDataset:
        tensors = dataset.tensors
        return lambda rows: [tensor[rows] for tensor in tensors]
    if type(dataset) is Subset:
        inner, indices = row_fetcher(dataset.dataset), as_index_array(dataset.indices)
        if inner is None or indices is None:
            return None
        return lambda rows: inner(indices[rows])
    if type(dataset) is ConcatDataset:
        return concat_row_fetcher(dataset)
    return None


def concat_row_fetcher(dataset: ConcatDataset[Any]) -> Callable[[np.ndarray], list[Any]] | None:
    """Return such a function for concatenated datasets, if their rows have one signature."""
    parts = [row_fetcher(part) for part in dataset.datasets]
    if any(part is None for part in parts):
        return None
    row_types = {row_signature(part) for part in dataset.datasets}
    if len(row_types) > 1:
        return None
    ends = np.array(dataset.cumulative_sizes)

    def take(rows: np.ndarray) -> list[Any]:
        if rows.size and not -ends[-1] <= rows.min() <= rows.max() < ends[-1]:
            raise IndexError(f"index out of range: there are {ends[-1]} samples")
        rows = np.where(rows < 0, rows + ends[-1], rows)
        which = np.searchsorted(ends, rows, side="right")
        order = np.argsort(which, kind="stable")
        parts_taken = [
            parts[i](rows[which == i] - (ends[i - 1] if i else 0))  # type: ignore[misc]
            for i in np.unique(which)
        ]
        if len(parts_taken) == 1:
            return parts_taken[0]
        back = np.argsort(order)  # the inverse of a permutation: where each row has gone
        return [cat(column)[back] for column in zip(*parts_taken, strict=True)]

    return take


def row_signature(dataset: Any) -> tuple[Any, ...]:
    """Return shape, dtype and device of the rows: equal where rows fit into one batch."""
    while type(dataset) is Subset:
        dataset = dataset.dataset
    if type(dataset) is ConcatDataset:
        return row_signature(dataset.datasets[0])
    return tuple((tensor.shape[1:], tensor.dtype, tensor.device) for tensor in dataset.tensors)


# Settings of a worker ----------------------------------------------------------------------------


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
    """The settings of a worker; without workers, of the process itself."""

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
            return IterableFetcher(
                self.dataset, self.collate_fn, self.drop_last, self.is_batched
            )  # fmt: skip
        return MapFetcher(self.dataset, self.is_batched, self.collate_fn)
