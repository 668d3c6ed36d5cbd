"""A worker: the process that makes batches ahead, for the process that trains.

Its main thread takes tasks out of an inbox, makes the batches and sends them. A second thread
fills the inbox. So a task is always taken out of the pipe at once, neither side can block the
other, and the worker notices when the process that started it is gone: the pipe ends.
"""

from __future__ import annotations

import ctypes
import os
import queue
import random
import signal
import sys
import threading
import time
from typing import Any

import numpy as np

from ... import settings
from ...modes import current, switch
from ...ops import manual_seed
from ...ops import random as generators
from .batch_transport import pack, send
from .fetch import MapFetcher, IterableFetcher
from .worker_config import WorkerConfig, WorkerInfo, set_worker_info
from .worker_errors import Failure, make_failure

GRACE_SECONDS = 5.0
"""Seconds in which a worker whose pipe has ended may finish what it is at."""


class Inbox(threading.Thread):
    """Takes tasks out of the pipe: (epoch, number of the batch, what it is made of)."""

    def __init__(self, pipe: Any) -> None:
        super().__init__(name="edutorch worker's inbox", daemon=True)
        self.pipe, self.epoch = pipe, 0
        self.tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def run(self) -> None:
        """Listen until the pipe ends. Then the worker has little time to end as well."""
        try:
            while True:
                task = self.pipe.recv()
                self.epoch = task[0]
                self.tasks.put(task)
        except (EOFError, OSError):
            self.tasks.put(None)
        time.sleep(GRACE_SECONDS)
        os._exit(1)


def main(config: WorkerConfig, pipe: Any) -> None:
    """Be a worker until the pipe ends."""
    reset_inherited_state(config)
    inbox = Inbox(pipe)
    inbox.start()
    try:
        make_batches(config, inbox, pipe, initialize_worker(config))
    except (BrokenPipeError, ConnectionResetError):
        pass  # nobody wants the batch any more


def initialize_worker(config: WorkerConfig) -> Failure | None:
    """Seed the random numbers and call `worker_init_fn`; return what it raised."""
    seed = config.base_seed + config.worker
    random.seed(seed)
    manual_seed(seed)
    words = [config.worker, config.base_seed % 2**32, config.base_seed >> 32, 0]
    np.random.seed(np.random.SeedSequence(words).generate_state(4))
    set_worker_info(WorkerInfo(config.worker, config.num_workers, seed, config.dataset))
    if config.worker_init_fn is None:
        return None
    try:
        config.worker_init_fn(config.worker)
    except Exception as error:  # noqa: BLE001  (it is raised again where the batch is awaited)
        return failure_of(error, config, {"in": f"worker_init_fn({config.worker})"})
    return None


def failure_of(error: Exception, config: WorkerConfig, progress: dict[str, str]) -> Failure:
    return make_failure(error, config.worker, config.num_workers, progress)


def make_batches(config: WorkerConfig, inbox: Inbox, pipe: Any, init_failure: Failure | None) -> None:
    """Answer each task by ("batch" | "failed" | "ended", epoch, number) and a parcel."""
    epoch, fetch, ended = -1, None, False
    while (task := inbox.tasks.get()) is not None:
        if task[0] != inbox.epoch:
            continue  # of an epoch that was left early
        if task[0] != epoch:
            epoch, fetch, ended = task[0], None, False
        if ended:
            continue
        try:
            if init_failure is None and fetch is None:
                fetch = config.make_fetcher()
            status, packed = (
                ("failed", pack(init_failure)) if fetch is None else make_batch(fetch, task[2])
            )
        except Exception as error:  # noqa: BLE001  (it is raised again in the other process)
            progress = {"in": "iter(dataset)"} if fetch is None else fetch.progress()
            status, packed = "failed", pack(failure_of(error, config, progress))
        ended = status == "ended"
        send(pipe, (status, *task[:2]), *packed)


def make_batch(
    fetch: MapFetcher | IterableFetcher, request: Any
) -> tuple[str, tuple[bytes, list[memoryview]]]:
    """Make a batch and pack it."""
    try:
        batch = fetch(request)
    except StopIteration as error:
        if isinstance(fetch, MapFetcher):
            raise RuntimeError("DataLoader: the dataset raised StopIteration") from error
        return "ended", pack(None)
    fetch.stage = "sent"
    try:
        return "batch", pack(batch)
    except Exception as error:
        error.add_note(
            f"a batch from a worker has to be pickled, and this one ({type(batch).__name__}) "
            "cannot be; return tensors, arrays, numbers and text, or use num_workers=0"
        )
        raise


# A clean start -----------------------------------------------------------------------------------


def reset_inherited_state(config: WorkerConfig) -> None:
    """Leave behind what a forked process has inherited and must not use."""
    die_with_parent(config.parent_pid)
    # Ctrl-C reaches every process of the terminal. The one that trains hears it and ends us.
    signal.signal(signal.SIGINT, lambda number, frame: None)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    switch(current(), listeners=())  # pictures and profilers belong to the process that trains
    for device in [name for name in generators._GENERATORS if name != "cpu"]:
        del generators._GENERATORS[device]  # a GPU cannot be used after a fork
    settings.set_num_threads(1)
    numba_config = getattr(sys.modules.get("numba"), "config", None)
    if numba_config is not None:  # numba is there, and not just being imported by a thread
        os.environ["NUMBA_NUM_THREADS"] = "1"
        numba_config.NUMBA_NUM_THREADS = 1


def die_with_parent(parent: int | None) -> None:
    """Let Linux kill this process when its parent ends, however that ends."""
    if parent is None or sys.platform != "linux":
        return
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    except (OSError, AttributeError):
        return  # no prctl in this C library: the end of the pipe has to do
    if os.getppid() != parent:
        os._exit(1)  # it ended before we had asked
