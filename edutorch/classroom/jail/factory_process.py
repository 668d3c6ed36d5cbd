"""The parent of all jails: a process that has imported edutorch, and forks.

It is started by exec and knows no exercise, no answer and no submission: what it knows, the
student's code could read in its own memory. It talks to nobody but the grader:

    control   the grader asks for a jail, and sends two sockets with it
    talk      one of them: it goes to the jail
    leash     the other one: when it ends, the jail is killed; over it goes why the jail has ended

When the grader ends, however it ends, so do these sockets, this process, and all jails.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
from collections.abc import Callable
from typing import NoReturn

from . import linux
from .bwrap import PRELOADED
from .isolation import raise_walls
from .settings import Settings
from .watcher import INTERVAL, Watcher

FIRST_UID = 1_000_000_000
UIDS_PER_FACTORY = 64


class Child:
    """A jail, as its parent sees it: its first process, its user, its leash."""

    def __init__(self, pid: int, uid: int | None, leash: socket.socket, proc: int) -> None:
        self.pid, self.uid, self.leash = pid, uid, leash
        self.pidfd = os.pidfd_open(pid)  # readable when the process has ended
        self.watcher = Watcher(proc, pid)
        self.reason = ""


class Factory:
    """Forks jails, watches and ends them.

    Args:
        control: where the grader asks for jails.
        proc: a descriptor of the folder /proc.
        many_users: whether there is the right to become other users.
        bwrap: returns the command line that runs a jail, for the descriptor to talk to it; None
            where this process makes the namespaces.
    """

    def __init__(
        self, control: socket.socket, settings: Settings, proc: int, many_users: bool,
        bwrap: Callable[[int], list[str]] | None = None,
    ) -> None:  # fmt: skip
        self.control, self.settings, self.proc = control, settings, proc
        self.first_uid = FIRST_UID + os.getpid() * UIDS_PER_FACTORY if many_users else None
        self.children: list[Child] = []
        self.pid, self.bwrap = os.getpid(), bwrap
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)  # orphans of the jails become our children
        self.poll = select.poll()
        self.poll.register(control, select.POLLIN)

    def run(self) -> None:
        """Serve the grader until it closes the control socket."""
        while True:
            timeout = INTERVAL * 1000 if self.children else None
            for descriptor, _ in self.poll.poll(timeout):
                if descriptor == self.control.fileno() and not self.accept():
                    return
            self.look_after()

    def accept(self) -> bool:
        """Fork a jail for a request. Returns False when the grader has gone."""
        request, descriptors, _, _ = socket.recv_fds(self.control, 1000, 2)
        if not request:
            for child in list(self.children):
                self.end(child)
            return False
        talk, leash = (socket.socket(fileno=descriptor) for descriptor in descriptors)
        uid = self.free_uid()
        pid = self.fork(talk, leash, uid)
        talk.close()
        child = Child(pid, uid, leash, self.proc)
        if self.bwrap is not None:
            child.watcher.at_start = PRELOADED
        self.children.append(child)
        self.poll.register(leash, select.POLLIN)
        self.poll.register(child.pidfd, select.POLLIN)
        return True

    def free_uid(self) -> int | None:
        if self.first_uid is None:
            return None
        taken = {child.uid for child in self.children}
        return next(uid for uid in range(self.first_uid, 1 << 31) if uid not in taken)

    def fork(self, talk: socket.socket, leash: socket.socket, uid: int | None) -> int:
        """Fork a process into a new PID namespace, of which it is the first one."""
        if self.bwrap is not None or not self.settings.has("pid namespace"):
            pid = os.fork()
            return pid or self.become_jail(talk, leash, uid)
        result, middle_result = os.pipe()
        start, middle_start = os.pipe()
        middle = os.fork()
        if middle == 0:
            # Only the children of a process enter its new namespace, and it cannot go back. So a
            # process in the middle makes the namespace, and leaves its child to us.
            linux.unshare(linux.CLONE_NEWPID)
            pid = os.fork()
            if pid == 0:
                os.close(middle_start)
                os.read(start, 1)  # until the one in the middle has gone: we are its parent then
                self.become_jail(talk, leash, uid)
            os.write(middle_result, str(pid).encode())
            os._exit(0)
        os.close(middle_result)
        os.waitpid(middle, 0)
        pid = int(os.read(result, 20))
        for descriptor in (result, start, middle_start):
            os.close(descriptor)
        return pid

    def become_jail(self, talk: socket.socket, leash: socket.socket, uid: int | None) -> NoReturn:
        """Raise the walls and run the student's code; does not return."""
        status = 1
        try:
            os.setsid()
            self.close_all_but(talk.fileno(), leash.fileno())
            if self.bwrap is not None:
                os.set_inheritable(talk.fileno(), True)
                words = self.bwrap(talk.fileno())
                os.execv(words[0], words)
            os.dup2(1, 2)  # what it prints goes nowhere: the log is a file outside
            raise_walls(self.settings, uid, self.pid, self.proc)
            leash.close()
            from .inside import serve

            serve(talk)
            status = 0
        except BaseException as error:  # noqa: BLE001  (it must not run on as the factory)
            try:
                leash.send(json.dumps({"broken": repr(error)[:500]}).encode())
            except OSError:
                pass
        finally:
            os._exit(status)

    def close_all_but(self, *keep: int) -> None:
        """Close what belongs to the factory, above all the leashes of other jails."""
        gc.disable()
        kept = sorted({*keep, self.proc})
        for low, high in zip([2, *kept], [*kept, 1 << 20], strict=True):
            os.closerange(low + 1, high)
        gc.enable()

    def look_after(self) -> None:
        """End the jails whose leash was let go, that have ended, or that pass a limit."""
        for child in list(self.children):
            if is_released(child.leash):
                child.reason = "released"
            elif has_ended(child.pid):
                child.reason = child.reason or "ended"
            elif self.settings.has("watcher"):
                child.reason = child.watcher.passed_limit(self.settings)
            if child.reason:
                self.end(child)
        if self.has_orphans:
            self.kill_orphans()

    def end(self, child: Child) -> None:
        """Kill a jail, wait until all its processes are gone, and report."""
        self.children.remove(child)
        self.poll.unregister(child.leash)
        self.poll.unregister(child.pidfd)
        os.close(child.pidfd)
        kill(child.pid)
        # The first process of a PID namespace takes all others with it, and is reaped after them.
        status = reap(child.pid)
        if self.has_orphans:
            self.kill_orphans()
        try:
            child.leash.send(json.dumps({"reason": child.reason, "status": status}).encode())
        except OSError:
            pass
        child.leash.close()

    @property
    def has_orphans(self) -> bool:
        """Whether processes of a jail may outlive its first one, as seen from here."""
        return self.bwrap is not None or not self.settings.has("pid namespace")

    def kill_orphans(self) -> None:
        """Kill what a jail has left without a PID namespace: it has become a child of ours."""
        watcher = Watcher(self.proc, self.pid)
        while orphans := set(watcher.children(self.pid)) - {child.pid for child in self.children}:
            for pid in orphans:  # their own children become ours in the next round
                kill(pid)
                reap(pid)


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def is_released(leash: socket.socket) -> bool:
    """Return whether the grader has closed its end."""
    try:
        return not leash.recv(1, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def has_ended(pid: int) -> bool:
    """Return whether a child has ended; it stays to be reaped."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def reap(pid: int) -> int:
    """Wait for the end of a child, and return its exit code; minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
