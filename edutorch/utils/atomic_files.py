"""Atomic reads and writes of files, local and remote (with fsspec)."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import platform
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeGuard

from ..backends.platform import IS_POSIX
from ..errors import missing_extra
from .process import defer_interrupts

File = str | os.PathLike[str] | IO[bytes]
"""A path, a URL that fsspec knows, or an open file."""

_counter = itertools.count()
_writing: set[str] = set()
"""The temporary files that this process is currently writing."""


def read_bytes(f: Any) -> bytes:
    """Return all bytes of a path, of a URL that fsspec knows, or of an open file."""
    if hasattr(f, "read"):
        return f.read()
    if is_url(f):
        files, path = resolve_url(f, "load")
        return files.cat_file(path)
    return Path(f).read_bytes()


@contextlib.contextmanager
def name_file_in_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add the file name to errors of the operating system that have none (disk full)."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = os.fspath(path)
        raise


def write_atomically(f: Any, data: bytes) -> None:
    """Write to a path so that a crash leaves either the old file or the new one.

    The bytes are written to a temporary file in the same folder, flushed to disk, and renamed in
    one step, which an interrupt cannot break. An open file is simply written to. For a URL the
    guarantees depend on its file system: an upload to an object store becomes visible when it is
    complete, but a move may be a copy.
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
    remove_stale_files(target)
    temporary = target.with_name(temporary_name(target.name, os.getpid(), next(_counter)))
    try:
        _writing.add(temporary.name)
        with name_file_in_errors(target), open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        with defer_interrupts():
            os.replace(temporary, target)
            _writing.discard(temporary.name)
            fsync_folder(target.parent)
    except BaseException:
        with defer_interrupts():
            _writing.discard(temporary.name)
            temporary.unlink(missing_ok=True)
        raise


def fsync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk, where the system supports it."""
    if not IS_POSIX:
        return
    entry = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(entry)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems
            raise
    finally:
        os.close(entry)


# Temporary files of killed processes -----------------------------------------------------------


def temporary_name(name: str, process: int, number: int) -> str:
    return f".{name}.{platform.node()}.{process}.{number}.tmp"


def find_stale_files(name: str, names: Iterable[str]) -> list[str]:
    """Return those of `names` that are temporary files for `name` of processes that have ended.

    Files of other machines are ignored, because their processes cannot be checked.
    """
    start = f".{name}.{platform.node()}."
    stale = []
    for candidate in names:
        process = candidate.removeprefix(start).split(".")[0]
        if not (candidate.startswith(start) and candidate.endswith(".tmp") and process.isdigit()):
            continue
        own = int(process) == os.getpid()
        if (own and candidate not in _writing) or (not own and not is_process_alive(int(process))):
            stale.append(candidate)
    return stale


def remove_stale_files(target: Path) -> None:
    """Remove temporary files of processes that were killed while writing `target`."""
    for name in find_stale_files(target.name, os.listdir(target.parent)):
        with contextlib.suppress(OSError):  # another process may remove it at the same time
            target.with_name(name).unlink()


def is_process_alive(process: int) -> bool:
    """Return True if a process of this machine is running."""
    if not IS_POSIX:
        return process == os.getpid()  # a file in use cannot be removed there anyway
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


# Remote files -------------------------------------------------------------------------------


def is_url(f: object) -> TypeGuard[str]:
    """Return True for a URL: a scheme of at least two letters (one is a drive), then "://"."""
    return isinstance(f, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]+(://|::)", f) is not None


def resolve_url(url: str, op: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL, and the path in it.

    Raises: MissingExtraError: fsspec, or the package for this scheme, is not installed.
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
    """Write a remote file under a temporary name, which is then moved."""
    files, path = resolve_url(url, "save")
    if "file" in (files.protocol if isinstance(files.protocol, tuple) else (files.protocol,)):
        write_atomically(path, data)
        return
    folder, _, name = path.rpartition("/")
    start = f"{folder}/" if folder else ""
    with contextlib.suppress(OSError):  # no such folder yet, or it may not be listed
        known = [path.rpartition("/")[2] for path in files.ls(folder, detail=False)]
        for stale in find_stale_files(name, known):
            files.rm_file(start + stale)
    short = temporary_name(name, os.getpid(), next(_counter))
    _writing.add(short)
    try:
        files.pipe_file(start + short, data)
        with defer_interrupts():
            files.mv(start + short, path)
    except BaseException:
        with contextlib.suppress(OSError):
            files.rm_file(start + short)
        raise
    finally:
        _writing.discard(short)
