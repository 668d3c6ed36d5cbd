"""Kills and interrupts data loaders at random moments, and checks what they leave behind.

    python tests/data/trials.py COUNT SEED

One process runs all trials. It adopts every process that loses its parent, so that an orphan
shows among its own children. Prints "ok COUNT", or what was left of the first bad trial.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import random
import signal
import sys
import threading
import time

import edutorch
from edutorch.utils.data import DataLoader, Dataset

LIMIT = 5.0  # seconds in which everything has to be gone


class Images(Dataset):
    """Samples large enough for shared memory, that take a moment."""

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        if index % 16 == 0:
            time.sleep(0.001)
        return edutorch.full((64, 64), float(index))


def loader():
    return DataLoader(Images(), batch_size=8, num_workers=2, prefetch_factor=3)


def pids():
    return [active_child.pid for active_child in multiprocessing.active_children()]


def kill_a_worker():
    batches = iter(loader())
    victim = random.choice(pids())
    timer = threading.Timer(random.uniform(0, 0.04), os.kill, (victim, signal.SIGKILL))
    timer.start()
    begin, told = time.monotonic(), ""
    try:
        for _ in batches:
            assert time.monotonic() - begin < LIMIT, "the death of a worker is not reported"
    except RuntimeError as error:
        told = str(error)
    assert f"pid {victim}) is killed by signal: SIGKILL" in told, told
    timer.join()


def interrupt(send):
    """Ctrl-C while batches are taken, while workers start, or while they end."""
    timer = threading.Timer(random.uniform(0, 0.04), send, (signal.SIGINT,))
    deadline = time.monotonic() + LIMIT
    # Python itself drops an interrupt that comes within a destructor or a callback of `weakref`.
    dropped = []
    sys.unraisablehook = lambda event: dropped.append(event.exc_type)
    try:
        timer.start()
        while time.monotonic() < deadline and KeyboardInterrupt not in dropped:
            for number, _ in enumerate(loader()):
                if number == 5:
                    break
    except KeyboardInterrupt:
        return
    finally:
        sys.unraisablehook = sys.__unraisablehook__
    assert KeyboardInterrupt in dropped, "the interrupt was lost"


def interrupt_us():
    interrupt(lambda number: os.kill(os.getpid(), number))


def interrupt_the_group():
    interrupt(lambda number: os.killpg(0, number))


def kill_the_parent():
    """The process that uses the loader is killed: its workers must follow."""
    child = os.fork()
    if child == 0:
        try:
            for _ in loader():
                pass
        finally:
            os._exit(1)
    time.sleep(random.uniform(0, 0.06))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def left_behind():
    """Wait for all children, also adopted ones; return those that do not end."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.005)
        except ChildProcessError:
            return []
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return file.read().split()


def open_files():
    return set(os.listdir("/proc/self/fd"))


def left_open(files):
    """Wait until nothing else is open (threads close theirs when they end); return what is."""
    deadline = time.monotonic() + LIMIT
    while (more := open_files() - files) and time.monotonic() < deadline:
        gc.collect()  # what an interrupt has cut off may stand in a cycle
        time.sleep(0.005)
    folder = "/proc/self/fd"
    return [
        os.readlink(f"{folder}/{descriptor}")
        for descriptor in more
        if os.path.exists(f"{folder}/{descriptor}")
    ]


def shared_memory():
    return sorted(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else []


def main(count, seed):
    random.seed(seed)
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    next(iter(loader()))  # what is opened once, is open now
    files, memory = open_files(), shared_memory()
    trials = [kill_a_worker, interrupt_us, interrupt_the_group, kill_the_parent]
    for number in range(count):
        trial = trials[number % len(trials)]
        trial()
        left = left_behind()
        assert not left, f"trial {number}, {trial.__name__}: processes {left} are left"
        left = left_open(files)
        assert not left, f"trial {number}, {trial.__name__}: {left} are open"
    new = set(shared_memory()) - set(memory)
    assert not [name for name in new if "edutorch" in name or name.startswith(("psm_", "sem."))]
    print("ok", count)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
