"""One batch: its samples are taken out of the dataset and collated.

The same code runs in a worker and, without workers, in the process itself. While it works it
keeps in mind what it is at, so that an error can say which sample it was.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ...ops import cat
from .collate import default_collate
from .dataset import ConcatDataset, Subset, TensorDataset
from .worker_errors import shortened


class ByNumber:
    """Makes batches of a dataset whose samples have numbers.

    Args:
        batched: it is asked for lists of numbers, otherwise for single ones.
        collate: makes a batch of a list of samples, or changes a single one.
    """

    def __init__(self, dataset: Any, batched: bool, collate: Callable[[Any], Any]) -> None:
        self.dataset, self.batched, self.collate = dataset, batched, collate
        self.whole = rows_at_once(dataset) if batched and collate is default_collate else None
        self.many = getattr(dataset, "__getitems__", None)
        self._asked: Any = None
        self._at: Any = None
        self._nothing: list[Any] = []
        self.stage = ""

    def __call__(self, asked: Any) -> Any:
        """Return the batch of the numbers asked for."""
        self._asked, self.stage = asked, "one"
        if not self.batched:
            self._at = asked
            samples = self.dataset[asked]
        elif self.whole is not None and (rows := as_rows(asked)) is not None:
            self.stage = "all"
            return self.whole(rows)
        elif self.many:
            self.stage = "all"
            samples = self.many(asked)
        else:
            samples = []
            for number in asked:
                self._at = number
                samples.append(self.dataset[number])
        self.stage = "collated"
        try:
            return self.collate(samples)
        except Exception:
            if self.batched:
                self._nothing = [
                    n for n, sample in zip(asked, samples, strict=False) if sample is None
                ]
            raise

    def doing(self) -> dict[str, str]:
        """Say in words what it is at."""
        batch = shortened(self._asked)
        if self.stage == "one":
            where = f"{self._at!r}" + (f" of the batch {batch}" if self.batched else "")
            return {"sample": where} | out_of_range(self.dataset, [self._at])
        if self.stage == "all":
            return {"samples": batch} | out_of_range(self.dataset, self._asked)
        told = {"samples": f"{batch}, while they are {self.stage}"} if self.stage else {}
        missing = {"missing": f"the dataset gave None for {shortened(self._nothing)}"}
        return told | missing if self._nothing else told


class Stream:
    """Makes batches of a dataset that gives one sample after the other.

    Args:
        collate: makes a batch of a list of samples, or changes a single one.
        drop_last: leave out a last batch that is not full.
    """

    def __init__(self, dataset: Any, collate: Callable[[Any], Any], drop_last: bool) -> None:
        self.collate, self.drop_last = collate, drop_last
        self._seen, self.stage = 0, "iter"
        self._samples = iter(dataset)

    def __call__(self, asked: int | None) -> Any:
        """Return the next batch of so many samples; of None, the next sample.

        Raises: StopIteration: there are no more.
        """
        self.stage = "next"
        if asked is None:
            samples = next(self._samples)
            self._seen += 1
        else:
            samples = []
            for sample in islice(self._samples, asked):
                samples.append(sample)
                self._seen += 1
            if not samples or (self.drop_last and len(samples) < asked):
                raise StopIteration
        self.stage = "collated"
        return self.collate(samples)

    def doing(self) -> dict[str, str]:
        """Say in words what it is at."""
        if self.stage in ("collated", "sent"):
            before = f"before number {self._seen} of its stream"
            return {"samples": f"{before}, while they are {self.stage}"}
        return {"sample": f"number {self._seen} of its stream, counted from 0"}


def out_of_range(dataset: Any, indices: Any) -> dict[str, str]:
    """Say it if a sampler has asked for samples that the dataset does not have."""
    try:
        total = len(dataset)
        wrong = [n for n in indices if isinstance(n, int) and not -total <= n < total]
    except (TypeError, NotImplementedError):
        return {}
    if not wrong:
        return {}
    return {"sampler": f"gave {shortened(wrong)}, but len(dataset) is {total}"}


# Many rows at once -------------------------------------------------------------------------------


def as_rows(indices: Sequence[Any]) -> np.ndarray | None:
    """Return the numbers of samples as an array; None if they are something else."""
    try:
        return np.array([operator.index(number) for number in indices], np.int64)
    except TypeError:
        return None


def rows_at_once(dataset: Any) -> Callable[[np.ndarray], list[Any]] | None:
    """Return a function that takes a whole batch out of tensors at once, if they are in memory.

    It gives what stacking the single samples would give, without making them.
    """
    if type(dataset) is TensorDataset:
        tensors = dataset.tensors
        return lambda rows: [tensor[rows] for tensor in tensors]
    if type(dataset) is Subset:
        inner, indices = rows_at_once(dataset.dataset), as_rows(dataset.indices)
        if inner is None or indices is None:
            return None
        return lambda rows: inner(indices[rows])
    if type(dataset) is ConcatDataset:
        return rows_of_several(dataset)
    return None


def rows_of_several(dataset: ConcatDataset[Any]) -> Callable[[np.ndarray], list[Any]] | None:
    """Do the same for datasets one behind the other, if their rows are alike."""
    parts = [rows_at_once(part) for part in dataset.datasets]
    if any(part is None for part in parts):
        return None
    row_types = {kind_of_rows(part) for part in dataset.datasets}
    if len(row_types) > 1:
        return None
    ends = np.array(dataset.cumulative_sizes)

    def take(rows: np.ndarray) -> list[Any]:
        if rows.size and not -ends[-1] <= rows.min() <= rows.max() < ends[-1]:
            raise IndexError(f"index out of range: there are {ends[-1]} samples")
        rows = np.where(rows < 0, rows + ends[-1], rows)
        which = np.searchsorted(ends, rows, side="right")
        order = np.argsort(which, kind="stable")
        taken = [
            parts[i](rows[which == i] - (ends[i - 1] if i else 0))  # type: ignore[misc]
            for i in np.unique(which)
        ]
        if len(taken) == 1:
            return taken[0]
        back = np.argsort(order)
        return [cat(column)[back] for column in zip(*taken, strict=True)]

    return take


def kind_of_rows(dataset: Any) -> tuple[Any, ...]:
    """Return what must be equal for rows of several datasets to fit into one batch."""
    while type(dataset) is Subset:
        dataset = dataset.dataset
    if type(dataset) is ConcatDataset:
        return kind_of_rows(dataset.datasets[0])
    return tuple((tensor.shape[1:], tensor.dtype, tensor.device) for tensor in dataset.tensors)
