"""`torch.cuda.nvtx`: named ranges and marks, which NVIDIA Nsight shows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .driver import driver

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

_thread = threading.local()


def range_push(msg: str) -> int:
    """Begin a named range, and return its depth, from 0."""
    driver().range_push(msg)
    depth = getattr(_thread, "depth", 0)
    _thread.depth = depth + 1
    return depth


def range_pop() -> int:
    """End the innermost range, and return its depth; -1 if there is none."""
    depth = getattr(_thread, "depth", 0)
    if depth == 0:
        return -1
    driver().range_pop()
    _thread.depth = depth - 1
    return depth - 1


def range_start(msg: str) -> int:
    """Begin a range that `range_end` ends; here one of those of `range_push`."""
    return range_push(msg)


def range_end(range_id: int) -> None:
    """End a range that `range_start` has begun, and those inside it."""
    while getattr(_thread, "depth", 0) > range_id:
        range_pop()


def mark(msg: str) -> None:
    """Mark a point in time."""
    driver().mark(msg)


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Name what runs inside a `with` block, or a decorated function; `msg` is formatted."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
