"""The only thing that a node executes for another one: the daemon of its own MPI.

The command comes as mpirun would give it to ssh. Its program has to be the daemon, its arguments
have to be of the forms below; it is started without a shell, from this node's own installation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import DistNetworkError
from .mpirun import find_mpi

__all__ = ["checked_command"]

FLAGS = {"--allow-run-as-root", "--daemonize", "--leave-session-attached"}
SETTINGS = {"--prtemca", "--pmixmca", "--mca"}
NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
VALUE = re.compile(r"[\w@.:;/,\[\]+= -]{0,1024}")
FORBIDDEN = ("agent", "launch", "prefix_dir", "component_path", "mca_base_component")
"""Settings that would name programs or folders with code."""


def checked_command(command: Sequence[object]) -> list[str]:
    """Return the daemon's command for this node.

    Args: command: as mpirun gave it: variables and the daemon's path as text for a shell, then its
        arguments.

    Raises: DistNetworkError: it is another program, or has other arguments.
    """
    if not command or not all(isinstance(part, str) for part in command):
        raise refused("nothing")
    program, *arguments = [str(part) for part in command]
    name = program.rpartition(";")[2].strip().rpartition("/")[2]
    if name != "prted":
        raise refused(name)
    checked = [str(Path(find_mpi().command).parent / "prted")]
    words = iter(arguments)
    for word in words:
        if word in FLAGS:
            checked += [] if word == "--daemonize" else [word]
            continue
        if word not in SETTINGS:
            raise refused(word)
        setting, value = next(words, ""), next(words, "").strip('"')
        if not NAME.fullmatch(setting) or not VALUE.fullmatch(value):
            raise refused(f"{word} {setting} {value}")
        if any(part in setting for part in FORBIDDEN):
            continue  # this node starts no others, and has its own folders
        checked += [word, setting, value]
    return checked


def refused(what: str) -> DistNetworkError:
    """Return the error for anything else than the daemon."""
    return DistNetworkError(
        "rendezvous", f"this node executes MPI's daemon only, not {what[:80]!r}"
    )
