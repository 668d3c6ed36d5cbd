"""Fetches the page's commands from a kernel that would only handle them after the cell.

ipykernel 7 handles a click on another thread (a subshell). ipykernel 6 puts it into the queue of
the thread that runs the loop, behind the running cell. So between two steps that queue is
searched, and the messages for our own widget are taken out; all else stays there in its order.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

POLL_EVERY = 0.01
"""Seconds between two searches of the queue: each costs some microseconds."""


class CommQueue:
    """The queued messages for one widget while a cell runs. Call it to take them out."""

    def __init__(self, kernel: Any, comm_id: str) -> None:
        self.kernel = kernel
        self.comm_id = comm_id
        self._next = 0.0

    def __call__(self) -> bool:
        """Deliver what has come for the widget, and return whether there was something."""
        now = time.monotonic()
        if now < self._next or threading.current_thread() is not threading.main_thread():
            return False  # another thread's loop leaves the kernel free to do it
        self._next = now + POLL_EVERY
        self.kernel.shell_stream.flush()  # from the socket into the queue
        waiting = self.kernel.msg_queue._queue
        ours = [message for message in waiting if self._is_ours(message)]
        for our in ours:
            waiting.remove(our)
            self._deliver(our[2][0])
        return bool(ours)

    def _is_ours(self, waiting: Any) -> bool:
        _, _, arguments = waiting
        if not arguments:
            return False
        # Unpacking a message checks and registers it, so that it would be refused a second time:
        # therefore only two of its parts are read.
        _, parts = self.kernel.session.feed_identities(arguments[0], copy=False)
        if json.loads(bytes(parts[1].buffer))["msg_type"] != "comm_msg":
            return False
        return json.loads(bytes(parts[4].buffer))["comm_id"] == self.comm_id

    def _deliver(self, frames: Any) -> None:
        kernel, session = self.kernel, self.kernel.session
        identities, parts = session.feed_identities(frames, copy=False)
        message = session.deserialize(parts, content=True, copy=False)
        kernel.shell_handlers["comm_msg"](kernel.shell_stream, identities, message)
        # The page relies on this answer; right after it, the kernel is reported as busy again.
        for state, parent in (("idle", message), ("busy", kernel.get_parent("shell"))):
            session.send(
                kernel.iopub_socket, "status", {"execution_state": state}, parent=parent,
                ident=kernel._topic("status"),
            )  # fmt: skip


def comm_queue_of(widget: Any) -> Callable[[], bool] | None:
    """Return the queue of a displayed widget, None where its messages arrive by themselves."""
    kernel = current_kernel()
    comm = getattr(widget, "comm", None)
    if comm is None or not hasattr(kernel, "msg_queue") or kernel.shell_stream is None:
        return None
    return CommQueue(kernel, comm.comm_id)


def current_kernel() -> Any:
    """Return the Jupyter kernel this code runs in, None elsewhere, without importing any of it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None)


def in_notebook() -> bool:
    """Return True if this code runs in a Jupyter kernel."""
    return current_kernel() is not None
