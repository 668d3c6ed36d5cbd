"""Errors in workers: their messages, and that no process or memory is left behind."""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from multiprocessing import resource_tracker
from pathlib import Path

import pytest

import edutorch
from edutorch.utils.data import DataLoader, IterableDataset, TensorDataset
from tests.data.test_workers import Table, loader

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="starts workers by fork")


def in_use():
    """Return the processes, open files and shared memory of this moment."""
    children = {active_child.pid for active_child in multiprocessing.active_children()}
    # Semaphores have no owner in their names: these are PyTorch's, in tests that run beside.
    shared = {name for name in os.listdir("/dev/shm") if not name.startswith("sem.mp-")}
    return children, set(os.listdir("/proc/self/fd")), shared


@pytest.fixture(autouse=True)
def _nothing_is_left():
    resource_tracker.ensure_running()  # "spawn" starts it, once for the whole program
    before = in_use()
    yield
    gc.collect()  # `pytest.raises` keeps the traceback and its frames, in a circle
    for new, old in zip(in_use(), before, strict=True):
        assert new <= old


class OwnError(Exception):
    def __init__(self, code, place):
        super().__init__(code, place)
        self.code = code


def fails(error, at=5):
    def make(i):
        if i == at:
            raise error
        return i

    return Table(make)


def text_of(make, error_type):
    """Take all batches, which has to fail."""
    with pytest.raises(error_type) as caught:
        list(make)
    assert not isinstance(caught.value, AssertionError)
    return str(caught.value)


@pytest.mark.parametrize("error", [
    ValueError("bad sample"), KeyError("no such name"), OwnError(3, "here"), OSError(5, "disk"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad byte"),
    edutorch.errors.ShapeError("mm", "no", {"a": (2,)}, "do this"),
], ids=lambda error: type(error).__name__)  # fmt: skip
def test_an_exception_keeps_its_type_and_says_where(error):
    batches = loader(fails(error), 4, num_workers=2)
    with pytest.raises(type(error)) as caught:
        list(batches)
    text = str(caught.value)
    lines = text.splitlines()
    assert lines[0] == f"Caught {type(error).__name__} in DataLoader worker process 1."
    assert re.fullmatch(r"  worker = 1 of 2 \(pid \d+\)", lines[1])
    assert lines[2] == "  sample = 5 of the batch [4, 5, 6, 7]"
    assert re.fullmatch(r"  line   = test_worker_failures.py:\d+: raise error", lines[3])
    assert lines[4] == "Original Traceback (most recent call last):"
    assert str(error).splitlines()[0] in text
    assert getattr(caught.value, "code", 3) == 3
    assert getattr(caught.value, "arguments", {"a": "(2,)"}) == {"a": "(2,)"}


def test_an_exception_of_a_local_class_is_caught_by_its_base():
    class Local(LookupError):
        pass

    text = text_of(loader(fails(Local("gone")), 4, num_workers=1), LookupError)
    assert "Caught Local in" in text and "gone" in text


def test_notes_of_an_exception_are_shown_once():
    error = ValueError("bad")
    error.add_note("see the readme")
    with pytest.raises(ValueError, match="bad") as caught:
        list(loader(fails(error), 4, num_workers=1))
    printed = "".join(traceback.format_exception_only(caught.value))
    assert printed.count("see the readme") == 1


def test_the_next_batch_follows_an_exception():
    batches = iter(loader(fails(ValueError("bad"), 1), None, num_workers=1))
    assert next(batches) == 0
    with pytest.raises(ValueError, match="bad"):
        next(batches)
    assert list(batches) == list(range(2, 12))


def test_without_workers_a_note_names_the_sample():
    with pytest.raises(ValueError, match="bad") as caught:
        list(DataLoader(fails(ValueError("bad")), 4))
    assert caught.value.__notes__ == ["DataLoader: sample = 5 of the batch [4, 5, 6, 7]"]


def crash(i):
    faulthandler.disable()  # pytest's, which would tell this at length
    os.kill(os.getpid(), signal.SIGSEGV)


class Crashes(IterableDataset):
    def __iter__(self):
        yield crash(0)


def local_function(i):
    return lambda: i


WORDS = {
    "None": (
        lambda: loader(Table(lambda i: None if i == 2 else i), 4, num_workers=1),
        TypeError, ["= [0, 1, 2, 3], while they are collated", "None for [2]", "sample[2] is None"],
    ),
    "None first": (
        lambda: loader(Table(lambda i: i or None), 4, num_workers=1),
        TypeError, ["gave None for [0]", "NoneType", "does __getitem__ end without `return`?"],
    ),
    "unpicklable": (
        lambda: loader(Table(local_function), 2, num_workers=1, collate_fn=list),
        AttributeError, ["samples = [0, 1], while they are sent", "has to be pickled", "(list)"],
    ),
    "sampler out of range": (
        lambda: loader(TensorDataset(edutorch.arange(4)), 2, sampler=[0, 1, 2, 9], num_workers=1),
        IndexError, ["samples = [2, 9]", "sampler = gave [9], but len(dataset) is 4"],
    ),
    "length that lies": (
        lambda: loader(Table([7, 8, 9].__getitem__, 5), 2, num_workers=1),
        IndexError, ["sample = 3 of the batch [2, 3]", "list index out of range"],
    ),
    "worker_init_fn": (
        lambda: loader(Table(int), 2, num_workers=2, worker_init_fn=lambda w: 1 / 0),
        ZeroDivisionError, ["in     = worker_init_fn(0)", "lambda w: 1 / 0"],
    ),
    "StopIteration": (
        lambda: loader(fails(StopIteration()), 4, num_workers=1),
        RuntimeError, ["the dataset raised StopIteration", "sample = 5 of"],
    ),
    "exit code": (
        lambda: loader(Table(lambda i: sys.exit(3)), 4, num_workers=1),
        RuntimeError, ["exited with exit code 3", "0 of 1", "[0, 1, 2, 3]", "num_workers=0"],
    ),
    "crash": (
        lambda: loader(Table(crash), 4, num_workers=1),
        RuntimeError, ["is killed by signal: SIGSEGV", "compiled code crashed"],
    ),
    "crash in a stream": (
        lambda: loader(Crashes(), 4, num_workers=1),
        RuntimeError, ["is killed by signal: SIGSEGV", "= the next 4 of its stream"],
    ),
    "hang": (
        lambda: loader(Table(lambda i: time.sleep(60)), 4, num_workers=2, timeout=0.3),
        RuntimeError, ["timed out after 0.3 seconds: worker 0 (pid", "[0, 1, 2, 3]", "`timeout`"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WORDS)
def test_it_says_what_happened(case):
    make, error_type, words = WORDS[case]
    text = text_of(make(), error_type)
    for word in words:
        assert word in text


class Breaks(IterableDataset):
    def __iter__(self):
        yield from (1, 2)
        raise ValueError("the stream broke")


def test_a_stream_that_breaks_names_its_place():
    text = text_of(loader(Breaks(), 2, num_workers=1), ValueError)
    assert "sample = number 2 of its stream, counted from 0" in text
    assert 'raise ValueError("the stream broke")' in text


def test_a_stream_longer_than_it_says():
    class Longer(IterableDataset):
        def __len__(self):
            return 2

        def __iter__(self):
            return iter(range(4))

    batches = loader(Longer(), 1, num_workers=1)
    assert len(batches) == 2
    with pytest.warns(UserWarning, match="promised 2 batches"):
        assert len(list(batches)) == 4


def test_a_killed_worker_is_reported_at_once():
    batches = iter(loader(Table(int, 10_000), 2, num_workers=2))
    next(batches)
    victim = batches._pool.processes[1].pid
    os.kill(victim, signal.SIGKILL)
    begin = time.monotonic()
    with pytest.raises(RuntimeError) as caught:
        list(batches)
    assert time.monotonic() - begin < 5
    text = str(caught.value)
    assert f"DataLoader worker (pid {victim}) is killed by signal: SIGKILL, likely out of" in text
    assert re.search(r"worker  = [01] of 2", text)
    assert "fewer workers" in text
    with pytest.raises(StopIteration):
        next(batches)


def test_a_persistent_loader_recovers_from_a_killed_worker():
    batches = loader(Table(int, 6), 2, num_workers=1, persistent_workers=True)
    assert len(list(batches)) == 3
    os.kill(batches._iterator._pool.processes[0].pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="SIGKILL"):
        list(batches)
    assert len(list(batches)) == 3


def test_a_dataset_that_cannot_be_sent_to_a_spawned_worker():
    batches = loader(Table(lambda i: i), num_workers=1, multiprocessing_context="spawn")
    with pytest.raises((AttributeError, TypeError, Exception), match="pickle") as caught:
        iter(batches)
    assert "without lambda" in caught.value.__notes__[0]


def test_an_iterator_belongs_to_its_process():
    outer = iter(loader(Table(int, 100), 2, num_workers=1))
    text = text_of(loader(Table(lambda i: next(outer)), num_workers=1), RuntimeError)
    assert "made in another process" in text
    assert next(outer).tolist() == [0, 1]
    with pytest.raises(NotImplementedError, match="cannot be pickled"):
        outer.__reduce__()


def test_a_break_and_a_forgotten_iterator_end_the_workers():
    before = in_use()[0]
    for _ in loader(Table(lambda i: edutorch.zeros(200, 200), 1000), 2, num_workers=2):
        break
    assert in_use()[0] <= before
    batches = iter(loader(Table(int, 1000), 2, num_workers=2))
    next(batches)
    assert len(in_use()[0] - before) == 2
    del batches
    assert in_use()[0] <= before


def test_a_thousand_batches_leave_nothing_behind():
    """The fixture compares processes, open files and shared memory."""
    data = Table(lambda i: edutorch.full((20, 30), float(i)), 32_000)
    total = sum(batch[:, 0, 0].sum().item() for batch in loader(data, 32, num_workers=2))
    assert total == sum(range(32_000))


@pytest.mark.parametrize("end", ["", "raise ValueError", "sys.exit(4)", "thread()"])
def test_a_program_that_ends_with_an_open_iterator(end):
    code = f"""
import sys, threading
from edutorch.utils.data import DataLoader

def thread():
    other = threading.Thread(target=lambda: print(sum(1 for _ in loader)))
    other.start(), other.join()

loader = DataLoader(range(1000), 2, num_workers=1, persistent_workers=True)
batches = iter(loader)
next(batches)
print(batches._pool.processes[0].pid, flush=True)
{end}
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == {"": 0, "thread()": 0, "sys.exit(4)": 4}.get(end, 1)
    assert not Path(f"/proc/{done.stdout.split()[0]}").exists()
    assert "Traceback" not in done.stderr or end == "raise ValueError"


def trials(count, seed):
    script = Path(__file__).with_name("trials.py")
    done = subprocess.run(
        [sys.executable, script, str(count), str(seed)], capture_output=True, text=True,
        timeout=280, start_new_session=True,
    )  # fmt: skip
    assert done.stdout.strip() == f"ok {count}", done.stderr


def test_kills_and_interrupts_leave_no_orphan():
    trials(20, seed=1)


@pytest.mark.slow
def test_two_hundred_kills_and_interrupts_leave_no_orphan():
    trials(200, seed=2)
