"""The worker process of a DataLoader, which makes batches ahead of time.

Its main thread takes tasks out of an inbox, makes the batches and sends them. A second thread
fills the inbox. So a task is always read from the pipe at once, neither side can block the other,
and the worker notices when its parent process has ended: the pipe is closed.
"""

from __future__ import annotations

import os
import queue
import random
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from ... import settings
from ...backends.platform import c_function
from ...modes import current, switch
from ...ops import manual_seed
from ...ops import random as generators
from .batch_transport import pack, send
from .fetch import IterableFetcher, MapFetcher, WorkerConfig, WorkerInfo, set_worker_info
from .worker_errors import Failure, make_failure

GRACE_SECONDS = 5.0
"""Seconds in which a worker whose pipe is closed may finish its batch."""


class Inbox(threading.Thread):
    """Reads tasks from the pipe: (epoch, index of the batch, indices of its samples)."""

    def __init__(self, pipe: Connection) -> None:
        super().__init__(name="edutorch worker's inbox", daemon=True)
        self.pipe, self.epoch = pipe, 0
        self.tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def run(self) -> None:
        """Read tasks until the pipe is closed, then end the process after a grace period."""
        try:
            while True:
                task = self.pipe.recv()
                self.epoch = task[0]
                self.tasks.put(task)
        except (EOFError, OSError):
            self.tasks.put(None)
        time.sleep(GRACE_SECONDS)
        os._exit(1)


def main(config: WorkerConfig, pipe: Connection) -> None:
    """Run a worker until the pipe is closed."""
    reset_inherited_state(config)
    inbox = Inbox(pipe)
    inbox.start()
    try:
        make_batches(config, inbox, pipe, initialize_worker(config))
    except (BrokenPipeError, ConnectionResetError):
        pass  # the parent does not need the batch any more


def initialize_worker(config: WorkerConfig) -> Failure | None:
    """Seed the generators and call `worker_init_fn`; return its failure, if any."""
    seed = config.base_seed + config.worker
    random.seed(seed)
    manual_seed(seed)
    # As PyTorch mixes NumPy's seed: seeds that differ by 1 alone would give related streams.
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


def make_batches(
    config: WorkerConfig, inbox: Inbox, pipe: Connection, init_failure: Failure | None
) -> None:
    """Answer each task by ("batch" | "failed" | "ended", epoch, index) and a pickled batch."""
    epoch, fetch, ended = -1, None, False
    while (task := inbox.tasks.get()) is not None:
        if task[0] != inbox.epoch:
            continue  # of an epoch that was abandoned
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
    """Make a batch and pickle it."""
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


# Starting a process ------------------------------------------------------------------------------


def reset_inherited_state(config: WorkerConfig) -> None:
    """Reset inherited state that a forked process must not use."""
    die_with_parent(config.parent_pid)
    # Ctrl-C is sent to every process of the terminal. The parent handles it and ends the workers.
    signal.signal(signal.SIGINT, lambda number, frame: None)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    switch(current(), listeners=())  # live views and profilers belong to the parent
    for device in [name for name in generators._GENERATORS if name != "cpu"]:
        del generators._GENERATORS[device]  # a GPU cannot be used after a fork
    settings.set_num_threads(1)  # the workers share the cores: threads of each would wait in turn
    numba_config = getattr(sys.modules.get("numba"), "config", None)
    if numba_config is not None:  # numba is imported, and not just being imported by another thread
        os.environ["NUMBA_NUM_THREADS"] = "1"
        numba_config.NUMBA_NUM_THREADS = 1


def die_with_parent(parent: int | None) -> None:
    """Make Linux kill this process when its parent ends, for whatever reason."""
    control = c_function("prctl")
    if parent is None or control is None:
        return  # rely on the closed pipe
    control(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)  # the parent ended before the call
