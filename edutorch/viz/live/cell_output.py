"""Shows output below the cell that started a thread, whichever cell runs now.

ipykernel sends what a thread displays to the cell that ran last. IPython reports the beginning
and the end of each cell; the threads that are new at its end were started by it.
"""

from __future__ import annotations

import sys
import threading
import weakref
from typing import Any


class ThreadCells:
    """Remembers which cell started each thread: the parent header of the thread's output.

    Args:
        shell: IPython's, of a kernel.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._known: weakref.WeakSet[threading.Thread] = weakref.WeakSet(threading.enumerate())
        self._cells: weakref.WeakKeyDictionary[threading.Thread, Any] = weakref.WeakKeyDictionary()
        shell.events.register("pre_run_cell", self.begin)
        shell.events.register("post_run_cell", self.end)

    def begin(self, info: Any = None) -> None:
        """Record which threads exist before a cell runs."""
        self._known = weakref.WeakSet(threading.enumerate())

    def end(self, result: Any = None) -> None:
        """Record which threads the cell has started."""
        parent = self._shell.get_parent()
        for thread in threading.enumerate():
            if thread not in self._known:
                self._cells[thread] = parent

    def cell(self) -> Any:
        """Return the message that ran the cell that started this thread; None: it still runs."""
        return self._cells.get(threading.current_thread())


_watched: ThreadCells | None = None


def watch_cells(shell: Any) -> None:
    """Remember from now on which cell starts which thread."""
    global _watched
    if _watched is None and hasattr(shell, "get_parent"):
        _watched = ThreadCells(shell)


def display_in_cell(shown: Any, **options: Any) -> Any:
    """Display something below the cell to which this thread belongs, else as usual."""
    from IPython.display import display

    parent = _watched.cell() if _watched is not None else None
    publisher: Any = getattr(sys.modules["IPython"].get_ipython(), "display_pub", None)
    if parent is None or not hasattr(publisher, "register_hook"):
        return display(shown, **options)

    def redirect(message: Any) -> Any:
        message["parent_header"] = parent.get("header", parent)
        return message

    publisher.register_hook(redirect)  # of this thread only
    try:
        return display(shown, **options)
    finally:
        publisher.unregister_hook(redirect)
