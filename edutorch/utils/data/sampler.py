"""Samplers: the order of the samples, and how they are grouped into batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any

from ...dtypes import float64, int64
from ...ops import Generator, as_tensor, empty, multinomial, randint, randperm

__all__ = [
    "BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler",
    "WeightedRandomSampler",
]  # fmt: skip


def check_positive(name: str, number: object) -> None:
    """Refuse everything but positive integers.

    Raises: ValueError.
    """
    if not isinstance(number, int) or isinstance(number, bool) or number <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={number}")


def check_bool(value: object, error: type[Exception], name: str = "replacement") -> bool:
    """Return a bool; raise `error` for anything else."""
    if not isinstance(value, bool):
        raise error(f"{name} should be a boolean value, but got {name}={value}")
    return value


def draw_seed() -> int:
    """Draw a seed from the default generator."""
    return int(empty((), dtype=int64, device="cpu").random_())


class Sampler:
    """Yields the indices of the samples of one epoch. A subclass defines `__iter__`."""

    def __init__(self, data_source: Sized | None = None) -> None:
        self.data_source = data_source

    def __class_getitem__(cls, item: object) -> type[Sampler]:
        return cls  # `Sampler[int]` in an annotation: what it yields is not checked

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} needs an __iter__(self)")


class SequentialSampler(Sampler):
    """Yields all indices in order.

    >>> list(SequentialSampler("abc"))
    [0, 1, 2]
    """

    data_source: Sized

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """Yields all indices in random order; with `replacement`, independent draws.

    >>> sorted(RandomSampler("abc"))
    [0, 1, 2]
    """

    data_source: Sized

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:  # fmt: skip
        super().__init__(data_source)
        self.replacement, self.generator = check_bool(replacement, TypeError), generator
        self._num_samples = num_samples
        check_positive("num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """The number of indices per epoch."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        total = len(self.data_source)
        generator = self.generator
        if generator is None:  # independent of other draws during the epoch
            generator = Generator().manual_seed(draw_seed())
        if self.replacement:
            # On the CPU whatever the default device is: a GPU would draw another order.
            indices = randint(0, total, (self.num_samples,), generator=generator, device="cpu")
            yield from indices.tolist()
            return
        remaining = self.num_samples
        while remaining > 0:  # more than there are: one order after the other, as in PyTorch
            order = randperm(total, generator=generator, device=generator.device).tolist()
            yield from order[:remaining]
            remaining -= total

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """Yields the given indices in random order.

    >>> sorted(SubsetRandomSampler([4, 2]))
    [2, 4]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        super().__init__()
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        order = randperm(len(self.indices), generator=self.generator, device="cpu").tolist()
        return (self.indices[position] for position in order)

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Yields indices drawn with the given weights, for instance to balance rare classes.

    >>> list(WeightedRandomSampler([0.0, 1.0], 3))
    [1, 1, 1]
    """

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        check_positive("num_samples", num_samples)
        # In float64: rare samples of a large dataset must not vanish in the sum of the weights.
        self.weights = as_tensor(weights, dtype=float64, device="cpu")
        if self.weights.ndim != 1:
            raise ValueError(
                "weights should be a 1d sequence but given weights have shape "
                f"{tuple(self.weights.shape)}"
            )
        self.num_samples, self.replacement = num_samples, check_bool(replacement, ValueError)
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        indices = multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        return iter(indices.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Groups the indices of another sampler into lists of `batch_size`.

    >>> list(BatchSampler(SequentialSampler("abcde"), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        super().__init__()
        check_positive("batch_size", batch_size)
        self.sampler, self.batch_size = sampler, batch_size
        self.drop_last = check_bool(drop_last, ValueError, "drop_last")

    def __iter__(self) -> Iterator[list[Any]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        total = len(self.sampler)  # type: ignore[arg-type]
        return total // self.batch_size if self.drop_last else -(-total // self.batch_size)
