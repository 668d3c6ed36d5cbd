"""Internals of a DataLoader that its batches alone do not show."""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
import warnings
from collections import namedtuple
from itertools import islice
from typing import Any

import pytest

import edutorch
from edutorch.utils.data import (
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    batch_transport,
    random_split,
    worker_errors,
)
from edutorch.utils.data.dataloader import pin_batch
from edutorch.utils.data.multiprocess_iterator import GRACE_SECONDS, WorkerPool
from edutorch.utils.data.worker_errors import format_indices
from tests.data.test_workers import Table, loader

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="starts workers by fork")

# Random numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [
    {}, {"replacement": True}, {"num_samples": 25}, {"replacement": True, "num_samples": 40},
], ids=str)  # fmt: skip
def test_a_generator_fixes_a_samplers_order(settings):
    def order(seed: int) -> list[int]:
        generator = edutorch.Generator().manual_seed(seed)
        return list(RandomSampler(range(10), generator=generator, **settings))

    assert order(3) == order(3) != order(4)


@pytest.mark.parametrize("workers", [0, 1])
def test_the_base_seed_is_a_long_number(workers):
    """One of 2⁶³, as in PyTorch: two epochs never have workers of the same seed."""
    seeds = [iter(loader(Table(abs, 2), num_workers=workers))._base_seed for _ in range(3)]
    assert len(set(seeds)) == 3
    assert max(seeds) > 2**32


# Batches --------------------------------------------------------------------------------------


class Stream(IterableDataset):
    """A stream that promises fewer or more samples than it has."""

    def __init__(self, promised: int, count: int) -> None:
        self.promised, self.count = promised, count

    def __len__(self) -> int:
        return self.promised

    def __iter__(self) -> Any:
        return iter(range(self.count))


@pytest.mark.parametrize(("promised", "count"), [(4, 4), (4, 3), (1, 0), (2, 4)])
def test_only_a_stream_that_is_too_long_is_warned_about(promised, count):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        batches = DataLoader(Stream(promised, count), 1)
        assert len(batches) == promised
        assert sum(1 for _ in batches) == count
    said = [str(warning.message) for warning in caught]
    assert len(said) == (count > promised)
    assert all(f"promised {promised} batches" in text for text in said)


class Pinnable:
    """A batch of a class of one's own that can be pinned."""

    is_pinned = False

    def pin_memory(self) -> Pinnable:
        other = Pinnable()
        other.is_pinned = True
        return other


Pair = namedtuple("Pair", "x y")


@pytest.mark.parametrize("wrap", [
    lambda x: x, lambda x: [x, 1], lambda x: (x, "text"), lambda x: {"a": {"b": x}},
    lambda x: Pair(x, None),
], ids=["alone", "list", "tuple", "dict", "namedtuple"])  # fmt: skip
def test_batches_of_every_form_are_pinned(wrap):
    def leaves(value: Any) -> list[Any]:
        if isinstance(value, dict):
            return leaves(list(value.values()))
        return [leaf for item in value for leaf in leaves(item)] if isinstance(
            value, list | tuple) else [value]  # fmt: skip

    batch = wrap(Pinnable())
    result = pin_batch(batch)
    assert type(result) is type(batch)
    assert [leaf.is_pinned for leaf in leaves(result) if isinstance(leaf, Pinnable)] == [True]
    assert [x for x in leaves(result) if not isinstance(x, Pinnable)] == [
        x for x in leaves(batch) if not isinstance(x, Pinnable)
    ]


@pytest.mark.parametrize(("indices", "text"), [
    (list(range(10)), str(list(range(10)))), (7, "7"), ((1, 2), "(1, 2)"), ([], "[]"),
    (list(range(11)), "[0, 1, 2, 3, 4, 5, 6, 7, … 11 in all]"),
    ("k" * 900, "'" + "k" * 199), (["k" * 900] * 11, "['" + "k" * 298),
], ids=["ten", "one", "tuple", "none", "eleven", "long key", "long keys"])  # fmt: skip
def test_the_samples_of_a_batch_fit_on_a_line(indices, text):
    assert format_indices(indices) == text


# Workers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_no_more_files_are_mapped_than_allowed(limit, monkeypatch):
    monkeypatch.setattr(batch_transport, "_mapped", type(batch_transport._mapped)())
    monkeypatch.setattr(batch_transport, "MAX_MAPPED_BATCHES", limit)
    batches = list(loader(Table(lambda i: edutorch.full((150, 150), float(i)), 6), None,
                          num_workers=1))  # fmt: skip
    assert [batch[0, 0].item() for batch in batches] == list(range(6))
    assert len(batch_transport._mapped) == limit


class Process:
    """Stands in for a worker that ends by itself, when it is terminated, or when it is killed."""

    def __init__(self, ends_by: str | None) -> None:
        self.ends_by, self.told, self.waits, self.alive = ends_by, [], [], True

    def is_alive(self) -> bool:
        return self.alive

    def join(self, timeout: float | None) -> None:
        self.waits.append(timeout)
        self.alive = self.ends_by is not None

    def terminate(self) -> None:
        self.told.append("terminate")
        self.ends_by = None if self.ends_by == "terminate" else self.ends_by

    def kill(self) -> None:
        self.told.append("kill")
        self.ends_by = None

    def close(self) -> None:
        self.told.append("close")


@pytest.mark.parametrize(("ends_by", "told"), [
    (None, ["close"]), ("terminate", ["terminate", "close"]),
    ("kill", ["terminate", "kill", "close"]),
])  # fmt: skip
def test_workers_get_time_to_end_by_themselves(ends_by, told):
    pool = WorkerPool.__new__(WorkerPool)
    process: Any = Process(ends_by)
    pool.pipes, pool.processes = [], [process]
    pool._end_all()
    assert process.told == told
    *patient, last = process.waits
    assert all(0 < wait <= GRACE_SECONDS for wait in patient)
    assert last is None if ends_by == "kill" else 0 < last <= GRACE_SECONDS


def test_a_worker_begins_its_stream_once():
    """Its iterator is made with the first task, and goes on with the others."""

    class Begun(IterableDataset):
        begun = 0

        def __iter__(self) -> Any:
            self.begun += 1
            return iter([(self.begun, number) for number in range(3)])

    batches = [tuple(batch) for batch in islice(loader(Begun(), None, num_workers=1), 5)]
    assert batches == [(1, 0), (1, 1), (1, 2)]


def test_a_debugger_shows_the_name_of_the_thread_that_reads_tasks() -> None:
    def names(_: int) -> list[str]:
        return [thread.name for thread in threading.enumerate()]

    (sample,) = loader(Table(names, 1), None, num_workers=1)
    assert sample == ["MainThread", "edutorch worker's inbox"]


class Threads:
    """How many threads each process of a loader computes with."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        return edutorch.get_num_threads()


def test_a_worker_computes_with_one_thread() -> None:
    batches = DataLoader(Threads(), num_workers=1, multiprocessing_context="fork")
    assert [batch.item() for batch in batches] == [1, 1]


def test_a_failure_is_told_from_the_first_line_of_the_users() -> None:
    code = compile("def outer(): return 1 / 0", f"{worker_errors.PACKAGE}/made.py", "exec")
    scope: dict[str, Any] = {}
    exec(code, scope)
    with pytest.raises(ZeroDivisionError) as caught:
        scope["outer"]()
    trace = caught.value.__traceback__
    assert trace is not None
    assert worker_errors.trim_to_user_code(trace) is trace  # this test's own line is the first
    assert worker_errors.trim_to_user_code(trace.tb_next) is None


def test_a_worker_skips_what_an_abandoned_epoch_asked_for() -> None:
    context = multiprocessing.get_context("fork")
    taken, go = context.Array("i", 8), context.Event()

    def sample(index: int) -> int:
        taken[index] += 1
        if index == 1:
            go.wait(30)
        return index

    batches = loader(
        Table(sample, 8), None, num_workers=1, prefetch_factor=6, persistent_workers=True
    )
    first = iter(batches)
    assert next(first) == 0
    while not taken[1]:
        time.sleep(0.01)
    second = iter(batches)  # the worker waits in sample 1; the next five are still in its inbox
    time.sleep(0.3)  # until its inbox knows of the new epoch
    go.set()
    assert list(second) == list(range(8))
    assert list(taken) == [2, 2, 1, 1, 1, 1, 1, 1]


def test_seeds_and_orders_are_drawn_on_the_cpu_whatever_the_default_device_is() -> None:
    def numbers() -> list[Any]:
        generator = edutorch.Generator().manual_seed(3)
        batches = loader(range(6), None, shuffle=True, generator=generator)
        weights = WeightedRandomSampler([1.0, 2.0], 4, generator=generator)
        drawn = RandomSampler(range(9), replacement=True, generator=generator)
        parts = random_split(range(6), [4, 2], generator=generator)
        subset = SubsetRandomSampler(range(5), generator=generator)
        distributed = DistributedSampler(range(6), 2, 0)
        epoch = iter(batches)
        order = list(epoch)
        return [
            epoch._base_seed, order, *map(list, (weights, drawn, subset, distributed)),
            *(list(part.indices) for part in parts),
        ]  # fmt: skip

    expected = numbers()
    # Where there is no GPU, nothing can be made on it.
    with edutorch.device("strict" if edutorch.cuda.is_available() else "cuda"):
        assert numbers() == expected


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_epoch_ends_where_a_sampler_ends_although_it_could_begin_anew(num_workers: int) -> None:
    class Restarting:
        position = -1

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> int:
            self.position += 1
            if self.position == 3:
                self.position = -1
                raise StopIteration
            return self.position

    batches = loader(Table(int), None, sampler=Restarting(), num_workers=num_workers)
    assert [list(islice(batches, 9)) for _ in range(2)] == [[0, 1, 2]] * 2


def test_a_map_style_dataset_may_not_raise_stop_iteration() -> None:
    def sample(index: int) -> int:
        if index == 2:
            raise StopIteration
        return index

    with pytest.raises(RuntimeError, match="the dataset raised StopIteration"):
        list(DataLoader(Table(sample, 4), None))
