"""Watches a job of several ranks from the notebook that has started it."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...distributed.recorder import FOLDER_VARIABLE
from ..live.interpreter import display_in_cell, in_notebook
from .lanes import read_lanes
from .timeline import Timeline

__all__ = ["RanksView", "watch_ranks"]

PAUSE = 0.25
"""Seconds between two pictures."""


class RanksView:
    """The lanes of a job, newest collectives at the right.

    Attributes:
        timeline: the picture of this moment; after the block, the last one.
        pictures: how many there were.
    """

    def __init__(self, folder: Path) -> None:
        self.timeline = Timeline([])
        self.pictures = 0
        self._folder = folder
        self._ended = threading.Event()
        self._handle: Any = None
        self._thread = threading.Thread(target=self._run, name="edutorch ranks", daemon=True)

    def start(self) -> None:
        """Show the first picture, and go on beside the program."""
        if in_notebook():
            bundle = self.timeline._repr_mimebundle_()
            self._handle = display_in_cell(bundle, raw=True, display_id=True)
        self._thread.start()

    def end(self) -> None:
        """Show the last picture."""
        self._ended.set()
        self._thread.join()
        self._look()

    def _run(self) -> None:
        while not self._ended.wait(PAUSE):
            self._look()

    def _look(self) -> None:
        """Read the records of the newest job in the folder, and draw them."""
        jobs = sorted(self._folder.glob("*/"), key=lambda job: job.stat().st_mtime)
        lanes = []
        with suppress(OSError, ValueError):  # a record that is being made
            lanes = read_lanes(jobs[-1]) if jobs else []
        if not any(lane.boxes for lane in lanes):
            return
        self.timeline = Timeline(lanes)
        self.pictures += 1
        if self._handle is not None:
            self._handle.update(self.timeline._repr_mimebundle_(), raw=True)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return self.timeline._repr_mimebundle_()

    def __repr__(self) -> str:
        return self.timeline.text()


@contextmanager
def watch_ranks() -> Iterator[RanksView]:
    """Show a lane for each rank of the jobs that are started inside the block.

    A box is a collective, from its call until its result is there: a bucket of gradients leaves at
    its left end and has arrived at its right end. Between two boxes the rank computes. The picture
    is read from the records that all ranks write anyway, so it costs them nothing.

    >>> with viz.watch_ranks() as view:
    ...     pass  # distributed.notebook_launcher(train, nprocs=2)
    >>> view
    no rank has called a collective yet
    """
    before = os.environ.get(FOLDER_VARIABLE)
    folder = Path(tempfile.mkdtemp(prefix="edutorch-ranks-"))
    os.environ[FOLDER_VARIABLE] = str(folder)
    view = RanksView(folder)
    view.start()
    try:
        yield view
    finally:
        view.end()
        if before is None:
            del os.environ[FOLDER_VARIABLE]
        else:
            os.environ[FOLDER_VARIABLE] = before
        shutil.rmtree(folder, ignore_errors=True)
