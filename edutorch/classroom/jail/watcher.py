"""Sums what the processes of a jail use together, and says which limit is passed.

Limits of the kernel are by process: 16 processes of 1 GiB are 16 GiB. So the parent of the jails
looks at each of them many times a second, from outside of its PID namespace.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from .settings import Settings

INTERVAL = 0.03
"""Seconds between two looks. A process writes at most some 100 MiB of memory meanwhile."""


class Usage(NamedTuple):
    """What the processes of a jail use: bytes of memory of their own, processes and threads."""

    memory: int = 0
    threads: int = 0


class Watcher:
    """Looks at one jail.

    Args:
        proc: a descriptor of the folder /proc.
        pid: the jail's first process, as seen from outside.
    """

    def __init__(self, proc: int, pid: int) -> None:
        self.proc, self.pid = proc, pid
        self.at_start = self.usage_of(pid).memory

    def passed_limit(self, settings: Settings) -> str:
        """Return which limit is passed, as "memory"; "" if none is."""
        total = self.usage()
        if total.memory > settings.memory:
            return "memory"
        # The kernel counts threads, too; there may be more only where that wall is missing.
        return "processes" if total.threads > settings.processes else ""

    def usage(self) -> Usage:
        """Return what all processes of the jail use, beyond what the first one had at its start."""
        memory = threads = 0
        for pid in self.processes():
            usage = self.usage_of(pid)
            memory += max(0, usage.memory - self.at_start)
            threads += usage.threads
        return Usage(memory, threads)

    def processes(self) -> list[int]:
        """Return the jail's processes: the first one, and all that come from it."""
        processes = [self.pid]
        for pid in processes:  # it grows
            processes += self.children(pid)
        return processes

    def children(self, pid: int) -> list[int]:
        try:
            folder = os.open(f"{pid}/task", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.proc)
        except OSError:  # it has ended
            return []
        try:
            texts = [self.read(f"{pid}/task/{thread}/children") for thread in os.listdir(folder)]
        finally:
            os.close(folder)
        return [int(child) for text in texts for child in text.split()]

    def usage_of(self, pid: int) -> Usage:
        memory = threads = 0
        for line in self.read(f"{pid}/status").split(b"\n"):
            name, _, value = line.partition(b":")
            if name in (b"RssAnon", b"RssShmem", b"VmSwap"):
                memory += int(value.split()[0]) * 1024
            elif name == b"Threads":
                threads = int(value)
        return Usage(memory, threads)

    def read(self, path: str) -> bytes:
        """Return the content of a file in /proc; nothing if its process has ended."""
        try:
            descriptor = os.open(path, os.O_RDONLY, dir_fd=self.proc)
        except OSError:
            return b""
        try:
            return os.read(descriptor, 1 << 16)
        except OSError:
            return b""
        finally:
            os.close(descriptor)
