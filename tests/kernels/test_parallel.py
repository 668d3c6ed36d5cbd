"""The one pool of threads that all kernels share."""

import ctypes
import gc
import os
import signal
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import edutorch
from edutorch import nn
from edutorch.nn import functional as F

pytest.importorskip("numba", reason="needs numba: the extra `fast`")
from numba import njit, types

from edutorch.kernels.cpu import parallel, work_queue
from edutorch.kernels.cpu.work_queue import claim_range, load_state
from tests.kernels.test_memory_layouts import FUNCTIONS

ENOUGH = 10 * parallel.MIN_WORK_PER_THREAD
LONG = 60
"""Seconds after which a test gives up waiting."""


@pytest.fixture(autouse=True)
def _four_threads(monkeypatch):
    monkeypatch.setattr(edutorch.settings.State, "threads", 4)
    monkeypatch.setattr(
        parallel, "MAX_PAUSE", 0
    )  # helpers are late here, where four have two cores


def kernel(signature):
    """Compile a kernel, as all are; not on the disk."""
    return njit([signature], nogil=True, error_model="numpy")


@kernel(types.void(types.uint64, types.uint64, types.int64[::1], types.float64))
def note(start, stop, seen, more):
    """Write down at each row where its part began."""
    first, stop = claim_range(start, stop)
    for row in range(first, stop):
        seen[row] += np.int64(first + 1) + np.int64(more)


@kernel(types.void(types.int64, types.int64, types.int64[::1], types.boolean[::1], types.int64))
def meet(start, stop, begun, flags, wanted):
    """Begin, and go on when so many parts have begun."""
    start, stop = claim_range(start, stop)
    address = begun.ctypes.data
    begun[1 + start] = 1
    while load_state(address) < wanted:  # read anew each time; the test counts in begun[0]
        pass
    flags[start] = True


@kernel(types.void(types.uint64, types.uint64, types.float32[:, ::1], types.boolean[:], types.int8,
                   types.float32, types.float64[::1], types.int64[:, :]))  # fmt: skip
def many(start, stop, x, mask, small, half, y, steps):
    """Arguments of all kinds arrive as they are."""
    start, stop = claim_range(start, stop)
    for row in range(start, stop):
        y[row] = x[row, 1] + half * small + (100.0 if mask[row] else 0.0) + steps[row, 1]


def alone(start, stop, seen):
    """A function of Python, which shares nothing."""
    seen.append((start, stop, threading.current_thread()))


def begins(count, work=ENOUGH, more=0.0):
    """Return where each row's part began."""
    seen = np.zeros(count, int)
    parallel.parallel_for(note, count, seen, more, work=work)
    return [int(first) - 1 - int(more) for first in seen]


@pytest.mark.parametrize("count", [4, 5, 7, 1000])
def test_each_row_is_done_once_and_parts_are_even(count):
    starts = begins(count, more=5.0)
    bounds = [count * part // 4 for part in range(4)]
    assert starts == [max(bound for bound in bounds if bound <= row) for row in range(count)]


def test_arguments_of_all_kinds():
    x = np.arange(80, dtype="f").reshape(40, 2)
    mask = (np.arange(80) % 3 == 0)[::2]
    steps = np.arange(160).reshape(40, 4)[:, ::2]
    y = np.zeros(40)
    parallel.parallel_for(many, 40, x, mask, -3, 0.5, y, steps, work=ENOUGH)
    np.testing.assert_array_equal(y, x[:, 1] - 1.5 + 100 * mask + steps[:, 1])


def test_several_threads_do_it():
    """Four parts meet, which one thread alone could never do."""
    begun, flags = np.zeros(5, int), np.zeros(4, bool)

    def count():
        while begun[0] < 4:
            begun[0] = begun[1:].sum()
            # One that fell asleep just before leaves its part to the caller, who waits in its own.
            for worker in parallel._pool.workers:
                worker.wake()

    counter = threading.Thread(target=count)
    counter.start()
    run = threading.Thread(
        target=parallel.parallel_for, args=(meet, 4, begun, flags, 4), kwargs={"work": ENOUGH}
    )
    run.start()
    run.join(LONG)
    counter.join(LONG)
    assert flags.all()


def test_a_kernel_that_shares_nothing_runs_here_part_by_part():
    seen = []
    parallel.parallel_for(alone, 10, seen, work=ENOUGH)
    here = threading.current_thread()
    assert seen == [(0, 2, here), (2, 5, here), (5, 7, here), (7, 10, here)]


def test_little_work_stays_where_it_is():
    seen = []
    parallel.parallel_for(alone, parallel.MIN_WORK_PER_THREAD, seen)
    parallel.parallel_for(alone, ENOUGH, seen, work=parallel.MIN_WORK_PER_THREAD)
    parallel.parallel_for(alone, 0, seen)
    assert [call[1] for call in seen] == [parallel.MIN_WORK_PER_THREAD, ENOUGH, 0]


def test_how_many_parts_there_are():
    assert parallel.count_parts(ENOUGH) == 4
    assert parallel.count_parts(3, work=ENOUGH) == 3
    assert parallel.count_parts(2 * parallel.MIN_WORK_PER_THREAD + 1) == 2
    assert parallel.count_parts(0) == parallel.count_parts(1) == 1


def sequence(make):
    return lambda x: make(24, 24)(x.reshape(-1, 25, 24))[0]


LAYERS = {
    "rnn": sequence(nn.RNN), "lstm": sequence(nn.LSTM), "gru": sequence(nn.GRU),
    "conv": lambda x: nn.Conv2d(6, 8, 3)(x), "transposed": lambda x: nn.ConvTranspose2d(6, 8, 3)(x),
    "max_pool": lambda x: F.max_pool2d(x, 2), "avg_pool": lambda x: F.avg_pool2d(x, 2),
    "linear": lambda x: nn.Linear(50, 50)(x), "rms_norm": lambda x: F.rms_norm(x, x.shape[1:]),
    **FUNCTIONS,
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_each_kernel_says_how_much_work_it_is(name, monkeypatch):
    """One that counts samples would otherwise take them for elements, and stay in one thread."""
    monkeypatch.setenv("EDUTORCH_KERNELS", "wait")
    told = []
    monkeypatch.setattr(
        parallel, "count_parts", lambda count, work=None: told.append(work or count) or 1
    )
    x = edutorch.randn(4, 6, 50, 50, requires_grad=True)
    LAYERS[name](x).sum().backward()
    fewest = 400 if name in ("conv", "transposed") else x.numel() // 16  # 432 taps are a kernel's
    assert min(told, default=fewest) >= fewest


def test_set_num_threads_means_what_it_says():
    edutorch.set_num_threads(2)
    assert set(begins(100)) == {0, 50}
    edutorch.set_num_threads(1)
    assert set(begins(100)) == {0}
    edutorch.set_num_threads(3)
    assert set(begins(100)) == {0, 33, 66}


def test_threads_of_the_user_may_use_it_at_once():
    results = {}

    def work(number):
        results[number] = {tuple(begins(8, more=float(number))) for _ in range(300)}

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert results == {number: {(0, 0, 2, 2, 4, 4, 6, 6)} for number in range(3)}
    assert not parallel._pool.users


def test_helpers_sleep_when_nothing_comes_and_wake_up():
    begins(8)
    deadline = time.monotonic() + LONG
    while not all(worker.is_asleep for worker in parallel._pool.workers):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    begins(8)
    deadline = time.monotonic() + LONG
    while any(worker.is_asleep for worker in parallel._pool.workers):
        begins(8)  # one may just have gone to sleep again
        assert time.monotonic() < deadline


@pytest.mark.skipif(parallel.current_cpu is None, reason="only Linux says which CPU it is")
def test_a_helper_wakes_on_another_cpu_than_the_caller():
    begins(1000)
    allowed = os.sched_getaffinity(0)
    for worker in parallel._pool.workers:
        worker._avoid(max(allowed))
        others = allowed - {max(allowed)} or allowed
        assert os.sched_getaffinity(worker._thread.native_id) == others


def test_what_no_helper_begins_the_caller_does(monkeypatch):
    """No worker polls its task slot."""
    monkeypatch.setattr(parallel.WorkerThread, "_serve", lambda self: None)
    monkeypatch.setattr(parallel, "_pool", parallel.ThreadPool())
    assert begins(8) == [0, 0, 2, 2, 4, 4, 6, 6]
    assert begins(9)[-1] == 6


def test_helpers_that_come_too_late_are_left_alone_for_a_while(monkeypatch):
    monkeypatch.setattr(
        parallel.WorkerThread, "_serve", lambda self: None
    )  # as if they had no core
    monkeypatch.setattr(parallel, "_pool", parallel.ThreadPool())
    monkeypatch.setattr(parallel, "MAX_PAUSE", 9.0)
    monkeypatch.setattr(parallel, "MIN_PAUSE", 1.0)
    now, asked = [100.0], []
    monkeypatch.setattr(parallel.time, "perf_counter", lambda: now[0])
    for _ in range(30):
        now[0] += 1.1
        before = parallel._pool.paused_until
        begins(8)
        if parallel._pool.paused_until != before:
            asked.append(parallel._pool.paused_until - now[0])
    assert asked == pytest.approx([1.0, 5.0, 9.0, 9.0, 9.0])
    monkeypatch.setattr(parallel, "finish", lambda pool, spins: 0)  # all were in time
    now[0] += 10
    for _ in range(3):
        begins(8)
    assert parallel._pool._pause == 9.0 / 8


def test_a_helper_that_is_about_to_sleep_looks_into_its_box_once_more(monkeypatch):
    """It says that it sleeps when it has Python's lock; until then it is taken for awake."""
    states, again, real = iter([work_queue.READY, 0]), threading.Event(), parallel.serve

    def serve(slot, spins):
        if threading.current_thread().name != "about to sleep":
            real(slot, spins)
            return
        state = next(states)
        ctypes.c_int64.from_address(slot).value = state
        if state == 0:
            again.set()

    monkeypatch.setattr(parallel, "serve", serve)
    worker = parallel.WorkerThread("about to sleep")
    assert again.wait(20)  # nobody has woken it
    while not worker.is_asleep:
        time.sleep(0.001)


def test_a_part_that_takes_long_is_waited_for(monkeypatch):
    """With no patience at all, the caller sleeps and asks again until the last part has ended."""
    monkeypatch.setattr(parallel, "SPIN_LIMIT", 1)
    for _ in range(50):
        assert begins(8) == [0, 0, 2, 2, 4, 4, 6, 6]


def test_a_part_that_fails_is_said(monkeypatch):
    asked = iter([-1, -1, 2 * work_queue.FAILURE])
    real = parallel.finish

    def finish(pool, spins):
        while real(pool, 10**6) < 0:
            pass
        return next(asked)

    monkeypatch.setattr(parallel, "finish", finish)
    with pytest.raises(RuntimeError, match=r"note: a part of this kernel has failed.*threads\(1\)"):
        begins(8)
    monkeypatch.setattr(parallel, "finish", real)
    assert begins(8) == [0, 0, 2, 2, 4, 4, 6, 6]


def test_an_error_before_the_first_row_leaves_the_team_free():
    with pytest.raises(TypeError):
        parallel.parallel_for(note, 8, "no array", 0.0, work=ENOUGH)
    assert begins(8) == [0, 0, 2, 2, 4, 4, 6, 6]


def test_ctrl_c_waits_for_the_parts_that_run(monkeypatch):
    """Whenever it comes while the caller waits, all rows are done before it is raised."""
    real, seen = parallel.finish, np.zeros(8, int)
    asked = iter([1])

    def finish(pool, spins):
        for _ in asked:
            signal.raise_signal(signal.SIGINT)
        return real(pool, spins)

    monkeypatch.setattr(parallel, "finish", finish)
    with pytest.raises(KeyboardInterrupt):
        parallel.parallel_for(note, 8, seen, 0.0, work=ENOUGH)
    assert (seen > 0).all()
    assert begins(8) == [0, 0, 2, 2, 4, 4, 6, 6]


def test_no_array_stays_in_memory():
    large = np.zeros(8, int)
    seen, before = weakref.ref(large), sys.getrefcount(large)
    parallel.parallel_for(note, 8, large, 0.0, work=ENOUGH)
    assert sys.getrefcount(large) == before
    del large
    gc.collect()
    assert seen() is None


def test_a_forked_process_makes_its_own_threads():
    begins(8)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        starts = begins(8)
        os.write(writer, f"{starts == [0, 0, 2, 2, 4, 4, 6, 6]}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 10) == b"True"


def test_too_many_arguments_are_refused_when_a_kernel_is_compiled():
    names = [f"x{i}" for i in range(work_queue.SLOT_WORDS)]
    scope = {"claim_range": claim_range}
    exec(f"def crowded(start, stop, {', '.join(names)}):\n  start, stop = claim_range(start, stop)",
         scope)  # fmt: skip
    with pytest.raises(ValueError, match="too many arguments for a task slot"):
        kernel(types.void(*[types.int64] * (work_queue.SLOT_WORDS + 2)))(scope["crowded"])
