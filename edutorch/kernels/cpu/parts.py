"""One pool of threads for all kernels: large work is cut into as many parts as there are threads.

A kernel lets Python's lock go while it runs, so plain threads are enough. They wait without
turning round and round, and a forked process starts without any.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Any

from ...settings import get_num_threads

WORTH_SHARING = 200_000
"""With fewer numbers, handing half of them to another thread takes longer than computing them."""

_pool: ThreadPoolExecutor | None = None


def in_parts(kernel: Callable[..., None], count: int, *arguments: Any) -> None:
    """Call `kernel(start, stop, *arguments)` for the numbers from 0 to `count`, by all threads."""
    threads = get_num_threads() if count >= WORTH_SHARING else 1
    if threads == 1:
        kernel(0, count, *arguments)
        return
    cuts = [count * each // threads for each in range(threads + 1)]
    others = [
        pool(threads).submit(kernel, start, stop, *arguments) for start, stop in pairwise(cuts[1:])
    ]
    kernel(cuts[0], cuts[1], *arguments)
    wait(others)
    for each in others:
        each.result()


def pool(threads: int) -> ThreadPoolExecutor:
    """Return the pool, made anew if more threads are wanted than it has."""
    global _pool
    if _pool is None or _pool._max_workers < threads - 1:
        _pool = ThreadPoolExecutor(threads - 1, "edutorch-kernel")
    return _pool


def forget() -> None:
    """Drop the pool: its threads do not exist in a forked process."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)
