"""Files that are there whole or not at all, on this machine and where fsspec reaches."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import shutil
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..errors import missing_extra
from .deferred_interrupts import uninterrupted

_numbers = itertools.count()
_writing: set[str] = set()
"""The temporary files that this process is writing at the moment."""


def read_whole(f: Any) -> bytes:
    """Return all bytes of a path, of a URL that fsspec knows, or of an open file."""
    if hasattr(f, "read"):
        return f.read()
    if is_url(f):
        files, path = remote(f, "load")
        return files.cat_file(path)
    return Path(f).read_bytes()


@contextlib.contextmanager
def named_in_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let what the system says while a file is written name the file: that the disk is full."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = os.fspath(path)
        raise


def write_atomically(f: Any, data: bytes) -> None:
    """Write to a path so that a crash leaves either the old file or the new one.

    The bytes go into a temporary file beside it, reach the disk, and then take the
    old file's name in one step, which an interrupt cannot tear. An open file is just written
    to. With a URL it depends on the file system behind it how much of this it can promise: an
    upload to an object store shows when it is complete, but a move may be a copy.
    """
    if hasattr(f, "write"):
        f.write(data)
        return
    if is_url(f):
        write_remotely(f, data)
        return
    target = Path(os.path.realpath(f))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "There is no such folder", str(target.parent))
    sweep(target)
    temporary = target.with_name(temporary_name(target.name, os.getpid(), next(_numbers)))
    try:
        _writing.add(temporary.name)
        with named_in_errors(target), open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        with uninterrupted():
            os.replace(temporary, target)
            _writing.discard(temporary.name)
            reach_the_disk(target.parent)
    except BaseException:
        with uninterrupted():
            _writing.discard(temporary.name)
            temporary.unlink(missing_ok=True)
        raise


def reach_the_disk(folder: Path) -> None:
    """Wait until a folder's entries have reached the disk, where the system can say so."""
    if os.name != "posix":
        return
    entry = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(entry)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems
            raise
    finally:
        os.close(entry)


# What a crash has left behind ------------------------------------------------------------------


def temporary_name(name: str, process: int, number: int) -> str:
    return f".{name}.{socket.gethostname()}.{process}.{number}.tmp"


def left_behind(name: str, names: Iterable[str]) -> list[str]:
    """Return those of the names `found` that nobody is writing `name` through any more.

    Files of other machines are left alone: nobody here can tell.
    """
    start = f".{name}.{socket.gethostname()}."
    stale = []
    for candidate in names:
        process = candidate.removeprefix(start).split(".")[0]
        if not (candidate.startswith(start) and candidate.endswith(".tmp") and process.isdigit()):
            continue
        own = int(process) == os.getpid()
        if (own and candidate not in _writing) or (not own and not alive(int(process))):
            stale.append(candidate)
    return stale


def sweep(target: Path) -> None:
    """Remove what a process that was killed while writing `target` has left behind."""
    for name in left_behind(target.name, os.listdir(target.parent)):
        with contextlib.suppress(OSError):  # another process may sweep at the same time
            target.with_name(name).unlink()


def alive(process: int) -> bool:
    """Say whether a process of this machine is running."""
    if os.name != "posix":
        return process == os.getpid()  # a file in use cannot be removed there anyway
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


# Elsewhere ----------------------------------------------------------------------------------


def is_url(f: Any) -> bool:
    """Say whether it is a URL: a scheme of at least two letters (one is a drive), then "://"."""
    return isinstance(f, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]+(://|::)", f) is not None


def remote(url: str, op: str) -> tuple[Any, str]:
    """Return the file system behind a URL, and the path in it.

    Raises: MissingExtraError: fsspec, or what it needs for this scheme, is not installed.
    """
    try:
        import fsspec
    except ImportError as error:
        raise missing_extra("remote", f"{op}({url!r})", "fsspec is not installed") from error
    try:
        return fsspec.core.url_to_fs(url)
    except ImportError as error:  # s3fs, gcsfs, …: fsspec says which
        raise missing_extra("remote", f"{op}({url!r})", str(error)) from error


def write_remotely(url: str, data: bytes) -> None:
    """Write a file elsewhere: under a temporary name, which is then moved."""
    files, path = remote(url, "save")
    if "file" in (files.protocol if isinstance(files.protocol, tuple) else (files.protocol,)):
        write_atomically(path, data)
        return
    folder, _, name = path.rpartition("/")
    start = f"{folder}/" if folder else ""
    with contextlib.suppress(OSError):  # no such folder yet, or it may not be listed
        known = [path.rpartition("/")[2] for path in files.ls(folder, detail=False)]
        for stale in left_behind(name, known):
            files.rm_file(start + stale)
    short = temporary_name(name, os.getpid(), next(_numbers))
    _writing.add(short)
    try:
        files.pipe_file(start + short, data)
        with uninterrupted():
            files.mv(start + short, path)
    except BaseException:
        with contextlib.suppress(OSError):
            files.rm_file(start + short)
        raise
    finally:
        _writing.discard(short)
