"""Valid and invalid arguments of a DataLoader and its parts, and PyTorch's less common names."""

from __future__ import annotations

import collections
import os
import subprocess
import sys

import pytest

import edutorch
from edutorch.utils import data
from edutorch.utils.data import (
    DataLoader,
    DistributedSampler,
    RandomSampler,
    StackDataset,
    Subset,
    WeightedRandomSampler,
    default_collate,
)


@pytest.mark.parametrize(("settings", "error"), [
    ({"prefetch_factor": 3}, ValueError), ({"persistent_workers": True}, ValueError),
    ({"multiprocessing_context": "fork"}, ValueError), ({"num_workers": -1}, ValueError),
    ({"num_workers": 1, "multiprocessing_context": "threads"}, ValueError),
    ({"num_workers": 1, "multiprocessing_context": 3}, TypeError),
    ({"num_workers": 1, "prefetch_factor": -1}, ValueError), ({"timeout": -1}, ValueError),
    ({"batch_size": 0}, ValueError),
], ids=str)  # fmt: skip
def test_settings_are_refused_as_pytorch_does(settings, error, torch):
    for loader in (DataLoader, torch.utils.data.DataLoader):
        with pytest.raises(error, match=next(reversed(settings))):
            loader([1, 2], **settings)


def test_a_timeout_needs_workers():
    with pytest.raises(ValueError, match="num_workers > 0"):
        iter(DataLoader([1], timeout=1))


def test_what_the_samplers_were_made_from_stays():
    loader = DataLoader(range(4))
    for name in ("batch_size", "sampler", "dataset", "drop_last"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after"):
            setattr(loader, name, 3)
    loader.collate_fn = len
    assert list(loader) == [1] * 4


def test_warnings():
    many = (os.cpu_count() or 1) + 1
    with pytest.warns(UserWarning, match=f"will create {many} worker processes"):
        DataLoader([1], num_workers=many)
    if not edutorch.cuda.is_available():
        with pytest.warns(UserWarning, match="no accelerator is found"):
            loader = DataLoader([1, 2], 2, pin_memory=True)
        assert [batch.tolist() for batch in loader] == [[1, 2]]


@pytest.mark.parametrize("n", [0, 1, 2, 7, 8, 12])
@pytest.mark.parametrize("drop_last", [False, True])
def test_distributed_parts_equal_pytorchs(n, drop_last, torch):
    for replicas in (1, 2, 3, 5):
        parts = []
        for rank in range(replicas):
            settings = {"num_replicas": replicas, "rank": rank, "drop_last": drop_last}
            ours = DistributedSampler(range(n), shuffle=False, **settings)
            theirs = torch.utils.data.DistributedSampler(range(n), shuffle=False, **settings)
            if n or not drop_last:  # PyTorch's own count is negative there
                assert (len(ours), list(ours)) == (len(theirs), list(theirs))
            shuffled = DistributedSampler(range(n), seed=3, **settings)
            shuffled.set_epoch(2)
            parts.append(list(shuffled))
            assert parts[-1] == list(shuffled)
            assert len(parts[-1]) == len(ours)
        together = collections.Counter(i for part in parts for i in part)
        assert drop_last or set(together) == set(range(n))


def test_distributed_sampler_asks_the_environment(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(ValueError, match="no WORLD_SIZE"):
        DistributedSampler(range(4))
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    assert list(DistributedSampler(range(4), shuffle=False)) == [1, 3]
    with pytest.raises(ValueError, match=r"Invalid rank 2.*\[0, 1\]"):
        DistributedSampler(range(4), 2, 2)


def test_samplers_refuse_what_pytorch_refuses(torch):
    theirs = torch.utils.data
    for library in (data, theirs):
        with pytest.raises(ValueError, match="num_samples=0"):
            library.WeightedRandomSampler([1.0], 0)
        with pytest.raises(ValueError, match=r"\(1, 2\)"):
            library.WeightedRandomSampler([[1.0, 2.0]], 1)
        with pytest.raises(ValueError, match="boolean"):
            library.WeightedRandomSampler([1.0], 1, replacement=3)
        with pytest.raises(TypeError, match="boolean"):
            library.RandomSampler([1], replacement=3)
        with pytest.raises(ValueError, match="num_samples=0"):
            library.RandomSampler([])
    assert list(WeightedRandomSampler(edutorch.tensor([0.0, 2.0]), 2)) == [1, 1]


def test_what_else_is_drawn_does_not_change_the_order():
    def order(disturb):
        edutorch.manual_seed(1)
        order_seen = []
        for number in RandomSampler(range(4), num_samples=12):
            order_seen.append(number)
            if disturb:
                edutorch.rand(3)
        return order_seen

    assert order(True) == order(False)


class Many:
    """Counts how often it is asked."""

    def __init__(self, wrong=0):
        self.asked, self.wrong = 0, wrong

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return index

    def __getitems__(self, indices):
        self.asked += 1
        return indices[self.wrong :]


def test_getitems_reaches_inner_datasets():
    inner = Many()
    batches = list(DataLoader(StackDataset(a=Subset(inner, range(6)), b=range(6)), 3))
    assert [batch["a"].tolist() for batch in batches] == [[0, 1, 2], [3, 4, 5]]
    assert inner.asked == 2
    with pytest.raises(ValueError, match="Expected 3, got 2"):
        list(DataLoader(StackDataset(Many(1)), 3))

    class Negative(Subset):
        def __getitem__(self, index):
            return -super().__getitem__(index)

    assert next(iter(DataLoader(Negative(Many(), [2, 4]), 2))).tolist() == [-2, -4]


def test_a_type_can_be_taught_to_collate():
    class Money(int):
        pass

    known = data._utils.collate.default_collate_fn_map
    assert default_collate([Money(1), Money(2)]).tolist() == [1, 2]
    known[Money] = lambda values, collate_fn_map=None: sum(values)
    try:
        assert default_collate([(Money(1), "a"), (Money(2), "b")]) == [3, ("a", "b")]
    finally:
        del known[Money]


def test_containers_keep_their_class(torch):
    class Rows(collections.UserList):
        pass

    for library in (edutorch, torch):
        collate = library.utils.data.default_collate
        filled = collections.defaultdict(int, a=1)
        assert type(collate([filled, filled])) is collections.defaultdict
        assert type(collate([Rows([1]), Rows([2])])) is Rows
        assert type(collate([[1], [2]])) is list


def test_data_pipes_say_what_to_use():
    with pytest.raises(AttributeError, match=r"deprecated.*IterableDataset"):
        _ = data.IterDataPipe
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = data.nonsense


def test_pytorchs_other_places_of_the_names(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from torch.utils.data._utils.collate import default_collate_fn_map, collate\n"
        "from torch.utils.data.dataloader import DataLoader, default_collate\n"
        "from torch.utils.data.dataset import Subset, random_split\n"
        "from torch.utils.data.distributed import DistributedSampler\n"
        "from torch.utils.data.sampler import Sampler, BatchSampler\n"
        "loader: DataLoader[int] = DataLoader(range(6), 2, num_workers=2)\n"
        "print([batch.tolist() for batch in loader])\n"
    )
    command = [sys.executable, "-m", "edutorch", "run", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[[0, 1], [2, 3], [4, 5]]", done.stderr
