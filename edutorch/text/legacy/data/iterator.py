"""Iterators: batches of examples that are about equally long, so that little is filled up."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Iterator as BaseIterator
from typing import Any, Self

from ....errors import InvalidValueError, NotHereError
from .batch import Batch
from .dataset import Dataset

SizeFunction = Callable[[Any, int, int], int]
"""Returns the size of a batch with one example more: (example, count, size so far)."""


class UnknownLengthError(NotHereError, TypeError):
    """The number of batches is not known before. (`list` asks for it, and minds no TypeError.)"""


class Iterator:
    """Batches of a data set.

    Args:
        dataset: the examples.
        batch_size: how many examples a batch has, or the size that `batch_size_fn` may reach.
        sort_key: a function of an example; its length, mostly.
        device: where the tensors go.
        batch_size_fn: returns the size of a batch with an example more: (example, count, size).
        train: whether it is for training: shuffled, not sorted.
        repeat: whether to begin again, without end.
        shuffle, sort: whether to shuffle or sort, if not as `train` says.
        sort_within_batch: whether the longest stands first in each batch; default: as `sort`.
    """

    def __init__(
        self, dataset: Dataset, batch_size: int, sort_key: Callable[[Any], Any] | None = None,
        device: Any = None, batch_size_fn: SizeFunction | None = None, train: bool = True,
        repeat: bool = False, shuffle: bool | None = None, sort: bool | None = None,
        sort_within_batch: bool | None = None,
    ) -> None:  # fmt: skip
        if batch_size < 1:
            raise InvalidValueError(
                type(self).__name__, f"batch_size must be at least 1, got {batch_size}"
            )
        self.dataset, self.batch_size, self.train = dataset, batch_size, train
        self.batch_size_fn, self.device, self.repeat = batch_size_fn, device, repeat
        self.shuffle = train if shuffle is None else shuffle
        self.sort = not train if sort is None else sort
        self.sort_within_batch = self.sort if sort_within_batch is None else sort_within_batch
        self.sort_key = dataset.sort_key if sort_key is None else sort_key
        if self.sort_key is None and (self.sort or self.sort_within_batch):
            raise InvalidValueError(
                type(self).__name__, "sorting needs a sort_key",
                hint="sort_key=lambda example: len(example.text), or sort=False for tests",
            )  # fmt: skip
        self.iterations = 0

    @classmethod
    def splits(
        cls, datasets: Sequence[Dataset], batch_sizes: Sequence[int] | None = None, **kwargs: Any
    ) -> tuple[Self, ...]:
        """Return an iterator for each data set; the first is for training.

        Args:
            batch_sizes: of each; default: `batch_size` for all.
            kwargs: passed on to the iterators.
        """
        sizes = batch_sizes or [kwargs.pop("batch_size")] * len(datasets)
        kwargs.pop("batch_size", None)
        return tuple(
            cls(dataset, batch_size=size, train=number == 0, **kwargs)
            for number, (dataset, size) in enumerate(zip(datasets, sizes, strict=True))
        )

    def data(self) -> list[Any]:
        """Return the examples in the order of this epoch."""
        if self.sort:
            return sorted(self.dataset, key=self.sort_key)
        if self.shuffle:
            return random.sample(self.dataset.examples, len(self.dataset))
        return list(self.dataset)

    def create_batches(self) -> Iterable[list[Any]]:
        """Return the examples of each batch of this epoch."""
        return batch(self.data(), self.batch_size, self.batch_size_fn)

    @property
    def epoch(self) -> int:
        """How many epochs are over."""
        return math.floor(self.iterations / max(len(self), 1))

    def __len__(self) -> int:
        if self.batch_size_fn is not None:
            raise UnknownLengthError(
                "Iterator", "with batch_size_fn the number of batches is unknown"
            )
        return math.ceil(len(self.dataset) / self.batch_size)

    def __iter__(self) -> BaseIterator[Batch]:
        while True:
            for examples in self.create_batches():
                self.iterations += 1
                if self.sort_within_batch and self.sort:
                    examples.reverse()
                elif self.sort_within_batch:  # the longest first, for pack_padded_sequence
                    examples.sort(key=self.sort_key, reverse=True)
                yield Batch(examples, self.dataset, self.device)
            if not self.repeat:
                return


class BucketIterator(Iterator):
    """Batches of examples of about the same length, in a random order.

    A hundred batches at a time are sorted by length and then cut, so that little has to be filled
    up.
    """

    def create_batches(self) -> Iterable[list[Any]]:
        """Return the examples of each batch of this epoch."""
        if self.sort or self.sort_key is None:
            return super().create_batches()
        return pool(
            self.data(), self.batch_size, self.sort_key, self.batch_size_fn, shuffle=self.shuffle
        )


class BPTTIterator(Iterator):
    """Pieces of one long text, for training by backpropagation through time.

    The text is cut into `batch_size` columns; each batch has `bptt_len` rows of them, as `text`,
    and the next tokens, as `target`.

    Args:
        dataset: its first example holds the text.
        batch_size: how many columns.
        bptt_len: how many tokens a batch goes on.
        kwargs: passed on to `Iterator`.
    """

    def __init__(self, dataset: Dataset, batch_size: int, bptt_len: int, **kwargs: Any) -> None:
        self.bptt_len = bptt_len
        super().__init__(dataset, batch_size, **{"sort": False, **kwargs})

    def __len__(self) -> int:
        rows = math.ceil(len(self.read_text()) / self.batch_size)
        return math.ceil((rows - 1) / self.bptt_len)

    def read_text(self) -> list[str]:
        """Return the tokens of the text."""
        example: Any = self.dataset[0]
        return list(example.text)

    def __iter__(self) -> BaseIterator[Batch]:
        text, field = self.read_text(), self.dataset.fields["text"]
        missing = -len(text) % self.batch_size
        # As one column, whatever the field's own order.
        column = field.numericalize([text + [field.pad_token] * missing], device=self.device)
        rows = column.reshape(self.batch_size, -1).t().contiguous()
        while True:
            for start in range(0, len(rows) - 1, self.bptt_len):
                self.iterations += 1
                size = min(self.bptt_len, len(rows) - 1 - start)
                now, after = rows[start : start + size], rows[start + 1 : start + 1 + size]
                if field.batch_first:
                    now, after = now.t().contiguous(), after.t().contiguous()
                yield Batch.fromvars(self.dataset, self.batch_size, text=now, target=after)
            if not self.repeat:
                return


def batch(
    data: Iterable[Any], batch_size: int, batch_size_fn: SizeFunction | None = None
) -> BaseIterator[list[Any]]:
    """Yield lists of examples, none larger than `batch_size`.

    >>> list(batch("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    size_with = batch_size_fn or (lambda example, count, size: count)
    examples: list[Any] = []
    size = 0
    for example in data:
        examples.append(example)
        size = size_with(example, len(examples), size)
        if size == batch_size:
            yield examples
            examples, size = [], 0
        elif size > batch_size and len(examples) > 1:
            yield examples[:-1]
            examples = examples[-1:]
            size = size_with(example, 1, 0)
    if examples:
        yield examples


def pool(
    data: Iterable[Any], batch_size: int, key: Callable[[Any], Any],
    batch_size_fn: SizeFunction | None = None, shuffle: bool = True,
) -> BaseIterator[list[Any]]:  # fmt: skip
    """Yield batches of examples that are alike in `key`, in a random order.

    >>> sorted(pool(["aaa", "b", "cc", "d"], 2, len, shuffle=False))
    [['b', 'd'], ['cc', 'aaa']]
    """
    for bucket in batch(data, batch_size * 100, batch_size_fn):
        batches = list(batch(sorted(bucket, key=key), batch_size, batch_size_fn))
        yield from random.sample(batches, len(batches)) if shuffle else batches
