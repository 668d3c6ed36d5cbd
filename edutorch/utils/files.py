"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import socket
from pathlib import Path
from typing import Any

_numbers = itertools.count()


def read_whole(f: Any) -> bytes:
    """Return all bytes of a path or of an open file."""
    return f.read() if hasattr(f, "read") else Path(f).read_bytes()


def write_atomically(f: Any, data: bytes) -> None:
    """Write to a path so that a crash leaves either the old file or the new one.

    The bytes go into a temporary file beside it, reach the disk, and then take the
    old file's name in one step. An open file is just written to.
    """
    if hasattr(f, "write"):
        f.write(data)
        return
    target = Path(os.path.realpath(f))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "There is no such folder", str(target.parent))
    sweep(target)
    temporary = target.with_name(temporary_name(target, os.getpid(), next(_numbers)))
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # the folder's entry has to reach the disk as well
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def temporary_name(target: Path, process: int, number: int) -> str:
    return f".{target.name}.{socket.gethostname()}.{process}.{number}.tmp"


def sweep(target: Path) -> None:
    """Remove what a process that was killed while writing `target` has left behind."""
    start = f".{target.name}.{socket.gethostname()}."
    for found in target.parent.glob(f".{glob_escaped(target.name)}.*.tmp"):
        process = found.name.removeprefix(start).split(".")[0]
        if found.name.startswith(start) and process.isdigit() and not alive(int(process)):
            with contextlib.suppress(OSError):  # another process may sweep at the same time
                found.unlink()


def glob_escaped(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def alive(process: int) -> bool:
    """Say whether a process of this machine is running."""
    if os.name != "posix":
        return process == os.getpid()  # a file in use cannot be removed there anyway
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
