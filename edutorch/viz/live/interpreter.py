"""Everything by which a watched loop reaches into Python and into Jupyter's kernel.

A live view works without any of it: messages then take longer, and more of the loop's time. Each
place can be turned off by itself, or all of them at once:

    viz.settings.pin_sender = False
    viz.settings.enabled = False

| setting | what changes | for how long | what it is for |
|---|---|---|---|
| `pause_collector` | `gc.disable()` | a sampled step | a third of a large full sample |
| `switch_interval` | `sys.setswitchinterval` | a watched loop | values come 20 ms earlier |
| `pin_sender` | the CPU affinity of a thread (Linux) | a watched loop | 0.4 ms a message |
| `direct_sender` | the queue of the sending thread | each message | 0.1 ms a message |
| `fetch_commands` | the shell queue of ipykernel 6 | a watched loop | clicks reach a running loop |
| `own_cell` | the cell of what a thread shows | each output | it appears below its own cell |

A setting counts from the next loop, message or output on. Everything is put back as it was.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from ...backends.platform import c_function

JSON = dict[str, Any]
"""What is read from JSON, or becomes JSON: a part of a message."""


@dataclass(slots=True)
class Settings:
    """What a live view may change outside of itself: `viz.settings`.

    Attributes:
        enabled: whether any of it happens.
        pause_collector: pause the garbage collector while a step is sampled.
        switch_interval: seconds after which a watched loop gives Python's lock to a thread that
            waits for it; None: as set by the user. A shorter one of the user's stays.
        pin_sender: keep the thread that sends messages on the loop's processor.
        direct_sender: put messages into the queue of that thread, past widget, comm and session.
        fetch_commands: take the page's messages out of the queue behind a running cell.
        own_cell: show what a thread displays below the cell that started the thread.

    >>> viz.settings.pin_sender
    True
    """

    enabled: bool = True
    pause_collector: bool = True
    switch_interval: float | None = 0.0005
    pin_sender: bool = True
    direct_sender: bool = True
    fetch_commands: bool = True
    own_cell: bool = True


settings = Settings()
"""The settings of this process."""


# Python ---------------------------------------------------------------------------------


class SwitchInterval:
    """Shortens Python's switch interval as long as any loop is watched.

    Values and pictures pass through several threads on their way to the page, and each waits this
    long at each stage: by default five milliseconds.
    """

    def __init__(self) -> None:
        self._watched = 0  # loops, perhaps in several threads
        self._usual = 0.0

    def shorten(self) -> None:
        """Record that one more loop is watched."""
        self._watched += 1
        if self._watched == 1:
            self._usual = sys.getswitchinterval()
            if settings.enabled and settings.switch_interval is not None:
                sys.setswitchinterval(min(settings.switch_interval, self._usual))

    def restore(self) -> None:
        """Record that a loop is over: after the last one, the interval is what it was."""
        self._watched -= 1
        if not self._watched:
            sys.setswitchinterval(self._usual)


switch_interval = SwitchInterval()


class CollectorPause:
    """Pauses the garbage collector in a sampled step.

    A sample creates so many objects that live on that all would be searched again and again. What
    the user has turned off stays off.
    """

    def __init__(self) -> None:
        self._paused = False  # by us

    def __call__(self, paused: bool) -> None:
        """Pause the collector, or let it run again."""
        if not paused and self._paused:
            gc.enable()
            self._paused = False
        elif paused and settings.enabled and settings.pause_collector and gc.isenabled():
            gc.disable()
            self._paused = True


# The thread that sends ------------------------------------------------------------------

EVERY = 0.1
"""Seconds after which the loop's processor is checked again: the system moves it now and then."""


class ThreadAffinity:
    """Makes another thread run on the processor of the calling one (on Linux).

    Jupyter sends from a thread of its own, and Python lets only one of the two run at a time. For
    one message they switch some five times. On two processors, each wakes the other one, which
    begins with empty caches. On the same one a message takes 0.4 ms less of the loop's time (2.1
    instead of 2.5, all in all), and is gone after 0.3 ms instead of 2.

    Args:
        thread: its id in the system (`threading.Thread.native_id`); None: there is none.
    """

    def __init__(self, thread: int | None) -> None:
        self._thread = thread
        self._current_cpu = c_function("sched_getcpu")
        self._last = -1  # the processor it was last pinned to
        self._due = 0.0

    def pin_to_current(self) -> None:
        """Have the thread run on this processor from now on."""
        now = time.monotonic()
        if self._thread is None or self._current_cpu is None or now < self._due:
            return
        if not (settings.enabled and settings.pin_sender):
            self.unpin()
            return
        self._due = now + EVERY
        cpu = self._current_cpu()
        if cpu == self._last:
            return
        self._last = cpu
        try:
            if cpu in allowed_cpus(self._thread):
                os.sched_setaffinity(self._thread, {cpu})
        except OSError:  # it has ended, or the system forbids it
            self._thread = None

    def unpin(self) -> None:
        """Let the thread run wherever it could before."""
        if self._thread is None or self._last < 0:
            return
        self._last, self._due = -1, 0.0
        try:
            os.sched_setaffinity(self._thread, allowed_cpus(self._thread))
        except OSError:
            self._thread = None


@cache
def allowed_cpus(thread: int) -> frozenset[int]:
    """Return where a thread may run; read once, because later another view may have pinned it."""
    return frozenset(os.sched_getaffinity(thread))


def sending_thread() -> int | None:
    """Return the native id of the thread that sends this Jupyter kernel's output, if it has one."""
    sender = getattr(current_kernel(), "iopub_thread", None)
    return getattr(getattr(sender, "thread", None), "native_id", None)


NEEDED = ("_events", "_handle_event", "_really_send", "io_loop", "thread")
"""What of ipykernel's `IOPubThread` is used, as in versions 6 and 7."""


class FastSender:
    """Sends messages of one comm through as few layers as possible: `sender(data, buffers)`.

    A message comes thirty times a second, and between two of them the loop has used all caches for
    itself. So each layer of Python on the way is slow, as on its first run: widget, comm and
    session take 16 microseconds when nothing else runs, and ten times that beside a loop. Here the
    same frames are made (by Jupyter's own `Session.serialize`, which signs them) and put at the
    same place, in the queue of the sending thread; and the thread is woken by its event loop
    instead of by a socket.

    Args:
        comm: of a widget. In anything but a kernel of ipykernel nothing is sent this way.
    """

    def __init__(self, comm: Any) -> None:
        kernel = current_kernel()
        self._comm, self._kernel = comm, kernel
        self._thread: Any = getattr(kernel, "iopub_thread", None)
        self._session: Any = getattr(kernel, "session", None)
        self._parent: JSON | None = None  # of the messages so far…
        self._parent_header: JSON = {}  # …and the part of it that each message repeats
        self.possible = (
            comm is not None and self._session is not None
            and all(hasattr(self._thread, name) for name in NEEDED)
            and hasattr(self._thread.io_loop, "asyncio_loop")
            and not (self._session.adapt_version or self._session.debug)
        )  # fmt: skip

    def __call__(self, data: JSON, buffers: list[bytes]) -> bool:
        """Send one message. False: it has to be sent the usual way."""
        # A session belongs to one process: after a fork, its sockets are the parent's.
        if not self.possible or self._comm._closed or os.getpid() != self._session.pid:
            return False
        kernel, session, thread = self._kernel, self._session, self._thread
        if not (settings.enabled and settings.direct_sender and thread.thread.is_alive()):
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


# The page's commands --------------------------------------------------------------------

POLL_EVERY = 0.01
"""Seconds between two searches of the queue: each costs some microseconds."""


class CommQueue:
    """The queued messages for one widget while a cell runs. Call it to take them out.

    ipykernel 7 handles a click on another thread (a subshell). ipykernel 6 puts it into the queue
    of the thread that runs the loop, behind the running cell. So between two steps that queue is
    searched, and the messages for our own widget are taken out; all else stays there in its order.
    """

    def __init__(self, kernel: Any, comm_id: str) -> None:
        self.kernel, self.comm_id = kernel, comm_id
        self._next = 0.0

    def __call__(self) -> bool:
        """Deliver what has come for the widget, and return whether there was something."""
        now = time.monotonic()
        if now < self._next or threading.current_thread() is not threading.main_thread():
            return False  # another thread's loop leaves the kernel free to do it
        self._next = now + POLL_EVERY
        if not (settings.enabled and settings.fetch_commands):
            return False
        self.kernel.shell_stream.flush()  # from the socket into the queue
        waiting = self.kernel.msg_queue._queue
        ours = [message for message in waiting if self._is_ours(message)]
        for our in ours:
            waiting.remove(our)
            self._deliver(our[2][0])
        return bool(ours)

    def _is_ours(self, waiting: tuple[object, object, tuple[Any, ...]]) -> bool:
        _, _, arguments = waiting
        if not arguments:
            return False
        # Unpacking a message checks and registers it, so that it would be refused a second time:
        # therefore only two of its parts are read.
        _, parts = self.kernel.session.feed_identities(arguments[0], copy=False)
        if json.loads(bytes(parts[1].buffer))["msg_type"] != "comm_msg":
            return False
        return json.loads(bytes(parts[4].buffer))["comm_id"] == self.comm_id

    def _deliver(self, frames: list[Any]) -> None:
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


def comm_queue_of(widget: object) -> Callable[[], bool] | None:
    """Return the queue of a displayed widget, None where its messages arrive by themselves."""
    kernel = current_kernel()
    comm = getattr(widget, "comm", None)
    if comm is None or not hasattr(kernel, "msg_queue") or kernel.shell_stream is None:
        return None
    return CommQueue(kernel, comm.comm_id)


def answer_on_any_thread(comm: Any) -> None:
    """Have the page's messages handled on another thread than the loop's.

    ipykernel 7.4 sends a page's message to the thread that last wrote on the same comm: here the
    loop's, which is busy. None leaves it to the page, which asks for a thread of its own (a
    subshell), as with every other ipykernel 7.
    """
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = None


def current_kernel() -> Any:
    """Return the Jupyter kernel this code runs in, None elsewhere, without importing any of it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None)


def in_notebook() -> bool:
    """Return True if this code runs in a Jupyter kernel."""
    return current_kernel() is not None


# The cell of a thread -------------------------------------------------------------------


class ThreadCells:
    """Remembers which cell started each thread: the parent header of the thread's output.

    ipykernel sends what a thread displays to the cell that ran last. IPython reports the beginning
    and the end of each cell; the threads that are new at its end were started by it.

    Args:
        shell: IPython's, of a kernel.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._known: weakref.WeakSet[threading.Thread] = weakref.WeakSet(threading.enumerate())
        self._cells: weakref.WeakKeyDictionary[threading.Thread, JSON]
        self._cells = weakref.WeakKeyDictionary()
        shell.events.register("pre_run_cell", self.begin)
        shell.events.register("post_run_cell", self.end)

    def begin(self, info: object = None) -> None:
        """Record which threads exist before a cell runs."""
        self._known = weakref.WeakSet(threading.enumerate())

    def end(self, result: object = None) -> None:
        """Record which threads the cell has started."""
        parent = self._shell.get_parent()
        for thread in threading.enumerate():
            if thread not in self._known:
                self._cells[thread] = parent

    def cell(self) -> JSON | None:
        """Return the message that ran the cell that started this thread; None: it still runs."""
        return self._cells.get(threading.current_thread())


_watched: ThreadCells | None = None


def watch_cells(shell: object) -> None:
    """Remember from now on which cell starts which thread."""
    global _watched
    if _watched is None and hasattr(shell, "get_parent"):
        _watched = ThreadCells(shell)


def display_in_cell(shown: object, **options: Any) -> Any:
    """Display something below the cell to which this thread belongs, else as usual."""
    from IPython.display import display

    own_cell = settings.enabled and settings.own_cell
    parent = _watched.cell() if _watched is not None and own_cell else None
    publisher: Any = getattr(sys.modules["IPython"].get_ipython(), "display_pub", None)
    if parent is None or not hasattr(publisher, "register_hook"):
        return display(shown, **options)

    def redirect(message: JSON) -> JSON:
        message["parent_header"] = parent.get("header", parent)
        return message

    publisher.register_hook(redirect)  # of this thread only
    try:
        return display(shown, **options)
    finally:
        publisher.unregister_hook(redirect)
