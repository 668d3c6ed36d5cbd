"""The thread in which kernels are compiled, also where a process is forked."""

import os
import subprocess
import sys
import threading

import pytest

from edutorch.utils.process import BackgroundWorker


def test_one_thing_after_the_other():
    beside, order, over = BackgroundWorker("test"), [], threading.Event()
    for number in range(5):
        beside.submit(lambda number=number: order.append((number, threading.current_thread().name)))
    beside.submit(over.set)
    assert over.wait(60)
    assert order == [(number, "test") for number in range(5)]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_ends_nothing_else():
    beside, over = BackgroundWorker("test"), threading.Event()
    beside.submit(lambda: 1 / 0)
    beside._thread.join(60)
    beside.submit(over.set)
    assert over.wait(60)


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


forked = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes")


@forked
def test_what_still_waits_is_done_by_a_forked_process_too():
    program = """
import os, threading
from edutorch.utils.process import BackgroundWorker
beside, done = BackgroundWorker("test"), threading.Event()
beside._jobs.append(done.set)  # as if it had been given a moment ago
child = os.fork()
if not child:
    beside.start()
    os._exit(0 if done.wait(60) and not beside.broken else 1)
print(os.waitpid(child, 0)[1])
"""
    assert run(program) == "0"


@forked
def test_compile_in_a_process_forked_while_the_compiler_works():
    pytest.importorskip("numba", reason="needs numba: the extra `fast`")
    program = """
import os, threading
import edutorch as torch
from edutorch.utils.process import compiler
begun, ended = threading.Event(), threading.Event()
compiler.submit(lambda: (begun.set(), ended.wait(60)))
begun.wait(60)
child = os.fork()
if not child:
    fast = torch.compile(lambda x: (x.exp() + 1).log() * 2)
    x = torch.ones(300, 300)
    y = fast(x)
    fast(x)
    os._exit(0 if compiler.broken and abs(y[0, 0].item() - 2.626523) < 1e-5 else 1)
print(os.waitpid(child, 0)[1])
ended.set()
"""
    assert run(program) == "0"
