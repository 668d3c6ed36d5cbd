"""Passes the values of a step to the thread that sends them, through as few layers as possible.

A message comes thirty times a second, and between two of them the loop has used all caches for
itself. So each layer of Python on the way is slow, as on its first run: widget, comm and session
take 16 microseconds when nothing else runs, and ten times that beside a loop. Here the same frames
are made (by Jupyter's own `Session.serialize`, which signs them) and put at the same place, in the
queue of the sending thread; and the thread is woken by its event loop instead of by a socket.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from .comm_queue import current_kernel

NEEDED = ("_events", "_handle_event", "_really_send", "io_loop", "thread")
"""What of ipykernel's `IOPubThread` is used, as in versions 6 and 7."""


class FastSender:
    """Sends messages of one comm: `sender(data, buffers)`.

    Args:
        comm: of a widget. In anything but a kernel of ipykernel nothing is sent this way.
    """

    def __init__(self, comm: Any) -> None:
        kernel = current_kernel()
        self._comm, self._kernel = comm, kernel
        self._thread: Any = getattr(kernel, "iopub_thread", None)
        self._session: Any = getattr(kernel, "session", None)
        self._parent: Any = None  # of the messages so far, and the part of it that each repeats
        self._parent_header: dict[str, Any] = {}
        self.possible = (
            comm is not None and self._session is not None
            and all(hasattr(self._thread, name) for name in NEEDED)
            and hasattr(self._thread.io_loop, "asyncio_loop")
            and not (self._session.adapt_version or self._session.debug)
        )  # fmt: skip

    def __call__(self, data: dict[str, Any], buffers: list[bytes]) -> bool:
        """Send one message. False: it has to be sent the usual way."""
        if not self.possible or self._comm._closed or os.getpid() != self._session.pid:
            return False
        kernel, session, thread = self._kernel, self._session, self._thread
        if not thread.thread.is_alive():
            return False
        parent = kernel.get_parent()
        if parent is not self._parent:
            self._parent, self._parent_header = parent, parent.get("header", {})
        message = {
            "header": session.msg_header("comm_msg"),
            "parent_header": self._parent_header,
            "metadata": {},
            "content": {"data": data, "comm_id": self._comm.comm_id},
        }
        frames = session.serialize(message, self._comm.topic) + buffers
        # The queue of everything to be sent, in order: so a step never overtakes its picture.
        thread._events.append(partial(thread._really_send, frames))
        thread.io_loop.asyncio_loop.call_soon_threadsafe(thread._handle_event, None)
        return True
