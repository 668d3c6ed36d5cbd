"""One pool of threads for all kernels: large work is cut into as many parts as there are threads.

How a part gets from a kernel to a thread is in `work_queue.py`. Here is who helps: threads that
stay awake for about a millisecond after each part, and then sleep until a kernel wants them again.
So in a loop of training they are there at once, and a program that does something else has the
machine for itself.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ...settings import get_num_threads
from .work_queue import BOX, FAILURE, FULL, STATE, TEAM, finish, serve

WORTH_A_THREAD = 16_384
"""With fewer numbers, handing them to another thread takes longer than computing them."""

TURNS = 25_000
"""How often a thread looks into its box before it sleeps: 1 ms, at about 40 ns each."""

NAP = 50e-6
"""So many seconds a caller sleeps that has waited for as many turns: a core may be missing."""

SHORTEST_REST, LONGEST_REST = 0.001, 0.02
"""For so many seconds nobody is asked to help, after helpers have come too late."""

CACHE_LINE = 64


class Helper:
    """A thread that does parts of kernels.

    Attributes:
        box: the address of its box.
        asleep: whether it has to be woken up.
    """

    def __init__(self, name: str) -> None:
        memory = np.zeros(BOX + CACHE_LINE // 8, np.int64)
        self._words = memory[-memory.ctypes.data % CACHE_LINE // 8 :]
        self.box = self._words.ctypes.data
        self.asleep = False
        self._bell = threading.Semaphore(0)
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        while True:
            serve(self.box, TURNS)
            # To say so takes Python's lock, for which it may have waited; meanwhile a kernel that
            # thinks it awake may have filled the box.
            self.asleep = True
            if self._words[STATE] == FULL:
                self.asleep = False
            else:  # what comes now, whoever puts it there will do
                self._bell.acquire()

    def wake(self) -> None:
        """Have it look into its box again."""
        self.asleep = False
        self._bell.release()


class Team:
    """Threads that help with one kernel at a time.

    Attributes:
        users: who has them. The first to enter itself does, and Python's lock sees to it that there
            is one first; so Ctrl-C between two lines leaves nothing undecided.
        rest: until when they are left alone. Helpers that were awake and have not begun
            when the caller's own part is done lack a core: other programs need the machine, and
            what stays awake in vain only takes more of it from them.
    """

    def __init__(self) -> None:
        self.rest = self._penalty = 0.0
        self.users: dict[str, object] = {}
        self.helpers: list[Helper] = []
        self._words = np.zeros(1, np.int64)
        self._address = 0

    def call(self, kernel: Callable[..., None], count: int, parts: int, arguments: Any) -> None:
        """Do all parts of a kernel, and come back when nobody writes any more."""
        while len(self.helpers) < parts - 1:
            self.helpers.append(Helper(f"edutorch-kernel-{len(self.helpers) + 1}"))
            self._words = np.array([0, *(helper.box for helper in self.helpers)])
            self._address = self._words.ctypes.data
        self._words[0] = parts
        asleep = [helper for helper in self.helpers[: parts - 1] if helper.asleep]
        for each in asleep:
            each.wake()
        try:
            kernel(TEAM + self._address, count, *arguments)
        finally:
            found = self._wait()
        if not asleep:
            if found % FAILURE:
                self._penalty = min(4 * self._penalty + SHORTEST_REST, LONGEST_REST)
                self.rest = time.perf_counter() + self._penalty
            else:
                self._penalty /= 2
        if found >= FAILURE:
            raise RuntimeError(
                f"{kernel.__name__}: a part of this kernel has failed in another thread; "
                "after set_num_threads(1) the error itself is raised"
            )

    def _wait(self) -> int:
        """Wait for all parts, Ctrl-C or not: the arrays may be taken back then.

        Returns: what `finish` has found.
        """
        interrupt = None
        while True:
            try:
                found = finish(self._address, TURNS)
                if found >= 0:
                    break
                time.sleep(NAP)
            except BaseException as error:  # noqa: BLE001 (raised again, a moment later)
                interrupt = error
        if interrupt is not None:
            raise interrupt
        return found


def in_parts(
    kernel: Callable[..., None], count: int, *arguments: Any, work: int | None = None
) -> None:
    """Call `kernel(start, stop, *arguments)` for the rows from 0 to `count`, by all threads.

    Args:
        kernel: begins with `start, stop = share_out(start, stop)`; another one is called by this
            thread alone, part by part.
        work: how many numbers are touched; as many as rows if it is not said.
    """
    parts = parts_for(count, work)
    if parts == 1:
        kernel(0, count, *arguments)
        return
    me, team = object(), _team
    try:
        shares = "share_out" in kernel.__code__.co_names and time.perf_counter() > team.rest
        if shares and team.users.setdefault("now", me) is me:
            team.call(kernel, count, parts, arguments)
        else:  # the team rests, or is at work for another thread of the user's
            for part in range(parts):
                kernel(count * part // parts, count * (part + 1) // parts, *arguments)
    finally:
        if team.users.get("now") is me:
            team.users.clear()


def parts_for(count: int, work: int | None = None) -> int:
    """Return into how many parts `in_parts` cuts so many rows: at least 1.

    Sums that each part keeps for itself need as many places. For equal settings it is always the
    same number, so that results are.
    """
    touched = count if work is None else work
    if touched < 2 * WORTH_A_THREAD:
        return 1
    return max(1, min(get_num_threads(), count, touched // WORTH_A_THREAD))


_team = Team()


def forget() -> None:
    """Begin anew in a forked process, which has none of the threads."""
    global _team
    _team = Team()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)
