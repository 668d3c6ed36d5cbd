"""Fetches the page's commands out of a kernel that would only look at them after the cell.

ipykernel 7 handles a click on another thread (a subshell). ipykernel 6 puts it into the queue of
the thread that runs the loop, behind the running cell. So between two steps that queue is looked
through, and what is meant for our own widget is taken out; all else stays there in its order.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

POLL_EVERY = 0.01
"""Seconds between two looks into the queue: a look costs some microseconds."""


class CommQueue:
    """Where the messages for one widget lie while a cell runs. Call it to take them out."""

    def __init__(self, kernel: Any, comm_id: str) -> None:
        self.kernel = kernel
        self.comm_id = comm_id
        self._next = 0.0

    def __call__(self) -> bool:
        """Hand over what has come for the widget, and say whether there was something."""
        now = time.monotonic()
        if now < self._next or threading.current_thread() is not threading.main_thread():
            return False  # another thread's loop leaves the kernel free to do it
        self._next = now + POLL_EVERY
        self.kernel.shell_stream.flush()  # from the socket into the queue
        waiting = self.kernel.msg_queue._queue
        ours = [each for each in waiting if self._is_ours(each)]
        for our in ours:
            waiting.remove(our)
            self._hand_over(our[2][0])
        return bool(ours)

    def _is_ours(self, waiting: Any) -> bool:
        _, _, arguments = waiting
        if not arguments:
            return False
        # A message is checked and noted when it is unpacked, and would be refused a second time:
        # so this looks only at two of its parts.
        _, parts = self.kernel.session.feed_identities(arguments[0], copy=False)
        if json.loads(bytes(parts[1].buffer))["msg_type"] != "comm_msg":
            return False
        return json.loads(bytes(parts[4].buffer))["comm_id"] == self.comm_id

    def _hand_over(self, frames: Any) -> None:
        kernel, session = self.kernel, self.kernel.session
        identities, parts = session.feed_identities(frames, copy=False)
        message = session.deserialize(parts, content=True, copy=False)
        kernel.shell_handlers["comm_msg"](kernel.shell_stream, identities, message)
        # The page counts on this answer; that the cell still runs is said right after.
        for state, parent in (("idle", message), ("busy", kernel.get_parent("shell"))):
            session.send(
                kernel.iopub_socket, "status", {"execution_state": state}, parent=parent,
                ident=kernel._topic("status"),
            )  # fmt: skip


def comm_queue_of(widget: Any) -> Callable[[], bool] | None:
    """Return the mailbox of a displayed widget, None where its messages come by themselves."""
    kernel = current_kernel()
    comm = getattr(widget, "comm", None)
    if comm is None or not hasattr(kernel, "msg_queue") or kernel.shell_stream is None:
        return None
    return CommQueue(kernel, comm.comm_id)


def current_kernel() -> Any:
    """Return the Jupyter kernel we run in, None elsewhere, without importing anything of it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None)


def in_notebook() -> bool:
    """Say whether we run in a Jupyter kernel."""
    return current_kernel() is not None
