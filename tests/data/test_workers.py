"""Batches from workers: the same ones, in the same order, for all types of samples."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
import random
import signal
import sys
import time
import warnings

import numpy as np
import pytest

import edutorch
from edutorch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    get_worker_info,
)
from edutorch.utils.data.batch_transport import HAS_MEMORY_FILES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="starts workers by fork")


class Table(Dataset):
    """Samples made by a function of their number."""

    def __init__(self, make, length=12):
        self.make, self.length = make, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.make(index)


class Parts(IterableDataset):
    """Worker number w gives `lengths[w]` samples: 100 w, 100 w + 1, …"""

    def __init__(self, lengths):
        self.lengths = lengths

    def __iter__(self):
        info = get_worker_info()
        worker = info.id if info else 0
        return iter([100 * worker + i for i in range(self.lengths[worker])])


def loader(dataset, *args, **settings):
    """Make a loader; this machine may have fewer processors than workers."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This DataLoader will create")
        return DataLoader(dataset, *args, **settings)


def plain(value):
    if hasattr(value, "tolist"):
        return value.tolist(), str(value.dtype)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value).__name__, [plain(item) for item in value]
    return value


@pytest.mark.parametrize("settings", [
    {"batch_size": 5}, {"batch_size": 5, "drop_last": True}, {"batch_size": None},
    {"batch_size": 3, "shuffle": True}, {"batch_sampler": [[3, 1], [7], [0, 11, 2]]},
    {"batch_size": 2, "sampler": [5, 4, 5]}, {"batch_size": 1, "prefetch_factor": 7},
    {"batch_size": 4, "collate_fn": len}, {"batch_size": 40},
], ids=str)  # fmt: skip
def test_workers_give_the_same_batches(settings):
    dataset = Table(lambda i: {"x": edutorch.full((40, 50), float(i)), "n": i, "name": f"no {i}"})
    results = []
    for workers in (0, 1, 3):
        edutorch.manual_seed(4)
        known = settings if workers else {k: v for k, v in settings.items() if k[:8] != "prefetch"}
        results.append([plain(batch) for batch in loader(dataset, num_workers=workers, **known)])
    assert results[0] == results[1] == results[2]
    assert results[0]


LENGTHS = [[3, 3, 3], [5, 1, 3], [0, 4, 0], [0, 0, 0], [1, 9, 2]]
HOW = [{"batch_size": 2}, {"batch_size": None}, {"batch_size": 3, "drop_last": True}]
# Each combination starts six processes, so half of them are for the slow tests.
COMBINATIONS = [
    pytest.param(lengths, how, marks=[pytest.mark.slow] if number % 2 else [])
    for number, (how, lengths) in enumerate(itertools.product(HOW, LENGTHS))
]


@pytest.mark.parametrize(("lengths", "how"), COMBINATIONS)
def test_streams_come_in_pytorchs_order(lengths, how, torch):
    class Theirs(torch.utils.data.IterableDataset):
        def __iter__(self):
            worker = torch.utils.data.get_worker_info().id
            return iter([100 * worker + i for i in range(lengths[worker])])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = torch.utils.data.DataLoader(Theirs(), num_workers=3, **how)
        expected = [np.asarray(batch).tolist() for batch in theirs]
    ours = loader(Parts(lengths), num_workers=3, **how)
    assert [np.asarray(batch).tolist() for batch in ours] == expected


def draws(_):
    info = get_worker_info()
    return info.id, info.num_workers, info.seed, random.random(), np.random.rand()


def test_seeds_are_derived_as_pytorch_does(torch):
    """From the base seed on: worker w has seed base + w, and Python and NumPy follow from it."""

    class Theirs(torch.utils.data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, index):
            info = torch.utils.data.get_worker_info()
            return info.id, info.num_workers, info.seed, random.random(), np.random.rand()

    theirs = iter(torch.utils.data.DataLoader(Theirs(), None, num_workers=2))
    base = theirs._base_seed
    expected = list(theirs)
    ours = loader(Table(draws, 6), None, num_workers=2)
    from edutorch.utils.data import multiprocess_iterator

    with pytest.MonkeyPatch.context() as patch:
        made = multiprocess_iterator.make_worker_config
        patch.setattr(
            multiprocess_iterator,
            "make_worker_config",
            lambda loader, worker, _: made(loader, worker, base),
        )
        assert list(ours) == [list(sample) for sample in expected]


def test_each_epoch_has_seeds_of_its_own_and_a_generator_fixes_them():
    def epochs():
        source = edutorch.Generator().manual_seed(8)
        batches = loader(Table(draws, 4), None, num_workers=2, generator=source)
        return [list(batches), list(batches)]

    first, second = epochs()
    assert first != second
    assert epochs() == [first, second]
    assert first[1][2] == first[0][2] + 1, "the workers' seeds are neighbours"


def test_edutorchs_numbers_differ_between_workers():
    def drawn(_):
        return edutorch.rand(()).item(), edutorch.initial_seed() == get_worker_info().seed

    values = list(loader(Table(drawn, 8), None, num_workers=2))
    assert len({value for value, _ in values}) == 8
    assert all(same for _, same in values)


def test_get_worker_info():
    assert get_worker_info() is None
    dataset = Table(lambda i: (get_worker_info().dataset.length, os.getpid()), 4)
    samples = list(loader(dataset, None, num_workers=2))
    assert {length for length, _ in samples} == {4}
    assert len({pid for _, pid in samples}) == 2
    assert os.getpid() not in {pid for _, pid in samples}


def test_worker_init_fn_runs_after_seeding():
    seen = {}

    def init(worker):
        seen["worker"] = worker
        np.random.seed(worker)

    values = list(loader(Table(lambda i: (seen["worker"], np.random.rand()), 2), None,
                         num_workers=2, worker_init_fn=init))  # fmt: skip
    assert values == [[w, np.random.RandomState(w).rand()] for w in range(2)]
    assert not seen


def test_persistent_workers_stay_the_same_processes():
    batches = loader(Table(lambda i: os.getpid(), 4), None, num_workers=2, persistent_workers=True)
    first, second = set(batches), set(batches)
    assert first == second
    for _ in batches:
        break  # in the middle: what was asked for is not given in the next epoch
    integers = loader(Table(int, 60), 5, num_workers=2, persistent_workers=True)
    for batch in integers:
        assert batch[0] == 0
        break
    assert [n for batch in integers for n in batch.tolist()] == list(range(60))
    streams = loader(Parts([3, 1]), None, num_workers=2, persistent_workers=True)
    assert list(streams) == list(streams) == [0, 100, 1, 2]


def test_two_iterators_at_once():
    batches = loader(Table(int, 20), 4, num_workers=1)
    assert [a.tolist() == b.tolist() for a, b in zip(batches, batches, strict=True)] == [True] * 5
    first, second = iter(batches), iter(batches)
    assert next(first).tolist() == next(second).tolist() == [0, 1, 2, 3]
    del first
    assert next(second).tolist() == [4, 5, 6, 7]


def test_out_of_order_gives_what_is_ready():
    last = multiprocessing.get_context("fork").Event()

    def slow(i):
        if i == 7:
            last.set()
        if i == 0:
            last.wait(10)
            time.sleep(0.2)
        return i

    quick = list(loader(Table(slow, 8), None, num_workers=2, in_order=False))
    # A worker that is busy gets no more than its two batches: the other one makes the rest.
    assert quick == [1, 3, 4, 5, 6, 7, 0, 2]
    assert list(loader(Table(slow, 8), None, num_workers=2)) == list(range(8))


def test_a_loader_inside_a_worker():
    def inner(i):
        return sum(batch.sum().item() for batch in DataLoader(range(i + 2), 2, num_workers=1))

    assert list(loader(Table(inner, 3), None, num_workers=1)) == [1, 3, 6]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_ways_to_start(method):
    data = TensorDataset(edutorch.arange(6.0))
    batches = loader(data, 4, num_workers=1, multiprocessing_context=method)
    assert [batch.tolist() for (batch,) in batches] == [[0, 1, 2, 3], [4, 5]]


def test_children_use_one_thread():
    pytest.importorskip("threadpoolctl", reason="needs the extra `fast`")

    def threads(_):
        from threadpoolctl import threadpool_info

        x = edutorch.randn(200, 200)
        return edutorch.get_num_threads(), max(p["num_threads"] for p in threadpool_info()), x @ x

    big = edutorch.randn(300, 300)
    big @ big  # the library of matrix products has its threads before the fork
    for kept, real, product in loader(Table(threads, 2), None, num_workers=2):
        assert (kept, real) == (1, 1)
        assert product.shape == (200, 200)


def test_the_first_line_of_an_error_is_pytorchs(torch):
    class Theirs(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            raise ValueError("bad")

    first_lines = []
    for data_loader in (torch.utils.data.DataLoader(Theirs(), num_workers=1),
                 loader(Table(Theirs().__getitem__), num_workers=1)):  # fmt: skip
        with pytest.raises(ValueError, match="bad") as caught:
            list(data_loader)
        first_lines.append(str(caught.value).splitlines()[0])
    del data_loader, caught
    gc.collect()  # PyTorch's iterator must not end in a worker that a later test forks
    assert first_lines[0] == first_lines[1] == "Caught ValueError in DataLoader worker process 0."


def test_listeners_stay_in_the_process_that_trains():
    from edutorch.events import listening

    seen = []
    with listening(seen.append):
        batches = list(loader(Table(lambda i: edutorch.ones(2) * i, 4), 2, num_workers=1))
    events = [(type(event).__name__, event.kind) for event in seen if hasattr(event, "kind")]
    assert events.count(("WorkStarted", "data")) == events.count(("WorkEnded", "data")) == 3
    assert not [event for event in seen if type(event).__name__ == "OpApplied"
                and event.op.name == "mul"]  # fmt: skip
    assert batches[1].tolist() == [[2, 2], [3, 3]]


# What travels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (300, 300), (700, 400)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "bool", "int64"])
def test_tensors_arrive_whole(shape, dtype):
    def make(i):
        return edutorch.full(shape, i % 2).to(getattr(edutorch, dtype))

    for number, x in enumerate(loader(Table(make, 3), None, num_workers=1)):
        assert x.shape == shape and str(x.dtype) == f"torch.{dtype}"
        assert (x == number % 2).all()
        x.fill_(1 - number % 2)  # it may be written to
        assert not (x == number % 2).any()


def test_a_part_of_a_large_tensor_travels_alone():
    from edutorch.utils.data.batch_transport import Batch, pack

    large = edutorch.arange(1e6).reshape(1000, 1000)
    for part in (large[3], large[:, 3], large[5:7].requires_grad_()):
        body, buffers = pack({"part": part})
        assert len(body) + sum(buffer.nbytes for buffer in buffers) < 10_000
        arrived = Batch(body, buffers).unpack()["part"]
        assert arrived.tolist() == part.tolist()
        assert arrived.requires_grad == part.requires_grad


@pytest.mark.skipif(not HAS_MEMORY_FILES, reason="there is no such memory on this system")
@pytest.mark.parametrize("moment", ["recv_fds", "mmap"])
def test_ctrl_c_while_a_batch_arrives_leaves_no_file_open(moment, monkeypatch):
    from edutorch.utils.data import batch_transport

    here, there = multiprocessing.Pipe()
    batch_transport.send(there, "head", *batch_transport.pack(edutorch.ones(300, 300)))
    holder = batch_transport.socket if moment == "recv_fds" else batch_transport.mmap
    usual, files = getattr(holder, moment), set(os.listdir("/proc/self/fd"))

    def interrupted(*args, **kwargs):
        result = usual(*args, **kwargs)
        signal.raise_signal(signal.SIGINT)
        return result

    monkeypatch.setattr(holder, moment, interrupted)
    with pytest.raises(KeyboardInterrupt):
        batch_transport.receive(here)
    monkeypatch.undo()
    assert set(os.listdir("/proc/self/fd")) <= files
    there.send("and the pipe is still there")
    assert here.recv() == "and the pipe is still there"


def test_more_batches_at_once_than_files_may_be_open():
    batches = list(loader(Table(lambda i: edutorch.full((150, 150), float(i)), 200), None,
                          num_workers=1))  # fmt: skip
    assert len(os.listdir("/proc/self/fd")) < 150
    assert [batch[0, 0].item() for batch in batches] == list(range(200))


@pytest.mark.parametrize("problem", ["none of it", "no room"])
def test_without_shared_memory_the_pipe_carries_batches(problem, monkeypatch, recwarn):
    from edutorch.utils.data import batch_transport

    if problem == "none of it":
        monkeypatch.setattr(batch_transport, "HAS_MEMORY_FILES", False)
    else:

        def full(file, buffer, place):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "pwrite", full)
    dataset = Table(lambda i: edutorch.full((300, 300), float(i)), 6)
    batches = list(loader(dataset, 2, num_workers=2))
    assert [batch[:, 0, 0].tolist() for batch in batches] == [[0, 1], [2, 3], [4, 5]]
    # From 3.12 on Python itself warns of fork beside threads.
    told = [str(warning.message) for warning in recwarn if "fork()" not in str(warning.message)]
    if problem == "no room":
        assert len(told) == 1
        assert "720,000 bytes (No space left on device)" in told[0]
    else:
        assert not told


# Tensors in memory -------------------------------------------------------------------------------


def test_rows_of_several_datasets_are_taken_at_once(device):
    def data(n, start):
        x = edutorch.arange(2 * n).reshape(n, 2) + start
        return TensorDataset(x, edutorch.arange(n) + start)

    parts = [data(3, 0), Subset(data(5, 100), [4, 0]), data(2, 200)]
    both = ConcatDataset([ConcatDataset(parts[:2]), parts[2]])
    for dataset in (both, Subset(both, [6, 0, -1, 3]), Subset(Subset(both, [5, 4, 3]), (2, 0))):
        order = edutorch.randperm(len(dataset), device="cpu").tolist()
        fast = DataLoader(dataset, 3, sampler=order)
        slow = DataLoader(Table(dataset.__getitem__), 3, sampler=order)
        assert next(iter(fast))[0].device.type == device
        assert iter(fast)._fetch.fetch_rows is not None
        for ours, expected in zip(fast, slow, strict=True):
            assert plain(ours) == plain(expected)
    mixed = ConcatDataset([data(2, 0), TensorDataset(edutorch.zeros(2, 3), edutorch.arange(2))])
    assert iter(DataLoader(mixed))._fetch.fetch_rows is None, "rows of different shapes"
    with pytest.raises(IndexError, match="out of range"):
        list(DataLoader(both, 2, sampler=[0, 7]))
