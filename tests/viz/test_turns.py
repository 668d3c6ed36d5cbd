"""The thread that sends messages runs where the loop does, on Linux, while it runs."""

import os
import sys
import threading
from types import SimpleNamespace

import pytest

from edutorch.viz.live import interpreter
from edutorch.viz.live.interpreter import ThreadAffinity, sending_thread

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can be told so")


@pytest.fixture
def other():
    """A thread that waits, and its number."""
    over, known = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: (known.set(), over.wait(20)))
    thread.start()
    known.wait()
    yield thread
    over.set()
    thread.join()


@linux
def test_the_thread_comes_near_and_goes_back(other, monkeypatch):
    monkeypatch.setattr(interpreter, "EVERY", 0.0)
    before = os.sched_getaffinity(other.native_id)
    mine = os.sched_getaffinity(0)
    place = min(mine)
    os.sched_setaffinity(0, {place})
    try:
        kept = ThreadAffinity(other.native_id)
        kept.pin_to_current()
        assert os.sched_getaffinity(other.native_id) == {place}
        os.sched_setaffinity(0, {max(mine)})
        kept.pin_to_current()  # the loop has moved
        assert os.sched_getaffinity(other.native_id) == {max(mine)}
        kept.unpin()
        assert os.sched_getaffinity(other.native_id) == before
        kept.unpin()
        kept.pin_to_current()
        assert os.sched_getaffinity(other.native_id) == {max(mine)}
    finally:
        os.sched_setaffinity(0, mine)


@linux
def test_it_is_asked_now_and_then_where_the_loop_runs(other):
    kept, asked = ThreadAffinity(other.native_id), []
    kept._current_cpu = lambda: asked.append(1) or min(os.sched_getaffinity(0))
    kept.pin_to_current()
    kept.pin_to_current()
    assert len(asked) == 1
    kept._due = 0.0
    kept.pin_to_current()
    kept.unpin()
    kept.pin_to_current()  # it was let go
    assert len(asked) == 3
    kept.unpin()


@linux
def test_where_it_may_not_run_it_does_not_come(other):
    mine = os.sched_getaffinity(0)
    if len(mine) < 2:
        pytest.skip("this machine has one processor")
    os.sched_setaffinity(other.native_id, {min(mine)})
    os.sched_setaffinity(0, {max(mine)})
    try:
        kept = ThreadAffinity(other.native_id)
        kept.pin_to_current()
        assert os.sched_getaffinity(other.native_id) == {min(mine)}
    finally:
        os.sched_setaffinity(0, mine)


@linux
def test_two_views_give_it_back(other):
    before = os.sched_getaffinity(other.native_id)
    first, second = ThreadAffinity(other.native_id), ThreadAffinity(other.native_id)
    for item in (first, second):
        item.pin_to_current()
    assert len(os.sched_getaffinity(other.native_id)) == 1
    for item in (first, second):
        item.unpin()
    assert os.sched_getaffinity(other.native_id) == before


@linux
def test_a_thread_that_is_gone_is_nobody():
    kept = ThreadAffinity(1 << 30)  # more than Linux counts up to
    kept.pin_to_current()
    kept.unpin()
    assert kept._thread is None


def test_elsewhere_nothing_is_done(monkeypatch, other):
    ThreadAffinity(None).pin_to_current()
    monkeypatch.setattr(interpreter, "c_function", lambda name: None)
    monkeypatch.setattr(os, "sched_setaffinity", pytest.fail, raising=False)
    kept = ThreadAffinity(other.native_id)
    kept.pin_to_current()
    kept.unpin()


def test_the_thread_of_a_kernel_is_found(monkeypatch):
    thread = SimpleNamespace(native_id=7)
    kernel = SimpleNamespace(iopub_thread=SimpleNamespace(thread=thread))
    for shell, result in (
        (SimpleNamespace(kernel=kernel), 7),
        (SimpleNamespace(), None),
        (None, None),
    ):
        monkeypatch.setitem(
            sys.modules, "IPython", SimpleNamespace(get_ipython=lambda shell=shell: shell)
        )
        assert sending_thread() == result
    monkeypatch.delitem(sys.modules, "IPython")
    assert sending_thread() is None
