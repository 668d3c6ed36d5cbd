"""The one pool of threads that all kernels share."""

import gc
import os
import signal
import threading
import time
import weakref

import numpy as np
import pytest

import edutorch

pytest.importorskip("numba", reason="needs numba: the extra `fast`")
from edutorch.kernels.cpu import parts

ENOUGH = 10 * parts.WORTH_A_THREAD


@pytest.fixture(autouse=True)
def _four_threads(monkeypatch):
    monkeypatch.setattr(edutorch.settings.Kept, "threads", 4)


def noting(seen):
    """A kernel that notes which rows it was given, and by which thread."""

    def kernel(start, stop, *arguments):
        time.sleep(0.01)
        seen.append((start, stop, threading.current_thread().name, *arguments))

    return kernel


@pytest.mark.parametrize("count", [4, 5, 7, 1000])
def test_each_row_is_done_once(count):
    seen = []
    parts.in_parts(noting(seen), count, "more", work=ENOUGH)
    seen.sort()
    assert len(seen) == 4
    assert [row for start, stop, *_ in seen for row in range(start, stop)] == list(range(count))
    assert {each[3] for each in seen} == {"more"}


def test_several_threads_do_it():
    seen = []
    parts.in_parts(noting(seen), 4, work=ENOUGH)
    names = {name for _, _, name in seen}
    assert threading.current_thread().name in names
    assert any(name.startswith("edutorch-kernel") for name in names)


def test_little_work_stays_where_it_is():
    seen = []
    parts.in_parts(noting(seen), parts.WORTH_A_THREAD)
    parts.in_parts(noting(seen), ENOUGH, work=parts.WORTH_A_THREAD)
    parts.in_parts(noting(seen), 0)
    assert {name for *_, name in seen} == {threading.current_thread().name}
    assert [each[1] for each in seen] == [parts.WORTH_A_THREAD, ENOUGH, 0]


def test_how_many_parts_there_are():
    assert parts.parts_for(ENOUGH) == 4
    assert parts.parts_for(3, work=ENOUGH) == 3
    assert parts.parts_for(2 * parts.WORTH_A_THREAD + 1) == 2
    assert parts.parts_for(0) == parts.parts_for(1) == 1


def test_set_num_threads_means_what_it_says(monkeypatch):
    seen = []
    edutorch.set_num_threads(2)
    parts.in_parts(noting(seen), 100, work=ENOUGH)
    edutorch.set_num_threads(1)
    parts.in_parts(noting(seen), 100, work=ENOUGH)
    assert len(seen) == 2 + 1


def test_a_kernel_may_use_the_pool_itself():
    seen = []

    def outer(start, stop):
        parts.in_parts(noting(seen), 8, start, work=ENOUGH)

    parts.in_parts(outer, 8, work=ENOUGH)
    assert len(seen) == 16


def test_threads_of_the_user_may_use_it_at_once():
    results = {}

    def work(number):
        sums = np.zeros(8)

        def kernel(start, stop):
            for row in range(start, stop):
                sums[row] += number

        for _ in range(50):
            parts.in_parts(kernel, 8, work=ENOUGH)
        results[number] = sums.tolist()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert results == {number: [50.0 * number] * 8 for number in range(3)}


@pytest.mark.parametrize("bad", [0, 3])
def test_an_error_comes_out_when_all_have_ended(bad):
    ended = []

    def kernel(start, stop):
        if start == bad:
            raise ZeroDivisionError(f"in row {start}")
        time.sleep(0.05)
        ended.append(start)

    with pytest.raises(ZeroDivisionError, match=f"in row {bad}"):
        parts.in_parts(kernel, 4, work=ENOUGH)
    before = list(ended)
    time.sleep(0.1)
    assert ended == before, "a part was still running"
    parts.in_parts(noting(ended), 4, work=ENOUGH)  # the pool is as good as before


def test_ctrl_c_waits_for_the_parts_that_run():
    begun, ended = [], []

    def kernel(start, stop):
        begun.append(start)
        if threading.current_thread() is threading.main_thread():
            while len(begun) < 2:
                time.sleep(0.001)
            signal.raise_signal(signal.SIGINT)
        time.sleep(0.1)
        ended.append(start)

    with pytest.raises(KeyboardInterrupt):
        parts.in_parts(kernel, 2, work=ENOUGH)
    assert ended == [1], "the part of the other thread had begun, and comes to its end"


def test_ctrl_c_while_waiting():
    ended = []

    def kernel(start, stop):
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
            ended.append(start)
        else:
            while not parts._pool.threads or start:
                time.sleep(0.001)
            time.sleep(0.03)

    with pytest.raises(KeyboardInterrupt):
        parts.in_parts(kernel, 2, work=ENOUGH)
    assert ended == [1]


def test_no_array_stays_in_memory():
    class Large:
        pass

    large = Large()
    seen = weakref.ref(large)
    parts.in_parts(lambda start, stop, given: None, 4, large, work=ENOUGH)
    del large
    gc.collect()
    assert seen() is None


def test_a_forked_process_makes_its_own_threads():
    parts.in_parts(noting([]), 4, work=ENOUGH)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        seen = []
        parts.in_parts(noting(seen), 4, work=ENOUGH)
        os.write(writer, str(len(seen)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 10) == b"4"


@pytest.mark.parametrize("count", [2, 7, 100])
@pytest.mark.parametrize("threads", [2, 3])
def test_the_callers_part_may_be_longer(count, threads, monkeypatch):
    monkeypatch.setattr(parts, "get_num_threads", lambda: threads)
    done, sizes = np.zeros(count), {}

    def kernel(start, stop):
        done[start:stop] += 1
        sizes[start] = stop - start

    parts.in_parts(kernel, count, work=500_000, uneven=True)
    assert (done == 1).all() and len(sizes) == min(count, threads)
    assert sizes.pop(0) >= max(sizes.values()) + (8 if count == 100 else -1)
