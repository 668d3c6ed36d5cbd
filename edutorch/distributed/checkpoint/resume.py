"""Going on after an end: the newest complete checkpoint, and leaving when a scheduler says so."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Any

from ...ops import zeros
from ...serialization import CheckpointError
from ..collectives import all_reduce
from ..object_collectives import broadcast_object_list
from ..process_group import get_rank, group_of, is_initialized
from ..reduce_op import ReduceOp
from .filesystem import FileSystemReader
from .folder import Folder
from .metadata import INDEX_NAME

__all__ = ["StopRequest", "latest_checkpoint"]


def latest_checkpoint(folder: str | os.PathLike[str]) -> str | None:
    """Return the newest complete checkpoint in a folder, or None.

    It looks at the folders within, and at the folder itself. A checkpoint is complete if its index
    is there, and all files that the index names in their full sizes. All ranks call it, and get
    the answer of rank 0.

    Args:
        folder: a path, or a URL that fsspec knows.

    >>> from edutorch.distributed import checkpoint
    >>> for step in (9, 10):
    ...     _ = checkpoint.save({"step": step}, checkpoint_id=f"memory://doc/runs/step{step}")
    >>> checkpoint.latest_checkpoint("memory://doc/runs")
    'memory://doc/runs/step10'
    >>> checkpoint.latest_checkpoint("memory://doc/none")
    """
    if not is_initialized():
        return find_latest(folder)
    told: list[Any] = [None]
    if get_rank() == 0:
        told[0] = find_latest(folder)
    broadcast_object_list(told, src=0)
    return told[0]


def find_latest(folder: str | os.PathLike[str]) -> str | None:
    """Return the newest complete checkpoint of a folder, as this process sees it."""
    root = Folder(folder)
    complete = []
    for path in (root.name, *(f"{root.name}/{name}" for name in root.folders())):
        saved = time_of_complete(path)
        if saved is not None:
            complete.append((saved, path))
    return max(complete)[1] if complete else None


def time_of_complete(path: str) -> int | None:
    """Return when a checkpoint was saved; None if it is none, or not complete."""
    reader = FileSystemReader(path)
    sizes = reader.folder.sizes()
    if INDEX_NAME not in sizes:
        return None
    try:
        index = reader.read_index()
    except CheckpointError:
        return None
    files = [file for file in index["files"] if file["bytes"]]
    is_complete = all(sizes.get(file["name"]) == file["bytes"] for file in files)
    return int(index["time_ns"]) if is_complete else None


class StopRequest:
    """Whether somebody has asked this job to end: a scheduler, by SIGTERM.

    The launcher hands a signal to all ranks, which notice it at different steps. `received()` is
    a collective: all ranks get True in the same step, and can save together. A program that then
    leaves with 0 makes the launcher leave with 0.

        with StopRequest() as stop:
            for step in range(first, steps):
                train(step)
                if stop.received():
                    checkpoint.save(state, checkpoint_id=folder)
                    break

    Args:
        signals: those that ask for it.
        group: the ranks that ask together; by default all.

    >>> from edutorch.distributed import checkpoint
    >>> with checkpoint.StopRequest() as stop:
    ...     stop.received()
    False
    """

    def __init__(
        self, signals: Sequence[int] = (signal.SIGTERM,), group: Any = None
    ) -> None:  # fmt: skip
        self.signals, self.group = tuple(signals), group
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in self.signals}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number

    def received(self) -> bool:
        """Return True, on all ranks, if one of them has got a signal."""
        if not is_initialized():
            return self.signal is not None
        group = group_of(self.group, "StopRequest")
        flag = zeros(1) + float(self.signal is not None)
        all_reduce(flag, ReduceOp.MAX, group)
        return bool(flag.item())
