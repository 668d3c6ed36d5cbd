"""Datasets: map-style ones with a length and indices, and iterable-style ones."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops import Generator, randperm

__all__ = [
    "ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "StackDataset", "Subset",
    "TensorDataset", "random_split",
]  # fmt: skip

Sample = TypeVar("Sample", covariant=True)


class MapStyle(Protocol):
    """What a map-style dataset has to offer: a list or a range does, and so does a `Dataset`."""

    def __getitem__(self, index: Any, /) -> Any: ...
    def __len__(self) -> int: ...


class Dataset(Generic[Sample]):
    """A map-style dataset. A subclass defines `__getitem__` and `__len__`.

    A subclass may also define `__getitems__(indices)`, which returns many samples at once.
    """

    def __getitem__(self, index: Any) -> Sample:
        raise NotImplementedError(f"{type(self).__name__} needs a __getitem__(self, index)")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Sample]):
    """An iterable-style dataset, such as the lines of a file. A subclass defines `__iter__`."""

    def __iter__(self) -> Iterator[Sample]:
        raise NotImplementedError(f"{type(self).__name__} needs an __iter__(self)")

    def __add__(self, other: Dataset[Any]) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """A dataset of tensors: sample i is the tuple of each tensor's i-th row.

    Raises: ShapeError: the tensors have different numbers of rows.

    >>> data = TensorDataset(tensor([[1.0], [2.0]]), tensor([0, 1]))
    >>> data[1]
    (tensor([2.]), tensor(1))
    """

    def __init__(self, *tensors: Tensor) -> None:
        if len({tensor.shape[0] for tensor in tensors}) != 1:
            raise ShapeError(
                "TensorDataset",
                "Size mismatch between tensors: each needs one row for each sample",
                {f"tensors[{i}]": tuple(tensor.shape) for i, tensor in enumerate(tensors)},
            )  # fmt: skip
        self.tensors = tensors

    def __getitem__(
        self, index: int | slice | list[int] | np.ndarray | Tensor
    ) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


class StackDataset(Dataset[Any]):
    """A dataset that combines the samples of several datasets: in a tuple, or in a dict by name.

    >>> StackDataset(x=[1, 2], y=[3, 4])[1]
    {'x': 2, 'y': 4}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError("give datasets either in order or by name")
        self.datasets: Any = kwargs or args
        lengths = {len(dataset) for dataset in (kwargs.values() or args)}
        if len(lengths) != 1:
            raise ValueError("Size mismatch between datasets")
        self._length = lengths.pop()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """Return many samples; `__getitems__` of a part is called once."""
        if type(self).__getitem__ is not StackDataset.__getitem__:
            return [self[index] for index in indices]
        if isinstance(self.datasets, dict):
            parts = [get_samples(dataset, indices) for dataset in self.datasets.values()]
            return [dict(zip(self.datasets, row, strict=True)) for row in zip(*parts, strict=True)]
        return list(zip(*(get_samples(dataset, indices) for dataset in self.datasets), strict=True))

    def __len__(self) -> int:
        return self._length


def get_samples(dataset: MapStyle, indices: list[int]) -> list[Any]:
    """Return many samples of a dataset, by one call of `__getitems__` if it has that.

    Raises: ValueError: `__getitems__` returns more or fewer than asked for.
    """
    many: Any = getattr(dataset, "__getitems__", None)
    if not many:
        return [dataset[index] for index in indices]
    samples = many(indices)
    if len(samples) != len(indices):
        raise ValueError(
            f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(samples)}: "
            f"{type(dataset).__name__}.__getitems__ has to return a sample for each number"
        )
    return samples


class Subset(Dataset[Sample]):
    """The samples of another dataset with the given indices.

    >>> list(Subset([10, 20, 30], [2, 0]))
    [30, 10]
    """

    def __init__(self, dataset: MapStyle, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: int | list[int]) -> Sample:
        if isinstance(index, list):  # of a dataset that takes lists itself, as tensors do
            return self.dataset[[self.indices[position] for position in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """Return many samples; `__getitems__` of the dataset is called once."""
        if type(self).__getitem__ is not Subset.__getitem__:  # a subclass changes each sample
            return [self[index] for index in indices]
        return get_samples(self.dataset, [self.indices[index] for index in indices])

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset[Sample]):
    """The concatenation of several datasets.

    >>> ConcatDataset([[1, 2], [3]])[2]
    3
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise TypeError("ConcatDataset does not support IterableDataset: use ChainDataset")
        self.cumulative_sizes = list(accumulate(len(dataset) for dataset in self.datasets))

    def __getitem__(self, index: int) -> Sample:
        total = len(self)
        if not -total <= index < total:
            raise IndexError(f"index {index} is out of range: there are {total} samples")
        index %= total
        # To the right: the index that equals a total is the first one of the next dataset.
        which = bisect.bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - before]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class ChainDataset(IterableDataset[Sample]):
    """The concatenation of several iterable-style datasets."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[Sample]:
        for dataset in self.datasets:
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)


def random_split(
    dataset: MapStyle, lengths: Sequence[float], generator: Generator | None = None
) -> list[Subset[Any]]:
    """Split a dataset randomly into parts of the given sizes, or of given fractions of it.

    Raises: ValueError: the sizes do not add up to the dataset's.

    >>> [len(part) for part in random_split(range(10), [0.7, 0.3])]
    [7, 3]
    """
    total = len(dataset)
    sizes = list(lengths)
    # Sizes that add up to 1 are fractions, as in PyTorch; 0.1 + 0.2 + 0.7 misses 1 by a rounding.
    if math.isclose(sum(sizes), 1) and sum(sizes) <= 1 + 1e-9:
        if min(sizes) < 0:  # only then another one is above 1
            raise ValueError("each fraction should be between 0 and 1")
        sizes = [math.floor(total * size + 1e-9) for size in sizes]
        for i in range(total - sum(sizes)):  # distribute the remainder of rounding
            sizes[i % len(sizes)] += 1
    if sum(sizes) != total:
        raise ValueError(
            "Sum of input lengths does not equal the length of the input dataset! "
            f"({sum(sizes)} and {total})"
        )
    order = randperm(total, generator=generator, device="cpu").tolist()
    ends = list(accumulate(int(size) for size in sizes))
    return [Subset(dataset, order[end - int(n) : end]) for n, end in zip(sizes, ends, strict=True)]
