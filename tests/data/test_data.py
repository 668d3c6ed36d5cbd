"""Datasets, samplers and the loader, compared with PyTorch where possible."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest

import edutorch
from edutorch.utils import data
from edutorch.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    random_split,
)  # fmt: skip


class Squares(Dataset):
    def __init__(self, n):
        self.n = n

    def __getitem__(self, index):
        return index, float(index**2)

    def __len__(self):
        return self.n


class Stream(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))


def lists(batches):
    return [
        [part.tolist() if hasattr(part, "tolist") else part for part in batch] for batch in batches
    ]


@pytest.mark.parametrize("settings", [
    {"batch_size": 4}, {"batch_size": 4, "drop_last": True}, {}, {"batch_size": 20},
    {"batch_size": None}, {"sampler": [3, 1, 2], "batch_size": 2},
    {"batch_sampler": [[0, 1], [5]]},
], ids=str)  # fmt: skip
def test_batches_equal_pytorchs(settings, torch):
    class Theirs(torch.utils.data.Dataset):
        __getitem__, __len__ = Squares.__getitem__, Squares.__len__
        n = 10

    ours, theirs = (
        DataLoader(Squares(10), **settings),
        torch.utils.data.DataLoader(Theirs(), **settings),
    )
    assert lists(ours) == lists(theirs)
    assert len(ours) == len(theirs)
    first, expected = next(iter(ours)), next(iter(theirs))
    if settings.get("batch_size", 1):
        assert [str(tensor.dtype) for tensor in first] == [str(tensor.dtype) for tensor in expected]


@pytest.mark.parametrize(
    "settings", [{"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": None}]
)
def test_streams(settings, torch):
    class Theirs(torch.utils.data.IterableDataset):
        __iter__ = Stream.__iter__
        n = 7

    ours = DataLoader(Stream(7), **settings)
    theirs = torch.utils.data.DataLoader(Theirs(), **settings)
    assert [np.asarray(our).tolist() for our in ours] == [
        np.asarray(their).tolist() for their in theirs
    ]


def test_tensors_are_taken_a_batch_at_once(device):
    """The fast path gives what stacking single samples gives."""
    x, y = edutorch.randn(11, 2, 3), edutorch.arange(11)
    dataset = TensorDataset(x, y)

    class Slow(Dataset):
        def __getitem__(self, index):
            return dataset[index]

        def __len__(self):
            return len(dataset)

    for make in (
        lambda d: d,
        lambda d: Subset(d, [3, 1, 8, 8]),
        lambda d: Subset(Subset(d, [5, 6, 7]), [2, 0]),
    ):
        fast, slow = DataLoader(make(dataset), 4), DataLoader(make(Slow()), 4)
        for a, b in zip(fast, slow, strict=True):
            assert type(a) is type(b) is list
            assert [tensor.tolist() for tensor in a] == [tensor.tolist() for tensor in b]
            assert [str(tensor.device) for tensor in a] == [device, device]
    assert dataset[2][0].tolist() == x[2].tolist()


def test_an_overridden_getitem_is_used():
    class Doubled(TensorDataset):
        def __getitem__(self, index):
            return tuple(2 * tensor for tensor in super().__getitem__(index))

    ((batch,),) = DataLoader(Doubled(edutorch.arange(3)), 3)
    assert batch.tolist() == [0, 2, 4]


def test_each_epoch_has_an_order_of_its_own():
    loader = DataLoader(TensorDataset(edutorch.arange(50)), batch_size=8, shuffle=True)
    epochs = [[n for (batch,) in loader for n in batch.tolist()] for _ in range(2)]
    assert epochs[0] != epochs[1]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(50))


def test_a_generator_fixes_the_order(device):
    def order():
        generator = edutorch.Generator().manual_seed(5)
        loader = DataLoader(range(9), shuffle=True, generator=generator)
        return [batch.item() for batch in loader]

    assert order() == order()


def test_the_seed_fixes_the_order():
    edutorch.manual_seed(3)
    first = list(RandomSampler(range(9)))
    edutorch.manual_seed(3)
    assert list(RandomSampler(range(9))) == first


def test_samplers(device):
    assert list(SequentialSampler("abc")) == [0, 1, 2]
    assert (
        sorted(RandomSampler("abc", num_samples=7)) == [0, 0, 0, 1, 1, 2, 2]
        or len(list(RandomSampler("abc", num_samples=7))) == 7
    )
    drawn = list(RandomSampler("abc", replacement=True, num_samples=20))
    assert set(drawn) <= {0, 1, 2}
    assert len(drawn) == len(RandomSampler("abc", num_samples=20)) == 20
    assert sorted(SubsetRandomSampler([7, 3])) == [3, 7]
    assert set(WeightedRandomSampler([0.0, 1.0, 1.0], 40)) == {1, 2}
    batches = BatchSampler(SequentialSampler(range(5)), 2, drop_last=True)
    assert list(batches) == [[0, 1], [2, 3]]
    assert len(batches) == 2
    assert len(BatchSampler(SequentialSampler(range(5)), 2, drop_last=False)) == 3


def test_datasets_of_datasets():
    both = Squares(2) + Squares(3)
    assert isinstance(both, ConcatDataset)
    assert [both[i][0] for i in range(5)] == [0, 1, 0, 1, 2]
    assert both[-1] == (2, 4.0)
    with pytest.raises(IndexError, match="out of range"):
        _ = both[5]
    chained = Stream(2) + Stream(1)
    assert isinstance(chained, ChainDataset)
    assert list(chained) == [0, 1, 0]
    assert StackDataset(Squares(2), range(2))[1] == ((1, 1.0), 1)
    with pytest.raises(ValueError, match="Size mismatch"):
        StackDataset([1], [1, 2])
    with pytest.raises(TypeError, match="ChainDataset"):
        ConcatDataset([Stream(1)])


def test_random_split(device):
    parts = random_split(range(10), [6, 4])
    assert sorted(part[i] for part in parts for i in range(len(part))) == list(range(10))
    assert [len(part) for part in random_split(range(11), [0.5, 0.3, 0.2])] == [6, 3, 2]
    with pytest.raises(ValueError, match="does not equal"):
        random_split(range(3), [1, 1])
    with pytest.raises(ValueError, match="between 0 and 1"):
        random_split(range(3), [1.5, -0.5])


Point = namedtuple("Point", "x y")


def test_collating_what_pytorch_collates(torch):
    def samples(library):
        return [
            {"t": library.tensor([1.0, i]), "n": i, "f": i / 2, "s": "ab"[i], "p": Point(i, -i),
             "a": np.array([i, i], dtype=np.float32), "l": [i, (i, True)], "g": np.float32(i)}
            for i in range(2)
        ]  # fmt: skip

    actual, expected = (
        default_collate(samples(edutorch)),
        torch.utils.data.default_collate(samples(torch)),
    )

    def plain(value):
        if hasattr(value, "tolist"):
            return value.tolist(), str(value.dtype)
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, tuple | list):
            return [type(value).__name__, *(plain(item) for item in value)]
        return value

    assert plain(actual) == plain(expected)


def test_what_cannot_be_collated():
    with pytest.raises(TypeError, match="found <class 'object'>"):
        default_collate([object()])
    with pytest.raises(RuntimeError, match=r"sample\[1\] += \(3,\)"):
        default_collate([edutorch.zeros(2), edutorch.zeros(3)])
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([(1, 2), (1,)])


def test_arrays_become_tensors_without_batches():
    converted = default_convert({"a": np.ones(2), "b": ["x", np.int64(3)]})
    assert converted["a"].tolist() == [1, 1]
    assert isinstance(converted["a"], edutorch.Tensor)
    assert converted["b"][0] == "x"


def test_own_collate_function():
    loader = DataLoader(Squares(4), batch_size=2, collate_fn=lambda samples: len(samples))
    assert list(loader) == [2, 2]
    rows = TensorDataset(edutorch.arange(3))
    assert list(DataLoader(rows, 2, collate_fn=len)) == [2, 1]


def test_getitems_is_used_where_there_is_one():
    class Many(Squares):
        def __getitems__(self, indices):
            return [("many", i) for i in indices]

    assert next(iter(DataLoader(Many(4), 2)))[0] == ("many", "many")
    assert next(iter(DataLoader(Subset(Many(4), [3, 2]), 2)))[1].tolist() == [3, 2]


@pytest.mark.parametrize("settings", [
    {"shuffle": True, "sampler": [1]}, {"batch_sampler": [[1]], "batch_size": 2},
    {"batch_size": None, "drop_last": True}, {"batch_size": 0}, {"num_workers": -1},
], ids=str)  # fmt: skip
def test_arguments_that_exclude_each_other(settings):
    with pytest.raises(ValueError, match=r"exclusive|positive|non-negative"):
        DataLoader(Squares(4), **settings)


def test_a_stream_has_its_own_order():
    with pytest.raises(ValueError, match="its own order"):
        DataLoader(Stream(3), shuffle=True)


def test_rows_must_agree():
    with pytest.raises(RuntimeError, match="Size mismatch between tensors"):
        TensorDataset(edutorch.zeros(3), edutorch.zeros(2))


def test_a_subclass_that_forgot_something_is_told():
    class Nothing(Dataset):
        pass

    with pytest.raises(NotImplementedError, match="Nothing needs a __getitem__"):
        _ = Nothing()[0]
    with pytest.raises(NotImplementedError, match="__iter__"):
        iter(data.IterableDataset())


@pytest.mark.parametrize("order", [[3, 0, 4, 1, 2], [4, 3, 0, 2, 1], [2, 4, 1, 0, 3, 3, -1]])
def test_a_batch_of_several_datasets_keeps_its_order(order):
    """None of these orders is its own inverse."""
    parts = [TensorDataset(edutorch.arange(2)), TensorDataset(edutorch.arange(2, 5))]
    loader = DataLoader(ConcatDataset(parts), batch_sampler=[order])
    ((batch,),) = loader
    assert batch.tolist() == [index % 5 for index in order]


class CountedStream(Stream):
    """A stream that says how many samples it has."""

    def __len__(self):
        return self.n


@pytest.mark.parametrize("count", [0, 3, 4, 5, 8])
@pytest.mark.parametrize("drop_last", [False, True])
def test_the_length_of_a_stream(count, drop_last):
    loader = DataLoader(CountedStream(count), batch_size=4, drop_last=drop_last)
    assert len(loader) == len(list(loader))
